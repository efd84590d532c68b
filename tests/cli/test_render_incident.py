"""The incident on a terminal, as the person who was paged sees it."""

import io
import shlex

import msgspec
import pytest
from rich.cells import cell_len
from rich.console import Console
from tests.alerts.incident_facts import DECODE_ID, DTYPE_MISMATCH, PREFILL_ID
from tests.cli.screens import ENGINE_WIDTHS, screen

from falseok.next_commands import next_commands
from falseok.render_explained import explained_view
from falseok.render_incident import incident_view
from falseok.render_incidents import incidents_view
from falseok_alerts.catalogue import shipped
from falseok_alerts.facts import Difference, EngineFacts, IncidentFacts
from falseok_alerts.incident import compose

INCIDENT = compose(DTYPE_MISMATCH, shipped())
HOSTILE = "[bold red]x[/bold red]\x1b[2J\x07\u202e\n:boom:<script>alert(1)</script>"

EXPECTED_120 = f"""\
{INCIDENT.id}  CORRUPT, PROVEN  32 requests answered 200 with corrupted output
          since 2026-08-14 10:02:11 UTC, last 10:02:58 UTC
WHO       model    tiny
          prefill  {PREFILL_ID}  vLLM 0.27.0  on gpu-1  (gpu-1:5600)
          decode   {DECODE_ID}  vLLM 0.27.0  on gpu-1  (gpu-1:5700)
          traffic  100 % of this pair's traffic (32 of 32), 0 % elsewhere
WHY       1. prefill and decode differ in a factor of the NIXL compatibility hash                                certain
               dtype   prefill torch.bfloat16   decode torch.float32
          2. this vLLM fails open, it resumes a hybrid-cache request after a failed receive (0.26-0.29)          certain
EVIDENCE  handshake failed 32/32 (hash 51430df9 ≠ 0dfe775a)
          receive failed for 32/32 requests (handshake_failed)
          decode resumed with 183 expected, 0 received tokens
          policy "fail" not honoured
DO        1. set the same --dtype on both engines                                                                   safe
          2. upgrade both engines together to vLLM 0.30.0 or later: the same mistake then ends in an error          safe
          3. after the repair restart decode: its prefix cache holds blocks that were never filled                  safe
          4. until then take this decode engine out of the router                                          less capacity
          ✗  enforce_handshake_compat=false would NOT help here; bfloat16 and float32 blocks differ in
             length, so the next check of the handshake fails
          ✗  kv_load_failure_policy would NOT help here; neither fail nor recompute is honoured for a
             hybrid cache by this version
NEXT      falseok triage affected {INCIDENT.id} --csv
          falseok triage show {INCIDENT.id} --explain
          falseok triage show req-000
          falseok triage sql configuration_difference \\
            -p prefill=gpu-1:5600 \\
            -p decode=gpu-1:5700"""


def test_the_picture_of_the_design() -> None:
    """The same facts in the same order as the design's picture: who, why, evidence, what to do, what to type."""
    assert EXPECTED_120 == "\n".join(screen(incident_view(INCIDENT), 120))


@pytest.mark.parametrize("width", ENGINE_WIDTHS)
def test_lines_fit_and_nothing_is_cut(width: int) -> None:
    """At 80 columns too every line fits, no text is shortened, and commands and ids stay whole."""
    lines = screen(incident_view(INCIDENT), width)
    assert [] == [line for line in lines if cell_len(line) > width]
    assert not any("…" in line for line in lines)
    for command in next_commands(INCIDENT):
        assert any(line.endswith(command) for line in lines), command
    words = " ".join(" ".join(lines).split())
    assert "dtype prefill torch.bfloat16 decode torch.float32" in words
    assert "this vLLM fails open" in words


