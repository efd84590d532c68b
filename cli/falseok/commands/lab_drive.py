"""`falseok lab drive`: send requests through a lab's router and print what the client saw."""

from typing import Annotated, Literal

import typer

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

Endpoint = Literal["mixed", "chat", "completions", "responses"]


def drive(
    requests: RequestsOption = 32,
    name: NameOption = None,
    concurrency: Annotated[int, typer.Option(min=1, help="How many at a time.")] = 2,
    max_tokens: Annotated[int, typer.Option(min=1, help="Longest answer.")] = 16,
    ignore_eos: Annotated[bool, typer.Option("--ignore-eos", help="Let every answer be that long.")] = False,
    choices: Annotated[int, typer.Option(min=1, help="Choices of each answer (`n`).")] = 1,
    temperature: Annotated[float, typer.Option(min=0, help="Sampling temperature.")] = 0.0,
    stream: Annotated[
        bool | None, typer.Option("--stream/--no-stream", help="All streamed or none [default: half].")
    ] = None,
    endpoint: Annotated[Endpoint, typer.Option(help="`mixed`: chat and completions in turn.")] = "mixed",
    thinking: Annotated[
        bool | None, typer.Option("--thinking/--no-thinking", help="Ask the chat template for it.")
    ] = None,
    tools: Annotated[bool, typer.Option("--tools", help="Require a tool call (chat).")] = False,
    traceparent: Annotated[
        bool, typer.Option("--traceparent", help="Send a W3C trace context with each.")
    ] = False,
    abort_after: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0.01, help="The client leaves after so long.")
    ] = None,
    unreachable_prefill: Annotated[
        bool,
        typer.Option(
            "--unreachable-prefill", help="Send decode to where nobody answers: it waits for the KV cache."
        ),
    ] = False,
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
      falseok lab drive -n 4 --choices 2 --temperature 1 --endpoint chat --traceparent
      falseok lab drive -n 1 --unreachable-prefill --abort-after 1
    """
    directory = DataDirectory.resolve(data)
    state = pair.read_state(chosen_lab(directory, name), directory.path)
    console = progress()

    def show(answer: Answer) -> None:
        console.print(answer_line(answer), no_wrap=True, overflow="ellipsis")

    settings = DriveSettings(
        requests=requests,
        concurrency=concurrency,
        max_tokens=max_tokens,
        ignore_eos=ignore_eos,
        temperature=temperature,
        n=choices,
        stream="mixed" if stream is None else "always" if stream else "never",
        endpoint=endpoint,
        thinking=thinking,
        tools=tools,
        traceparent=traceparent,
        leave_after_seconds=abort_after,
        unreachable_prefill=unreachable_prefill,
    )
    answers = send(state, settings, on_answer=show)
    if as_json:
        write_json(answers)
    else:
        results().print(answers_summary(answers))
