"""The KV connectors a pair can move its cache with, as data, and the `--kv-transfer-config` that asks for them.

Names and settings were read in vLLM 0.27.0 to 0.32.0. `ExampleConnector` was called `SharedStorageConnector` before
0.26; it keeps the cache as files of a folder and knows no hybrid cache. `OffloadingConnector` refuses to start on a
CPU ("only supported on CUDA-alike and XPU GPUs"), so it is not among them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from falseok_lab.errors import LabError

Role = Literal["prefill", "decode"]
KV_ROLES: dict[Role, str] = {"prefill": "kv_producer", "decode": "kv_consumer"}

STORAGE = "shared-storage"
"""Folder in a lab where `ExampleConnector` of both engines keeps its files."""


@dataclass(frozen=True, kw_only=True)
class Connector:
    """One way to move the KV cache from prefill to decode."""

    name: str
    explanation: str
    prefill: tuple[str, ...]
    """vLLM's connectors in the order they are asked; more than one: children of a `MultiConnector`."""
    decode: tuple[str, ...]
    hybrid_cache: bool = True
    """Whether all of them work with several KV cache groups."""


CONNECTORS: dict[str, Connector] = {
    connector.name: connector
    for connector in (
        Connector(
            name="pull",
            explanation="decode reads from prefill",
            prefill=("NixlConnector",),
            decode=("NixlConnector",),
        ),
        Connector(
            name="push",
            explanation="prefill writes into decode's blocks",
            prefill=("NixlPushConnector",),
            decode=("NixlPushConnector",),
        ),
        Connector(
            name="multi",
            explanation="decode reads from prefill, and else from files both share",
            prefill=("NixlConnector", "ExampleConnector"),
            decode=("NixlConnector", "ExampleConnector"),
            hybrid_cache=False,
        ),
        Connector(
            name="multi-files-first",
            explanation="decode loads from files both share, and else from prefill",
            prefill=("NixlConnector", "ExampleConnector"),
            decode=("ExampleConnector", "NixlConnector"),
            hybrid_cache=False,
        ),
    )
}


def connector_named(name: str) -> Connector:
    """The connector of that name.

    Raises:
        LabError: there is none; the message lists those there are.
    """
    if name not in CONNECTORS:
        raise LabError(f"There is no connector {name!r}. Choose one of: {', '.join(CONNECTORS)}.")
    return CONNECTORS[name]


def kv_transfer_config(
    role: Role, connector: Connector, lab: Path, nixl_settings: Mapping[str, object]
) -> dict[str, object]:
    """The value of `--kv-transfer-config`; an error where a load fails.

    `nixl_settings` go into `kv_connector_extra_config` of NIXL, wherever it stands; `lab` is the lab's folder.
    """
    children = [
        _child(name, role, lab, nixl_settings)
        for name in (connector.prefill if role == "prefill" else connector.decode)
    ]
    policy = {"kv_load_failure_policy": "fail"}
    if len(children) == 1:
        return children[0] | policy
    multi = {"kv_connector": "MultiConnector", "kv_role": KV_ROLES[role]}
    return multi | policy | {"kv_connector_extra_config": {"connectors": children}}


def _child(name: str, role: Role, lab: Path, nixl_settings: Mapping[str, object]) -> dict[str, object]:
    files = {"shared_storage_path": str(lab / STORAGE)}
    settings = files if name == "ExampleConnector" else dict(nixl_settings)
    # Files are written and read by the same engine, whatever its part in the pair.
    kv_role = KV_ROLES[role] if name.startswith("Nixl") else "kv_both"
    return {"kv_connector": name, "kv_role": kv_role} | (
        {"kv_connector_extra_config": settings} if settings else {}
    )
