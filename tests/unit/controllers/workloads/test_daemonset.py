"""Where daemon pods should run: core.md 5, row by row."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from weir.client.cache import ObjectKey
from weir.controllers.runtime.controller import Create, Delete, Record
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.views import Node
from weir.controllers.workloads.daemon_nodes import ShouldRun, daemon_tolerations, should_run, template_pod
from weir.controllers.workloads.daemonset import AGAIN, DaemonSets
from weir.gates import ALL_FEATURES, KUBERNETES_DEFAULTS
from weir.objects.core import Toleration, read
from weir.objects.kinds import DAEMON_SETS as DAEMONSETS
from weir.taints.operators import Outcome

T0 = datetime(2026, 1, 1, tzinfo=UTC)
RUN, STAY, LEAVE = ShouldRun(True, True), ShouldRun(False, True), ShouldRun(False, False)


def daemonset(**spec):
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "default", "uid": "u1", "generation": 1},
        "spec": {"template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [], **spec}}},
    }


def node(name="n", *taints, labels=None):
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"taints": list(taints)},
    }


def taint(effect, value="", key="sla"):
    return {"key": key, "value": value, "effect": effect}


def judged(spec, *taints, labels=None, gates=ALL_FEATURES):
    pattern = template_pod(daemonset(**spec))
    return should_run(pattern, read(Node, node("n", *taints, labels=labels)), gates)


def tolerate(operator="Exists", value="", effect=""):
    return {"tolerations": [{"key": "sla", "operator": operator, "value": value, "effect": effect}]}


@pytest.mark.parametrize(
    "spec, taints, answer",
    [
        ({}, [], RUN),
        ({"nodeName": "other"}, [], LEAVE),
        ({"nodeName": "n"}, [], RUN),
        ({"nodeSelector": {"tier": "gpu"}}, [], LEAVE),
        ({}, [taint("NoSchedule")], STAY),
        ({}, [taint("NoExecute")], LEAVE),
        ({}, [taint("NoSchedule"), taint("NoExecute")], LEAVE),
        (tolerate(effect="NoExecute"), [taint("NoSchedule"), taint("NoExecute")], STAY),
        ({}, [taint("PreferNoSchedule")], RUN),
        (tolerate("Gt", "900"), [taint("NoExecute", "950")], RUN),
        (tolerate("Gt", "900"), [taint("NoExecute", "900")], LEAVE),
        ({"tolerations": [{"expression": "taint.key == 'sla'"}]}, [taint("NoExecute")], RUN),
        ({}, [taint("NoSchedule", key="node.kubernetes.io/unschedulable")], RUN),
        ({}, [taint("NoSchedule", key="node.kubernetes.io/network-unavailable")], STAY),
        ({"hostNetwork": True}, [taint("NoSchedule", key="node.kubernetes.io/network-unavailable")], RUN),
        ({}, [taint("NoExecute", key="node.kubernetes.io/unreachable")], RUN),
    ],
)
def test_a_node_should_run_the_pod_or_not(spec, taints, answer):
    assert judged(spec, *taints) == answer


def test_an_entry_whose_gate_is_off_does_not_help():
    assert judged(tolerate("Gt", "900"), taint("NoExecute", "950"), gates=KUBERNETES_DEFAULTS) == LEAVE


def test_every_daemon_pod_tolerates_these_in_this_order():
    keys = [(t.key.rpartition("/")[2], t.effect) for t in daemon_tolerations([], host_network=True)]
    assert keys == [
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
        ("network-unavailable", "NoSchedule"),
    ]


def test_a_template_entry_with_seconds_becomes_unlimited():
    mine = Toleration("node.kubernetes.io/unreachable", "Exists", "", "NoExecute", 30)
    assert [t for t in daemon_tolerations([mine], host_network=False) if t.toleration_seconds] == []


# ── what the controller does ─────────────────────────────────────────────────────────────────────


def pod(name, node_name="n", phase="Running", created="2026-01-01T00:00:00Z", **labels):
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u1", "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "creationTimestamp": created,
            "labels": labels,
            "ownerReferences": [owner],
        },
        "spec": {"nodeName": node_name, "containers": []},
        "status": {"phase": phase},
    }


def actions(*documents, spec=None, controller=None, now=T0):
    listers = Listers.of([daemonset(**(spec or {})), *documents], [DAEMONSETS])
    controller = controller or DaemonSets(ALL_FEATURES)
    return list(controller.reconcile(ObjectKey("default", "agent"), listers, now))


def created(found):
    return [action for action in found if isinstance(action, Create)]


def deleted(found):
    return [action.name for action in found if isinstance(action, Delete)]


def test_a_node_without_pod_gets_one_meant_for_it():
    (create,) = created(actions(node("n1")))
    required = create.document["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert ("nodeName" in create.document["spec"], required) == (
        False,
        {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
            ]
        },
    )


def test_required_affinity_is_replaced_and_preferred_stays():
    preferred = [{"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}]
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "tier", "operator": "Exists"}]}]}
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": required,
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        }
    }
    (create,) = created(actions(node("n1", labels={"tier": "x"}), spec={"affinity": affinity}))
    found = create.document["spec"]["affinity"]["nodeAffinity"]
    assert (
        found["preferredDuringSchedulingIgnoredDuringExecution"],
        "matchFields" in str(found["requiredDuringSchedulingIgnoredDuringExecution"]),
    ) == (preferred, True)


def test_a_running_pod_stays_under_a_new_noschedule_taint():
    (template,) = created(actions(node("n")))
    newest = template.document["metadata"]["labels"]
    found = actions(node("n", taint("NoSchedule")), pod("a", **newest))
    assert (created(found), deleted(found)) == ([], [])


def test_a_rolling_update_takes_the_old_pod_also_where_no_new_one_may_start():
    found = actions(node("n", taint("NoSchedule")), pod("a", **{"controller-revision-hash": "old"}))
    assert (created(found), deleted(found)) == ([], ["a"])


def test_a_running_pod_goes_under_a_new_noexecute_taint():
    assert deleted(actions(node("n", taint("NoExecute")), pod("a"))) == ["a"]


def test_of_two_pods_the_older_stays():
    found = actions(node(), pod("young", created="2026-01-01T00:00:09Z"), pod("old"))
    assert "young" in deleted(found)


def test_a_failed_pod_is_replaced_with_backoff_and_told():
    controller = DaemonSets(ALL_FEATURES)
    first = actions(node(), pod("a", phase="Failed"), controller=controller)
    again = actions(node(), pod("b", phase="Failed"), controller=controller)
    reasons = [action.reason for action in first if isinstance(action, Record)]
    assert (deleted(first), reasons, deleted(again)) == (["a"], ["FailedDaemonPod"], [])


def test_a_succeeded_pod_is_replaced():
    assert deleted(actions(node(), pod("a", phase="Succeeded"))) == ["a"]


def test_a_daemonset_is_held_against_its_nodes_again_when_one_of_them_or_its_template_changes():
    taints, evaluated = [taint("NoSchedule")], []

    def evaluate(expression, taint):
        evaluated.append(taint.effect)
        return Outcome.TOLERATED

    controller = DaemonSets(ALL_FEATURES, evaluate)
    documents = [daemonset(tolerations=[{"expression": "true"}]), node("n", *taints), node("m")]
    listers = Listers.of(documents, [DAEMONSETS])

    def look(now=T0):
        evaluated.clear()
        made = created(controller.reconcile(ObjectKey("default", "agent"), listers, now))
        return len(made), bool(evaluated)

    assert [look(), look()] == [(2, True), (2, False)]
    listers.put(node("n", taint("NoExecute")))
    assert [look(), look()] == [(2, True), (2, False)]
    listers.put(daemonset(tolerations=[{"expression": "false"}]))
    assert [look(), look()] == [(2, True), (2, False)]
    listers.drop(node("m"))
    assert [look(), look(T0 + AGAIN)] == [(1, True), (1, True)]


def test_changes_of_a_node_that_are_no_change_of_labels_or_taints_are_ignored():
    old = read(Node, node())
    heard = read(Node, {**node(), "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    from weir.controllers.runtime.listers import NODES

    assert list(DaemonSets(ALL_FEATURES).changed(NODES, old, heard)) == []
