"""Which sinks a process gets, and what happens when a library is missing."""

import importlib.util
from importlib.machinery import ModuleSpec

import pytest
from tests.collector import processes

from falseok_collector.attributes import SinkState
from falseok_collector.settings import Settings
from falseok_collector.sinks.choice import open_sinks


def names(*sinks: str) -> list[str]:
    """Names of the sinks that are made for a setting."""
    return [sink.name for sink in open_sinks(Settings(sinks=sinks), "boot")[0]]


def test_every_sink_can_be_had_alone_and_with_others() -> None:
    """In the order of the setting."""
    assert ["spool"] == names("spool")
    assert ["otlp", "memory", "kafka", "spool"] == names("otlp", "memory", "kafka", "spool")


@pytest.mark.parametrize(
    ("sink", "absent"),
    [
        ("kafka", "kafka"),
        ("otlp", "opentelemetry.sdk._logs"),
        ("otlp", "opentelemetry.exporter.otlp.proto.http"),
    ],
)
def test_without_its_library_the_spool_takes_the_events(
    monkeypatch: pytest.MonkeyPatch, swallowed_errors: list[str], sink: str, absent: str
) -> None:
    """The log says once what to install; the heartbeat names the sink that cannot be had."""
    find_spec = importlib.util.find_spec

    def find(name: str, package: str | None = None) -> ModuleSpec | None:
        if name == absent:
            raise ModuleNotFoundError(name)
        return find_spec(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", find)
    sinks, states = open_sinks(Settings(sinks=(sink,)), "boot")
    assert ["spool"] == [each.name for each in sinks]
    assert [SinkState(name=sink, state="unavailable", last_error="ModuleNotFoundError")] == states
    assert [
        (
            f"falseok: the {sink} sink needs `pip install 'falseok[{sink}]'` (there is no module {absent}); "
            "the spool takes its events"
        )
    ] == swallowed_errors
    assert ["memory", "spool"] == [
        each.name for each in open_sinks(Settings(sinks=("memory", sink)), "boot")[0]
    ]
    assert ["spool"] == [each.name for each in open_sinks(Settings(sinks=("spool", sink)), "boot")[0]]


IMPORTS = """
import sys
from falseok_collector.emitter import Emitter
from falseok_collector.plugin import register
from falseok_collector.settings import read_settings
import falseok_collector.sinks.choice

def heavy():
    return sorted({name.partition(".")[0] for name in sys.modules} & {"kafka", "grpc", "requests"}) + sorted(
        name for name in sys.modules if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))
    )

register()
emitter = Emitter(read_settings())
print(heavy())
emitter.start()
emitter.close()
print(heavy())
"""


def test_neither_kafka_nor_the_sdk_is_imported_without_such_a_sink() -> None:
    """Loading the plug-in takes no time and no memory for what is not used."""
    assert "[]\n[]\n" == processes.run(IMPORTS, FALSEOK_SINKS="memory")


def test_with_such_sinks_nothing_is_imported_before_they_start() -> None:
    """At load time nothing yet, although they are configured."""
    loaded, _ = processes.run(
        IMPORTS, FALSEOK_SINKS="memory,kafka,otlp", FALSEOK_KAFKA_BOOTSTRAP_SERVERS="127.0.0.1:1"
    ).splitlines()
    assert "[]" == loaded
