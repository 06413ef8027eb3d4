"""What every store backend promises: one suite, every implementation."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest

from tests.contract.backends import Backend
from weir.store import (
    WRITTEN_BEFORE,
    Compacted,
    Conflict,
    Event,
    Exists,
    FutureRevision,
    KeyValue,
    Missing,
    Store,
    StoreError,
    StoreUnavailable,
    TooLarge,
    Write,
)
from weir.store.backend import MOST_BYTES

keeping_data = pytest.mark.parametrize("backend", ["sqlite", "etcd"], indirect=True)
sharing_data = pytest.mark.parametrize("backend", ["etcd"], indirect=True)


async def put(store: Store, key: str, value: bytes = b"v", expect: int | None = None, **more: float) -> Event:
    [result] = await store.commit([Write(key, value, expect, **more)])  # type: ignore[arg-type]
    return result.check()


async def delete(store: Store, key: str, expect: int | None = None) -> Event:
    [result] = await store.commit([Write(key, None, expect)])
    return result.check()


def listed(store: Store, prefix: str = "/", revision: int = 0) -> dict[str, bytes]:
    return {item.key: item.value for item in store.range(prefix, revision=revision).items}


class Recorder:
    """A watch that remembers."""

    def __init__(self, store: Store, prefix: str, after: int) -> None:
        self.events: list[Event] = []
        self.reason: StoreError | None = None
        self.watch = store.watch(prefix, after, self.events.extend, self._ended)

    def _ended(self, reason: StoreError) -> None:
        self.reason = reason

    @property
    def revisions(self) -> list[int]:
        return [event.revision for event in self.events]


# ------------------------------------------------------------------------------------------ compare-and-set


async def test_what_was_put_is_read_back(store: Store) -> None:
    event = await put(store, "/a", b"one")
    found = store.get("/a")
    assert found is not None and (found.value, found.mod_revision) == (b"one", event.revision)


async def test_a_key_that_was_never_put_is_absent(store: Store) -> None:
    assert store.get("/nothing") is None


async def test_every_write_gets_a_higher_revision_of_its_own(store: Store) -> None:
    results = await store.commit([Write(f"/{n}", b"") for n in range(200)])
    revisions = [result.check().revision for result in results]
    assert revisions == sorted(set(revisions)) and revisions[0] > 1


async def test_a_create_of_an_existing_key_is_refused_and_shows_what_is_there(store: Store) -> None:
    await put(store, "/a", b"one")
    [result] = await store.commit([Write("/a", b"two", expect=0)])
    assert isinstance(result.error, Exists) and result.found is not None and result.found.value == b"one"


async def test_an_update_with_the_revision_read_succeeds(store: Store) -> None:
    first = await put(store, "/a", b"one")
    second = await put(store, "/a", b"two", expect=first.revision)
    assert second.type == "MODIFIED" and second.prev_value == b"one"


async def test_an_update_with_an_old_revision_is_refused(store: Store) -> None:
    first = await put(store, "/a", b"one")
    second = await put(store, "/a", b"two")
    [result] = await store.commit([Write("/a", b"three", expect=first.revision)])
    assert isinstance(result.error, Conflict) and result.error.found == second.revision


async def test_an_update_of_a_missing_key_is_refused(store: Store) -> None:
    with pytest.raises(Missing):
        await put(store, "/a", b"x", expect=12345)


async def test_a_delete_with_an_old_revision_is_refused(store: Store) -> None:
    first = await put(store, "/a")
    await put(store, "/a")
    with pytest.raises(Conflict):
        await delete(store, "/a", expect=first.revision)


async def test_a_delete_of_a_missing_key_is_refused(store: Store) -> None:
    with pytest.raises(Missing):
        await delete(store, "/a")


async def test_a_deleted_key_is_gone_and_may_be_created_again(store: Store) -> None:
    await put(store, "/a")
    await delete(store, "/a")
    assert store.get("/a") is None
    assert (await put(store, "/a", b"new", expect=0)).type == "ADDED"


async def test_the_create_revision_stays_through_updates_and_changes_with_a_new_life(store: Store) -> None:
    lives = []
    for _ in range(2):
        created = (await put(store, "/a")).now
        updated = (await put(store, "/a")).now
        assert created is not None and updated is not None
        assert created.create_revision == updated.create_revision <= created.mod_revision
        lives.append(created.create_revision)
        await delete(store, "/a")
    assert lives[0] < lives[1]


async def test_a_batch_answers_each_write_for_itself(store: Store) -> None:
    await put(store, "/there", b"old")
    results = await store.commit(
        [Write("/there", b"x", expect=0), Write("/new", b"y", expect=0), Write("/missing", None)]
    )
    assert [type(result.error) for result in results] == [Exists, type(None), Missing]
    assert listed(store) == {"/there": b"old", "/new": b"y"}


async def test_a_batch_sees_its_own_earlier_writes(store: Store) -> None:
    results = await store.commit(
        [
            Write("/a", b"1", expect=0),
            Write("/a", b"2", expect=0),
            Write("/a", None),
            Write("/a", b"3", expect=0),
        ]
    )
    assert [type(result.error) for result in results] == [type(None), Exists, type(None), type(None)]
    assert listed(store) == {"/a": b"3"}


async def test_a_write_can_go_on_from_the_one_before_it(store: Store) -> None:
    first = await put(store, "/a", b"old")
    recorder = Recorder(store, "/", first.revision)
    results = await store.commit(
        [
            Write("/a", b"1", expect=first.revision),
            Write("/a", b"2", expect=WRITTEN_BEFORE),
            Write("/a", None, expect=WRITTEN_BEFORE),
        ]
    )
    events = [result.check() for result in results]
    assert [event.type for event in events] == ["MODIFIED", "MODIFIED", "DELETED"]
    assert [event.before.value for event in events if event.before] == [b"old", b"1", b"2"]
    assert [event.revision for event in events] == recorder.revisions == sorted(recorder.revisions)
    assert listed(store) == {}


async def test_a_write_that_goes_on_from_a_refused_one_is_refused_as_well(store: Store) -> None:
    await put(store, "/a", b"old")
    refused, after, other, last = await store.commit(
        [
            Write("/a", b"1", expect=0),
            Write("/a", None, expect=WRITTEN_BEFORE),
            Write("/b", b"2", expect=0),
            Write("/b", None, expect=WRITTEN_BEFORE),
        ]
    )
    assert isinstance(refused.error, Exists) and isinstance(after.error, Exists)
    assert refused.found == after.found == store.get("/a")
    assert other.error is None and last.check().type == "DELETED"
    assert listed(store) == {"/a": b"old"}


@pytest.mark.parametrize(
    "writes",
    [
        [Write("/a", None, WRITTEN_BEFORE)],
        [Write("/b", b"1"), Write("/a", None, WRITTEN_BEFORE)],
        [Write("/a", None), Write("/a", b"1", WRITTEN_BEFORE)],
    ],
)
async def test_a_write_that_has_nothing_to_go_on_from_is_a_mistake(store: Store, writes: list[Write]) -> None:
    await put(store, "/a", b"old")
    with pytest.raises(ValueError, match="does not put this key"):
        await store.commit(writes)
    assert listed(store) == {"/a": b"old"}


async def test_of_many_concurrent_creates_of_one_key_exactly_one_wins(store: Store) -> None:
    answers = await asyncio.gather(*(store.commit([Write("/a", b"%d" % n, expect=0)]) for n in range(40)))
    winners = [result for [result] in answers if result.error is None]
    assert len(winners) == 1 and listed(store)["/a"] == winners[0].check().value


async def test_an_empty_batch_has_no_results(store: Store) -> None:
    assert await store.commit([]) == []


async def test_large_values_and_any_bytes_come_back_unchanged(store: Store) -> None:
    value = random.Random(1).randbytes(900_000)
    await store.commit([Write("/big", value), Write("/empty", b""), Write("/zero", b"\0\x01\xff")])
    assert listed(store) == {"/big": value, "/empty": b"", "/zero": b"\0\x01\xff"}


async def test_a_callers_cancellation_does_not_disturb_the_others(store: Store) -> None:
    tasks = [asyncio.create_task(store.commit([Write(f"/{n}", b"", expect=0)])) for n in range(10)]
    await asyncio.sleep(0)
    tasks[3].cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert sum(isinstance(one, list) and one[0].error is None for one in done) >= 9
    assert (await put(store, "/after")).revision == store.get("/after").mod_revision  # type: ignore[union-attr]


# ------------------------------------------------------------------------------------------------- stamping


async def test_a_stamped_value_carries_its_own_revision(store: Store) -> None:
    event = await put(store, "/a", b'{"rv":"","x":1}', stamp=7)
    assert listed(store)["/a"] == b'{"rv":"%d","x":1}' % event.revision


async def test_a_deletion_shows_the_last_value_under_its_own_revision(store: Store) -> None:
    await put(store, "/a", b'{"rv":"","x":1}', stamp=7)
    event = await delete(store, "/a")
    assert event.value == b'{"rv":"%d","x":1}' % event.revision


# ---------------------------------------------------------------------------------------------------- lists


async def test_a_list_is_in_key_order_and_ends_with_the_prefix(store: Store) -> None:
    keys = ["/pods/b/1", "/pods/a/2", "/pods/a/10", "/pods-x", "/nodes/1", "/pods/é/1", "/pods/\U0001f600/1"]
    await store.commit([Write(key, b"") for key in keys])
    expected = ["/pods/a/10", "/pods/a/2", "/pods/b/1", "/pods/é/1", "/pods/\U0001f600/1"]
    assert [item.key for item in store.range("/pods/").items] == expected


async def test_counting_a_prefix_counts_only_it(store: Store) -> None:
    await store.commit([Write(key, b"") for key in ("/a/1", "/a/2", "/ab", "/b/1")])
    assert (store.count("/a/"), store.count("/"), store.count("/zz")) == (2, 4, 0)


async def test_pages_of_any_size_add_up_to_the_whole_list(store: Store) -> None:
    await store.commit([Write(f"/k/{n:03}", b"%d" % n) for n in range(57)])
    for limit in (1, 7, 56, 57, 58):
        whole: list[KeyValue] = []
        start, revision, left = "", 0, []
        while True:
            page = store.range("/k/", start=start, limit=limit, revision=revision)
            whole += page.items
            left.append(page.remaining == 57 - len(whole))
            start, revision = page.next_start, page.revision
            if not start:
                break
        assert [item.key for item in whole] == [f"/k/{n:03}" for n in range(57)] and all(left)


async def test_pages_after_the_first_show_the_state_of_the_first(store: Store) -> None:
    await store.commit([Write(f"/k/{n}", b"old") for n in range(6)])
    first = store.range("/k/", limit=2)
    await store.commit(
        [Write("/k/3", b"new"), Write("/k/4", None), Write("/k/9", b"late"), Write("/k/1", None)]
    )
    rest = store.range("/k/", start=first.next_start, limit=10, revision=first.revision)
    assert [(item.key, item.value) for item in rest.items] == [(f"/k/{n}", b"old") for n in range(2, 6)]
    assert rest.revision == first.revision and rest.remaining == 0


async def test_the_state_at_every_kept_revision_can_be_listed(store: Store) -> None:
    chance = random.Random(7)
    history: dict[int, dict[str, bytes]] = {store.revision: {}}
    state: dict[str, bytes] = {}
    for step in range(120):
        key = f"/k/{chance.randrange(8)}"
        if key in state and chance.random() < 0.4:
            event = await delete(store, key)
            del state[key]
        else:
            state[key] = b"%d" % step
            event = await put(store, key, state[key])
        history[event.revision] = dict(state)
    assert {revision: listed(store, "/k/", revision) for revision in history} == history
    for revision, then in history.items():
        at = {key: store.get_at(key, revision) for key in ("/k/0", "/k/5")}
        assert {key: item.value for key, item in at.items() if item} == {
            key: then[key] for key in ("/k/0", "/k/5") if key in then
        }


async def test_a_list_at_a_future_revision_is_refused(store: Store) -> None:
    with pytest.raises(FutureRevision) as caught:
        store.range("/", revision=store.revision + 1_000_000)
    assert caught.value.current == store.revision


async def test_waiting_for_a_revision_ends_when_it_is_there(store: Store) -> None:
    waiting = asyncio.create_task(store.until(store.revision + 1))
    await asyncio.sleep(0)
    assert not waiting.done()
    await put(store, "/a")
    await asyncio.wait_for(waiting, 60)


async def test_a_fresh_revision_covers_what_was_acknowledged(store: Store) -> None:
    event = await put(store, "/a")
    assert await store.fresh() >= event.revision


# -------------------------------------------------------------------------------------------------- watches


async def test_a_watch_gets_every_change_after_its_revision_once_and_in_order(store: Store) -> None:
    events = [await put(store, f"/k/{n}") for n in range(6)]
    seen = Recorder(store, "/k/", events[2].revision)
    events.append(await delete(store, "/k/0"))
    events.append(await put(store, "/k/1", b"again"))
    assert seen.revisions == [event.revision for event in events[3:]]
    assert [event.type for event in seen.events[-2:]] == ["DELETED", "MODIFIED"]


async def test_a_watch_can_start_at_any_kept_revision(store: Store) -> None:
    start = store.revision
    events = [await put(store, f"/k/{n % 5}", b"%d" % n) for n in range(30)]
    for after in [start, *(event.revision for event in events)]:
        expected = [event.revision for event in events if event.revision > after]
        assert Recorder(store, "/", after).revisions == expected


async def test_a_watch_hears_only_its_prefix(store: Store) -> None:
    seen = Recorder(store, "/pods/a/", store.revision)
    await store.commit(
        [Write(key, b"") for key in ("/pods/a/1", "/pods/ab/1", "/pods/b/1", "/pods/a", "/pods/a/2")]
    )
    assert [event.key for event in seen.events] == ["/pods/a/1", "/pods/a/2"]


async def test_watches_of_different_prefixes_share_the_event_objects(store: Store) -> None:
    seen = [Recorder(store, prefix, store.revision) for prefix in ("/", "/a/", "/a/x", "/a/", "/b/")]
    await put(store, "/a/x")
    assert [len(one.events) for one in seen] == [1, 1, 1, 1, 0]
    assert len({id(one.events[0]) for one in seen[:4]}) == 1


async def test_what_watchers_share_about_a_change_lasts_until_all_are_told(store: Store) -> None:
    found: list[Event] = []
    shared: list[object] = []

    def share(events: Sequence[Event]) -> None:
        for event in events:
            shared.append(event.frames)
            event.frames = "said"
            found.append(event)

    for _ in range(2):
        store.watch("/", store.revision, share)
    await put(store, "/a")
    assert shared == [None, "said"]
    assert [event.frames for event in found] == [None, None], "it would be kept with the change"


async def test_a_cancelled_watch_hears_nothing_more(store: Store) -> None:
    seen = Recorder(store, "/", store.revision)
    await put(store, "/a")
    seen.watch.cancel()
    seen.watch.cancel()
    await put(store, "/b")
    assert [event.key for event in seen.events] == ["/a"]


async def test_a_watch_from_a_future_revision_is_silent_until_then(store: Store) -> None:
    first = await put(store, "/a")
    step = first.revision - (await put(store, "/b")).revision
    seen = Recorder(store, "/", store.revision - 2 * step)  # skips the next two or so
    for n in range(6):
        last = await put(store, f"/{n}")
    assert seen.revisions and seen.revisions == sorted(seen.revisions)
    assert seen.revisions[-1] == last.revision and len(seen.revisions) < 6


async def test_a_watcher_may_cancel_another_while_events_are_delivered(store: Store) -> None:
    others: list[Recorder] = []
    store.watch("/", store.revision, lambda events: others[0].watch.cancel())
    others.append(Recorder(store, "/", store.revision))
    await put(store, "/a")
    await put(store, "/b")
    assert others[0].events == []


async def test_a_watcher_that_fails_is_ended_and_disturbs_nobody(store: Store) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    ended: list[StoreError] = []
    store.watch("/", store.revision, lambda events: events[99], ended.append)  # type: ignore[arg-type]
    seen = Recorder(store, "/", store.revision)
    for key in ("/a", "/b"):
        await asyncio.wait_for(put(store, key), 60)
    assert len(seen.events) == 2 and len(ended) == 1


async def test_everything_up_to_the_revision_has_been_delivered(store: Store) -> None:
    seen = Recorder(store, "/", store.revision)
    for n in range(20):
        await asyncio.gather(*(put(store, f"/{n}/{m}") for m in range(5)))
        assert max(seen.revisions) <= store.revision and len(seen.events) == 5 * (n + 1)


async def test_watches_opened_while_others_write_miss_nothing(store: Store) -> None:
    start = store.revision
    seen: list[Recorder] = []

    async def write(writer: int) -> None:
        for n in range(25):
            await put(store, f"/{writer}/{n}")
            seen.append(Recorder(store, "/", start))

    await asyncio.gather(*(write(writer) for writer in range(4)))
    everything = seen[0].revisions
    assert len(everything) == 100 and all(one.revisions == everything for one in seen)


async def test_closing_ends_the_watches(store: Store) -> None:
    seen = Recorder(store, "/", store.revision)
    await store.close()
    assert isinstance(seen.reason, StoreUnavailable)
    with pytest.raises(StoreUnavailable):
        await put(store, "/late")


# --------------------------------------------------------------------------------------- compaction, expiry


async def test_a_compacted_revision_cannot_be_listed_or_watched(store: Store) -> None:
    first = await put(store, "/a", b"1")
    second = await put(store, "/a", b"2")
    await put(store, "/a", b"3")
    await store.compact(second.revision)
    for attempt in (
        lambda: store.range("/", revision=first.revision),
        lambda: store.watch("/", first.revision, print),
        lambda: store.get_at("/a", first.revision),
    ):
        with pytest.raises(Compacted) as caught:
            attempt()
        assert caught.value.oldest == store.compacted == second.revision


async def test_compaction_keeps_what_is_at_and_after_its_revision(store: Store) -> None:
    await put(store, "/gone")
    await put(store, "/kept", b"old")
    await delete(store, "/gone")
    at = await put(store, "/late", b"1")
    after = await put(store, "/late", b"2")
    await store.compact(at.revision)
    assert listed(store, "/", at.revision) == {"/kept": b"old", "/late": b"1"}
    assert Recorder(store, "/", at.revision).revisions == [after.revision]
    assert listed(store) == {"/kept": b"old", "/late": b"2"}


async def test_compacting_the_future_is_refused_and_compacting_twice_is_harmless(store: Store) -> None:
    event = await put(store, "/a")
    with pytest.raises(FutureRevision):
        await store.compact(store.revision + 1_000_000)
    await store.compact(event.revision)
    await store.compact(event.revision)
    await store.compact(1)
    assert listed(store) == {"/a": b"v"}


async def test_upkeep_compacts_what_is_older_than_the_time_kept(backend: Backend) -> None:
    store = await backend.open(keep_seconds=300)
    old = await put(store, "/a", b"1")
    for _ in range(2):
        await store.upkeep(backend.time.now)
        backend.time.now += 290
        young = await put(store, "/a", b"2")
    await store.upkeep(backend.time.now)
    assert old.revision <= store.compacted < young.revision


async def test_what_outlived_its_time_is_removed_and_watchers_hear_of_it(backend: Backend) -> None:
    store = await backend.open()
    ttl = 3600.0 if backend.exact_ttl else 1.0
    seen = Recorder(store, "/events/", store.revision)
    await store.commit([Write("/events/1", b"x", ttl_seconds=ttl), Write("/events/2", b"stays")])
    await store.upkeep(backend.time.now + ttl - 1)
    assert store.get("/events/1") is not None
    await store.upkeep(backend.time.now + ttl)
    if not backend.exact_ttl:  # the engine's own clock decides
        await asyncio.wait_for(store.until(store.revision + 1), 60)
    assert listed(store) == {"/events/2": b"stays"}
    assert [event.type for event in seen.events] == ["ADDED", "ADDED", "DELETED"]


@pytest.mark.parametrize("backend", ["memory", "sqlite"], indirect=True)
async def test_a_key_written_again_lives_on(backend: Backend) -> None:
    store = await backend.open()
    await store.commit([Write("/events/1", b"x", ttl_seconds=60)])
    await store.commit([Write("/events/1", b"y")])
    await store.upkeep(backend.time.now + 61)
    assert listed(store) == {"/events/1": b"y"}


# -------------------------------------------------------------------------------------------- opening again


@keeping_data
async def test_everything_is_there_after_opening_again(backend: Backend) -> None:
    store = await backend.open()
    await store.commit([Write(f"/{n}", b"%d" % n) for n in range(50)])
    await store.commit([Write("/7", b'{"rv":""}', stamp=7), Write("/8", None)])
    before, revision, versions = listed(store), store.revision, list(store.range("/").items)
    await store.close()
    again = await backend.open()
    assert (listed(again), list(again.range("/").items)) == (before, versions)
    assert again.revision >= revision


@keeping_data
async def test_a_watch_resumes_after_opening_again(backend: Backend) -> None:
    store = await backend.open()
    events = [await put(store, f"/{n % 3}", b"%d" % n) for n in range(10)]
    events.append(await delete(store, "/1"))
    await store.close()
    again = await backend.open()
    seen = Recorder(again, "/", events[4].revision)
    assert seen.revisions == [event.revision for event in events[5:]]
    assert [event.prev_value for event in seen.events] == [event.prev_value for event in events[5:]]


@keeping_data
async def test_past_states_can_be_listed_after_opening_again(backend: Backend) -> None:
    store = await backend.open()
    first = await put(store, "/a", b"1")
    await put(store, "/a", b"2")
    await delete(store, "/a")
    await store.close()
    assert listed(await backend.open(), "/", first.revision) == {"/a": b"1"}


@keeping_data
async def test_compaction_and_the_highest_revision_survive_opening_again(backend: Backend) -> None:
    store = await backend.open()
    await put(store, "/keep", b"k")
    await put(store, "/a", b"1")
    last = await delete(store, "/a")  # the newest change leaves no trace once compacted
    await store.compact(last.revision)
    await store.close()
    again = await backend.open()
    assert listed(again) == {"/keep": b"k"}
    with pytest.raises(Compacted):
        again.watch("/", last.revision - 2, print)
    assert (await put(again, "/b")).revision > last.revision


@sharing_data
async def test_two_stores_on_the_same_data_see_each_others_writes(backend: Backend) -> None:
    one, two = await backend.open(), await backend.open()
    seen = Recorder(two, "/", two.revision)
    event = await put(one, "/a", b"x")
    assert await two.fresh() >= event.revision
    assert listed(two) == {"/a": b"x"} and seen.revisions == [event.revision]
    [refused] = await two.commit([Write("/a", b"y", expect=0)])
    assert isinstance(refused.error, Exists)


@sharing_data
async def test_both_stores_number_the_changes_alike(backend: Backend) -> None:
    one, two = await backend.open(), await backend.open()
    start = two.revision
    await asyncio.gather(
        *(
            store.commit([Write(f"/{n}", b"%d" % n), Write(f"/x{n}", b"")])
            for n in range(40)
            for store in (one, two)
        )
    )
    await one.commit([Write(f"/{n}", None) for n in range(0, 40, 3)])
    await two.fresh()
    histories = [Recorder(store, "/", start).events for store in (one, two, await backend.open())]
    told = [[(event.revision, event.key, event.value) for event in history] for history in histories]
    assert told[0] == told[1] == told[2] and len(told[0]) == 4 * 40 + 14
    assert len({revision for revision, *_ in told[0]}) == len(told[0])


async def test_values_are_frozen() -> None:
    with pytest.raises(AttributeError):
        KeyValue("/a", b"", 1, 1).value = b"x"  # type: ignore[misc]


async def test_a_value_larger_than_any_etcd_takes_is_refused_and_changes_nothing(store: Store) -> None:
    with pytest.raises(TooLarge, match=r"^etcdserver: request is too large$"):
        await put(store, "/a/big", b"x" * MOST_BYTES)
    with pytest.raises(TooLarge, match=r"^rpc error: code = ResourceExhausted .* \(2200006 vs. 2097152\)$"):
        await put(store, "/a/big", b"x" * 2_200_000)
    assert store.get("/a/big") is None
    await put(store, "/a/big", b"x" * (MOST_BYTES - 2000))
    assert listed(store, "/a/") == {"/a/big": b"x" * (MOST_BYTES - 2000)}
