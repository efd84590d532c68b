"""Reads what Python printed with `repr`: literals, `Name(field=value)`, and anything else as its text. Runs nothing."""

import ast
from typing import Any

MAX_CHARACTERS = 262_144
MAX_DEPTH = 24
_CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}


class NotReadableError(ValueError):
    """The text is no such representation, or too long or too deep to be one of ours."""


def literal_dictionary(text: str) -> dict[str, Any]:
    """The first `{…}` of the text, which must be a dictionary with text keys. Raises `NotReadableError`."""
    if len(text) > MAX_CHARACTERS:
        raise NotReadableError(f"longer than {MAX_CHARACTERS:,} characters")
    start = text.find("{")
    if start < 0:
        raise NotReadableError("no dictionary in it")
    try:
        value = ast.literal_eval(text[start:].strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = _Reader(text, start).value(0)
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise NotReadableError("not a dictionary with text keys")
    return value


def fields(text: str) -> dict[str, Any]:
    """`a=1, b='x', c=Name(d=2)` as a dictionary; values that are no literal as their text. Raises `NotReadableError`."""
    if len(text) > MAX_CHARACTERS:
        raise NotReadableError(f"longer than {MAX_CHARACTERS:,} characters")
    return _Reader(text, 0).arguments("", 0)


class _Reader:
    """A reader of one text, from left to right."""

    def __init__(self, text: str, place: int) -> None:
        self._text = text
        self._place = place

    def value(self, depth: int) -> Any:
        """The value that begins here."""
        if depth > MAX_DEPTH:
            raise NotReadableError("nested too deeply")
        self._skip_blank()
        sign = self._peek()
        if sign == "{":
            return self._braces(depth)
        if sign in {"[", "("}:
            return self._sequence(depth)
        if sign in {"'", '"'}:
            return self._string()
        return self._word(depth)

    def arguments(self, closing: str, depth: int) -> dict[str, Any]:
        """`name=value` up to the closing sign, or to the end of the text."""
        found: dict[str, Any] = {}
        while True:
            self._skip_blank()
            if self._at_end(closing):
                return found
            name = self._until("=,)")
            if self._peek() != "=":
                raise NotReadableError(f"no = after {name[:40]!r}")
            self._place += 1
            found[name.strip()] = self.value(depth + 1)
            self._separator(closing)

    def _braces(self, depth: int) -> Any:
        self._place += 1
        items: dict[Any, Any] = {}
        elements: list[Any] = []
        while True:
            self._skip_blank()
            if self._at_end("}"):
                return items if items or not elements else elements
            key = self.value(depth + 1)
            self._skip_blank()
            if self._peek() == ":":
                self._place += 1
                items[key if isinstance(key, str | int | float | bool | None) else str(key)] = self.value(
                    depth + 1
                )
            else:
                elements.append(key)
            self._separator("}")

    def _sequence(self, depth: int) -> list[Any]:
        closing = _CLOSING[self._peek()]
        self._place += 1
        found: list[Any] = []
        while True:
            self._skip_blank()
            if self._at_end(closing):
                return found
            found.append(self.value(depth + 1))
            self._separator(closing)

    def _string(self) -> str:
        quote = self._peek()
        start = self._place
        self._place += 1
        while (sign := self._peek()) != quote:
            if not sign:
                raise NotReadableError("a text without an end")
            self._place += 2 if sign == "\\" else 1
        self._place += 1
        try:
            return str(ast.literal_eval(self._text[start : self._place]))
        except (ValueError, SyntaxError):
            return self._text[start + 1 : self._place - 1]

    def _word(self, depth: int) -> Any:
        start = self._place
        word = self._until(",)]}([{<:'\"=")
        sign = self._peek()
        if sign == "(" and word.strip():
            self._place += 1
            mark = self._place
            try:
                return self.arguments(")", depth)
            except NotReadableError:
                self._place = mark
                self._skip_balanced(")")
                return self._text[start : self._place]
        if sign and sign in "<[{" and not (sign != "<" and not word.strip()):
            self._place += 1
            self._skip_balanced(_CLOSING[sign])
            return self._text[start : self._place]
        if sign == ":":
            return _literal(word)
        if sign in {"'", '"'} and word.strip():
            self._string()
            return self._text[start : self._place].strip()
        if not word.strip():
            raise NotReadableError(f"nothing at character {start}")
        return _literal(word)

    def _skip_balanced(self, closing: str) -> None:
        """To behind the closing sign, over nested brackets and quoted texts."""
        expected = [closing]
        while expected:
            sign = self._peek()
            if not sign:
                raise NotReadableError("a bracket without an end")
            if sign in {"'", '"'}:
                self._string()
                continue
            self._place += 1
            if sign == expected[-1]:
                expected.pop()
            elif sign in "([{":
                if len(expected) > MAX_DEPTH:
                    raise NotReadableError("nested too deeply")
                expected.append(_CLOSING[sign])

    def _separator(self, closing: str) -> None:
        self._skip_blank()
        if self._peek() == ",":
            self._place += 1
        elif self._peek() != closing:
            raise NotReadableError(f"unexpected {self._peek()!r} at character {self._place}")

    def _at_end(self, closing: str) -> bool:
        sign = self._peek()
        if sign == closing:
            self._place += len(closing)
            return True
        if not sign:
            raise NotReadableError("a bracket without an end")
        return False

    def _until(self, stops: str) -> str:
        start = self._place
        while (sign := self._peek()) and sign not in stops:
            self._place += 1
        return self._text[start : self._place]

    def _skip_blank(self) -> None:
        while self._peek() in {" ", "\t", "\n", "\r"}:
            self._place += 1

    def _peek(self) -> str:
        return self._text[self._place : self._place + 1]


def _literal(word: str) -> Any:
    text = word.strip()
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
