"""The prompts of a drive: the same for the same seed and number, each different from its first words on.

An engine keeps the KV cache of what it has seen before, block by block from the start of the prompt. Two prompts
with the same first block would share it, and the second transfer would be smaller or none at all.
"""

import random

OPENING_CHARACTERS = 24
"""Within so many characters any two prompts of a seed differ: far fewer than the tokens of one block."""

_PEOPLE = ("Ada", "Bela", "Chen", "Dara", "Emil", "Farah", "Goran", "Hana", "Ines", "Jonas", "Kofi", "Lena")
_PLACES = (
    "harbour",
    "library",
    "station",
    "orchard",
    "museum",
    "bakery",
    "school",
    "theatre",
    "mill",
    "market",
)
_THINGS = ("lamp", "ladder", "clock", "kettle", "bicycle", "radio", "carpet", "window", "piano", "basket")
_WORDS = (
    "old",
    "blue",
    "heavy",
    "quiet",
    "broken",
    "new",
    "small",
    "bright",
    "wooden",
    "narrow",
    "round",
    "cold",
)
_DEEDS = (
    "carried",
    "repaired",
    "painted",
    "sold",
    "lost",
    "found",
    "borrowed",
    "measured",
    "counted",
    "cleaned",
)
_TASKS = (
    "Say in one sentence what happened.",
    "Who acted first?",
    "List the things named.",
    "Give it a title.",
)


def prompt(index: int, seed: int) -> str:
    """Prompt number `index` of a seed: between about 60 and 160 words of plain English, and a task at the end."""
    chooser = random.Random(f"{seed}/{index}")  # noqa: S311 - reproducible text, no secret
    sentences = [_sentence(chooser) for _ in range(chooser.randint(5, 14))]
    return f"Report {index:04d}-{seed}: {' '.join(sentences)} {chooser.choice(_TASKS)}"


def _sentence(chooser: random.Random) -> str:
    person, other = chooser.sample(_PEOPLE, 2)
    thing = f"{chooser.choice(_WORDS)} {chooser.choice(_THINGS)}"
    day = chooser.randint(1, 28)
    return f"On day {day} {person} {chooser.choice(_DEEDS)} the {thing} of {other} at the {chooser.choice(_PLACES)}."
