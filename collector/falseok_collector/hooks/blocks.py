"""What the block pool shows: offered blocks that are given to someone else, and prefix caches that are cleared.

Sources: `vllm.v1.core.block_pool.BlockPool`, `vllm.v1.core.sched.scheduler.Scheduler` of vLLM 0.26 to 0.33.
Release is not reuse: bytes stay in a block until a later step writes it. That step is over when the scheduler
gets its output (`update_from_output`), and only then a `kv.reuse` is sent.
"""

import sys
import time
from collections import deque
from types import FrameType
from typing import Any

import msgspec

from falseok_collector.attributes import KvPrefixReset, KvReuse
from falseok_collector.emitter import Emitter
from falseok_collector.hashing import KeyedHash
from falseok_collector.hooks.probe import Call

_MAX_WATCHED_BLOCKS = 1_048_576
_MAX_STEPS_UNDER_WAY = 64
_MAX_OFFERS_A_BLOCK = 4
_MAX_FRAMES = 24


class OfferedGroup(msgspec.Struct, eq=False):
    """One KV group of one offer: enough to say which of its blocks was taken."""

    transfer_id: str
    request_id: str
    traceparent: str
    group: int
    block_ids: list[int]


class Taken(msgspec.Struct):
    """Blocks of one offered group that one allocation took; not told yet."""

    offered: OfferedGroup
    block_ids: list[int]
    step: int
    new_owner: str
    allocated_ns: int


class DeferredReuse(msgspec.Struct):
    """A reuse to be told; where in the offer its blocks were is found out by the sender, for offers may be long."""

    taken: Taken
    written_ns: int
    offers_unwatched: int

    def finish(self, keyed_hash: KeyedHash) -> KvReuse:  # noqa: ARG002 - the protocol's signature
        """Find the block nearest to the end of the offered list."""
        taken = self.taken
        places = {block_id: place for place, block_id in enumerate(reversed(taken.offered.block_ids))}
        nearest = min(taken.block_ids, key=places.__getitem__)
        return KvReuse(
            group=taken.offered.group,
            index_from_end=places[nearest],
            block_id=nearest,
            blocks=len(taken.block_ids),
            step=taken.step,
            allocated_seconds=(self.written_ns - taken.allocated_ns) / 1e9,
            new_owner=taken.new_owner,
            offers_unwatched=self.offers_unwatched,
        )


class BlockObserver:
    """Watches the offered blocks of one engine core until each is given out again."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._pool: Any = None
        self._watched: dict[int, tuple[OfferedGroup, ...]] = {}
        self._taken: list[Taken] = []
        self._under_way: deque[tuple[Any, list[Taken]]] = deque(maxlen=_MAX_STEPS_UNDER_WAY)
        self._step = 0
        self.offers_unwatched = 0

    def use_pool_of(self, scheduler: Any) -> None:
        """Only this scheduler's own pool counts; others exist from 0.30 on."""
        self._pool = scheduler.kv_cache_manager.block_pool

    def offer(self, transfer_id: str, request_id: str, traceparent: str, groups: list[list[int]]) -> None:
        """Watch the blocks of an offer. A block that several offers share is watched for all of them."""
        if len(self._watched) + sum(map(len, groups)) > _MAX_WATCHED_BLOCKS:
            self.offers_unwatched += 1
            return
        watched = self._watched
        for number, block_ids in enumerate(groups):
            group = OfferedGroup(transfer_id, request_id, traceparent, number, block_ids)
            shared = watched.keys() & set(block_ids)
            earlier = {block_id: watched[block_id] for block_id in shared}
            watched.update(dict.fromkeys(block_ids, (group,)))
            for block_id, offers in earlier.items():
                watched[block_id] = (*offers, group)[-_MAX_OFFERS_A_BLOCK:]
            watched.pop(0, None)  # the null block stands for blocks outside a window; nobody owns it

    def after_new_blocks(self, call: Call, state: Any, result: Any) -> None:  # noqa: ARG002
        """Blocks leave the free queue: were they offered?"""
        watched = self._watched
        if not watched or call.instance is not self._pool:
            return
        found: dict[int, Taken] = {}
        for block in result:
            offers = watched.pop(block.block_id, None)
            if offers is None:
                continue
            for offered in offers:
                taken = found.get(id(offered))
                if taken is None:
                    taken = found[id(offered)] = Taken(offered, [], self._step, "", time.monotonic_ns())
                taken.block_ids.append(block.block_id)
        if found:
            owner = _new_owner(sys._getframe())  # noqa: SLF001 - the pool is not told for whom it allocates
            for taken in found.values():
                taken.new_owner = owner
            self._taken.extend(found.values())

    def before_schedule(self, call: Call) -> None:  # noqa: ARG002
        """A step begins."""
        self._step += 1

    def after_schedule(self, call: Call, state: Any, result: Any) -> None:  # noqa: ARG002
        """What was taken for this step is written while `result` is being executed."""
        if self._taken:
            self._under_way.append((result, self._taken))
            self._taken = []

    def before_update(self, call: Call) -> None:
        """A step's output is here: its blocks are written, and so are those of steps before it."""
        under_way = self._under_way
        if not under_way:
            return
        output = call.argument("scheduler_output")
        if all(step is not output for step, _ in under_way):
            return
        while under_way:
            step, taken = under_way.popleft()
            for one in taken:
                self._tell(one)
            if step is output:
                return

    def after_reset(self, call: Call, state: Any, result: Any) -> None:  # noqa: ARG002
        """The prefix cache was cleared, or not."""
        if call.instance is not self._pool:
            return
        self._emitter.emit(KvPrefixReset(successful=bool(result), blocks=len(self._watched)))

    def _tell(self, taken: Taken) -> None:
        offered = taken.offered
        self._emitter.emit(
            DeferredReuse(taken, time.monotonic_ns(), self.offers_unwatched),
            request_id=offered.request_id,
            transfer_id=offered.transfer_id,
            traceparent=offered.traceparent,
        )


def _new_owner(frame: FrameType | None) -> str:
    """Whose blocks these are: the allocating callers hold the request or its id as a local variable.

    Only on a hit, since looking is dearer than watching (`KVCacheManager.allocate_slots`, 0.26 to 0.33).
    """
    for _ in range(_MAX_FRAMES):
        if frame is None:
            return ""
        values = frame.f_locals if frame.f_code.co_name in _ALLOCATING else {}
        request = values.get("request")
        owner = values.get("request_id") or getattr(request, "request_id", "")
        if owner:
            return str(owner)
        frame = frame.f_back
    return ""


_ALLOCATING = frozenset({"allocate_new_blocks", "allocate_new_computed_blocks", "allocate_slots"})
