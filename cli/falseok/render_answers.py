"""What the client of a lab saw: one line an answer, and the counts that matter."""

from collections.abc import Sequence

from rich.text import Text

from falseok.plain_text import printable
from falseok_alerts.evidence_lines import counted
from falseok_lab.answers import Answer, counts

_EXCERPT_CHARACTERS = 60


def answer_line(answer: Answer) -> Text:
    """Id, status and the beginning of the text, as the client got it."""
    line = Text()
    line.append(f"{printable(answer.external_id)}  ")
    line.append(str(answer.status or "no answer"), style="green" if answer.answered else "red")
    said = answer.error or answer.content or answer.reasoning
    line.append(f"  {answer.seconds:.1f} s  {printable(said)[:_EXCERPT_CHARACTERS]}")
    return line


def answers_summary(answers: Sequence[Answer]) -> str:
    """How many answers had which status; an error inside a 200 stream is not a 200."""
    kinds = ", ".join(f"{number} times {kind}" for kind, number in counts(answers).items())
    return f"the client saw {counted(len(answers), 'answer')}: {kinds or 'none'}"
