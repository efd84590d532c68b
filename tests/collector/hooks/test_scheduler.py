"""What an engine core tells of a request, from admission to the release of its blocks."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tests.collector.hooks.hooked import SALTED, Event, Hooked

from falseok_collector.attributes import (
    MAX_BLOCK_IDS,
    EngineExit,
    KvOffer,
    KvRelease,
    SchedAdmit,
    SchedFinish,
    SchedPreempt,
    SchedResume,
    SchedWaitRemote,
)
from falseok_collector.events import attributes_of, decode
from falseok_collector.hashing import block_digest
from falseok_collector.hooks import parameters as parameters_module
from falseok_collector.hooks.parameters import read_parameters
from falseok_collector.hooks.scheduler import bounded
from falseok_collector.sinks.memory import MemorySink

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
PROMPT = list(range(100, 140))


class Connector:
    """Stands for the facade of the NIXL connector on the scheduler's side."""

    engine_id = "engine-here"

    def __init__(self) -> None:
        self.answer: tuple[bool, dict[str, Any] | None] = (False, None)

    def on_new_request(self, request: Any) -> None:
        """vLLM's own marks what it has taken in hand."""
        if request.kv_transfer_params:
            request.kv_transfer_params["do_remote_prefill"] = False
            request.kv_transfer_params["remote_block_ids"] = None

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        """Nothing of it matters here."""

    def request_finished_all_groups(self, request: Any, block_ids: Any) -> tuple[bool, dict[str, Any] | None]:
        """Whether blocks are kept, and what the router gets."""
        return self.answer


class Scheduler:
    """Stands for vLLM's scheduler."""

    def __init__(self) -> None:
        self.failed_recving_kv_req_ids: set[str] = set()
        self.recompute_kv_load_failures = False

    def _update_waiting_for_remote_kv(self, request: Any) -> None:
        self.failed_recving_kv_req_ids.discard(request.request_id)

    def _free_blocks(self, request: Any) -> None:
        request.freed = True

    def _preempt_request(self, request: Any, timestamp: float, drop_stale_output: bool = False) -> None:
        request.num_computed_tokens = 0

    def make_spec_decoding_stats(
        self, stats: Any, num_draft_tokens: int, num_accepted_tokens: int, request_id: str
    ) -> Any:
        """Sum up a verified draft."""
        return stats


def request(request_id: str = "cmpl-r-0-0123abcd", **changes: Any) -> Any:
    """A request as the scheduler holds it."""
    fields: dict[str, Any] = {
        "request_id": request_id,
        "kv_transfer_params": None,
        "trace_headers": {"traceparent": TRACE},
        "prompt_token_ids": list(PROMPT),
        "all_token_ids": list(PROMPT),
        "num_prompt_tokens": len(PROMPT),
        "num_computed_tokens": len(PROMPT),
        "num_output_tokens": 1,
        "prefill_stats": SimpleNamespace(num_cached_tokens=0),
        "num_preemptions": 0,
        "num_nans_in_logits": 0,
        "lora_request": None,
        "status": SimpleNamespace(name="FINISHED_LENGTH_CAPPED"),
        "get_finished_reason": lambda: "length",
    }
    return SimpleNamespace(**{**fields, **changes})


DECODE = {
    "do_remote_prefill": True,
    "remote_engine_id": "engine-there",
    "remote_request_id": "cmpl-r-0-fedc4321",
    "remote_block_ids": ([7, 8, 9], [3]),
    "remote_num_tokens": 40,
}
PREFILL = {"do_remote_decode": True}
OFFERED = {"remote_block_ids": ([1, 2, 3], [4]), "remote_num_tokens": 40}


