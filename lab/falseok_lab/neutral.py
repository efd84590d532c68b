"""Takes the machine out of recorded values: its paths and its host name become the same neutral words everywhere.

Works on parsed values, so that nothing inside another word is hit. Knows nothing of events.
"""

from collections.abc import Mapping
from typing import Any

HOST = "lab-host"


class Neutralizer:
    """Rewrites strings of JSON values: `paths` maps a path of this machine to its placeholder."""

    def __init__(self, paths: Mapping[str, str], host: str) -> None:
        self._paths = sorted(paths.items(), key=lambda item: -len(item[0]))
        self._host = host

    def value(self, value: Any) -> Any:
        """A copy of a JSON value with every string made neutral, keys included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(key): self.value(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item) for item in value]
        return value

    def text(self, text: str) -> str:
        """One string: paths anywhere in it, the host name where it is all of it or stands before a port."""
        for path, placeholder in self._paths:
            text = _replaced(text, path, placeholder)
        if text == self._host:
            return HOST
        if text.startswith(f"{self._host}:") and text[len(self._host) + 1 :].isdigit():
            return HOST + text[len(self._host) :]
        return text

    def left_in(self, text: str) -> list[str]:
        """Paths of the machine that a text still names."""
        return [path for path, _ in self._paths if path in text]


def _replaced(text: str, path: str, placeholder: str) -> str:
    """Replace a path where it ends at a path boundary: `/data` is not the beginning of `/database`."""
    found = text.find(path)
    while found >= 0:
        after = found + len(path)
        if after == len(text) or not (text[after].isalnum() or text[after] in "-_."):
            text = text[:found] + placeholder + text[after:]
            after = found + len(placeholder)
        found = text.find(path, after)
    return text
