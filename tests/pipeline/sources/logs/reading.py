"""Reads lines in memory or files into events, without a store."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any

import msgspec

from falseok_pipeline.dead_letters import DeadLetter
from falseok_pipeline.line_judgement import judge_line
from falseok_pipeline.sources.logs.ingest import Inputs, Read, ingest


@dataclass
class MemoryStore:
    """Keeps what would have been stored; refuses what the service would refuse."""

    events: list[dict[str, Any]] = field(default_factory=list)
    letters: list[DeadLetter] = field(default_factory=list)

    def insert_events(self, lines: bytes) -> None:
        """Lines are valid events, or the test fails."""
        for line in lines.splitlines():
            judged = judge_line("test", 0, line)
            assert not isinstance(judged, DeadLetter), judged
            self.events.append(msgspec.json.decode(line))

    def insert_dead_letters(self, letters: Sequence[DeadLetter], now_micros: int) -> None:
        """Kept as they are."""
        self.letters += letters

    def named(self, name: str) -> list[dict[str, Any]]:
        """Events of one name, in order."""
        return [event for event in self.events if event["name"] == name]


def read_files(
    *,
    prefill: Sequence[Path] = (),
    decode: Sequence[Path] = (),
    access: Sequence[Path] = (),
    zone: tzinfo = UTC,
    year: int | None = 2026,
) -> tuple[Read, MemoryStore]:
    """What becomes of log files."""
    store = MemoryStore()
    return ingest(Inputs(prefill=prefill, decode=decode, access=access, zone=zone, year=year), store), store


def read_lines(
    folder: Path, *, prefill: Iterable[str] = (), decode: Iterable[str] = (), **options: Any
) -> tuple[Read, MemoryStore]:
    """What becomes of the lines of one prefill and one decode server."""
    files: dict[str, list[Path]] = {"prefill": [], "decode": []}
    for role, lines in (("prefill", prefill), ("decode", decode)):
        text = "\n".join(lines)
        if text:
            path = folder / f"{role}.log"
            path.write_text(f"{text}\n", encoding="utf-8")
            files[role].append(path)
    return read_files(prefill=files["prefill"], decode=files["decode"], **options)
