"""Asking the store through whoever holds it."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.pipeline.stories import Fleet, corrupt

from falseok_pipeline import replay
from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.embedded import EmbeddedStore, open_store
from falseok_pipeline.errors import QueryError, StoreBusyError, StoreMissingError
from falseok_pipeline.service import Service
from falseok_pipeline.socket_store import SocketStore
from falseok_pipeline.store import Store, connect

ASK = """
import sys
from pathlib import Path
from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.store import connect
with connect(DataDirectory(Path(sys.argv[1]))) as store:
    print(type(store).__name__, store.query("SELECT verdict FROM request_verdicts")[0]["verdict"])
    print("chdb" in sys.modules)
"""
OPEN_DIRECTLY = """
import sys
from pathlib import Path
from falseok_pipeline.engine import open_handle
client = open_handle(Path(sys.argv[1]))
print("open", flush=True)
sys.stdin.read()
client.close()
"""


def filled(data: DataDirectory) -> DataDirectory:
    """A data directory with one corrupt request in its spool."""
    fleet = Fleet()
    replay.write_spool(data.spool, [*fleet.configs(), *corrupt(fleet, 1)])
    return data


def test_there_must_be_a_store(data: DataDirectory) -> None:
    """A wrong directory is told as such; no empty store is made there."""
    with pytest.raises(StoreMissingError, match="There is no store in"):
        connect(data)
    assert not data.path.exists()


def test_nobody_holds_it_so_it_is_opened(data: DataDirectory) -> None:
    """And let go of afterwards."""
    with Service.open(filled(data), serve_queries=False) as service:
        service.run_once()
    with connect(data) as store:
        assert isinstance(store, EmbeddedStore)
        assert [{"verdict": "corrupt"}] == store.query("SELECT verdict FROM request_verdicts")
    assert data.running() is None


def test_the_running_service_answers_another_process(data: DataDirectory) -> None:
    """The other process need not even load the engine."""
    with Service.open(filled(data)) as service:
        service.run_once()
        answer = subprocess.run(
            [sys.executable, "-c", ASK, str(data.path)], capture_output=True, text=True, check=True
        )
    assert "SocketStore corrupt\nFalse\n" == answer.stdout


def test_both_ways_give_the_same_rows(data: DataDirectory) -> None:
    """Types, order and errors do not depend on who answers."""
    with Service.open(filled(data)) as service:
        service.run_once()
        through: list[Store] = [service.store, SocketStore(str(data.query_socket))]
        rows = [
            [store.query(f"SELECT * FROM {view}") for view in ("request_verdicts", "requests", "engines")]
            for store in through
        ]
        assert rows[0] == rows[1]
        for store in through:
            with pytest.raises(QueryError) as refused:
                store.query("SELECT nothing_of_that_name")
            assert 47 == refused.value.code
            assert str(refused.value).startswith("Unknown expression identifier `nothing_of_that_name`")
        through[1].close()


def test_a_deep_data_directory_is_answered_for_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its socket lies elsewhere; whoever asks learns where from the run file, whatever its own environment says."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/tmp")
    data = filled(DataDirectory(tmp_path / ("d" * 120)))
    with Service.open(data) as service:
        service.run_once()
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        with connect(data) as store:
            assert [{"verdict": "corrupt"}] == store.query("SELECT verdict FROM request_verdicts")


def test_a_holder_that_answers_no_queries_is_named(data: DataDirectory) -> None:
    """After a moment of patience the message says who to wait for."""
    with open_store(data, 1, command="replay"), pytest.raises(StoreBusyError, match=r"falseok replay"):
        connect(data, patience_seconds=0.2)


def test_a_service_that_does_not_answer_is_named(data: DataDirectory) -> None:
    """It says that it serves queries and does not: it is starting, or stuck."""
    with (
        data.claim("run", 1, serves_queries=True),
        pytest.raises(StoreBusyError, match="does not answer on"),
    ):
        connect(data, patience_seconds=0.2)


def test_a_short_lived_holder_is_waited_for(data: DataDirectory) -> None:
    """Two commands at the same time: the second comes to its turn."""
    with Service.open(filled(data), serve_queries=False) as service:
        service.run_once()
    process = subprocess.Popen([sys.executable, "-c", ASK, str(data.path)], stdout=subprocess.PIPE, text=True)
    with connect(data, patience_seconds=60) as store:
        assert [{"n": 1}] == store.query("SELECT count() AS n FROM request_verdicts")
    output, _ = process.communicate(timeout=60)
    assert "EmbeddedStore corrupt\nTrue\n" == output


def test_a_database_opened_by_something_else_is_told_apart(data: DataDirectory) -> None:
    """Whoever opened the files without the data directory's lock is named by the engine's own."""
    data.store.mkdir(parents=True)
    process = subprocess.Popen(
        [sys.executable, "-c", OPEN_DIRECTLY, str(data.store)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert "open\n" == process.stdout.readline()
    with pytest.raises(StoreBusyError, match=f"open in process {process.pid}"):
        open_store(data, 1)
    process.communicate()
    with open_store(data, 2) as store:
        assert [{"one": 1}] == store.query("SELECT 1 AS one")
