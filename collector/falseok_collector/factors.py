"""Factors of the NIXL compatibility hash in the form in which engines are compared, however they were learned."""

from collections.abc import Mapping
from typing import Any

import msgspec

from falseok_collector.redaction import redact

_UNRESOLVED = "auto"


def compared_factors(factors: Mapping[str, Any]) -> dict[str, str]:
    """Hash factors as text that is equal when the engines are: no `torch.` prefix, defaults resolved.

    `cache_dtype` auto means the model's dtype (vLLM `CacheConfig.cache_dtype`).
    """
    compared = {name: _as_text(value) for name, value in factors.items()}
    if compared.get("cache_dtype") == _UNRESOLVED and "dtype" in compared:
        compared["cache_dtype"] = compared["dtype"]
    return compared


def _as_text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    plain = redact(value)
    if isinstance(plain, str | int | float):
        return str(plain).removeprefix("torch.")
    return msgspec.json.encode(plain, order="deterministic").decode()
