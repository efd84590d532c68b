"""What `--kv-transfer-config` says for each connector and side."""

from pathlib import Path
from typing import Any

import pytest

from falseok_lab.connectors import CONNECTORS, Role, connector_named, kv_transfer_config
from falseok_lab.errors import LabError

LAB = Path("/data/lab/pair")


def config(role: Role, name: str, **nixl: object) -> Any:
    """The configuration of one side."""
    return kv_transfer_config(role, CONNECTORS[name], LAB, nixl)


@pytest.mark.parametrize(("name", "connector"), [("pull", "NixlConnector"), ("push", "NixlPushConnector")])
def test_a_single_connector_stands_alone(name: str, connector: str) -> None:
    """Each side with its part, and an error where a load fails."""
    expected = {"kv_connector": connector, "kv_load_failure_policy": "fail"}
    assert expected | {"kv_role": "kv_producer"} == config("prefill", name)
    assert expected | {"kv_role": "kv_consumer"} == config("decode", name)


def test_settings_of_nixl_reach_nixl_alone_wherever_it_stands() -> None:
    """Alone in its own extra settings; below a MultiConnector in its child's."""
    assert {"kv_lease_duration": 5} == config("prefill", "pull", kv_lease_duration=5)[
        "kv_connector_extra_config"
    ]
    nixl, files = config("prefill", "multi", kv_lease_duration=5)["kv_connector_extra_config"]["connectors"]
    assert {"kv_lease_duration": 5} == nixl["kv_connector_extra_config"]
    assert {"shared_storage_path": "/data/lab/pair/shared-storage"} == files["kv_connector_extra_config"]


def test_several_connectors_are_children_in_the_order_they_are_asked() -> None:
    """Files are used in both directions by both sides, so that decode can load what prefill stored."""
    both = [config(role, "multi-files-first") for role in ("prefill", "decode")]
    assert ["MultiConnector"] * 2 == [one["kv_connector"] for one in both]
    assert ["fail"] * 2 == [one["kv_load_failure_policy"] for one in both]
    children = [one["kv_connector_extra_config"]["connectors"] for one in both]
    assert [
        [("NixlConnector", "kv_producer"), ("ExampleConnector", "kv_both")],
        [("ExampleConnector", "kv_both"), ("NixlConnector", "kv_consumer")],
    ] == [[(child["kv_connector"], child["kv_role"]) for child in side] for side in children]


def test_an_unknown_connector_lists_the_known_ones() -> None:
    """The message is the list to choose from."""
    with pytest.raises(LabError, match="pull, push, multi"):
        connector_named("pigeon")
