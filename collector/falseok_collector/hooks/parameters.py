"""Reads `kv_transfer_params`, which come from a client or a router and may hold anything.

What does not fit is named, not raised: a client must not be able to switch a hook off.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from falseok_collector.identity import bounded_id, transfer_id_of

_INT64_MAX = 2**63 - 1
_SHORT_CHARACTERS = 256
"""Ids that surely need no cutting."""
_SEQUENCES = (list, tuple)


class TransferParameters(msgspec.Struct):
    """What a request says of its transfer, and the names of the fields that hold something else than they should."""

    leg: str = "local"
    remote_engine_id: str = ""
    remote_request_id: str = ""
    remote_num_tokens: int = 0
    remote_block_ids: list[list[int]] | None = None
    """Copied group by group; whether the ids are whole numbers is only known once they are digested."""
    malformed: list[str] = []

    @property
    def transfer_id(self) -> str:
        """The transfer the parameters point at; empty when they point at none."""
        return transfer_id_of(self.remote_engine_id, self.remote_request_id)


def read_parameters(parameters: Any) -> TransferParameters:
    """Take the fields FalseOK uses out of `Request.kv_transfer_params` (vLLM 0.26 to 0.33).

    Work is bounded by the number of KV groups times a copy of their block ids. Never raises for what a client
    can send as JSON.
    """
    if not parameters:
        return TransferParameters()
    if type(parameters) is dict and (plain := _plain(parameters)) is not None:
        return plain
    if not isinstance(parameters, Mapping):
        return TransferParameters(malformed=["kv_transfer_params"])
    malformed: list[str] = []
    return TransferParameters(
        leg=leg_of(parameters),
        remote_engine_id=_text(parameters, "remote_engine_id", malformed),
        remote_request_id=_text(parameters, "remote_request_id", malformed),
        remote_num_tokens=_count(parameters, "remote_num_tokens", malformed),
        remote_block_ids=_groups(parameters, "remote_block_ids", malformed),
        malformed=malformed,
    )


def _plain(parameters: dict[str, Any]) -> TransferParameters | None:
    """The usual case, field by field as a router of today sends it; None for anything else."""
    get = parameters.get
    engine, request = get("remote_engine_id"), get("remote_request_id")
    tokens, blocks = get("remote_num_tokens"), get("remote_block_ids")
    if engine is None and request is None and tokens is None:  # a prefill leg
        engine, request, tokens = "", "", 0
    if not (
        type(engine) is type(request) is str
        and type(tokens) is int
        and 0 <= tokens <= _INT64_MAX
        and len(engine) + len(request) < _SHORT_CHARACTERS
        and (blocks is None or type(blocks) in _SEQUENCES)
    ):
        return None
    groups = None
    if blocks:
        for group in blocks:
            if type(group) not in _SEQUENCES:
                return None
        groups = [list(group) for group in blocks]
    return TransferParameters(leg_of(parameters), engine, request, tokens, groups)


def leg_of(parameters: Mapping[str, Any]) -> str:
    """Which half of a disaggregated request this is: prefill, decode or local."""
    if parameters.get("do_remote_decode"):
        return "prefill"
    return "decode" if parameters.get("do_remote_prefill") else "local"


def _text(parameters: Mapping[str, Any], name: str, malformed: list[str]) -> str:
    value = parameters.get(name)
    if value is None:
        return ""
    if isinstance(value, str):
        return bounded_id(value)
    malformed.append(name)
    return ""


def _count(parameters: Mapping[str, Any], name: str, malformed: list[str]) -> int:
    value = parameters.get(name)
    if value is None:
        return 0
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _INT64_MAX:
        return value
    malformed.append(name)
    return 0


def _groups(parameters: Mapping[str, Any], name: str, malformed: list[str]) -> list[list[int]] | None:
    value = parameters.get(name)
    if not value:
        return None
    if isinstance(value, list | tuple) and all(isinstance(group, list | tuple) for group in value):
        return [list(group) for group in value]
    malformed.append(name)
    return None
