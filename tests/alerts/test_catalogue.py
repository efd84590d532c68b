"""Loading the catalogue: all of it or a list of everything that is wrong."""

from pathlib import Path

import pytest

from falseok_alerts import catalogue
from falseok_alerts.errors import CatalogueError

GOOD_CAUSE = """\
id: {stem}
title: a cause for a test
version: 1
status: experimental
explains: what a test needs explained
when: {{fact: verdict, op: equals, value: corrupt}}
evidence:
  - {{weight: 50, when: {{fact: affected, op: greater_than, value: 0}}, text: "{{affected}} requests"}}
confidence: {{certain: 80, likely: 50}}
explanation: it happened on {{decode.version}}
remedies:
  - {{order: 1, setting: change the setting, side: decode, risk: safe, verify: look at it again}}
references: [vllm-project/vllm#52234]
tests:
  - {{name: a positive case, kind: positive, facts: {{verdict: corrupt}}}}
  - {{name: a negative case, kind: negative, facts: {{verdict: healthy}}}}
  - {{name: a near miss of it, kind: near_miss, facts: {{verdict: recovered}}}}
"""

GOOD_FACTORS = """\
dtype:
  setting: --dtype
  make_equal: set the same --dtype
  meaning: another number format
  changes_blocks: true
  bypass: [{verdict: never, reason: because of its bits}]
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A directory with one good cause and good factors."""
    (tmp_path / "causes").mkdir()
    (tmp_path / "causes" / "good.yaml").write_text(GOOD_CAUSE.format(stem="good"))
    (tmp_path / "factors.yaml").write_text(GOOD_FACTORS)
    return tmp_path


def problems(directory: Path) -> tuple[str, ...]:
    """What the loader says of the directory."""
    with pytest.raises(CatalogueError) as caught:
        catalogue.load(directory / "causes", directory / "factors.yaml")
    return caught.value.problems


def add(directory: Path, stem: str, old: str = "", new: str = "") -> None:
    """Write another cause, with one text of it replaced."""
    text = GOOD_CAUSE.format(stem=stem)
    assert old in text
    (directory / "causes" / f"{stem}.yaml").write_text(text.replace(old, new, 1) if old else text)


def test_good_files_load(files: Path) -> None:
    """Causes come in the order of their file names, factors by name."""
    add(files, "another")
    loaded = catalogue.load(files / "causes", files / "factors.yaml")
    assert ["another", "good"] == [cause.id for cause in loaded.causes]
    assert ["dtype"] == list(loaded.factors)


def test_shipped_catalogue_loads_with_the_causes_of_the_first_cut() -> None:
    """The files inside the package have no problem."""
    assert ["hash-factor-{difference.factor}", "hma-receive-failure-not-propagated", "unknown"] == [
        cause.id for cause in catalogue.shipped().causes
    ]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("explains:", "explians:", "bad.yaml: Object contains unknown field `explians`"),
        ("version: 1", "version: 1\nversion: 2", "bad.yaml: duplicate key 'version' at line 4, column 1"),
        ("weight: 50", "weight: many", "bad.yaml: Expected `int`, got `str` - at `$.evidence[0].weight`"),
        ("status: experimental", "status: fine", "bad.yaml: Invalid enum value 'fine' - at `$.status`"),
        ("id: bad", "id: worse", "bad.yaml: id: must be the file's name, 'bad'"),
        ("fact: verdict", "fact: verdikt", "bad.yaml: when.fact: there is no fact 'verdikt'"),
        ("fact: affected", "fact: difference.factor", "bad.yaml: evidence[0].when.fact: there is no fact 'difference.factor'"),
        ("{decode.version}", "{decode.verzion}", "bad.yaml: explanation: there is no fact 'decode.verzion'"),
        ("{affected}", "{affected!r}", "bad.yaml: evidence[0].text: {affected} may not carry a format or a conversion"),
        ("certain: 80", "certain: 50", "bad.yaml: confidence: certain must need more points than likely"),
        ("references: [vllm-project/vllm#52234]", "references: ['#1']", "bad.yaml: Expected `str` matching regex"),
        ("explanation:", "versions: 0.26ish\nexplanation:", "bad.yaml: versions: Invalid specifier: '0.26ish'"),
        ("kind: near_miss", "kind: negative", "bad.yaml: tests: needs at least one near_miss case"),
        ("{verdict: healthy}", "{verdikt: healthy}", "bad.yaml: tests[1].facts: Object contains unknown field `verdikt`"),
        ("explanation:", "for_each: differences\nexplanation:", "bad.yaml: id: ends with -{difference.factor} exactly"),
        ("title:", "\ttitle:", "bad.yaml: while scanning for the next token found character '\\t'"),
    ],
)  # fmt: skip
def test_every_kind_of_mistake_is_named(files: Path, old: str, new: str, problem: str) -> None:
    """A cause that does not say what its author meant stops the load with file and path."""
    add(files, "bad", old, new)
    found = problems(files)
    assert 1 == len(found), found
    assert found[0].startswith(problem)


