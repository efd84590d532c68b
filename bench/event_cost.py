"""What an event costs in all, beside an OpenTelemetry span with the same attributes: hot path, encoding and sending.

    python -m bench.event_cost

The collector writes to a spool, the SDK's batch processor exports over OTLP/HTTP to a receiver in another process, as
vLLM's own tracing does. Both take turns in one process; processor time of all its threads is counted, so that nothing
hides behind the call. vLLM traces one span a request (`OutputProcessor.do_tracing`); at the detail of the events that
the collector sends there would be one for each of them.
"""

import statistics
import time
from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Any

from bench.measurement import write_result
from bench.otlp_receiver import receiver
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from falseok_collector.attributes import SchedFinish
from falseok_collector.emitter import Emitter
from falseok_collector.settings import Settings

ROUNDS = 10
EVENTS_A_ROUND = 10_000
BURST = 500
"""Events between two pauses: fewer than the queue of the SDK's batch processor (2,048), which drops what is over."""

REQUEST = "chatcmpl-5f0c2b1e-8f1a-4c55-9d3e-0123456789ab-0123abcd"
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
FINISH: dict[str, Any] = {
    "leg": "decode",
    "status": "FINISHED_STOPPED",
    "finish_reason": "stop",
    "output_tokens": 128,
    "prompt_tokens": 1_000,
    "cached_tokens": 992,
    "preemptions": 1,
    "nans_in_logits": 1,
    "engine_seconds": 1.25,
    "queue_seconds": 0.002,
}


def spend(emit: Callable[[], None], finish: Callable[[], None]) -> float:
    """Processor microseconds an event, all threads of this process."""
    begin = time.process_time()
    for number in range(EVENTS_A_ROUND):
        emit()
        if number % BURST == BURST - 1:
            finish()
    return (time.process_time() - begin) / EVENTS_A_ROUND * 1e6


def with_collector() -> float:
    """Events through ring, sender and spool."""
    with TemporaryDirectory() as directory:
        emitter = Emitter(Settings(spool_dir=directory, salt="bench"))
        emitter.engine_id = "engine-0123456789abcdef"
        emitter.start()

        def emit() -> None:
            emitter.emit(SchedFinish(**FINISH), request_id=REQUEST, traceparent=TRACEPARENT)

        def drained() -> None:
            while len(emitter.ring):
                time.sleep(0.01)

        cost = spend(emit, drained)
        emitter.close()
        if emitter.ring.dropped:
            raise ValueError(f"{emitter.ring.dropped} events were dropped")
        return cost


def with_spans(address: str) -> float:
    """Spans through the SDK's batch processor."""
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{address}/v1/traces")))
    tracer = provider.get_tracer("bench")
    propagator = TraceContextTextMapPropagator()

    def emit() -> None:
        context = propagator.extract({"traceparent": TRACEPARENT})
        with tracer.start_as_current_span("finish", context=context, kind=SpanKind.SERVER) as span:
            span.set_attributes({**FINISH, "gen_ai.request.id": REQUEST})

    cost = spend(emit, lambda: None if provider.force_flush() else _not_sent())
    provider.shutdown()
    return cost


def _not_sent() -> None:
    raise ValueError("the receiver did not take all spans")


def main() -> dict[str, Any]:
    """Measure in turns, write down, print; the result."""
    events, spans = [], []
    with receiver() as address:
        for number in range(ROUNDS + 1):
            pair = with_collector(), with_spans(address)
            if number:  # the first round warms up
                events.append(pair[0])
                spans.append(pair[1])
    ratios = [event / span for event, span in zip(events, spans, strict=True)]
    result = {
        "rounds": ROUNDS,
        "events_a_round": EVENTS_A_ROUND,
        "event_processor_us": round(statistics.median(events), 2),
        "span_processor_us": round(statistics.median(spans), 2),
        "event_over_span": {
            "median": round(statistics.median(ratios), 3),
            "lowest": round(min(ratios), 3),
            "highest": round(max(ratios), 3),
        },
    }
    path = write_result("event_cost", result)
    print(
        f"an event {result['event_processor_us']} us, a span {result['span_processor_us']} us of processor time: "
        f"ratio {result['event_over_span']}"
    )
    print(f"written to {path}")
    return result


if __name__ == "__main__":
    main()
