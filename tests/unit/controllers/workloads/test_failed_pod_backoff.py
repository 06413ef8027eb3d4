"""Pods that fail again and again are replaced less and less often."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.controllers.builders import SECOND, T0, decide, of, only, pod, printed, workload
from weir.client.cache import ObjectKey
from weir.controllers.runtime.controller import Create, Delete, WakeAt
from weir.controllers.runtime.views import Pod
from weir.controllers.runtime.worker import LONGEST_PAUSE_SECONDS, CreateBackoff
from weir.controllers.workloads.daemonset import DaemonSets
from weir.controllers.workloads.failed_pod_backoff import LONGEST, EarlyLosses, Replacements
from weir.controllers.workloads.replicaset import ReplicaSets
from weir.controllers.workloads.statefulset import StatefulSets
from weir.objects.core import read
from weir.objects.kinds import by_kind

KEY = ObjectKey("default", "web")


def rejected(owner, name, ago=0):
    return pod(
        name, owner=owner, phase="Failed", ready=False, status={"reason": "TaintToleration"},
        metadata={"creationTimestamp": printed(T0 - ago * SECOND)},
    )  # fmt: skip


def test_a_replicaset_whose_pods_are_rejected_waits_longer_each_time():
    web = workload("ReplicaSet", replicas=1)
    pods = [rejected(web, f"p{n}", ago=n) for n in range(4)]
    (wake, *_), made = (
        only(WakeAt, actions := decide(of(ReplicaSets), KEY, [web, *pods])),
        only(Create, actions),
    )
    assert (wake.at - T0, made) == (8 * SECOND, [])


def test_pods_that_ran_and_failed_are_replaced_at_once():
    web = workload("ReplicaSet", replicas=1)
    ran = pod(
        "p", owner=web, phase="Failed", status={"reason": "Error", "containerStatuses": [{"name": "c"}]}
    )
    assert len(only(Create, decide(of(ReplicaSets), KEY, [web, ran]))) == 1


def test_what_was_rejected_long_ago_is_forgotten():
    web = workload("ReplicaSet", replicas=1)
    assert len(only(Create, decide(of(ReplicaSets), KEY, [web, rejected(web, "p", ago=3600)]))) == 1


def test_a_pod_of_a_statefulset_that_keeps_failing_is_kept_a_while():
    db = workload("StatefulSet", "db", replicas=1)
    controller, key = of(StatefulSets), ObjectKey("default", "db")
    failed = rejected(db, "db-0")
    first, second = (only(Delete, decide(controller, key, [db, failed], T0)) for _ in range(2))
    assert (len(first), second) == (1, [])


@given(st.lists(st.floats(0, 100), max_size=60))
def test_replacements_grow_apart_until_the_longest_pause(steps):
    replacements, now, last, gaps = Replacements(), T0, None, []
    for step in steps:
        now += timedelta(seconds=step)
        if replacements.may("uid", "n", now) is None:
            gaps += [now - last] if last is not None else []
            last = now
    floors = [min(timedelta(seconds=2**n), LONGEST) for n in range(len(gaps))]
    assert all(gap >= floor for gap, floor in zip(gaps, floors, strict=True))


@given(st.integers(1, 30))
def test_refusals_double_their_pause_until_the_longest(times):
    from weir.controllers.runtime.controller import Create as Made

    refusals, action = CreateBackoff(), Made(by_kind("v1", "Pod"), {}, generation=1)
    pauses = [refusals.note("key", action, float(n)) for n in range(times)]
    assert pauses == [min(0.1 * 2**n, LONGEST_PAUSE_SECONDS) for n in range(times)]


def test_a_new_generation_is_not_made_to_wait():
    from msgspec.structs import replace

    from weir.controllers.runtime.controller import Create as Made

    refusals, action = CreateBackoff(), Made(by_kind("v1", "Pod"), {}, generation=1)
    refusals.note("key", action, 0.0)
    assert (
        refusals.wait("key", action, 0.0) > 0,
        refusals.wait("key", replace(action, generation=2), 0.0),
    ) == (
        True,
        0.0,
    )


# ── evicted before it ran ──


def view(document):
    return read(Pod, document)


def evicted(document, at=T0):
    """Return a pod before its eviction, and when it is on its way out."""
    target = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByTaintManager",
        "lastTransitionTime": printed(at),
    }
    leaving = {
        **document,
        "metadata": {**document["metadata"], "deletionTimestamp": printed(at)},
        "status": {**document["status"], "conditions": [target]},
    }
    return view(document), view(leaving)


@pytest.mark.parametrize("phase, reason", [("Pending", ""), ("Failed", "TaintToleration")])
def test_pods_that_are_evicted_before_they_run_are_replaced_after_a_pause_that_doubles(phase, reason):
    web, losses = workload("ReplicaSet", replicas=1), EarlyLosses()
    for number in range(3):
        waiting = pod(f"p{number}", owner=web, phase=phase, ready=False, status={"reason": reason})
        losses.changed(*evicted(waiting))
    assert losses.until(web["metadata"]["uid"], T0) == T0 + 4 * SECOND


def test_only_a_pod_that_becomes_ready_ends_the_pause():
    """A status that is written once more for another pod, ready all the time, lets no loop start again at once."""
    web, losses = workload("ReplicaSet", replicas=2), EarlyLosses()
    for number in range(3):
        losses.changed(*evicted(pod(f"p{number}", owner=web, phase="Pending", ready=False)))
    ready, unready = view(pod("other", owner=web)), view(pod("other", owner=web, ready=False))
    losses.changed(ready, view(pod("other", owner=web, status={"startTime": printed(T0)})))
    assert losses.until(web["metadata"]["uid"], T0) == T0 + 4 * SECOND
    losses.changed(unready, ready)
    assert losses.until(web["metadata"]["uid"], T0) is None


@pytest.mark.parametrize("phase", ["Running", "Failed", "Succeeded"])
def test_pods_that_ran_before_they_were_evicted_are_replaced_at_once(phase):
    web, losses = workload("ReplicaSet", replicas=1), EarlyLosses()
    ran = pod("p", owner=web, phase=phase, status={"reason": "Error", "containerStatuses": [{"name": "c"}]})
    losses.changed(*evicted(ran))
    assert losses.until(web["metadata"]["uid"], T0) is None


def test_a_daemonset_waits_only_on_the_node_where_its_pods_are_lost():
    log = workload("DaemonSet", "log")
    nodes = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name}, "spec": {}}
        for name in ("n0", "n1")
    ]
    controller = of(DaemonSets)
    lost = pod("p", owner=log, phase="Pending", ready=False, node="n0")
    list(controller.changed(by_kind("v1", "Pod"), *evicted(lost)))
    actions = decide(controller, ObjectKey("default", "log"), [log, *nodes])
    assert ([w.at - T0 for w in only(WakeAt, actions)], len(only(Create, of_pods(actions)))) == ([SECOND], 1)


def of_pods(actions):
    return [action for action in actions if getattr(action, "kind", None) == by_kind("v1", "Pod")]
