"""`falseok demo`: the shipped recording of real engines, replayed through the whole pipeline and shown."""

import time
from pathlib import Path

from rich.text import Text

from falseok.consoles import progress, results, write_json
from falseok.demo_directory import as_seen_from, default_directory, prepared
from falseok.demo_replay import Replayed, replay_recording
from falseok.errors import CliError
from falseok.options import DataOption, JsonOption, data_argument
from falseok.plain_text import printable
from falseok.program import program
from falseok.recordings import demo_recording, provenance
from falseok.render_incident import incident_view
from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.errors import DataDirectoryInUseError


def demo(data: DataOption = None, as_json: JsonOption = False) -> None:
    """Replay a recorded incident of real engines and show what the pager would say.

    The data goes to --data, else to .demo here (a temporary directory where nothing can be written). The directory
    is emptied first, but only if the demo made it.

    \b
    Examples:
      falseok demo
      falseok demo --data /tmp/falseok-demo
      falseok triage incidents --data .demo --json
    """
    path = data or as_seen_from(Path.cwd(), default_directory(Path.cwd()))
    directory = DataDirectory(path.absolute())
    holder = directory.running()
    if holder is not None:
        raise DataDirectoryInUseError(str(directory.path), holder.pid, holder.command)
    recording = demo_recording()
    prepared(directory.path)
    console = progress()
    for line in provenance(recording):
        console.print(Text(printable(line)), soft_wrap=True)
    began = time.monotonic()
    replayed = replay_recording(
        recording, directory, lambda text: console.print(Text(f"  {text} …"), soft_wrap=True)
    )
    seconds = time.monotonic() - began
    console.print(f"  {replayed.events:,} events in {seconds:.1f} s, {replayed.dead_letters} dead letters\n")
    _show(replayed, path, as_json=as_json)


def _show(replayed: Replayed, path: Path, *, as_json: bool) -> None:
    if not replayed.incidents:
        raise CliError(
            "The recording gave no incident: this installation judges wrongly.", hint="Please report it."
        )
    if as_json:
        write_json(replayed.incidents)
        return
    for incident in replayed.incidents:
        results().print(incident_view(incident, data_argument(path)))
    for line in (
        "",
        f"The data is in {path}. Look around in it:",
        f"  {program()} triage incidents{data_argument(path)}",
        f"  {program()} status{data_argument(path)}",
        "See the same live, with two real vLLM engines on this machine's CPU:",
        "  make lab        (or, outside the repository: falseok lab tour)",
    ):
        results().print(Text(line), soft_wrap=True)
