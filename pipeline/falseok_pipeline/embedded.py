"""The store in this process: chDB, opened for reading and writing, and held by nobody else meanwhile."""

from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

from falseok_pipeline.client_store import INSERT_SETTINGS, ClientStore
from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.engine import open_handle
from falseok_pipeline.limits import STANDARD, QueryLimits


class EmbeddedStore(ClientStore):
    """A chDB database opened for reading and writing. See `ClientStore`."""

    def __init__(
        self, path: Path, limits: QueryLimits = STANDARD, claim: AbstractContextManager[Any] | None = None
    ) -> None:
        """Open the database, under `claim` when one is given, which is then held until `close`.

        Raises `StoreBusyError` when another process has it open, and what entering the claim raises.
        """
        self.path = path
        with ExitStack() as undo:
            if claim is not None:
                undo.enter_context(claim)
            writer = open_handle(path)
            undo.callback(writer.close)
            super().__init__(writer, lambda: open_handle(path, limits), undo, insert_settings=INSERT_SETTINGS)
            self._held = undo.pop_all()

    def _after_failed_query(self) -> None:
        # What a failed query had already put out would stand before the answer of the next one.
        self._reader.close()
        self._reader = self._open_reader()


def open_store(data: DataDirectory, now_micros: int, *, command: str = "query") -> EmbeddedStore:
    """Claim the data directory, open its store and bring the schema up to date.

    Raises:
        DataDirectoryInUseError: another live process holds the directory.
        StoreBusyError: something else has the database open.
        MigrationError: the store does not fit this release.
    """
    store = EmbeddedStore(data.store, claim=data.claim(command, now_micros))
    try:
        store.migrate(now_micros)
    except BaseException:
        store.close()
        raise
    return store
