"""Figures of one round of load, and ratios of rounds that were run in turns."""

import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from falseok_lab.answers import Answer

LEVEL = 0.95
_RESAMPLES = 4_000

HIGHER_IS_BETTER = ("requests_per_second", "output_tokens_per_second")
LOWER_IS_BETTER = (
    "processor_seconds_per_request",
    "time_to_first_token_p50_seconds",
    "inter_token_latency_p50_seconds",
    "inter_token_latency_p99_seconds",
)


@dataclass(frozen=True, kw_only=True)
class Round:
    """What one variant did in one round."""

    requests_per_second: float
    output_tokens_per_second: float
    time_to_first_token_p50_seconds: float
    inter_token_latency_p50_seconds: float
    inter_token_latency_p99_seconds: float
    processor_seconds_per_request: float
    collector_threads_seconds_per_request: float = 0.0
    """Of these, those of the collector's own threads."""


@dataclass(frozen=True, kw_only=True)
class OwnShare:
    """Processor seconds a request that are surely the collector's, part by part, and those of the engines in all."""

    threads: float
    """Sender and sinks, as the system counted them."""
    hooks: float
    """At most: every call of every hook at what the costliest one takes at its slowest percent."""
    tap: float
    """At most: every output token a chunk, each at its slowest percent."""
    engines: float

    @property
    def share(self) -> float:
        """The collector's part of all processor time."""
        return (self.threads + self.hooks + self.tap) / self.engines


def round_of(
    answers: Sequence[Answer], wall_seconds: float, processor_seconds: float, threads_seconds: float = 0.0
) -> Round:
    """Sum up a round. Raises `ValueError` when a request was not answered: its figures would mean nothing."""
    bad = [answer for answer in answers if not answer.answered]
    if bad:
        raise ValueError(
            f"{len(bad)} of {len(answers)} requests failed: {bad[0].status} {bad[0].error[:200]}"
        )
    tokens = sum(answer.completion_tokens for answer in answers)
    # A client sees pieces, not tokens: the mean of an answer is exact, its pieces are not.
    gaps = [
        (answer.seconds - answer.first_text_seconds) / (answer.completion_tokens - 1)
        for answer in answers
        if answer.completion_tokens > 1
    ]
    return Round(
        requests_per_second=len(answers) / wall_seconds,
        output_tokens_per_second=tokens / wall_seconds,
        time_to_first_token_p50_seconds=statistics.median(answer.first_text_seconds for answer in answers),
        inter_token_latency_p50_seconds=statistics.median(gaps),
        inter_token_latency_p99_seconds=_percentile(gaps, 0.99),
        processor_seconds_per_request=processor_seconds / len(answers),
        collector_threads_seconds_per_request=threads_seconds / len(answers),
    )


def own_share(
    rounds: Sequence[Round], *, hook_calls_per_request: float, call_us: float, tokens: int, chunk_us: float
) -> OwnShare:
    """What the collector surely took: counted, not told apart from the noise between two pairs of engines."""
    return OwnShare(
        threads=statistics.fmean(one.collector_threads_seconds_per_request for one in rounds),
        hooks=hook_calls_per_request * call_us / 1e6,
        tap=tokens * chunk_us / 1e6,
        engines=statistics.fmean(one.processor_seconds_per_request for one in rounds),
    )


def ratios(rounds: Mapping[str, Sequence[Round]], variant: str, base: str) -> dict[str, dict[str, float]]:
    """Every figure of `variant` over that of `base`, paired by round: median, and where the median may lie."""
    found = {}
    for name in (*HIGHER_IS_BETTER, *LOWER_IS_BETTER):
        pairs = zip(rounds[variant], rounds[base], strict=True)
        found[name] = spread([getattr(one, name) / getattr(other, name) for one, other in pairs])
    return found


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, its 95 % interval by resampling (always with the same seed), lowest and highest."""
    choose = random.Random(1)  # noqa: S311 - no secret
    medians = sorted(statistics.median(choose.choices(values, k=len(values))) for _ in range(_RESAMPLES))
    cut = round((1 - LEVEL) / 2 * _RESAMPLES)
    return {
        "median": round(statistics.median(values), 4),
        "low": round(medians[cut], 4),
        "high": round(medians[-cut - 1], 4),
        "lowest": round(min(values), 4),
        "highest": round(max(values), 4),
    }


def verdict(ratio: Mapping[str, float], least: float) -> str:
    """Whether a ratio that should be at least `least` is: yes, no, or `noise` when the rounds differ too much to say.

    The median decides when it is on the good side; below the budget it must be so beyond the rounds' own spread.
    """
    if ratio["median"] >= least:
        return "yes"
    return "no" if ratio["high"] < least else "noise"


def as_rows(rounds: Sequence[Round]) -> list[dict[str, Any]]:
    """The rounds as they are written down."""
    return [{name: round(value, 5) for name, value in asdict(one).items()} for one in rounds]


def _percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
