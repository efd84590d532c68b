"""Text that an operator asked for: redacted, bounded, and marked where it was cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falseok_collector.attributes import ApiResponse
from falseok_collector.capture import captured, redact_text, redacted_beginning
from falseok_collector.redaction import REDACTED
from falseok_collector.text_features import ChoiceText
from falseok_collector.text_window import HEAD_CHARACTERS, TextWindow


def window(text: str) -> TextWindow:
    """A window onto this text."""
    passing = TextWindow()
    passing.add(text)
    return passing


@pytest.mark.parametrize(
    "private",
    [
        "sk-abcdefghijklmnop1234",
        "ghp_abcdefghijklmnop1234",
        "AKIAABCDEFGHIJKLMNOP",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
        "anna.smith+x@example.org",
        "+49 170 1234567",
        "4111 1111 1111 1111",
        "123-45-67890",
        "hunter2hunter2hunter2hunter2hunter2",
    ],
)
def test_private_words_are_replaced(private: str) -> None:
    """Credentials, addresses, numbers of people; the words around them stay."""
    assert "Take [redacted] now" == redact_text(f"Take {private} now")


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("password: hunter2", "hunter2"),
        ('{"api_key": "abc-def"}', "abc-def"),
        ("Authorization: Bearer abcdef123", "abcdef123"),
        ("https://anna:pw@example.org/x", "anna:pw"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\ndef\n-----END RSA PRIVATE KEY-----", "abc"),
        ("-----BEGIN PRIVATE KEY-----\nabc\ndef", "abc"),
    ],
)
def test_secrets_are_replaced_in_their_context(text: str, secret: str) -> None:
    """By the name before them or the form around them."""
    assert secret not in redact_text(text)
    assert "[redacted]" in redact_text(text)


@pytest.mark.parametrize("text", ["Built in 1871, 40 km long.", "The token is short.", "a@b is no address"])
def test_ordinary_text_stays(text: str) -> None:
    """Redaction that eats everything would help nobody."""
    assert text == redact_text(text)


def capture(*texts: str, most: int, choices: int | None = None) -> ApiResponse:
    """Captured contents of an answer."""
    told = [ChoiceText(window(text), window("")) for text in texts]
    return captured(ApiResponse(choices=len(texts) if choices is None else choices), told, most)


def test_the_limit_holds_over_all_choices() -> None:
    """In bytes, never in the middle of a character."""
    answer = capture("ééé", "abc", most=5)
    assert (["éé", ""], True) == (answer.captured_content, answer.captured_cut)
    assert not capture("ééé", "abc", most=9).captured_cut
    assert capture("a", most=9, choices=9).captured_cut


@given(st.lists(st.text(max_size=50), max_size=4), st.integers(1, 60))
def test_no_text_passes_the_limit(texts: list[str], most: int) -> None:
    """Whatever it is."""
    assert sum(len(text.encode()) for text in capture(*texts, most=most).captured_content) <= most


def test_a_credential_at_the_edge_of_what_is_kept_is_left_out() -> None:
    """Half of it would not be recognised."""
    text = "a " * (HEAD_CHARACTERS // 2 - 3) + "sk-abcdefghijklmnop1234"
    kept, whole = redacted_beginning(window(text))
    assert ("sk-" in kept, whole) == (False, False)


@pytest.mark.parametrize("text", ["-" * 4_096, "a" * 4_096, "=" * 100])
def test_rules_and_long_words_stay(text: str) -> None:
    """They are no keys, and looking at them takes one pass."""
    assert text == redact_text(text)


def test_a_long_key_goes_whole() -> None:
    """Numbers inside it are not taken for telephone numbers first."""
    assert f"id {REDACTED} end" == redact_text("id a1234567890b1234567890c1234567890d end")
