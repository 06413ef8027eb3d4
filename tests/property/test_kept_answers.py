"""What is kept, or read only in part, says what looking at everything anew says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from weir.apiserver.registry.codec import _prefix_of
from weir.client.cache import decode_described, decode_document
from weir.clock import VirtualClock
from weir.objects.kinds import KINDS
from weir.selectors.labels import Requirement, Selector
from weir.store.backend import Event, KeyValue
from weir.store.watch import Fanout, Subscription

# ── who hears of a change ────────────────────────────────────────────────────────────────────────

pieces = st.lists(st.sampled_from(["a", "ab", "b", ""]), max_size=3)
keys = pieces.map(lambda found: "/" + "/".join(found))
#: (what, prefix or key): a watch begins, the oldest watch ends, or a key changes
doings = st.lists(st.tuples(st.sampled_from(["watch", "end", "write", "write"]), keys), max_size=30)


@given(doings)
def test_every_watch_hears_of_the_keys_under_its_prefix_and_of_no_others(done: list[tuple[str, str]]) -> None:
    fanout, heard, wanted = Fanout(), [], []
    watches: list[tuple[int, str, Subscription]] = []
    for number, (what, key) in enumerate(done, start=1):
        if what == "watch":
            hear = lambda events, who=number: heard.extend((who, event.revision) for event in events)  # noqa: E731
            watches.append((number, key, fanout.add(key, 0, hear, None, ())))
        elif what == "end" and watches:
            watches.pop(0)[2].cancel()
        elif what == "write":
            fanout.publish([Event(key, number, KeyValue(key, b"", number, number), None)])
            wanted += [(who, number) for who, prefix, _ in watches if key.startswith(prefix)]
    assert sorted(heard) == sorted(wanted)


def test_the_folder_of_a_key_tells_its_kind() -> None:
    stored = [kind for kind in KINDS if kind.stored]
    found = {
        kind: _prefix_of(kind.key("default" if kind.namespaced else "", "o").removesuffix("o"))
        for kind in stored
    }
    assert found == {kind: kind.prefix for kind in stored}


# ── documents without what nobody decides on ─────────────────────────────────────────────────────

values = (
    st.none()
    | st.integers()
    | st.text(max_size=3)
    | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)
)
documents = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": st.text(), "managedFields": values}, optional={"labels": values}
        )
    },
    optional={"kind": values, "apiVersion": values, "spec": values, "status": values},
)


@given(documents)
def test_a_described_object_is_its_document_without_managed_fields(document: dict[str, Any]) -> None:
    text = msgspec.json.encode(document)
    plain = decode_document(text)
    del plain["metadata"]["managedFields"]
    assert decode_described(text) == plain


# ── selectors ────────────────────────────────────────────────────────────────────────────────────

words = st.sampled_from(["a", "b", "c"])
requirements = st.builds(
    lambda key, operator, values: Requirement(key, operator, tuple(values)),
    words,
    st.sampled_from(["in", "in", "in", "notin", "exists", "!"]),
    st.lists(words, min_size=1, max_size=2),
)


@given(st.lists(requirements, max_size=3), st.dictionaries(words, words))
def test_a_selector_selects_what_all_its_requirements_do(
    found: list[Requirement], labels: dict[str, str]
) -> None:
    assert Selector(tuple(found)).matches(labels) == all(each.matches(labels) for each in found)


# ── time ─────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.floats(0, 1e6), max_size=8))
def test_the_time_of_day_follows_the_clock_also_for_what_is_dated_back(times: list[float]) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    clock, told = VirtualClock(start), []
    for elapsed in times:
        with clock.backdated(elapsed):
            told.append(clock.now())
        told.append(clock.now())
    assert told == [start + timedelta(seconds=at) for elapsed in times for at in (elapsed, 0.0)]
