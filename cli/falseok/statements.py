"""The SQL files of this package by name."""

from importlib.resources import files


def statement(name: str) -> str:
    """Text of `sql/<name>.sql`. Raises `FileNotFoundError` for a name that is none of ours: a defect."""
    return (files("falseok") / "sql" / f"{name}.sql").read_text(encoding="utf-8")
