"""Computes the text features of one choice, out of windows onto its text. Names and ranges: `feature_catalogue`.

Runs in the sender thread, not in the event loop. Every step is one pass of the interpreter's own C code over at most
some ten thousand characters, so that the event loop gets its turn in between.
"""

import re
import zlib
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from falseok_collector.surprise import surprise_bits
from falseok_collector.text_window import HEAD_CHARACTERS, TAIL_CHARACTERS, TextWindow

LIMIT_REASONS = frozenset({"length", "max_output_tokens", "max_tokens"})
MAX_TOKENS_SEEN = 4_096
"""Token ids looked at, from the beginning and from the end each."""

_UNIT_BYTES = 24
_FRAGMENT = 12
_OVERLAP = 16
_OVERLAP_STEP = 4
_RATIO_FROM_BYTES = 64
_SENTINEL_FROM = 255

_RUN = re.compile(r"(\S)\1{2,}")
_DIGITS = re.compile(r"\d+")
_PUNCTUATION = re.compile(r"[^\w\s]+")
_LETTER = re.compile(r"[^\W\d_]")

_ALPHABETS = (
    "A-Za-z\u00aa\u00b5\u00ba\u00c0-\u02b8\u1e00-\u1eff",  # Latin
    "\u0370-\u03ff\u1f00-\u1fff",  # Greek
    "\u0400-\u052f",  # Cyrillic
    "\u0530-\u058f",  # Armenian
    "\u0590-\u05ff",  # Hebrew
    "\u0600-\u077f",  # Arabic
    "\u0900-\u097f",  # Devanagari
    "\u0980-\u0dff",  # further Indic alphabets
    "\u0e00-\u0eff",  # Thai and Lao
    "\u10a0-\u10ff",  # Georgian
)
_EAST_ASIAN = "\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
_MIXED = re.compile(
    "|".join(
        f"[{one}](?=[{''.join(other for other in _ALPHABETS if other is not one)}])" for one in _ALPHABETS
    )
)
_JOINT = re.compile(f"[{_EAST_ASIAN}](?=[{''.join(_ALPHABETS)}])|[{''.join(_ALPHABETS)}](?=[{_EAST_ASIAN}])")

_SPECIAL = re.compile(
    r"<\|[A-Za-z0-9_ .:-]{1,40}\|>|<\uff5c[^\s<>\uff5c]{1,40}\uff5c>|</?s>|<(?:bos|eos|pad|unk|mask)>"
    r"|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>|<0x[0-9A-Fa-f]{2}>"
)
_TOOLS = re.compile(
    r"</?tool_(?:calls?|response)>|</?function(?:_calls?|=[^<>\s]{1,60})?>|\[/?TOOL_CALLS\]|<\|python_tag\|>"
    r"|<\|tool_calls?(?:_\w{1,20})?\|>|</?(?:invoke|parameter)\b[^<>]{0,60}>"
)
_THINKING = re.compile(r"</?(?:think|thinking|thought|reasoning)>|\[/?THINK\]")


class ChoiceText(NamedTuple):
    """What there is to look at of one choice."""

    content: TextWindow
    reasoning: TextWindow
    tool_calls: int = 0
    finish_reason: str = ""


class PromptText:
    """The prompt as context, prepared once for all choices of an answer."""

    def __init__(self, text: str) -> None:
        beginning, end = text[:HEAD_CHARACTERS], text[HEAD_CHARACTERS:][-TAIL_CHARACTERS:]
        self.text = beginning + end
        self.fragments = (
            {self.text[at : at + _OVERLAP] for at in range(len(self.text) - _OVERLAP + 1)} if text else set()
        )

    def features(self) -> dict[str, float]:
        """Of the prompt itself."""
        if not self.text:
            return {}
        return {
            **_compression("prompt_compression_ratio", self.text),
            "prompt_surprise_bits": _rounded(surprise_bits(self.text)),
        }


def choice_features(choice: ChoiceText, prompt: PromptText) -> dict[str, float]:
    """The features of one choice; only those there is something to compute from."""
    content, reasoning = segments(choice.content), segments(choice.reasoning)
    found: dict[str, float] = {"ran_to_limit": float(choice.finish_reason in LIMIT_REASONS)}
    if not choice.content.characters and not choice.tool_calls:
        found["reasoning_without_content"] = float(choice.reasoning.characters)
    if content or reasoning:
        found |= text_features([*reasoning, *content])
        found["prompt_overlap"] = _overlap([*reasoning, *content], prompt)
    if content:
        found |= _leaks(content, prompt.text)
    return {name: _rounded(value) for name, value in found.items()}


