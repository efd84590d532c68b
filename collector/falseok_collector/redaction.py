"""Credentials are taken out of captured configuration at the source."""

import math
import re
from collections.abc import Mapping
from typing import Any

REDACTED = "[redacted]"
_CREDENTIAL = re.compile(
    r"secret|passw(or)?d|passphrase|credential|cookie|private_?key|api_?key|access_?key"
    r"|(^|[_-])(auth|authorization|bearer)($|[_-])"
)
_CREDENTIAL_IF_TEXT = re.compile(r"(^|[_-])(token|key|signature)$")
"""Names of credentials when they hold text; as numbers they count something (`experts_per_token`)."""
_WORD_BREAK = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_URL_CREDENTIALS = re.compile(r"(?<=://)[^/?#\s]+@")
_URL_PARAMETER = re.compile(r"(?<=[?&])([^=&\s]+)=([^&#\s]+)")
_ENVIRONMENT = ("VLLM_", "UCX_", "NIXL_")
_INTEGERS = range(-(2**63), 2**64)
_MAX_DEPTH = 8
_MAX_ITEMS = 256
_MAX_NAME = 256
_MAX_TEXT = 2_000


def redact(value: Any, name: str = "", depth: int = 0) -> Any:
    """A bounded copy of `value` that JSON can hold, without credentials.

    A value is dropped when its name says that it is secret; credentials are cut out of URLs. What JSON has no
    form for becomes text. Sets come out sorted, so that equal sets read the same in every process.
    """
    if value is None or isinstance(value, bool) or (isinstance(value, str) and not value):
        return value
    if name and _names_a_credential(name, value):
        return REDACTED
    if isinstance(value, int):
        return int(value) if value in _INTEGERS else str(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        return _redact_items(value, depth) if depth < _MAX_DEPTH else type(value).__name__
    return _redact_text(str(value))


def relevant_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The `VLLM_*`, `UCX_*` and `NIXL_*` variables, redacted."""
    return {
        name: str(redact(value, name))
        for name, value in sorted(environment.items())
        if name.startswith(_ENVIRONMENT)
    }


def _names_a_credential(name: str, value: Any) -> bool:
    spelled = _WORD_BREAK.sub("_", name).lower()
    if _CREDENTIAL.search(spelled):
        return True
    return isinstance(value, str) and _CREDENTIAL_IF_TEXT.search(spelled) is not None


def _redact_items(value: Any, depth: int) -> Any:
    if isinstance(value, Mapping):
        items = list(value.items())[:_MAX_ITEMS]
        return {_printable(str(key))[:_MAX_NAME]: redact(item, str(key), depth + 1) for key, item in items}
    ordered = sorted(value, key=str) if isinstance(value, set | frozenset) else list(value)
    return [redact(item, "", depth + 1) for item in ordered[:_MAX_ITEMS]]


def _redact_text(text: str) -> str:
    text = _URL_CREDENTIALS.sub(f"{REDACTED}@", _printable(text))
    return _URL_PARAMETER.sub(_redact_parameter, text)[:_MAX_TEXT]


def _redact_parameter(parameter: re.Match[str]) -> str:
    name, value = parameter.groups()
    return f"{name}={REDACTED if _names_a_credential(name, value) else value}"


def _printable(text: str) -> str:
    """The text without lone surrogates: undecodable bytes of the environment arrive as such, JSON refuses them."""
    return text.encode("utf-8", "replace").decode()
