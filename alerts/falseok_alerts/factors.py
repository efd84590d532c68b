"""What is known of each factor of the NIXL compatibility hash: the setting behind it, and what the bypass would do.

The knowledge is data (`factors.yaml`); this module gives its shape and joins it with one observed difference.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from falseok_alerts import templates
from falseok_alerts.cause import CatalogueStruct, Sentence
from falseok_alerts.facts import Difference, FactsStruct
from falseok_alerts.predicates import ALWAYS, Condition, holds

Bypass = Literal["never", "known_safe", "unknown"]


class BypassRule(CatalogueStruct, frozen=True, kw_only=True):
    """Whether `enforce_handshake_compat=false` is known to leave the transferred bytes alone. First match wins."""

    verdict: Bypass
    reason: Sentence
    when: Condition = ALWAYS


class Factor(CatalogueStruct, frozen=True, kw_only=True):
    """One factor: what sets it, what to change, what its difference does to the blocks, and the bypass rules."""

    setting: Annotated[str, Meta(min_length=3)]
    make_equal: Sentence
    meaning: Sentence
    changes_blocks: bool
    follows: str = ""
    bypass: Annotated[list[BypassRule], Meta(min_length=1)]


class BoundDifference(FactsStruct, frozen=True, kw_only=True):
    """One difference with what is known of its factor: what a cause sees as `difference`."""

    factor: str
    prefill: str
    decode: str
    prefill_compared: str
    decode_compared: str
    known_factor: bool
    spelling_only: bool
    same_last_component: bool
    setting: str
    make_equal: str
    meaning: str
    changes_blocks: bool
    follows_another: bool
    bypass: str = ""
    bypass_reason: str = ""
    all_bypass_safe: bool = False


UNKNOWN_FACTOR = Factor(
    setting="the option behind this factor",
    make_equal="give both engines the same value of this factor",
    meaning="this release of FalseOK does not know the factor",
    changes_blocks=True,
    bypass=[BypassRule(verdict="unknown", reason="nothing is known of this factor")],
)
"""Stands in for a factor that a newer vLLM hashes: named all the same, with no claim about the bypass."""


def bind_all(
    differences: list[Difference], factors: dict[str, Factor], document: dict[str, Any]
) -> list[BoundDifference]:
    """Every difference joined with its factor, in the order given. `document` is the incident's facts.

    `bypass_reason` comes back as text, its placeholders filled in.
    """
    bound = [_judge_bypass(_bind(item, factors, differences), factors, document) for item in differences]
    all_safe = all(item.bypass == "known_safe" for item in bound)
    return [msgspec.structs.replace(item, all_bypass_safe=all_safe) for item in bound]


def _bind(
    difference: Difference, factors: dict[str, Factor], all_differences: list[Difference]
) -> BoundDifference:
    factor = factors.get(difference.factor, UNKNOWN_FACTOR)
    return BoundDifference(
        **msgspec.structs.asdict(difference),
        known_factor=difference.factor in factors,
        spelling_only=difference.prefill_compared == difference.decode_compared,
        same_last_component=_last_component(difference.prefill) == _last_component(difference.decode),
        setting=factor.setting,
        make_equal=factor.make_equal,
        meaning=factor.meaning,
        changes_blocks=factor.changes_blocks,
        follows_another=any(other.factor == factor.follows for other in all_differences),
    )


def _judge_bypass(
    bound: BoundDifference, factors: dict[str, Factor], document: dict[str, Any]
) -> BoundDifference:
    inner = {**document, "difference": msgspec.to_builtins(bound)}
    rules = factors.get(bound.factor, UNKNOWN_FACTOR).bypass
    rule = next(rule for rule in rules if holds(rule.when, inner))
    return msgspec.structs.replace(
        bound, bypass=rule.verdict, bypass_reason=templates.fill(rule.reason, inner)
    )


def _last_component(value: str) -> str:
    return value.rstrip("/").rpartition("/")[2].lower()
