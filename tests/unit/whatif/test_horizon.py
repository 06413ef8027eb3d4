"""How long a copy is looked at: the steps of time, what ends the looking before the horizon, and what is too much."""

from __future__ import annotations

import re
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.whatif.lives import by_owner, history, life
from tests.unit.whatif.test_copy import large, ticking
from tests.unit.whatif.test_run import (
    FLEET,
    NOW,
    claimed,
    deployment,
    gpus,
    made,
    node,
    pod,
    rule,
    taint,
    tolerant,
)
from weir.controllers.devices.eviction_queue import PodKey
from weir.controllers.devices.taint_eviction import DeviceTaintEviction
from weir.controllers.nodes.taint_eviction import PodKey as NodePodKey
from weir.controllers.nodes.taint_eviction import TaintEviction
from weir.devices.eviction import Eviction
from weir.gates import ALL_FEATURES
from weir.whatif import horizon
from weir.whatif.changes import Apply, DeleteNode, Nodes, Scale
from weir.whatif.history import PodLife
from weir.whatif.horizon import Horizon, TooManyWrites


def test_time_passes_in_steps_that_grow_up_to_the_horizon():
    found, ticks = ticking([node("a"), pod("p", "a")], taint("a", "hot:NoSchedule"), until=100.0)
    assert ticks == [
        (passed, 200) for passed in (0, 1, 2, 5, 10, 20, 30, 60, 90)
    ]  # with the change; as many seconds without
    assert (found.looked.total_seconds(), found.settled, found.at) == (100, True, NOW)


@pytest.mark.parametrize("seconds, settled", [(560, True), (580, False)])
def test_what_happens_just_before_the_horizon_may_go_on(seconds, settled):
    found = made([node("a"), pod("p", "a", "", tolerations=tolerant(seconds))], taint("a", "hot:NoExecute"))
    assert (len(found.leaving), found.settled) == (1, settled)


def test_a_circle_ends_the_looking_in_spite_of_time_that_runs_out_beyond_the_horizon():
    late = pod("late", "ra", "", tolerations=tolerant(5000))
    found = made(
        [node("ra"), pod("p", "ra", tolerations=tolerant(2)), late], taint("ra", "hot:NoExecute"), until=4000
    )
    assert (bool(found.circles), found.looked.total_seconds() < 300) == (True, True)


def test_a_circle_ends_the_looking_long_before_the_horizon():
    before = [node("ra"), pod("p", "ra", tolerations=tolerant(2))]
    found = made(before, taint("ra", "hot:NoExecute"), until=86400)
    assert (bool(found.circles), found.settled, found.looked.total_seconds() < 300) == (True, False, True)


def test_a_circle_does_not_hide_a_pod_that_leaves_later():
    late = pod("late", "ra", "", tolerations=tolerant(60))
    before = [node("ra"), pod("p", "ra", tolerations=tolerant(2)), late]
    found = made(before, taint("ra", "hot:NoExecute"), until=120)
    assert {one.pod: one.after.total_seconds() for one in found.leaving} == {
        "default/p": 2,
        "default/late": 60,
    }


