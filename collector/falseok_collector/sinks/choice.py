"""Makes the sinks that the settings name; a sink whose library is missing is replaced by the spool."""

import importlib.util
import logging
from collections.abc import Callable
from pathlib import Path

from falseok_collector.attributes import SinkState
from falseok_collector.settings import Settings
from falseok_collector.sinks import Condition, Sink, otlp
from falseok_collector.sinks.kafka import KafkaSink
from falseok_collector.sinks.memory import MemorySink
from falseok_collector.sinks.spool import SpoolSink

logger = logging.getLogger("falseok")

LIBRARIES: dict[str, Callable[[], tuple[str, ...]]] = {"kafka": lambda: ("kafka",), "otlp": otlp.modules}
"""Modules a sink needs beyond the base install, by sink; that is also the name of the extra that brings them."""


def open_sinks(settings: Settings, boot: str) -> tuple[list[Sink], list[SinkState]]:
    """The sinks in the order of the settings, and the state of those whose library is missing.

    The spool takes the events of the latter. Nothing is imported, connected or written yet: each sink does that in
    its own thread.
    """
    unavailable = {name: module for name in settings.sinks if (module := missing_module(name))}
    names = [name for name in settings.sinks if name not in unavailable]
    if unavailable and "spool" not in names:
        names.append("spool")
    for name, module in unavailable.items():
        logger.warning(
            "falseok: the %s sink needs `pip install 'falseok[%s]'` (there is no module %s); "
            "the spool takes its events",
            name,
            name,
            module,
        )
    states = [
        SinkState(name=name, state=str(Condition.UNAVAILABLE), last_error=ModuleNotFoundError.__name__)
        for name in unavailable
    ]
    return [_open(name, settings, boot) for name in names], states


def missing_module(name: str) -> str:
    """The first module a sink lacks; empty when it has all. Finds them without importing what takes long."""
    needed = LIBRARIES[name]() if name in LIBRARIES else ()
    return next((module for module in needed if not _is_there(module)), "")


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # not even its parent is there
        return False


def _open(name: str, settings: Settings, boot: str) -> Sink:
    if name == "memory":
        return MemorySink()
    if name == "kafka":
        return KafkaSink(settings, boot)
    if name == "otlp":
        return otlp.OtlpSink(boot)
    return SpoolSink(
        Path(settings.spool_dir),
        boot,
        max_bytes=settings.spool_max_bytes,
        segment_bytes=settings.spool_segment_bytes,
    )
