"""At most one acts at a time, whatever fails; and somebody acts again soon after."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.unit.client.fake_server import FakeServer
from weir.client.api import Client, Unreachable
from weir.client.leases import Elector, Leadership, LeadershipLost, Timing
from weir.clock import VirtualClock

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/scheduler"


class Scene:
    def __init__(self) -> None:
        self.server, self.clock = FakeServer(), VirtualClock()
        self.acting: dict[str, Leadership] = {}
        self.most_at_once = 0
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.transports: dict[str, Cuttable] = {}

    def join(self, name: str) -> None:
        self.transports[name] = transport = Cuttable(self.server)
        elector = Elector(
            Client(transport, clock=self.clock),
            self.clock,
            name="scheduler",
            namespace="kube-system",
            identity=name,
        )

        async def act(leadership: Leadership) -> None:
            self.acting[name] = leadership
            try:
                while True:
                    self.most_at_once = max(self.most_at_once, sum(one.held for one in self.acting.values()))
                    await self.clock.sleep(0.5)
            finally:
                del self.acting[name]

        self.tasks[name] = asyncio.create_task(elector.run(act))

    async def leave(self, name: str) -> None:
        self.tasks[name].cancel()
        await asyncio.wait([self.tasks.pop(name)])


class Cuttable(FakeServer):
    """A way to the server that can be cut, for one of its clients only."""

    def __init__(self, server: FakeServer) -> None:
        self._server = server
        self.away = self.silent = False

    async def request(self, *arguments: object, **rest: object):  # type: ignore[no-untyped-def]
        if self.silent:
            await asyncio.get_running_loop().create_future()
        if self.away:
            raise Unreachable("away")
        return await self._server.request(*arguments, **rest)  # type: ignore[arg-type]


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    made = Scene()
    yield made
    for name in list(made.tasks):
        await made.leave(name)


async def test_the_first_becomes_leader_and_the_second_waits(scene: Scene) -> None:
    for name in ("a", "b"):
        scene.join(name)
    await scene.clock.advance(60)
    assert list(scene.acting) == ["a"] and scene.most_at_once == 1
    assert scene.server.objects[LEASE]["spec"]["holderIdentity"] == "a"


async def test_a_leader_that_leaves_hands_over_at_once(scene: Scene) -> None:
    for name in ("a", "b"):
        scene.join(name)
    await scene.clock.advance(5)
    await scene.leave("a")
    await scene.clock.advance(3)
    assert list(scene.acting) == ["b"]
    assert scene.server.objects[LEASE]["spec"]["leaseTransitions"] == 1


@pytest.mark.parametrize("how", ["away", "silent"])
async def test_a_leader_that_cannot_renew_stops_before_another_begins(scene: Scene, how: str) -> None:
    for name in ("a", "b"):
        scene.join(name)
    await scene.clock.advance(5)
    setattr(scene.transports["a"], how, True)
    stopped_at = started_at = None
    for tick in range(60):
        await scene.clock.advance(0.5)
        if "a" not in scene.acting and stopped_at is None:
            stopped_at = tick
        if "b" in scene.acting and started_at is None:
            started_at = tick
    assert stopped_at is not None and started_at is not None and stopped_at < started_at
    assert scene.most_at_once == 1


async def test_a_leader_that_is_told_twice_to_leave_still_hands_over(scene: Scene) -> None:
    scene.join("a")
    await scene.clock.advance(1)
    task = scene.tasks.pop("a")
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled() and scene.server.objects[LEASE]["spec"]["holderIdentity"] == ""


async def test_a_deposed_leader_learns_of_it_when_it_asks(scene: Scene) -> None:
    scene.join("a")
    await scene.clock.advance(1)
    leadership = scene.acting["a"]
    await leadership.confirm()
    lease = scene.server.objects[LEASE]
    scene.server.put(
        LEASE, {**lease, "spec": {**lease["spec"], "holderIdentity": "b", "leaseTransitions": 1}}
    )
    assert leadership.held  # by its own clock
    with pytest.raises(LeadershipLost, match="a no longer holds lease kube-system/scheduler"):
        await leadership.confirm()
    assert not leadership.held


async def test_a_renewal_from_a_stale_read_is_refused(scene: Scene) -> None:
    scene.join("a")
    await scene.clock.advance(1)
    lease = scene.server.objects[LEASE]
    scene.server.put(
        LEASE, {**lease, "spec": {**lease["spec"], "holderIdentity": "b", "leaseTransitions": 1}}
    )
    await scene.clock.advance(3)
    assert scene.acting == {} and scene.server.objects[LEASE]["spec"]["holderIdentity"] == "b"


async def test_a_lease_nobody_renews_is_taken_over_after_its_duration(scene: Scene) -> None:
    scene.join("a")
    await scene.clock.advance(1)
    scene.transports["a"].away = True  # and it dies without releasing
    await scene.leave("a")
    scene.join("b")
    await scene.clock.advance(14)
    assert scene.acting == {}
    await scene.clock.advance(5)
    assert list(scene.acting) == ["b"]


async def test_a_paused_process_knows_it_may_not_act(scene: Scene) -> None:
    scene.join("a")
    await scene.clock.advance(1)
    leadership = scene.acting["a"]
    scene.clock._elapsed += 11  # as after a suspended machine: nothing ran, time went on
    with pytest.raises(LeadershipLost):
        leadership.check()


def test_timing_that_could_give_two_leaders_is_refused() -> None:
    with pytest.raises(ValueError, match="lease duration > renew deadline"):
        Timing(lease_duration_seconds=10, renew_deadline_seconds=10)
