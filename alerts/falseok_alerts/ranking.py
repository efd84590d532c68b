"""Orders causes by their points. Every point has a reason, so that `falseok triage show --json` can explain the order."""

from collections.abc import Iterable

import msgspec

from falseok_alerts.findings import CauseFinding


def ranked(findings: Iterable[CauseFinding]) -> list[CauseFinding]:
    """The findings from the highest score down, `rank` counted from 1. Equal scores are ordered by id, so that the
    answer never depends on the order of the input.
    """
    ordered = sorted(findings, key=lambda finding: (-finding.score, finding.id))
    return [msgspec.structs.replace(finding, rank=rank) for rank, finding in enumerate(ordered, start=1)]
