"""The text features by name: what each number means, its range, and which end of it is a symptom.

A feature proves nothing by itself; what is usual for a model is learned from its own answers. Look-alikes stand in
the meaning. The page `docs/text-features.md` is made from this.
"""

from typing import NamedTuple

from falseok_collector.markdown import GENERATED, table
from falseok_collector.text_window import HEAD_CHARACTERS, TAIL_CHARACTERS


class Feature(NamedTuple):
    """One number about an answer's text. `high` is None where there is no bound."""

    name: str
    meaning: str
    unit: str
    high: float | None
    worst_is_high: bool = True


CATALOGUE: tuple[Feature, ...] = (
    Feature(
        "longest_character_run",
        "Longest run of one character that is no white space. Rulers and tables have runs, too.",
        "characters",
        None,
    ),
    Feature(
        "longest_unit_run",
        "Longest stretch that repeats a unit of at most 24 bytes at least three times. Lists of equal numbers and "
        "repetition that the prompt asked for look alike.",
        "UTF-8 bytes",
        None,
    ),
    Feature(
        "repeated_share",
        "Share of the text's 12-character fragments that occurred before. Choruses, code and tables repeat, too.",
        "share",
        1,
    ),
    Feature(
        "compression_ratio",
        "Bytes of the text by bytes after zlib; from 64 bytes on. Compare with prompt_compression_ratio.",
        "ratio",
        None,
    ),
    Feature("prompt_compression_ratio", "The same of the prompt: context, no symptom.", "ratio", None),
    Feature(
        "mixed_script_words",
        "Places inside a word where the alphabet changes (Latin, Cyrillic, Greek, Hebrew, Arabic, Indic, Thai and "
        "others), per 100 letters. Mathematics mixes Greek and Latin.",
        "per 100 letters",
        100,
    ),
    Feature(
        "script_joints",
        "The same with Chinese, Japanese and Korean writing, which good text puts next to Latin names without a space.",
        "per 100 letters",
        100,
    ),
    Feature(
        "surprise_bits",
        "Mean bits a byte against a small built-in model of pairs of character classes. Base64 and hexadecimal "
        "numbers surprise, too. Compare with prompt_surprise_bits.",
        "bits a byte",
        16,
    ),
    Feature("prompt_surprise_bits", "The same of the prompt: context, no symptom.", "bits a byte", 16),
    Feature(
        "special_token_leaks",
        "Control tokens of chat templates in the content (<|im_end|>, </s>, [INST], <0x0A> and the like) that the "
        "prompt does not hold.",
        "occurrences",
        None,
    ),
    Feature(
        "tool_markup_leaks",
        "Markup of tool calls in the content (<tool_call>, [TOOL_CALLS] and the like) that the prompt does not hold. "
        "A parser that is not configured leaves it there.",
        "occurrences",
        None,
    ),
    Feature(
        "thinking_markup_leaks",
        "<think>, </think> and the like in the content. Good prose may hold many where no reasoning parser is "
        "configured.",
        "occurrences",
        None,
    ),
    Feature("replacement_share", "Share of U+FFFD: bytes that are no UTF-8.", "share", 1),
    Feature("longest_digit_run", "Longest run of digits. Number lists are not runs.", "characters", None),
    Feature(
        "longest_punctuation_run",
        "Longest run of characters that are neither letters, digits nor white space.",
        "characters",
        None,
    ),
    Feature("punctuation_share", "Share of such characters. Code has much of it.", "share", 1),
    Feature(
        "reasoning_without_content",
        "Characters of reasoning in an answer without content and without tool calls. A parser that never sees the "
        "end of the reasoning looks alike.",
        "characters",
        None,
    ),
    Feature("ran_to_limit", "1 when the limit on tokens ended it.", "0 or 1", 1),
    Feature(
        "prompt_overlap",
        "Share of the text's 16-character fragments that stand in the prompt, too. Summaries and edits quote.",
        "share",
        1,
    ),
    Feature(
        "longest_token_run",
        "Longest run of one token id, where the engine tells token ids.",
        "tokens",
        None,
    ),
    Feature(
        "sentinel_token_run",
        "Longest run of token id 0 or of an id 2^k-1 from 255 on: what logits that are not numbers leave behind.",
        "tokens",
        None,
    ),
    Feature(
        "mean_log_probability",
        "Mean log-probability of the tokens, where the client asked for log-probabilities. A collapse is a symptom; "
        "a usual value proves nothing.",
        "nats",
        0,
        worst_is_high=False,
    ),
)

BY_NAME = {feature.name: feature for feature in CATALOGUE}


def worst(of_choices: list[dict[str, float]]) -> dict[str, float]:
    """Of several choices the worst value of each feature: one choice that is off marks the answer."""
    merged: dict[str, float] = {}
    for features in of_choices:
        for name, value in features.items():
            choose = max if BY_NAME[name].worst_is_high else min
            merged[name] = choose(merged.get(name, value), value)
    return merged


def features_page() -> str:
    """The catalogue as a page."""
    rows = [(f"`{feature.name}`", _range(feature), feature.unit, feature.meaning) for feature in CATALOGUE]
    return (
        "\n\n".join(
            [
                GENERATED,
                "# Text features",
                (
                    "Numbers about an answer's text in `api.response`, under `features`. They are computed inside the "
                    "API server; the text itself stays there. `FALSEOK_TEXT_FEATURES=0` turns them off. "
                    f"They look at the first {HEAD_CHARACTERS:,} and the last {TAIL_CHARACTERS:,} characters of content "
                    "and of reasoning, and do not depend on how a stream was cut. Of several choices the worst value "
                    "counts. A feature is left out where there is nothing to compute it from. None of them proves "
                    "anything: what is usual differs from model to model."
                ),
                table(("Name", "Range", "Unit", "Meaning"), rows),
            ]
        )
        + "\n"
    )


def _range(feature: Feature) -> str:
    if not feature.worst_is_high:
        return f"down from {feature.high:g}"
    return "from 0" if feature.high is None else f"0 to {feature.high:g}"
