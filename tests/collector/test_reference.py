"""The reference pages are generated, complete and up to date."""

from pathlib import Path

import pytest

from falseok_collector.attributes import ATTRIBUTES
from falseok_collector.events import ENVELOPE_FIELDS
from falseok_collector.reference import field_documentation, main, outdated, pages
from falseok_collector.settings import Settings

DOCS = Path(__file__).parents[2] / "docs"


def test_the_pages_in_the_repository_are_up_to_date() -> None:
    """Else: `python -m falseok_collector.reference docs`."""
    assert [] == outdated(DOCS)


@pytest.mark.parametrize("name", [name for name in Settings.__struct_fields__ if name != "problems"])
def test_every_setting_is_documented(name: str) -> None:
    """As a variable and as a key of the file."""
    page = (DOCS / "settings.md").read_text(encoding="utf-8")
    assert f"| `FALSEOK_{name.upper()}` | `{name}` |" in page
    assert len(field_documentation(Settings)[name]) > 10


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_every_event_and_its_fields_are_documented(name: str) -> None:
    """One chapter an event, one row a field."""
    _, chapter = (DOCS / "events.md").read_text(encoding="utf-8").split(f"## `{name}`\n")
    rows = [row for row in chapter.partition("\n## ")[0].splitlines() if row.startswith("| `")]
    assert list(ATTRIBUTES[name].__struct_fields__) == [row.split("`")[1] for row in rows]


def test_the_envelope_is_documented() -> None:
    """In the order of the contract."""
    chapter = (DOCS / "events.md").read_text(encoding="utf-8").split("## Envelope\n")[1].partition("\n## ")[0]
    rows = [row for row in chapter.splitlines() if row.startswith("| `")]
    assert list(ENVELOPE_FIELDS) == [row.split("`")[1] for row in rows]


def test_checking_names_what_is_missing_or_old_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1, with the command that helps."""
    (tmp_path / "events.md").write_text("old", encoding="utf-8")
    assert 1 == main(["--check", str(tmp_path)])
    complaint = capsys.readouterr().err
    assert [True] * 4 == [f"{tmp_path / name} is not up to date" in complaint for name in pages()]
    assert ["events.md"] == [path.name for path in tmp_path.iterdir()]


def test_writing_makes_the_check_pass(tmp_path: Path) -> None:
    """Write, check: 0 and 0."""
    assert 0 == main([str(tmp_path)])
    assert 0 == main(["--check", str(tmp_path)])
    assert {name: (tmp_path / name).read_text(encoding="utf-8") for name in pages()} == pages()
