"""A recording: events of real engines in a folder, with a manifest that says where they come from.

`manifest.json` and `events.ndjson.xz`. Reading checks the events against the manifest first. Recordings shipped
with this package lie in `recordings/`.
"""

import hashlib
import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from falseok_lab.errors import LabError

MANIFEST = "manifest.json"
EVENTS = "events.ndjson.xz"
FORMAT = 1
SHIPPED = Path(__file__).parent / "recordings"


class RequestTruth(msgspec.Struct, frozen=True, kw_only=True):
    """Ground truth of one request: what its client saw. No text, only its lengths."""

    external_id: str
    endpoint: str
    stream: bool
    status: int
    error: str
    finish_reason: str
    content_characters: int
    reasoning_characters: int
    completion_tokens: int
    agrees: bool | None
    """Whether decode alone, computing the prompt itself, gave the same answer; None when it was not asked."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a recording comes from and what is in it."""

    format: int = FORMAT
    name: str
    created: str
    """UTC, ISO 8601."""
    versions: dict[str, str]
    """Of the engines: vllm, torch, nixl, transformers, python."""
    collector_fingerprint: str
    machine: dict[str, str]
    """platform, cpu, cores: no host name."""
    model: str
    fault: str
    fault_explanation: str
    executor: str
    commands: dict[str, list[str]]
    """Command line of each process by role, paths as placeholders."""
    environment: dict[str, dict[str, str]]
    """What the lab set for each engine by role, paths as placeholders, the salt left out."""
    notes: list[str]
    """What was changed on the way from the engines to this file."""
    requests: int
    events: int
    events_by_name: dict[str, int]
    torn_lines_dropped: int
    """Lines a segment ended in before they were finished."""
    payload_sha256: str
    """Over the events file as it lies here."""
    ground_truth: list[RequestTruth]


@dataclass(frozen=True)
class Recording:
    """A recording whose events match its manifest."""

    path: Path
    manifest: Manifest

    def lines(self) -> Iterator[bytes]:
        """Every event as recorded, in the order of time, without line breaks. Raises `OSError`."""
        with lzma.open(self.path / EVENTS) as file:
            for line in file:
                yield line.rstrip(b"\n")


def load(path: Path) -> Recording:
    """Open a recording and check it.

    Raises:
        LabError: there is none, its manifest cannot be read, or the events are not those of the manifest.
    """
    manifest = _manifest(path)
    try:
        digest = hashlib.sha256((path / EVENTS).read_bytes()).hexdigest()
    except OSError as error:
        raise LabError(f"The events of the recording {path} cannot be read: {error.strerror}.") from error
    if digest != manifest.payload_sha256:
        raise LabError(
            f"The recording {path} is damaged: {EVENTS} has the SHA-256 {digest}, and its manifest says "
            f"{manifest.payload_sha256}. Get the files again."
        )
    return Recording(path, manifest)


def list_shipped() -> list[Path]:
    """The folders of the recordings shipped with this package, sorted by name."""
    return sorted(path.parent for path in SHIPPED.glob(f"*/{MANIFEST}"))


def shipped(name: str) -> Path:
    """The folder of a shipped recording.

    Raises:
        LabError: none has that name; the message lists those there are.
    """
    if (SHIPPED / name / MANIFEST).is_file():
        return SHIPPED / name
    names = ", ".join(path.name for path in list_shipped()) or "none"
    raise LabError(f"There is no shipped recording {name!r}. There are: {names}.")


def _manifest(path: Path) -> Manifest:
    file = path / MANIFEST
    try:
        manifest = msgspec.json.decode(file.read_bytes(), type=Manifest)
    except OSError as error:
        raise LabError(
            f"{path} is not a recording: {file.name} cannot be read ({error.strerror})."
        ) from error
    except msgspec.DecodeError as error:
        raise LabError(f"{file} is not a manifest this FalseOK can read: {error}") from error
    if manifest.format != FORMAT:
        raise LabError(f"{file} has format {manifest.format}; this FalseOK reads format {FORMAT}.")
    return manifest
