"""Changes joined once for all watchers are what each of them would have been sent, change by change."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from weir.apiserver.registry.lists import matcher
from weir.apiserver.registry.watch import _Batch, _Watcher
from weir.apiserver.registry.watch_encoder import View
from weir.clock import VirtualClock
from weir.objects.kinds import by_kind
from weir.store import Event, KeyValue

CONFIGMAPS = by_kind("v1", "ConfigMap")
SELECTORS = ("", "kind=x", "kind!=x")
SHAPES = ("", "PartialObjectMetadata", "Table")
Change = tuple[str, str | None, str | None]
changes = st.lists(
    st.tuples(st.sampled_from("abc"), *([st.sampled_from([None, "x", "y"])] * 2)).filter(lambda one: any(one[1:])),
    max_size=5,
)  # fmt: skip
#: batches that are delivered before the loop turns, and whether it turns between them
batches = st.lists(st.tuples(changes, st.booleans()), max_size=4)
watchers = st.lists(st.tuples(st.sampled_from(SELECTORS), st.sampled_from(SHAPES)), min_size=1, max_size=5)


class Wire:
    """A sink that keeps what it is given."""

    pending_bytes = 0

    def __init__(self) -> None:
        self.sent = b""

    def write_chunk(self, chunk: bytes) -> None:
        self.sent += chunk


def _stored(key: str, label: str | None, revision: int) -> KeyValue | None:
    if label is None:
        return None
    value = b'{"metadata":{"resourceVersion":"%d","name":"a","labels":{"kind":"%b"}}}' % (
        revision,
        label.encode(),
    )
    return KeyValue(key, value, 1, revision)  # fmt: skip


def _events(found: Sequence[Change], revision: int) -> list[Event]:
    return [
        Event(f"/registry/configmaps/default/{name}", number, _stored(name, now, number), _stored(name, before, 1))
        for number, (name, before, now) in enumerate(found, revision)
    ]  # fmt: skip


def _watcher(selector: str, shape: str, wire: Wire, batch: _Batch) -> _Watcher:
    view = View(CONFIGMAPS, shape)
    matches = matcher(CONFIGMAPS, selector, "")
    return _Watcher(view, matches, (*view.key(), selector), wire, VirtualClock(), batch)  # type: ignore[arg-type]


@given(batches, watchers)
@settings(max_examples=60, deadline=None)
def test_every_watcher_gets_what_it_would_get_change_by_change(delivered, wanted):
    async def run() -> None:
        shared = _Batch()
        joined = [_watcher(*one, Wire(), shared) for one in wanted]
        plain = [_watcher(*one, Wire(), _Batch()) for one in wanted]
        for number, (found, turns) in enumerate(delivered):
            events = _events(found, 10 * number + 2)
            for watcher in joined:
                if events:
                    watcher.deliver(events)
            for watcher in plain:
                for event in _events(found, 10 * number + 2):
                    watcher.deliver([event])
            if turns:
                await asyncio.sleep(0)
        assert [one._sink.sent for one in joined] == [one._sink.sent for one in plain]
        await asyncio.sleep(0)
        assert not shared._made  # nothing is kept for longer than it can be asked for

    asyncio.run(run())
