"""What a client saw of one request, kept as one line of `client.jsonl`, and how answers are compared."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from falseok_lab.errors import LabError


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One request as its client saw it."""

    external_id: str
    """The `X-Request-Id` sent."""
    run: str
    index: int
    """Number of the prompt within the run."""
    direct: bool
    """Asked of decode alone, which then computed the prompt itself."""
    endpoint: str
    """`chat`, `completions` or `responses`."""
    stream: bool
    status: int
    """HTTP status; 0 when no answer came at all."""
    error: str = ""
    """Body of an error answer, or the error inside a stream that had begun with 200."""
    content: str = ""
    reasoning: str = ""
    finish_reason: str = ""
    choices: int = 0
    """How many choices had at least one piece."""
    tool_calls: int = 0
    left: bool = False
    """The client closed the connection before the end, as it was told to."""
    traceparent: str = ""
    """The W3C trace context sent, where one was."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    first_text_seconds: float = 0.0
    """Until the first piece of text; 0 when there was none."""

    @property
    def answered(self) -> bool:
        """Whether the client has reason to believe it got an answer: 200, no error after it, and an end."""
        return self.status == 200 and not self.error and bool(self.finish_reason)


_decoder = msgspec.json.Decoder(Answer)


def append(log: Path, answer: Answer) -> None:
    """Add one answer to a client log. Raises `OSError`."""
    with log.open("ab") as file:
        file.write(msgspec.json.encode(answer) + b"\n")


def read(log: Path) -> list[Answer]:
    """All answers of a client log, in the order they ended; none when there is no log.

    Raises:
        LabError: a line cannot be read; the message names it.
    """
    if not log.exists():
        return []
    answers = []
    for number, line in enumerate(log.read_bytes().splitlines(), start=1):
        try:
            answers.append(_decoder.decode(line))
        except msgspec.DecodeError as error:
            raise LabError(f"{log}, line {number} is not an answer: {error}") from error
    return answers


def agreement(routed: Iterable[Answer], direct: Iterable[Answer]) -> dict[str, bool]:
    """For each routed request that has a direct counterpart (same prompt): whether decode alone says the same.

    Only meaningful at temperature 0. A request answered by an error does not agree. Keyed by the routed id.
    """
    alone = {(one.index, one.endpoint): one for one in direct}
    return {
        one.external_id: _same(one, alone[one.index, one.endpoint])
        for one in routed
        if (one.index, one.endpoint) in alone
    }


def counts(answers: Sequence[Answer]) -> dict[str, int]:
    """Answers by what the client saw: `200`, another status, `no answer`, `left by the client`, and broken 200s.

    `200 then an error`: the error came inside the stream. `200 without an end`: the stream ended as if all were
    well, but without a finish reason; vLLM 0.30.0 ends the streams of failed transfers so.
    """
    return dict(sorted(Counter(map(_kind, answers)).items()))


def _kind(answer: Answer) -> str:
    if answer.left:
        return "left by the client"
    if answer.status == 0:
        return "no answer"
    if answer.status == 200 and answer.error:
        return "200 then an error"
    if answer.status == 200 and not answer.finish_reason:
        return "200 without an end"
    return str(answer.status)


def _same(routed: Answer, direct: Answer) -> bool:
    def text(one: Answer) -> tuple[str, str, str]:
        return one.content, one.reasoning, one.finish_reason

    return routed.answered and direct.answered and text(routed) == text(direct)
