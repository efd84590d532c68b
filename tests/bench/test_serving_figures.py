"""What a round of load comes to, and when a ratio holds its budget."""

import pytest
from bench.serving_figures import OwnShare, Round, own_share, ratios, round_of, spread, verdict

from falseok_lab.answers import Answer


def answer(**changes: object) -> Answer:
    """A streamed answer of 11 tokens: the first after 1 s, then one every 0.2 s."""
    fields: dict[str, object] = {
        "external_id": "a",
        "run": "r1",
        "index": 0,
        "direct": False,
        "endpoint": "chat",
        "stream": True,
        "status": 200,
        "finish_reason": "length",
        "completion_tokens": 11,
        "seconds": 3.0,
        "first_text_seconds": 1.0,
    }
    return Answer(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_round_is_summed_up() -> None:
    """Rates over the wall clock, latencies a token, processor time a request."""
    expected = Round(
        requests_per_second=0.5,
        output_tokens_per_second=5.5,
        time_to_first_token_p50_seconds=1.0,
        inter_token_latency_p50_seconds=0.2,
        inter_token_latency_p99_seconds=0.2,
        processor_seconds_per_request=1.5,
    )
    assert expected == round_of([answer(), answer()], wall_seconds=4.0, processor_seconds=3.0)


def test_what_the_collector_surely_took_is_summed_up_a_request() -> None:
    """Threads as counted; every call and every token at its measured cost."""
    rounds = [round_of([answer(), answer()], 4.0, processor_seconds=3.0, threads_seconds=0.02)]
    own = own_share(rounds, hook_calls_per_request=100, call_us=10.0, tokens=50, chunk_us=20.0)
    assert OwnShare(threads=0.01, hooks=0.001, tap=0.001, engines=1.5) == own
    assert pytest.approx(0.008) == own.share


def test_a_failed_request_spoils_the_round() -> None:
    """What was not served has no cost to compare."""
    with pytest.raises(ValueError, match="1 of 2 requests failed: 500 broken"):
        round_of([answer(), answer(status=500, error="broken")], 1.0, 1.0)


def test_ratios_are_paired_by_round() -> None:
    """A machine that slows down for a round slows both; the ratio of that round stays."""

    def at(speed: float) -> Round:
        return Round(
            requests_per_second=speed,
            output_tokens_per_second=speed,
            time_to_first_token_p50_seconds=1 / speed,
            inter_token_latency_p50_seconds=1 / speed,
            inter_token_latency_p99_seconds=1 / speed,
            processor_seconds_per_request=1 / speed,
        )

    rounds = {"off": [at(10.0), at(2.0), at(8.0)], "on": [at(9.0), at(1.8), at(7.2)]}
    exact = {"median": 0.9, "low": 0.9, "high": 0.9, "lowest": 0.9, "highest": 0.9}
    assert exact == ratios(rounds, "on", "off")["requests_per_second"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0] * 9, "yes"),
        ([0.99] * 9, "yes"),
        ([0.9] * 9, "no"),
        ([0.9, 0.95, 0.985, 0.985, 0.985, 1.0, 1.05, 1.1, 0.8], "noise"),
    ],
    ids=["no cost", "at the budget", "beyond it", "cannot be said"],
)
def test_when_a_budget_holds(values: list[float], expected: str) -> None:
    """Below the budget only what the rounds' own spread cannot explain counts as a breach."""
    assert expected == verdict(spread(values), 0.99)
