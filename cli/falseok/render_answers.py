"""What the client of a lab saw: one line an answer, and the counts that matter."""

from collections import Counter
from collections.abc import Sequence

from rich.text import Text

from falseok.plain_text import printable
from falseok_alerts.evidence_lines import counted
from falseok_lab.drive import Answer

_EXCERPT_CHARACTERS = 60


def answer_line(answer: Answer) -> Text:
    """Id, status and the beginning of the text, as the client got it."""
    line = Text()
    line.append(f"{printable(answer.external_id)}  ")
    good = answer.status == 200 and not answer.error
    line.append(str(answer.status or "no answer"), style="green" if good else "red")
    said = answer.error or answer.content or answer.reasoning
    line.append(f"  {answer.seconds:.1f} s  {printable(said)[:_EXCERPT_CHARACTERS]}")
    return line


def answers_summary(answers: Sequence[Answer]) -> str:
    """How many answers had which status; an error inside a 200 stream is not a 200."""
    counts = Counter(_kind(answer) for answer in answers)
    kinds = ", ".join(f"{number} times {kind}" for kind, number in sorted(counts.items()))
    return f"the client saw {counted(len(answers), 'answer')}: {kinds or 'none'}"


def _kind(answer: Answer) -> str:
    if answer.error and answer.status == 200:
        return "200 with an error inside"
    return f"HTTP {answer.status}" if answer.status else "no answer"