@pytest.fixture
def hooked() -> Iterator[Hooked]:
    """All hooks of an engine core on the stand-ins."""
    process = Hooked()
    process.emitter.engine_id = "engine-here"
    process.wrap(
        Connector,
        on_new_request="core.admit",
        update_state_after_alloc="core.blocks",
        request_finished_all_groups="core.finish",
    )
    process.wrap(
        Scheduler,
        _update_waiting_for_remote_kv="core.resume",
        _free_blocks="core.free",
        _preempt_request="core.preempt",
        make_spec_decoding_stats="core.speculation",
    )
    yield process
    for probe in process.probes:
        probe.uninstall()


def pool_blocks(*block_ids: int) -> list[Any]:
    """Blocks as the pool hands them out."""
    return [SimpleNamespace(block_id=block_id) for block_id in block_ids]


def names(events: list[Event]) -> list[str]:
    """Names of events in order."""
    return [event.name for event in events]


def without_times(attributes: Any) -> Any:
    """Attributes with their durations, all plausible, set to 0."""
    durations = [name for name in attributes.__struct_fields__ if name.endswith("_seconds")]
    assert all(0 <= getattr(attributes, name) < 60 for name in durations)
    return msgspec.structs.replace(attributes, **dict.fromkeys(durations, 0.0))


def test_a_decode_leg_is_admitted_with_what_the_router_handed_on(hooked: Hooked) -> None:
    """Read before the connector changes it: transfer, digest of the offer, hash of the tokens prefill computed."""
    Connector().on_new_request(request(kv_transfer_params=dict(DECODE)))
    event = hooked.only()
    expected = SchedAdmit(
        leg="decode",
        remote_engine_id="engine-there",
        remote_request_id="cmpl-r-0-fedc4321",
        offer_digest=block_digest([[7, 8, 9], [3]]),
        remote_num_tokens=40,
        prompt_tokens=40,
        token_ids_hash=SALTED.of_tokens(PROMPT, 40),
        tokens_hashed=40,
        salt_id=SALTED.salt_id,
    )
    assert expected == event.attributes
    assert ("engine-here", "engine-there/cmpl-r-0-fedc4321", "cmpl-r-0-0123abcd", TRACE) == (
        event.record.engine_id,
        event.record.transfer_id,
        event.record.request_id,
        event.record.traceparent,
    )


def test_a_prefill_leg_names_its_own_transfer(hooked: Hooked) -> None:
    """The transfer is named by its producer on both sides."""
    lora = SimpleNamespace(lora_name="legal")
    Connector().on_new_request(request(kv_transfer_params=dict(PREFILL), lora_request=lora))
    event = hooked.only()
    assert isinstance(event.attributes, SchedAdmit)
    assert ("prefill", "", "legal") == (
        event.attributes.leg,
        event.attributes.offer_digest,
        event.attributes.lora,
    )
    assert "engine-here/cmpl-r-0-0123abcd" == event.record.transfer_id


def test_a_request_of_vllms_own_that_lets_prefill_go_is_nobodys_answer(hooked: Hooked) -> None:
    """It looks like a decode leg but is never answered to a client."""
    Connector().on_new_request(request(kv_transfer_params=dict(DECODE), abort_immediately=True))
    admit = hooked.only().attributes
    assert isinstance(admit, SchedAdmit)
    assert "cleanup" == admit.leg


def test_a_request_without_a_transfer_is_local(hooked: Hooked) -> None:
    """Nothing to join, no trace header, no token list: still one event."""
    Connector().on_new_request(request(trace_headers=None, prompt_token_ids=None))
    event = hooked.only()
    assert SchedAdmit(leg="local", prompt_tokens=40) == event.attributes
    assert ("", "") == (event.record.transfer_id, event.record.traceparent)


