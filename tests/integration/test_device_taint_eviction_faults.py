"""Device evictions in bad weather: events twice and late, answers lost, restarts, many rules, broken objects."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager, contextmanager
from functools import partial

import pytest

from tests.unit.controllers.device_cluster import (
    DRIVER,
    Devices,
    rule_document,
    slice_document,
    taint,
    tolerate,
)
from tests.unit.controllers.device_story import (
    ADDED,
    T0,
    Story,
    claim_document,
    identified,
    pod_document,
)
from tests.work import count_calls
from weir.apiserver.auth.authz import action_of
from weir.apiserver.auth.rbac import Rule
from weir.apiserver.bootstrap import policy
from weir.apiserver.transport.paths import parse
from weir.client.api import Reply, Unreachable
from weir.controllers.devices.taint_eviction import DeviceTaintEviction
from weir.controllers.runtime.runner import Controllers
from weir.gates import ALL_FEATURES
from weir.simulation.control_plane import local_client

MARKING, CANCELLING = "Marking for deletion", "Cancelling deletion"
REFUSAL = b'{"kind":"Status","status":"Failure","reason":"InternalError","message":"made up","code":500}'


class Weather:
    """A way to the server on which events come late and twice, and writes fail or lose their answer."""

    def __init__(self, inner, clock, seed, *, twice=0.0, late_seconds=0.0, failing=0.0):
        self._inner, self._clock, self._rng = inner, clock, random.Random(seed)
        self._twice, self._late, self._failing = twice, late_seconds, failing
        self.faults = 0
        self.requests = set()

    async def request(self, method, target, headers=None, body=b""):
        self.requests.add((method, target))
        fault = self._rng.random() if method != "GET" and "/events" not in target else 1.0
        if fault < self._failing:
            self.faults += 1
            if fault < self._failing / 3:
                return Reply(500, REFUSAL, {})
            if fault < self._failing * 2 / 3:
                raise Unreachable("no route to host")
        reply = await self._inner.request(method, target, headers, body)
        if fault < self._failing:
            raise Unreachable("connection reset")  # done, and nobody will know
        return reply

    @asynccontextmanager
    async def stream(self, target, headers=None, *, silent_seconds=0.0):
        self.requests.add(("GET", target))
        async with self._inner.stream(target, headers, silent_seconds=silent_seconds) as (reply, lines):
            yield reply, self._blown(lines)

    async def _blown(self, lines):
        async for line in lines:
            if self._late:
                await self._clock.sleep(self._rng.random() * self._late)
            yield line
            if self._rng.random() < self._twice:
                yield line

    async def close(self):
        await self._inner.close()


@contextmanager
def stormy(seed=0, **weather):
    """Give devices whose eviction controller reaches the server through bad weather, and that weather."""
    with Devices(controllers=["namespace"]) as devices:  # one that has nothing to do here
        cluster = devices.cluster
        client = local_client(cluster._running, cluster.clock, "kube-controller-manager")
        client._transport = Weather(client._transport, cluster.clock, seed, **weather)
        controllers = Controllers(client, cluster.clock, [DeviceTaintEviction(ALL_FEATURES)])

        async def begin():
            return asyncio.ensure_future(controllers.run())

        task = cluster._do(begin())
        try:
            yield devices, client._transport
            assert not task.done(), task.exception()
        finally:
            task.cancel()
            cluster._wait(asyncio.gather(task, return_exceptions=True))


@pytest.mark.parametrize("seed", range(3))
def test_events_that_come_twice_and_late_evict_nobody_twice(seed):
    with stormy(seed, twice=0.5, late_seconds=0.2) as (devices, _):
        devices.use(15)
        devices.put(rule_document())
        devices.cluster.advance(60)
        said = devices.condition()[1:3]
        assert (len(devices.leaving), devices.told(), said) == (
            15,
            [MARKING] * 15,
            ("Completed", "15 pods evicted since starting the controller."),
        )


@pytest.mark.proves("5055-79")
def test_the_bootstrap_role_allows_every_request_of_the_controller_and_nothing_else():
    with stormy() as (devices, weather):
        devices.use(2)
        devices.put(rule_document())
        devices.cluster.advance(60)
        assert len(devices.leaving) == 2 and devices.condition()[1] == "Completed"
    name = "system:controller:device-taint-eviction-controller"
    (role,) = (each for each in policy.objects() if each["metadata"]["name"] == name and "rules" in each)
    rules = [Rule.of(rule) for rule in role["rules"]]
    actions = set()
    for method, target in weather.requests:
        path, _, query = target.partition("?")
        actions.add(action_of(parse(method, path, watch="watch=" in query)))
    refused = [action for action in actions if not any(rule.allows(action) for rule in rules)]
    used = {rule for rule in rules if any(rule.allows(action) for action in actions)}
    assert (refused, used) == ([], set(rules))


@pytest.mark.parametrize("seed", range(3))
def test_a_rule_that_goes_in_time_evicts_nobody_however_late_that_is_heard(seed):
    with stormy(seed, twice=0.3, late_seconds=0.2) as (devices, _):
        devices.use(5, tolerations=(tolerate(seconds=60),))
        devices.put(rule_document())
        devices.cluster.advance(30)  # all that is late has come
        devices.cluster.delete("DeviceTaintRule", "bad")
        devices.cluster.advance(60)
        assert (devices.leaving, devices.told()) == ([], [CANCELLING] * 5)


@pytest.mark.parametrize("seed", range(3))
def test_failing_writes_are_tried_again_until_all_have_left(seed):
    with stormy(seed, failing=0.4) as (devices, weather):
        devices.use(15)
        devices.claim("spare", "node-0/gpu-60", tolerations=(tolerate(),))
        devices.pod("stays", "spare")
        devices.put(rule_document())
        devices.cluster.advance(120)
        assert weather.faults > 5  # the weather was bad
        said = devices.condition()[1:3]
        assert (devices.staying, len(devices.leaving), said) == (
            ["stays"],
            15,
            ("Completed", "15 pods evicted since starting the controller."),
        )


def test_restarts_midway_tell_nobody_twice():
    with Devices() as devices:
        devices.use(60)
        devices.put(rule_document(evictionsPerSecond=5))
        for _ in range(6):
            devices.cluster.advance(0.35)
            devices.cluster.set_gates(ALL_FEATURES)
        devices.cluster.advance(60)
        assert (len(devices.leaving), devices.told()) == (60, [MARKING] * 60)


def test_after_a_restart_a_window_goes_on_as_if_nothing_had_been():
    with Devices() as devices:
        devices.use(1, tolerations=(tolerate(seconds=100),))
        devices.put(rule_document())
        devices.cluster.advance(60)
        devices.cluster.set_gates(ALL_FEATURES)
        devices.cluster.advance(39)
        before = devices.leaving
        devices.cluster.advance(1)
        assert (before, devices.leaving) == ([], ["p-0000"])


# ── sizes ────────────────────────────────────────────────────────────────────────────────────────


def take(story, *documents):
    """Take documents in one by one."""
    for document in documents:
        story.listers.put(document)
        story.work()


def busy(story, *documents):
    """Take documents in one by one; return the function calls of the longest and of all."""
    took = [count_calls(partial(take, story, document)) for document in documents]
    return max(took), sum(took)


def nodes(count, devices=8):
    return [identified(slice_document(f"node-{n}", devices)) for n in range(count)]


def test_ten_thousand_rules_stall_nobody():
    story = Story()
    take(story, *nodes(250))
    users = [
        each
        for n in range(250)
        for each in (
            claim_document(f"c-{n}", [(f"node-{n}", "gpu-0")], users=[f"p-{n}"]),
            pod_document(f"p-{n}", f"c-{n}"),
        )
    ]
    take(story, *users)
    rules = [
        identified(
            rule_document(
                f"r-{n}",
                "k:NoSchedule",
                {"pool": f"node-{n % 250}", "device": f"gpu-{n % 8}"},
                timeAdded=ADDED,
            )
        )
        for n in range(10_000)
    ]
    take(story, *rules[:-500])
    longest, _ = busy(story, *rules[-500:])  # those with the most others there
    last = identified(rule_document("last", "k:NoExecute", {"pool": "node-7"}, timeAdded=ADDED))
    one, _ = busy(story, last)
    # Calls: fewer than there are rules, so that no rule has all the others looked at.
    assert (story.left, longest < 5000, one < 5000) == ([("p-7", 0.0)], True, True)


def test_a_driver_that_rewrites_its_slices_all_the_time_costs_what_it_touches():
    story = Story()
    take(story, *nodes(250))
    hot = {f"gpu-{n}": [taint("hot:NoSchedule", timeAdded=ADDED)] for n in range(8)}
    calm = {f"gpu-{n}": [] for n in range(8)}
    rewrites = [identified(slice_document("node-3", hot if n % 2 else calm)) for n in range(500)]
    _, all_of_them = busy(story, *rewrites)
    assert all_of_them / len(rewrites) < 1000  # calls: of 2,000 devices, the eight rewritten are looked at


# ── broken objects ───────────────────────────────────────────────────────────────────────────────


def test_a_slice_that_is_none_is_left_out():
    story = Story()
    wrong = identified(slice_document())
    wrong["spec"]["devices"] = "many"
    busy(story, wrong, claim_document("c", [("node-0", "gpu-0")], users=["p"]), pod_document("p", "c"))
    busy(story, identified(rule_document(timeAdded=ADDED)))
    assert story.left == [("p", 0.0)]  # the rule reaches it by its names


def test_a_stored_selector_that_no_longer_compiles_is_told_on_its_rule():
    story = Story()
    busy(story, *nodes(1))
    broken = {"selectors": [{"cel": {"expression": "device.nonsense("}}]}
    busy(story, identified(rule_document("broken", selector=broken, timeAdded=ADDED)))
    ((name, message),) = story.told
    assert (name, message.startswith("DeviceTaintRule broken: selector #0: CEL compile error")) == (
        "broken",
        True,
    )


def test_a_broken_rule_does_not_keep_other_rules_from_evicting():
    story = Story()
    busy(story, *nodes(1), claim_document("c", [("node-0", "gpu-0")], users=["p"]), pod_document("p", "c"))
    failing = {"selectors": [{"cel": {"expression": f"device.attributes['{DRIVER}'].missing == 1"}}]}
    busy(story, identified(rule_document("failing", selector=failing, timeAdded=ADDED)))
    busy(story, identified(rule_document("good", timeAdded=ADDED)))
    assert story.left == [("p", 0.0)]


def test_a_taint_without_a_time_counts_from_when_it_was_seen():
    story = Story()
    without = identified(rule_document())
    without["spec"]["taint"].pop("timeAdded", None)
    tolerations = (tolerate(seconds=30),)
    busy(
        story,
        *nodes(1),
        pod_document("p", "c"),
        claim_document("c", [("node-0", "gpu-0")], tolerations, ["p"]),
    )
    busy(story, without)
    assert story.now == T0 and story.until(100).left == [("p", 30.0)]
