"""A lab for people (one line) and for programs (one document). The salt of its fleet is shown to neither."""

from typing import Any

import msgspec
from rich.text import Text

from falseok.plain_text import printable
from falseok_lab.pair import PairState, PairStatus


def lab_line(status: PairStatus) -> Text:
    """Name, what it runs, where to send requests, and which of its processes live."""
    state = status.state
    parts = [f"{role} {'lives' if lives else 'ended'}" for role, lives in status.alive.items()]
    processes = ", ".join(parts) or "nothing was started"
    text = f"{state.name}  vLLM {state.vllm}  model {state.model}  {state.connector}  fault {state.fault}  {state.router_url}  {processes}"
    return Text(printable(text), overflow="fold")


def lab_document(state: PairState) -> dict[str, Any]:
    """The state without its secret, with the addresses a script needs."""
    document: dict[str, Any] = msgspec.to_builtins(state)
    del document["salt"]
    urls = {"router_url": state.router_url, "prefill_url": state.prefill_url, "decode_url": state.decode_url}
    return {**document, **urls, "spool": str(state.spool)}
