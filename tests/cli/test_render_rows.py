"""Rows of a query as table, as blocks and as CSV."""

import csv
import io

from tests.cli.screens import screen

from falseok.render_rows import rows_view, write_csv

ROWS = [{"id": "[red]a,b[/red]", "n": 3, "ok": True, "list": ["x"], "gap": None}, {"id": 'q"\n', "n": 0.5}]
COLUMNS = ("id", "n", "ok", "list", "gap")


def test_csv_gives_back_every_value() -> None:
    """A CSV reader sees the ids as they are, quotes, commas and line breaks included."""
    stream = io.StringIO()
    write_csv(stream, ROWS, COLUMNS)
    stream.seek(0)
    assert [
        list(COLUMNS),
        ["[red]a,b[/red]", "3", "true", '["x"]', ""],
        ['q"\n', "0.5", "", "", ""],
    ] == list(csv.reader(stream))


def test_table_shows_values_as_text() -> None:
    """Markup in a value is shown, not followed."""
    lines = screen(rows_view(ROWS, COLUMNS, 80), 80)
    assert any(line.startswith(" [red]a,b[/red]   3") for line in lines)
    assert any("true" in line for line in lines)


def test_rows_too_wide_for_a_table_become_blocks() -> None:
    """Nothing is cut and no column is squeezed to a letter: each row is a block of its own."""
    rows = [{"id": "a" * 60, "text": "b" * 30}, {"id": "c", "text": "d"}]
    assert [
        "── 1",
        f"id    {'a' * 60}",
        f"text  {'b' * 30}",
        "── 2",
        "id    c",
        "text  d",
    ] == screen(rows_view(rows, ("id", "text"), 80), 80)
