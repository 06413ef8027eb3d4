"""Claims about the compaction of old revisions."""

import asyncio

from weir.clock import VirtualClock
from weir.store import StoreUnavailable, Write
from weir.store.memory import MemoryStore, Retention, upkeep_loop

# ── what is kept, for how long, and that somebody sees to it ──


class Kept:
    def __init__(self) -> None:
        self.revision = self.compacted = 1
        self.kept_changes = self.total_changes = 0

    def write(self, count: int) -> None:
        self.revision += count
        self.kept_changes += count
        self.total_changes += count


def test_a_change_is_kept_for_its_time_and_then_goes() -> None:
    keep, log = Retention(300), Kept()
    targets = {}
    for now in range(0, 700, 100):
        targets[now] = keep.compact_to(now, log)
        log.write(1)
    assert targets == {0: 1, 100: 1, 200: 1, 300: 1, 400: 2, 500: 3, 600: 4}


def test_more_changes_than_memory_allows_go_early() -> None:
    keep, log = Retention(300, max_changes=10), Kept()
    keep.compact_to(0, log)
    log.write(8)
    assert keep.compact_to(1, log) == 1
    log.write(8)
    assert keep.compact_to(2, log) == 9


def test_the_bound_counts_changes_however_far_apart_their_revisions_are() -> None:
    keep, log = Retention(300, max_changes=10), Kept()
    for now in range(4):
        keep.compact_to(now, log)
        log.write(4)
        log.revision += 4096
    assert log.compacted < keep.compact_to(4, log) < log.revision


def test_a_quiet_store_is_not_compacted_again_and_again() -> None:
    keep, log = Retention(300), Kept()
    assert [keep.compact_to(now, log) for now in (0, 1000, 2000)] == [1, 1, 1]


async def test_upkeep_goes_on_by_itself_also_after_a_failure() -> None:
    clock = VirtualClock()

    class Flaky(MemoryStore):
        calls = 0

        async def upkeep(self, now: float) -> None:
            self.calls += 1
            if self.calls == 2:
                raise StoreUnavailable("away for a moment")
            await super().upkeep(now)

    store = Flaky(time=clock.time)
    await store.commit([Write("/events/1", b"x", ttl_seconds=3600)])
    task = asyncio.create_task(upkeep_loop(store, clock))
    await clock.advance(3590)
    before = store.count("/")
    await clock.advance(20)
    task.cancel()
    assert (before, store.count("/")) == (1, 0)