def segments(window: TextWindow) -> list[str]:
    """The text in as few unbroken pieces as the window has."""
    head, tail = window.head(), window.tail()
    if window.characters == len(head) + len(tail):
        return [head + tail] if head else []
    return [head, tail]


def text_features(parts: Sequence[str]) -> dict[str, float]:
    """The features that need nothing but the text, given in unbroken pieces."""
    text = "\n".join(parts)
    letters = len(_LETTER.findall(text))
    per_letter = 100 / letters if letters else 0.0
    mixed = len(_MIXED.findall(text))
    characters = sum(map(len, parts)) or 1
    punctuation = _PUNCTUATION.findall(text)
    return {
        "longest_character_run": max(
            (len(run.group()) for run in _RUN.finditer(text)), default=min(len(text.strip()), 1)
        ),
        "longest_unit_run": max(longest_unit_run(part) for part in parts),
        "repeated_share": _repeated(parts),
        **_compression("compression_ratio", text),
        "mixed_script_words": mixed * per_letter,
        "script_joints": (mixed + len(_JOINT.findall(text))) * per_letter,
        "surprise_bits": surprise_bits(text),
        "replacement_share": text.count("\ufffd") / characters,
        "longest_digit_run": max(map(len, _DIGITS.findall(text)), default=0),
        "longest_punctuation_run": max(map(len, punctuation), default=0),
        "punctuation_share": sum(map(len, punctuation)) / characters,
    }


def longest_unit_run(text: str) -> int:
    """Bytes of the longest stretch that repeats a unit of 1 to 24 bytes at least three times.

    A stretch has the period p where it equals itself moved by p bytes: there the exclusive or of both is zero.
    """
    raw = text.encode("utf-8", "replace")
    longest = 0
    for period in range(1, _UNIT_BYTES + 1):
        length = len(raw) - period
        if length < 2 * period:
            break
        moved = int.from_bytes(raw[:-period], "little") ^ int.from_bytes(raw[period:], "little")
        zeros = max(map(len, _zeros(2 * period).findall(moved.to_bytes(length, "little"))), default=0)
        if zeros:
            longest = max(longest, zeros + period)
    return longest


def token_features(heads_and_tails: Sequence[Sequence[int]]) -> dict[str, float]:
    """Runs of one token id in unbroken pieces of the answer's token ids."""
    runs = [(token, sum(1 for _ in group)) for piece in heads_and_tails for token, group in groupby(piece)]
    if not runs:
        return {}
    return {
        "longest_token_run": float(max(length for _, length in runs)),
        "sentinel_token_run": float(max((length for token, length in runs if is_sentinel(token)), default=0)),
    }


def is_sentinel(token: int) -> bool:
    """Whether it is the id that a sampler picks out of logits that are not numbers: 0 or 2^k-1."""
    return token == 0 or (token >= _SENTINEL_FROM and token & (token + 1) == 0)


_ZEROS = {length: re.compile(rb"\0{%d,}" % length) for length in range(2, 2 * _UNIT_BYTES + 1, 2)}


def _zeros(length: int) -> re.Pattern[bytes]:
    return _ZEROS[length]


def _compression(name: str, text: str) -> dict[str, float]:
    raw = text.encode("utf-8", "replace")
    if len(raw) < _RATIO_FROM_BYTES:
        return {}
    return {name: _rounded(len(raw) / len(zlib.compress(raw, 6)))}


def _repeated(parts: Sequence[str]) -> float:
    fragments = [part[at : at + _FRAGMENT] for part in parts for at in range(len(part) - _FRAGMENT + 1)]
    return 1 - len(set(fragments)) / len(fragments) if fragments else 0.0


def _overlap(parts: Sequence[str], prompt: PromptText) -> float:
    fragments = [
        part[at : at + _OVERLAP] for part in parts for at in range(0, len(part) - _OVERLAP + 1, _OVERLAP_STEP)
    ]
    if not fragments or not prompt.fragments:
        return 0.0
    return sum(fragment in prompt.fragments for fragment in fragments) / len(fragments)


def _leaks(content: Sequence[str], prompt: str) -> dict[str, float]:
    text = "\n".join(content)
    tools = [leak for leak in _TOOLS.findall(text) if leak not in prompt]
    special = [leak for leak in _SPECIAL.findall(text) if leak not in prompt and not _TOOLS.fullmatch(leak)]
    return {
        "special_token_leaks": len(special),
        "tool_markup_leaks": len(tools),
        "thinking_markup_leaks": len(_THINKING.findall(text)),
    }


def _rounded(value: float) -> float:
    return round(float(value), 4)
