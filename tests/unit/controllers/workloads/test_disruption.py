"""How many pods a budget may lose, and what it says of pods that cannot be counted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from weir.client.cache import ObjectKey
from weir.controllers.runtime.controller import Patch, Record, WakeAt
from weir.controllers.runtime.listers import Listers
from weir.controllers.workloads.disruption import SIZED, BudgetedPod, Disruption, NamespaceBudgets, PickedPod
from weir.gates import Gates
from weir.objects.kinds import POD_DISRUPTION_BUDGETS as BUDGETS
from weir.objects.kinds import PODS

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def budget(name="b", selector=None, **spec):
    chosen = {"matchLabels": {"app": "web"}} if selector is None else selector
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"},
        "spec": {"selector": chosen, **spec},
    }


def pod(name, owner="", kind="ReplicaSet", phase="Running", conditions=(), app="web"):
    references = [
        {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": f"{kind}-{owner}", "controller": True}
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "labels": {"app": app},
            "ownerReferences": references if owner else [],
        },
        "spec": {"containers": []},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True"}, *conditions]},
    }


def replicaset(name, replicas):
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "default", "uid": f"ReplicaSet-{name}"},
        "spec": {"replicas": replicas},
    }


def look(*documents, controller=None, key=None):
    controller = controller or Disruption(Gates())
    listers = Listers.of(documents, controller.kinds)
    return list(controller.reconcile(key or ObjectKey("default", "b"), listers, NOW))


def counts(actions):
    (patch,) = [each.patch["status"] for each in actions if isinstance(each, Patch)]
    return tuple(patch[n] for n in ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"))


def told(actions):
    return [(each.reason, each.type) for each in actions if isinstance(each, Record)]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"minAvailable": 1}, (3, 1, 3, 2)),  # every pod there is
        ({"minAvailable": "50%"}, (4, 2, 3, 1)),  # half of what the ReplicaSet asks for
        ({"maxUnavailable": 1}, (4, 3, 3, 0)),
        ({"maxUnavailable": "50%"}, (4, 2, 3, 1)),
    ],
)
def test_a_pod_nobody_controls_counts_only_where_pods_are_counted(spec, expected):
    pods = [pod("a", "web"), pod("b", "web"), pod("alone")]
    assert counts(look(budget(**spec), replicaset("web", 4), *pods)) == expected


def test_pods_nobody_controls_are_told_once():
    controller = Disruption(Gates())
    known = (budget(maxUnavailable=1), pod("alone"))
    first, second = (told(look(*known, controller=controller)) for _ in range(2))
    assert (first, second) == ([("UnmanagedPods", "Warning")], [])


def test_a_budget_without_pods_says_so():
    assert told(look(budget(minAvailable=1))) == [("NoPods", "Normal")]


def test_pods_of_a_daemonset_cannot_be_counted_and_may_not_be_disrupted():
    actions = look(budget(maxUnavailable=1), pod("a", "agent", "DaemonSet"))
    (patch,) = [each.patch["status"] for each in actions if isinstance(each, Patch)]
    condition = patch["conditions"][0]
    assert (told(actions), patch["disruptionsAllowed"], condition["reason"], condition["message"]) == (
        [("CalculateExpectedPodCountFailed", "Warning")],
        0,
        "SyncFailed",
        "daemonsets.apps does not implement the scale subresource",
    )


def test_a_pod_of_several_budgets_is_warned_about():
    documents = (budget(minAvailable=1), budget("c", minAvailable=1), pod("a"))
    (action,) = look(*documents, key=BudgetedPod("default", "a"))
    assert action.message == (
        'Pod "default"/"a" matches multiple PodDisruptionBudgets.  Chose "b" arbitrarily.'
    )


@pytest.mark.parametrize(("minutes", "reason", "stays"), [(1, "x", False), (2, "x", True)])
def test_a_pod_picked_to_go_that_stays_is_told_so_after_two_minutes(minutes, reason, stays):
    since = (NOW - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
    picked = {"type": "DisruptionTarget", "status": "True", "reason": reason, "lastTransitionTime": since}
    (action,) = look(pod("a", conditions=[picked]), key=PickedPod("default", "a"))
    assert (isinstance(action, Patch), isinstance(action, WakeAt)) == (stays, not stays)


def test_what_the_kubelet_picked_may_take_its_time():
    since = (NOW - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    picked = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "TerminationByKubelet",
        "lastTransitionTime": since,
    }
    assert look(pod("a", conditions=[picked]), key=PickedPod("default", "a")) == []


def seen(*changes):
    """Return what the last of *changes* makes worth looking at."""
    controller, keys = Disruption(Gates()), []
    for kind, old, new in changes:
        keys = list(controller.changed(kind, old, new))
    return keys


def viewed(document):
    found = Listers.of([document], Disruption(Gates()).kinds).pod("default", document["metadata"]["name"])
    assert found is not None
    return found


CAME, GOES = (BUDGETS, None, budget()), (BUDGETS, budget(), None)
WEB = next(kind for kind in SIZED.values() if kind.kind == "ReplicaSet")
CHANGES = {
    "a pod": (PODS, None, viewed(pod("a"))),
    "a workload": (WEB, replicaset("web", 1), replicaset("web", 2)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("before", [(), (CAME, GOES)], ids=["never", "no longer"])
def test_where_there_is_no_budget_nothing_is_looked_at(before, change):
    assert seen(*before, change) == []


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_where_there_is_a_budget_changes_are_looked_at(change):
    assert seen(CAME, change) in ([ObjectKey("default", "b")], [NamespaceBudgets("default")])


@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        ("web", "web", "b"),
        ("db", "web", "bc"),
        ("web", "db", "bc"),
        ("db", "db", "c"),
        (None, "db", "c"),
        ("db", None, "c"),
        ("x", "x", ""),
        ("none", None, ""),
    ],
)
def test_of_the_budgets_there_are_those_that_count_a_changed_pod_are_looked_at(before, after, names):
    old, new = (label and viewed(pod("a", app=label)) for label in (before, after))
    db = (BUDGETS, None, budget("c", {"matchLabels": {"app": "db"}}))
    none = (BUDGETS, None, {**budget("d"), "spec": {}})
    assert seen(CAME, db, none, (PODS, old, new)) == [ObjectKey("default", name) for name in names]


def test_a_pod_that_comes_to_several_budgets_is_looked_at_itself():
    several = (CAME, (BUDGETS, None, budget("c")))
    ready, deleted = viewed(pod("a")), viewed(pod("a"))
    assert BudgetedPod("default", "a") in seen(*several, (PODS, None, ready))
    assert BudgetedPod("default", "a") not in seen(*several, (PODS, ready, deleted))
    assert BudgetedPod("default", "a") not in seen(CAME, (PODS, None, ready))


def test_a_budget_whose_selector_cannot_be_read_is_looked_at():
    odd = budget(selector={"matchExpressions": [{"key": "a", "operator": "Like"}]})
    assert seen((BUDGETS, None, odd), (PODS, None, viewed(pod("a")))) == [ObjectKey("default", "b")]


def test_a_pod_picked_to_go_is_looked_at_without_any_budget():
    picked = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    assert seen((PODS, None, viewed(pod("a", conditions=[picked])))) == [PickedPod("default", "a")]


def test_a_budget_that_comes_after_its_pods_is_looked_at_itself():
    assert seen(*CHANGES.values(), CAME) == [ObjectKey("default", "b")]
