"""Connectors other than NIXL: which request loaded what through whom, and how it ended."""

from typing import Any

import pytest
from tests.collector.hooks.fake_connectors import (
    ENGINE_ID,
    Base,
    ExampleConnector,
    Factory,
    MultiConnector,
    NixlConnector,
    OffloadingConnector,
    Role,
    Scheduler,
    config,
    request,
)
from tests.collector.hooks.hooked import Hooked

from falseok_collector.attributes import (
    EngineConfig,
    KvInvalidBlocks,
    KvReadEnd,
    KvReadStart,
    SchedWaitRemote,
)
from falseok_collector.hooks.connectors import INTERFACE, ONLY_SOME

ID = "cmpl-r-0-0123abcd"
SYNCHRONOUS = (32, False)
ASYNCHRONOUS = (32, True)


class Process:
    """A process in which connectors are made by the factory and watched."""

    def __init__(self) -> None:
        self.hooked = Hooked()
        self._factory: Any = type(
            "Factory", (Factory,), {"create_connector": Factory.__dict__["create_connector"]}
        )
        self.hooked.wrap(self._factory, create_connector="worker.connector")
        self._scheduler = type(
            "Scheduler",
            (Scheduler,),
            {"_handle_invalid_blocks": vars(Scheduler)["_handle_invalid_blocks"]},
        )
        self.hooked.wrap(self._scheduler, _handle_invalid_blocks="core.invalid_blocks")
        self.hooked.emitter.engine_id = ENGINE_ID

    def scheduler(self, connector: Base) -> Scheduler:
        """The engine core's side of a connector."""
        self._factory.create_connector(config(connector), Role.SCHEDULER, None)
        made: Scheduler = self._scheduler(connector)
        return made

    def worker(self, connector: Base, rank: int = 0) -> Base:
        """A worker's side of a connector."""
        self._factory.create_connector(config(connector, rank), Role.WORKER, None)
        return connector

    def names(self) -> list[str]:
        """Names of the events since the last look."""
        return [event.name for event in self.hooked.events()]

    def reads(self) -> list[tuple[str, str, str, str, int]]:
        """Event, connector, mode, outcome and rank of each read event since the last look."""
        return [
            (
                event.name,
                event.attributes.connector,
                event.attributes.mode,
                getattr(event.attributes, "outcome", ""),
                event.record.rank,
            )
            for event in self.hooked.events()
            if isinstance(event.attributes, KvReadStart | KvReadEnd)
        ]


@pytest.fixture
def process() -> Process:
    """One process, nothing loaded."""
    return Process()


def test_a_synchronous_load_ends_with_the_step_that_did_it(process: Process) -> None:
    """ExampleConnector never lets a request wait: no wait, no resume, and the end not before the step's output."""
    scheduler = process.scheduler(ExampleConnector(SYNCHRONOUS))
    asked = request()
    scheduler.add(asked)
    scheduler.schedule(asked)
    assert ["sched.admit", "kv.read.start"] == process.names()
    scheduler.update()
    assert [("kv.read.end", "ExampleConnector", "other", "ok", -1)] == process.reads()
    scheduler.update(finished=(asked,))
    assert ["sched.finish"] == process.names()


def test_outputs_belong_to_the_step_they_come_from(process: Process) -> None:
    """With asynchronous scheduling the output of an earlier step is processed after the next was scheduled."""
    scheduler = process.scheduler(ExampleConnector(SYNCHRONOUS))
    scheduler.schedule()
    scheduler.schedule(request())
    process.names()
    scheduler.update()
    assert [] == process.names()
    scheduler.update()
    assert ["kv.read.end"] == process.names()


def test_a_start_says_how_much_and_where_to(process: Process) -> None:
    """Tokens the connector brings and blocks that take them; no engine is their source."""
    scheduler = process.scheduler(ExampleConnector(SYNCHRONOUS))
    scheduler.schedule(request())
    event = process.hooked.only()
    assert (
        KvReadStart(mode="other", connector="ExampleConnector", external_tokens=32, local_block_counts=[3])
        == event.attributes
    )
    assert (ID, "", ENGINE_ID) == (
        event.record.request_id,
        event.record.transfer_id,
        event.record.engine_id,
    )


