"""The beginning and the end of a text, whatever its length."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from falseok_collector.text_window import HEAD_CHARACTERS, TAIL_CHARACTERS, TextWindow


def window(*pieces: str) -> TextWindow:
    """A window onto a text that arrived in these pieces."""
    passing = TextWindow()
    for piece in pieces:
        passing.add(piece)
    return passing


def test_a_short_text_is_all_head() -> None:
    """Nothing is lost."""
    passing = window("Hello", " ", "world")
    assert ("Hello world", "", 11) == (passing.head(), passing.tail(), passing.characters)


@given(st.integers(0, 40_000), st.lists(st.integers(0, 40_000), max_size=150).map(sorted))
def test_the_cuts_do_not_matter(length: int, cuts: list[int]) -> None:
    """Head and tail are those of the whole text."""
    text = "".join(chr(0x4E00 + number % 20_011) for number in range(length))
    edges = [0, *(cut for cut in cuts if cut <= length), length]
    passing = window(*(text[begin:end] for begin, end in pairwise(edges)))
    rest = text[HEAD_CHARACTERS:]
    assert (text[:HEAD_CHARACTERS], rest[-TAIL_CHARACTERS:], length) == (
        passing.head(),
        passing.tail(),
        passing.characters,
    )


def test_a_long_stream_of_small_pieces_is_bounded() -> None:
    """Memory does not grow with the answer."""
    passing = TextWindow()
    for _ in range(200_000):
        passing.add("word ")
    held = sum(map(len, passing._head)) + sum(map(len, passing._blocks)) + sum(map(len, passing._pieces))
    assert held <= HEAD_CHARACTERS + 2 * TAIL_CHARACTERS
    assert len(passing._blocks) < 200