def test_a_parked_request_tells_what_it_waits_for(hooked: Hooked) -> None:
    """Tokens from remote, tokens found here, blocks per group; nothing when nothing is awaited."""
    connector, waiting = Connector(), request(kv_transfer_params=dict(DECODE))
    connector.on_new_request(waiting)
    hooked.events()
    blocks = SimpleNamespace(blocks=(pool_blocks(7, 8, 3, 5), pool_blocks(4)))
    connector.update_state_after_alloc(waiting, blocks, 20)
    event = hooked.only()
    expected = SchedWaitRemote(
        external_tokens=20,
        local_hit_tokens=20,
        prompt_tokens=40,
        block_counts=[4, 1],
        local_hit_block_ids=[[[7, 8]], []],
        remote_num_tokens=40,
        token_ids_hash=SALTED.of_tokens(PROMPT, 40),
        tokens_hashed=40,
        salt_id=SALTED.salt_id,
    )
    assert expected == event.attributes
    assert "engine-there/cmpl-r-0-fedc4321" == event.record.transfer_id
    connector.update_state_after_alloc(waiting, blocks, num_external_tokens=0)
    assert [] == hooked.events()


@pytest.mark.parametrize(
    ("failed", "computed", "branch", "policy"),
    [(False, 40, "resume", "fail"), (True, 0, "recompute", "recompute")],
    ids=["received", "failed"],
)
def test_the_branch_taken_after_the_wait(
    hooked: Hooked, *, failed: bool, computed: int, branch: str, policy: str
) -> None:
    """What the scheduler knew, and what it goes on from; under the policy `fail` a failed request never gets here."""
    connector, scheduler = Connector(), Scheduler()
    waiting = request(kv_transfer_params=dict(DECODE))
    connector.on_new_request(waiting)
    connector.update_state_after_alloc(waiting, SimpleNamespace(blocks=(pool_blocks(1),)), 24)
    hooked.events()
    scheduler.recompute_kv_load_failures = failed
    if failed:  # as `_update_requests_with_invalid_blocks` leaves it
        scheduler.failed_recving_kv_req_ids.add(waiting.request_id)
        waiting.num_computed_tokens = 0
    scheduler._update_waiting_for_remote_kv(waiting)
    event = hooked.only()
    expected = SchedResume(
        expected_tokens=24,
        computed_tokens_before=computed,
        computed_tokens_after=computed,
        scheduler_marked_failed=failed,
        policy=policy,
        branch=branch,
    )
    assert expected == without_times(event.attributes)
    assert "engine-there/cmpl-r-0-fedc4321" == event.record.transfer_id


def test_a_finished_decode_leg_offers_nothing(hooked: Hooked) -> None:
    """One `sched.finish`; the blocks go back without a release to report."""
    connector, scheduler = Connector(), Scheduler()
    done = request(kv_transfer_params=dict(DECODE), num_output_tokens=8)
    connector.on_new_request(done)
    done.prefill_stats.num_cached_tokens = 16  # when it is first scheduled
    done.prefill_stats = None  # with the first token
    hooked.events()
    connector.request_finished_all_groups(done, block_ids=([1],))
    scheduler._free_blocks(done)
    event = hooked.only()
    expected = SchedFinish(
        leg="decode",
        status="FINISHED_LENGTH_CAPPED",
        finish_reason="length",
        output_tokens=8,
        prompt_tokens=40,
        cached_tokens=16,
    )
    assert expected == without_times(event.attributes)


@pytest.mark.parametrize(
    ("failed", "kept", "expected"),
    [(False, 39, 39), (True, 16, 16), (True, 0, 8)],
    ids=["received", "failed in part", "failed and scheduled anew"],
)
def test_tokens_of_a_failed_receive_do_not_count_as_cached(
    hooked: Hooked, *, failed: bool, kept: int, expected: int
) -> None:
    """vLLM counts again only when it begins anew; what it cut off was computed here."""
    connector, scheduler = Connector(), Scheduler()
    waiting = request(kv_transfer_params=dict(DECODE))
    stats = waiting.prefill_stats
    connector.on_new_request(waiting)
    stats.num_cached_tokens = 39
    connector.update_state_after_alloc(waiting, SimpleNamespace(blocks=(pool_blocks(1),)), 39)
    waiting.num_computed_tokens = kept
    if failed:
        scheduler.failed_recving_kv_req_ids.add(waiting.request_id)
    scheduler._update_waiting_for_remote_kv(waiting)
    if failed and not kept:
        stats.num_cached_tokens = 8
    hooked.events()
    connector.request_finished_all_groups(waiting, block_ids=([1],))
    finish = hooked.events()[0].attributes
    assert isinstance(finish, SchedFinish)
    assert expected == finish.cached_tokens


