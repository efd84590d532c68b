"""The names of our threads as the system shows them, so that `top -H` and `ps -L` tell an engine's own from ours."""

import contextlib
import threading
from pathlib import Path

_LONGEST = 15
"""What Linux keeps of a thread's name (comm, proc(5))."""


def show_thread_name() -> None:
    """Give the calling thread its Python name on the system's side. Where there is no /proc, nothing happens."""
    with contextlib.suppress(OSError):
        name = threading.current_thread().name[:_LONGEST]
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(name, encoding="utf-8")
