"""`/metrics` of the service: there while it runs, gone afterwards, and no reason to fail silently."""

import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from tests.cli.command_line import MISMATCH_027, spooled
from tests.collector.waiting import until
from tests.kafka.broker import free_ports

from falseok.errors import CliError
from falseok.metrics_endpoint import serving_metrics


def test_a_run_shows_prometheus_what_it_did(tmp_path: Path) -> None:
    """Events, lag and the delay's histogram under names with their units."""
    spooled(tmp_path / "spool", MISMATCH_027)
    (port,) = free_ports(1)
    command = [
        sys.executable,
        "-m",
        "falseok",
        "run",
        "--data",
        str(tmp_path),
        "--metrics",
        f"127.0.0.1:{port}",
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        try:

            def text() -> str:
                try:
                    return httpx.get(f"http://127.0.0.1:{port}/metrics").text
                except httpx.TransportError:
                    return ""

            def stored() -> bool:
                counters = [
                    line
                    for line in text().splitlines()
                    if line.startswith("falseok_pipeline_events_stored_total")
                ]
                return bool(counters) and float(counters[0].split()[-1]) > 0

            until(stored, seconds=60)
            seen = text()
        finally:
            running.terminate()
    for name in (
        "falseok_pipeline_spool_lag_bytes",
        "falseok_pipeline_dead_letters_total",
        "falseok_pipeline_event_delay_seconds_bucket",
        "falseok_pipeline_source_trouble",
    ):
        assert f"\n{name}" in seen, name
    assert 'service_name="falseok-pipeline"' in seen


@pytest.mark.parametrize("address", ["9464", "127.0.0.1:1"])
def test_an_address_that_cannot_be_had_is_an_error(address: str) -> None:
    """Port 1 needs a privilege, or is refused as nobody's; without a port it is no address at all."""
    if address == "127.0.0.1:1":
        (port,) = free_ports(1)
        address = f"no.such.host.invalid:{port}"
    with pytest.raises(CliError, match=r"HOST:PORT|cannot be served"), serving_metrics(address):
        pass


def test_without_an_address_nothing_is_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK is not even imported."""
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with serving_metrics(""):
        pass
