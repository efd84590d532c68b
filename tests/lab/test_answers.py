"""What a client saw: kept, read again, compared."""

from pathlib import Path

import msgspec
import pytest

from falseok_lab.answers import Answer, agreement, append, counts, read
from falseok_lab.errors import LabError

ROUTED = Answer(
    external_id="pair-r1-0000",
    run="r1",
    index=0,
    direct=False,
    endpoint="chat",
    stream=True,
    status=200,
    content="blue",
    finish_reason="stop",
)
DIRECT = msgspec.structs.replace(ROUTED, external_id="pair-r1-direct-0000", direct=True)


def test_answers_come_back_as_they_were_kept(tmp_path: Path) -> None:
    """One JSON document a line, in the order they ended."""
    log = tmp_path / "client.jsonl"
    assert [] == read(log)
    append(log, ROUTED)
    append(log, DIRECT)
    assert [ROUTED, DIRECT] == read(log)


def test_a_line_that_is_no_answer_is_named(tmp_path: Path) -> None:
    """File and line."""
    log = tmp_path / "client.jsonl"
    append(log, ROUTED)
    log.write_bytes(log.read_bytes() + b'{"run": 1}\n')
    with pytest.raises(LabError, match="line 2 is not an answer"):
        read(log)


@pytest.mark.parametrize(
    ("changed", "agrees"),
    [
        pytest.param({}, True, id="the same"),
        pytest.param({"content": "green"}, False, id="another text"),
        pytest.param({"reasoning": "hm"}, False, id="another reasoning"),
        pytest.param({"finish_reason": "length"}, False, id="another end"),
        pytest.param({"status": 500, "content": ""}, False, id="an error"),
        pytest.param({"error": "broken off"}, False, id="an error in the stream"),
        pytest.param({"content": "", "finish_reason": ""}, False, id="a stream without an end"),
    ],
)
def test_agreement_is_the_same_answer_to_the_same_prompt(changed: dict[str, object], agrees: bool) -> None:
    """Text, reasoning and finish reason, and no error."""
    routed = msgspec.structs.replace(ROUTED, **changed)
    assert {"pair-r1-0000": agrees} == agreement([routed], [DIRECT])


def test_a_prompt_that_was_not_asked_directly_has_no_agreement() -> None:
    """Missing ground truth is not agreement, nor disagreement."""
    other = msgspec.structs.replace(DIRECT, index=1)
    assert {} == agreement([ROUTED], [other])


def test_answers_are_counted_by_what_the_client_saw() -> None:
    """An error after a 200 is a kind of its own, and so is a 200 whose stream just stops."""
    answers = [
        ROUTED,
        msgspec.structs.replace(ROUTED, error="broken off"),
        msgspec.structs.replace(ROUTED, finish_reason=""),
        msgspec.structs.replace(ROUTED, status=500, error="x"),
        msgspec.structs.replace(ROUTED, status=0, error="refused"),
    ]
    expected = {"200": 1, "200 then an error": 1, "200 without an end": 1, "500": 1, "no answer": 1}
    assert expected == counts(answers)
    assert [True, False, False, False, False] == [answer.answered for answer in answers]
