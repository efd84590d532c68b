"""The OTLP sink against a receiver that decodes what arrives."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from opentelemetry import context
from tests.collector.sinks.receiver import Receiver, attributes, grpc_receiver, http_receiver
from tests.collector.waiting import until

from falseok_collector.attributes import EngineConfig, KvGroup, KvOffer, SchedPreempt
from falseok_collector.emitter import Emitter
from falseok_collector.events import decode
from falseok_collector.settings import Settings
from falseok_collector.sinks.otlp import EXPORT_EVENTS, OtlpExport, OtlpSink, Outcome, modules, protocol

EVENT = b'{"v":1,"id":"boot-1","ts":1,"mono":1,"boot":"boot","seq":1,"name":"sched.preempt","origin":"hook"}'
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """A receiver that the usual variable points at."""
    with http_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "2")
        yield receiver


def emitter_of(*sinks: str, spool_dir: str = "") -> Emitter:
    """An engine's emitter."""
    emitter = Emitter(
        Settings(
            sinks=sinks or ("otlp",), spool_dir=spool_dir, flush_seconds=0.005, heartbeat_seconds=60, salt="s"
        )
    )
    emitter.process, emitter.engine_id = "engine_core", "engine-1"
    emitter.start()
    return emitter


def test_an_event_is_a_log_record_with_its_name_times_and_fields(receiver: Receiver) -> None:
    """Nothing of the envelope or the attributes is missing; nested values keep their shape."""
    emitter = emitter_of()
    config = EngineConfig(
        process="worker",
        versions={"vllm": "0.32.0"},
        factors={"big": 2**64 - 1, "flags": [True, 1, 2.5, "x", None], "nested": {"a": {"b": [1]}}},
        kv_groups=[KvGroup(kind="FullAttentionSpec", layers=2, block_size=16)],
    )
    emitter.emit(config)
    emitter.emit(
        KvOffer(block_ids=[[1, 2], [3]]),
        request_id="chatcmpl-r1-0123abcd",
        rank=1,
        transfer_id="engine-1/chatcmpl-r1-0123abcd",
        traceparent=f"00-{TRACE}-{SPAN}-01",
    )
    until(lambda: len(receiver.records) >= 3)
    emitter.close()
    by_name = {record.event_name: record for _, record in receiver.records}
    offer = by_name["kv.offer"]
    fields = attributes(offer.attributes)
    assert (TRACE, SPAN) == (offer.trace_id.hex(), offer.span_id.hex())
    assert abs(time.time_ns() - offer.time_unix_nano) < 60e9
    assert ("INFO", 9) == (offer.severity_text, offer.severity_number)
    assert {
        "falseok.v": 1,
        "falseok.id": f"{emitter.boot}-2",
        "falseok.boot": emitter.boot,
        "falseok.seq": 2,
        "falseok.origin": "hook",
        "falseok.engine_id": "engine-1",
        "falseok.group": "engine-1",
        "falseok.rank": 1,
        "falseok.request_id": "chatcmpl-r1-0123abcd",
        "falseok.external_id": "r1",
        "falseok.transfer_id": "engine-1/chatcmpl-r1-0123abcd",
        "falseok.attrs.block_ids": [[1, 2], [3]],
    } == {name: field for name, field in fields.items() if name != "falseok.mono"}
    configured = attributes(by_name["engine.config"].attributes)
    assert (b"", b"") == (by_name["engine.config"].trace_id, by_name["engine.config"].span_id)
    assert {"vllm": "0.32.0"} == configured["falseok.attrs.versions"]
    assert {
        "big": str(2**64 - 1),
        "flags": [True, 1, 2.5, "x", None],
        "nested": {"a": {"b": [1]}},
    } == configured["falseok.attrs.factors"]
    assert [{"kind": "FullAttentionSpec", "layers": 2, "block_size": 16}] == configured[
        "falseok.attrs.kv_groups"
    ]


