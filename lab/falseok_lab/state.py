"""What a lab knows of its pair between two commands: `state.json` in the lab's folder.

Readable by its owner only, since it holds the fleet salt.
"""

import os
from pathlib import Path

import msgspec

from falseok_lab.errors import LabError
from falseok_lab.ports import LOOPBACK, Ports
from falseok_lab.processes import OwnProcess
from falseok_lab.sides import Side

STATE_FILE = "state.json"
FORMAT = 1


class PairState(msgspec.Struct, frozen=True, kw_only=True):
    """One pair: where it is, what runs, and what it was started with."""

    format: int = FORMAT
    name: str
    folder: str
    vllm: str
    model: str
    model_folder: str
    engine_folder: str
    fault: str
    executor: str
    collector: bool
    collector_fingerprint: str
    versions: dict[str, str]
    """Of the engines: vllm, torch, nixl, transformers, python."""
    environment: dict[str, str]
    """Variables added to the engines' environment by the caller."""
    salt: str
    ports: Ports
    started_at: str
    """UTC, ISO 8601."""
    connector: str = "pull"
    lease_seconds: int | None = None
    """How long prefill keeps blocks nobody has read; None: vLLM's own default."""
    router_collector: bool = False
    """Whether the router tells its answers, too."""
    prefill: Side = Side()
    decode: Side = Side()
    processes: list[OwnProcess] = []

    @property
    def directory(self) -> Path:
        """The lab's folder."""
        return Path(self.folder)

    @property
    def spool(self) -> Path:
        """Where both engines' collectors put their events."""
        return self.directory / "spool"

    @property
    def client_log(self) -> Path:
        """What the client saw, one JSON document a line and request."""
        return self.directory / "client.jsonl"

    @property
    def router_url(self) -> str:
        """Where a client sends its requests."""
        return f"http://{LOOPBACK}:{self.ports.router}"

    @property
    def prefill_url(self) -> str:
        """The prefill engine itself."""
        return f"http://{LOOPBACK}:{self.ports.prefill}"

    @property
    def decode_url(self) -> str:
        """The decode engine itself."""
        return f"http://{LOOPBACK}:{self.ports.decode}"

    @property
    def served_model(self) -> str:
        """The name requests call the model by."""
        return self.model


def lab_directory(name: str, data: Path) -> Path:
    """The folder of the lab `name` in a data directory."""
    return data.resolve() / "lab" / name


def write_state(state: PairState) -> None:
    """Replace the state file in one step. Raises `OSError`."""
    target = state.directory / STATE_FILE
    temporary = target.with_suffix(".new")
    content = msgspec.json.format(msgspec.json.encode(state), indent=2) + b"\n"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    temporary.replace(target)


def find_state(directory: Path) -> PairState | None:
    """The state kept in a lab's folder, or None when nothing was ever started there.

    Raises:
        LabError: the file cannot be read or is of another format.
    """
    path = directory / STATE_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=PairState)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise LabError(
            f"{path} cannot be read: {error}. If no engine of this lab runs, delete its folder."
        ) from error


def read_state(name: str, data: Path) -> PairState:
    """The state of the lab `name`.

    Raises:
        LabError: there is no such lab, or its state cannot be read.
    """
    state = find_state(lab_directory(name, data))
    if state is None:
        raise LabError(f"There is no lab named {name}. Start it with: falseok lab up --name {name}")
    return state
