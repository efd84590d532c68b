"""All budgets of the collector, one after the other, with a table at the end.

    python -m bench.collector                          about 17 minutes; builds engines on first use
    python -m bench.collector --blocks 1 --rounds 3  a quick look; options are those of bench.serving

Exits with 0 when every budget holds, 1 when one does not, 2 when the rounds differ too much to say.
"""

import sys

from bench.measurement import read_result

from bench import event_cost, hook_cost, serving, tap_cost

Row = tuple[str, str, str, str]


def hook_rows() -> list[Row]:
    """Cost of an event on the hot path over an empty wrapper."""
    hook_cost.main()
    result = read_result("hook_cost")
    budget = result["budget_us"]
    measured = {**result["hooks"], "one_event, sender at work": result["with_sender"]}
    return [
        (
            f"hook {name}",
            f"+{added['p50_us']:.2f} us p50, +{added['p99_us']:.2f} us p99",
            f"{budget['p50']:g}, {budget['p99']:g}",
            "yes" if added["within_budget"] else "no",
        )
        for name, added in ((name, figures["over_empty_wrapper"]) for name, figures in measured.items())
    ]


def tap_rows() -> list[Row]:
    """Cost of a streamed chunk over a plain pass-through."""
    tap_cost.main()
    result = read_result("tap_cost")
    added = result["over_pass_through"]
    holds = "yes" if added["within_budget"] else "no"
    return [
        ("response tap, a chunk", f"+{added['p50_us']:.2f} us p50", f"{result['budget_p50_us']:g}", holds)
    ]


def event_rows() -> list[Row]:
    """Cost of an event in all, over a span of OpenTelemetry's."""
    ratio = event_cost.main()["event_over_span"]
    figure = f"{ratio['median']:.3f} ({ratio['lowest']:.3f} to {ratio['highest']:.3f})"
    holds = "yes" if ratio["median"] < 1 else "no"
    return [("processor time, an event/an OTLP span", figure, "< 1", holds)]


def main(arguments: list[str]) -> int:
    """Measure all, print the table; the exit code."""
    serving.parse(arguments)  # a wrong option is told before minutes have passed
    rows = [*hook_rows(), *tap_rows(), *event_rows(), *serving.main(arguments)]
    print()
    for measure, figure, budget, holds in (("measure", "figure", "budget", "holds"), *rows):
        print(f"{measure:48} {figure:34} {budget:8} {holds}")
    verdicts = {holds for *_, holds in rows}
    if "no" in verdicts:
        return 1
    return 2 if "noise" in verdicts else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
