"""An answer's text on its way to the sender thread: what is made of it, and what it may cost."""

import gc
from typing import Any

import msgspec
import pytest

from falseok_collector.allowance import ByteAllowance, TimeAllowance
from falseok_collector.attributes import ApiResponse
from falseok_collector.described import DescribedAnswer, Describer, EngineTokens, TextOptions
from falseok_collector.hashing import KeyedHash
from falseok_collector.request_body import RequestBody
from falseok_collector.text_features import ChoiceText
from falseok_collector.text_window import TextWindow

ANSWER = ApiResponse(endpoint="/v1/completions", choices=1)


def text(content: str, reasoning: str = "") -> ChoiceText:
    """A choice of this text."""
    windows = (TextWindow(), TextWindow())
    for window, piece in zip(windows, (content, reasoning), strict=True):
        window.add(piece)
    return ChoiceText(*windows)


def described(*choices: ChoiceText, tokens: list[EngineTokens] | None = None, **options: Any) -> ApiResponse:
    """An answer of these choices, as it travels."""
    snapshot = Describer(TextOptions(**options)).describe(ANSWER, list(choices), RequestBody(), tokens or [])
    return snapshot.finish(KeyedHash("")) if isinstance(snapshot, DescribedAnswer) else snapshot


def test_features_are_added_and_no_text() -> None:
    """Numbers only."""
    answer = described(text("secret word " * 20))
    assert answer.features["repeated_share"] > 0.5
    assert b"secret" not in msgspec.json.encode(answer)


def test_tokens_of_the_engine_are_described_beside_the_text() -> None:
    """The worst of several engine requests."""
    tokens = [EngineTokens(([1, 2],), -0.5), EngineTokens(([0] * 9,), -3.0)]
    features = described(text("x"), tokens=tokens).features
    assert (9, 9, -3) == tuple(
        features[name] for name in ("longest_token_run", "sentinel_token_run", "mean_log_probability")
    )


def test_features_that_are_off() -> None:
    """No text is held then."""
    assert ({}, "off") == (
        described(text("x"), features=False).features,
        described(text("x"), features=False).features_missing,
    )


def test_an_answer_without_output_has_none() -> None:
    """A rejected request."""
    assert ANSWER == described()


def test_texts_that_wait_are_bounded_and_given_back() -> None:
    """By finishing or by being thrown away; past the bound the event goes without features."""
    describer = Describer(TextOptions())
    describer.bytes = ByteAllowance(10_000)
    snapshots = [describer.describe(ANSWER, [text("x" * 1_000)], RequestBody(), []) for _ in range(4)]
    missing = [one.features_missing for one in snapshots if isinstance(one, ApiResponse)]
    assert (["memory"] * 2, 8_000) == (missing, describer.bytes.held)
    snapshots.clear()
    gc.collect()
    assert 0 == describer.bytes.held


def test_the_share_of_the_processor_is_bounded() -> None:
    """Past it the event goes without features; later there is time again."""
    now = [0.0]
    allowance = TimeAllowance(share=0.1, clock=lambda: now[0])

    def work() -> dict[str, float]:
        now[0] += 2.0
        return {"x": 1.0}

    assert allowance.left()
    assert {"x": 1.0} == allowance.spend(work)
    assert not allowance.left()
    now[0] += 20.0
    assert allowance.left()


def test_a_busy_process_says_so() -> None:
    """What is missing has a reason."""
    describer = Describer(TextOptions())
    describer.time = TimeAllowance(share=0.0)
    describer.time._seconds = 0.0
    snapshot = describer.describe(ANSWER, [text("x")], RequestBody(), [])
    assert isinstance(snapshot, DescribedAnswer)
    assert ({}, "busy") == (
        snapshot.finish(KeyedHash("")).features,
        snapshot.finish(KeyedHash("")).features_missing,
    )


def test_what_goes_wrong_costs_the_features_not_the_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is told all the same."""

    def defective(*_: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr("falseok_collector.described.choice_features", defective)
    assert "error" == described(text("x")).features_missing


def test_captured_text_travels_where_it_is_asked_for() -> None:
    """With the features, or without them."""
    answer = described(text("Hello", "Hm"), text("Hi"), capture=True, capture_max_bytes=100)
    assert (["Hello", "Hi"], ["Hm", ""], False, True) == (
        answer.captured_content,
        answer.captured_reasoning,
        answer.captured_cut,
        bool(answer.features),
    )
    alone = described(text("Hello"), features=False, capture=True, capture_max_bytes=100)
    assert (["Hello"], {}) == (alone.captured_content, alone.features)
