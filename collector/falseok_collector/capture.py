"""Puts an answer's text into its event, where the operator asked for that: redacted first, then cut.

Off unless `FALSEOK_CAPTURE_TEXT=1`. Redaction finds what looks like a credential, an address or a number of a person;
it cannot find everything that is private.
"""

import re
from collections.abc import Sequence

import msgspec

from falseok_collector.attributes import ApiResponse
from falseok_collector.redaction import REDACTED
from falseok_collector.text_features import ChoiceText
from falseok_collector.text_window import TextWindow

_PATTERNS = (
    re.compile(r"-----BEGIN [A-Z ]{1,40}-----[\s\S]*?(?:-----END [A-Z ]{1,40}-----|\Z)"),
    re.compile(r"(?<=://)[^/?#\s@]{1,256}@"),
    re.compile(r"(?i)(?<![a-z])(?:bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}"),
    re.compile(
        r"(?i)(?:secret|passw(?:or)?d|passphrase|api[_-]?key|access[_-]?key|token|credentials?|authorization)"
        r"[\"'`]?\s*[:=]\s*[\"'`]?[^\s\"'`,;]{3,}"
    ),
    re.compile(r"\b(?:sk|pk|rk|ghp|gho|ghs|xox[abprs]|AKIA|ASIA|hf|glpat|eyJ)[-_]?[A-Za-z0-9._-]{12,}"),
    re.compile(r"[^\s@<>\"'`(),;:\[\]]{1,64}@[^\s@<>\"'`(),;:\[\]]{1,190}\.\w{2,}"),
)
_LONG_WORD = re.compile(r"[A-Za-z0-9+/=_-]{32,}")
_LONG_NUMBER = re.compile(r"\+?\d(?:[ ().\u00a0/-]{0,2}\d){6,}")
_EDGE = re.compile(r"\S*\Z")


def captured(attributes: ApiResponse, choices: Sequence[ChoiceText], max_bytes: int) -> ApiResponse:
    """The attributes with the texts of all choices in `max_bytes` of UTF-8 altogether."""
    left = max_bytes
    cut = False
    texts: dict[str, list[str]] = {"captured_content": [], "captured_reasoning": []}
    for choice in choices:
        for name, window in (("captured_content", choice.content), ("captured_reasoning", choice.reasoning)):
            text, whole = redacted_beginning(window)
            raw = text.encode("utf-8", "replace")
            kept = raw[:left].decode("utf-8", "ignore")
            texts[name].append(kept)
            cut = cut or not whole or len(raw) > left
            left -= min(len(raw), left)
    return msgspec.structs.replace(
        attributes,
        captured_content=texts["captured_content"],
        captured_reasoning=texts["captured_reasoning"],
        captured_cut=cut or attributes.choices > len(choices),
    )


def redacted_beginning(window: TextWindow) -> tuple[str, bool]:
    """The beginning of a text without what looks private, and whether it is the whole text.

    Of a longer text the last word is left out: half a credential would not be recognised.
    """
    text = window.head()
    if window.characters > len(text):
        return redact_text(_EDGE.sub("", text)), False
    return redact_text(text), True


def redact_text(text: str) -> str:
    """The text with credentials, addresses of people and long numbers replaced."""
    for pattern in _PATTERNS:
        text = pattern.sub(REDACTED, text)
    # Keys before numbers: what a number leaves of a key would be too short to be recognised.
    return _LONG_NUMBER.sub(REDACTED, _LONG_WORD.sub(_long_word, text))


def _long_word(match: re.Match[str]) -> str:
    """Letters with digits are a key; one of them alone is a rule of a table, or a word. Looked at once: linear."""
    word = match[0]
    mixed = any(map(str.isdigit, word)) and any(map(str.isalpha, word))
    return REDACTED if mixed else word
