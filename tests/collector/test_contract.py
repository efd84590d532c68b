"""Contract version 1 only ever grows, and only by fields that may be absent."""

from copy import deepcopy

import pytest
from tests.collector.contract import Contract, agreed, breaches, current

from falseok_collector.attributes import ATTRIBUTES
from falseok_collector.events import ENVELOPE_FIELDS
from falseok_collector.reference import fields


def test_nothing_agreed_was_removed_or_given_another_type() -> None:
    """Stored events and readers in the field rely on it: such a change needs a new version."""
    assert [] == breaches(agreed(), current())


def test_what_was_added_is_on_file() -> None:
    """A field counts as agreed once it is there: run `python -m tests.collector.contract`."""
    assert current() == agreed()


@pytest.fixture
def changed() -> Contract:
    """A copy of the contract to change."""
    return deepcopy(agreed())


def test_an_optional_field_may_be_added(changed: Contract) -> None:
    """That is how the contract grows."""
    changed["sched.finish"]["mood"] = "string"
    assert [] == breaches(agreed(), changed)


def test_an_event_may_be_added(changed: Contract) -> None:
    """Readers keep the attributes of names they do not know."""
    changed["sched.nap"] = {"seconds": "number"}
    assert [] == breaches(agreed(), changed)


def test_a_field_must_not_be_removed(changed: Contract) -> None:
    """Somebody reads it."""
    del changed["kv.offer"]["digest"]
    assert ["kv.offer.digest was removed"] == breaches(agreed(), changed)


def test_an_event_must_not_be_removed(changed: Contract) -> None:
    """Recordings hold it."""
    del changed["kv.offer"]
    assert ["kv.offer was removed"] == breaches(agreed(), changed)


def test_a_field_must_not_change_its_type(changed: Contract) -> None:
    """Not even from whole to real numbers."""
    changed["envelope"]["ts"] = "number!"
    assert ["envelope.ts was integer! and is number!"] == breaches(agreed(), changed)


def test_an_optional_field_must_not_become_required(changed: Contract) -> None:
    """Old events lack it."""
    changed["sched.finish"]["status"] += "!"
    assert ["sched.finish.status was string and is string!"] == breaches(agreed(), changed)


def test_a_new_field_must_have_a_default(changed: Contract) -> None:
    """A forgotten default would make every old event unreadable."""
    changed["sched.finish"]["mood"] = "string!"
    assert ["sched.finish.mood is new and has no default"] == breaches(agreed(), changed)


def test_the_envelope_is_these_fields() -> None:
    """The order is that of the contract and of the store's columns."""
    expected = (
        "v id ts mono boot seq name origin engine_id group rank host pid "
        "request_id external_id transfer_id trace_id span_id attrs"
    )
    assert expected.split() == list(ENVELOPE_FIELDS)


def test_every_event_is_filed_under_its_own_name() -> None:
    """The table of names is the closed list of version 1."""
    assert {name: name for name in ATTRIBUTES} == {
        name: struct.event_name for name, struct in ATTRIBUTES.items()
    }


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_every_field_says_what_it_means(name: str) -> None:
    """The reference is generated from these descriptions."""
    assert [] == [field for field, _, text in fields(ATTRIBUTES[name]) if not text]
