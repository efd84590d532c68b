"""A store on a ClickHouse server or cluster, over HTTP, shared by every pipeline and everybody who asks.

The schema is applied once, by `falseok schema apply`; a pipeline only checks that it is there.
"""

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError
from clickhouse_connect.driver.httputil import get_pool_manager

from falseok_pipeline.client_store import INSERT_SETTINGS, ClientStore
from falseok_pipeline.engine import as_query_error, error_code
from falseok_pipeline.errors import MigrationError, PipelineError, StoreUnavailableError
from falseok_pipeline.limits import STANDARD, QueryLimits
from falseok_pipeline.schema_variants import EMBEDDED, SchemaVariant

_PORTS = {"clickhouse": 8123, "clickhouses": 8443}
_CONNECT_SECONDS = 10
_ANSWER_SECONDS = 120
_SERVER_INSERT_SETTINGS = {
    **INSERT_SETTINGS,
    # A replicated table skips a block that it has seen before, and then does not feed the folds with it either: what a
    # first attempt did not bring into every fold would be missing for good. Storing a block twice changes nothing here.
    "insert_deduplicate": "0",
    "async_insert": "0",
    # With shards: the insert returns when every shard has its rows, not when they are queued.
    "distributed_foreground_insert": "1",
}

_NO_SUCH_DATABASE = 81


@dataclass(frozen=True)
class ServerAddress:
    """Where a server is and how to log in. `parse` is the usual way to get one."""

    host: str
    port: int
    database: str
    secure: bool
    username: str = "default"
    password: str = field(default="", repr=False)
    cafile: str = ""

    @classmethod
    def parse(cls, url: str, *, username: str = "default", password: str = "", cafile: str = "") -> Self:
        """Take `clickhouse://host[:port][/database]` apart; `clickhouses` speaks TLS.

        The database defaults to `falseok`, the port to that of ClickHouse's HTTP interface.

        Raises `PipelineError` for anything else, a password in the URL included: URLs are shown and logged.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise PipelineError(f"The store's URL cannot be understood: {error}.") from error
        if parts.scheme not in _PORTS or not parts.hostname:
            raise PipelineError(
                "The store's URL must read clickhouse://host[:port][/database], or clickhouses://… for TLS."
            )
        if parts.password is not None:
            raise PipelineError(
                "The store's URL holds a password, which would be shown to everybody. Take it out, and set "
                "FALSEOK_STORE_PASSWORD_FILE (or FALSEOK_STORE_PASSWORD)."
            )
        return cls(
            host=parts.hostname,
            port=port or _PORTS[parts.scheme],
            database=parts.path.strip("/") or "falseok",
            secure=parts.scheme == "clickhouses",
            username=parts.username or username,
            password=password,
            cafile=cafile,
        )

    def __str__(self) -> str:
        """As it is shown: without the password."""
        return f"clickhouse{'s' if self.secure else ''}://{self.host}:{self.port}/{self.database}"


class ServerStore(ClientStore):
    """See `ClientStore`."""

    def __init__(
        self,
        address: ServerAddress,
        limits: QueryLimits = STANDARD,
        variant: SchemaVariant = EMBEDDED,
        *,
        use_database: bool = True,
    ) -> None:
        """Connect. Without `use_database` the database need not exist yet.

        Raises:
            StoreUnavailableError: nobody answers there, or the server does not let us in.
        """
        self.address = address
        with ExitStack() as undo:
            pool = get_pool_manager(ca_cert=address.cafile or None, verify=True)
            undo.callback(pool.clear)
            writer = _connect(address, pool, use_database=use_database)
            undo.callback(writer.close)

            def open_reader() -> Client:
                client = _connect(address, pool, use_database=use_database)
                for name, value in limits.settings().items():
                    client.set_client_setting(name, value)
                return client

            super().__init__(
                writer, open_reader, undo, insert_settings=_SERVER_INSERT_SETTINGS, variant=variant
            )
            self._held = undo.pop_all()

    def require_schema(self) -> None:
        """Return when the schema is that of this release.

        Raises:
            MigrationError: something is to be applied first, or the store is of a newer release.
        """
        pending = self.migrator().plan()
        if pending:
            raise MigrationError(
                f"The schema in {self.address} lacks {len(pending)} of this release's migrations. "
                "Apply them with `falseok schema apply`."
            )

    def create_database(self) -> None:
        """Make the database unless it is there. Raises `QueryError`."""
        on_cluster = f" ON CLUSTER `{self._variant.cluster}`" if self._variant.cluster else ""
        self.command(f"CREATE DATABASE IF NOT EXISTS `{self.address.database}`{on_cluster}")


def _connect(address: ServerAddress, pool: object, *, use_database: bool) -> Client:
    try:
        return clickhouse_connect.get_client(
            host=address.host,
            port=address.port,
            interface="https" if address.secure else "http",
            username=address.username,
            password=address.password,
            database=address.database if use_database else None,
            pool_mgr=pool,
            autogenerate_session_id=False,
            query_retries=0,
            connect_timeout=_CONNECT_SECONDS,
            send_receive_timeout=_ANSWER_SECONDS,
            client_name="falseok",
        )
    except ClickHouseError as error:
        if error_code(error) == _NO_SUCH_DATABASE:
            raise StoreUnavailableError(
                f"There is no database `{address.database}` in the store {address} yet. Make it and its tables with "
                "`falseok schema apply`."
            ) from error
        raise StoreUnavailableError(
            f"The store {address} does not let us in: {as_query_error(error)}. Check FALSEOK_STORE_URL, "
            "FALSEOK_STORE_USERNAME and the password, and that the server is up."
        ) from error
