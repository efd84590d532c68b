"""The store as everybody but the writer sees it: questions in SQL, answers as rows.

Which process answers is decided here and nowhere else: the running service over its socket, or the store opened
by ourselves when nobody holds it.
"""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Protocol, Self

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from falseok_pipeline.claim import QUERY
from falseok_pipeline.clock import now_micros
from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.errors import DataDirectoryInUseError, StoreBusyError, StoreMissingError

PATIENCE_SECONDS = 5.0
"""How long to wait for a short-lived holder, such as another query."""


class Store(Protocol):
    """Answers queries. Thread-safe. Close it when done, or use it as a context manager."""

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Rows of one read-only query, with `{name:Type}` parameters bound by the engine.

        Blocks until the answer is there; bounded by `limits.STANDARD`.

        Raises:
            QueryError: the statement was refused or failed.
        """
        ...

    def close(self) -> None:
        """Let go of it. Idempotent."""
        ...

    def __enter__(self) -> Self:
        """Itself."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        ...


def connect(data: DataDirectory, *, patience_seconds: float = PATIENCE_SECONDS) -> Store:
    """The store of a data directory, through whoever holds it.

    Raises:
        StoreMissingError: nothing was ever stored there.
        StoreBusyError: another process holds it and answers no queries.
    """
    attempts = Retrying(
        retry=retry_if_exception_type(StoreBusyError),
        stop=stop_after_delay(patience_seconds),
        wait=wait_fixed(0.1),
        reraise=True,
    )
    return attempts(_connect_once, data)


def _connect_once(data: DataDirectory) -> Store:
    # Imported late: a command that asks the running service need not load the engine (half a gigabyte).
    holder = data.running()
    if holder is not None and holder.query_socket:
        from falseok_pipeline.socket_store import SocketStore  # noqa: PLC0415

        return SocketStore(holder.query_socket, pid=holder.pid)
    if holder is not None:
        raise StoreBusyError(
            f"The store in {data.path} is held by process {holder.pid or 'unknown'} "
            f"(falseok {holder.command or '?'}), which answers no queries. Wait for it to end, or stop it."
        )
    if not data.store.is_dir():
        raise StoreMissingError(str(data.path))
    from falseok_pipeline.embedded import open_store  # noqa: PLC0415

    try:
        return open_store(data, now_micros(), command=QUERY)
    except DataDirectoryInUseError as error:
        raise StoreBusyError(str(error)) from error
