"""A database of a test's own on a ClickHouse server: on the HTTP front over chDB, or on a real one where there is one."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from falseok_pipeline.schema_variants import EMBEDDED, SchemaVariant
from falseok_pipeline.server_store import ServerAddress, ServerStore

URL = "FALSEOK_TEST_STORE_URL"
"""Names a real server for `make test-server`; FALSEOK_STORE_USERNAME and FALSEOK_STORE_PASSWORD let us in."""


def real_server() -> str:
    """URL of the real server, empty when none was named."""
    return os.environ.get(URL, "")


@contextmanager
def fresh_database(url: str, variant: SchemaVariant = EMBEDDED) -> Iterator[ServerStore]:
    """A store with the schema of this release, in a database that is dropped afterwards."""
    address = ServerAddress.parse(
        url,
        username=os.environ.get("FALSEOK_STORE_USERNAME", "default"),
        password=os.environ.get("FALSEOK_STORE_PASSWORD", ""),
    )
    address = replace(address, database=f"falseok_test_{uuid.uuid4().hex[:12]}")
    with ServerStore(address, use_database=False) as store:
        store.create_database()
        try:
            with ServerStore(address, variant=variant) as opened:
                opened.migrate(1)
                yield opened
        finally:
            store.command(f"DROP DATABASE `{address.database}`")
