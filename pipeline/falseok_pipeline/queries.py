"""The named triage queries: SQL files that say in their header what they answer, what they take and what they give.

Header lines are `-- question: …`, `-- parameter: name Type [= default] : meaning` and `-- column: name : meaning`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from falseok_pipeline.errors import PipelineError, QueryError

_HEADER = re.compile(r"^-- (question|parameter|column): (.*)$", re.MULTILINE)
_PARAMETER = re.compile(
    r"(?P<name>[a-z][a-z0-9_]*) (?P<type>[A-Z]\w*(?:\([\w() ,]*\))?)(?: = (?P<default>\S+))? : (?P<meaning>.+)"
)
_COLUMN = re.compile(r"(?P<name>[a-z][a-z0-9_]*) : (?P<meaning>.+)")


@dataclass(frozen=True)
class QueryParameter:
    """One parameter. Without a default it has to be given."""

    name: str
    type: str
    default: str | None
    meaning: str


@dataclass(frozen=True)
class QueryColumn:
    """One column of the answer."""

    name: str
    meaning: str


@dataclass(frozen=True)
class NamedQuery:
    """One query and its documentation."""

    name: str
    question: str
    parameters: tuple[QueryParameter, ...]
    columns: tuple[QueryColumn, ...]
    sql: str

    def bind(self, values: Mapping[str, str]) -> dict[str, Any]:
        """All parameters of the query, the given values over the defaults, to be bound by the engine.

        Raises:
            QueryError: a value is given for something that is no parameter, or one is missing.
        """
        known = {parameter.name for parameter in self.parameters}
        unknown = sorted(set(values) - known)
        if unknown:
            raise QueryError(
                f"Query {self.name} has no parameter {', '.join(unknown)}. "
                f"It takes: {', '.join(sorted(known)) or 'none'}."
            )
        bound = {p.name: values.get(p.name, p.default) for p in self.parameters}
        missing = sorted(name for name, value in bound.items() if value is None)
        if missing:
            raise QueryError(f"Query {self.name} needs a value for {', '.join(missing)}.")
        return bound


@cache
def load() -> Mapping[str, NamedQuery]:
    """The shipped queries by name. Raises `PipelineError` for a header that cannot be read."""
    folder = files("falseok_pipeline").joinpath("queries")
    found = (
        parse(entry.name.removesuffix(".sql"), entry.read_text(encoding="utf-8"))
        for entry in folder.iterdir()
        if entry.name.endswith(".sql")
    )
    return {query.name: query for query in sorted(found, key=lambda query: query.name)}


def parse(name: str, text: str) -> NamedQuery:
    """A query out of its file. Raises `PipelineError` naming what is wrong."""
    question = ""
    parameters: list[QueryParameter] = []
    columns: list[QueryColumn] = []
    for kind, content in _HEADER.findall(text):
        if kind == "question":
            question = content
        elif kind == "parameter":
            parameters.append(_parameter(name, content))
        else:
            columns.append(QueryColumn(**_matched(_COLUMN, name, content)))
    if not question or not columns:
        raise PipelineError(f"Query {name} lacks its question or its columns.")
    return NamedQuery(name, question, tuple(parameters), tuple(columns), _HEADER.sub("", text).strip())


def _parameter(name: str, content: str) -> QueryParameter:
    fields = _matched(_PARAMETER, name, content)
    default = fields["default"]
    return QueryParameter(
        fields["name"], fields["type"], "" if default == "''" else default, fields["meaning"]
    )


def _matched(pattern: re.Pattern[str], name: str, content: str) -> dict[str, Any]:
    match = pattern.fullmatch(content)
    if match is None:
        raise PipelineError(f"Query {name}: header line not understood: {content}")
    return match.groupdict()