def test_remedies_must_stand_in_the_order_of_safety(files: Path) -> None:
    """Two remedies of the same order leave it to chance which is read first."""
    remedy = (
        "  - {order: 1, setting: change the setting, side: decode, risk: safe, verify: look at it again}\n"
    )
    add(files, "bad", remedy, remedy + remedy)
    assert ("bad.yaml: remedies: order must rise from remedy to remedy",) == problems(files)


def test_a_cause_without_remedies_is_refused_unless_it_is_the_fallback(files: Path) -> None:
    """A named cause must say what to do."""
    remedy = "remedies:\n  - {order: 1, setting: change the setting, side: decode, risk: safe, verify: look at it again}\n"
    add(files, "bad", remedy, "")
    assert ("bad.yaml: remedies: a cause without a remedy leaves the reader alone",) == problems(files)
    add(files, "bad", remedy, "fallback: true\n")
    assert 2 == len(catalogue.load(files / "causes", files / "factors.yaml").causes)


def test_problems_of_all_files_are_reported_at_once(files: Path) -> None:
    """One run of the loader is enough to repair everything."""
    add(files, "first", "version: 1", "version: 0")
    add(files, "second", "fact: verdict", "fact: verdikt")
    (files / "causes" / "third.yaml").write_bytes(b"\xff\xfe\x00 not text")
    (files / "factors.yaml").write_text(GOOD_FACTORS + "dtype: {}\n")
    assert {"first.yaml", "second.yaml", "third.yaml", "factors.yaml"} == {
        problem.partition(":")[0] for problem in problems(files)
    }


def test_factor_rules_must_answer_for_every_value(files: Path) -> None:
    """The last bypass rule is unconditional, and `follows` names a factor that exists."""
    rule = "reason: because of its bits"
    condition = ", when: {fact: difference.factor, op: present, value: true}"
    broken = GOOD_FACTORS.replace(rule, rule + condition) + "  follows: nothing\n"
    (files / "factors.yaml").write_text(broken)
    assert (
        "factors.yaml: dtype.follows: there is no factor 'nothing'",
        "factors.yaml: dtype.bypass: the last rule must hold always, so that there is an answer for every value",
    ) == problems(files)


def test_empty_directory_is_a_problem(files: Path) -> None:
    """A catalogue without causes would judge everything unknown and look alive."""
    (files / "causes" / "good.yaml").unlink()
    assert ("causes: no cause file loads from here",) == problems(files)


def test_message_counts_and_lists_the_problems(files: Path) -> None:
    """What an operator reads names the files and says that nothing is judged."""
    add(files, "bad", "version: 1", "version: 0")
    with pytest.raises(
        CatalogueError, match=r"1 problem\(s\) in the cause catalogue:\n  bad.yaml: "
    ) as caught:
        catalogue.load(files / "causes", files / "factors.yaml")
    assert "Correct the files" in caught.value.hint
