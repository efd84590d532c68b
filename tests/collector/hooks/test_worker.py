"""What a NIXL worker tells of its configuration, its handshakes and its reads."""

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import msgspec
import pytest
from tests.collector.hooks.hooked import Event, Hooked

from falseok_collector.attributes import EngineConfig, KvHandshake, KvReadEnd, KvReadStart
from falseok_collector.hashing import block_digest
from falseok_collector.hooks.worker import handshake_failure_type

LOCAL, REMOTE = "a" * 64, "b" * 64
MISMATCH = (
    f"NIXL compatibility hash mismatch. Local: {LOCAL}, Remote: {REMOTE}. "
    "Prefill and decode instances have incompatible configurations."
)


class NixlAgent:
    """Stands for the NIXL agent a worker owns."""

    def __init__(self) -> None:
        self.posted = 0
        self.broken: set[str] = set()

    def make_prepped_xfer(
        self, operation: str, local: int, indices: Any, remote: int, remote_indices: Any
    ) -> str:
        """A new handle."""
        self.posted += 1
        return f"handle-{self.posted}"

    def get_new_notifs(self) -> dict[str, list[bytes]]:
        """Messages of peers: none."""
        return {}

    def get_xfer_telemetry(self, handle: str) -> Any:
        """Bytes of a finished transfer."""
        if "telemetry" in self.broken:
            raise RuntimeError("no telemetry")
        return SimpleNamespace(totalBytes=4096)

    def release_xfer_handle(self, handle: str) -> None:
        """Forget the handle."""
        if "release" in self.broken:
            raise RuntimeError("busy")


class Topology:
    """Stands for the worker's knowledge of its peers."""

    def get_engine_info(self, engine_id: str) -> Any:
        """vLLM raises for an engine it does not know yet."""
        if engine_id != "engine-there":
            raise KeyError(engine_id)
        return SimpleNamespace(remote_block_size=16)


class Worker:
    """Stands for vLLM's connector worker: it does what a test tells it to do."""

    def __init__(self) -> None:
        self.engine_id = "engine-here"
        self.tp_rank = 1
        self.compat_hash = LOCAL
        self.enforce_compat_hash = True
        self.block_size = 16
        self.nixl_wrapper = NixlAgent()
        self.transfer_topo = Topology()
        self.vllm_config = SimpleNamespace()
        self._remote_agents: dict[str, Any] = {"engine-there": {}}
        self._recving_metadata: dict[str, Any] = {}

    def register_kv_caches(self, kv_caches: Any) -> None:
        """Allocate and advertise."""

    def _nixl_handshake(self, host: str, port: int, remote_tp_size: int, expected_engine_id: str) -> Any:
        if isinstance(host, BaseException):
            raise host
        return {(0, 0): "agent"}, 0.25

    def _log_failure(
        self,
        failure_type: str,
        req_id: str | None,
        msg: str = "",
        error: Any = None,
        meta: Any = None,
        **extra: Any,
    ) -> None:
        """Log."""

    def _handle_failed_transfer(self, req_id: str, handle: Any = None) -> None:
        """Give up."""

    def _read_blocks_for_req(self, req_id: str, meta: Any) -> None:
        self._recving_metadata[req_id] = meta
        meta.remote.block_ids = ["rewritten in place"]
        meta.act(self, req_id)


class Facade:
    """Stands for the connector the model runner asks for results."""

    def __init__(self, worker: Worker) -> None:
        self.connector_worker = worker
        self.received: set[str] = set()

    def get_finished(self, finished_req_ids: Any = None) -> tuple[set[str], set[str]]:
        """Up to 0.29: sent and received."""
        return set(), self.received

    def get_transfer_results(self, finished_req_ids: Any = None) -> Any:
        """From 0.30 on: a structure."""
        return SimpleNamespace(finished_sending=set(), finished_recving=self.received, failed_recving=set())


def post(handles: int, descriptors: int) -> Any:
    """A read that posts so many transfers."""

    def act(worker: Worker, req_id: str) -> None:
        for _ in range(handles):
            worker.nixl_wrapper.make_prepped_xfer("READ", 1, list(range(descriptors)), 2, [])

    return act


