"""Pods' lives as they are seen write by write, why they ended, and what was made in their place."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.unit.whatif.lives import chain, history, life
from weir.gates import ALL_FEATURES
from weir.objects.core import Taint
from weir.whatif.history import Cause, History, PodLife, Why, after

BEGAN = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOT = Taint("hot", "", "NoExecute")


def pod(name: str = "p", *, on: str = "", phase: str = "Pending", **more: Any) -> dict[str, Any]:
    """Return a pod; *more* of its status, `owner`, `spec` and `going` apart."""
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    if owner := more.pop("owner", "ReplicaSet/web"):
        kind, _, title = owner.partition("/")
        metadata["ownerReferences"] = [
            {"kind": kind, "name": title, "uid": f"uid-{title}", "controller": True}
        ]
    if more.pop("going", False):
        metadata["deletionTimestamp"] = "2026-01-01T12:00:00Z"
    spec = {"containers": [], **({"nodeName": on} if on else {}), **more.pop("spec", {})}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase, **more}}


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def node(name: str, *keys: str, effect: str = "NoExecute") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"taints": [{"key": key, "effect": effect} for key in keys]}}


def started(*before: dict[str, Any], nodes: tuple[dict[str, Any], ...] = ()) -> History:
    """Return a history whose change was just made, ten seconds after it was first looked at."""
    past = History(ALL_FEATURES)
    for each in nodes:
        past.observe_node(at(-10), None, each)
    for each in before:
        past.observe_pod(at(-10), None, each)
    if not before:
        past.began = at(-10)
    past.start(BEGAN, nodes)
    return past


def only(past: History) -> PodLife:
    (found,) = past.lives.values()
    return found


# ── a life ──


def test_a_life_is_written_down_as_it_is_lived():
    past = started()
    past.observe_pod(at(1), None, pod())
    past.observe_pod(at(2), pod(), pod(on="a"))
    past.observe_pod(at(3), pod(), pod(on="a", phase="Running"))
    past.observe_pod(at(4), pod(), pod(on="a", phase="Running"))
    one = only(past)
    assert (one.key, one.owner, one.owner_uid) == ("default/p", "ReplicaSet/web", "uid-web")
    assert (one.node, one.made, one.bound, one.running, one.left, one.runs) == ("a", 1, 2, 3, None, True)
    past.observe_pod(at(5), pod(), pod(on="a", phase="Running", going=True))
    past.observe_pod(at(6), pod(), pod(on="a", phase="Failed", going=True))
    past.observe_pod(at(7), pod(on="a"), None)
    assert (one.left, one.gone, one.runs, one.cause) == (5, 7, False, Cause(Why.OWNER))
    assert (past.writes, past.departures, past.last_change) == (7, 1, 7)


def test_a_history_begins_with_nothing_and_counts_before_the_change_too():
    past = History(ALL_FEATURES)
    assert (past.writes, past.departures, past.last_change, past.last_seen) == (0, 0, 0, 0)
    past.observe_pod(at(-10), None, pod(going=True))
    assert (past.writes, past.departures) == (1, 1)


def test_a_pod_that_was_deleted_at_once_left_then():
    past = started()
    past.observe_pod(at(1), None, pod())
    past.observe_pod(at(2), pod(), None)
    past.observe_pod(at(3), pod(), None)
    assert (only(past).left, only(past).gone) == (2, 2)


def test_a_pod_that_never_ran_does_not_run():
    past = started()
    past.observe_pod(at(1), None, pod())
    past.observe_pod(at(2), None, pod(on="a"))
    assert (only(past).runs, only(past).bound, only(past).document) == (False, 2, pod(on="a"))
    assert only(past).target == ""


def test_a_pod_nobody_owns_has_no_owner():
    past = started(pod(owner=""))
    assert (only(past).owner, only(past).owner_uid) == ("", "")


def test_times_are_counted_from_the_change():
    past = History(ALL_FEATURES)
    past.observe_pod(at(-10), None, pod())
    past.observe_pod(at(-8), None, pod(on="a"))
    past.observe_pod(at(-7), None, pod(on="a", phase="Running"))
    past.observe_pod(at(-6), None, pod("q", going=True))
    past.observe_pod(at(-5), pod("q"), None)
    past.start(BEGAN, ())
    first, second = past.lives.values()
    assert (first.made, first.bound, first.running, first.left) == (-10, -8, -7, None)
    assert (second.made, second.left, second.gone) == (-6, -6, -5)
    assert (past.writes, past.departures, past.last_change) == (0, 0, 0)


def test_a_history_that_saw_nothing_begins_with_the_change():
    past = History(ALL_FEATURES)
    past.start(BEGAN, ())
    past.observe_pod(at(3), None, pod())
    assert only(past).made == 3


@pytest.mark.parametrize(
    "made, left, there",
    [(-1.0, None, True), (-1.0, 0.0, True), (-1.0, 5.0, True), (-1.0, -0.5, False), (0.0, None, False)],
)
def test_who_was_there_at_the_change(made, left, there):
    past = history([life("p", made=made, left=left)])
    assert [each.name for each in past.there_at_the_change()] == (["p"] if there else [])


# ── waiting ──


def refused(message: str = "no room", reason: str = "Unschedulable", **spec: Any) -> dict[str, Any]:
    conditions = [
        {"type": "Other", "message": "x"},
        {"type": "PodScheduled", "status": "False", "reason": reason, "message": message},
    ]
    return pod(conditions=conditions, spec=spec)


def test_what_the_scheduler_said_last_is_kept_until_the_pod_has_a_node():
    past = started(refused("first"))
    past.observe_pod(at(1), None, refused("second"))
    past.observe_pod(at(2), None, pod())
    assert only(past).waits == "second"
    past.observe_pod(at(3), None, {**refused("late"), "spec": {"nodeName": "a"}})
    assert only(past).waits == ""


def test_the_highest_priority_that_fitted_nowhere_is_known():
    past = started(refused(priority=5), pod(), refused(priority=3))
    assert past.refused_priority == 5
    assert started(refused()).refused_priority == 0
    assert started(refused(priority=-5)).refused_priority == 0


@pytest.mark.parametrize(
    "document",
    [pod(), refused(preemptionPolicy="Never"), refused(reason="SchedulingGated"), refused(nodeName="a")],
)
def test_who_pushes_nobody_out_does_not_count(document):
    assert started(document).refused_priority is None


# ── why it went ──


def picked(reason: str, message: str = "because") -> dict[str, Any]:
    conditions = [{"type": "Ready", "reason": "EvictionByEvictionAPI"}]
    return {"conditions": [*conditions, {"type": "DisruptionTarget", "reason": reason, "message": message}]}


@pytest.mark.parametrize(
    "status, cause",
    [
        (picked("EvictionByEvictionAPI"), Cause(Why.EVICTED, message="because")),
        (picked("PreemptionByScheduler"), Cause(Why.PREEMPTED, message="because")),
        (picked("DeletionByPodGC"), Cause(Why.NODE_GONE, message="because")),
        (picked("DeletionByDeviceTaintManager"), Cause(Why.DEVICE_TAINT)),
        (picked("TerminationByKubelet"), Cause(Why.OWNER)),
        ({"conditions": [{"type": "DisruptionTarget"}]}, Cause(Why.OWNER)),
        (
            {
                "conditions": [
                    {"type": "DisruptionTarget", "message": "x"},
                    *picked("DeletionByPodGC")["conditions"],
                ]
            },
            Cause(Why.NODE_GONE, message="because"),
        ),
        ({}, Cause(Why.OWNER)),
        ({"phase": "Succeeded"}, Cause(Why.ENDED)),
        ({"phase": "Failed"}, Cause(Why.ENDED)),
        ({"phase": "Succeeded", "reason": "Completed"}, Cause(Why.ENDED)),
        (
            {"phase": "Failed", "reason": "OutOfcpu", "message": "m"},
            Cause(Why.REFUSED, message="OutOfcpu: m"),
        ),
        ({"phase": "Failed", "reason": "OutOfcpu"}, Cause(Why.REFUSED, message="OutOfcpu: ")),
    ],
)
def test_why_a_pod_went_is_what_was_written_on_it(status, cause):
    past = started(pod(on="a"))
    past.observe_pod(at(1), None, pod(on="a", going=True, **{"phase": "Running", **status}))
    assert only(past).cause == cause


def test_which_taint_of_a_device_is_known_from_outside():
    past = started(pod(on="a"))
    known = Cause(Why.DEVICE_TAINT, HOT, "device d")
    past.device_cause = lambda life: known if life.key == "default/p" else Cause(Why.DEVICE_TAINT)
    past.observe_pod(at(1), None, pod(on="a", going=True, **picked("DeletionByDeviceTaintManager")))
    assert only(past).cause is known


def evicted(before: dict[str, Any], after: dict[str, Any], seconds: int | None = None, **spec: Any) -> Cause:
    """Return why a pod went when the node *before* became the node *after*; it tolerates hot for these seconds."""
    if seconds is not None:
        tolerations = [
            {"key": "hot", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
        ]
        spec = {"tolerations": tolerations, **spec}
    past = started(pod(on="a", spec=spec), nodes=(before,))
    past.observe_node(at(1), before, after)
    past.observe_pod(at(2), None, pod(on="a", going=True, spec=spec, **picked("DeletionByTaintManager")))
    cause = only(past).cause
    assert cause is not None
    return cause


@pytest.mark.parametrize("granted, told", [(None, None), (30, 30), (0, 0), (-5, 0)])
def test_the_taint_that_drove_a_pod_out_is_named(granted, told):
    assert evicted(node("a"), node("a", "hot"), granted) == Cause(Why.TAINT, HOT, "node a", told)


@pytest.mark.parametrize("granted", [None, 0, 30])
def test_a_pod_that_had_to_go_for_the_taints_of_before_goes_anyway(granted):
    assert evicted(node("a", "hot"), node("a", "hot"), granted).anyway


def test_a_pod_that_has_to_go_sooner_than_before_does_not_go_anyway():
    assert not evicted(node("a", "hot"), node("a", "hot", "fire"), 30).anyway
    assert evicted(node("a", "fire"), node("a", "hot"), 30).anyway


@pytest.mark.parametrize(
    "after_it", [node("a"), node("a", "hot", effect="NoSchedule"), {"metadata": {}, "spec": 5}]
)
def test_a_taint_that_is_not_there_any_more_is_not_named(after_it):
    past = started(pod(on="a"), nodes=(node("a"),))
    past.nodes["a"] = after_it
    past.observe_pod(at(2), None, pod(on="a", going=True, **picked("DeletionByTaintManager")))
    assert only(past).cause == Cause(Why.TAINT)


def test_a_node_that_is_gone_has_no_taints():
    past = started(pod(on="a"), nodes=(node("a", "hot"),))
    past.observe_node(at(1), node("a", "hot"), None)
    past.observe_node(at(1), node("never", "hot"), None)
    past.observe_pod(at(2), None, pod(on="a", going=True, **picked("DeletionByTaintManager")))
    assert (past.nodes, only(past).cause) == ({}, Cause(Why.TAINT))


def test_what_a_pod_tolerated_before_decides_whether_it_went_anyway():
    tolerated = {"tolerations": [{"key": "hot", "operator": "Exists"}]}
    past = started(pod(on="a", spec=tolerated), nodes=(node("a", "hot"),))
    past.observe_pod(at(1), None, pod(on="a", going=True, **picked("DeletionByTaintManager")))
    assert only(past).cause == Cause(Why.TAINT, HOT, "node a")


def test_a_pod_that_its_kubelet_refuses_for_a_taint_names_it():
    past = started(nodes=(node("a", "hot"),))
    past.observe_pod(at(1), None, pod(on="a", phase="Failed", reason="TaintToleration", message="no"))
    assert only(past).cause == Cause(Why.REFUSED, HOT, "node a", anyway=True, message="no")


@pytest.mark.parametrize(
    "cause, said",
    [
        (Cause(Why.TAINT, HOT, "node a"), "nothing tolerates hot:NoExecute of node a"),
        (Cause(Why.TAINT, HOT, "node a", 0), "tolerates hot:NoExecute of node a for 0s"),
        (Cause(Why.TAINT), "a taint of its node"),
        (Cause(Why.DEVICE_TAINT), "a taint of its device"),
        (Cause(Why.EVICTED), "drained"),
        (Cause(Why.PREEMPTED), "makes room for a more important pod"),
        (Cause(Why.NODE_GONE), "its node is gone"),
        (Cause(Why.REFUSED, message="full"), "refused by the kubelet: full"),
        (Cause(Why.ENDED), "has ended"),
        (Cause(Why.OWNER), "its owner removes it"),
    ],
)
def test_a_cause_is_part_of_a_sentence(cause, said):
    assert cause.say() == said
    assert replace(cause).say(where=False) == said.replace(" of node a", "")


# ── budgets ──


def test_budgets_are_seen_once_they_count():
    past = started()
    metadata = {"namespace": "default", "name": "b"}
    past.observe_budget(at(1), None, {"metadata": metadata})
    past.observe_budget(at(2), None, {"metadata": metadata, "status": {"desiredHealthy": 2}})
    past.observe_budget(
        at(3), None, {"metadata": metadata, "status": {"currentHealthy": 1, "desiredHealthy": 2}}
    )
    past.observe_budget(at(4), {"metadata": metadata}, None)
    assert past.budgets == {"default/b": [(2, 0, 2), (3, 1, 2)]}


# ── in whose place ──


def paired(past: History) -> dict[str, str]:
    past.pair()
    return {each.name: each.instead.name for each in past.lives.values() if each.instead is not None}


def seen(*events: str, **more: Any) -> History:
    """Return a history of pods that come (`+p`) and go (`-p`), one a second."""
    past = started()
    for second, event in enumerate(events):
        name, _, on = event[1:].partition("@")
        going = event[0] == "-"
        past.observe_pod(at(second), None, pod(name, on=on, going=going, **more))
    return past


def test_pods_of_one_owner_are_paired_in_the_order_they_went():
    assert paired(seen("+a", "+b", "+c", "-b", "-a", "+d", "+e")) == {"b": "d", "a": "e"}


def test_a_pod_that_came_before_another_went_is_not_in_its_place():
    assert paired(seen("+a", "+b", "-a")) == {}
    assert paired(seen("+a", "-a", "+b", "-b", "+c")) == {"a": "b", "b": "c"}
    assert paired(seen("+a", "+b", "-a", "+c", "-b")) == {"a": "c"}


def test_a_pod_that_was_first_seen_going_is_not_in_its_own_place():
    assert paired(seen("-a", "+b")) == {"a": "b"}


def test_pairing_again_begins_anew():
    past = seen("+a", "-a", "+b")
    past.lives["uid-b"].instead = past.lives["uid-a"]
    assert paired(past) == {"a": "b"}


def test_pods_that_nobody_owns_or_others_own_are_not_paired():
    assert paired(seen("+a", "-a", "+b", owner="")) == {}
    past = seen("+a", "-a")
    past.observe_pod(at(5), None, pod("b", owner="ReplicaSet/other"))
    assert paired(past) == {}


def test_a_statefulset_makes_a_pod_of_the_same_name():
    past = started()
    for number, name in enumerate(("web-0", "web-1")):
        past.observe_pod(at(1), None, pod(name, owner="StatefulSet/web"))
        past.observe_pod(at(2 + number), None, pod(name, owner="StatefulSet/web", going=True))
    again = pod("web-1", owner="StatefulSet/web")
    again["metadata"]["uid"] = "uid-again"
    past.observe_pod(at(5), None, again)
    assert paired(past) == {"web-1": "web-1"}


def for_node(name: str) -> dict[str, Any]:
    terms = [
        {},
        {"matchFields": [{"key": "other", "values": ["x"]}, {"key": "metadata.name", "values": []}]},
        {"matchFields": [{"key": "metadata.name", "values": [name, "last"]}]},
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def test_a_daemonset_makes_a_pod_for_the_same_node():
    past = started()
    for name in "ab":
        past.observe_pod(at(1), None, pod(f"on-{name}", on=name, owner="DaemonSet/web"))
    for name in "ab":
        past.observe_pod(at(2), None, pod(f"on-{name}", on=name, owner="DaemonSet/web", going=True))
    past.observe_pod(at(3), None, pod("new", owner="DaemonSet/web", spec=for_node("b")))
    assert past.lives["uid-new"].target == "b"
    assert paired(past) == {"on-b": "new"}


def test_the_last_in_its_place_is_found_however_often_it_was_made_again():
    first, second, third = chain(life("a"), life("b"), life("c"))
    assert (first.last, second.last, third.last) == (third, third, third)


@pytest.mark.parametrize(
    "seconds, told", [(0.0, 0.0), (-3.0, 0.0), (0.0015, 0.0), (0.0016, 0.002), (2.00049, 2.0), (7.25, 7.25)]
)
def test_what_happens_within_milliseconds_is_at_once(seconds, told):
    assert after(seconds) == timedelta(seconds=told)
