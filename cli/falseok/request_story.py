"""One request's whole story: its verdict, and every event of both engines in the order of time."""

from collections.abc import Mapping
from typing import Any

import msgspec

from falseok_pipeline import queries
from falseok_pipeline.store import Store

STORY_QUERY = "request_story"


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """A row of `request_verdicts` and the events behind it, attributes decoded."""

    request: Mapping[str, Any]
    events: list[Mapping[str, Any]]


def story_of(store: Store, request: Mapping[str, Any]) -> Story:
    """The story of one judged request. Raises `QueryError`."""
    query = queries.load()[STORY_QUERY]
    rows = store.query(query.sql, query.bind({"request_id": str(request["request_id"])}))
    return Story(request=request, events=[_with_attributes(row) for row in rows])


def _with_attributes(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**row, "attrs": msgspec.json.decode(str(row["attrs"]))}
