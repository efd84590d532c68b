"""The entry point vLLM calls in each of its processes (`vllm.general_plugins`).

It only arms import hooks: no thread, no file, no socket, no import of vLLM. It never raises, because vLLM does
not catch what a plug-in function raises.
"""

import logging
import os

from falseok_collector.emitter import Emitter
from falseok_collector.hooks.installation import Installation
from falseok_collector.settings import read_settings

logger = logging.getLogger("falseok")

_installation: Installation | None = None


def emitter() -> Emitter | None:
    """The emitter of this process's hooks; None where the plug-in is not registered or off."""
    return None if _installation is None else _installation.emitter


def register() -> None:
    """Arm the hooks in this process, once. Does nothing when `FALSEOK_ENABLED=0`."""
    global _installation  # noqa: PLW0603 - one installation a process, as vLLM loads plug-ins several times
    if _installation is not None:
        return
    try:
        settings = read_settings()
        for problem in settings.problems:
            logger.warning("falseok: %s", problem)
        if not settings.enabled:
            return
        installation = Installation(Emitter(settings))
        os.register_at_fork(after_in_child=installation.emitter.reset)
        installation.install()
        _installation = installation
    except Exception:
        logger.exception("falseok: the collector could not be set up and stays off; serving is not affected")