def test_a_finished_prefill_leg_offers_its_blocks_until_they_are_freed(hooked: Hooked) -> None:
    """Finish, offer, release; the offer holds exactly the ids the router gets, and the hash decode can compare."""
    connector, scheduler = Connector(), Scheduler()
    connector.answer = (True, OFFERED)
    done = request(kv_transfer_params=dict(PREFILL))
    connector.on_new_request(done)
    assert (True, OFFERED) == connector.request_finished_all_groups(done, ([1, 2, 3], [4]))
    scheduler._free_blocks(done)
    scheduler._free_blocks(done)
    events = hooked.events()
    assert ["sched.admit", "sched.finish", "kv.offer", "kv.release"] == names(events)
    expected = KvOffer(
        block_ids=[[1, 2, 3], [4]],
        block_counts=[3, 1],
        digest=block_digest([[1, 2, 3], [4]]),
        computed_tokens=40,
        prompt_tokens=40,
        output_tokens=1,
        remote_num_tokens=40,
        token_ids_hash=SALTED.of_tokens(PROMPT, 40),
        tokens_hashed=40,
        salt_id=SALTED.salt_id,
    )
    assert expected == events[2].attributes
    assert KvRelease() == without_times(events[3].attributes)
    assert {"engine-here/cmpl-r-0-0123abcd"} == {event.record.transfer_id for event in events}


def test_prefill_and_decode_hash_the_same_tokens(hooked: Hooked) -> None:
    """Decode's prompt may be longer than what prefill computed: both hash what prefill told."""
    connector = Connector()
    connector.answer = (True, {**OFFERED, "remote_num_tokens": 32})
    prefill = request("p", kv_transfer_params=dict(PREFILL))
    connector.on_new_request(prefill)
    connector.request_finished_all_groups(prefill, ([1],))
    connector.on_new_request(request("d", kv_transfer_params={**DECODE, "remote_num_tokens": 32}))
    offer, admit = hooked.events()[-2:]
    assert isinstance(offer.attributes, KvOffer)
    assert isinstance(admit.attributes, SchedAdmit)
    assert 32 == offer.attributes.tokens_hashed
    assert offer.attributes.token_ids_hash == admit.attributes.token_ids_hash != ""


def test_a_long_list_of_blocks_is_cut_and_its_digest_is_not(hooked: Hooked) -> None:
    """4,096 ids travel; the digest is that of the whole offer."""
    blocks = [list(range(5_000)), list(range(10))]
    connector = Connector()
    connector.answer = (True, {"remote_block_ids": blocks})
    done = request(kv_transfer_params=dict(PREFILL))
    connector.on_new_request(done)
    connector.request_finished_all_groups(done, blocks)
    offer = hooked.events()[-1].attributes
    assert isinstance(offer, KvOffer)
    assert [list(range(MAX_BLOCK_IDS)), []] == offer.block_ids
    assert ([5_000, 10], True, block_digest(blocks)) == (offer.block_counts, offer.truncated, offer.digest)


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([[1, 2], [3]], ([[1, 2], [3]], False)),
        ([[1, 2, 3], [4]], ([[1, 2, 3], []], True)),
        ([[1, 2, 3, 4]], ([[1, 2, 3]], True)),
        ([], ([], False)),
    ],
)
def test_bounding_keeps_the_first_blocks(
    groups: list[list[int]], expected: tuple[list[list[int]], bool]
) -> None:
    """Over all groups together."""
    assert expected == bounded(groups, 3)


