"""The state at any kept revision is what it was then, whatever was compacted or deleted since."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import tries
from weir.store import Compacted, Event, KeyValue, Write, log
from weir.store.log import Log, OrderedKeys, after_prefix
from weir.store.watch import Fanout, Subscription

keys = st.text(alphabet="/abé\U0001f600\U0010ffff", max_size=6)


@given(st.lists(st.tuples(st.booleans(), keys), max_size=80), keys, keys)
@settings(max_examples=tries(120, 300))
def test_it_holds_what_a_sorted_set_holds(steps: list[tuple[bool, str]], start: str, stop: str) -> None:
    plain: set[str] = set()
    ordered = OrderedKeys()
    for add, key in steps:
        if add and key not in plain:
            plain.add(key)
            ordered.add(key)
        elif not add:
            plain.discard(key)
            ordered.discard(key)
    expected = sorted(key for key in plain if key >= start and (not stop or key < stop))
    assert list(ordered.between(start, stop)) == expected
    assert (ordered.count(start, stop), len(ordered)) == (len(expected), len(plain))


@given(st.lists(keys, unique=True))
def test_short_runs_split_and_join_without_losing_order(some: list[str]) -> None:
    whole, log._SPLIT = log._SPLIT, 4
    try:
        ordered = OrderedKeys()
        for key in some:
            ordered.add(key)
        assert list(ordered.between("", "")) == sorted(some)
        for key in some[::2]:
            ordered.discard(key)
        assert list(ordered.between("", "")) == sorted(some[1::2])
    finally:
        log._SPLIT = whole


@given(keys, keys)
def test_the_end_of_a_prefix_lies_after_exactly_the_keys_that_have_it(prefix: str, key: str) -> None:
    end = after_prefix(prefix)
    assert key.startswith(prefix) == (key >= prefix and (not end or key < end))


def test_the_end_of_a_prefix_can_be_encoded() -> None:
    assert after_prefix("/\ud7ff").encode() == "/\ue000".encode()


steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(["/a/1", "/a/2", "/b/1", "/b/11"])),
        st.tuples(st.just("delete"), st.sampled_from(["/a/1", "/a/2", "/b/1", "/b/11"])),
        st.tuples(st.just("compact"), st.integers(0, 12)),
    ),
    max_size=50,
)


def commit(log: Log, *writes: Write) -> list[Event]:
    events = [result.event for result in log.decide(writes, 0.0) if result.event is not None]
    log.apply(events)
    return events


def paged(log: Log, prefix: str, limit: int, revision: int) -> list[KeyValue]:
    """Return the list of *prefix* put together from pages, each of which knows how many follow."""
    found: list[KeyValue] = []
    remaining, start = None, ""
    while True:
        page = log.range(prefix, start=start, limit=limit, revision=revision)
        assert page.revision == revision and len(page.items) <= limit
        assert remaining is None or remaining == page.remaining + len(page.items)
        found += page.items
        remaining, start = page.remaining, page.next_start
        if not remaining:
            return found


@given(steps)
@settings(max_examples=tries(80, 200))
def test_lists_and_watches_agree_with_a_copy_of_every_state(history: list[tuple[str, str | int]]) -> None:
    log = Log(1, 1)
    states: dict[int, dict[str, bytes]] = {1: {}}
    happened: list[Event] = []
    for number, (what, argument) in enumerate(history):
        if what == "compact":
            log.compact(max(1, log.revision - int(argument)))
            continue
        value = b"%d" % number if what == "put" else None
        for event in commit(log, Write(str(argument), value)):
            happened.append(event)
            state = dict(states[event.revision - 1])
            state.pop(event.key, None)
            if event.now is not None:
                state[event.key] = event.value
            states[event.revision] = state
    for revision, state in states.items():
        seen: list[Event] = []
        if revision < log.compacted:
            with pytest.raises(Compacted):
                log.range("/", revision=revision)
            continue
        for prefix in ("/", "/a/", "/b/1"):
            page = log.range(prefix, revision=revision)
            expected = {key: value for key, value in sorted(state.items()) if key.startswith(prefix)}
            assert [(item.key, item.value) for item in page.items] == list(expected.items())
            assert page.revision == revision
            for limit in (1, 2):
                assert paged(log, prefix, limit, revision) == page.items
        log.watch("/", revision, seen.extend)
        assert seen == [event for event in happened if event.revision > revision]


@given(steps)
def test_compaction_leaves_no_trace_of_what_it_forgot(history: list[tuple[str, str | int]]) -> None:
    log = Log(1, 1)
    for number, (what, argument) in enumerate(history):
        if what != "compact":
            commit(log, Write(str(argument), b"%d" % number if what == "put" else None))
    log.compact(log.revision)
    assert (log.kept_changes, len(log._gone), log._by_key) == (0, 0, {})


def test_deciding_changes_nothing() -> None:
    log = Log(1, 1)
    log.decide([Write("/a", b"x"), Write("/b", b"y")], 0.0)
    assert (log.revision, log.get("/a"), log.kept_changes) == (1, None, 0)


def test_a_list_of_thousands_takes_the_stored_objects_themselves() -> None:
    log = Log(1, 1)
    commit(log, *(Write(f"/pods/{n:05}", b"x") for n in range(5000)))
    first, second = log.range("/pods/").items, log.range("/pods/").items
    assert len(first) == 5000 and all(one is other for one, other in zip(first, second, strict=True))


@pytest.mark.parametrize("objects", [1_000, 10_000])
def test_a_page_costs_its_length_also_of_a_list_that_has_changed_since(
    objects: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(1, 1)
    commit(log, *(Write(f"/pods/{n:05}", b"x") for n in range(objects)))
    then = log.revision
    commit(log, *(Write(f"/pods/{n:05}", None) for n in range(5)), Write("/pods/00007+", b"new"))
    looked_at: list[str] = []
    plain = Log._at

    def counted(self: Log, key: str, revision: int) -> KeyValue | None:
        looked_at.append(key)
        return plain(self, key, revision)

    monkeypatch.setattr(Log, "_at", counted)
    page = log.range("/pods/", limit=20, revision=then)
    assert [item.key for item in page.items] == [f"/pods/{n:05}" for n in range(20)]
    assert (page.remaining, len(looked_at)) == (objects - 20, 21)  # the new key was looked at as well


@pytest.mark.parametrize("changes", [1_000, 10_000])
def test_a_watch_that_resumes_costs_what_it_missed(changes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(1, 1)
    commit(log, *(Write(f"/pods/{n:05}", b"x") for n in range(changes)))
    handed_over: list[int] = []
    plain = Fanout.add

    def counted(self: Fanout, prefix: str, after: int, deliver: Any, ended: Any, missed: Any) -> Subscription:
        handed_over.append(len(missed))
        return plain(self, prefix, after, deliver, ended, missed)

    monkeypatch.setattr(Fanout, "add", counted)
    seen: list[Event] = []
    log.watch("/pods/", log.revision - 7, seen.extend)
    assert (handed_over, len(seen)) == ([7], 7)
