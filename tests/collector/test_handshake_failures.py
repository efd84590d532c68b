"""Kinds of failed handshakes from names and texts alone, as a log gives them."""

import pytest

from falseok_collector.handshake_failures import failure_type_of, hashes_in


@pytest.mark.parametrize(
    ("expected", "class_name", "module", "message"),
    [
        ("hash_mismatch", "RuntimeError", "", "NIXL compatibility hash mismatch. Local: ab, Remote: cd."),
        (
            "engine_id_mismatch",
            "RuntimeError",
            "",
            "Remote NIXL agent engine ID mismatch. Expected a,received b.",
        ),
        ("undecodable", "RuntimeError", "", "Failed to decode NixlAgentMetadata. Error: x"),
        ("unreachable", "Again", "zmq.error", "Resource temporarily unavailable"),
        ("unsupported", "NotImplementedError", "", "Replicated PCP cannot be paired"),
        ("layout_mismatch", "AssertionError", "", ""),
        ("layout_mismatch", "ValueError", "", "CSA-linear NIXL requires both endpoints"),
        ("layout_mismatch", "RuntimeError", "", "Heterogeneous TP expects same kv_cache_layout"),
        ("other", "RuntimeError", "", "something else"),
        ("other", "", "", ""),
    ],
)
def test_a_named_exception_has_a_kind(expected: str, class_name: str, module: str, message: str) -> None:
    """The name of the class is enough: vLLM raises the built-in classes themselves."""
    assert expected == failure_type_of(frozenset({class_name}), module, message)


def test_both_hashes_are_found_in_the_message() -> None:
    """Local first; empty where the message names none."""
    assert ("bd5f", "a50f") == hashes_in(
        "NIXL compatibility hash mismatch. Local: bd5f, Remote: a50f. Prefill"
    )
    assert ("", "") == hashes_in("Remote NIXL agent engine ID mismatch")
