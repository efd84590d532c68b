"""Lines that break in more than one way: each becomes a dead letter, none ends the service."""

import pytest

from falseok_pipeline.dead_letters import DeadLetter, Reason
from falseok_pipeline.errors import QueryError
from falseok_pipeline.limits import check_statement
from falseok_pipeline.line_judgement import judge_line

HOSTILE = {
    "a version from the future, then the line ends": (b'{"v":2,"id":"x', Reason.NOT_JSON),
    "an unknown field, then the line ends": (b'{"foo":1', Reason.NOT_JSON),
    "a number out of range, then no JSON": (b'{"v":1,"seq":-5,"x":tru}', Reason.NOT_JSON),
    "nested a hundred thousand times": (b'{"v":' + b"[" * 100_000, Reason.TOO_DEEP),
    "a number no float holds": (b'{"v":1e400}', Reason.SCHEMA),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_line_that_is_wrong_twice_is_a_dead_letter(name: str) -> None:
    """The first complaint may hide a second; whatever comes, the original bytes are kept and a reason is given."""
    line, reason = HOSTILE[name]
    judged = judge_line("spool", 7, line)
    assert isinstance(judged, DeadLetter)
    assert reason == judged.reason
    assert (line, "spool", 7) == (judged.original, judged.source, judged.byte_offset)


def test_every_prefix_and_every_changed_byte_of_a_line_is_judged() -> None:
    """Cut anywhere or broken anywhere, a line never raises."""
    line = b'{"v":2,"id":"a-1","ts":1,"boot":"a","seq":1,"name":"x.y","extra":"\\ud800","attrs":{"a":[1,{"b":null}]}}'
    for end in range(1, len(line)):
        judge_line("spool", 0, line[:end])
    for place in range(len(line)):
        for byte in b'"{}[]:,\\0e-':
            judge_line("spool", 0, line[:place] + bytes([byte]) + line[place + 1 :])


def test_a_file_name_of_any_bytes_can_be_stored() -> None:
    """What cannot be UTF-8 is written as escapes."""
    letter = DeadLetter(Reason.UNREADABLE, "why", b"bad\xff.ndjson".decode(errors="surrogateescape"), 0)
    assert letter.to_row(1)["source"] == "bad\\udcff.ndjson"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT `file`('/etc/passwd')",
        "SELECT \"file\"('x')",
        "SELECT $a$'$a$ x INTO OUTFILE '/x' TRUNCATE",
        "SELECT “file”('x')",
    ],
)
def test_quoting_does_not_hide_what_reaches_out(sql: str) -> None:
    """A quoted name is still a name, and quotes the check cannot follow are refused."""
    with pytest.raises(QueryError):
        check_statement(sql)
