"""Follows the traceback behind a logged failure, line by line, to its last line: class and message of the exception."""

import re
from dataclasses import dataclass

_EXCEPTION = re.compile(
    r"(?P<module>(?:[A-Za-z_]\w*\.){0,8})(?P<name>[A-Z]\w{0,120}|[a-z_]\w{0,110}(?:Error|Exception))"
    r"(?:: (?P<message>.*))?\s*$"
)
_STAGES = {"get_xfer_telemetry": "telemetry", "release_xfer_handle": "release", "check_xfer_state": "check"}
_MESSAGE_CHARACTERS = 2_000
_MAX_LINES = 2_000


@dataclass(slots=True)
class Traceback:
    """What is known of an exception so far."""

    lines: int = 0
    module: str = ""
    name: str = ""
    message: str = ""
    stage: str = ""
    """The NIXL call that raised, where the traceback shows it: telemetry, release or check."""

    def feed(self, line: str) -> bool:
        """The next line of the same record; `False` when it can't belong to a traceback."""
        if self.lines >= _MAX_LINES:
            return False
        if not self.lines and not line.startswith("Traceback (most recent call last):"):
            return False
        self.lines += 1
        if line.startswith((" ", "\t")) or not line.strip():
            for call, stage in _STAGES.items():
                if call in line:
                    self.stage = stage
            return True
        found = _EXCEPTION.match(line)
        if found is not None:
            # The last one counts: chained exceptions come in the order in which they were raised.
            self.module = found["module"].rstrip(".")
            self.name = found["name"]
            self.message = (found["message"] or "")[:_MESSAGE_CHARACTERS]
        elif self.message and len(self.message) < _MESSAGE_CHARACTERS and not line.startswith("Traceback"):
            self.message = f"{self.message}\n{line}"[:_MESSAGE_CHARACTERS]
        return True
