"""Makes text from engines, clients and files safe for a terminal. Knows nothing of layout."""

import unicodedata

_REMOVED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Controls (escape sequences), invisible and direction-turning formats, surrogates, private use, odd line breaks."""


def printable(text: object) -> str:
    """The text on one line, without anything that could move the cursor, hide or turn characters.

    Line breaks and tabs become a space; the rest of the unprintable characters is removed.
    """
    return "".join(_shown(character) for character in str(text))


def _shown(character: str) -> str:
    if character in "\t\n\r\v\f":
        return " "
    return "" if unicodedata.category(character) in _REMOVED_CATEGORIES else character


def moment(rfc3339: str, *, after: str = "") -> str:
    """`2026-08-14T10:02:11.120000Z` as a person reads it: `2026-08-14 10:02:11 UTC`, other texts as they are.

    With `after`, the date is left out when it is the same day.
    """
    date, separator, time = rfc3339.partition("T")
    if not separator or not time.endswith("Z"):
        return printable(rfc3339)
    clock = f"{time[:8]} UTC"
    return clock if after.startswith(date) else f"{date} {clock}"


def percentage(share: float | None) -> str:
    """A share between 0 and 1 as whole per cent; never rounds something up to all or down to nothing."""
    if share is None:
        return "an unknown part"
    if 0 < share < 0.01:
        return "< 1 %"
    if 0.99 < share < 1:
        return "> 99 %"
    return f"{share:.0%}".replace("%", " %")
