"""Keeps the beginning and the end of a text that arrives in pieces, in bounded memory."""

from collections import deque

HEAD_CHARACTERS = 4_096
TAIL_CHARACTERS = 4_096
_PIECES = 64
"""Pieces are joined when there are so many: a short text costs fifty bytes more than its characters."""


class TextWindow:
    """The first and the last characters of a text. What it shows does not depend on how the text was cut."""

    __slots__ = ("_blocks", "_head", "_head_characters", "_kept", "_pieces", "characters")

    def __init__(self) -> None:
        self.characters = 0
        self._head: list[str] = []
        self._head_characters = 0
        self._blocks: deque[str] = deque()
        self._kept = 0
        self._pieces: list[str] = []

    def add(self, text: str) -> None:
        """Append a piece; constant work but for its copy."""
        self.characters += len(text)
        self._pieces.append(text)
        if len(self._pieces) >= _PIECES or len(text) > HEAD_CHARACTERS:
            self._fold()

    @property
    def kept(self) -> int:
        """Characters held, at most about three times the tail's."""
        return min(self.characters, HEAD_CHARACTERS + 2 * TAIL_CHARACTERS)

    def head(self) -> str:
        """The first `HEAD_CHARACTERS` characters."""
        self._fold()
        return "".join(self._head)

    def tail(self) -> str:
        """The last `TAIL_CHARACTERS` characters of those that are not in the head."""
        self._fold()
        return "".join(self._blocks)[-TAIL_CHARACTERS:]

    def _fold(self) -> None:
        block = "".join(self._pieces)
        self._pieces.clear()
        room = HEAD_CHARACTERS - self._head_characters
        if room > 0 and block:
            self._head.append(block[:room])
            self._head_characters += min(len(block), room)
            block = block[room:]
        if not block:
            return
        block = block[-TAIL_CHARACTERS:]
        self._blocks.append(block)
        self._kept += len(block)
        while self._kept - len(self._blocks[0]) >= TAIL_CHARACTERS:
            self._kept -= len(self._blocks.popleft())