def test_a_circle_does_not_hide_a_pod_whose_device_drives_it_out_later():
    claim, late = claimed(0, "b")
    allows = {"key": "recall", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    result["tolerations"] = [allows]
    late["metadata"]["ownerReferences"] = []
    looping = pod("p", "ra", tolerations=tolerant(2), nodeSelector={"kubernetes.io/hostname": "ra"})
    before = [*FLEET, gpus("b"), node("ra"), node("b"), looping, claim, late]
    found = made(before, taint("ra", "hot:NoExecute"), Apply((rule(effect="NoExecute"),)), until=120)
    assert {one.pod: one.after.total_seconds() for one in found.leaving} == {
        "default/p": 2,
        "default/p0": 60,
    }


def test_a_circle_does_not_hide_the_pods_of_a_node_that_is_gone():
    looping = pod("p", "ra", tolerations=tolerant(2), nodeSelector={"kubernetes.io/hostname": "ra"})
    before = [node("ra"), node("b"), looping, pod("q", "b", "")]
    found = made(before, taint("ra", "hot:NoExecute"), DeleteNode(Nodes(("b",))), until=120)
    assert {one.pod: one.cause.say() for one in found.leaving} == {
        "default/p": "tolerates hot:NoExecute of node ra for 2s",
        "default/q": "its node is gone",
    }


# ── too much ──


@pytest.mark.parametrize("most, a_pod, enough", [(30, 50, True), (200, 0, True), (10, 1, False)])
def test_the_more_pods_there_are_the_more_is_waited_for(monkeypatch, most, a_pod, enough):
    monkeypatch.setattr(horizon, "MOST_WRITES", most)
    monkeypatch.setattr(horizon, "MOST_WRITES_A_POD", a_pod)
    found, _ = ticking(large(), Scale("rs/web", 24), until=20)
    assert (found.notes == ()) is enough


def test_a_copy_in_which_too_much_goes_on_is_left_with_a_word(monkeypatch):
    monkeypatch.setattr(horizon, "MOST_WRITES", 40)
    monkeypatch.setattr(horizon, "MOST_WRITES_A_POD", 0)
    found, _ = ticking([node("a", cpu="99"), deployment(1, "10m")], Scale("deploy/web", 15), until=20)
    (note,) = found.notes
    counted = r"4\d writes to pods in \d\.\d s, most of it with deployment default/web"
    assert re.fullmatch(
        rf"More goes on than was waited for \({counted}\): what comes later was not looked at", note
    )
    assert (found.settled, found.bad) == (False, True)


def test_what_is_there_does_not_count_as_pods(monkeypatch):
    monkeypatch.setattr(horizon, "MOST_WRITES", 10)
    monkeypatch.setattr(horizon, "MOST_WRITES_A_POD", 20)
    nodes = [node(f"n{number}") for number in range(12)]
    found, _ = ticking([*nodes, deployment(0, "10m")], Scale("deploy/web", 15), until=20)
    assert found.notes != ()


# ── of lives written by hand ─────────────────────────────────────────────────────────────────────


class Copy:
    """A copy in which nothing happens but time."""

    def __init__(self, *controllers: Any) -> None:
        self.now, self.revision = NOW, 500
        self.clock = SimpleNamespace(monotonic=lambda: 1000.0 + (self.now - NOW).total_seconds(), look=None)
        workers = [SimpleNamespace(controller=controller) for controller in controllers]
        self.plane = SimpleNamespace(controllers=SimpleNamespace(workers=workers))

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


def looking(lives: Any = (), *controllers: Any, until: float = 100.0, pods: int = 0) -> Any:
    copy, seen = Copy(*controllers), history(lives, seen=0.0)
    found = Horizon(copy, seen, NOW, until, pods, by_owner, lambda done, total: None)  # type: ignore[arg-type]
    return found, copy, seen


def looping() -> list[PodLife]:
    """Pods of a ReplicaSet that are driven out every two seconds, the last of them still there."""
    lives = [life(f"p{n}", made=2.0 * n, left=2.0 * n + 2, gone=2.0 * n + 2) for n in range(6)]
    lives.append(life("p6", made=12.0))
    for order, each in enumerate(lives):
        each.came, each.went = 2 * order, 2 * order + 1 if each.left is not None else 0
    return lives


def test_what_was_too_much_is_remembered():
    found, _, _ = looking()
    quiet = found.run_bounded(lambda: None)

    def act() -> None:
        raise TooManyWrites

    assert (quiet, found.too_many_writes) == (True, False)
    assert (found.run_bounded(act), found.too_many_writes) == (False, True)


def test_so_many_writes_in_one_moment_are_too_much(monkeypatch):
    monkeypatch.setattr(horizon, "MOST_WRITES", 10)
    monkeypatch.setattr(horizon, "MOST_WRITES_A_POD", 5)
    found, copy, _ = looking(pods=2)
    for _ in range(3):
        copy.revision += 20  # as many as are waited for
        assert found.run_bounded(copy.clock.look)
        copy.advance(1.0)
        assert found.run_bounded(copy.clock.look)
    copy.revision += 21
    assert not found.run_bounded(copy.clock.look)


def test_so_many_writes_to_pods_are_too_much_at_whatever_time(monkeypatch):
    monkeypatch.setattr(horizon, "MOST_WRITES", 10)
    found, copy, seen = looking()
    seen.writes = 10
    assert found.run_bounded(copy.clock.look)
    seen.writes = 11
    assert not found.run_bounded(copy.clock.look)


def test_the_busiest_workload_is_the_one_with_most_pods_made_since_the_change():
    before = [life(f"o{n}", owner="ReplicaSet/old", made=-1.0) for n in range(5)]
    since = [life(f"p{n}", made=float(n)) for n in range(2)] + [life("q", owner="ReplicaSet/new", made=1.0)]
    found, _, seen = looking([*before, *since])
    seen.writes = 1234
    assert found.busiest(3.0) == (
        "More goes on than was waited for (1,234 writes to pods in 3.0 s, most of it with replicaset default/web): "
        "what comes later was not looked at"
    )
    assert "most of it" not in looking(before)[0].busiest(3.0)


@pytest.mark.parametrize("last, rests", [(69.0, True), (70.0, False), (71.0, False)])
def test_a_copy_rests_when_the_longest_step_before_the_horizon_was_quiet(last, rests):
    found, _, seen = looking()
    seen.last_change = last
    found.pass_time()
    assert (found.rests, seen.last_seen) == (rests, 100.0)


def look_at(lives: list[PodLife], *controllers: Any, departing: bool = True, last: float = 14.0) -> float:
    """Return how long is looked when a pod goes with every step."""
    found, copy, seen = looking(lives, *controllers)
    seen.last_change = last
    seen.nodes = {"a": {}}
    advance = copy.advance

    def go(seconds: float) -> None:
        advance(seconds)
        seen.departures += departing

    copy.advance = go  # type: ignore[method-assign]
    found.pass_time()
    ended: float = seen.last_seen
    assert found.rests is (ended == 100.0)
    return ended


def test_a_circle_ends_the_looking_when_one_of_its_pods_went():
    assert (look_at(looping()), look_at(looping(), departing=False)) == (1.0, 100.0)
    assert look_at([]) == 100.0


@pytest.mark.parametrize("at, ended", [(2.0, 1.0), (2.5, 100.0)])
def test_a_circle_does_not_end_it_while_others_have_just_done_something(at, ended):
    other = life("q", owner="", made=-10.0)
    other.running = at
    assert look_at([*looping(), other]) == ended


def timer(pod: str, seconds: float) -> TaintEviction:
    controller = TaintEviction(ALL_FEATURES)
    fires = SimpleNamespace(fire_at=NOW + timedelta(seconds=seconds))
    controller.timers = {NodePodKey("default", pod, "a"): fires}  # type: ignore[dict-item]
    return controller


def device_taint(pod: str, seconds: float) -> DeviceTaintEviction:
    controller = DeviceTaintEviction(ALL_FEATURES)
    controller.pending = {
        PodKey("default", pod, f"uid-{pod}"): Eviction(NOW + timedelta(seconds=seconds), ())
    }
    return controller


@pytest.mark.parametrize("because_of", [timer, device_taint])
@pytest.mark.parametrize(
    "pod, seconds, left, ended",
    [
        ("q", 100, None, 100.0),
        ("q", 101, None, 1.0),
        ("q", 50, 1.0, 1.0),
        ("p6", 50, None, 1.0),
        ("unknown", 50, None, 1.0),
    ],
    ids=["at the horizon", "beyond it", "has left", "of the circle", "gone"],
)
def test_others_that_have_to_leave_before_the_horizon_are_waited_for(because_of, pod, seconds, left, ended):
    other = life("q", owner="", left=left)
    assert look_at([*looping(), other], because_of(pod, seconds)) == ended


@pytest.mark.parametrize("on, owner, ended", [("gone", "", 100.0), ("a", "", 1.0), ("", "", 1.0)])
def test_pods_of_a_node_that_is_gone_are_waited_for(on, owner, ended):
    assert look_at([*looping(), life("q", owner=owner, node=on)]) == ended
