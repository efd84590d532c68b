"""Rows of a query as table and as CSV."""

import csv
import io

from falseok.render_rows import rows_table, write_csv
from tests.cli.screens import screen

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
    text = "\n".join(screen(rows_table(ROWS, COLUMNS), 80))
    assert "[red]a,b[/red]" in text
    assert "true" in text
