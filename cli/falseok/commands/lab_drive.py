"""`falseok lab drive`: send requests through a lab's router and print what the client saw."""

from falseok.consoles import progress, results, write_json
from falseok.lab_choice import chosen_lab
from falseok.lab_options import NameOption, RequestsOption
from falseok.options import DataOption, JsonOption
from falseok.render_answers import answer_line, answers_summary
from falseok_lab import pair
from falseok_lab.answers import Answer
from falseok_lab.drive import DriveSettings
from falseok_lab.drive import drive as send
from falseok_pipeline.data_directory import DataDirectory


def drive(
    requests: RequestsOption = 32,
    name: NameOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send requests with prompts that all begin differently, and print each answer as the client got it.

    Exits with 0 whatever the answers were: judging them is the business of `falseok triage`.

    \b
    Examples:
      falseok lab drive
      falseok lab drive -n 32 --name pair
      falseok lab drive -n 4 --json | jq '.[].content'
    """
    directory = DataDirectory.resolve(data)
    state = pair.read_state(chosen_lab(directory, name), directory.path)
    console = progress()

    def show(answer: Answer) -> None:
        console.print(answer_line(answer), no_wrap=True, overflow="ellipsis")

    answers = send(state, DriveSettings(requests=requests), on_answer=show)
    if as_json:
        write_json(answers)
    else:
        results().print(answers_summary(answers))
