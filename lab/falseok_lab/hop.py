"""A hop that does not arrive: decode is sent to fetch a cache from where nobody answers.

Prefill computes and offers the cache as for any other request. What decode is told differs in two places: another
engine id, so that it has to shake hands, and a port nobody listens on. Its handshake waits 5 s for an answer, and the
request waits with it (`WAITING_FOR_REMOTE_KVS`): long enough for a client to lose patience. To prefill it looks as
if decode had died: its offer expires.
"""

from collections.abc import Mapping
from typing import Any

import httpx

from falseok_lab.asking import PATHS
from falseok_lab.router import prefill_request

CLOSED_PORT = 9
"""The discard service, which nothing has offered for decades."""


def sent_nowhere(
    client: httpx.Client, prefill_url: str, endpoint: str, body: dict[str, Any], headers: Mapping[str, str]
) -> dict[str, Any]:
    """The body for decode, after prefill has computed its part.

    Raises:
        httpx.HTTPError: prefill could not be asked, or refused.
    """
    path = PATHS[endpoint]
    answer = client.post(prefill_url + path, json=prefill_request(body, path), headers=dict(headers))
    answer.raise_for_status()
    params = answer.json()["kv_transfer_params"]
    gone = {"remote_engine_id": f"{params['remote_engine_id']}-gone", "remote_port": CLOSED_PORT}
    return body | {"kv_transfer_params": params | gone}
