"""ClickHouse's HTTP interface in front of chDB, for tests: `python -m tests.pipeline.http_front STORE PORT`.

No ClickHouse server can be had where the tests run, and its client is worth testing over HTTP all the same. It does
what the client needs and no more: statements, inserts with their data, `param_…`, settings, errors with their code.
`POST /test/refuse?times=N` makes it refuse the next N inserts as a full disk would.
"""

import contextlib
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import chdb
import httpx
import lz4.frame
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

START_SECONDS = 60
_INSERT = re.compile(
    r"\s*INSERT\s+INTO\s+(?P<table>\S+)\s*(?P<columns>\([^)]*\))?\s*(?:SETTINGS .*?)?\s*FORMAT\s+(?P<format>\w+)\s*",
    re.IGNORECASE,
)
_FORMAT = re.compile(r"\bFORMAT\s+(\w+)\s*$", re.IGNORECASE)
_CODE = re.compile(r"Code: (\d+)")
_NOT_SETTINGS = frozenset(
    {"query", "database", "default_format", "session_id", "query_id", "compress", "decompress", "client_protocol_version",
     "user", "password", "role", "wait_end_of_query", "enable_http_compression", "send_progress_in_http_headers",
     "http_headers_progress_interval_ms"}
)  # fmt: skip
_NOT_IN_CHDB = frozenset({"distributed_foreground_insert"})
"""Settings that concern other nodes; there are none."""


class Front:
    """The application."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._keeper = chdb.connect(str(store))  # chDB closes the database with the last connection
        self._inserting = threading.Lock()
        self._refusals = 0
        self.application = Starlette(
            routes=[
                Route("/", self.answer, methods=["GET", "POST"]),
                Route("/ping", self.ping, methods=["GET"]),
                Route("/test/refuse", self.refuse, methods=["POST"]),
            ]
        )

    async def ping(self, request: Request) -> Response:
        """Whether it is up."""
        return PlainTextResponse("Ok.\n")

    async def refuse(self, request: Request) -> Response:
        """Take note of how many inserts are to be refused."""
        self._refusals = int(request.query_params["times"])
        return PlainTextResponse("Ok.\n")

    async def answer(self, request: Request) -> Response:
        """One statement."""
        body = await request.body()
        if request.headers.get("content-encoding") == "lz4":
            body = lz4.frame.decompress(body)
        params = dict(request.query_params)
        try:
            data = await run_in_threadpool(self._run, params, body)
        except RuntimeError as error:
            code = _CODE.search(str(error))
            headers = {"X-ClickHouse-Exception-Code": code[1] if code else "1002"}
            return PlainTextResponse(str(error), 500, headers=headers)
        form = params.get("default_format", "")
        return Response(data, headers={"X-ClickHouse-Format": form} if form else None)

    def _run(self, params: Mapping[str, str], body: bytes) -> bytes:
        found = _INSERT.match(params.get("query", ""))
        if found is not None or _INSERT.match(body[:2_000].decode(errors="replace")):
            return self._insert(params, body)
        sql = "\n".join(part for part in (params.get("query", ""), body.decode()) if part)
        form = _FORMAT.search(sql)
        name = form[1] if form else params.get("default_format", "TabSeparated")
        bound = {
            key.removeprefix("param_"): value for key, value in params.items() if key.startswith("param_")
        }
        with self._connection(params) as connection:
            answer = connection.query(sql[: form.start()] if form else sql, name, params=bound)
            return bytes(answer.bytes() or b"")

    def _insert(self, params: Mapping[str, str], body: bytes) -> bytes:
        """Data behind the statement, in the body or in both places, as chDB reads it: from a file."""
        text = params.get("query", "").encode() + b"\n" + body if "query" in params else body
        found = _INSERT.match(text[:4_000].decode(errors="replace"))
        assert found is not None, text[:200]
        data = text[len(found[0].encode()) :]
        with self._inserting:
            if self._refusals:
                self._refusals -= 1
                raise RuntimeError("Code: 243. DB::Exception: Cannot reserve 1.00 MiB, not enough space")
            with tempfile.NamedTemporaryFile(suffix=".data") as file, self._connection(params) as connection:
                file.write(data)
                file.flush()
                columns = found["columns"] or ""
                connection.query(
                    f"INSERT INTO {found['table']} {columns} FROM INFILE '{file.name}' FORMAT {found['format']}"
                )
        return b""

    @contextlib.contextmanager
    def _connection(self, params: Mapping[str, str]) -> Iterator[chdb.session.Session]:
        settings = {
            name: value
            for name, value in params.items()
            if name not in _NOT_SETTINGS | _NOT_IN_CHDB and not name.startswith("param_")
        }
        connection = chdb.connect(str(self._store))
        try:
            if params.get("database"):
                connection.query(f"USE `{params['database']}`")
            if settings:
                # What forbids further changes comes last.
                ordered = sorted(settings.items(), key=lambda item: item[0] == "readonly")
                connection.query("SET " + ", ".join(f"{name} = '{value}'" for name, value in ordered))
            yield connection
        finally:
            connection.close()


@contextlib.contextmanager
def running_front(store: Path, port: int) -> Iterator["RunningFront"]:
    """A front in a process of its own, up until the block ends."""
    front = RunningFront(store, port)
    front.start()
    try:
        yield front
    finally:
        front.kill()


class RunningFront:
    """A front that can be killed and started again."""

    def __init__(self, store: Path, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.store_url = f"clickhouse://127.0.0.1:{port}/falseok"
        self._command = [sys.executable, "-m", "tests.pipeline.http_front", str(store), str(port)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        root = Path(__file__).resolve().parents[2]
        self._process = subprocess.Popen(self._command, cwd=root)
        deadline = time.monotonic() + START_SECONDS
        while True:
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"{self.url}/ping").is_success:
                    return
            assert self._process.poll() is None, "the front ended"
            assert time.monotonic() < deadline, "the front does not answer"
            time.sleep(0.1)

    def kill(self) -> None:
        """End it as a power cut would. Idempotent."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def refuse(self, times: int) -> None:
        """Refuse the next inserts."""
        httpx.post(f"{self.url}/test/refuse", params={"times": times}).raise_for_status()


def main() -> None:
    """Answer until ended."""
    store, port = Path(sys.argv[1]), int(sys.argv[2])
    store.mkdir(parents=True, exist_ok=True)
    uvicorn.run(Front(store).application, host="127.0.0.1", port=port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
