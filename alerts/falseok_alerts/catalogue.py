"""Reads the cause catalogue and the factor knowledge, checks all of it, and reports every problem of every file at once.

Must not judge anything: see `evaluation`.
"""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TypeVar

import msgspec
import yaml

from falseok_alerts import strict_yaml
from falseok_alerts.catalogue_checks import KNOWN_PATHS, problems_of_cause, problems_of_factor
from falseok_alerts.cause import Cause
from falseok_alerts.errors import CatalogueError
from falseok_alerts.factors import Factor

_T = TypeVar("_T")


class Catalogue(msgspec.Struct, frozen=True):
    """All causes in the order of their file names, and the factor knowledge by factor name."""

    causes: tuple[Cause, ...]
    factors: dict[str, Factor]


@cache
def shipped() -> Catalogue:
    """The catalogue inside this package, read once. Raises `CatalogueError` with all problems."""
    package = files("falseok_alerts")
    return load(package / "causes", package / "factors.yaml")


def load(causes_directory: Traversable, factors_file: Traversable) -> Catalogue:
    """The catalogue of a directory of cause files and one factor file.

    Raises:
        CatalogueError: with every problem of every file, each as `file: path: what is wrong`.
    """
    problems: list[str] = []
    factors = _read(factors_file, dict[str, Factor], problems) or {}
    for name, factor in factors.items():
        problems += [
            f"{factors_file.name}: {name}{problem}" for problem in problems_of_factor(factor, factors)
        ]
    causes = [
        cause for file in _cause_files(causes_directory) if (cause := _cause(file, problems)) is not None
    ]
    problems += _duplicate_ids(causes)
    if not causes:
        problems.append(f"{causes_directory.name}: no cause file loads from here")
    if problems:
        raise CatalogueError(problems)
    return Catalogue(tuple(causes), factors)


def _cause_files(directory: Traversable) -> list[Traversable]:
    return sorted(
        (file for file in directory.iterdir() if file.name.endswith(".yaml")), key=lambda file: file.name
    )


def _cause(file: Traversable, problems: list[str]) -> Cause | None:
    cause = _read(file, Cause, problems)
    if cause is None:
        return None
    stem = file.name.removesuffix(".yaml")
    found = [f"{file.name}: {problem}" for problem in problems_of_cause(cause, stem, KNOWN_PATHS)]
    problems += found
    return None if found else cause


def _read(file: Traversable, kind: type[_T], problems: list[str]) -> _T | None:
    try:
        return msgspec.convert(strict_yaml.load(file.read_text(encoding="utf-8")), kind)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, msgspec.ValidationError) as error:
        problems.append(f"{file.name}: {' '.join(str(error).split())}")
        return None


def _duplicate_ids(causes: list[Cause]) -> Iterator[str]:
    seen: set[str] = set()
    for cause in causes:
        if cause.id in seen:
            yield f"id {cause.id} is used by more than one file"
        seen.add(cause.id)
