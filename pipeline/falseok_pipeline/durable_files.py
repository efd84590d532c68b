"""Replaces small files so that a reader, or a machine after a power cut, finds the old one or the new one."""

import os
from pathlib import Path


def write_durably(path: Path, content: bytes) -> None:
    """Write beside `path`, make it durable, and rename over it. Raises `OSError`; the old file then stays."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
