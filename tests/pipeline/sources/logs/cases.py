"""Logs of real pairs without the collector.

`case_1`: vLLM 0.27.0, hybrid KV cache, policy `fail`, the hashes differ; see its `expected.md`.
`failed_closed`: the same fault on 0.32.0, twelve requests, half of them streams. `healthy`: 0.32.0 without a fault.
"""

import lzma
from pathlib import Path

FOLDER = Path(__file__).parent / "case_1"
NAMES = ("prefill.log", "decode.log", "client.jsonl")


def case_files(folder: Path) -> tuple[Path, Path, Path]:
    """Prefill log, decode log and what the client saw, unpacked into a folder."""
    for name in NAMES:
        (folder / name).write_bytes(lzma.decompress((FOLDER / f"{name}.xz").read_bytes()))
    prefill, decode, client = (folder / name for name in NAMES)
    return prefill, decode, client


def pair_logs(case: str, folder: Path) -> tuple[Path, Path]:
    """Prefill and decode log of a case, unpacked into a folder."""
    for name in NAMES[:2]:
        (folder / name).write_bytes(lzma.decompress((FOLDER.parent / case / f"{name}.xz").read_bytes()))
    return folder / NAMES[0], folder / NAMES[1]


def case_text(name: str) -> str:
    """One of the files as text."""
    return lzma.decompress((FOLDER / f"{name}.xz").read_bytes()).decode()
