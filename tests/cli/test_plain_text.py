"""Text from engines and clients on a terminal."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falseok.plain_text import moment, percentage, printable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain ≠ ✗ 漢字 é", "plain ≠ ✗ 漢字 é"),
        ("\x1b[2J\x1b[31mred", "[2J[31mred"),
        ("a\r\nb\tc", "a  b c"),
        ("abc\u202egnp.exe", "abcgnp.exe"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
        ("\x9b31m\x07\x00", "31m"),
        ("[red]markup[/red]", "[red]markup[/red]"),
        (12, "12"),
    ],
    ids=["letters", "escapes", "lines", "bidi", "zero width", "c1 and bell", "markup stays text", "number"],
)
def test_printable(text: object, expected: str) -> None:
    """What could steer a terminal is gone, everything a person can read stays."""
    assert expected == printable(text)


@given(st.text())
def test_nothing_printable_can_move_the_cursor(text: str) -> None:
    """Whatever the text holds, no control character and no line break is left."""
    assert not {unicodedata.category(character) for character in printable(text)} & {
        "Cc",
        "Cf",
        "Cs",
        "Zl",
        "Zp",
    }


@pytest.mark.parametrize(
    ("text", "after", "expected"),
    [
        ("2026-08-14T10:02:11.120000Z", "", "2026-08-14 10:02:11 UTC"),
        ("2026-08-14T10:02:58.004000Z", "2026-08-14T10:02:11.120000Z", "10:02:58 UTC"),
        ("2026-08-15T00:00:01.000000Z", "2026-08-14T23:59:59.000000Z", "2026-08-15 00:00:01 UTC"),
        ("", "", ""),
        ("some\x1bday", "", "someday"),
    ],
)
def test_moment(text: str, after: str, expected: str) -> None:
    """A time is read with its date, once a day."""
    assert expected == moment(text, after=after)


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (1.0, "100 %"),
        (0.999, "> 99 %"),
        (0.5, "50 %"),
        (0.001, "< 1 %"),
        (0.0, "0 %"),
        (None, "an unknown part"),
    ],
)
def test_percentage(share: float | None, expected: str) -> None:
    """Nearly all is never called all, nearly nothing never nothing."""
    assert expected == percentage(share)
