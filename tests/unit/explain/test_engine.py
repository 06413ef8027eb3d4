"""The scheduler's engine decides about every node, and explain finds the words."""

from __future__ import annotations

from typing import Any

import pytest

from weir.explain.explanation import Explanation
from weir.explain.pod import explain
from weir.explain.subject import Subject
from weir.explain.words import node_sentence
from weir.gates import ALL_FEATURES
from weir.world import World

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SELF = {"matchLabels": {"app": "web"}}


def node(name: str, zone: str | None = None, **rest: Any) -> dict[str, Any]:
    labels = {"zone": zone} if zone else {}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, **rest}


def web(name: str, on: str = "", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"app": "web"}}
    return {"kind": "Pod", "metadata": metadata, "spec": {"nodeName": on, **spec} if on else spec}


def ask(pod: dict[str, Any], *documents: dict[str, Any]) -> Explanation:
    return explain(pod, World.of(documents), ALL_FEATURES)


def said(answer: Explanation) -> dict[str, str]:
    return {verdict.node: node_sentence(verdict) for verdict in answer.nodes}


def affinity(kind: str, **rest: Any) -> dict[str, Any]:
    return {"affinity": {kind: {REQUIRED: [{"labelSelector": SELF, "topologyKey": "zone", **rest}]}}}


def test_anti_affinity_avoids_a_whole_zone():
    answer = ask(
        web("new", **affinity("podAntiAffinity")),
        node("a1", "a"),
        node("a2", "a"),
        node("b1", "b"),
        web("old", "a1"),
    )
    assert said(answer) == {
        "a1": "a pod in its zone that the anti-affinity avoids",
        "a2": "a pod in its zone that the anti-affinity avoids",
        "b1": "fits",
    }


def test_a_pod_that_is_there_may_avoid_the_new_one():
    answer = ask(
        web("new"), node("a1", "a"), node("b1", "b"), web("old", "a1", **affinity("podAntiAffinity"))
    )
    assert said(answer) == {"a1": "a pod in its zone avoids this one", "b1": "fits"}


def test_affinity_wants_company():
    other = {"labelSelector": {"matchLabels": {"app": "cache"}}}
    answer = ask(web("new", **affinity("podAffinity", **other)), node("a1", "a"))
    assert said(answer) == {"a1": "no pod in its zone that the affinity asks for"}
    assert [edit.say() for edit in answer.fix.edits] == [
        "prefer instead of require the pod affinity over zone"
    ]


def test_spread_keeps_the_balance():
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": SELF,
    }
    answer = ask(
        web("new", topologySpreadConstraints=[spread]),
        node("a1", "a"),
        node("b1", "b"),
        node("x"),
        web("old", "a1"),
    )
    assert said(answer) == {
        "a1": "would be 2 in zone a, 0 where there are fewest: more than maxSkew 1 apart",
        "b1": "fits",
        "x": "has no label zone, which the topology spread constraints need",
    }


def test_a_change_is_proven_against_other_pods_too():
    """Tolerating the taint of a1 would be smaller, but there anti-affinity refuses once the taint is out of the way."""
    taints = [{"key": "sla", "value": "1", "effect": "NoSchedule"}]
    more = [*taints, {"key": "gpu", "effect": "NoSchedule"}]
    answer = ask(
        web("new", **affinity("podAntiAffinity")),
        node("a1", "a", spec={"taints": taints}),
        node("b1", "b", spec={"taints": more}),
        web("old", "a1"),
    )
    assert answer.fix is not None
    assert answer.fix.nodes == ("b1",)


def test_what_every_filter_says_is_told_not_only_the_first():
    taints = [{"key": "sla", "value": "1", "effect": "NoSchedule"}]
    answer = ask(
        web("new", **affinity("podAntiAffinity")),
        node("a1", "a", spec={"taints": taints}),
        web("old", "a1"),
    )
    assert [reason.plugin for reason in answer.nodes[0].reasons] == ["TaintToleration", "InterPodAffinity"]


def test_no_change_is_proposed_for_a_node_that_other_pods_keep_closed():
    answer = ask(web("new"), node("a1", "a"), web("old", "a1", **affinity("podAntiAffinity")))
    assert answer.fix is None


def test_an_anti_affinity_that_leaves_no_node_is_proposed_to_be_a_preference():
    fix = ask(web("new", **affinity("podAntiAffinity")), node("a1", "a"), web("old", "a1")).fix
    assert [edit.say() for edit in fix.edits] == ["prefer instead of require the pod anti-affinity over zone"]
    preferred = fix.patch["spec"]["affinity"]["podAntiAffinity"]
    assert set(preferred) == {REQUIRED, "preferredDuringSchedulingIgnoredDuringExecution"}
    assert preferred[REQUIRED] is None


