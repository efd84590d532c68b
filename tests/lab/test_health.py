"""Waiting for a pair, and what a log says."""

from pathlib import Path

from falseok_lab.health import last_line, telling_lines

LOG = """\
(APIServer pid=7) INFO 11-30 23:19:04 [model.py:645] Resolved architecture
(EngineCore pid=9) ERROR 11-30 23:19:05 [core.py:1] EngineCore failed to start.
(EngineCore pid=9) Traceback (most recent call last):
(EngineCore pid=9)   File "x.py", line 1, in <module>
(EngineCore pid=9) ValidationError: 1 error for ModelConfig
(EngineCore pid=9)   Unknown quantization method

(APIServer pid=7) INFO 11-30 23:19:06 [launcher.py:1] Shutting down
(APIServer pid=7) INFO 11-30 23:19:06 [launcher.py:1] one
(APIServer pid=7) INFO 11-30 23:19:06 [launcher.py:1] two
(APIServer pid=7) INFO 11-30 23:19:06 [launcher.py:1] three
"""


def test_the_lines_around_the_last_error_are_shown_without_prefixes(tmp_path: Path) -> None:
    """The error, what led to it, and the lines after it that often say most."""
    log = tmp_path / "log"
    log.write_text(LOG)
    lines = telling_lines(log)
    assert "EngineCore failed to start." in lines
    assert "ValidationError: 1 error for ModelConfig" in lines
    assert "  Unknown quantization method".strip() in [line.strip() for line in lines]
    assert "three" not in lines


def test_a_log_without_errors_shows_its_end(tmp_path: Path) -> None:
    """Better than nothing; a missing log is nothing."""
    log = tmp_path / "log"
    log.write_text("one\ntwo\n")
    assert ["one", "two"] == telling_lines(log)
    assert "two" == last_line(log)
    assert [] == telling_lines(tmp_path / "missing")
    assert "" == last_line(tmp_path / "missing")
