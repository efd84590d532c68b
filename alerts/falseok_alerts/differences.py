"""Where two engines' hash factors differ: by value, or merely by spelling, which breaks the hash all the same."""

from falseok_alerts.facts import Difference
from falseok_alerts.rows import EngineRow


def differences_between(prefill: EngineRow | None, decode: EngineRow | None) -> list[Difference]:
    """Every factor that differs in the hash, by name. Empty when either side's factors are unknown.

    A factor only one side knows (the versions hash different sets) differs when the other has factors at all, unless
    a side is known from log lines, which do not show every factor.
    """
    if prefill is None or decode is None or not prefill.factors_compared or not decode.factors_compared:
        return []
    names = sorted({*prefill.factors_compared, *decode.factors_compared})
    if prefill.from_log or decode.from_log:
        names = [
            name for name in names if name in prefill.factors_compared and name in decode.factors_compared
        ]
    return [_difference(name, prefill, decode) for name in names if _differs(name, prefill, decode)]


def _differs(name: str, prefill: EngineRow, decode: EngineRow) -> bool:
    """Where both sides give the value they hashed, that decides: a mere spelling breaks the hash, and a default that
    resolves differently only because another factor differs (cache_dtype auto follows dtype) does not.
    """
    if name in prefill.factors and name in decode.factors:
        return prefill.factors[name] != decode.factors[name]
    return prefill.factors_compared.get(name) != decode.factors_compared.get(name)


def _difference(name: str, prefill: EngineRow, decode: EngineRow) -> Difference:
    return Difference(
        factor=name,
        prefill=_verbatim(name, prefill),
        decode=_verbatim(name, decode),
        prefill_compared=prefill.factors_compared.get(name, ""),
        decode_compared=decode.factors_compared.get(name, ""),
    )


def _verbatim(name: str, engine: EngineRow) -> str:
    return engine.factors.get(name, engine.factors_compared.get(name, ""))
