"""Which store a command asks: the server that FALSEOK_STORE_URL or `--store` names, else the data directory's own."""

from typing import Annotated

import typer

from falseok.service_settings import ServiceSettings, read_service_settings
from falseok_pipeline import store as stores
from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.schema_variants import EMBEDDED, SchemaVariant
from falseok_pipeline.server_store import ServerAddress, ServerStore
from falseok_pipeline.store import Store

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="ClickHouse server, such as clickhouses://host:8443/falseok [default: FALSEOK_STORE_URL, else the data "
        "directory's own store].",
    ),
]
"""Names a server instead of the data directory's store."""


def server_address(option: str | None, settings: ServiceSettings | None = None) -> ServerAddress | None:
    """The server that was named, None when none was. Raises `PipelineError` for a URL that is none."""
    settings = settings or read_service_settings()
    url = option or settings.store_url
    if not url:
        return None
    return ServerAddress.parse(
        url,
        username=settings.store_username,
        password=settings.store_password,
        cafile=settings.store_cafile,
    )


def connect(data: DataDirectory) -> Store:
    """The store to ask. Raises as `falseok_pipeline.store.connect`, and `StoreUnavailableError` for a server."""
    address = server_address(None)
    return stores.connect(data) if address is None else ServerStore(address)


def open_server(address: ServerAddress, variant: SchemaVariant = EMBEDDED) -> ServerStore:
    """The server's store, once its schema is that of this release. Raises `PipelineError`."""
    store = ServerStore(address, variant=variant)
    try:
        store.require_schema()
    except BaseException:
        store.close()
        raise
    return store
