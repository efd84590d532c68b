"""What can go wrong in the pipeline, by what has to be done about it.

Every message is written for the person who reads it: what happened, and what to do.
"""


class PipelineError(Exception):
    """Base of all errors of this package."""


class DataDirectoryInUseError(PipelineError):
    """Another live process holds the data directory."""

    def __init__(self, path: str, pid: int, command: str) -> None:
        holder = f"process {pid} (falseok {command})" if pid else "another process"
        super().__init__(
            f"The data directory {path} is in use by {holder}. "
            "Stop it first, or name another directory with --data or FALSEOK_DATA."
        )
        self.pid = pid


class StoreMissingError(PipelineError):
    """Nothing was ever stored in this data directory."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"There is no store in {path} yet. Start `falseok run` beside your engines or try `falseok demo`, "
            "or name the right directory with --data or FALSEOK_DATA."
        )


class StoreBusyError(PipelineError):
    """The store is held by another process that does not answer queries."""


class StoreUnavailableError(PipelineError):
    """Try later: the store cannot take the rows now (disk full, too many parts, memory). Nothing was lost."""


class SourceError(PipelineError):
    """What events come from cannot be reached or does not let us in. Nothing was read."""


class RowsRefusedError(PipelineError):
    """The store refuses these rows as they are; trying again changes nothing."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class MigrationError(PipelineError):
    """The schema in the store and the migrations of this release do not fit together."""


class QueryError(PipelineError):
    """A statement was refused or failed. `code` is ClickHouse's error code, None when it never got there."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code
