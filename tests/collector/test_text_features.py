"""Numbers about a text: what garbage shows, what its look-alikes do not, and that cuts do not matter."""

import base64
import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falseok_collector import surprise_sample
from falseok_collector.feature_catalogue import BY_NAME, CATALOGUE, features_page, worst
from falseok_collector.surprise import surprise_bits
from falseok_collector.text_features import (
    ChoiceText,
    PromptText,
    choice_features,
    is_sentinel,
    longest_unit_run,
    text_features,
    token_features,
)
from falseok_collector.text_window import TextWindow

PROSE = (
    "The river rises in the hills north of the town and reaches the sea after forty kilometres. In spring it floods "
    "the meadows; farmers move their sheep before the snow melts. A bridge was built in 1871, and the old mill beside "
    "it is a school today. Visitors can follow a path along the bank, but they should bring good shoes."
)


def window(*pieces: str) -> TextWindow:
    """A window onto a text that arrived in these pieces."""
    passing = TextWindow()
    for piece in pieces:
        passing.add(piece)
    return passing


def of(content: str, reasoning: str = "", prompt: str = "", **changes: Any) -> dict[str, float]:
    """The features of one choice."""
    return choice_features(ChoiceText(window(content), window(reasoning), **changes), PromptText(prompt))


def test_ordinary_prose_shows_no_symptom() -> None:
    """Every counter at rest."""
    found = of(PROSE)
    for name in ("special_token_leaks", "tool_markup_leaks", "thinking_markup_leaks", "replacement_share"):
        assert 0 == found[name], name
    for name in ("mixed_script_words", "script_joints", "ran_to_limit", "prompt_overlap"):
        assert 0 == found[name], name
    assert found["repeated_share"] < 0.05
    assert found["compression_ratio"] < 2
    assert found["surprise_bits"] < 5
    assert found["longest_unit_run"] < 6


@pytest.mark.parametrize(
    ("text", "name", "least"),
    [
        ("!" * 300, "longest_character_run", 300),
        ("!" * 300, "longest_punctuation_run", 300),
        ("the the the the the the", "longest_unit_run", 23),
        ("的答案" * 50, "longest_unit_run", 450),
        ("no way out of here " * 40, "repeated_share", 0.9),
        ("no way out of here " * 40, "compression_ratio", 15),
        ("The приvет answer σlo is tоday", "mixed_script_words", 10),
        ("the的 answer은 is한 not的 good", "script_joints", 10),
        ("qzxv kwjq zzxq vbnq xjkw qqzx wvxz kjqx zvwq", "surprise_bits", 7),
        ("a\ufffd\ufffdb", "replacement_share", 0.5),
        ("0" * 99, "longest_digit_run", 99),
        ("{[;:,.!?}]" * 9, "punctuation_share", 1),
        ("Fine.<|im_end|><|endoftext|></s>", "special_token_leaks", 3),
        ("<｜tool▁sep｜>[INST]<0x0A><end_of_turn>", "special_token_leaks", 4),
        ("<tool_call>{}</tool_call>[TOOL_CALLS]<|python_tag|>", "tool_markup_leaks", 4),
        ("<think>Hm</think>", "thinking_markup_leaks", 2),
    ],
)
def test_what_garbage_shows(text: str, name: str, least: float) -> None:
    """Each by its own number."""
    assert of(text)[name] >= least


@pytest.mark.parametrize(
    ("text", "name", "most"),
    [
        ("使用Python编写程序时，可以使用NumPy。", "mixed_script_words", 0),
        ("Das Café in Zürich kostet 5 €, naïve señor.", "mixed_script_words", 0),
        ("Слово — word — 词 — λέξη", "mixed_script_words", 0),
        ("if x < s and y > think: call(tool)", "special_token_leaks", 0),
        ("Σ(x) is a sum", "mixed_script_words", 0),
        (PROSE[:40], "repeated_share", 0),
        ("The hare and the hound ran.", "longest_unit_run", 3),
    ],
)
def test_look_alikes_do_not_show_it(text: str, name: str, most: float) -> None:
    """Names in other writing, several languages, code."""
    assert of(text)[name] <= most


def test_markup_that_the_prompt_holds_is_no_leak() -> None:
    """Somebody asks about chat templates."""
    answer = "It ends with <|im_end|>."
    assert [1, 0] == [
        of(answer, prompt=prompt)["special_token_leaks"] for prompt in ("", "What is <|im_end|>?")
    ]


def test_the_prompt_as_context() -> None:
    """Its own repetition, and how much of it the answer repeats."""
    prompt = "Repeat after me: no way out of here. " * 20
    found = of("no way out of here. Repeat after me: " * 5, prompt=prompt)
    assert found["prompt_overlap"] == 1
    assert PromptText(prompt).features()["prompt_compression_ratio"] > 10
    assert {} == PromptText("").features()


def test_reasoning_without_content() -> None:
    """Unless a tool is called."""
    assert 8 == of("", "Thinking")["reasoning_without_content"]
    assert "reasoning_without_content" not in of("", "Thinking", tool_calls=1)
    assert "reasoning_without_content" not in of("Yes", "Thinking")


