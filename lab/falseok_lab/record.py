"""Saves what a lab's engines said as a recording, with the ground truth of what its client saw.

The machine is taken out of it: its paths and its name become placeholders. Prompts and answers stay out.
"""

import hashlib
import lzma
import os
import platform
import socket
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from falseok_lab.answers import Answer, agreement, read
from falseok_lab.connectors import KV_ROLES
from falseok_lab.errors import LabError
from falseok_lab.faults import fault_named
from falseok_lab.launch import engine_environment
from falseok_lab.neutral import HOST, Neutralizer
from falseok_lab.nixl_patch import DELAY_MICROSECONDS
from falseok_lab.recording import EVENTS, MANIFEST, Manifest, RequestTruth
from falseok_lab.spool_lines import Spooled, read_spool
from falseok_lab.state import PairState, find_state

NOTES = [
    f"Host names were replaced by {HOST} and paths of the machine by placeholders, in every event and consistently.",
    f"NIXL's progress thread sleeps {DELAY_MICROSECONDS} microseconds between looks instead of polling without pause.",
]


def record(lab: Path, destination: Path) -> Manifest:
    """Write the recording of the lab in folder `lab` to `destination`, a folder that is made.

    The pair may still run, but what its collectors have not written yet is not in it: end it first.

    Raises:
        LabError: no lab there, no event in its spool, the destination holds something, or a line is unreadable.
        OSError: the destination cannot be written.
    """
    state = find_state(lab)
    if state is None:
        raise LabError(f"{lab} is not the folder of a lab: it has no state.json.")
    if destination.exists() and any(destination.iterdir()):
        raise LabError(f"{destination} is not empty. Name another folder for the recording.")
    spooled = read_spool(state.spool)
    if not spooled.events:
        raise LabError(f"There are no events in {state.spool}. Was the collector on, and were requests sent?")
    neutralizer = neutralizer_of(state)
    payload = b"".join(msgspec.json.encode(neutralizer.value(event)) + b"\n" for event in spooled.events)
    _require_neutral(neutralizer, payload)
    packed = lzma.compress(payload, preset=9 | lzma.PRESET_EXTREME)
    manifest = _manifest(state, spooled, neutralizer, hashlib.sha256(packed).hexdigest(), destination.name)
    destination.mkdir(parents=True, exist_ok=True)
    (destination / EVENTS).write_bytes(packed)
    (destination / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
    return manifest


def neutralizer_of(state: PairState) -> Neutralizer:
    """Placeholders for what events and command lines of this lab name of its machine."""
    base = Path(sys.executable).resolve().parent
    paths = {
        state.model_folder: f"/models/{state.model}",
        state.engine_folder: "/engine",
        state.folder: "/lab",
        sys.prefix: "/falseok",
        str(base): "/python",
        str(Path.home()): "/home/lab",
    }
    usable = {path: placeholder for path, placeholder in paths.items() if path not in {"", "/"}}
    return Neutralizer(usable, socket.gethostname())


def ground_truth(answers: Sequence[Answer]) -> list[RequestTruth]:
    """What the client saw, by request id, with the agreement where decode was also asked alone."""
    routed = [answer for answer in answers if not answer.direct]
    agreed: dict[str, bool] = {}
    for run in {answer.run for answer in routed}:
        of_run = [answer for answer in answers if answer.run == run]
        agreed |= agreement([one for one in of_run if not one.direct], [one for one in of_run if one.direct])
    return sorted(
        (_truth(one, agreed.get(one.external_id)) for one in routed), key=lambda one: one.external_id
    )


def _truth(answer: Answer, agrees: bool | None) -> RequestTruth:
    return RequestTruth(
        external_id=answer.external_id,
        endpoint=answer.endpoint,
        stream=answer.stream,
        status=answer.status,
        error=answer.error,
        finish_reason=answer.finish_reason,
        content_characters=len(answer.content),
        reasoning_characters=len(answer.reasoning),
        completion_tokens=answer.completion_tokens,
        agrees=agrees,
    )


def _manifest(
    state: PairState, spooled: Spooled, neutralizer: Neutralizer, digest: str, name: str
) -> Manifest:
    truth = ground_truth(read(state.client_log))
    return Manifest(
        name=name,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=state.versions,
        collector_fingerprint=state.collector_fingerprint,
        machine=_machine(),
        model=state.model,
        fault=state.fault,
        fault_explanation=fault_named(state.fault).explanation,
        executor=state.executor,
        commands={own.role: neutralizer.value(own.command) for own in state.processes},
        environment=_environment(state, neutralizer),
        notes=NOTES,
        requests=len(truth),
        events=len(spooled.events),
        events_by_name=dict(sorted(Counter(str(event["name"]) for event in spooled.events).items())),
        torn_lines_dropped=spooled.torn_lines,
        payload_sha256=digest,
        ground_truth=[msgspec.structs.replace(one, error=neutralizer.text(one.error)) for one in truth],
    )


def _environment(state: PairState, neutralizer: Neutralizer) -> dict[str, dict[str, str]]:
    return {
        role: {
            name: neutralizer.text(value)
            for name, value in engine_environment(role, state).items()
            if name != "FALSEOK_SALT"
        }
        for role in KV_ROLES
    }


def _machine() -> dict[str, str]:
    system = " ".join((platform.system(), platform.machine(), *platform.libc_ver())).strip()
    return {"platform": system, "cpu": _cpu(), "cores": str(os.cpu_count() or 0)}


def _cpu() -> str:
    try:
        lines: Iterable[str] = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _require_neutral(neutralizer: Neutralizer, payload: bytes) -> None:
    left = neutralizer.left_in(payload.decode())
    if left:
        raise LabError(
            f"The events still name paths of this machine ({', '.join(left)}); nothing was recorded."
        )
