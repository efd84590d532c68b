"""Who holds a data directory: a lock that dies with its process, and a file that says who it is.

It knows the two paths only, not what the directory is used for.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psutil
from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_fixed

from falseok_pipeline.durable_files import write_durably
from falseok_pipeline.errors import DataDirectoryInUseError, PipelineError

QUERY = "query"
"""What `RunInfo.command` says of a command that merely asks; it soon lets go."""

QUERY_PATIENCE_SECONDS = 10.0
_TRIES = 5


class RunInfo(msgspec.Struct, frozen=True):
    """The process that holds a data directory, as it wrote it into `run.json`."""

    pid: int
    command: str
    started_at_micros: int
    version: str = ""
    query_socket: str = ""
    """Path of the Unix socket that answers queries, empty when this process serves none."""


@contextmanager
def claim(lock_file: Path, run_file: Path, info: RunInfo) -> Iterator[RunInfo]:
    """Hold the directory until the block ends. The lock is the operating system's: a killed holder leaves none.

    Raises:
        DataDirectoryInUseError: another live process holds it.
        PipelineError: the directory cannot be written to.
    """
    descriptor = _open(lock_file)
    try:
        try:
            _lock(descriptor, run_file, wait_for_queries=info.command != QUERY)
        except BlockingIOError:
            holder = _read(run_file)
            raise DataDirectoryInUseError(
                str(lock_file.parent),
                holder.pid if holder else 0,
                holder.command if holder else "",
            ) from None
        try:
            write_durably(run_file, msgspec.json.encode(info))
        except OSError as error:
            raise _unusable(lock_file.parent, error) from error
        try:
            yield info
        finally:
            run_file.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def holder_of(lock_file: Path, run_file: Path) -> RunInfo | None:
    """The live holder of the directory, or None. A `run.json` left behind by a killed process is not believed."""
    if not _is_locked(lock_file):
        return None
    info = _read(run_file)
    if info is None or not psutil.pid_exists(info.pid):
        return RunInfo(pid=0, command="", started_at_micros=0)
    return info


def _open(lock_file: Path) -> int:
    try:
        lock_file.parent.mkdir(parents=True, exist_ok=True)
        return os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unusable(lock_file.parent, error) from error


def _unusable(directory: Path, error: OSError) -> PipelineError:
    return PipelineError(
        f"The data directory {directory} cannot be used: {error}. "
        "Make room or permit writing there, or name another one with --data or FALSEOK_DATA."
    )


def _lock(descriptor: int, run_file: Path, *, wait_for_queries: bool) -> None:
    """Take the lock, or raise `BlockingIOError`.

    Somebody who merely asks whether the directory is held holds the lock for that moment, so a few tries are always
    made. A query that has the store open is waited for by a run, but not by another query, which waits elsewhere.
    """

    def enough(state: RetryCallState) -> bool:
        holder = _read(run_file)
        is_query = holder is not None and holder.command == QUERY
        if wait_for_queries and is_query:
            return (state.seconds_since_start or 0.0) > QUERY_PATIENCE_SECONDS
        return state.attempt_number >= _TRIES

    retrying = Retrying(
        retry=retry_if_exception_type(BlockingIOError), stop=enough, wait=wait_fixed(0.02), reraise=True
    )
    retrying(fcntl.flock, descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_locked(lock_file: Path) -> bool:
    try:
        descriptor = os.open(lock_file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _read(run_file: Path) -> RunInfo | None:
    try:
        return msgspec.json.decode(run_file.read_bytes(), type=RunInfo)
    except (OSError, msgspec.MsgspecError):
        return None
