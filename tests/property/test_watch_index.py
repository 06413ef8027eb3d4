"""Watchers found by the name or the node they follow are sent what they would be sent if each saw every change.

Both ways watch one store, in which pods come, change their node and go, in several namespaces and groups of writes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import tries
from weir.apiserver.registry import watch
from weir.apiserver.registry.codec import STAMP
from weir.apiserver.registry.lists import Lists
from weir.apiserver.registry.watch import Watches
from weir.apiserver.transport.options import ListOptions
from weir.clock import VirtualClock
from weir.objects.kinds import by_kind
from weir.store import Event, Write
from weir.store.memory import MemoryStore

POD = by_kind("v1", "Pod")
SELECTORS = [
    "metadata.name=a",
    "metadata.name=b,metadata.name=a",
    "spec.nodeName=n1",
    "spec.nodeName=n2,metadata.name!=a",
    "spec.nodeName=,metadata.name=c",
    "spec.nodeName=",
    "spec.nodeName!=n1",
    "status.phase=Running",
    "",
]
#: a pod by name and namespace, then its node, whether it runs and what is written into an annotation; None: it goes
change = st.tuples(
    st.sampled_from("abc"),
    st.sampled_from(["default", "other"]),
    st.none() | st.tuples(st.sampled_from(["", "n1", "n2"]), st.booleans(), st.sampled_from(["", '"nodeName":"n1"'])),
)  # fmt: skip
#: writes that are committed together
groups = st.lists(st.lists(change, min_size=1, max_size=4), max_size=4)
watched = st.tuples(
    st.sampled_from(SELECTORS),
    st.sampled_from(["", "labelled=yes"]),
    st.sampled_from(["", "default"]),
    st.sampled_from(["", "now", "past", "future"]),
    st.booleans(),  # whether it ends in the midst
)


class Wire:
    """A sink that keeps what it is given, and may fail."""

    pending_bytes = 0

    def __init__(self) -> None:
        self.sent = b""
        self.fails = False

    def write_chunk(self, chunk: bytes) -> None:
        if self.fails:
            raise RuntimeError("a defect")
        self.sent += chunk

    def close(self) -> None:
        self.sent += b"closed"

    def abort(self) -> None:
        raise AssertionError("nobody is slow here")


def written(store: MemoryStore, found: Any) -> list[Write]:
    writes = []
    for name, namespace, to in found:
        value = None
        if to is not None:
            node, runs, note = to
            spec = {"nodeName": node} if node else {}
            metadata = {
                "resourceVersion": "",
                "name": name,
                "namespace": namespace,
                "annotations": {"note": note},
            }
            metadata["labels"] = {"labelled": "yes"} if runs else {}
            pod = {"metadata": metadata, "spec": spec, "status": {"phase": "Running"} if runs else {}}
            value = json.dumps(pod, separators=(",", ":")).encode()
        writes.append(Write(POD.key(namespace, name), value, None, STAMP if value else -1))
    return writes


@contextmanager
def every_watcher_sees_every_change() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(watch, "followed", lambda kind, selector: None)
        yield


async def begun(watches: Watches, store: MemoryStore, one: Any) -> tuple[Wire, asyncio.Task[None]]:
    selector, labels, namespace, since, _ = one
    version = {"": "", "now": str(store.revision), "past": "1", "future": str(store.revision + 3)}[since]
    options = ListOptions(labels, selector, resource_version=version)
    stream = await watches.start(POD, namespace, "", options, "", "")
    wire = Wire()
    task = asyncio.ensure_future(stream.run(wire))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    return wire, task


async def history(before: Any, first: Any, second: Any, wanted: Any) -> tuple[list[bytes], list[bytes]]:
    clock = VirtualClock()
    store = MemoryStore(time=clock.time)
    for group in before:
        await store.commit(written(store, group))
    indexed, plain = (Watches(store, Lists(store, clock), clock) for _ in range(2))
    found = [await begun(indexed, store, one) for one in wanted]
    with every_watcher_sees_every_change():
        others = [await begun(plain, store, one) for one in wanted]
    for group in first:
        await store.commit(written(store, group))
    for (_, task), (_, other), one in zip(found, others, wanted, strict=True):
        if one[-1]:
            task.cancel()
            other.cancel()
    await asyncio.sleep(0)
    for group in second:
        await store.commit(written(store, group))
    await store.close()
    await asyncio.gather(*(task for _, task in (*found, *others)), return_exceptions=True)
    return [wire.sent for wire, _ in found], [wire.sent for wire, _ in others]


@settings(max_examples=tries(150, 1500), deadline=None)
@given(groups, groups, groups, st.lists(watched, min_size=1, max_size=8))
def test_an_index_leaves_out_nothing_that_concerns_a_watcher(
    before: Any, first: Any, second: Any, wanted: Any
) -> None:
    indexed, plain = asyncio.run(history(before, first, second, wanted))
    assert indexed == plain


def test_a_change_reaches_only_those_it_concerns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand nodes: a pod of one of them is told to one, and no other looks at it."""
    looked: list[str] = []
    plain = watch._Watcher.deliver

    def deliver(self: Any, events: list[Event]) -> None:
        looked.append(self._share[-1][1])
        plain(self, events)

    monkeypatch.setattr(watch._Watcher, "deliver", deliver)

    async def run() -> None:
        clock = VirtualClock()
        store = MemoryStore(time=clock.time)
        watches = Watches(store, Lists(store, clock), clock)
        for number in range(1000):
            await begun(watches, store, (f"spec.nodeName=n{number}", "", "", "now", False))
        await store.commit(written(store, [("a", "default", ("n7", False, ""))]))
        await store.commit(written(store, [("a", "default", ("n8", False, ""))]))
        watches.stop()

    asyncio.run(run())
    assert sorted(looked) == ["spec.nodeName=n7", "spec.nodeName=n7", "spec.nodeName=n8"]


def test_nothing_is_kept_for_watchers_that_are_gone() -> None:
    async def run() -> None:
        clock = VirtualClock()
        store = MemoryStore(time=clock.time)
        watches = Watches(store, Lists(store, clock), clock)
        begins = [begun(watches, store, (selector, "", "", "now", False)) for selector in SELECTORS * 2]
        tasks = [task for _, task in [await one for one in begins]]
        # of each selector two, of which those of a name and those of a node watch the store together
        assert len(store._log.fanout) == 2 + 2 * 3 and len(watches._index._groups) == 2
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert len(store._log.fanout) == 0 and not watches._index._groups

    asyncio.run(run())


def test_a_watcher_that_fails_is_ended_and_the_others_go_on() -> None:
    async def run() -> bytes:
        failed: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: failed.append(context))
        clock = VirtualClock()
        store = MemoryStore(time=clock.time)
        watches = Watches(store, Lists(store, clock), clock)
        (bad, ended), (good, _) = [
            await begun(watches, store, ("spec.nodeName=n1", labels, "", "now", False))
            for labels in ("", "labelled=yes")
        ]
        bad.fails = True
        for name in "ab":
            await store.commit(written(store, [(name, "default", ("n1", True, ""))]))
        await asyncio.wait_for(ended, 60)
        assert len(failed) == 1
        watches.stop()
        return good.sent

    assert asyncio.run(run()).count(b'"type":"ADDED"') == 2
