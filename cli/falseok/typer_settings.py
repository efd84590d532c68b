"""How every command group behaves: plain help that fits a pipe, no completion clutter, our own error messages."""

from typing import Any

SETTINGS: dict[str, Any] = {
    "rich_markup_mode": None,
    "no_args_is_help": True,
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
"""Keyword arguments of every `typer.Typer` here."""
