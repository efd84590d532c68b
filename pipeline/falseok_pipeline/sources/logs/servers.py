"""One server's log, statement after statement: which engine a process belongs to, and what events its lines give."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from falseok_collector.attributes import (
    Attributes,
    KvHandshake,
    KvLeaseEnd,
    KvNotice,
    KvReadEnd,
    SchedFinish,
    SchedResume,
)
from falseok_collector.handshake_failures import failure_type_of, hashes_in
from falseok_collector.identity import external_id_of, transfer_id_of
from falseok_pipeline.sources.logs.engines import EngineState
from falseok_pipeline.sources.logs.joining import Failure, Joiner
from falseok_pipeline.sources.logs.numbering import Draft
from falseok_pipeline.sources.logs.records import Record
from falseok_pipeline.sources.logs.templates import (
    AboutRequest,
    Answer,
    LoadFailure,
    Startup,
    Statement,
    TransferFailure,
    as_json,
)
from falseok_pipeline.sources.logs.tracebacks import Traceback

_RECOVERY_MICROS = 60_000_000
"""How long before the scheduler's word the failures were that it speaks of."""

_SUFFIX = re.compile(r"-[0-9a-f]{8}$")
_TENSOR_RANK = re.compile(r"TP(\d{1,4})")
_STAGES = {
    "handshake_failed": "handshake",
    "transfer_setup_failed": "setup",
    "transfer_failed": "check",
    "transfer_exception": "check",
    "notification_failed": "notify",
    "transfer_release_failed": "release",
}
_HARMLESS = frozenset({"notification_failed", "transfer_release_failed"})
_LARGEST = 2**63 - 1

Process = tuple[str, int]


@dataclass(slots=True)
class _Pending:
    """A failure whose traceback may follow."""

    draft: Draft
    place: str
    traceback: Traceback = field(default_factory=Traceback)


@dataclass(slots=True)
class Handshakes:
    """Attempts between two engines, as far as lines tell."""

    attempts: int = 0
    failures: int = 0
    failure_types: set[str] = field(default_factory=set)
    local_hash: str = ""
    remote_hash: str = ""
    message: str = ""


