"""Bringing a store to the schema of a release."""

from dataclasses import replace

import pytest
from tests.pipeline.stories import Fleet, corrupt

from falseok_pipeline import migrations
from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.embedded import EmbeddedStore
from falseok_pipeline.errors import MigrationError
from falseok_pipeline.migrations import Migration, Migrator, State

FIRST = Migration(1, "first", "CREATE TABLE IF NOT EXISTS a (x String) ENGINE = Memory")
SECOND = Migration(
    2,
    "second",
    "-- What it does\nCREATE TABLE IF NOT EXISTS b (x String COMMENT 'not; -- statement') ENGINE = Memory\n"
    "-- statement\nINSERT INTO b SELECT ';'\n\n-- statement\n",
)


def migrator(store: EmbeddedStore, *known: Migration) -> Migrator:
    """Migrations of an invented release against a store."""
    return Migrator(store.command, store.query, known)


def test_what_is_pending_is_applied_once_and_in_order(data: DataDirectory) -> None:
    """A store of an older release gets what it lacks, and nothing twice."""
    with EmbeddedStore(data.store) as store:
        assert [FIRST] == migrator(store, FIRST).apply(1)
        both = migrator(store, FIRST, SECOND)
        assert [(FIRST, State.APPLIED), (SECOND, State.PENDING)] == both.status()
        assert [SECOND] == both.plan() == both.apply(2)
        assert [] == both.apply(3)
        assert [{"x": ";"}] == store.query("SELECT x FROM b")


def test_a_changed_migration_is_refused_by_name(data: DataDirectory) -> None:
    """An applied migration that was edited since is an error that says which."""
    with EmbeddedStore(data.store) as store:
        migrator(store, FIRST, SECOND).apply(1)
        with pytest.raises(MigrationError, match="0002_second was changed after it had been applied"):
            migrator(store, FIRST, replace(SECOND, text=SECOND.text + " ")).apply(2)


def test_a_store_of_a_newer_release_is_refused(data: DataDirectory) -> None:
    """An older release must not write into a schema it does not know."""
    with EmbeddedStore(data.store) as store:
        migrator(store, FIRST, SECOND).apply(1)
        with pytest.raises(MigrationError, match=r"0002_second.*newer falseok"):
            migrator(store, FIRST).plan()


def test_the_shipped_migrations_load_and_can_be_cut_off_anywhere(data: DataDirectory) -> None:
    """Every statement can be applied again: a migration that was cut off is simply applied anew."""
    shipped = migrations.shipped()
    assert list(range(1, len(shipped) + 1)) == [migration.number for migration in shipped]
    with EmbeddedStore(data.store) as store:
        for migration in shipped:
            for statement in migration.statements():
                store.command(statement)
                store.command(statement)
        assert len(shipped) == len(store.migrate(1))
        lines = corrupt(Fleet(), 1)
        store.insert_events(b"".join(line + b"\n" for line in lines))
        assert [{"verdict": "corrupt"}] == store.query("SELECT verdict FROM request_verdicts")


def test_a_migration_has_a_number_and_a_name() -> None:
    """A file that would sort or read otherwise is refused when it is loaded."""
    with pytest.raises(MigrationError, match="NNNN_what_it_does"):
        migrations._parse("7_short.sql", "")