# ── nominated pods ──


def test_room_promised_to_a_pod_as_important_is_taken():
    room = {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "9"}}
    container = {"name": "c", "resources": {"requests": {"cpu": "2"}}}
    promised = web("first", containers=[container], priority=5) | {"status": {"nominatedNodeName": "a1"}}
    answer = ask(web("new", containers=[container]), node("a1", status=room), promised)
    assert said(answer) == {"a1": "cpu: needs 2, 0 free of 2"}


@pytest.mark.parametrize("amount", ["1e18", "1e40", "9223372036854775807"])
def test_amounts_no_column_holds_are_no_traceback(amount):
    huge = node("a1", "a", status={"allocatable": {"cpu": amount, "memory": amount, "pods": "9"}})
    container = {"name": "c", "resources": {"requests": {"cpu": amount}}}
    answer = ask(web("new", containers=[container], **affinity("podAntiAffinity")), huge, web("old", "a1"))
    assert len(answer.nodes) == 1


def test_a_claim_that_waits_is_placed_where_a_volume_can_be_had():
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {
            "storageClassName": "local",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    storage_class = {
        "kind": "StorageClass",
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    volume = {
        "kind": "PersistentVolume",
        "metadata": {"name": "disk"},
        "spec": {
            "storageClassName": "local",
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "5Gi"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
        "status": {"phase": "Available"},
    }
    pod = web("new", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    answer = ask(pod, node("a1", "a"), node("b1", "b"), claim, storage_class, volume)
    assert said(answer) == {"a1": "fits", "b1": "didn't find available persistent volumes to bind"}


# ── disks that pods name themselves ──

DISKS = {
    "gcePersistentDisk": {"pdName": "d"},
    "awsElasticBlockStore": {"volumeID": "d"},
    "iscsi": {"iqn": "d", "targetPortal": "p", "lun": 0},
    "rbd": {"monitors": ["m"], "image": "d"},
}
CLAIMED = {"name": "c", "persistentVolumeClaim": {"claimName": "data"}}


@pytest.mark.parametrize("kind", DISKS)
def test_a_disk_in_use_is_seen_in_a_snapshot_without_claims(kind):
    volumes = [{"name": "v", kind: DISKS[kind]}]
    answer = ask(web("new", volumes=volumes), node("a1"), node("b1"), web("old", "a1", volumes=volumes))
    assert said(answer) == {"a1": "a pod there uses the same disk", "b1": "fits"}


@pytest.mark.parametrize("monitors", [5, "m", [["m"]], [{}], None])
def test_monitors_of_another_shape_are_no_traceback(monitors):
    volumes = [{"name": "v", "rbd": {"monitors": monitors, "image": ["d"]}}]
    answer = ask(web("new", volumes=volumes), node("a1"), web("old", "a1", volumes=volumes))
    assert said(answer) == {"a1": "fits"}


def test_how_many_disks_a_node_can_attach_is_said_not_to_be_considered():
    disk = {"name": "v", "awsElasticBlockStore": {"volumeID": "d"}}
    answer = ask(web("new", volumes=[disk]), node("a1"))
    assert answer.not_considered[0] == "how many volumes each node can attach (no CSINodes in the snapshot)"


def test_a_claim_that_is_not_there_is_not_found_and_a_snapshot_without_claims_cannot_be_sure():
    answer = ask(web("new", volumes=[CLAIMED]), node("a1"), web("old", "a1", volumes=[CLAIMED]))
    assert [reason.message() for reason in answer.blockers] == ['persistentvolumeclaim "data" not found']
    assert answer.unknown == ("whether the claim data exists (no PersistentVolumeClaims in the snapshot)",)
    assert answer.attempt.upstream == (
        '0/1 nodes are available: persistentvolumeclaim "data" not found. not found'
    )


def test_where_storage_was_collected_a_missing_claim_is_certain():
    classes = {"kind": "StorageClass", "metadata": {"name": "fast"}, "provisioner": "csi.example"}
    answer = ask(web("new", volumes=[CLAIMED]), node("a1"), classes)
    assert (len(answer.blockers), answer.unknown) == (1, ())


def test_beside_a_claim_nobody_collected_a_disk_is_judged_all_the_same():
    disk = {"name": "v", "gcePersistentDisk": {"pdName": "d"}}
    other = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {"volumeName": "disk"},
             "status": {"phase": "Bound"}}  # fmt: skip
    answer = ask(
        web("new", volumes=[disk, CLAIMED]), node("a1"), node("b1"), other, web("old", "a1", volumes=[disk])
    )
    assert said(answer) == {"a1": "a pod there uses the same disk", "b1": "fits"}
    assert answer.unknown == ("where volume disk can be used (no PersistentVolumes in the snapshot)",)


# ── features ──

RESTARTS = {"name": "c", "restartPolicy": "Never", "restartPolicyRules": [{"action": "RestartAllContainers"}]}
FEATURE = "RestartAllContainersOnContainerExits"


def test_a_node_that_declares_nothing_lacks_what_the_pod_needs():
    able = node("b1", status={"declaredFeatures": [FEATURE]})
    answer = ask(web("new", containers=[RESTARTS]), node("a1"), able)
    assert said(answer) == {"a1": f"its kubelet does not declare {FEATURE}", "b1": "fits"}


def test_what_the_scheduler_says_where_no_kubelet_declares_anything():
    answer = ask(web("new", hostNetwork=True, hostUsers=False), node("a1"), node("b1"))
    assert answer.attempt.message == (
        "0/2 nodes are available: 2 node(s) didn't match Pod's required features. "
        "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )


# ── preferences that cannot be read ──


def preferring(*values: str) -> dict[str, Any]:
    terms = [
        {
            "weight": 1,
            "preference": {"matchExpressions": [{"key": "size", "operator": "Gt", "values": [value]}]},
        }
        for value in values
    ]
    return web("new", affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}})


def test_a_preference_that_cannot_be_read_keeps_a_pod_off_all_nodes_that_fit():
    answer = ask(preferring("5", "many"), node("a1"), node("b1"))
    assert str(answer) == (
        "Pod default/new fits nowhere: the scheduler cannot choose between nodes by the preference "
        "size > many: not an integer"
    )


def test_a_preference_that_cannot_be_read_is_told_as_the_scheduler_tells_it():
    assert ask(preferring("5", "many"), node("a1"), node("b1")).attempt.message == (
        'running PreScore plugin "NodeAffinity": [1].matchExpressions[0].values[0]: Invalid value: "many": '
        "for 'Gt', 'Lt' operators, the value must be an integer"
    )


def test_where_one_node_fits_nobody_reads_the_preference():
    cordoned = node("b1", spec={"unschedulable": True})
    assert ask(preferring("many"), node("a1"), cordoned).fitting == ("a1",)


def test_only_the_preference_that_cannot_be_read_is_taken_away():
    fix = ask(preferring("5", "many"), node("a1"), node("b1")).fix
    kept = fix.patch["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert [term["preference"]["matchExpressions"][0]["values"] for term in kept] == [["5"]]


def test_a_change_that_opens_several_nodes_takes_the_unreadable_preference_away_too():
    taints = {"taints": [{"key": "x", "effect": "NoSchedule"}]}
    fix = ask(preferring("many"), node("a1", spec=taints), node("b1", spec=taints)).fix
    assert [type(edit).__name__ for edit in fix.edits] == ["DropPreferences", "AddToleration"]


# ── pods that are being resized ──


def test_a_pod_that_is_being_resized_counts_at_the_most_it_has():
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    given = {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "3"}}]}
    old = web("old", "a1", containers=[container]) | {"status": given}
    room = {"allocatable": {"cpu": "3", "memory": "1Gi", "pods": "9"}}
    answer = ask(web("new", containers=[container]), node("a1", status=room), old)
    assert said(answer) == {"a1": "cpu: needs 1, 0 free of 3"}


# ── pods nobody places any more ──

LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def stored(pod: dict[str, Any], *documents: dict[str, Any]) -> Explanation:
    return explain(Subject.of(pod, stored=True), World.of([pod, *documents]), ALL_FEATURES)


@pytest.mark.parametrize(
    "on, metadata, phase, line",
    [
        ("a1", {}, "Succeeded", "Pod default/p has ended on a1 (Succeeded)"),
        ("a1", LEAVING, "Running", "Pod default/p runs on a1 and is being deleted"),
        ("", {}, "Failed", "Pod default/p fits nowhere: it has ended (Failed), so nobody places it"),
        ("", LEAVING, "Pending", "Pod default/p fits nowhere: it is being deleted, so nobody places it"),
    ],
)
def test_a_pod_that_is_over_is_not_said_to_fit_or_to_run(on, metadata, phase, line):
    pod = {
        "kind": "Pod",
        "metadata": {"name": "p", **metadata},
        "spec": {"nodeName": on},
        "status": {"phase": phase},
    }
    assert str(stored(pod, node("a1"))) == line


def test_the_scheduler_says_nothing_about_a_pod_that_is_over():
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {}, "status": {"phase": "Failed"}}
    assert stored(pod, node("a1")).attempt.message == ""
