"""What a query by a person or a rule may cost, and how the store is made to enforce it.

The engine enforces all of it: `readonly = 1` once set on a handle cannot be undone by any statement on it.
"""

import re
from dataclasses import dataclass

from falseok_pipeline.errors import QueryError


@dataclass(frozen=True)
class QueryLimits:
    """Bounds of one query."""

    execution_seconds: float = 30.0
    result_rows: int = 1_000_000
    result_bytes: int = 256 * 1024 * 1024
    memory_bytes: int = 2 * 1024 * 1024 * 1024

    def settings(self) -> dict[str, str]:
        """The same as ClickHouse settings, in the order to set them: after `readonly` nothing can be changed."""
        return {
            "max_execution_time": str(self.execution_seconds),
            "timeout_before_checking_execution_speed": "0",
            "max_result_rows": str(self.result_rows),
            "max_result_bytes": str(self.result_bytes),
            "result_overflow_mode": "throw",
            "max_memory_usage": str(self.memory_bytes),
            "readonly": "1",
        }


STANDARD = QueryLimits()

_TEXT = r"'(?:[^'\\]|\\.|'')*'"
_QUOTED_NAME = r"`(?:[^`\\]|\\.)*`|\"(?:[^\"\\]|\\.)*\""
_COMMENT = r"--[^\n]*|#[^\n]*|/\*.*?\*/"
_OUTSIDE = r"(?:file|s3\w*|url\w*|azure\w*|gcs|hdfs\w*|python|iceberg\w*|deltaLake\w*|hudi\w*)"

_LITERALS_AND_COMMENTS = re.compile(f"{_TEXT}|{_QUOTED_NAME}|{_COMMENT}", re.DOTALL)
_TEXT_AND_COMMENTS = re.compile(f"{_TEXT}|{_COMMENT}", re.DOTALL)
_UNCHECKED_QUOTES = re.compile(r"\$\w*\$|[\u2018\u2019\u201c\u201d]")
_READING = re.compile(r"\s*\(*\s*(?:select|with|show|describe|desc|explain|exists)\b", re.IGNORECASE)
# What `readonly` still lets through in an embedded engine: it runs with the rights of its process.
_REACHES_OUT = re.compile(rf"\binto\s+outfile\b|\b{_OUTSIDE}\s*\(", re.IGNORECASE)
_QUOTED_REACHES_OUT = re.compile(rf"[`\"]{_OUTSIDE}[`\"]\s*\(", re.IGNORECASE)


def check_statement(sql: str) -> None:
    """Refuse what is not a query over the store: other statements, and functions that reach files or the network.

    A second fence before the engine's own. Raises `QueryError` saying what is refused.
    """
    bare = _LITERALS_AND_COMMENTS.sub(lambda found: "''" if found[0][0] in "'`\"" else " ", sql)
    if not _READING.match(bare):
        raise QueryError(
            "Only queries are answered here (SELECT, WITH, SHOW, DESCRIBE, EXPLAIN, EXISTS).", code=164
        )
    if ";" in bare.rstrip().removesuffix(";"):
        raise QueryError("One query at a time: there is a second statement behind a semicolon.", code=164)
    if _UNCHECKED_QUOTES.search(bare):
        raise QueryError(
            "Heredocs and typographic quotes are not answered here: quote with ' and `.", code=164
        )
    # A quoted name names a function too.
    reach = _REACHES_OUT.search(bare) or _QUOTED_REACHES_OUT.search(_TEXT_AND_COMMENTS.sub(" ", sql))
    if reach:
        raise QueryError(
            f"`{reach[0].rstrip('( ')}` is not available here: queries see the store only.", code=164
        )