@pytest.mark.parametrize("width", ENGINE_WIDTHS)
def test_hostile_text_stays_text(width: int) -> None:
    """Ids, versions and values of engines cannot colour, clear, turn or break the view."""
    facts = msgspec.structs.replace(
        DTYPE_MISMATCH,
        model=HOSTILE,
        decode=EngineFacts(engine_id=HOSTILE, version=HOSTILE, host=HOSTILE, group=HOSTILE),
        differences=[Difference(factor=HOSTILE, prefill=HOSTILE, decode=HOSTILE)],
        sample_requests=["a'; rm -rf ~ #" + HOSTILE],
    )
    incident = compose(facts, shipped())
    for view in (incident_view(incident), explained_view(incident), incidents_view([incident])):
        text = "".join(screen(view, width))
        assert not set(text) & {"\x1b", "\x07", "\u202e"}
        assert "[bold red]" in text.replace(" ", "").replace("[boldred]", "[bold red]")


def test_request_ids_are_quoted_for_the_shell() -> None:
    """A client that chooses its request id cannot choose what the engineer runs."""
    incident = msgspec.structs.replace(INCIDENT, sample_requests=["a'; rm -rf ~"])
    command = next(line for line in next_commands(incident) if "rm -rf" in line)
    assert ["falseok", "triage", "show", "a'; rm -rf ~"] == shlex.split(command)


def test_commands_name_the_data_they_are_about() -> None:
    """A command copied from the view finds the store the view was made from, also where it needs several lines."""
    for data in ("/d", f"/var/lib/false ok/{'x' * 40}"):
        pasted = "\n".join(next_commands(INCIDENT, f" --data {shlex.quote(data)}"))
        commands = [shlex.split(command) for command in pasted.replace("\\\n", " ").splitlines()]
        assert 4 == len(commands)
        assert {("--data", data)} == {tuple(command[-2:]) for command in commands}


def test_unknown_cause_says_which_evidence_is_missing() -> None:
    """Without a named cause the view lists what would decide, in place of remedies."""
    facts = IncidentFacts(verdict="corrupt", evidence="strong", affected=3, first_seen="", last_seen="")
    text = " ".join(" ".join(screen(incident_view(compose(facts, shipped())), 80)).split())
    assert "the evidence at hand does not name a cause" in text
    assert "the configuration of prefill is missing" in text
    assert "an unknown part of this pair's traffic" in text


def test_privacy_is_said_in_the_head() -> None:
    """That a user may have read another user's text is not left to the evidence."""
    private = compose(msgspec.structs.replace(DTYPE_MISMATCH, privacy=True), shipped())
    assert "PRIVACY" in screen(incident_view(private), 80)[2]


def test_long_risk_is_spelled_out_under_its_remedy() -> None:
    """A bypass is never shown with its risk out of sight."""
    safe = Difference(factor="model", prefill="org/tiny", decode="/models/tiny")
    incident = compose(msgspec.structs.replace(DTYPE_MISMATCH, differences=[safe]), shipped())
    text = " ".join(" ".join(screen(incident_view(incident), 80)).split())
    assert "side: decode, the side that starts the handshake" in text
    assert "risk: removes the only check that names such a mismatch" in text


def test_explanation_shows_every_point_and_reference() -> None:
    """The long form explains the order of the causes and names the public record."""
    text = " ".join(" ".join(screen(explained_view(INCIDENT), 80)).split())
    for cause in INCIDENT.causes:
        assert f"{cause.confidence}, {cause.score} points" in text
        assert all(f"{point.points:+d}" in text for point in cause.points)
        assert all(reference in text for reference in cause.references)
    assert "check: after the restart the handshake succeeds" in text


def test_list_shows_id_count_and_first_causes() -> None:
    """Enough to choose which incident to open."""
    text = "\n".join(screen(incidents_view([INCIDENT]), 80))
    assert f"{INCIDENT.id}  CORRUPT, PROVEN  32 requests answered 200 with corrupted output" in text
    assert "1. dtype: prefill torch.bfloat16, decode torch.float32 (certain)" in text
    assert f"falseok triage show {INCIDENT.id}" in text


def test_continued_commands_have_nothing_after_the_continuation_mark() -> None:
    """A blank after the backslash would break the paste: the view's own lines carry no padding there."""
    stream = io.StringIO()
    incident = compose(DTYPE_MISMATCH, shipped())
    Console(file=stream, width=80).print(incident_view(incident, f" --data {'d' * 60}"))
    continued = [line for line in stream.getvalue().splitlines() if "\\" in line]
    assert continued
    assert all(line.endswith(" \\") for line in continued)