def test_an_asynchronous_load_ends_when_all_ranks_received_it(process: Process) -> None:
    """The request waits; the scheduler's notice ends the load, not a step."""
    scheduler = process.scheduler(OffloadingConnector(ASYNCHRONOUS))
    asked = request()
    scheduler.add(asked)
    scheduler.schedule(asked, asked=3)
    events = process.hooked.events()
    assert ["sched.admit", "sched.wait_remote", "kv.read.start"] == [event.name for event in events]
    assert (
        SchedWaitRemote(
            external_tokens=32,
            connector="OffloadingConnector",
            local_hit_tokens=16,
            prompt_tokens=48,
            block_counts=[3],
        )
        == events[1].attributes
    )
    scheduler.update()
    assert [] == process.names()
    scheduler.update(received=(ID,))
    assert [("kv.read.end", "OffloadingConnector", "other", "ok", -1)] == process.reads()


def test_a_wait_is_known_to_the_resume_that_follows(process: Process) -> None:
    """`sched.resume` tells how many tokens were waited for, whoever loads them."""
    scheduler = process.scheduler(OffloadingConnector(ASYNCHRONOUS))

    class Core:
        """The scheduler as far as the resume hook reads it."""

        failed_recving_kv_req_ids: frozenset[str] = frozenset()
        recompute_kv_load_failures = False

        def _update_waiting_for_remote_kv(self, request: Any) -> None:
            """Takes the request out of the wait."""

    process.hooked.wrap(Core, _update_waiting_for_remote_kv="core.resume")
    asked = request()
    scheduler.add(asked)
    scheduler.schedule(asked)
    process.names()
    Core()._update_waiting_for_remote_kv(asked)
    resume: Any = process.hooked.only().attributes
    assert ("sched.resume", 32) == (resume.event_name, resume.expected_tokens)


def test_a_receive_that_failed_is_no_success(process: Process) -> None:
    """Failed receives are among the received ones (vLLM 0.30 and later); they do not end well."""
    scheduler = process.scheduler(OffloadingConnector(ASYNCHRONOUS))
    scheduler.schedule(request())
    process.names()
    scheduler.update(received=(ID,), failed=(ID,))
    assert [("kv.read.end", "OffloadingConnector", "other", "failed", -1)] == process.reads()


@pytest.mark.parametrize(("recompute", "outcome"), [(False, "failed"), (True, "recompute")])
def test_blocks_that_could_not_be_filled_fail_the_load_of_those_who_count_on_them(
    process: Process, recompute: bool, outcome: str
) -> None:
    """Whatever the policy, the requests are named, also those that are only marked for recomputation."""
    scheduler = process.scheduler(OffloadingConnector(ASYNCHRONOUS))
    scheduler.recompute_kv_load_failures = recompute
    scheduler.unusable = {ID}
    scheduler.schedule(request(), request("other"))
    process.names()
    scheduler.update(received=(ID, "other"), invalid=(4, 5))
    events = process.hooked.events()
    assert (
        KvInvalidBlocks(
            invalid_blocks=2,
            outcome=outcome,
            policy="recompute" if recompute else "fail",
            connector="OffloadingConnector",
        )
        == events[0].attributes
    )
    assert ID == events[0].record.request_id
    ends = {
        event.record.request_id: event.attributes.outcome
        for event in events
        if isinstance(event.attributes, KvReadEnd)
    }
    assert {ID: "failed", "other": "ok"} == ends


def test_requests_marked_earlier_are_not_named_again(process: Process) -> None:
    """Marks stay until a request is taken out of its wait; each failure is told once."""
    scheduler = process.scheduler(OffloadingConnector(ASYNCHRONOUS))
    scheduler.recompute_kv_load_failures = True
    scheduler.failed_recving_kv_req_ids = {"earlier"}
    scheduler.update(invalid=(4,))
    assert [] == process.names()


@pytest.mark.parametrize(("status", "outcome"), [("FINISHED_STOPPED", "ok"), ("FINISHED_ABORTED", "skipped")])
def test_a_request_that_leaves_in_its_first_step_has_its_load_ended_before(
    process: Process, status: str, outcome: str
) -> None:
    """One token of output: the request is finished before the step is."""
    scheduler = process.scheduler(ExampleConnector(SYNCHRONOUS))
    asked = request()
    asked.status.name = status
    scheduler.schedule(asked)
    process.names()
    scheduler.update(finished=(asked,))
    events = process.hooked.events()
    assert ["kv.read.end", "sched.finish"] == [event.name for event in events]
    first: Any = events[0].attributes
    assert outcome == first.outcome


def test_a_hit_of_nothing_is_no_load(process: Process) -> None:
    """A request that the connector has nothing for is admitted and finished, and loads nothing."""
    scheduler = process.scheduler(ExampleConnector((0, False)))
    asked = request()
    scheduler.add(asked)
    scheduler.schedule(asked)
    scheduler.update(finished=(asked,))
    assert ["sched.admit", "sched.finish"] == process.names()


