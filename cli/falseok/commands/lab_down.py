"""`falseok lab down`: end a lab's processes and leave its events."""

import time

from falseok.consoles import progress, results, write_json
from falseok.lab_choice import chosen_lab
from falseok.lab_options import NameOption
from falseok.lab_progress import LabProgress
from falseok.options import DataOption, JsonOption
from falseok_lab import pair
from falseok_pipeline.data_directory import DataDirectory


def down(name: NameOption = None, data: DataOption = None, as_json: JsonOption = False) -> None:
    """End the engines and the router of a lab. Its events stay; doing it twice is no error.

    \b
    Examples:
      falseok lab down
      falseok lab down --name pair
    """
    directory = DataDirectory.resolve(data)
    chosen = chosen_lab(directory, name)
    with LabProgress(progress(), time.monotonic) as reporter:
        ended = pair.down(chosen, directory.path, reporter)
    if as_json:
        write_json({"name": chosen, "processes_ended": ended})
    else:
        results().print(f"lab {chosen}: processes ended: {ended}")