def nothing(worker: Worker, req_id: str) -> None:
    """A read that posts nothing."""


def meta(act: Any = nothing, engine_id: str = "engine-there") -> Any:
    """What the scheduler hands to the worker for one request."""
    remote = SimpleNamespace(engine_id=engine_id, request_id="r-there", block_ids=([7, 8, 9], [3]))
    return SimpleNamespace(remote=remote, local_block_ids=([1, 2, 3], [4]), act=act)


@pytest.fixture
def engine_modules(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """The modules of vLLM that the observers look into while an engine runs."""
    nixl = "vllm.distributed.kv_transfer.kv_connector.v1.nixl"
    names = ["vllm", "vllm.config", "vllm.config.utils", "vllm.envs", f"{nixl}.connector"]
    parts = nixl.split(".")
    names += [".".join(parts[:length]) for length in range(2, len(parts) + 1)]
    modules = {name: ModuleType(name) for name in names}
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(modules[parent], child, module)
    monkeypatch.setattr(modules["vllm"], "__version__", "0.27.0", raising=False)
    monkeypatch.setattr(modules["vllm.envs"], "VLLM_NIXL_SIDE_CHANNEL_HOST", "10.0.0.1", raising=False)
    monkeypatch.setattr(modules["vllm.envs"], "VLLM_NIXL_SIDE_CHANNEL_PORT", 5600, raising=False)
    facade = type("NixlBaseConnector", (), {})
    monkeypatch.setattr(modules[f"{nixl}.connector"], "NixlBaseConnector", facade, raising=False)
    return modules


@pytest.fixture
def hooked(engine_modules: dict[str, ModuleType]) -> Iterator[Hooked]:
    """All hooks of a worker on the stand-ins."""
    process = Hooked()
    process.wrap(
        Worker,
        register_kv_caches="worker.register_kv_caches",
        _nixl_handshake="worker.handshake",
        _log_failure="worker.log_failure",
        _handle_failed_transfer="worker.failed_transfer",
        _read_blocks_for_req="worker.read",
    )
    process.wrap(Facade, get_finished="worker.results", get_transfer_results="worker.results")
    yield process
    for probe in process.probes:
        probe.uninstall()


@pytest.fixture
def worker(hooked: Hooked) -> Worker:
    """A worker that has registered its caches; what it said about that is not looked at."""
    registered = Worker()
    registered.register_kv_caches({})
    hooked.events()
    return registered


def start(event: Event) -> KvReadStart:
    """The start of a read."""
    assert isinstance(event.attributes, KvReadStart)
    return event.attributes


def end(event: Event) -> KvReadEnd:
    """The end of a read, its duration plausible and set to 0."""
    assert isinstance(event.attributes, KvReadEnd)
    assert 0 <= event.attributes.duration_seconds < 60
    return msgspec.structs.replace(event.attributes, duration_seconds=0.0)


def test_registration_reports_the_configuration(hooked: Hooked) -> None:
    """With the rank, and from then on the process knows its engine and its group."""
    Worker().register_kv_caches({})
    event = hooked.only()
    assert isinstance(event.attributes, EngineConfig)
    assert ("worker", LOCAL, False, "0.27.0") == (
        event.attributes.process,
        event.attributes.compatibility_hash,
        event.attributes.reports_failed_receives,
        event.attributes.versions["vllm"],
    )
    assert ("engine-here", 1) == (event.record.engine_id, event.record.rank)
    assert ("engine-here", "worker", "10.0.0.1:5600") == (
        hooked.emitter.engine_id,
        hooked.emitter.process,
        hooked.emitter.group,
    )


def test_factors_of_the_hash_are_captured_and_the_engine_is_left_as_it_was(
    hooked: Hooked, engine_modules: dict[str, ModuleType]
) -> None:
    """What the engine hashed, under its own names; its function is back in place afterwards."""
    utils: Any = engine_modules["vllm.config.utils"]
    module: Any = ModuleType("base_worker")

    def hash_factors(factors: dict[str, Any]) -> str:
        return f"hash of {len(factors)}"

    def compute_nixl_compatibility_hash(vllm_config: Any) -> str:
        return str(utils.hash_factors({"dtype": "torch.bfloat16", "num_kv_heads": 2}))

    utils.hash_factors = hash_factors
    module.compute_nixl_compatibility_hash = compute_nixl_compatibility_hash
    hooked.wrap(module, compute_nixl_compatibility_hash="worker.compatibility_hash")
    assert "hash of 2" == module.compute_nixl_compatibility_hash({})
    assert utils.hash_factors is hash_factors
    Worker().register_kv_caches({})
    config = hooked.only().attributes
    assert isinstance(config, EngineConfig)
    assert {"dtype": "torch.bfloat16", "num_kv_heads": 2} == config.factors
    assert {"dtype": "bfloat16", "num_kv_heads": "2"} == config.factors_compared


def test_a_hash_that_cannot_be_computed_leaves_the_engine_as_it_was(
    hooked: Hooked, engine_modules: dict[str, ModuleType]
) -> None:
    """Its error passes, and its function is back in place."""
    utils: Any = engine_modules["vllm.config.utils"]
    module: Any = ModuleType("base_worker")

    def hash_factors(factors: dict[str, Any]) -> str:
        raise TypeError("not serialisable")

    utils.hash_factors = hash_factors
    module.compute_nixl_compatibility_hash = lambda vllm_config: utils.hash_factors({})
    hooked.wrap(module, compute_nixl_compatibility_hash="worker.compatibility_hash")
    with pytest.raises(TypeError, match="not serialisable"):
        module.compute_nixl_compatibility_hash({})
    assert utils.hash_factors is hash_factors


def test_an_accepted_handshake(hooked: Hooked, worker: Worker) -> None:
    """With the peer's clock offset, whose error is half the time it took."""
    worker._nixl_handshake("10.0.0.2", 5601, 1, expected_engine_id="engine-there")
    event = hooked.only()
    handshake = event.attributes
    assert isinstance(handshake, KvHandshake)
    assert ("ok", "engine-there", "10.0.0.2", 5601, LOCAL, True, 0.25) == (
        handshake.outcome,
        handshake.remote_engine_id,
        handshake.remote_host,
        handshake.remote_port,
        handshake.local_hash,
        handshake.enforce_handshake_compat,
        handshake.clock_offset_seconds,
    )
    assert handshake.duration_seconds / 2 == handshake.clock_offset_error_seconds
    assert ("engine-here", 1) == (event.record.engine_id, event.record.rank)


def test_a_refused_handshake(hooked: Hooked, worker: Worker) -> None:
    """The exception passes; kind, both hashes and the message are told."""
    error: Any = RuntimeError(MISMATCH + " " + "x" * 3_000)
    with pytest.raises(RuntimeError, match="hash mismatch") as caught:
        worker._nixl_handshake(error, 5601, 1, "engine-there")
    assert caught.value is error
    handshake = hooked.only().attributes
    assert isinstance(handshake, KvHandshake)
    assert ("failed", "hash_mismatch", LOCAL, REMOTE, "RuntimeError", 2_000, None) == (
        handshake.outcome,
        handshake.failure_type,
        handshake.local_hash,
        handshake.remote_hash,
        handshake.exception_class,
        len(handshake.exception_message),
        handshake.clock_offset_seconds,
    )


class Again(Exception):  # noqa: N818 - the name ZeroMQ gives it
    """Like `zmq.error.Again`."""

    __module__ = "zmq.error"


@pytest.mark.parametrize(
    ("error", "failure_type"),
    [
        (RuntimeError(MISMATCH), "hash_mismatch"),
        (RuntimeError("Remote NIXL agent engine ID mismatch. Expected X,received Y."), "engine_id_mismatch"),
        (RuntimeError("Failed to decode NixlHandshakePayload. Error: x"), "undecodable"),
        (RuntimeError("Failed to decode NixlAgentMetadata. Error: x"), "undecodable"),
        (Again("Resource temporarily unavailable"), "unreachable"),
        (NotImplementedError("Remote NixlConnector PCP+DCP does not span"), "unsupported"),
        (AssertionError("KV block_len 1 must equal 2"), "layout_mismatch"),
        (AssertionError(), "layout_mismatch"),
        (ValueError("CSA-linear NIXL requires both endpoints"), "layout_mismatch"),
        (RuntimeError("Heterogeneous TP expects same kv_cache_layout"), "layout_mismatch"),
        (RuntimeError("something else"), "other"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_kinds_of_failed_handshakes(error: BaseException, failure_type: str) -> None:
    """By exception class and by the messages of vLLM 0.26 to 0.33."""
    assert failure_type == handshake_failure_type(error)


def test_a_read_that_succeeds(hooked: Hooked, worker: Worker) -> None:
    """Start with the offer's digest as it came in, end with bytes and handles when the worker reports it."""
    facade = Facade(worker)
    worker._read_blocks_for_req("r", meta(post(handles=2, descriptors=3)))
    started = hooked.only()
    expected = KvReadStart(
        remote_engine_id="engine-there",
        remote_request_id="r-there",
        offer_digest=block_digest([[7, 8, 9], [3]]),
        mode="read",
        remote_block_counts=[3, 1],
        local_block_counts=[3, 1],
        handles_posted=2,
        descriptors=6,
        local_block_size=16,
        remote_block_size=16,
    )
    assert expected == start(started)
    assert ("r", "engine-there/r-there", 1) == (
        started.record.request_id,
        started.record.transfer_id,
        started.record.rank,
    )
    facade.get_finished()
    assert [] == hooked.events()
    for handle in ("handle-1", "handle-2"):
        worker.nixl_wrapper.get_xfer_telemetry(handle)
        worker.nixl_wrapper.release_xfer_handle(handle)
    facade.received = {"r"}
    facade.get_finished()
    facade.get_finished()
    expected_end = KvReadEnd(
        remote_engine_id="engine-there",
        remote_request_id="r-there",
        outcome="ok",
        bytes=8192,
        descriptors=6,
        handles=2,
    )
    assert expected_end == end(hooked.only())


def test_results_of_later_versions_are_read_as_well(hooked: Hooked, worker: Worker) -> None:
    """From 0.30 on they come as a structure."""
    facade = Facade(worker)
    worker._read_blocks_for_req("r", meta(post(1, 1)))
    facade.received = {"r", "unknown"}
    facade.get_transfer_results()
    assert ["kv.read.start", "kv.read.end"] == [event.name for event in hooked.events()]


def test_a_full_local_hit_only_notifies(hooked: Hooked, worker: Worker) -> None:
    """Nothing to fetch from a connected peer: start and end at once."""
    worker._read_blocks_for_req("r", meta())
    started, ended = hooked.events()
    assert ("notify_only", 0) == (start(started).mode, start(started).handles_posted)
    assert "skipped" == end(ended).outcome


def test_a_read_that_waits_for_the_handshake(hooked: Hooked, worker: Worker) -> None:
    """The peer is not known yet: the read is called again later."""
    worker._read_blocks_for_req("r", meta(engine_id="engine-unknown"))
    assert ("deferred", 0) == (start(event := hooked.only()).mode, start(event).remote_block_size)


def test_a_read_that_is_declined_without_a_log_line(hooked: Hooked, worker: Worker) -> None:
    """An expired offer of a second turn: the engine just gives up."""

    def decline(reader: Worker, req_id: str) -> None:
        reader._handle_failed_transfer(req_id)

    worker._read_blocks_for_req("r", meta(decline))
    ended, started = hooked.events()
    assert ("failed", "declined", "setup") == (end(ended).outcome, end(ended).failure_type, end(ended).stage)
    assert "declined" == start(started).mode


def test_a_read_that_raises(hooked: Hooked, worker: Worker) -> None:
    """The worker usually dies of it; the exception passes."""

    def crash(reader: Worker, req_id: str) -> None:
        raise AssertionError("KV pages do not cover the requested range")

    with pytest.raises(AssertionError, match="KV pages"):
        worker._read_blocks_for_req("r", meta(crash))
    ended = end(hooked.only())
    assert ("failed", "exception", "setup", "AssertionError") == (
        ended.outcome,
        ended.failure_type,
        ended.stage,
        ended.error_class,
    )


@pytest.mark.parametrize(
    ("failure_type", "stage"),
    [
        ("handshake_failed", "handshake"),
        ("transfer_setup_failed", "setup"),
        ("transfer_failed", "check"),
        ("transfer_exception", "check"),
        ("notification_failed", "notify"),
        ("transfer_release_failed", "release"),
    ],
)
def test_every_logged_failure_ends_a_read(
    hooked: Hooked, worker: Worker, failure_type: str, stage: str
) -> None:
    """Even one that never began."""
    error = RuntimeError("x" * 3_000)
    worker._log_failure(failure_type, "r", error=error, meta=meta(), xfer_state="ERR")
    event = hooked.only()
    expected = KvReadEnd(
        remote_engine_id="engine-there",
        remote_request_id="r-there",
        outcome="failed",
        failure_type=failure_type,
        stage=stage,
        nixl_state="ERR",
        post_processing_due=False,
        error_class="RuntimeError",
        error_message="x" * 2_000,
    )
    assert expected == end(event)
    assert "engine-there/r-there" == event.record.transfer_id


def test_a_failure_without_a_request_is_the_handshakes(hooked: Hooked, worker: Worker) -> None:
    """It is told once, by the handshake."""
    worker._log_failure("handshake_setup_failed", None)
    assert [] == hooked.events()


def test_a_failed_read_is_not_reported_as_received(hooked: Hooked, worker: Worker) -> None:
    """vLLM 0.26 to 0.29 tell the scheduler that it finished: that is the very lie."""
    facade = Facade(worker)
    worker._read_blocks_for_req("r", meta(post(1, 1)))
    worker._log_failure("transfer_failed", "r", xfer_state="ERR")
    worker._handle_failed_transfer("r")
    facade.received = {"r"}
    facade.get_finished()
    assert ["kv.read.start", "kv.read.end"] == [event.name for event in hooked.events()]


@pytest.mark.parametrize("failure_type", ["notification_failed", "transfer_release_failed"])
def test_a_failure_after_the_bytes_arrived_does_not_spoil_the_read(
    hooked: Hooked, worker: Worker, failure_type: str
) -> None:
    """Both are told: what failed, and that the data was received."""
    facade = Facade(worker)
    worker._read_blocks_for_req("r", meta(post(1, 1)))
    worker._log_failure(failure_type, "r")
    facade.received = {"r"}
    facade.get_finished()
    assert ["failed", "ok"] == [end(event).outcome for event in hooked.events()[1:]]


@pytest.mark.parametrize(
    ("call", "stage"), [("get_xfer_telemetry", "telemetry"), ("release_xfer_handle", "release")]
)
def test_the_call_that_failed_tells_the_stage(hooked: Hooked, worker: Worker, call: str, stage: str) -> None:
    """vLLM logs the same words whether a transfer failed or only the look at a finished one."""
    worker._read_blocks_for_req("r", meta(post(1, 1)))
    worker.nixl_wrapper.broken = {stage}
    with pytest.raises(RuntimeError):
        getattr(worker.nixl_wrapper, call)("handle-1")
    worker._log_failure("transfer_exception", "r")
    assert stage == end(hooked.events()[-1]).stage


@pytest.mark.parametrize(
    ("attribute", "value"),
    [("use_host_buffer", True), ("enable_permute_local_kv", True), ("block_size", 32)],
)
def test_whether_received_blocks_still_needed_conversion(
    hooked: Hooked, worker: Worker, attribute: str, value: Any
) -> None:
    """Then even bytes that arrived are no answer yet."""
    setattr(worker, attribute, value)
    worker._log_failure("transfer_failed", "r", meta=meta())
    assert end(hooked.only()).post_processing_due


def test_transfers_that_are_no_reads_of_ours_do_no_harm(hooked: Hooked, worker: Worker) -> None:
    """Heartbeats and other uses of the agent."""
    agent = worker.nixl_wrapper
    handle = agent.make_prepped_xfer("WRITE", 1, [], 2, [])
    agent.get_xfer_telemetry(handle)
    agent.release_xfer_handle(handle)
    agent.release_xfer_handle(handle)
    assert [] == hooked.events()
