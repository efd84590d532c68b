"""Makes NIXL's progress thread sleep between looks, in the lab's own environments only.

NIXL's Python API starts it with a delay of 0, so that it polls without pause: a core per engine, busy or idle.
On a machine with two cores two engines then starve each other: transfers take tens of seconds, and handshakes run
into their 5 s limit, which on a vLLM that fails open is corruption of its own. Events still wake the thread at once.
"""

from pathlib import Path

from falseok_lab.errors import LabError

DELAY_MICROSECONDS = 1000
_BEFORE = "agent_config.pthrDelay = 0\n"
_AFTER = f"agent_config.pthrDelay = {DELAY_MICROSECONDS}\n"


def patch_progress_thread(site_packages: Path) -> None:
    """Set the delay in every installed NIXL back end.

    The file is replaced, not written in place: the installer's cache may share it with other environments.

    Raises:
        LabError: the place is not found; then NIXL has changed and this module must be looked at.
    """
    sources = sorted(site_packages.glob("nixl_cu*/_api.py"))
    for source in sources:
        text = source.read_text()
        if _AFTER in text:
            continue
        if text.count(_BEFORE) != 1:
            raise LabError(f"NIXL's progress thread cannot be slowed down: {source} is not as expected.")
        changed = source.with_suffix(".py.new")
        changed.write_text(text.replace(_BEFORE, _AFTER))
        changed.replace(source)
    if not sources:
        raise LabError("NIXL is not where it should be in the engine's environment.")
