"""From events in a real store (chDB, in process) to incidents."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.stories import Engine, Fleet, corrupt, failed_closed, healthy

from falseok_alerts.errors import JudgementError
from falseok_alerts.gather import gather, rfc3339
from falseok_alerts.incident import Incident
from falseok_alerts.judge import judge
from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.embedded import EmbeddedStore, open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    """An empty store with the schema applied."""
    with open_store(DataDirectory(tmp_path), 1) as opened:
        yield opened


def fleet(dtype: str = "torch.float32", vllm: str = "0.27.0", number: int = 0) -> Fleet:
    """A pair whose decode has the given dtype; pairs of other numbers have other engines and groups."""
    return Fleet(
        prefill=Engine(f"prefill-{number}", f"10.0.{number}.1:5600", f"p{number}", vllm=vllm),
        decode=Engine(f"decode-{number}", f"10.0.{number}.2:5700", f"d{number}", dtype=dtype, vllm=vllm),
    )


def refused(pair: Fleet) -> bytes:
    """A handshake that fails in the comparison of the hashes."""
    return pair.handshake(
        "failed", failure_type="hash_mismatch", exception_message="NIXL compatibility hash mismatch"
    )


def put(store: EmbeddedStore, *lines: bytes) -> None:
    """Store the lines as one batch."""
    store.insert_events(b"\n".join(lines) + b"\n")


def cause_ids(incident: Incident) -> list[str]:
    """Ids of the causes in their order."""
    return [cause.id for cause in incident.causes]


def test_corrupted_pair_gives_one_incident_with_both_causes(store: EmbeddedStore) -> None:
    """Engines, counts, times and causes come out of the events alone."""
    pair = fleet()
    requests = [line for number in range(5) for line in (refused(pair), *corrupt(pair, number))]
    put(store, *pair.configs(), *requests)
    [incident] = judge(store)
    assert ("corrupt", "proven", "a_missing_kv", 5) == (
        incident.verdict,
        incident.evidence,
        incident.reason,
        incident.affected,
    )
    assert ["hash-factor-dtype", "hma-receive-failure-not-propagated"] == cause_ids(incident)
    assert ["certain", "certain"] == [cause.confidence for cause in incident.causes]
    assert ("prefill-0", "0.27.0", "10.0.0.1:5600") == (
        incident.prefill_engine.engine_id,
        incident.prefill_engine.version,
        incident.prefill_engine.group,
    )
    assert (5, 5, ["hash_mismatch"]) == (
        incident.handshake.attempts,
        incident.handshake.failed,
        incident.handshake.failure_types,
    )
    assert incident.headline == "5 requests answered 200 with corrupted output"
    assert incident.first_seen < incident.last_seen
    assert [f"req-{number}" for number in range(5)] == incident.sample_requests
    assert (1.0, None) == (incident.share.pair, incident.share.elsewhere)


def test_healthy_traffic_and_an_empty_store_give_no_incident(store: EmbeddedStore) -> None:
    """Nothing wrong is an empty list."""
    assert [] == judge(store)
    pair = fleet(dtype="torch.bfloat16")
    put(store, *pair.configs(), pair.handshake(), *healthy(pair, 1))
    assert [] == judge(store)


def test_failed_closed_names_the_factor_and_no_fail_open_version(store: EmbeddedStore) -> None:
    """The engine did right; only the configuration is at fault."""
    pair = fleet(vllm="0.32.0")
    put(store, *pair.configs(), refused(pair), *failed_closed(pair, 1))
    [incident] = judge(store)
    assert "failed_closed" == incident.verdict
    assert "hash-factor-dtype" == incident.causes[0].id
    assert "hma-receive-failure-not-propagated" not in cause_ids(incident)


def test_share_tells_the_pair_from_the_rest_of_the_fleet(store: EmbeddedStore) -> None:
    """A broken pair beside a sound one: half of its own traffic, nothing elsewhere."""
    broken, sound = fleet(number=1), fleet(dtype="torch.bfloat16", number=2)
    broken.prefill.dtype = "torch.bfloat16"
    lines = [*broken.configs(), *sound.configs(), refused(broken)]
    put(store, *lines, *corrupt(broken, 1), *healthy(broken, 2), *healthy(sound, 3))
    [incident] = judge(store)
    assert "decode-1" == incident.decode_engine.engine_id
    assert (0.5, 2, 0.0, 1) == (
        incident.share.pair,
        incident.share.pair_requests,
        incident.share.elsewhere,
        incident.share.elsewhere_requests,
    )


def test_without_configuration_the_cause_is_unknown_and_says_why(store: EmbeddedStore) -> None:
    """The verdict needs no configuration; naming the cause does, and the incident says whose is missing."""
    pair = fleet()
    put(store, *corrupt(pair, 1))
    [incident] = judge(store)
    assert ("corrupt", "proven") == (incident.verdict, incident.evidence)
    assert ["unknown"] == cause_ids(incident)
    assert 2 <= len([line for line in incident.causes[0].evidence if "configuration of" in line])


def test_incident_keeps_its_id_when_decode_restarts_under_the_same_group(store: EmbeddedStore) -> None:
    """After a restart the engine id is another one; incident and pager key stay, the new engine is shown."""
    before = fleet()
    put(store, *before.configs(), refused(before), *corrupt(before, 1))
    [first] = judge(store)
    after = Fleet(
        before.prefill, Engine("decode-new", "10.0.0.2:5700", "n", dtype="torch.float32"), before.now_micros
    )
    put(store, *after.configs(), refused(after), *corrupt(after, 2))
    [second] = judge(store)
    assert (first.id, 2) == (second.id, second.affected)
    assert "decode-new" == second.decode_engine.engine_id


def test_judging_is_deterministic(store: EmbeddedStore) -> None:
    """The same store gives the same incidents, to the last word."""
    pair = fleet()
    put(store, *pair.configs(), refused(pair), *corrupt(pair, 1), *failed_closed(pair, 2))
    assert judge(store) == judge(store)
    assert ["corrupt", "failed_closed"] == [incident.verdict for incident in judge(store)]


class OddStore:
    """A store whose views have another shape than this release knows."""

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """One row without the fields that are asked for."""
        return [{"verdict": 7}]


def test_foreign_shape_of_a_view_is_named() -> None:
    """The query and the field are named, and what to do about it."""
    with pytest.raises(JudgementError, match=r"query candidates: .*verdict") as caught:
        gather(OddStore())
    assert "release" in caught.value.hint


@pytest.mark.parametrize(
    ("micros", "expected"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (1_786_701_731_000_007, "2026-08-14T10:02:11.000007Z"),
        (1_786_701_731_120_000, "2026-08-14T10:02:11.120000Z"),
    ],
)
def test_times_are_rfc3339_with_microseconds(micros: int, expected: str) -> None:
    """Always six digits and always UTC, so that texts sort as times do."""
    assert expected == rfc3339(micros)
