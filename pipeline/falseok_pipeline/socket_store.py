"""The store of a running service, asked over its Unix socket with the ordinary ClickHouse client."""

import socket
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import clickhouse_connect
from clickhouse_connect.driver.exceptions import ClickHouseError
from urllib3 import HTTPConnectionPool, PoolManager
from urllib3.connection import HTTPConnection

from falseok_pipeline.engine import select
from falseok_pipeline.errors import StoreBusyError


class SocketStore:
    """A `Store` that another process answers for."""

    def __init__(self, socket_path: str, *, pid: int = 0) -> None:
        """Connect. Raises `StoreBusyError` when nobody answers; `pid` names the process in the message."""
        self._pool = _pool_over(socket_path)
        try:
            self._client = clickhouse_connect.get_client(
                host="localhost",
                pool_mgr=self._pool,
                compress=False,
                autogenerate_session_id=False,
                query_retries=0,
                send_receive_timeout=120,
            )
        except ClickHouseError as error:
            self._pool.clear()
            raise StoreBusyError(
                f"The store is held by process {pid or 'unknown'} (falseok run), which does not answer on "
                f"{socket_path}: {error}. Wait until it has started, or stop it."
            ) from error

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """See `Store.query`."""
        return select(self._client, sql, parameters)

    def close(self) -> None:
        """See `Store.close`."""
        self._client.close()
        self._pool.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _pool_over(socket_path: str) -> PoolManager:
    """Connections that all go to one Unix socket, whatever host is named."""

    class UnixConnection(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.settimeout(10.0)
                connection.connect(socket_path)
            except OSError:
                connection.close()
                raise
            return connection

    class UnixPool(HTTPConnectionPool):
        ConnectionCls = UnixConnection

    pool = PoolManager(num_pools=1, retries=0)
    pool.pool_classes_by_scheme = {"http": UnixPool}
    return pool