def test_the_child_that_served_is_named(process: Process) -> None:
    """MultiConnector takes the first child with tokens; its own class says nothing."""
    scheduler = process.scheduler(
        MultiConnector(ExampleConnector((0, False)), OffloadingConnector(ASYNCHRONOUS))
    )
    asked = request()
    scheduler.add(asked)
    scheduler.schedule(asked)
    scheduler.update(received=(ID,))
    scheduler.update(finished=(asked,))
    events = process.hooked.events()
    assert [
        "sched.admit",
        "sched.wait_remote",
        "kv.read.start",
        "kv.read.end",
        "sched.finish",
    ] == [event.name for event in events]
    assert {"OffloadingConnector"} == {
        event.attributes.connector
        for event in events
        if isinstance(event.attributes, KvReadStart | KvReadEnd | SchedWaitRemote)
    }


def nixl_class() -> type[NixlConnector]:
    """A NIXL connector whose class carries its own hooks, as vLLM's does."""
    made: type[NixlConnector] = type(
        "NixlConnector",
        (NixlConnector,),
        {
            "__module__": NixlConnector.__module__,
            "on_new_request": Base.on_new_request,
            "update_state_after_alloc": Base.update_state_after_alloc,
            "request_finished": Base.request_finished,
            "request_finished_all_groups": NixlConnector.request_finished_all_groups,
        },
    )
    return made


def wrap_nixl(hooked: Hooked, facade: type[NixlConnector]) -> None:
    """The hooks of the table on the NIXL class."""
    hooked.wrap(
        facade,
        on_new_request="core.admit",
        update_state_after_alloc="core.blocks",
        request_finished_all_groups="core.finish",
        request_finished="core.finish_one_group",
    )


@pytest.mark.parametrize("nixl_serves", [True, False])
def test_nixl_as_a_child_is_told_by_its_own_hooks_only(process: Process, nixl_serves: bool) -> None:
    """One admission, one wait or load, one finish a request, whichever child serves."""
    facade = nixl_class()
    wrap_nixl(process.hooked, facade)
    scheduler = process.scheduler(
        MultiConnector(facade(ASYNCHRONOUS if nixl_serves else (0, False)), ExampleConnector(SYNCHRONOUS))
    )
    asked = request()
    scheduler.add(asked)
    scheduler.schedule(asked)
    scheduler.update()
    scheduler.update(finished=(asked,))
    moved = ["sched.wait_remote"] if nixl_serves else ["kv.read.start", "kv.read.end"]
    assert ["sched.admit", *moved, "sched.finish"] == process.names()


def test_nixl_alone_is_not_watched_here(process: Process) -> None:
    """Its class has hooks; wrapping the object as well would tell everything twice."""
    process.scheduler(NixlConnector(ASYNCHRONOUS))
    process.worker(NixlConnector(ASYNCHRONOUS))
    assert [] == process.hooked.connectors.probes


def test_a_worker_names_the_rank_that_failed(process: Process) -> None:
    """Failed requests with their id, blocks without one: the connector tells no more on that side."""
    connector = process.worker(OffloadingConnector(), rank=3)
    process.names()
    connector.received, connector.failed, connector.invalid = {"r-1", "r-2"}, {"r-2"}, {8, 9}
    connector.get_transfer_results(set())
    connector.get_block_ids_with_load_errors()
    ended, blocks = process.hooked.events()
    assert (
        KvReadEnd(
            outcome="failed",
            failure_type="load_failed",
            stage="load",
            connector="OffloadingConnector",
            mode="other",
        )
        == ended.attributes
    )
    assert ("r-2", 3) == (ended.record.request_id, ended.record.rank)
    assert KvInvalidBlocks(invalid_blocks=2, connector="OffloadingConnector") == blocks.attributes
    assert ("", 3) == (blocks.record.request_id, blocks.record.rank)


def test_a_step_without_failures_tells_nothing(process: Process) -> None:
    """Workers are asked every step; only failures are worth an event."""
    connector = process.worker(OffloadingConnector())
    process.names()
    connector.received = {"r-1"}
    connector.start_load_kv(None)
    connector.get_transfer_results(set())
    connector.get_block_ids_with_load_errors()
    assert [] == process.names()


