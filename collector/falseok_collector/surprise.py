"""A small model of how text goes on: pairs of character classes, counted over a sample of ordinary text.

It knows no language well on purpose: prose in several alphabets, code and numbers are all unsurprising to it, while
a text that changes alphabets within words or strings letters together at random is not.
"""

import functools
import itertools
import math
from collections import Counter

from falseok_collector.surprise_sample import SAMPLE

MAX_BITS = 16.0
_PSEUDO_COUNT = 0.05
_BITS = {"other": 0, "space": 1, "line": 2, "digit": 3, "stop": 4, "bracket": 5, "quote": 6, "sign": 7}
_LETTERS = 8
_LEADS = (
    (0xC2, 0xC2), (0xC3, 0xC3), (0xC4, 0xC9), (0xCA, 0xCD), (0xCE, 0xCF), (0xD0, 0xD4), (0xD5, 0xD6), (0xD7, 0xD7),
    (0xD8, 0xDB), (0xDC, 0xDF), (0xE0, 0xE0), (0xE1, 0xE1), (0xE2, 0xE2), (0xE3, 0xE3), (0xE4, 0xE9), (0xEA, 0xED),
    (0xEE, 0xEF), (0xF0, 0xF4),
)  # fmt: skip
"""First bytes of UTF-8 sequences, about one group an alphabet."""
_CONTINUATION = _LETTERS + 26
_FIRST_LEAD = _CONTINUATION + 1
_CLASSES = _FIRST_LEAD + len(_LEADS)


def surprise_bits(text: str) -> float:
    """Mean bits a byte, 0 to 16; 0 for a text of less than two bytes."""
    classes = text.encode("utf-8", "replace").translate(_classes())
    if len(classes) < 2:
        return 0.0
    bits = _model()
    pairs = Counter(itertools.pairwise(classes))
    return sum(count * bits[one][other] for (one, other), count in pairs.items()) / (len(classes) - 1)


@functools.cache
def _classes() -> bytes:
    """The class of every byte."""
    groups = {"space": " \t", "line": "\n\r", "digit": "0123456789", "stop": ".,;:!?", "bracket": "()[]{}<>"}
    groups |= {"quote": "\"'`", "sign": "+-*/=_|#&%$@^~\\"}
    found = bytearray(256)
    for name, characters in groups.items():
        for character in characters:
            found[ord(character)] = _BITS[name]
    for number in range(26):
        found[ord("a") + number] = found[ord("A") + number] = _LETTERS + number
    for byte in range(0x80, 0xC0):
        found[byte] = _CONTINUATION
    for number, (first, last) in enumerate(_LEADS):
        for byte in range(first, last + 1):
            found[byte] = _FIRST_LEAD + number
    return bytes(found)


@functools.cache
def _model() -> list[list[float]]:
    """Bits of every class after every class."""
    classes = SAMPLE.encode().translate(_classes())
    pairs = Counter(itertools.pairwise(classes))
    before = Counter(classes[:-1])
    return [
        [
            min(
                MAX_BITS,
                -math.log2((pairs[one, other] + _PSEUDO_COUNT) / (before[one] + _PSEUDO_COUNT * _CLASSES)),
            )
            for other in range(_CLASSES)
        ]
        for one in range(_CLASSES)
    ]
