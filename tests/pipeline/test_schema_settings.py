"""Retention and codecs: compared with what is there, changed when they differ, and never shortened unasked."""

import pytest
from tests.kafka.filling import recorded_lines

from falseok_pipeline.client_store import ClientStore
from falseok_pipeline.schema_settings import TIME_COLUMNS, Change, changes, refused
from falseok_pipeline.schema_variants import EMBEDDED, SchemaVariant


def wanted(store: ClientStore, **more: object) -> list[Change]:
    """What is to be run."""
    options = {"retention_days": None, "recode": False} | more
    return changes(store.query, options.pop("variant", EMBEDDED), **options)  # type: ignore[arg-type]


def run(store: ClientStore, found: list[Change]) -> None:
    """Run it."""
    for change in found:
        store.command(change.statement)


def test_nothing_is_changed_that_was_not_asked_for(either_store: ClientStore) -> None:
    """Rows are kept for ever, and columns stay as they are."""
    assert [] == wanted(either_store)
    assert [] == wanted(either_store, retention_days=0, recode=True)


def test_retention_is_set_prolonged_shortened_and_lifted(either_store: ClientStore) -> None:
    """The first and the shortening take rows away, the others do not; twice is no change."""
    for days, takes_away in ((30, True), (90, False), (7, True), (0, False)):
        found = wanted(either_store, retention_days=days)
        assert len(TIME_COLUMNS) == len(found)
        assert takes_away is bool(refused(found))
        run(either_store, found)
        assert [] == wanted(either_store, retention_days=days)


def test_old_rows_go_and_young_ones_stay(store: ClientStore) -> None:
    """By the events' wall clock; clocks beyond all reason do not wrap around."""
    store.insert_events(b"".join(line + b"\n" for line in recorded_lines()))
    young = store.query("SELECT uniqExact(id) AS n FROM events")
    old = recorded_lines()[0].replace(b'"ts":17', b'"ts":12').replace(b'"id":"', b'"id":"old')
    later = recorded_lines()[0].replace(b'"ts":17', b'"ts":917').replace(b'"id":"', b'"id":"later')
    store.insert_events(old + b"\n" + later + b"\n")
    run(store, wanted(store, retention_days=3_000))
    store.command("OPTIMIZE TABLE events FINAL")
    assert [{"n": young[0]["n"] + 1}] == store.query("SELECT uniqExact(id) AS n FROM events")


def test_codecs_follow_the_wish(store: ClientStore) -> None:
    """Of every column that has one, deltas kept; twice is no change."""
    variant = SchemaVariant(codec="ZSTD(6)")
    found = wanted(store, variant=variant, recode=True)
    assert any("`ts` CODEC(Delta(8), ZSTD(6))" in change.statement for change in found)
    run(store, found)
    assert [] == wanted(store, variant=variant, recode=True)


@pytest.mark.parametrize("sharded", [True, False])
def test_on_a_cluster_the_shards_own_tables_are_changed(store: ClientStore, sharded: bool) -> None:
    """A table over all shards keeps no rows itself."""
    variant = SchemaVariant(cluster="main", sharded=sharded)

    def query(sql: str) -> list[dict[str, object]]:
        name = "events_local" if sharded else "events"
        return [{"name": name, "engine_full": "MergeTree TTL toDateTime(1) + toIntervalDay(5)"}]

    (change,) = changes(query, variant, retention_days=9, recode=False, tables={"events": "ts"})
    assert change.statement.startswith(
        f"ALTER TABLE `events{'_local' if sharded else ''}` ON CLUSTER `main` MODIFY TTL"
    )
    assert not change.destructive
