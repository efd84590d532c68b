"""The collector's memory does not grow with what an engine served."""

from pathlib import Path

import pytest
from tests.harmlessness import engine

MEBIBYTE = 1 << 20

MANY = """
import gc, resource

def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

start()
limit = emitter.settings.ring_events - 100
total, number = int(sys.argv[1]), 0
first = total // 5
while number * 4 < total:
    for _ in range(500):
        serve(number)
        number += 1
    while len(emitter.ring) > limit // 2:
        time.sleep(0.001)
    if number * 4 == first:
        before = resident()
emitter.close()
print(number * 4, emitter.ring.dropped, resident() - before)
"""


@pytest.mark.parametrize("total", [200_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_events_leave_memory_as_it_was(tmp_path: Path, total: int) -> None:
    """Requests through the hooks and into the spool, four events each: what grows after the first fifth is noise."""
    spool = tmp_path / "spool"
    printed = engine.run(
        tmp_path / "engine",
        MANY,
        str(total),
        FALSEOK_SPOOL_DIR=str(spool),
        FALSEOK_SPOOL_MAX_BYTES=str(64 * MEBIBYTE),
    )
    events, dropped, grown = map(int, printed.split())
    assert (total, 0) == (events, dropped)
    assert grown < 8 * MEBIBYTE


NEVER_FINISHED = """
start()
for number in range(70_000):
    facade.on_new_request(request(number))
    while len(emitter.ring) > 5_000:
        time.sleep(0.001)
(scheduler_observer,) = {hook.before.__self__ for hook in made.hooks if hook.name == "core.admit"}
emitter.close()
print(len(scheduler_observer._requests), serve(1))
"""


def test_requests_whose_end_is_never_seen_are_forgotten(tmp_path: Path) -> None:
    """The oldest of them, when there are too many; the next request is served and told as any."""
    spool = tmp_path / "spool"
    printed = engine.run(tmp_path / "engine", NEVER_FINISHED, FALSEOK_SPOOL_DIR=str(spool))
    assert "65536 (False, None)\n" == printed
