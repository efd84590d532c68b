"""The messages of vLLM 0.26 to 0.33 that mean something here, each as a typed statement.

Templates from the vLLM sources: `kv_connector/v1/nixl/{base,pull,push}_worker.py`, `v1/core/sched/scheduler.py`,
`entrypoints/generate/base/serving.py`, `entrypoints/serve/utils/api_utils.py`, `v1/engine/core.py`,
`v1/core/kv_cache_utils.py`, `config/vllm.py`; access lines from uvicorn.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec

from falseok_pipeline.sources.logs import reprs

MAX_REQUEST_IDS = 4_096


class UnreadableStatementError(ValueError):
    """The message is one of ours by its words, and cannot be read all the same."""


@dataclass(frozen=True, slots=True)
class Statement:
    """Base of what a message says. `kind` names it in counts and reports."""

    kind: str


@dataclass(frozen=True, slots=True)
class TransferFailure(Statement):
    """`NIXL transfer failure: … | Context: {…}`: with a request, a read that failed; without, a handshake."""

    failure_type: str
    context: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AboutRequest(Statement):
    """A message about one request. `number` is the count that some of them carry."""

    request_id: str
    number: int = 0
    engine_id: str = ""


@dataclass(frozen=True, slots=True)
class LoadFailure(Statement):
    """The scheduler was told of failed loads: it fails these requests, or computes so many of them itself."""

    branch: str
    requests: int
    request_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer(Statement):
    """An access line of uvicorn about a request that generates."""

    path: str
    status: int
    generates: bool


@dataclass(frozen=True, slots=True)
class Startup(Statement):
    """Something an engine says of itself while it starts."""

    values: Mapping[str, Any] = field(default_factory=dict)


def _context(found: re.Match[str]) -> Statement:
    try:
        context = reprs.literal_dictionary(found["context"])
    except (reprs.NotReadableError, RecursionError) as error:
        raise UnreadableStatementError(f"the context of a transfer failure: {error}") from error
    failure_type = context.get("failure_type") or found["type"].partition(".")[0].strip()
    if not isinstance(failure_type, str) or not re.fullmatch(r"\w{1,64}", failure_type):
        raise UnreadableStatementError("the context of a transfer failure names no failure type")
    for name in ("request_id", "engine_id", "remote_engine_id", "remote_request_id"):
        value = context.get(name)
        if value is not None and (not isinstance(value, str) or len(value) > 512):
            raise UnreadableStatementError(f"{name} in the context of a transfer failure is no id")
    return TransferFailure("transfer_failure", failure_type, context)


def _about(kind: str) -> Callable[[re.Match[str]], Statement]:
    def read(found: re.Match[str]) -> Statement:
        groups = found.groupdict()
        return AboutRequest(kind, groups["id"], int(groups.get("number") or 0), groups.get("engine") or "")

    return read


def _failing(found: re.Match[str]) -> Statement:
    count = int(found["number"])
    listed = re.findall(r"'([^']{1,512})'|\"([^\"]{1,512})\"", found["ids"] or "")
    ids = tuple(sorted(one or other for one, other in listed[:MAX_REQUEST_IDS]))
    if count and not ids:
        raise UnreadableStatementError("a failed KV load names no request ids")
    return LoadFailure("load_failure", "fail", count, ids)


def _recovered(found: re.Match[str]) -> Statement:
    return LoadFailure("load_failure", "recompute", int(found["number"]))


_GENERATES = re.compile(r"/(?:chat/completions|completions|responses|messages|generate)(?:/batch)?/?(?:\?|$)")


def _answer(found: re.Match[str]) -> Statement:
    return _answered(found["method"], found["path"], found["status"])


@lru_cache(maxsize=1024)
def _answered(method: str, path: str, status: str) -> Answer:
    generates = method == "POST" and _GENERATES.search(path) is not None
    return Answer("access_line", path[:256], int(status), generates)


def _arguments(found: re.Match[str]) -> Statement:
    try:
        return Startup("arguments", {"arguments": reprs.literal_dictionary(found["rest"])})
    except (reprs.NotReadableError, RecursionError) as error:
        raise UnreadableStatementError(f"the dump of the arguments: {error}") from error


def _configuration(found: re.Match[str]) -> Statement:
    try:
        config = reprs.fields(found["rest"])
    except (reprs.NotReadableError, RecursionError) as error:
        raise UnreadableStatementError(f"the engine core's configuration: {error}") from error
    return Startup("engine_configuration", {"version": found["version"], "config": config})


def _starting(kind: str, **constants: Any) -> Callable[[re.Match[str]], Statement]:
    def read(found: re.Match[str]) -> Statement:
        return Startup(kind, {**constants, **found.groupdict()})

    return read


_ID = r"(?P<id>\S{1,512})"
_ENGINE = r"(?P<engine_id>[\w.:-]{1,128})"
_TEMPLATES: tuple[tuple[str, re.Pattern[str], Callable[[re.Match[str]], Statement]], ...] = tuple(
    (words, re.compile(pattern), read)
    for words, pattern, read in (
        (
            "NIXL transfer failure:",
            r"NIXL transfer failure: (?P<type>.*?) \| Context: (?P<context>\{.*\})\s*$",
            _context,
        ),
        (
            "Releasing expired KV blocks for request",
            rf"Releasing expired KV blocks for request {_ID} which were retrieved by (?P<number>\d{{1,9}}) remote worker",
            _about("lease_expired"),
        ),
        (
            "Potentially invalid KV blocks for unrecognized request",
            rf"Potentially invalid KV blocks for unrecognized request {_ID} were retrieved",
            _about("late_notice"),
        ),
        (
            "Declining expired remote read for",
            rf"Declining expired remote read for {_ID} from engine (?P<engine>[^\s]{{1,128}}?)\.?\s*$",
            _about("declined_read"),
        ),
        (
            "Skipping KV post-processing for failed request",
            rf"Skipping KV post-processing for failed request {_ID}",
            _about("skipped_post_processing"),
        ),
        (
            "due to KV load failure",
            r"Failing (?P<number>\d{1,9}) request\(s\) due to KV load failure .*?Request IDs: (?P<ids>.*)$",
            _failing,
        ),
        (
            "Recovered from KV load failure",
            r"Recovered from KV load failure: (?P<number>\d{1,9}) request\(s\) rescheduled",
            _recovered,
        ),
        (
            "failed with an internal error during generation",
            rf"Request {_ID} failed with an internal error during generation",
            _about("generation_error"),
        ),
        (
            " HTTP/",
            r"\"(?P<method>[A-Z]{3,8}) (?P<path>\S{1,4096}) HTTP/\d(?:\.\d)?\" (?P<status>[1-5]\d\d)\b",
            _answer,
        ),
        ("non-default args:", r"non-default args: (?P<rest>\{.*\})\s*$", _arguments),
        (
            "Initializing a V1 LLM engine",
            r"Initializing a V1 LLM engine \(v(?P<version>[^)\s]{1,64})\) with config: (?P<rest>.+)$",
            _configuration,
        ),
        (
            "Creating v1 connector with name:",
            rf"Creating v1 connector with name: (?P<connector>\w{{1,128}}) and engine_id: {_ENGINE}",
            _starting("connector"),
        ),
        ("Initializing NIXL worker", rf"Initializing NIXL worker {_ENGINE}", _starting("nixl_worker")),
        (
            "Initializing NIXL Scheduler",
            rf"Initializing NIXL Scheduler {_ENGINE}",
            _starting("nixl_scheduler"),
        ),
        (
            "Detected attention backend(s)",
            r"Detected attention backend\(s\) \[(?P<backends>[^\]]{0,512})\]",
            _starting("attention_backend"),
        ),
        (
            "Detected kv cache layout",
            r"Detected kv cache layout (?P<layout>\w{1,32})",
            _starting("kv_cache_layout"),
        ),
        (
            "GPU KV cache size:",
            r"GPU KV cache size: (?P<tokens>[\d,]{1,20}) tokens",
            _starting("kv_cache_size"),
        ),
        (
            "Turning off hybrid kv cache manager",
            r"Turning off hybrid kv cache manager",
            _starting("hybrid_off", hybrid=False),
        ),
        (
            "NIXL compatibility check passed",
            r"NIXL compatibility check passed \(hash: (?P<hash>[0-9a-f]{8,128})\)",
            _starting("compatibility_passed"),
        ),
        (" version ", r"█\s+version (?P<version>\d[\w.+-]{2,63})\s*$", _starting("banner")),
        (
            "vLLM API server version",
            r"vLLM API server version (?P<version>\d[\w.+-]{2,63})",
            _starting("banner"),
        ),
        ("NIXL version", r"NIXL version[: =]+v?(?P<nixl>\d[\w.+-]{1,63})", _starting("nixl_version")),
    )
)
"""Words that must be in the line, the pattern, and who reads it. The words alone make a line look like one of ours."""

_ACCESS_WORDS = " HTTP/"
_ACCESS = next(pattern for words, pattern, _ in _TEMPLATES if words == _ACCESS_WORDS)
_ANY_WORDS = re.compile("|".join(re.escape(words) for words, *_ in _TEMPLATES))
_LOOKALIKE_WORDS = frozenset({" HTTP/", " version ", "NIXL version", "due to KV load failure"})
"""Words that other programs write as well: where the pattern does not fit, the line is simply not ours."""


def could_mean(text: str) -> bool:
    """Whether the words of any template are in the text. Fast: most lines of a log end here."""
    return _ANY_WORDS.search(text) is not None


def read(message: str) -> Statement | None:
    """What a message says; `None` when it is not one of ours.

    Raises:
        UnreadableStatementError: it is one of ours by its words and cannot be read.
    """
    first = _ANY_WORDS.search(message)
    if first is None:
        return None
    if first.group() == _ACCESS_WORDS and (found := _ACCESS.search(message)) is not None:
        return _answer(found)  # by far the most frequent one
    for words, pattern, reader in _TEMPLATES:
        if words not in message:
            continue
        found = pattern.search(message)
        if found is not None:
            return reader(found)
        if words not in _LOOKALIKE_WORDS and _begins_with(message, words):
            raise UnreadableStatementError(
                f"it says “{words}” and goes on in another way than vLLM 0.26 to 0.33"
            )
    return None


def _begins_with(message: str, words: str) -> bool:
    """A message that only quotes the words (a prompt, a traceback's source line) is not one of ours."""
    return message.lstrip().startswith(words) or message.startswith("Request ")


def as_json(value: object) -> bytes:
    """A value as JSON in a fixed order: for digests."""
    return msgspec.json.encode(value, order="deterministic")
