"""What the plug-in brings into an engine's processes."""

from pathlib import Path

from tests.harmlessness import engine

LOADED = """
start()
serve(1)
emitter.close()
print(sorted(name for name in ("kafka", "opentelemetry.sdk", "chdb", "torch") if name in sys.modules))
print(made._emitter.sinks[0].name, sorted(thread.name for thread in threading.enumerate()))
"""


def test_a_sender_that_writes_to_the_spool_needs_neither_kafka_nor_the_opentelemetry_sdk(
    tmp_path: Path,
) -> None:
    """Not when the plug-in is loaded, not when hooks are armed, not when events are written."""
    printed = engine.run(tmp_path, LOADED, FALSEOK_SPOOL_DIR=str(tmp_path / "spool"))
    assert ["[]", "spool ['MainThread']"] == printed.splitlines()


BEFORE_THE_FIRST_EVENT = """
print(sorted(thread.name for thread in threading.enumerate()), emitter.sinks)
"""


def test_armed_hooks_have_no_thread_and_no_file(tmp_path: Path) -> None:
    """Until the call after which the process forks no more."""
    printed = engine.run(tmp_path, BEFORE_THE_FIRST_EVENT, FALSEOK_SPOOL_DIR=str(tmp_path / "spool"))
    assert "['MainThread'] []\n" == printed
    assert not (tmp_path / "spool").exists()
