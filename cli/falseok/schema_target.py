"""The store whose schema a command works on: a server, or the embedded store of a data directory."""

from collections.abc import Iterator
from contextlib import contextmanager

from falseok.store_choice import server_address
from falseok_pipeline.client_store import ClientStore
from falseok_pipeline.clock import now_micros
from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.embedded import EmbeddedStore
from falseok_pipeline.errors import MigrationError
from falseok_pipeline.schema_variants import SchemaVariant
from falseok_pipeline.server_store import ServerStore


@contextmanager
def schema_store(
    store: str | None, data: DataDirectory, variant: SchemaVariant, *, create_database: bool
) -> Iterator[ClientStore]:
    """The store, open until the block ends. The embedded one is claimed meanwhile.

    Raises `PipelineError`: nobody answers, somebody else holds the directory, the variant does not fit.
    """
    address = server_address(store)
    if address is None:
        if variant.cluster or variant.replicated:
            raise MigrationError(
                "The embedded store has no replicas and no shards. Name a server with --store or FALSEOK_STORE_URL."
            )
        with EmbeddedStore(data.store, claim=data.claim("schema", now_micros())) as embedded:
            yield embedded
        return
    if create_database:
        with ServerStore(address, variant=variant, use_database=False) as server:
            server.create_database()
    with ServerStore(address, variant=variant) as server:
        yield server


def database_of(store: str | None) -> str:
    """The database that the server's URL names, `default` for the embedded store."""
    address = server_address(store)
    return address.database if address is not None else "default"
