"""Where everything of one FalseOK installation lies on disk, and who is using it.

Only names and locks: what the files hold is known by the modules that own them.
"""

import os
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import platformdirs

from falseok_pipeline.claim import RunInfo, claim, holder_of

SOCKET_PATH_BYTES = 100
"""Longest path used for a Unix socket: the kernel takes 107 bytes, and names are also shown and copied."""


@dataclass(frozen=True)
class DataDirectory:
    """One data directory. Creating this object touches nothing."""

    path: Path

    @classmethod
    def resolve(
        cls, option: Path | str | None, environment: Mapping[str, str] = os.environ
    ) -> "DataDirectory":
        """The directory named by the option, else by FALSEOK_DATA, else `~/.local/share/falseok`."""
        named = option or environment.get("FALSEOK_DATA") or platformdirs.user_data_path("falseok")
        return cls(Path(named).expanduser().absolute())

    @property
    def store(self) -> Path:
        """The chDB database."""
        return self.path / "store"

    @property
    def spool(self) -> Path:
        """Where collectors on this machine write by default."""
        return self.path / "spool"

    @property
    def lab(self) -> Path:
        """Labs, one folder each."""
        return self.path / "lab"

    @property
    def run_file(self) -> Path:
        """Says which process holds the directory."""
        return self.path / "run.json"

    @property
    def lock_file(self) -> Path:
        """Locked by the process that holds the directory."""
        return self.path / "lock"

    @property
    def offsets_file(self) -> Path:
        """How far each spool segment was stored."""
        return self.path / "offsets.json"

    @property
    def query_socket(self) -> Path:
        """Socket of the query endpoint: `query.sock` here, or a hashed name elsewhere when that is too long."""
        socket = self.path / "query.sock"
        if len(os.fsencode(socket)) <= SOCKET_PATH_BYTES:
            return socket
        name = sha256(os.fsencode(self.path)).hexdigest()[:16]
        base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
        return Path(base) / f"falseok-{os.getuid()}" / f"{name}.sock"

    def spools(self) -> tuple[Path, ...]:
        """The spool directories that exist now: this directory's own, and one of each lab."""
        candidates = [self.spool, *sorted(self.lab.glob("*/spool"))]
        return tuple(path for path in candidates if path.is_dir())

    def claim(
        self, command: str, now_micros: int, *, version: str = "", serves_queries: bool = False
    ) -> AbstractContextManager[RunInfo]:
        """Hold the directory while the returned context is open.

        Raises:
            DataDirectoryInUseError: another live process holds it; names its pid.
        """
        info = RunInfo(
            pid=os.getpid(),
            command=command,
            started_at_micros=now_micros,
            version=version,
            query_socket=str(self.query_socket) if serves_queries else "",
        )
        return claim(self.lock_file, self.run_file, info)

    def running(self) -> RunInfo | None:
        """The live process that holds the directory, None when nobody does."""
        return holder_of(self.lock_file, self.run_file)
