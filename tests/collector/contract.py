"""Contract version 1 as it was agreed, in `contract_v1.json`, and what would break it.

python -m tests.collector.contract     adds new fields to the file, unless something would break
"""

import sys
from pathlib import Path
from typing import Any

import msgspec

from falseok_collector.attributes import ATTRIBUTES, AnsweredChoice, HookState, KvGroup, SinkState
from falseok_collector.events import Envelope, Origin
from falseok_collector.reference import fields, required

AGREED = Path(__file__).with_name("contract_v1.json")

Contract = dict[str, dict[str, str]]
"""Type of every field by struct; a required field's type ends in `!`."""


def agreed() -> Contract:
    """The contract as it is on file."""
    return msgspec.json.decode(AGREED.read_bytes(), type=Contract)


def current() -> Contract:
    """The contract as the structs have it."""
    contract = {name: described(struct) for name, struct in ATTRIBUTES.items()}
    origins = {"values": " or ".join(Origin)}
    nested = {
        struct.__name__: described(struct) for struct in (KvGroup, HookState, SinkState, AnsweredChoice)
    }
    return {"envelope": described(Envelope), **contract, **nested, "origin": origins}


def described(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Type of every field of a struct."""
    needed = required(struct)
    return {name: kind + ("!" if name in needed else "") for name, kind, _ in fields(struct)}


def breaches(old: Contract, new: Contract) -> list[str]:
    """What in `new` would make events of `old` unreadable, or a reader of `old` wrong: one sentence each."""
    found = [f"{struct} was removed" for struct in old.keys() - new.keys()]
    for struct in old.keys() & new.keys():
        before, after = old[struct], new[struct]
        found += [f"{struct}.{field} was removed" for field in before.keys() - after.keys()]
        found += [
            f"{struct}.{field} was {before[field]} and is {after[field]}"
            for field in before.keys() & after.keys()
            if before[field] != after[field]
        ]
        found += [
            f"{struct}.{field} is new and has no default"
            for field in after.keys() - before.keys()
            if after[field].endswith("!")
        ]
    return sorted(found)


def main() -> int:
    """Put what was added on file; the exit code."""
    contract: Any = current()
    broken = breaches(agreed(), contract) if AGREED.exists() else []
    for sentence in broken:
        sys.stderr.write(f"{sentence}: this needs a new contract version\n")
    if not broken:
        AGREED.write_bytes(msgspec.json.format(msgspec.json.encode(contract), indent=1) + b"\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
