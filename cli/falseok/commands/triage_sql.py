"""`falseok triage sql`: a named triage query or any read-only SQL over the store."""

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.text import Text

from falseok.consoles import progress, results, write_json
from falseok.errors import CliError
from falseok.options import CsvOption, DataOption, JsonOption
from falseok.plain_text import printable
from falseok.render_rows import Row, rows_view, write_csv
from falseok.store_choice import connect
from falseok_pipeline import queries
from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.queries import NamedQuery

_NAME = re.compile(r"[a-z][a-z0-9_]*")


def sql(
    query: Annotated[
        str | None,
        typer.Argument(metavar="[NAME_OR_QUERY]", help="A named query, or SQL. Without it: list the names."),
    ] = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option("--parameter", "-p", metavar="NAME=VALUE", help="Bind a parameter; repeatable."),
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """Run a named triage query, or SQL of your own (read-only, limited in time and size).

    Values are bound by the engine as {name:Type}, never pasted into the text.

    \b
    Examples:
      falseok triage sql
      falseok triage sql requests_by_verdict
      falseok triage sql request_story -p request_id=my-request-17 --csv
      falseok triage sql "SELECT request_id FROM request_verdicts WHERE verdict = {v:String}" -p v=corrupt
    """
    values = parsed_parameters(parameter or [])
    if query is None:
        _list_queries(as_json=as_json)
        return
    named = _named(query)
    with connect(DataDirectory.resolve(data)) as store:
        rows = store.query(named.sql, named.bind(values)) if named else store.query(query, values)
    columns = list(rows[0]) if rows else [column.name for column in (named.columns if named else ())]
    write_rows(rows, columns, as_json=as_json, as_csv=as_csv)


def parsed_parameters(pairs: Sequence[str]) -> dict[str, str]:
    """`NAME=VALUE` texts as a mapping; the value may hold further equal signs. Raises `CliError`."""
    values: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise CliError(f"-p {pair} is not NAME=VALUE.", hint="For example: -p request_id=my-request-17")
        if name in values:
            raise CliError(f"-p {name} is given twice.", hint="Give each parameter once.")
        values[name] = value
    return values


def write_rows(rows: Sequence[Row], columns: Sequence[str], *, as_json: bool, as_csv: bool) -> None:
    """The rows in the form that was asked for: a JSON array, CSV, or a table with its count on stderr.

    Raises `CliError` when both forms are asked for.
    """
    if as_json and as_csv:
        raise CliError("--json and --csv cannot be had at once.", hint="Leave one of them out.")
    if as_json:
        write_json(rows)
    elif as_csv:
        write_csv(sys.stdout, rows, columns)
    else:
        if rows:
            console = results()
            console.print(rows_view(rows, columns, console.width))
        progress().print(f"{len(rows):,} row{'' if len(rows) == 1 else 's'}")


def _named(query: str) -> NamedQuery | None:
    if not _NAME.fullmatch(query):
        return None
    known = queries.load()
    if query not in known:
        raise CliError(
            f"There is no named query {query}. Known: {', '.join(sorted(known))}.",
            hint="List them with their parameters: falseok triage sql",
        )
    return known[query]


def _list_queries(*, as_json: bool) -> None:
    known = queries.load()
    if as_json:
        write_json([_described(query) for query in known.values()])
        return
    for query in known.values():
        results().print(Text(query.name, style="bold"))
        results().print(Text(f"  {printable(query.question)}"))
        for parameter in query.parameters:
            default = f" [default: {parameter.default}]" if parameter.default else ""
            results().print(Text(printable(f"  -p {parameter.name}=…  {parameter.meaning}{default}")))


def _described(query: NamedQuery) -> Mapping[str, Any]:
    return {
        "name": query.name,
        "question": query.question,
        "parameters": [
            {"name": item.name, "type": item.type, "default": item.default, "meaning": item.meaning}
            for item in query.parameters
        ],
        "columns": [{"name": column.name, "meaning": column.meaning} for column in query.columns],
        "sql": query.sql,
    }
