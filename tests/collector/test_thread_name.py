"""Our threads can be told from the engine's own with the system's tools."""

from pathlib import Path

from tests.collector.waiting import until

from falseok_collector.emitter import Emitter
from falseok_collector.settings import Settings


def names() -> set[str]:
    """What `ps -L` would show of this process."""
    return {path.read_text(encoding="utf-8").strip() for path in Path("/proc/self/task").glob("*/comm")}


def test_the_sender_and_each_sink_show_their_names(tmp_path: Path) -> None:
    """Both have threads of their own."""
    emitter = Emitter(Settings(sinks=("spool",), spool_dir=str(tmp_path)))
    emitter.start()
    try:
        until(lambda: names() >= {"falseok-sender", "falseok-spool"})
    finally:
        emitter.close()
