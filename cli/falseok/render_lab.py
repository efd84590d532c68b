"""One line a lab."""

from rich.text import Text

from falseok.plain_text import printable
from falseok_lab.pair import PairStatus


def lab_line(status: PairStatus) -> Text:
    """Name, what it runs, and how many of its processes live."""
    state = status.state
    return Text(
        printable(
            f"{state.name}  vLLM {state.vllm}  model {state.model}  fault {state.fault}  router {state.router_url}"
        ),
        overflow="fold",
    )
