"""Keeps vLLM's log lines pointing at vLLM's own code.

`NixlBaseConnectorWorker._log_failure` logs with `stacklevel=2`, its caller's line; with our wrapper between
the two that would be a line of ours. A filter on that module's logger puts the real caller back. It runs on
failures only.
"""

import logging
import sys
from types import FrameType

from falseok_collector.hooks import probe

LOGGERS = ("vllm.distributed.kv_transfer.kv_connector.v1.nixl.base_worker",)


def real_caller(record: logging.LogRecord) -> bool:
    """Logging filter: re-point a record that names our wrapper at the frame that called it. Keeps every record."""
    if record.pathname != probe.__file__:
        return True
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - what the logging module itself uses
    while frame is not None and frame.f_code.co_filename != probe.__file__:
        frame = frame.f_back
    caller = frame.f_back if frame is not None else None
    if caller is not None:
        record.pathname = caller.f_code.co_filename
        record.filename = record.pathname.rpartition("/")[2]
        record.module = record.filename.removesuffix(".py")
        record.lineno = caller.f_lineno
        record.funcName = caller.f_code.co_name
    return True


def install() -> None:
    """Attach the filter; twice is once."""
    for name in LOGGERS:
        logging.getLogger(name).addFilter(real_caller)


def uninstall() -> None:
    """Take the filter away."""
    for name in LOGGERS:
        logging.getLogger(name).removeFilter(real_caller)
