"""Reads what a client asked for, as its body passes by: never consumed, never re-ordered, kept within a bound.

Everything in it is a client's: wrong types, garbage and depth are answered with "not told", never with an error.
"""

from typing import Any

import msgspec

from falseok_collector.body_shapes import NULL

MAX_REQUEST_BYTES = 256 * 1024
"""A longer body (images, long documents) is not read."""
_INT64 = range(-(2**63), 2**63)


class RequestedTransfer(msgspec.Struct, frozen=True):
    """`kv_transfer_params` of a request: which leg it is and whose blocks it wants."""

    leg: str = ""
    remote_engine_id: str = ""
    remote_request_id: str = ""


class Requested(msgspec.Struct, frozen=True, kw_only=True):
    """What a request asked for. Fields the client did not give, or gave in a wrong type, are at their defaults."""

    request_id: str = ""
    thinking: str = ""
    choices: int = 0
    temperature: float | None = None
    max_tokens: int = 0
    kv_transfer: RequestedTransfer = RequestedTransfer()
    has_kv_transfer: bool = False
    unreadable: str = ""


class _Body(msgspec.Struct):
    """The fields that are read, each on its own: one of a wrong type does not spoil the others."""

    request_id: msgspec.Raw = NULL
    n: msgspec.Raw = NULL
    temperature: msgspec.Raw = NULL
    max_tokens: msgspec.Raw = NULL
    max_completion_tokens: msgspec.Raw = NULL
    max_output_tokens: msgspec.Raw = NULL
    chat_template_kwargs: msgspec.Raw = NULL
    reasoning_effort: msgspec.Raw = NULL
    reasoning: msgspec.Raw = NULL
    thinking: msgspec.Raw = NULL
    enable_thinking: msgspec.Raw = NULL
    kv_transfer_params: msgspec.Raw = NULL
    messages: msgspec.Raw = NULL
    prompt: msgspec.Raw = NULL
    input: msgspec.Raw = NULL


_decoder = msgspec.json.Decoder(_Body)


class RequestBody:
    """A request's body as it passes by."""

    def __init__(self, encoded: bytes = b"") -> None:
        self._buffer = bytearray()
        self._unreadable = "" if encoded in {b"", b"identity"} else "encoded"

    def feed(self, chunk: bytes) -> None:
        """The next bytes."""
        if self._unreadable:
            return
        if len(self._buffer) + len(chunk) > MAX_REQUEST_BYTES:
            self._unreadable = "too_long"
            self._buffer.clear()
        else:
            self._buffer += chunk

    @property
    def kept_bytes(self) -> int:
        """Bytes held."""
        return len(self._buffer)

    def requested(self) -> Requested:
        """What was asked for, as far as it can be read. Never raises."""
        if self._unreadable:
            return Requested(unreadable=self._unreadable)
        if not self._buffer:
            return Requested()
        body = self._decoded()
        return Requested(unreadable="not_json") if body is None else _requested(body)

    def prompt(self) -> str:
        """All text of the prompt, in order; empty when there is none to be read. May take milliseconds."""
        body = None if self._unreadable or not self._buffer else self._decoded()
        if body is None:
            return ""
        texts: list[str] = []
        for raw in (body.messages, body.prompt, body.input):
            _collect(_value(raw), texts, 0)
        return "\n".join(texts)

    def _decoded(self) -> _Body | None:
        try:
            return _decoder.decode(self._buffer)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return None


def _requested(body: _Body) -> Requested:
    parameters = _value(body.kv_transfer_params)
    limits = (body.max_completion_tokens, body.max_tokens, body.max_output_tokens)
    return Requested(
        request_id=_text(_value(body.request_id)),
        thinking=_thinking_mode(body),
        choices=_integer(_value(body.n)),
        temperature=_number(_value(body.temperature)),
        max_tokens=next((count for raw in limits if (count := _integer(_value(raw)))), 0),
        kv_transfer=transfer_of(parameters),
        has_kv_transfer=isinstance(parameters, dict) and bool(parameters),
    )


def transfer_of(parameters: Any) -> RequestedTransfer:
    """What `kv_transfer_params` ask for. Anything may stand there."""
    if not isinstance(parameters, dict):
        return RequestedTransfer()
    leg = ""
    if parameters.get("do_remote_decode"):
        leg = "remote_decode"
    elif parameters.get("do_remote_prefill"):
        leg = "remote_prefill"
    return RequestedTransfer(
        leg=leg,
        remote_engine_id=_text(parameters.get("remote_engine_id")),
        remote_request_id=_text(parameters.get("remote_request_id")),
    )


def _thinking_mode(body: _Body) -> str:
    """`on`, `off`, an effort by its name, or `default` when the client did not choose."""
    arguments = _value(body.chat_template_kwargs)
    switches = dict(arguments) if isinstance(arguments, dict) else {}
    for name in ("enable_thinking", "thinking"):
        switches.setdefault(name, _value(getattr(body, name)))
        switch = switches[name]
        if isinstance(switch, dict):  # {"type": "enabled"}
            switch = {"enabled": True, "disabled": False}.get(_text(switch.get("type")))
        if isinstance(switch, bool):
            return "on" if switch else "off"
    reasoning = _value(body.reasoning)
    efforts = (
        _value(body.reasoning_effort),
        reasoning.get("effort") if isinstance(reasoning, dict) else None,
        switches.get("reasoning_effort"),
    )
    effort = next((text for value in efforts if (text := _text(value))), "")
    if effort == "none":
        return "off"
    return effort[:40] or "default"


def _value(raw: msgspec.Raw) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _integer(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value in _INT64 else 0


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e9 else None


_TEXT_KEYS = ("content", "text")


def _collect(value: Any, texts: list[str], depth: int) -> None:
    """Text of messages, parts and items; token ids and everything else are passed over."""
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, list) and depth < 6:
        for item in value:
            _collect(item, texts, depth + 1)
    elif isinstance(value, dict) and depth < 6:
        for key in _TEXT_KEYS:
            if key in value:
                _collect(value[key], texts, depth + 1)
