"""Errors as they may be logged and sent: enough to find the place, nothing of what somebody wrote."""

from collections.abc import Callable

import pytest

from falseok_collector.telling import told, told_without_text


def caught(action: Callable[[], object]) -> Exception:
    """The error an action raises."""
    try:
        action()
    except Exception as error:  # noqa: BLE001 - whatever it is
        return error
    raise AssertionError("nothing was raised")


def refuse() -> None:
    """As an HTTP library would."""
    raise ConnectionError("http://user:private@collector:4318 refused")


@pytest.mark.parametrize("tell", [told, told_without_text])
@pytest.mark.parametrize(
    ("convert", "name"),
    [
        ("my private answer \ud800".encode, "UnicodeEncodeError"),
        (lambda: int("my private answer"), "ValueError"),
    ],
    ids=["encoding", "number"],
)
def test_an_error_is_told_without_the_text_it_quotes(
    tell: Callable[[BaseException], str], convert: Callable[[], object], name: str
) -> None:
    """A failed conversion names its whole input, which may be an answer: only its class and place are told."""
    shown = tell(caught(convert))
    assert name == shown.split(" ")[0]
    assert "private" not in shown


def test_a_defect_inside_a_hook_is_told_with_its_text() -> None:
    """An attribute that a release of vLLM renamed is found by its name."""
    shown = told(caught(lambda: object().scheduler))  # type: ignore[attr-defined]
    assert "has no attribute 'scheduler'" in shown


def test_what_a_library_says_of_an_address_is_not_told() -> None:
    """Its class and place are; what the system itself says of an error is, too."""
    place = told_without_text(caught(refuse))
    assert place.startswith("ConnectionError in refuse, line ")
    assert "No space left on device" == told_without_text(OSError(28, "No space left on device", "/spool"))
