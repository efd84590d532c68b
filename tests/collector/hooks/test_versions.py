"""A range of vLLM releases."""

import pytest

from falseok_collector.hooks.versions import SUPPORTED, Versions


@pytest.mark.parametrize(
    ("versions", "version", "expected"),
    [
        (Versions("0.26", "0.29"), "0.26.0", True),
        (Versions("0.26", "0.29"), "0.29.1", True),
        (Versions("0.26", "0.29"), "0.30.0", False),
        (Versions("0.30", "0.33"), "0.29.0", False),
        (Versions("0.30", "0.33"), "0.33.0rc1+cpu", True),
        (Versions("0.30", "0.33"), "0.34.0", True),
        (Versions("0.26", "0.29"), "1.0.0", False),
        (SUPPORTED, "1.0.0", True),
        (Versions("0.26", "0.29"), "0.1.dev1+g1234", True),
        (Versions("0.30", "0.33"), "dev", True),
        (Versions("0.30", "0.33"), "", True),
    ],
)
def test_a_range_includes_its_ends_and_what_cannot_be_told(
    versions: Versions, version: str, expected: bool
) -> None:
    """A build from a checkout or a release newer than the table is looked at rather than given up."""
    assert expected == versions.includes(version)


def test_a_range_reads_as_words() -> None:
    """For pages and messages."""
    assert ("0.26 to 0.33", "0.30") == (str(SUPPORTED), str(Versions("0.30", "0.30")))
