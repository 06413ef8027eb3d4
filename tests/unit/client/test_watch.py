"""A reflector misses nothing, whatever happens to its connection."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.client.fake_server import PODS, FakeServer
from weir.client.api import Client, Unreachable
from weir.client.cache import Informer, ObjectKey, decode_document
from weir.client.watch import Backoff
from weir.clock import VirtualClock
from weir.errors import InternalError, TooManyRequests

Pods = Informer[dict[str, Any]]


class Scene:
    """A server, an informer of its pods, and what the informer's listeners were told."""

    def __init__(self) -> None:
        self.server = FakeServer()
        self.clock = VirtualClock()
        self.pods: Pods = Informer(
            Client(self.server, clock=self.clock), PODS, self.clock, decode_document, seed=1
        )
        self.pods.reflector._page_size = 3
        self.told: list[str] = []
        self.pods.cache.listen(self._listen)
        self._task: asyncio.Task[None] | None = None

    def _listen(self, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        sign = "+" if old is None else "-" if new is None else "~"
        either = new or old
        assert either is not None
        self.told.append(sign + either["metadata"]["name"])

    async def start(self) -> None:
        self._task = asyncio.create_task(self.pods.run())
        await self.clock.settle()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    @property
    def known(self) -> dict[str, object]:
        return {item["metadata"]["name"]: item["spec"] for item in self.pods.cache}

    @property
    def there(self) -> dict[str, object]:
        return {item["metadata"]["name"]: item["spec"] for item in self.server.objects.values()}

    @property
    def lists(self) -> int:
        return self.pods.reflector.lists


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    made = Scene()
    yield made
    await made.stop()


async def test_it_lists_in_pages_and_then_watches(scene: Scene) -> None:
    for n in range(7):
        scene.server.put_pod(f"p{n}")
    await scene.start()
    scene.server.put_pod("late")
    await scene.clock.settle()
    assert scene.known == scene.there
    assert [line.split(" ")[0] for line in scene.server.requests] == ["GET", "GET", "GET", "WATCH"]
    assert scene.pods.cache.synced


async def test_changes_are_told_as_what_was_and_what_is(scene: Scene) -> None:
    await scene.start()
    scene.server.put_pod("a", node="1")
    scene.server.put_pod("a", node="2")
    scene.server.remove_pod("a")
    await scene.clock.settle()
    assert scene.told == ["+a", "~a", "-a"]


async def test_a_broken_watch_resumes_where_it_was(scene: Scene) -> None:
    scene.server.put_pod("a")
    await scene.start()
    scene.server.cut_watches()
    await scene.clock.settle()
    scene.server.put_pod("b")
    scene.server.remove_pod("a")
    await scene.clock.advance(10)
    assert (scene.told, scene.lists) == (["+a", "+b", "-a"], 1)


async def test_a_bookmark_moves_the_place_to_resume_at(scene: Scene) -> None:
    scene.server.put_pod("a")
    await scene.start()
    scene.server.bookmark()
    await scene.clock.settle()
    scene.server.compact()
    scene.server.cut_watches()
    scene.server.put_pod("b")
    await scene.clock.advance(10)
    assert (scene.known, scene.lists) == (scene.there, 1)


async def test_after_410_it_lists_again_and_tells_only_the_difference(scene: Scene) -> None:
    for name in ("stays", "goes", "changes"):
        scene.server.put_pod(name)
    await scene.start()
    scene.told.clear()
    scene.server.hang = False
    scene.server.cut_watches()
    await asyncio.sleep(0)
    scene.server.put_pod("changes", x="1")
    scene.server.remove_pod("goes")
    scene.server.put_pod("comes")
    scene.server.log.clear()
    scene.server.compact()
    await scene.clock.advance(10)
    assert (sorted(scene.told), scene.lists) == (["+comes", "-goes", "~changes"], 2)


async def test_a_token_that_ran_out_while_paging_falls_back_to_one_list(scene: Scene) -> None:
    for n in range(7):
        scene.server.put_pod(f"p{n}")
    original = scene.server._list

    def compacting(path: str, query: dict[str, list[str]]) -> dict[str, Any]:
        answer = original(path, query)
        if len(scene.server.requests) == 1:
            scene.server.put_pod("p7")
            scene.server.compact()
        return answer

    scene.server._list = compacting  # type: ignore[method-assign]
    await scene.start()
    assert scene.known == scene.there and "limit" not in scene.server.requests[2]


@pytest.mark.parametrize("failure", [Unreachable("away"), InternalError("broken"), TooManyRequests("busy")])
async def test_a_failing_server_is_tried_again_after_growing_pauses(scene: Scene, failure: Exception) -> None:
    scene.server.failures = [failure] * 5
    scene.server.put_pod("a")
    await scene.start()
    assert len(scene.server.requests) == 1 and not scene.pods.cache.synced
    await scene.clock.advance(1.7)
    assert len(scene.server.requests) == 2
    await scene.clock.advance(60)
    assert scene.known == scene.there


async def test_a_server_that_ends_watches_at_once_is_not_asked_without_end(scene: Scene) -> None:
    async def nothing(path: str, after: int) -> AsyncIterator[bytes]:
        return
        yield b""

    scene.server._events = nothing  # type: ignore[method-assign]
    await scene.start()
    await scene.clock.advance(60)
    assert 3 < len(scene.server.requests) < 12


def test_pauses_grow_to_a_limit_and_start_small_again_after_calm() -> None:
    backoff = Backoff(random.Random(3))
    pauses = [backoff.pause(now=float(n)) for n in range(10)]
    assert 0.8 <= pauses[0] <= 1.6 and 30 <= pauses[-1] <= 60
    assert backoff.pause(now=1000.0) <= 1.6


steps = st.lists(
    st.sampled_from(["put", "put", "put", "remove", "cut", "compact", "bookmark", "fail", "wait"]),
    max_size=40,
)


@given(steps, st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_whatever_happens_the_cache_ends_up_as_the_server_is(what: list[str], seed: int) -> None:
    async def play() -> None:
        chance = random.Random(seed)
        scene = Scene()
        await scene.start()
        for number, step in enumerate(what):
            server = scene.server
            name = f"p{chance.randrange(5)}"
            if step == "put":
                server.put_pod(name, n=number)
            elif step == "remove" and f"/api/v1/namespaces/default/pods/{name}" in server.objects:
                server.remove_pod(name)
            elif step == "cut":
                server.cut_watches()
            elif step == "compact":
                server.log.clear()
                server.compact()
                server.cut_watches()
            elif step == "bookmark":
                server.bookmark()
            elif step == "fail":
                server.failures.append(Unreachable("away"))
                server.cut_watches()
            if chance.random() < 0.5:
                await scene.clock.advance(chance.random() * 5)
        await scene.clock.advance(300)
        assert scene.known == scene.there
        counted = {
            name: sum(1 for t in scene.told if t == f"+{name}") for name in {t[1:] for t in scene.told}
        }
        gone = {name: sum(1 for t in scene.told if t == f"-{name}") for name in counted}
        assert {name: counted[name] - gone[name] for name in counted} == {
            name: int(name in scene.there) for name in counted
        }
        await scene.stop()

    asyncio.run(play())


async def test_objects_can_be_found_by_an_index(scene: Scene) -> None:
    cache = scene.pods.cache
    cache.add_index("node", lambda item: [item["spec"]["node"]] if "node" in item["spec"] else [])
    await scene.start()
    for name, node in (("a", "n1"), ("b", "n1"), ("c", "n2"), ("a", "n2")):
        scene.server.put_pod(name, node=node)
    scene.server.remove_pod("c")
    await scene.clock.settle()
    by_node = {
        node: [item["metadata"]["name"] for item in cache.by_index("node", node)] for node in ("n1", "n2")
    }
    assert by_node == {"n1": ["b"], "n2": ["a"]}
    assert cache.get(ObjectKey("default", "b")) is not None and cache.get(ObjectKey("default", "c")) is None


async def test_a_late_listener_hears_of_everything_already_known(scene: Scene) -> None:
    scene.server.put_pod("a")
    await scene.start()
    heard: list[object] = []
    scene.pods.cache.listen(lambda old, new: heard.append((old, new)))
    assert len(heard) == 1
