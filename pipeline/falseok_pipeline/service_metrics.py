"""What the service measures of itself, through the OpenTelemetry API: free of cost until an SDK is set up.

Names are OpenTelemetry's; Prometheus sees them as `falseok_pipeline_events_stored_total` and so on.
"""

from collections.abc import Callable, Iterable

from opentelemetry.metrics import CallbackOptions, Histogram, Observation, get_meter

from falseok_pipeline.statistics import Statistics

DELAY_BUCKETS_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 3_600.0)

_COUNTERS: dict[str, tuple[str, str, Callable[[Statistics], float]]] = {
    "events.stored": (
        "{event}",
        "Events stored, those that were delivered again included",
        lambda s: s.events_stored,
    ),
    "dead_letters": ("{line}", "Lines that could not become events", lambda s: s.dead_letters),
    "batches": ("{batch}", "Batches stored", lambda s: s.batches),
    "read": ("By", "Bytes of lines read", lambda s: s.bytes_read),
    "segments.lost": (
        "{segment}",
        "Spool segments that vanished before they were read",
        lambda s: s.lost_segments,
    ),
    "messages.lost": (
        "{message}",
        "Messages that retention took before they were read",
        lambda s: s.lost_messages,
    ),
}
_GAUGES: dict[str, tuple[str, str, Callable[[Statistics], float]]] = {
    "spool.lag": ("By", "Bytes in the spools that are not durable in the store yet", lambda s: s.lag_bytes),
    "consumer.lag": (
        "{message}",
        "Messages in this process's partitions that are not durable in the store yet",
        lambda s: s.lag_messages,
    ),
    "last_event.time": (
        "s",
        "Latest wall clock of an event stored, since the epoch",
        lambda s: s.last_event_micros / 1e6,
    ),
    "store.waiting": ("1", "1 while the store makes us wait", lambda s: float(bool(s.waiting_for))),
    "source.trouble": ("1", "1 while nothing can be read", lambda s: float(bool(s.source_trouble))),
}


class ServiceMetrics:
    """The instruments of one service. `statistics` is asked whenever somebody collects, from another thread."""

    def __init__(self, statistics: Callable[[], Statistics]) -> None:
        meter = get_meter("falseok.pipeline")
        for name, (unit, description, read) in _COUNTERS.items():
            meter.create_observable_counter(
                f"falseok.pipeline.{name}", [_callback(statistics, read)], unit, description
            )
        for name, (unit, description, read) in _GAUGES.items():
            meter.create_observable_gauge(
                f"falseok.pipeline.{name}", [_callback(statistics, read)], unit, description
            )
        self._delay: Histogram = meter.create_histogram(
            "falseok.pipeline.event.delay",
            "s",
            "From the wall clock of each batch's oldest event until the batch was durable in the store",
            explicit_bucket_boundaries_advisory=list(DELAY_BUCKETS_SECONDS),
        )

    def batch_stored(self, oldest_delay_seconds: float) -> None:
        """Note how long the oldest event of a batch was under way."""
        self._delay.record(oldest_delay_seconds)


def _callback(
    statistics: Callable[[], Statistics], read: Callable[[Statistics], float]
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    return lambda _options: [Observation(read(statistics()))]