def test_a_request_seen_first_at_its_end_is_still_told(hooked: Hooked) -> None:
    """Hooks may be armed while requests are under way."""
    connector, scheduler = Connector(), Scheduler()
    done = request(kv_transfer_params=dict(PREFILL))
    scheduler._update_waiting_for_remote_kv(done)
    connector.request_finished_all_groups(done, ([1],))
    scheduler._free_blocks(done)
    assert ["sched.resume", "sched.finish"] == names(hooked.events())


class EngineCoreProc:
    """Stands for the process of an engine core."""

    def run_busy_loop(self) -> None:
        """Ends as vLLM's does, by an exception that its signal handler raised."""
        raise SystemExit


def test_the_end_of_the_loop_writes_the_last_events(hooked: Hooked) -> None:
    """vLLM kills what is slow to end: exit handlers may never run."""
    hooked.wrap(EngineCoreProc, run_busy_loop="core.loop")
    hooked.emitter.start()
    hooked.emitter.emit(SchedFinish())
    with pytest.raises(SystemExit):
        EngineCoreProc().run_busy_loop()
    (sink,) = hooked.emitter.sinks
    assert isinstance(sink, MemorySink)
    assert {"sched.finish", "engine.exit", "collector.heartbeat"} == {
        decode(line).name for line in sink.lines
    }
    assert sink.closed


@pytest.mark.parametrize(
    ("error", "reason"),
    [(SystemExit(0), "clean"), (KeyboardInterrupt(), "clean"), (IndexError("list"), "exception: IndexError")],
)
def test_how_a_loop_ended_is_told(hooked: Hooked, error: BaseException, reason: str) -> None:
    """An engine core that died of an exception did not end cleanly."""

    class Dying:
        def run_busy_loop(self) -> None:
            raise error

    hooked.wrap(Dying, run_busy_loop="core.loop")
    hooked.emitter.start()
    with pytest.raises(type(error)):
        Dying().run_busy_loop()
    (sink,) = hooked.emitter.sinks
    assert isinstance(sink, MemorySink)
    exits = [attributes_of(event) for event in map(decode, sink.lines) if event.name == "engine.exit"]
    assert [EngineExit(reason=reason)] == exits


def test_a_preempted_request_is_admitted_again(hooked: Hooked) -> None:
    """What it had, then its second blocks: how much of them remote KV is to fill; only once a preemption."""
    connector, scheduler = Connector(), Scheduler()
    running = request(kv_transfer_params=dict(DECODE), num_output_tokens=7)
    connector.on_new_request(running)
    connector.update_state_after_alloc(running, SimpleNamespace(blocks=(pool_blocks(1),)), 40)
    hooked.events()
    scheduler._preempt_request(running, 1.0)
    for _ in range(2):
        connector.update_state_after_alloc(running, SimpleNamespace(blocks=(pool_blocks(2),)), 0)
    preempt, again = (event.attributes for event in hooked.events())
    assert SchedPreempt(output_tokens=7) == preempt
    assert isinstance(again, SchedAdmit)
    assert ("preempted", 0, "engine-there") == (
        again.readmission,
        again.external_tokens,
        again.remote_engine_id,
    )


def test_a_recomputed_request_is_admitted_again(hooked: Hooked) -> None:
    """After a failed receive the next blocks are a readmission, with no token expected from remote."""
    connector, scheduler = Connector(), Scheduler()
    waiting = request(kv_transfer_params=dict(DECODE))
    connector.on_new_request(waiting)
    connector.update_state_after_alloc(waiting, SimpleNamespace(blocks=(pool_blocks(1),)), 40)
    scheduler.failed_recving_kv_req_ids.add(waiting.request_id)
    scheduler._update_waiting_for_remote_kv(waiting)
    hooked.events()
    connector.update_state_after_alloc(waiting, SimpleNamespace(blocks=(pool_blocks(1),)), 0)
    again = hooked.only().attributes
    assert isinstance(again, SchedAdmit)
    assert ("recompute", 0) == (again.readmission, again.external_tokens)


