"""The ring between the hooks and the sender: bounded, in order, and honest about what it lost."""

import threading

from falseok_collector.attributes import SchedPreempt
from falseok_collector.ring import Record, Ring


def record(ring: Ring) -> Record:
    """A record with the ring's next number."""
    return Record(ring.next_number(), 0, 0, SchedPreempt(), "", -1, "", "", "", "")


def test_records_come_out_in_order_and_once() -> None:
    """Oldest first, at most as many as asked for."""
    ring = Ring(10)
    for _ in range(5):
        assert ring.append(record(ring))
    assert [1, 2, 3] == [taken.seq for taken in ring.take(3)]
    assert [4, 5] == [taken.seq for taken in ring.take(3)]
    assert [] == ring.take(3)


def test_a_full_ring_refuses_the_newest_and_counts_it() -> None:
    """What explains the start of a trouble is kept."""
    ring = Ring(2)
    assert [True, True, False, False] == [ring.append(record(ring)) for _ in range(4)]
    assert (2, 2) == (ring.dropped, len(ring))
    assert [1, 2] == [taken.seq for taken in ring.take(10)]


def test_a_refused_record_leaves_a_gap_in_the_numbers() -> None:
    """A reader sees from `seq` alone that something is missing."""
    ring = Ring(1)
    for _ in range(3):
        ring.append(record(ring))
    kept = ring.take(10)
    ring.append(record(ring))
    assert [1, 4] == [taken.seq for taken in kept + ring.take(10)]


def test_producers_in_many_threads_lose_and_double_nothing() -> None:
    """Eight producers against one consumer: every number comes out exactly once."""
    ring = Ring(1_000_000)
    producers, each = 8, 5_000
    ready = threading.Barrier(producers + 1)

    def produce() -> None:
        ready.wait()
        for _ in range(each):
            ring.append(record(ring))

    threads = [threading.Thread(target=produce) for _ in range(producers)]
    for thread in threads:
        thread.start()
    ready.wait()
    seen: list[int] = []
    while any(thread.is_alive() for thread in threads) or len(ring):
        seen += [taken.seq for taken in ring.take(100)]
    assert list(range(1, producers * each + 1)) == sorted(seen)
    assert 0 == ring.dropped


def test_what_concurrent_producers_lose_is_counted() -> None:
    """Kept and dropped together are what was produced; the bound may be passed by one record a thread."""
    ring = Ring(100)
    producers, each = 8, 500
    ready = threading.Barrier(producers)

    def produce() -> None:
        ready.wait()
        for _ in range(each):
            ring.append(record(ring))

    threads = [threading.Thread(target=produce) for _ in range(producers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert producers * each == len(ring) + ring.dropped
    assert 100 <= len(ring) < 100 + producers
