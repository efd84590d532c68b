"""`falseok lab status`: which labs there are and whether their processes live."""

from falseok.consoles import results, write_json
from falseok.lab_choice import chosen_lab, lab_names
from falseok.lab_options import NameOption
from falseok.options import DataOption, JsonOption
from falseok.render_lab import lab_document, lab_line
from falseok_lab import pair
from falseok_pipeline.data_directory import DataDirectory


def status(name: NameOption = None, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Show the labs of this data directory; no lab is no error.

    \b
    Examples:
      falseok lab status
      falseok lab status --name pair --json
    """
    directory = DataDirectory.resolve(data)
    names = [chosen_lab(directory, name)] if name else lab_names(directory)
    found = [state for state in (pair.status(each, directory.path) for each in names) if state is not None]
    if as_json:
        write_json([{**lab_document(one.state), "alive": one.alive} for one in found])
        return
    for state in found:
        results().print(lab_line(state))
    if not found:
        results().print(f"no lab in {directory.path}; start one with: falseok lab up", soft_wrap=True)
