"""`falseok triage` on stores filled from recordings of real engines."""

import csv
import io
from pathlib import Path

import msgspec
import pytest
from tests.cli.command_line import answer, falseok, words


def incident_id(data: Path, verdict: str = "corrupt") -> str:
    """Id of the only incident with this verdict."""
    [found] = [
        one["id"] for one in answer("triage", "incidents", "--data", data) if one["verdict"] == verdict
    ]
    return str(found)


def test_incidents_are_listed_most_severe_first(both_versions: Path) -> None:
    """Corrupted answers come before errors; listing finds nothing wrong with itself: exit 0."""
    result = falseok("triage", "incidents", "--data", both_versions)
    assert 0 == result.exit_code
    assert result.stdout.index("CORRUPT, PROVEN") < result.stdout.index("FAILED_CLOSED, PROVEN")
    assert f"falseok triage show {incident_id(both_versions)} --data {both_versions}" in words(result.stdout)


def test_exit_code_option_is_1_exactly_when_there_is_an_incident(broken: Path, healthy: Path) -> None:
    """A script may ask whether anything is wrong."""
    assert 1 == falseok("triage", "incidents", "--data", broken, "--exit-code").exit_code
    assert 0 == falseok("triage", "incidents", "--data", healthy, "--exit-code").exit_code


def test_no_incident_says_what_was_judged(healthy: Path) -> None:
    """Silence is not health: the counts by verdict are told, and JSON is an empty list."""
    result = falseok("triage", "incidents", "--data", healthy)
    assert result.stdout.startswith("No incident. Requests by verdict: ")
    assert "32 healthy" in result.stdout
    assert [] == answer("triage", "incidents", "--data", healthy)


def test_show_finds_an_incident_by_the_beginning_of_its_id_in_either_case(broken: Path) -> None:
    """Ids are read aloud and typed at night."""
    whole = incident_id(broken)
    short = falseok("triage", "show", whole[:9].lower(), "--data", broken)
    assert 0 == short.exit_code
    assert short.stdout.startswith(whole)
    assert "points" not in short.stdout


def test_show_explains_on_demand(broken: Path) -> None:
    """Points, sides and references are one option away."""
    text = words(falseok("triage", "show", incident_id(broken), "--explain", "--data", broken).stdout)
    assert "1. hash-factor-dtype certain" in text
    assert "vllm-project/vllm#52234" in text


def test_show_json_is_the_incident_of_the_list(broken: Path) -> None:
    """One struct, whichever command prints it."""
    assert answer("triage", "incidents", "--data", broken)[0] == answer(
        "triage", "show", incident_id(broken), "--data", broken
    )


def test_request_story_joins_both_engines(broken: Path) -> None:
    """A client's request id leads to its verdict and to the events of prefill and decode in order."""
    request = answer("triage", "show", incident_id(broken), "--data", broken)["sample_requests"][0]
    [story] = answer("triage", "show", request, "--data", broken)
    assert "corrupt" == story["request"]["verdict"]
    assert {"prefill", "decode"} == {event["leg"] for event in story["events"]}
    assert story["events"] == sorted(story["events"], key=lambda event: event["time"])
    text = words(falseok("triage", "show", request, "--data", broken).stdout)
    assert "CORRUPT, PROVEN" in text
    assert "failure_type handshake_failed" in text


@pytest.mark.parametrize(
    ("identifier", "message"),
    [
        ("INC-ZZZZZZZZ", "There is no incident INC-ZZZZZZZZ. Incidents in this store: INC-"),
        ("INC-", "There is no incident INC-."),
        ("nobody", "No answered request in this store has the id nobody."),
    ],
)
def test_unknown_id_exits_2_and_says_what_there_is(broken: Path, identifier: str, message: str) -> None:
    """A typing error is answered with what could have been meant."""
    result = falseok("triage", "show", identifier, "--data", broken)
    assert (2, "") == (result.exit_code, result.stdout)
    assert message in words(result.stderr)