class Server:
    """The processes of one vLLM server, restarts included. Feed it in the order of the log."""

    def __init__(self, role: str, fallback_id: str, add: Callable[[Draft], None]) -> None:
        """`fallback_id` names the engine where the log does not; `add` takes the events."""
        self.role = role
        self.add = add
        self.engines: dict[str, EngineState] = {}
        self.handshakes: dict[tuple[str, str], Handshakes] = {}
        self.joiner = Joiner()
        self.failures: dict[str, Failure] = {}
        """By the engine's request id."""
        self.by_reported_id: dict[str, str] = {}
        """Request id by the id that the API server writes: without vLLM's random suffix."""
        self._reader_of: dict[str, str] = {}
        """The request that failed to read a transfer first."""
        self.answers: dict[int, int] = {}
        self.leases: list[tuple[str, str, int]] = []
        """Engine, request and readers of expired leases."""
        self.late_notices = 0
        self.peers: dict[str, str] = {}
        """Compatibility hash of other engines, as refused handshakes name them."""
        self._fallback_id = fallback_id
        self._processes: dict[Process, str] = {}
        self._pending: dict[Process, _Pending] = {}
        self._start: list[tuple[Startup, int]] = []
        self._current: list[str] = []
        self._handlers: dict[type[Statement], Callable[[Any, Record, int], None]] = {
            TransferFailure: self._transfer_failure,
            AboutRequest: self._about_request,
            LoadFailure: self._load_failure,
            Answer: self._answer,
            Startup: self._startup,
        }

    def known(self) -> bytes:
        """Everything that events of the lines to come depend on, as bytes for a digest."""
        processes = sorted((label, pid, engine) for (label, pid), engine in self._processes.items())
        return as_json([self.role, self._fallback_id, processes, self._current, self._base_id()])

    # Lines ----------------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> bool:
        """Whether a traceback may go on."""
        return bool(self._pending)

    def continues(self, record: Record) -> bool:
        """Whether the line belongs to the traceback of a failure; takes it in if so, and ends the failure if not."""
        process = (record.label, record.pid)
        pending = self._pending.get(process)
        if pending is None:
            return False
        if record.place != pending.place:
            if record.place:
                self._finish(process)
            return False
        if not record.message.startswith("NIXL transfer failure: ") and pending.traceback.feed(
            record.message
        ):
            return True
        self._finish(process)
        return False

    def state(self, statement: Statement, record: Record, now_micros: int) -> None:
        """A line that says something."""
        self._handlers[type(statement)](statement, record, now_micros)

    def end_of_file(self) -> None:
        """No more lines of this file: what waits for a traceback has to do without."""
        for process in list(self._pending):
            self._finish(process)

    def end(self) -> None:
        """No more lines at all: an engine that only its start-up tells of gets its name."""
        self.end_of_file()
        self._end_generation()

    # Start-up -------------------------------------------------------------------------------------------------

    def _startup(self, statement: Startup, record: Record, now_micros: int) -> None:
        if statement.kind == "arguments" and self._starts_anew(statement):
            self._end_generation()
            self._start, self._current, self._processes = [], [], {}
        named = statement.values.get("engine_id")
        if isinstance(named, str):
            self._processes[record.label, record.pid] = named
            self.engine(named, now_micros)
        self._start.append((statement, now_micros))
        for engine_id in self._current:
            self.engines[engine_id].note(statement, now_micros)

    def _starts_anew(self, statement: Startup) -> bool:
        """A second dump of other arguments is a restart; API server processes may print the same one again."""
        before = [earlier for earlier, _ in self._start if earlier.kind == "arguments"]
        return bool(before) and before[-1].values != statement.values

    def engine(self, engine_id: str, now_micros: int) -> EngineState:
        """The engine of this name, with all that was said so far of the start it belongs to."""
        state = self.engines.get(engine_id)
        if state is None:
            state = self.engines[engine_id] = EngineState(engine_id, self.role)
        if engine_id not in self._current:
            self._current.append(engine_id)
            for statement, micros in self._start:
                state.note(statement, micros)
        state.first_micros = state.first_micros or now_micros
        state.last_micros = max(state.last_micros, now_micros)
        return state

    def _end_generation(self) -> None:
        if self._start and not self._current:
            self.engine(self._base_id() or self._fallback_id, self._start[0][1])

    def _base_id(self) -> str:
        for statement, _ in reversed(self._start):
            if statement.kind == "arguments":
                transfer = statement.values["arguments"].get("kv_transfer_config")
                named = transfer.get("engine_id") if isinstance(transfer, dict) else None
                return named if isinstance(named, str) and len(named) <= 200 else ""
        return ""

    def _engine_id(self, record: Record, told: object = None) -> str:
        """The engine that a line is about: as the line says, else the process's, else the only one there is."""
        process = (record.label, record.pid)
        if isinstance(told, str) and told:
            self._processes.setdefault(process, told)
            return told
        mine = self._processes.get(process)
        if mine:
            return mine
        if len(self._current) == 1:
            return self._current[0]
        return self._base_id() or self._fallback_id

    # Failures -------------------------------------------------------------------------------------------------

    def _transfer_failure(self, statement: TransferFailure, record: Record, now_micros: int) -> None:
        context = statement.context
        engine_id = self._engine_id(record, context.get("engine_id"))
        self.engine(engine_id, now_micros)
        remote = _text(context.get("remote_engine_id") or context.get("dst_engine_id"))
        request_id = _text(context.get("request_id"))
        if not request_id or statement.failure_type == "push_handshake_failed":
            attributes: Attributes = KvHandshake(
                remote_engine_id=remote,
                remote_host=_text(context.get("remote_host")),
                remote_port=_number(context.get("remote_port")) or 0,
                outcome="failed",
                failure_type="other",
            )
            request_id = ""
        else:
            remote_request_id = _text(context.get("remote_request_id"))
            if self._is_cleanup(request_id, transfer_id_of(remote, remote_request_id)):
                return
            attributes = KvReadEnd(
                remote_engine_id=remote,
                remote_request_id=remote_request_id,
                outcome="failed",
                failure_type=statement.failure_type,
                stage=_STAGES.get(statement.failure_type, ""),
                nixl_state=_text(context.get("xfer_state"))[:64],
                local_blocks=_number(context.get("num_local_blocks")),
            )
            if statement.failure_type not in _HARMLESS:
                self._note_failure(engine_id, request_id, record, now_micros)
        draft = self._draft(attributes, record, now_micros, engine_id, request_id)
        self._finish((record.label, record.pid))
        self._pending[record.label, record.pid] = _Pending(draft, record.place)

    def _is_cleanup(self, request_id: str, transfer_id: str) -> bool:
        """Whether it is vLLM's own request that only tells prefill to let go after a request failed
        (`abort_immediately`, 0.30 and later): it has the same transfer, and a bare id of no endpoint.
        """
        first = self._reader_of.setdefault(transfer_id, request_id) if transfer_id else request_id
        return first != request_id and bool(_SUFFIX.search(first)) and not _SUFFIX.search(request_id)

    def _note_failure(self, engine_id: str, request_id: str, record: Record, now_micros: int) -> None:
        if request_id in self.failures:
            return
        failure = Failure(engine_id, request_id, external_id_of(request_id), now_micros, record.pid)
        self.failures[request_id] = failure
        for reported in reported_ids(request_id):
            self.by_reported_id.setdefault(reported, request_id)
        self.joiner.failure(failure)

    def _finish(self, process: Process) -> None:
        """The traceback is over: what it says goes into the event."""
        pending = self._pending.pop(process, None)
        if pending is None:
            return
        attributes, traceback = pending.draft.attributes, pending.traceback
        if isinstance(attributes, KvReadEnd):
            attributes.error_class = traceback.name
            attributes.error_message = traceback.message
            if attributes.failure_type == "transfer_exception" and traceback.stage:
                attributes.stage = traceback.stage
        elif isinstance(attributes, KvHandshake):
            self._finish_handshake(attributes, traceback, str(pending.draft.fields["engine_id"]))
        self.add(pending.draft)

    def _finish_handshake(self, attributes: KvHandshake, traceback: Traceback, engine_id: str) -> None:
        names = frozenset({traceback.name})
        attributes.failure_type = failure_type_of(names, traceback.module, traceback.message)
        attributes.exception_class, attributes.exception_message = traceback.name, traceback.message
        attributes.local_hash, attributes.remote_hash = hashes_in(traceback.message)
        pair = self.handshakes.setdefault((engine_id, attributes.remote_engine_id), Handshakes())
        pair.attempts += 1
        pair.failures += 1
        pair.failure_types.add(attributes.failure_type)
        if attributes.local_hash:
            pair.local_hash, pair.remote_hash = attributes.local_hash, attributes.remote_hash
            self.engines[engine_id].compatibility_hash = attributes.local_hash
            self.peers[attributes.remote_engine_id] = attributes.remote_hash
        pair.message = pair.message or f"{traceback.name}: {traceback.message}"[:500]

    # The rest -------------------------------------------------------------------------------------------------

    def _about_request(self, statement: AboutRequest, record: Record, now_micros: int) -> None:
        request_id = statement.request_id
        if statement.kind == "skipped_post_processing":
            return  # it repeats the failure that was logged before it
        if statement.kind == "generation_error":
            self._generation_error(request_id, record, now_micros)
            return
        engine_id = self._engine_id(record)
        self.engine(engine_id, now_micros)
        if statement.kind == "lease_expired":
            self.leases.append((engine_id, request_id, statement.number))
            self._add(
                KvLeaseEnd(reason="expired", notifications=statement.number),
                record,
                now_micros,
                engine_id,
                request_id,
            )
        elif statement.kind == "late_notice":
            self.late_notices += 1
            self._add(KvNotice(known=False), record, now_micros, engine_id, request_id)
        else:
            declined = KvReadEnd(
                remote_engine_id=statement.engine_id, outcome="failed", failure_type="declined", stage="setup"
            )
            self._note_failure(engine_id, request_id, record, now_micros)
            self._add(declined, record, now_micros, engine_id, request_id)

    def _load_failure(self, statement: LoadFailure, record: Record, now_micros: int) -> None:
        request_ids = list(statement.request_ids)
        if statement.branch == "recompute":
            recent = [
                failure.request_id
                for failure in self.failures.values()
                if not failure.resolved and now_micros - failure.ts <= _RECOVERY_MICROS
            ]
            # The line gives a number only; where it is not that of the open failures, whose it is stays unknown.
            request_ids = recent if len(recent) == statement.requests else []
        for request_id in request_ids:
            failure = self.failures.get(request_id)
            if failure is not None:
                failure.told_scheduler = True
            engine_id = failure.engine_id if failure is not None else self._engine_id(record)
            self.engine(engine_id, now_micros)
            policy = {"fail": "fail", "recompute": "recompute"}[statement.branch]
            resume = SchedResume(scheduler_marked_failed=True, policy=policy, branch=statement.branch)
            self._add(resume, record, now_micros, engine_id, request_id)

    def _generation_error(self, reported_id: str, record: Record, now_micros: int) -> None:
        request_id = self.by_reported_id.get(reported_id, reported_id)
        failure = self.failures.get(request_id)
        if failure is not None:
            failure.ended_in_error = True
        engine_id = failure.engine_id if failure is not None else self._engine_id(record)
        self.engine(engine_id, now_micros)
        finish = SchedFinish(status="FINISHED_ERROR", finish_reason="error")
        self._add(finish, record, now_micros, engine_id, request_id)

    def _answer(self, statement: Answer, record: Record, now_micros: int) -> None:  # noqa: ARG002 - one signature
        if statement.generates:
            self.answers[statement.status] = self.answers.get(statement.status, 0) + 1
            self.joiner.answer(now_micros, statement.status)

    # Events ---------------------------------------------------------------------------------------------------

    def _add(
        self, attributes: Attributes, record: Record, now_micros: int, engine_id: str, request_id: str
    ) -> None:
        self.add(self._draft(attributes, record, now_micros, engine_id, request_id))

    def _draft(
        self, attributes: Attributes, record: Record, now_micros: int, engine_id: str, request_id: str
    ) -> Draft:
        fields: dict[str, Any] = {"engine_id": engine_id, "pid": min(record.pid, 2**31 - 1)}
        if request_id:
            fields["request_id"] = request_id
            fields["external_id"] = external_id_of(request_id)
        if isinstance(attributes, KvReadEnd):
            fields["transfer_id"] = transfer_id_of(attributes.remote_engine_id, attributes.remote_request_id)
        elif isinstance(attributes, KvLeaseEnd | KvNotice):
            fields["transfer_id"] = transfer_id_of(engine_id, request_id)
        if isinstance(attributes, KvReadEnd | KvHandshake | KvLeaseEnd | KvNotice):
            rank = _TENSOR_RANK.search(record.label)
            fields["rank"] = int(rank.group(1)) if rank else 0
        return Draft(now_micros, attributes, fields)


def _text(value: object) -> str:
    return value[:512] if isinstance(value, str) else ""


def _number(value: object) -> int | None:
    return (
        value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST else None
    )


def reported_ids(request_id: str) -> tuple[str, ...]:
    """How the API server and clients may write an engine's request id: whole, without the random suffix that the
    engine adds, and without the prompt's number.
    """
    bare = _SUFFIX.sub("", request_id)
    named = re.sub(r"-\d+$", "", bare) if bare.startswith("cmpl-") else bare
    return tuple(dict.fromkeys((request_id, bare, named)))


def shared_factors(engines: list[EngineState]) -> frozenset[str]:
    """Factors that the logs of all engines show."""
    return (
        frozenset.intersection(*(frozenset(engine.factors()) for engine in engines))
        if engines
        else frozenset()
    )


class HandshakeReport(msgspec.Struct, frozen=True, kw_only=True):
    """Handshakes between two engines."""

    prefill_engine_id: str
    decode_engine_id: str
    attempts: int
    failures: int
    failure_types: list[str]
    local_hash: str
    remote_hash: str
    message: str