@pytest.mark.parametrize(("reason", "expected"), [("length", 1), ("max_output_tokens", 1), ("stop", 0)])
def test_an_answer_that_ran_to_its_limit(reason: str, expected: int) -> None:
    """By both endpoints' names."""
    assert expected == of("x", finish_reason=reason)["ran_to_limit"]


@given(
    st.text(max_size=12_000), st.text(max_size=300), st.lists(st.integers(0, 12_000), max_size=40), st.data()
)
def test_the_cuts_of_a_stream_do_not_matter(
    content: str, reasoning: str, cuts: list[int], data: st.DataObject
) -> None:
    """The same text, the same numbers."""
    factor = data.draw(st.integers(1, 40))
    content *= factor
    edges = [0, *sorted(min(cut * factor, len(content)) for cut in cuts), len(content)]
    pieces = [content[begin:end] for begin, end in pairwise(edges)]
    prompt = PromptText(reasoning)
    whole = ChoiceText(window(content), window(reasoning))
    cut = ChoiceText(window(*pieces), window(*reasoning))
    assert choice_features(whole, prompt) == choice_features(cut, prompt)


@given(st.text(max_size=400), st.text(max_size=400))
def test_every_number_has_a_place_in_the_catalogue_and_keeps_its_range(content: str, reasoning: str) -> None:
    """Whatever the text is."""
    for name, value in (of(content, reasoning, content) | PromptText(content).features()).items():
        feature = BY_NAME[name]
        assert 0 <= value <= (feature.high if feature.high is not None else float("inf")), name


@given(st.integers(1, 24), st.integers(3, 30), st.integers(0, 23), st.integers(0, 99))
def test_a_repeated_unit_is_measured_to_the_byte(size: int, times: int, more: int, seed: int) -> None:
    """Unit, repetitions and a broken last one, between bytes of their own."""
    unit = "".join(random.Random(seed).sample("abcdefghijklmnopqrstuvwxyz", size))
    run = unit * times + unit[: min(more, size - 1)]
    assert len(run) == longest_unit_run(f"12{run}34")


def test_two_repetitions_are_none() -> None:
    """Very very good texts have them."""
    assert 0 == longest_unit_run("bonbon")


def test_a_text_with_a_gap_is_not_joined() -> None:
    """Of a long text beginning and end are kept: what meets there is no run."""
    pieces = ["x" + "ab" * 3, "ab" * 3 + "y"]
    assert 6 == text_features(pieces)["longest_unit_run"]


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([[5, 5, 5, 0, 0, 7]], (3, 2)),
        ([[151_643] * 4 + [131_071] * 9], (9, 9)),
        ([[1, 1, 1]], (3, 0)),
        ([[2], [2]], (1, 0)),
    ],
)
def test_runs_of_token_ids(pieces: list[list[int]], expected: tuple[int, int]) -> None:
    """Ids 0 and 2^k-1 are what is left when logits are not numbers."""
    found = token_features(pieces)
    assert expected == (found["longest_token_run"], found["sentinel_token_run"])


def test_no_tokens_no_features() -> None:
    """An empty answer."""
    assert {} == token_features([[]])


def test_sentinels() -> None:
    """Small ids are ordinary tokens."""
    assert [0, 255, 65_535, 131_071] == [
        token for token in (0, 1, 3, 127, 255, 256, 65_535, 65_536, 131_071) if is_sentinel(token)
    ]


def test_of_several_choices_the_worst_counts() -> None:
    """One choice that is off marks the answer."""
    found = worst([{"longest_digit_run": 3, "mean_log_probability": -1}, {"longest_digit_run": 2}, {}])
    assert {"longest_digit_run": 3, "mean_log_probability": -1} == found
    assert -5 == worst([{"mean_log_probability": -1}, {"mean_log_probability": -5}])["mean_log_probability"]


def test_the_page_names_every_feature() -> None:
    """It is made from the catalogue, whose names are unique."""
    page = features_page()
    assert all(f"| `{feature.name}` |" in page for feature in CATALOGUE)
    assert len(CATALOGUE) == len(BY_NAME)


def test_prose_of_any_language_surprises_less_than_chance() -> None:
    """Letters in random order, and random choices of alphabets, stand out."""
    shuffled = list(PROSE)
    random.Random(7).shuffle(shuffled)
    random_letters = "".join(random.Random(8).choices("abcdefghijklmnopqrstuvwxyz", k=300))
    encoded = base64.b64encode(random.Random(9).randbytes(300)).decode()
    prose = [surprise_bits(line) for line in surprise_sample.SAMPLE.splitlines() if len(line) > 60]
    assert max(prose) < surprise_bits(random_letters)
    assert surprise_bits(PROSE) < surprise_bits("".join(shuffled)) < surprise_bits(random_letters)
    assert surprise_bits(encoded) > surprise_bits(PROSE) + 2
