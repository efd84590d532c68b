"""The whole judgement in one call: what is wrong in this store, most severe first, with ranked causes."""

from falseok_alerts import catalogue
from falseok_alerts.catalogue import Catalogue
from falseok_alerts.gather import gather
from falseok_alerts.incident import Incident, by_severity, compose
from falseok_alerts.rows import Queries


def judge(store: Queries, causes: Catalogue | None = None) -> list[Incident]:
    """Every incident in the store, most severe first; an empty list when there is none.

    Deterministic for a given store and catalogue (default: the shipped one). May block on the store.

    Raises:
        CatalogueError: the catalogue does not load.
        JudgementError: the store's views have another shape than this release expects.
        falseok_pipeline.errors.QueryError: the store refused a query.
    """
    known = catalogue.shipped() if causes is None else causes
    return by_severity([compose(facts, known) for facts in gather(store)])