def test_affected_lists_every_request_once(both_versions: Path) -> None:
    """JSON, CSV and table count the same 32 requests, and none of another incident."""
    whole = incident_id(both_versions)
    rows = answer("triage", "affected", whole, "--data", both_versions)
    assert 32 == len({row["request_id"] for row in rows})
    assert {"corrupt"} == {row["verdict"] for row in rows}
    table = falseok("triage", "affected", whole, "--data", both_versions)
    assert "32 rows" in table.stderr
    text = falseok("triage", "affected", whole, "--csv", "--data", both_versions).stdout
    read = list(csv.DictReader(io.StringIO(text)))
    assert [row["external_id"] for row in rows] == [row["external_id"] for row in read]
    assert {"200"} == {row["http_status"] for row in read}


def test_sql_without_argument_lists_queries_and_needs_no_store() -> None:
    """What can be asked is known before anything was stored."""
    result = falseok("triage", "sql", "--data", "/nonexistent")
    assert 0 == result.exit_code
    assert "requests_by_verdict" in result.stdout
    assert {"name", "question", "parameters", "columns", "sql"} == set(answer("triage", "sql")[0])


def test_named_query_with_parameters(broken: Path) -> None:
    """Parameters are bound by name, the answer has the documented columns."""
    incident = answer("triage", "show", incident_id(broken), "--data", broken)
    groups = [f"{side}={incident[f'{side}_engine']['group']}" for side in ("prefill", "decode")]
    query = ("triage", "sql", "configuration_difference", "-p", groups[0], "-p", groups[1], "--data", broken)
    [row] = answer(*query)
    assert ("dtype", "torch.bfloat16", "torch.float32") == (
        row["factor"],
        row["prefill_value"],
        row["decode_value"],
    )
    assert [] == answer(*query[:3], "-p", "prefill=nobody", "--data", broken)


def test_raw_sql_binds_values_and_never_pastes_them(broken: Path) -> None:
    """A value that looks like SQL is a value."""
    sql = "SELECT count() AS n FROM request_verdicts WHERE verdict = {v:String}"
    assert [{"n": 32}] == answer("triage", "sql", sql, "-p", "v=corrupt", "--data", broken)
    assert [{"n": 0}] == answer("triage", "sql", sql, "-p", "v=' OR 1=1 --", "--data", broken)


def test_csv_of_an_empty_answer_still_has_its_header(broken: Path) -> None:
    """A script that reads columns by name does not break on no rows."""
    query = ("triage", "sql", "configuration_difference", "-p", "prefill=nobody", "--csv", "--data", broken)
    assert falseok(*query).stdout.startswith("prefill_group,decode_group,factor,")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no_such_query"], "There is no named query no_such_query. Known: affected_requests"),
        (["request_story"], "needs a value for request_id"),
        (["request_story", "-p", "who=me"], "has no parameter who"),
        (["requests_by_verdict", "-p", "since"], "-p since is not NAME=VALUE."),
        (["requests_by_verdict", "-p", "since=1", "-p", "since=2"], "-p since is given twice."),
        (["SELECT nonsense FROM requests"], "nonsense"),
        (["DROP TABLE events"], "Only queries are answered here"),
        (["requests_by_verdict", "--json", "--csv"], "cannot be had at once"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_refused_question_exits_2_with_one_clear_message(
    broken: Path, arguments: list[str], message: str
) -> None:
    """No traceback, nothing on stdout, and the reason in words."""
    result = falseok("triage", "sql", *arguments, "--data", broken)
    assert (2, "") == (result.exit_code, result.stdout)
    assert message in words(result.stderr)


def test_missing_store_says_how_to_get_one(tmp_path: Path) -> None:
    """Exit 2: nothing can be judged where nothing was stored."""
    result = falseok("triage", "incidents", "--data", tmp_path, "--json")
    assert (2, "") == (result.exit_code, result.stdout)
    assert "falseok demo" in result.stderr


def test_json_is_one_document(broken: Path) -> None:
    """A strict reader accepts it, with nothing before or after."""
    text = falseok("triage", "incidents", "--json", "--data", broken).stdout
    assert text.endswith("]\n")
    assert 1 == len(msgspec.json.decode(text))