def test_drafts_are_summed_up_in_the_finish(hooked: Hooked) -> None:
    """Drafted and accepted tokens over all steps of this request; other requests do not count."""
    connector, scheduler = Connector(), Scheduler()
    done = request(kv_transfer_params=None)
    connector.on_new_request(done)
    for request_id, drafted, accepted in ((done.request_id, 4, 3), (done.request_id, 4, 1), ("other", 9, 9)):
        scheduler.make_spec_decoding_stats(
            None, request_id=request_id, num_draft_tokens=drafted, num_accepted_tokens=accepted
        )
    connector.request_finished_all_groups(done, ([1],))
    finish = hooked.events()[-1].attributes
    assert isinstance(finish, SchedFinish)
    assert (8, 4) == (finish.speculative_drafted_tokens, finish.speculative_accepted_tokens)


GARBAGE: list[tuple[Any, list[str]]] = [
    ({**DECODE, "remote_num_tokens": "x"}, ["remote_num_tokens"]),
    ({**DECODE, "remote_num_tokens": True}, ["remote_num_tokens"]),
    ({**DECODE, "remote_num_tokens": 2**70}, ["remote_num_tokens"]),
    ({**DECODE, "remote_num_tokens": -1}, ["remote_num_tokens"]),
    ({**DECODE, "remote_block_ids": 7}, ["remote_block_ids"]),
    ({**DECODE, "remote_block_ids": [7, 8]}, ["remote_block_ids"]),
    ({**DECODE, "remote_block_ids": [[2**80, "x", None, {}]]}, []),  # it has a digest of its own
    ({**DECODE, "remote_engine_id": ["x"]}, ["remote_engine_id"]),
    ({**DECODE, "remote_request_id": {}}, ["remote_request_id"]),
    (["do_remote_prefill"], ["kv_transfer_params"]),
    ("do_remote_prefill", ["kv_transfer_params"]),
]


@pytest.mark.parametrize(("parameters", "malformed"), GARBAGE)
def test_a_client_cannot_switch_a_hook_off(hooked: Hooked, parameters: Any, malformed: list[str]) -> None:
    """Twenty requests with garbage: each is admitted, each names what was wrong, and nothing counts as our error."""
    incoming = request()
    connector = _Ignorant()
    hooked.wrap(_Ignorant, on_new_request="core.admit")
    for _ in range(20):
        incoming.kv_transfer_params = parameters
        connector.on_new_request(incoming)
    admits = [event.attributes for event in hooked.events()]
    assert [malformed] * 20 == [admit.malformed for admit in admits if isinstance(admit, SchedAdmit)]
    assert {0} == {probe.errors for probe in hooked.probes}
    assert {"active"} == {probe.state for probe in hooked.probes}


class _Ignorant:
    """A connector that does not look at the parameters."""

    engine_id = "engine-here"

    def on_new_request(self, request: Any) -> None:
        """Take it as it is."""


@pytest.mark.parametrize(
    "parameters",
    [DECODE, PREFILL, {**DECODE, "remote_block_ids": [[1], "x"]}, {**DECODE, "remote_request_id": 0}],
    ids=["decode", "prefill", "groups that are none", "an id that is none"],
)
def test_the_quick_way_reads_what_the_careful_way_reads(
    monkeypatch: pytest.MonkeyPatch, parameters: dict[str, Any]
) -> None:
    """Well-formed parameters are read in one go, with the same result."""
    quick = read_parameters(parameters)
    monkeypatch.setattr(parameters_module, "_plain", lambda _: None)
    assert read_parameters(parameters) == quick