def test_an_older_worker_names_no_failed_requests(process: Process) -> None:
    """Before 0.30 there are no transfer results; the rest is watched all the same."""

    class Older(OffloadingConnector):
        """Has no such method."""

        get_transfer_results: Any = None

        def __getattribute__(self, name: str) -> Any:
            if name == "get_transfer_results":
                raise AttributeError(name)
            return super().__getattribute__(name)

    process.worker(Older())
    assert [] == process.hooked.reports
    assert {"connector.start_load_kv", "connector.get_block_ids_with_load_errors"} == {
        state.name for state in process.hooked.connectors.states()
    }


def load_that_raises(process: Process, rank: int = 0) -> list[tuple[str, int, KvReadEnd]]:
    """Request, rank and event of each end told when a worker's load raises; the engine sees its own exception."""
    worker = process.worker(ExampleConnector(), rank)
    worker.load_error = FileNotFoundError("gone")
    process.names()
    with pytest.raises(FileNotFoundError, match="gone"):
        worker.start_load_kv(None)
    return [
        (event.record.request_id, event.record.rank, event.attributes)
        for event in process.hooked.events()
        if isinstance(event.attributes, KvReadEnd)
    ]


@pytest.mark.parametrize("rank", [0, 2])
def test_a_load_that_raises_is_told_for_the_requests_of_the_step(process: Process, rank: int) -> None:
    """With one rank the process knows which requests were to be loaded; a worker of its own tells it without them."""
    if rank == 0:
        process.scheduler(ExampleConnector(SYNCHRONOUS)).schedule(request())
    ((request_id, told_rank, end),) = load_that_raises(process, rank)
    assert (ID if rank == 0 else "", rank) == (request_id, told_rank)
    assert ("failed", "exception", "load", "FileNotFoundError", "gone") == (
        end.outcome,
        end.failure_type,
        end.stage,
        end.error_class,
        end.error_message,
    )


def test_a_worker_without_nixl_reports_its_configuration(process: Process) -> None:
    """NIXL's own registration would do it; without it the process would have no engine."""
    process.worker(MultiConnector(ExampleConnector(), OffloadingConnector()), rank=1)
    event = process.hooked.only()
    assert isinstance(event.attributes, EngineConfig)
    assert (1, ENGINE_ID, "worker") == (
        event.record.rank,
        event.record.engine_id,
        process.hooked.emitter.process,
    )


def test_originals_are_back_after_uninstalling(process: Process) -> None:
    """No attribute of ours stays on the objects."""
    connector = MultiConnector(ExampleConnector(SYNCHRONOUS), OffloadingConnector())
    child = connector._connectors[0]
    before = dict(vars(connector)), dict(vars(child))
    process.scheduler(connector)
    assert before != (dict(vars(connector)), dict(vars(child)))
    process.hooked.connectors.uninstall()
    assert before == (dict(vars(connector)), dict(vars(child)))


def test_a_connector_of_another_shape_costs_its_evidence_only(process: Process) -> None:
    """A third party's signature that lacks a parameter is reported; the others are watched."""

    class Strange(ExampleConnector):
        """Other names of parameters."""

        def update_state_after_alloc(self, *anything: Any) -> None:
            """No parameter that could be relied on."""

    scheduler = process.scheduler(Strange(SYNCHRONOUS))
    asked = request()
    scheduler.add(asked)
    scheduler.schedule(asked)
    scheduler.update(finished=(asked,))
    assert ["sched.admit", "sched.finish"] == process.names()
    assert [("connector.update_state_after_alloc", "signature")] == [
        (report.hook, report.reason) for report in process.hooked.reports
    ]


def test_only_methods_that_every_connector_has_are_relied_on(process: Process) -> None:
    """The source check looks for exactly these in every connector of every release."""
    process.scheduler(OffloadingConnector())
    process.scheduler(ExampleConnector())
    process.worker(OffloadingConnector())
    watched = {state.name.removeprefix("connector.") for state in process.hooked.connectors.states()}
    assert {*INTERFACE, *ONLY_SOME} - {"get_finished"} == watched


def test_children_of_one_method_are_one_line_in_the_heartbeat(process: Process) -> None:
    """Names in heartbeats are unique; counts are summed and the worse state shows."""
    connector = MultiConnector(ExampleConnector(SYNCHRONOUS), OffloadingConnector())
    scheduler = process.scheduler(connector)
    scheduler.schedule(request())
    states = {state.name: state for state in process.hooked.connectors.states()}
    assert ("active", 2) == (
        states["connector.update_state_after_alloc"].state,
        states["connector.update_state_after_alloc"].calls,
    )
