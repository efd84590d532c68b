"""Long commands with signs of life, and one builder at a time: tried on real processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.lab.stand_in_cache import Progress

from falseok_lab import locking
from falseok_lab.installer import CommandFailedError, run

HOLDER = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()"


def python(code: str) -> list[str]:
    """A command line that runs a piece of Python."""
    return [sys.executable, "-c", code]


def test_output_and_progress_of_a_command(tmp_path: Path, progress: Progress) -> None:
    """The whole output comes back, both streams; progress has what is done, and the last line."""
    code = "import sys; print('one'); print('two', file=sys.stderr)"
    assert {"one", "two"} == set(run(python(code), "counting", progress, measured=tmp_path).splitlines())
    assert progress.details[-1].startswith("counting: 0 s")
    assert progress.details[-1].endswith(("one", "two"))


def test_a_command_that_fails_is_an_error_with_its_last_lines(progress: Progress) -> None:
    """What was done, how it ended, and what it said."""
    with pytest.raises(
        CommandFailedError, match=r"Counting failed \(exit status 3\):\nno such package"
    ) as caught:
        run(python("import sys; print('no such package'); sys.exit(3)"), "counting", progress)
    assert "no such package" == caught.value.output


def test_a_command_is_ended_when_the_caller_is_interrupted(tmp_path: Path) -> None:
    """Ctrl-C comes as an exception while waiting; the installer must not go on alone."""

    class Interrupting(Progress):
        def detail(self, text: str) -> None:
            if pid_file.exists() and pid_file.read_text():
                raise KeyboardInterrupt

    pid_file = tmp_path / "pid"
    code = f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); print('go', flush=True); time.sleep(600)"
    with pytest.raises(KeyboardInterrupt):
        run(python(code), "sleeping", Interrupting())
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


def test_a_second_builder_waits_for_the_first_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock is between processes, and goes when its holder goes."""
    monkeypatch.setattr("falseok_lab.locking.SECONDS_BETWEEN_TRIES", 0.01)
    lock = tmp_path / "locks" / "lock"
    lock.parent.mkdir()

    class Releasing(Progress):
        def detail(self, text: str) -> None:
            super().detail(text)
            holder.communicate()

    progress = Releasing()
    command = [*python(HOLDER), str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert "held\n" == holder.stdout.readline()
        with locking.held(lock, "vLLM 0.27.0", progress):
            assert holder.poll() is not None
    assert ["another process is building vLLM 0.27.0; waiting for 0 s"] == progress.details
