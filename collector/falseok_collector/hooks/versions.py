"""Which releases of vLLM a hook belongs to."""

import re
from typing import NamedTuple

_RELEASE = re.compile(r"(\d+)\.(\d+)")


class Versions(NamedTuple):
    """A range of vLLM releases such as 0.30 to 0.33, both included."""

    first: str
    last: str

    def __str__(self) -> str:
        return f"{self.first} to {self.last}" if self.first != self.last else self.first

    def includes(self, version: str) -> bool:
        """Whether a vLLM of this version has the hook.

        Also true for a version that is unknown, unreadable or older than every supported one, and a range that
        reaches the newest supported release goes on after it: then looking for the target is the only way to know.
        """
        release = _release(version)
        if release < _release(SUPPORTED.first):
            return True
        ends = self.last != SUPPORTED.last
        return _release(self.first) <= release and not (ends and release > _release(self.last))


def _release(version: str) -> tuple[int, int]:
    """Major and minor number; zeros when the version cannot be read."""
    found = _RELEASE.match(version)
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)


SUPPORTED = Versions("0.26", "0.33")
