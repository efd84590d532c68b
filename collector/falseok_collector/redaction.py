"""Credentials are taken out of captured configuration at the source."""

import re
from collections.abc import Mapping
from typing import Any

REDACTED = "[redacted]"
_SECRET_NAME = re.compile(
    r"(secret|password|passwd|credential|private|api_?key|access_?key|auth|cookie)|(^|_|-)token($|_|-)|(^|_|-)key($|_|-)",
    re.IGNORECASE,
)
_URL_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")
_ENVIRONMENT = ("VLLM_", "UCX_", "NIXL_")
_MAX_DEPTH = 8
_MAX_ITEMS = 256
_MAX_TEXT = 2_000


def redact(value: Any, name: str = "", depth: int = 0) -> Any:
    """A bounded copy of `value` that JSON can hold, without credentials.

    A value is dropped when its name says that it is secret; user and password are cut out of URLs.
    """
    if name and _SECRET_NAME.search(name) and value not in (None, "", False):
        return REDACTED
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth >= _MAX_DEPTH:
        return str(type(value).__name__)
    if isinstance(value, Mapping):
        items = list(value.items())[:_MAX_ITEMS]
        return {str(key): redact(item, str(key), depth + 1) for key, item in items}
    if isinstance(value, list | tuple | set | frozenset):
        return [redact(item, "", depth + 1) for item in list(value)[:_MAX_ITEMS]]
    return _URL_CREDENTIALS.sub(f"{REDACTED}@", str(value))[:_MAX_TEXT]


def relevant_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The `VLLM_*`, `UCX_*` and `NIXL_*` variables, redacted."""
    return {
        name: str(redact(value, name))
        for name, value in sorted(environment.items())
        if name.startswith(_ENVIRONMENT)
    }
