"""Which files belong together, and what is in them."""

import bz2
import gzip
import lzma
from pathlib import Path

import pytest

from falseok_pipeline.sources.logs.files import LogFile, LogInputError, distinct, grouped


def test_pieces_of_a_rotated_log_belong_together() -> None:
    """By name, the oldest first; another server's log is another group."""
    names = [
        "d/decode.log",
        "d/decode.log.1",
        "d/decode.log.2.gz",
        "d/decode.log-20261130",
        "e/decode.log",
        "d/prefill.log.10.xz",
        "d/prefill.log",
        "d/decode.log",
    ]
    groups = grouped([Path(name) for name in names])
    assert [
        ["d/decode.log.2.gz", "d/decode.log.1", "d/decode.log", "d/decode.log-20261130"],
        ["e/decode.log"],
        ["d/prefill.log.10.xz", "d/prefill.log"],
    ] == [[str(file.path) for file in group] for group in groups]


def test_every_compression_is_read(tmp_path: Path) -> None:
    """By content, whatever the name says; with the offsets of the text."""
    content = b"one\ntwo\n\nfour"
    packed = {
        "plain.gz": content,
        "a": gzip.compress(content),
        "b": bz2.compress(content),
        "c": lzma.compress(content),
        "d": gzip.compress(b"one\ntwo\n") + gzip.compress(b"\nfour"),
    }
    for name, data in packed.items():
        (tmp_path / name).write_bytes(data)
        lines = list(LogFile(tmp_path / name).lines())
        assert [(1, 0, b"one"), (2, 4, b"two"), (3, 8, b""), (4, 9, b"four")] == [
            (line.number, line.byte_offset, line.data) for line in lines
        ]
        assert content == LogFile(tmp_path / name).head()


def test_the_same_content_is_read_once(tmp_path: Path) -> None:
    """A copy or its compressed form repeats it."""
    (tmp_path / "x.log").write_bytes(b"a\n")
    (tmp_path / "x.log.1.gz").write_bytes(gzip.compress(b"a\n"))
    (tmp_path / "x.log.2").write_bytes(b"b\n")
    [group] = grouped(sorted(tmp_path.iterdir()))
    kept, repeated = distinct(group)
    assert ["x.log.2", "x.log.1.gz"] == [file.path.name for file in kept]
    assert ["x.log"] == [file.path.name for file in repeated]


@pytest.mark.parametrize(
    ("name", "message"),
    [("gone.log", "does not exist"), (".", "is a directory"), ("bad.gz", "cannot be read")],
)
def test_what_cannot_be_opened_says_what_to_do(tmp_path: Path, name: str, message: str) -> None:
    """One error of ours for all of it."""
    (tmp_path / "bad.gz").write_bytes(b"\x1f\x8bgarbage that is no gzip at all")
    with pytest.raises(LogInputError, match=message):
        LogFile(tmp_path / name).head()
