"""Answers read-only queries in ClickHouse's HTTP protocol on a Unix socket, while the service holds the store.

Every query gets its own handle with its own limits and loses it afterwards, so that nothing a query does can
reach another one. It knows nothing of views or events.
"""

import os
import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from falseok_pipeline.errors import PipelineError, QueryError
from falseok_pipeline.limits import STANDARD, QueryLimits
from falseok_pipeline.query_request import QueryRequest, parse_request
from falseok_pipeline.raw_query import run_raw

_START_SECONDS = 10.0
_CONCURRENT_QUERIES = 4


class QueryServer:
    """The endpoint. A context manager: it answers from entering until leaving."""

    def __init__(self, store: Path, socket_path: Path, limits: QueryLimits = STANDARD) -> None:
        """Answer for the database at `store`, which this process has open already."""
        self._store = store
        self._socket_path = socket_path
        self._limits = limits
        self._slots = threading.BoundedSemaphore(_CONCURRENT_QUERIES)
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Listen, and answer in a thread of its own. Raises `PipelineError` when the socket cannot be had."""
        listening = _bind(self._socket_path)
        application = Starlette(
            routes=[
                Route("/", self._answer, methods=["GET", "POST"]),
                Route("/ping", _ping, methods=["GET"]),
            ]
        )
        config = uvicorn.Config(application, log_config=None, access_log=False, lifespan="off")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listening]}, name="falseok-queries", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Finish what is being answered and close the socket. Idempotent."""
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join(_START_SECONDS)
            self._socket_path.unlink(missing_ok=True)
            self._server = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def _answer(self, request: Request) -> Response:
        try:
            query = parse_request(dict(request.query_params), dict(request.headers), await request.body())
            body = await run_in_threadpool(self._run, query)
        except QueryError as error:
            return _refusal(error)
        return Response(
            body,
            media_type="application/octet-stream",
            headers={"X-ClickHouse-Format": query.format, "X-ClickHouse-Server-Display-Name": "falseok"},
        )

    def _run(self, query: QueryRequest) -> bytes:
        with self._slots:
            return run_raw(self._store, query, self._limits)


async def _ping(request: Request) -> Response:  # noqa: ARG001 - Starlette's signature
    return PlainTextResponse("Ok.\n")


_STATUS_BY_CODE = {60: 404, 81: 404, 36: 400, 47: 404, 62: 400, 164: 403, 115: 404, 159: 408}


def _refusal(error: QueryError) -> Response:
    code = error.code or 1002
    return PlainTextResponse(
        f"Code: {code}. DB::Exception: {error}\n",
        status_code=_STATUS_BY_CODE.get(code, 500),
        headers={"X-ClickHouse-Exception-Code": str(code)},
    )


def _bind(path: Path) -> socket.socket:
    """A listening socket only its owner can connect to."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if path.parent.name.startswith("falseok-") and path.parent.stat().st_uid != os.getuid():
            raise PipelineError(
                f"{path.parent} belongs to somebody else; set XDG_RUNTIME_DIR to a directory of yours."
            )
        path.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(str(path))
        path.chmod(0o600)  # before listen: nobody can have connected yet
        listening.listen(64)
    except OSError as error:
        raise PipelineError(f"The query socket {path} cannot be opened: {error}") from error
    return listening
