"""Rows of a query for people (a table) and for programs (CSV). Every value is text here; nothing is cut."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

import msgspec
from rich import box
from rich.table import Table
from rich.text import Text

from falseok.plain_text import printable

Row = Mapping[str, Any]


def rows_table(rows: Sequence[Row], columns: Sequence[str]) -> Table:
    """The rows under their column names; long values wrap inside their column."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(Text(printable(column)), overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell(row.get(column)))) for column in columns))
    return table


def write_csv(stream: TextIO, rows: Iterable[Row], columns: Sequence[str]) -> None:
    """Header and rows as RFC 4180, values as they are: a program that reads ids must get the ids."""
    writer = csv.writer(stream)
    writer.writerow(columns)
    for row in rows:
        writer.writerow([cell(row.get(column)) for column in columns])


def cell(value: Any) -> str:
    """One value as text: nothing for `None`, `true`/`false`, and JSON for lists and maps."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple | dict):
        return msgspec.json.encode(value).decode()
    return str(value)
