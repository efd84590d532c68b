"""Rows of a query for people (a table, or blocks where a table would not fit) and for programs (CSV).

Every value is text here; nothing is cut.
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

import msgspec
from rich import box
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from falseok.plain_text import printable

Row = Mapping[str, Any]

_COLUMN_GAP = 3
"""Spaces that a table puts between two columns."""


def rows_view(rows: Sequence[Row], columns: Sequence[str], width: int) -> RenderableType:
    """The rows as a table, or each row as a block of `name value` lines where the table is wider than `width`."""
    cells = [[printable(cell(row.get(column))) for column in columns] for row in rows]
    widths = [max(cell_len(text) for text in texts) for texts in zip(columns, *cells, strict=True)]
    if sum(widths) + _COLUMN_GAP * len(widths) <= width:
        return _table(cells, columns)
    return Group(*(_block(number, values, columns) for number, values in enumerate(cells, start=1)))


def _table(cells: Sequence[Sequence[str]], columns: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(Text(printable(column)), no_wrap=True)
    for values in cells:
        table.add_row(*(Text(value) for value in values))
    return table


def _block(number: int, values: Sequence[str], columns: Sequence[str]) -> RenderableType:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for column, value in zip(columns, values, strict=True):
        grid.add_row(printable(column), Text(value))
    return Group(Text(f"── {number}", style="dim"), grid)


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
