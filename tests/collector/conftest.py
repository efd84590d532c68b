"""A swallowed error fails the test, unless the test says that it expects it.

Whatever the collector swallows it also counts, and it logs the first of each kind; the log shows them here.
"""

import logging
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


class Swallowed(logging.Handler):
    """Collects what the collector logs as trouble."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message as a reader of the log would see it."""
        self.messages.append(record.getMessage())


@pytest.fixture
def swallowed_errors() -> list[str]:
    """Asking for this declares that errors are expected: it fills with what was logged, and must not stay empty."""
    return []


@pytest.fixture(autouse=True)
def _no_unexpected_swallowed_error(request: pytest.FixtureRequest) -> Iterator[None]:
    handler = Swallowed()
    expected = "swallowed_errors" in request.fixturenames
    if expected:
        handler.messages = request.getfixturevalue("swallowed_errors")
    logger = logging.getLogger("falseok")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
    if expected:
        assert handler.messages, "the test expects a swallowed error and there was none"
    else:
        assert [] == handler.messages, "an error was swallowed that the test does not expect"
