"""The logs of a real pair (vLLM 0.27.0, hybrid KV cache, policy `fail`) whose hashes differ; see `case_1/expected.md`."""

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


def case_text(name: str) -> str:
    """One of the files as text."""
    return lzma.decompress((FOLDER / f"{name}.xz").read_bytes()).decode()
