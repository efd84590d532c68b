"""Stand-ins for vLLM's connectors and for the calls its scheduler and model runner make, in their order."""

from enum import Enum
from types import SimpleNamespace
from typing import Any

ENGINE_ID = "engine-here"
Answer = tuple[bool, dict[str, Any] | None]
Hit = tuple[int | None, bool]


class Role(Enum):
    """Like vLLM's `KVConnectorRole`."""

    SCHEDULER = 0
    WORKER = 1


class SupportsHMA:
    """Like the mark of connectors that know several KV cache groups."""

    def request_finished_all_groups(self, request: Any, block_ids: Any) -> Answer:
        """Every one of them has it."""
        raise NotImplementedError


class Base:
    """Like `KVConnectorBase_V1`: the methods every connector has."""

    def __init__(self, hit: Hit = (0, False)) -> None:
        self.hit = hit
        self.received: set[str] = set()
        self.failed: set[str] = set()
        self.invalid: set[int] = set()
        self.load_error: Exception | None = None

    def on_new_request(self, request: Any) -> None:
        """Nothing by default."""

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> Hit:
        """Tokens it has, and whether the request waits for them."""
        return self.hit

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        """Nothing by default."""

    def build_connector_meta(self, scheduler_output: Any) -> Any:
        """What the workers have to do in this step."""
        return scheduler_output

    def update_connector_output(self, connector_output: Any) -> None:
        """Nothing by default."""

    def request_finished(self, request: Any, block_ids: Any) -> Answer:
        """Blocks are not kept by default."""
        return False, None

    def take_events(self) -> Any:
        """No cache events by default."""
        return ()

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        """Load what this step needs."""
        if self.load_error is not None:
            raise self.load_error

    def get_block_ids_with_load_errors(self) -> set[int]:
        """Blocks that could not be filled."""
        return self.invalid

    def get_transfer_results(self, finished_req_ids: set[str]) -> Any:
        """What ended since the last step (0.30 and later)."""
        return SimpleNamespace(
            finished_sending=set(), finished_recving=self.received, failed_recving=self.failed
        )


class ExampleConnector(Base):
    """A synchronous loader that knows one KV cache group."""


class OffloadingConnector(SupportsHMA, Base):
    """A loader that requests wait for."""

    def request_finished_all_groups(self, request: Any, block_ids: Any) -> Answer:
        """As `request_finished`."""
        return self.request_finished(request, block_ids)


class NixlConnector(SupportsHMA, Base):
    """Lives in NIXL's package, as far as the watch can tell."""

    __module__ = "vllm.distributed.kv_transfer.kv_connector.v1.nixl.connector"
    engine_id = ENGINE_ID

    def request_finished_all_groups(self, request: Any, block_ids: Any) -> Answer:
        """Asks the scheduler's half."""
        return False, None


class MultiConnector(SupportsHMA, Base):
    """Loads from the first child that has tokens."""

    def __init__(self, *children: Base) -> None:
        super().__init__()
        self._connectors = list(children)
        self._chosen: dict[str, int] = {}

    def on_new_request(self, request: Any) -> None:
        """Passed on to every child."""
        for child in self._connectors:
            child.on_new_request(request)

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> Hit:
        """What the first child with tokens has."""
        for index, child in enumerate(self._connectors):
            hit = child.get_num_new_matched_tokens(request, num_computed_tokens)
            if hit[0]:
                self._chosen[request.request_id] = index
                return hit
        return 0, False

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        """The chosen child is told the tokens, the others none."""
        chosen = self._chosen.get(request.request_id)
        for index, child in enumerate(self._connectors):
            child.update_state_after_alloc(request, blocks, num_external_tokens if index == chosen else 0)

    def request_finished(self, request: Any, block_ids: Any) -> Answer:
        """Every child is told."""
        for child in self._connectors:
            child.request_finished(request, block_ids)
        return False, None

    def request_finished_all_groups(self, request: Any, block_ids: Any) -> Answer:
        """The way of vLLM when one child knows one group only."""
        return self.request_finished(request, block_ids[0])


class Factory:
    """Like `KVConnectorFactory`."""

    @classmethod
    def create_connector(cls, config: Any, role: Role, kv_cache_config: Any) -> Any:
        """The connector that the configuration names; here it is in it."""
        return config.connector


class Scheduler:
    """The scheduler's calls of its connector, in the order of `schedule` and `update_from_output`."""

    def __init__(self, connector: Any) -> None:
        self.connector = connector
        self.failed_recving_kv_req_ids: set[str] = set()
        self.recompute_kv_load_failures = False
        self.unusable: set[str] = set()

    def add(self, request: Any) -> None:
        """A request comes in."""
        self.connector.on_new_request(request)

    def schedule(self, *requests: Any, asked: int = 1) -> None:
        """One step in which these requests get their blocks; others are asked about more than once."""
        for request in requests:
            for _ in range(asked):
                tokens, _waits = self.connector.get_num_new_matched_tokens(request, 16)
            blocks = SimpleNamespace(blocks=([SimpleNamespace(block_id=number) for number in (1, 2, 3)],))
            self.connector.update_state_after_alloc(request, blocks, tokens)
        self.connector.build_connector_meta("step")

    def update(
        self,
        received: tuple[str, ...] = (),
        failed: tuple[str, ...] = (),
        invalid: tuple[int, ...] = (),
        finished: tuple[Any, ...] = (),
    ) -> None:
        """The output of the oldest step is processed."""
        output = SimpleNamespace(
            finished_recving=set(received), failed_recving=set(failed), invalid_block_ids=set(invalid)
        )
        if invalid:
            self._handle_invalid_blocks(output.invalid_block_ids, {})
        for request in finished:
            self.finish(request)
        self.connector.update_connector_output(output)
        self.connector.take_events()

    def finish(self, request: Any) -> None:
        """A request leaves."""
        if isinstance(self.connector, SupportsHMA):
            self.connector.request_finished_all_groups(request, ([1],))
        else:
            self.connector.request_finished(request, [1])

    def _handle_invalid_blocks(
        self,
        invalid_block_ids: set[int],
        num_scheduled_tokens: dict[str, int],
    ) -> set[str]:
        """Requests to fail are returned; with recompute those that wait are marked instead."""
        if self.recompute_kv_load_failures:
            self.failed_recving_kv_req_ids |= self.unusable
            return set()
        return self.unusable


def config(connector: Any, rank: int = 0) -> Any:
    """Like vLLM's configuration, as far as a watch reads it."""
    return SimpleNamespace(
        connector=connector,
        kv_transfer_config=SimpleNamespace(engine_id=ENGINE_ID),
        parallel_config=SimpleNamespace(rank=rank),
    )


def request(request_id: str = "cmpl-r-0-0123abcd", **changes: Any) -> Any:
    """A request as the scheduler holds it."""
    fields: dict[str, Any] = {
        "request_id": request_id,
        "kv_transfer_params": None,
        "trace_headers": None,
        "prompt_token_ids": [7] * 48,
        "all_token_ids": [7] * 48,
        "num_prompt_tokens": 48,
        "num_computed_tokens": 48,
        "num_output_tokens": 1,
        "num_cached_tokens": 0,
        "num_preemptions": 0,
        "num_nans_in_logits": 0,
        "prefill_stats": None,
        "lora_request": None,
        "status": SimpleNamespace(name="FINISHED_STOPPED"),
        "get_finished_reason": lambda: "stop",
    }
    return SimpleNamespace(**(fields | changes))
