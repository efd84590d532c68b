"""What the serving benchmark says of its budgets."""

from typing import Any

import pytest
from bench.serving import judged


def result(low: float, median: float, high: float, *, share: float, dropped: int = 0) -> dict[str, Any]:
    """A result whose ratios are all alike."""
    ratio = {"median": median, "low": low, "high": high}
    names = (
        "requests_per_second",
        "output_tokens_per_second",
        "processor_seconds_per_request",
        "inter_token_latency_p99_seconds",
    )
    ratios = dict.fromkeys(names, ratio)
    return {
        "on_over_off": ratios,
        "on_over_otlp": ratios,
        "collector_share": share,
        "collector": {"events": 2, "bytes": 1_700, "dropped": dropped},
    }


@pytest.mark.parametrize(
    ("low", "median", "high", "share", "expected"),
    [
        (0.97, 1.01, 1.03, 0.002, "yes"),
        (0.95, 0.97, 1.02, 0.002, "by count"),
        (0.95, 0.97, 1.02, 0.02, "noise"),
        (0.95, 0.97, 0.995, 0.002, "noise"),
        (0.93, 0.95, 0.98, 0.002, "no"),
    ],
    ids=["holds", "open and counted", "open and over", "surely slower, perhaps in budget", "breached"],
)
def test_an_open_ratio_is_decided_by_what_was_counted(
    low: float, median: float, high: float, share: float, expected: str
) -> None:
    """A breach that the rounds prove stays one; a count within the budget settles only what the rounds leave open."""
    rows = {measure: holds for measure, _, _, holds in judged(result(low, median, high, share=share))}
    assert expected == rows["requests_per_second, on/off"] == rows["output_tokens_per_second, on/off"]


@pytest.mark.parametrize(("share", "expected"), [(0.01, "yes"), (0.011, "no")])
def test_the_counted_share_has_a_budget_of_its_own(share: float, expected: str) -> None:
    """More than one percent of the engines' processor time is a breach, whatever the rates say."""
    rows = {measure: holds for measure, _, _, holds in judged(result(1.0, 1.0, 1.0, share=share))}
    assert expected == rows["collector's counted share of processor time"]


def test_a_dropped_event_is_a_breach_and_the_size_of_events_is_told() -> None:
    """A collector that loses events at this load would be cheap for nothing."""
    rows = {measure: row for measure, *row in judged(result(1.0, 1.0, 1.0, share=0.0, dropped=1))}
    assert ["1", "0", "no"] == rows["events dropped"]
    assert ["850", "-", "-"] == rows["spool bytes an event"]
