"""Reads docker-compose.yml twice: as the resolved configuration, and as text whose comments count."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "docker-compose.yml"
VARIABLE = re.compile(r"(?<!\$)\$\{(?P<name>\w+)(?::-(?P<default>[^}]*))?\}")


def resolved(*options: str) -> dict[str, Any]:
    """The configuration as podman-compose, an implementation of the Compose specification, reads it."""
    command = [sys.executable, "-m", "podman_compose", "--dry-run", "-f", str(FILE), *options, "config"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert 0 == done.returncode, done.stderr
    document = yaml.safe_load(done.stdout)
    assert isinstance(document, dict)
    return document


def uncommented(text: str) -> list[str]:
    """Services, environment variables, ports, volumes and build arguments that no comment explains, by their path.

    A comment counts when it stands right above, or behind on the same line. Whatever is taken over from an anchor was
    explained there.
    """
    lines = text.splitlines()
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)
    return [path for path, node in _to_be_explained(root) if not _has_comment(lines, node.start_mark.line)]


def _to_be_explained(root: yaml.MappingNode) -> Iterator[tuple[str, yaml.Node]]:
    for key, value in _pairs(root):
        if key.value == "services":
            for name, service in _pairs(value):
                yield f"services.{name.value}", name
                yield from _of_service(f"services.{name.value}", service)
        elif key.value.startswith("x-"):
            yield key.value, key
            if "environment" in key.value:
                yield from ((f"{key.value}.{name.value}", name) for name, _ in _pairs(value))
            else:
                yield from _of_service(key.value, value)


def _of_service(path: str, service: yaml.Node) -> Iterator[tuple[str, yaml.Node]]:
    for key, value in _pairs(service):
        if key.value == "environment":
            yield from ((f"{path}.environment.{name.value}", name) for name, _ in _pairs(value))
        elif key.value in {"ports", "volumes"}:
            assert isinstance(value, yaml.SequenceNode)
            yield from ((f"{path}.{key.value}[{at}]", item) for at, item in enumerate(value.value))
        elif key.value == "build":
            for name, arguments in _pairs(value):
                if name.value == "args":
                    yield from (
                        (f"{path}.build.args.{argument.value}", argument) for argument, _ in _pairs(arguments)
                    )


def _pairs(node: yaml.Node) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
    """Of a mapping, without what it merges in; fails for a list where the file should name its values."""
    assert isinstance(node, yaml.MappingNode), f"not a mapping: line {node.start_mark.line + 1}"
    return ((key, value) for key, value in node.value if key.value != "<<")


def _has_comment(lines: list[str], at: int) -> bool:
    return " # " in lines[at] or (at > 0 and lines[at - 1].lstrip().startswith("#"))