def test_the_resource_names_the_process_and_the_environment_wins(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The usual variables name the service; without them it has a name of ours."""
    emitter = emitter_of()
    until(lambda: receiver.records)
    emitter.close()
    resource, _ = receiver.records[0]
    assert ("falseok-collector", emitter.boot) == (
        resource["service.name"],
        resource["service.instance.id"],
    )
    assert {"host.name", "process.pid", "telemetry.sdk.name"} <= resource.keys()
    monkeypatch.setenv("OTEL_SERVICE_NAME", "chat-decode")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=prod,host.name=node-7")
    receiver.records.clear()
    emitter = emitter_of()
    until(lambda: receiver.records)
    emitter.close()
    resource, _ = receiver.records[0]
    assert ("chat-decode", "prod", "node-7") == (
        resource["service.name"],
        resource["deployment.environment"],
        resource["host.name"],
    )


def test_the_spool_and_the_receiver_hold_the_same_events(receiver: Receiver, tmp_path: Path) -> None:
    """Several sinks at once: each gets everything."""
    emitter = emitter_of("spool", "otlp", spool_dir=str(tmp_path))
    for tokens in range(3_000):
        emitter.emit(SchedPreempt(output_tokens=tokens))
    until(lambda: len(receiver.records) >= 3_000)
    emitter.close()
    lines = [line for path in sorted(tmp_path.glob("*.ndjson")) for line in path.read_bytes().splitlines()]
    spooled = [decode(line).id for line in lines]
    assert spooled == receiver.ids()
    assert 3_003 == len(set(spooled))


def test_a_receiver_that_is_away_costs_nothing_while_the_queue_holds(
    receiver: Receiver, swallowed_errors: list[str]
) -> None:
    """What it refused is offered again, in order; what it took is not."""
    receiver.status = 503
    emitter = emitter_of()
    for tokens in range(1_500):
        emitter.emit(SchedPreempt(output_tokens=tokens))
    until(lambda: emitter._sender and "retrying" == emitter._sender.outlets[0].state().state)
    receiver.status = 200
    until(lambda: len(receiver.records) >= 1_501)
    emitter.close()
    numbers = [int(name.rpartition("-")[2]) for name in receiver.ids()]
    assert list(range(1, len(numbers) + 1)) == sorted(numbers)
    assert sorted(numbers) == numbers
    assert emitter.sinks[0].counts.sent == len(numbers)
    assert "falseok: the otlp sink writes again" in swallowed_errors


def test_a_batch_that_is_refused_for_good_is_lost_and_counted(
    receiver: Receiver, swallowed_errors: list[str]
) -> None:
    """An answer that says "bad request" will not change: what follows must not wait behind it."""
    receiver.status = 400
    emitter = emitter_of()
    emitter.emit(SchedPreempt())
    until(lambda: 2 == emitter.sinks[0].counts.lost)
    receiver.status = 200
    emitter.emit(SchedPreempt())
    until(lambda: receiver.records)
    emitter.close()
    assert f"{emitter.boot}-3" == receiver.ids()[0]
    assert [
        "falseok: the OTLP receiver refuses events for good; they are lost and counted"
    ] == swallowed_errors


def event(number: int) -> bytes:
    """A line with that id."""
    return EVENT.replace(b"boot-1", b"boot-%d" % number)


@pytest.mark.parametrize("most_events", [1, 100, EXPORT_EVENTS])
def test_a_request_that_is_too_large_is_halved_until_it_fits(receiver: Receiver, most_events: int) -> None:
    """Nothing is lost when a receiver takes less at once than we would send, and order stays."""
    receiver.most_events = most_events
    sink = OtlpSink("boot")
    sink.write([event(number) for number in range(300)])
    assert [f"boot-{number}" for number in range(300)] == receiver.ids()
    assert (300, 0) == (sink.counts.sent, sink.counts.lost)
    sink.close()


def test_an_event_that_is_too_large_alone_is_lost_and_the_others_are_not(
    receiver: Receiver, swallowed_errors: list[str]
) -> None:
    """Only what can never be taken goes."""
    receiver.most_events = 0
    sink = OtlpSink("boot")
    sink.write([event(1), event(2)])
    receiver.most_events = 9
    sink.write([event(3)])
    assert (["boot-3"], 1, 2) == (receiver.ids(), sink.counts.sent, sink.counts.lost)
    assert [
        "falseok: the OTLP receiver refuses events for good; they are lost and counted"
    ] == swallowed_errors
    sink.close()


@pytest.fixture
def over_grpc(monkeypatch: pytest.MonkeyPatch) -> Callable[[Receiver], OtlpSink]:
    """Makes a sink that speaks gRPC to a receiver."""

    def sink_for(receiver: Receiver) -> OtlpSink:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "2")
        return OtlpSink("boot")

    return sink_for


@pytest.mark.parametrize("code", ["INVALID_ARGUMENT", "UNAUTHENTICATED", "UNIMPLEMENTED"])
def test_grpc_a_batch_that_is_refused_for_good_is_lost_and_counted(
    over_grpc: Callable[[Receiver], OtlpSink], code: str, swallowed_errors: list[str]
) -> None:
    """As over HTTP: what follows does not wait behind it."""
    with grpc_receiver() as receiver:
        sink = over_grpc(receiver)
        receiver.code = code
        sink.write([event(1), event(2)])
        receiver.code = ""
        sink.write([event(3)])
        assert (["boot-3"], 1, 2) == (receiver.ids(), sink.counts.sent, sink.counts.lost)
        sink.close()
    assert [
        "falseok: the OTLP receiver refuses events for good; they are lost and counted"
    ] == swallowed_errors


@pytest.mark.parametrize("code", ["UNAVAILABLE", "INTERNAL", "RESOURCE_EXHAUSTED"])
def test_grpc_a_receiver_in_trouble_is_offered_the_batch_again(
    over_grpc: Callable[[Receiver], OtlpSink], code: str
) -> None:
    """Nothing of it is lost."""
    with grpc_receiver() as receiver:
        sink = over_grpc(receiver)
        receiver.code = code
        lines = [event(1), event(2)]
        with pytest.raises(ConnectionError):
            sink.write(lines)
        receiver.code = ""
        sink.write(lines)
        assert (["boot-1", "boot-2"], 2, 0) == (receiver.ids(), sink.counts.sent, sink.counts.lost)
        sink.close()


def test_grpc_a_refusal_is_noticed_after_the_exporter_has_connected_anew(
    over_grpc: Callable[[Receiver], OtlpSink], swallowed_errors: list[str]
) -> None:
    """It makes itself a new channel when the receiver was away."""
    with grpc_receiver() as receiver:
        sink = over_grpc(receiver)
        receiver.code = "UNAVAILABLE"
        with pytest.raises(ConnectionError):
            sink.write([event(1)])
        receiver.code = "INVALID_ARGUMENT"
        sink.write([event(1)])
        assert 1 == sink.counts.lost
        sink.close()
    assert 1 == len(swallowed_errors)


def test_grpc_a_request_that_is_too_large_is_halved_until_it_fits(
    over_grpc: Callable[[Receiver], OtlpSink],
) -> None:
    """The server says so with a code that may mean other things too."""
    with grpc_receiver(("grpc.max_receive_message_length", 4_096)) as receiver:
        sink = over_grpc(receiver)
        sink.write([event(number) for number in range(300)])
        assert [f"boot-{number}" for number in range(300)] == receiver.ids()
        assert (300, 0) == (sink.counts.sent, sink.counts.lost)
        sink.close()


def test_a_dead_receiver_does_not_delay_the_end(
    monkeypatch: pytest.MonkeyPatch, swallowed_errors: list[str]
) -> None:
    """The exporter waits between attempts; the process ends within a few seconds all the same, and tells no password."""
    with http_receiver() as gone:
        address = gone.url.replace("http://", "http://user:private@")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "2")
    emitter = emitter_of()
    emitter.emit(SchedPreempt())
    until(lambda: emitter._sender and emitter._sender.outlets[0].errors)
    began = time.monotonic()
    emitter.close()
    assert time.monotonic() - began < 4
    assert swallowed_errors[0].startswith("falseok: the otlp sink cannot write, events wait in memory")
    assert "private" not in swallowed_errors[0]


def test_grpc_is_spoken_when_the_usual_variable_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same records by the other protocol."""
    with grpc_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        emitter = emitter_of()
        emitter.emit(SchedPreempt(output_tokens=7))
        until(lambda: len(receiver.records) >= 2)
        emitter.close()
    assert "sched.preempt" in {record.event_name for _, record in receiver.records}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, "http/protobuf"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "grpc"),
        (
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL": "http/protobuf"},
            "http/protobuf",
        ),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, "http/protobuf"),
    ],
)
def test_the_protocol_is_that_of_the_usual_variables(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str
) -> None:
    """That for logs wins; what we cannot speak becomes what every receiver speaks."""
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    assert expected == protocol()
    assert modules()[1].endswith("grpc" if expected == "grpc" else "http")


def test_the_sinks_own_requests_are_not_traced(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where automatic instrumentation is on, it is told to look away, as by the SDK's own processors."""
    seen: list[object] = []
    export = OtlpExport("boot")
    take = export._exporter.export

    def look(batch: object) -> object:
        seen.append(context.get_value(context._SUPPRESS_INSTRUMENTATION_KEY))
        return take(batch)

    monkeypatch.setattr(export._exporter, "export", look)
    assert Outcome.TAKEN is export.send([EVENT])
    assert ([True], None) == (seen, context.get_value(context._SUPPRESS_INSTRUMENTATION_KEY))
    export.shutdown()


def test_no_thread_of_the_library_runs(receiver: Receiver) -> None:
    """A fork inherits nothing that would start anew in the child."""
    before = set(threading.enumerate())
    sink = OtlpSink("boot")
    sink.write([EVENT])
    ours = [thread for thread in set(threading.enumerate()) - before if "process_request" not in thread.name]
    assert [] == ours
    assert ["boot-1"] == receiver.ids()
    sink.close()
