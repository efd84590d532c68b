"""Options that take all the values a shell pattern gives."""

import pytest

from falseok.many_values import repeated


@pytest.mark.parametrize(
    ("given", "parsed"),
    [
        (["--a", "1", "2", "3"], ["--a", "1", "--a", "2", "--a", "3"]),
        (["--a", "1", "--b", "2", "--a", "3", "4"], ["--a", "1", "--b", "2", "--a", "3", "--a", "4"]),
        (["--a=1", "2"], ["--a=1", "--a", "2"]),
        (["--b", "1", "2"], ["--b", "1", "2"]),
        (["--a", "1", "--json", "2"], ["--a", "1", "--json", "2"]),
        (["--a", "1", "-", "--", "2"], ["--a", "1", "--a", "-", "--", "2"]),
        ([], []),
    ],
)
def test_further_values_repeat_their_option(given: list[str], parsed: list[str]) -> None:
    """Only after an option that may be repeated; anything else stays for the parser to judge."""
    assert parsed == repeated(given, {"--a"})
