"""Kinds of failed NIXL handshakes by exception class and message, wherever the exception was met: in a hook or a log.

The messages are those of `NixlBaseConnectorWorker._nixl_handshake` and of the checks it calls, vLLM 0.26 to 0.33.
"""

import re

_MESSAGES = {
    "compatibility hash mismatch": "hash_mismatch",
    "engine ID mismatch": "engine_id_mismatch",
    "Failed to decode": "undecodable",
}
_HASHES = re.compile(r"Local: ([0-9a-f]+), Remote: ([0-9a-f]+)")
_LAYOUT_ERRORS = frozenset({"AssertionError", "ValueError"})


def failure_type_of(class_names: frozenset[str], module: str, message: str) -> str:
    """`kv.handshake` failure_type of an exception: names of its class and bases, module of its class, message.

    A log names the class alone; the result is the same, since vLLM raises the built-in classes themselves.
    """
    for fragment, failure_type in _MESSAGES.items():
        if fragment in message:
            return failure_type
    if module.startswith("zmq"):
        return "unreachable"
    if "NotImplementedError" in class_names:
        return "unsupported"
    if class_names & _LAYOUT_ERRORS or "layout" in message:
        return "layout_mismatch"
    return "other"


def hashes_in(message: str) -> tuple[str, str]:
    """Local and remote compatibility hash that the message names; empty texts where it names none."""
    found = _HASHES.search(message)
    return (found.group(1), found.group(2)) if found else ("", "")
