"""Answers without ids: joined where the counts leave no choice, suspected or left alone otherwise."""

import pytest

from falseok_pipeline.sources.logs.joining import GAP_MICROS, LAG_MICROS, Failure, Joined, Joiner

SECOND = 1_000_000
Answer = tuple[float, int]


def failure(number: int, seconds: float = 100.0) -> Failure:
    """A failed request."""
    return Failure("decode-1", f"chatcmpl-{number}-bbbbbbbb", str(number), int(seconds * SECOND))


def joiner(failures: list[Failure], answers: list[Answer]) -> Joiner:
    """Failures and answers as they come in time."""
    built = Joiner()
    told: list[tuple[float, Failure | int]] = [(item.ts / SECOND, item) for item in failures]
    told += list(answers)
    for seconds, item in sorted(told, key=lambda entry: entry[0]):
        if isinstance(item, Failure):
            built.failure(item)
        else:
            built.answer(int(seconds * SECOND), item)
    return built


def joined(failures: list[Failure], answers: list[Answer]) -> tuple[list[Joined], bool | None, str]:
    """Joins, and what the only window says."""
    built = joiner(failures, answers)
    found = built.joined()
    [window] = built.windows
    return found, window.fits, window.note


@pytest.mark.parametrize(
    ("failures", "answers", "joins", "fits", "note"),
    [
        (3, [(101.0, 200)] * 3, ("count_and_time", 200), True, "3 failed requests, 3 answers, all 2xx"),
        (1, [(99.0, 200)], ("count_and_time", 200), True, "1 failed request, 1 answer, all 2xx"),
        (2, [(101.0, 200)], ("count_mismatch", 200), False, "2 failed requests, 1 answer, all 2xx"),
        (2, [(101.0, 200)] * 5, ("count_mismatch", 200), False, "2 failed requests, 5 answers, all 2xx"),
        (2, [(101.0, 500)] * 2, ("count_and_time", 500), True, "2 failed requests, 2 answers, all 5xx"),
        (2, [(101.0, 500)], None, False, "2 failed requests, 1 answer, all 5xx"),
        (
            2,
            [(101.0, 200), (102.0, 500)],
            ("count_mismatch", 200),
            False,
            "2 failed requests, 1 answers 2xx and 1 answers 5xx",
        ),
        (2, [], None, False, "2 failed requests, no answers"),
        (
            1,
            [(101.0, 400), (102.0, 200)],
            ("count_and_time", 200),
            True,
            "1 failed request, 1 answer, all 2xx",
        ),
        (1, [(30.0, 200), (401.0, 200)], None, False, "1 failed request, no answers"),
    ],
)
def test_counts(
    failures: int, answers: list[Answer], joins: tuple[str, int] | None, fits: bool, note: str
) -> None:
    """Every failure is joined alike, or none is; refusals and answers outside the window do not count."""
    found, window_fits, window_note = joined([failure(number) for number in range(failures)], answers)
    assert (fits, note) == (window_fits, window_note)
    assert ([joins] * failures if joins else []) == [(answer.joined_by, answer.status) for answer in found]


def test_answers_are_never_before_their_failure() -> None:
    """Each failure gets the next answer after it, in order."""
    found, *_ = joined([failure(1, 100), failure(2, 110)], [(105.0, 200), (115.0, 200)])
    assert [105, 115] == [answer.ts // SECOND for answer in found]


def test_what_the_log_says_itself_is_not_counted_again() -> None:
    """A request whose error was logged has its share of the errors; the other one has the 200."""
    errored, other = failure(1), failure(2)
    errored.ended_in_error = True
    found, fits, _ = joined([errored, other], [(101.0, 200), (102.0, 500)])
    assert fits
    assert [("1", 500), ("2", 200)] == [(answer.failure.external_id, answer.status) for answer in found]


def test_an_error_in_a_stream_took_one_of_the_200s() -> None:
    """Its answer had begun with 200; the other failure has the second one."""
    errored, other = failure(1), failure(2)
    errored.ended_in_error = True
    found, fits, _ = joined([errored, other], [(101.0, 200), (102.0, 200)])
    assert fits
    assert ["2"] == [answer.failure.external_id for answer in found]


def test_what_has_an_id_is_left_alone() -> None:
    """Its answer is known, and one of the answers was its own."""
    known, other = failure(1), failure(2)
    known.answered_by_id = True
    found, fits, _ = joined([known, other], [(101.0, 200), (102.0, 200)])
    assert fits
    assert ["2"] == [answer.failure.external_id for answer in found]


def test_failures_far_apart_are_episodes_of_their_own() -> None:
    """An error in one says nothing of the other, and no answer is counted for two."""
    later = 100 + GAP_MICROS / SECOND + 1
    built = joiner([failure(1), failure(2, later)], [(101.0, 500), (later + 1, 200)])
    assert [("1", 500), ("2", 200)] == [(a.failure.external_id, a.status) for a in built.joined()]
    assert [(0, 1), (1, 0)] == [(window.succeeded, window.errors) for window in built.windows]


def test_memory_does_not_grow_with_healthy_answers() -> None:
    """Answers without a failure are forgotten after a minute."""
    built = Joiner()
    for second in range(20_000):
        built.answer(second * SECOND, 200)
    assert 61 >= len(built._recent)
    built.failure(failure(1, 20_000))
    for second in range(20_000, 60_000):
        built.answer(second * SECOND, 200)
    assert LAG_MICROS // SECOND + 62 >= len(built.windows[0].successes)
