"""Which offered blocks are given to someone else, when they are written, and whose they then are."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.collector.hooks.hooked import Hooked

from falseok_collector.attributes import KvPrefixReset, KvReuse
from falseok_collector.hooks import blocks as blocks_module
from falseok_collector.hooks.blocks import BlockObserver


class Pool:
    """Stands for `BlockPool`: hands out the blocks a test names."""

    def __init__(self) -> None:
        self.next_ids: list[int] = []

    def get_new_blocks(self, num_blocks: int) -> list[Any]:
        """The next blocks."""
        taken, self.next_ids = self.next_ids[:num_blocks], self.next_ids[num_blocks:]
        return [SimpleNamespace(block_id=block_id) for block_id in taken]

    def reset_prefix_cache(self) -> bool:
        """Always possible here."""
        return True


class Scheduler:
    """Stands for the scheduler and the cache manager that allocates for it."""

    def __init__(self) -> None:
        self.kv_cache_manager = SimpleNamespace(block_pool=Pool())
        self.requests: dict[str, list[int]] = {}

    def schedule(self) -> Any:
        """Allocate what a test put in `requests`."""
        for request_id, block_ids in self.requests.items():
            self.allocate_slots(SimpleNamespace(request_id=request_id), block_ids)
        self.requests = {}
        return SimpleNamespace()

    def allocate_slots(self, request: Any, block_ids: list[int]) -> None:
        """As `KVCacheManager.allocate_slots`: the owner is a local variable of a caller."""
        self.kv_cache_manager.block_pool.next_ids = list(block_ids)
        self.kv_cache_manager.block_pool.get_new_blocks(len(block_ids))

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> None:
        """The step is over."""


class Core:
    """An engine core with its block hooks."""

    def __init__(self) -> None:
        self.hooked = Hooked()
        self.observer: BlockObserver = self.hooked.scheduler.blocks
        self.scheduler = Scheduler()
        self.observer.use_pool_of(self.scheduler)
        self.hooked.wrap(Pool, get_new_blocks="core.allocate", reset_prefix_cache="core.prefix_reset")
        self.hooked.wrap(Scheduler, schedule="core.step", update_from_output="core.output")

    def step(self, **requests: list[int]) -> Any:
        """Schedule one step that allocates these blocks."""
        self.scheduler.requests = requests
        return self.scheduler.schedule()

    def reuses(self) -> list[tuple[str, KvReuse]]:
        """Request offered by and event, of every reuse told since the last look."""
        return [
            (event.record.request_id, event.attributes)
            for event in self.hooked.events()
            if isinstance(event.attributes, KvReuse)
        ]


@pytest.fixture
def core() -> Iterator[Core]:
    """An engine core on stand-ins."""
    made = Core()
    yield made
    for probe in made.hooked.probes:
        probe.uninstall()


def test_a_reuse_is_told_when_the_step_that_writes_is_over(core: Core) -> None:
    """Not at the allocation: the bytes stay until the step is executed. New owner and place in the offer are named."""
    core.observer.offer("here/r", "r", "", [[5, 6, 7], [9]])
    output = core.step(thief=[6, 7, 30])
    assert [] == core.reuses()
    core.scheduler.update_from_output(output, None)
    ((offered_by, reuse),) = core.reuses()
    assert ("r", 0, 0, 7, 2, 1, "thief") == (
        offered_by,
        reuse.group,
        reuse.index_from_end,
        reuse.block_id,
        reuse.blocks,
        reuse.step,
        reuse.new_owner,
    )


def test_a_block_is_told_once(core: Core) -> None:
    """Only the first re-allocation matters; later ones are nobody's loss."""
    core.observer.offer("here/r", "r", "", [[5]])
    for owner in ("first", "second"):
        core.scheduler.update_from_output(core.step(**{owner: [5]}), None)
    assert ["first"] == [reuse.new_owner for _, reuse in core.reuses()]


def test_an_allocation_without_offered_blocks_says_nothing(core: Core) -> None:
    """Most are."""
    core.observer.offer("here/r", "r", "", [[5]])
    core.scheduler.update_from_output(core.step(other=[8, 9]), None)
    assert [] == core.reuses()


def test_every_offer_of_a_shared_block_is_told(core: Core) -> None:
    """Two prompts with one prefix offer the same block through the prefix cache."""
    core.observer.offer("here/a", "a", "", [[5, 6]])
    core.observer.offer("here/b", "b", "", [[5, 7]])
    core.scheduler.update_from_output(core.step(thief=[5]), None)
    assert [("a", 1), ("b", 1)] == [(name, reuse.index_from_end) for name, reuse in core.reuses()]


def test_steps_under_way_at_once_are_told_in_order(core: Core) -> None:
    """Asynchronous scheduling begins a step before the output of the last one is here."""
    core.observer.offer("here/r", "r", "", [[5, 6]])
    first = core.step(one=[5])
    second = core.step(two=[6])
    core.scheduler.update_from_output(first, None)
    assert [1] == [reuse.step for _, reuse in core.reuses()]
    core.scheduler.update_from_output(second, None)
    assert [2] == [reuse.step for _, reuse in core.reuses()]


def test_another_pool_does_not_count(core: Core) -> None:
    """Its block ids mean other memory (a private pool exists from 0.30 on)."""
    core.observer.offer("here/r", "r", "", [[5]])
    other = Pool()
    other.next_ids = [5]
    other.get_new_blocks(1)
    core.scheduler.update_from_output(core.step(), None)
    assert [] == core.reuses()


def test_the_null_block_is_never_reused(core: Core) -> None:
    """Block 0 stands for what is outside a sliding window."""
    core.observer.offer("here/r", "r", "", [[0, 0, 5]])
    core.scheduler.update_from_output(core.step(other=[0]), None)
    assert [] == core.reuses()


def test_the_watch_table_is_bounded(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    """An offer beyond the bound is counted, and the next reuse says so."""
    monkeypatch.setattr(blocks_module, "_MAX_WATCHED_BLOCKS", 2)
    core.observer.offer("here/a", "a", "", [[5, 6]])
    core.observer.offer("here/b", "b", "", [[7]])
    core.scheduler.update_from_output(core.step(thief=[5, 7]), None)
    assert [("a", 1)] == [(name, reuse.offers_unwatched) for name, reuse in core.reuses()]


def test_a_cleared_prefix_cache_is_told(core: Core) -> None:
    """With the number of offered blocks that nobody has taken yet."""
    core.observer.offer("here/r", "r", "", [[5, 6]])
    core.scheduler.kv_cache_manager.block_pool.reset_prefix_cache()
    assert KvPrefixReset(successful=True, blocks=2) == core.hooked.only().attributes
