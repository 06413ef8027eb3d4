"""What each change does to a cluster, and what it says when it cannot be made."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any

import pytest

from weir.errors import ApiError, NotFound
from weir.gates import ALL_FEATURES, TOLERATION_CEL, TOLERATION_COMPARISON, Gates
from weir.taints.notation import parse_taint
from weir.whatif.changes import (
    AddNodes,
    Apply,
    Change,
    ChangeError,
    Cordon,
    DeleteNode,
    Drain,
    Label,
    Nodes,
    Rollout,
    Scale,
    SetGates,
    Taint,
    TaintEdit,
    Wait,
)
from weir.whatif.changes.drain import MIRROR

Document = dict[str, Any]


class Noting:
    """A cluster that holds some objects and notes what is done to it."""

    def __init__(self, *documents: Document) -> None:
        self.held = documents
        self.done: list[tuple[Any, ...]] = []
        self.work: list[Coroutine[Any, Any, None]] = []
        self.answers: list[Exception | None] = []
        self.now = datetime(2026, 1, 1, 12, tzinfo=UTC)
        self.client = self.clock = self

    def list(self, kind: str, namespace: str = "") -> list[Document]:
        found = [each for each in self.held if each["kind"] == kind]
        return [each for each in found if not namespace or each["metadata"]["namespace"] == namespace]

    def get(self, kind: str, name: str, namespace: str) -> Document | None:
        return next((each for each in self.list(kind, namespace) if each["metadata"]["name"] == name), None)

    def patch_all(self, kind: str, patches: dict[str, Document]) -> None:
        self._answer("patch", kind, patches)

    def patch(self, kind: str, name: str, patch: Document, namespace: str) -> Document:
        self._answer("patch", kind, name, patch, namespace)
        found = self.get(kind, name, namespace)
        assert found is not None
        return found

    def apply(self, document: Document) -> None:
        self._answer("apply", document)

    def create(self, document: Document) -> None:
        self._answer("create", document)

    def delete(self, kind: str, name: str) -> None:
        self._answer("delete", kind, name)

    def set_gates(self, gates: Any) -> None:
        self._answer("gates", gates)

    def advance(self, seconds: float) -> None:
        self._answer("advance", seconds)

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        self.work.append(work)

    async def find(self, kind: Any, name: str, namespace: str) -> Document | None:
        return self.get("Pod", name, namespace)

    async def evict(self, name: str, namespace: str) -> None:
        self._answer("evict", f"{namespace}/{name}")

    async def sleep(self, seconds: float) -> None:
        self._answer("sleep", seconds)

    def _answer(self, *what: Any) -> None:
        self.done.append(what)
        if self.answers and (answer := self.answers.pop(0)) is not None:
            raise answer


def make(change: Change, *documents: Document) -> tuple[Noting, list[str]]:
    """Make *change* to a cluster of *documents*, and what it begins; return the cluster and what was said."""
    cluster = Noting(*documents)
    said = change.make(cluster)  # type: ignore[arg-type]
    for work in cluster.work:
        asyncio.run(work)  # type: ignore[arg-type]
    return cluster, said


def node(name: str, *taints: str, **more: Any) -> Document:
    entries = [{"key": t.key, "effect": t.effect, "value": t.value} for t in map(parse_taint, taints)]
    metadata = {"name": name, **more.pop("metadata", {})}
    return {"kind": "Node", "metadata": metadata, "spec": {"taints": entries, **more.pop("spec", {})}, **more}


def pod(name: str, on: str = "a", owner: str = "ReplicaSet", **more: Any) -> Document:
    owners = [{"kind": "Other"}, {"kind": owner, "controller": True}] if owner else []
    metadata = {"name": name, "namespace": "team", "uid": f"uid-{name}", "ownerReferences": owners}
    return {
        "kind": "Pod",
        "metadata": {**metadata, **more.pop("metadata", {})},
        "spec": {"nodeName": on},
        **more,
    }


def workload(kind: str, name: str, **spec: Any) -> Document:
    return {"kind": kind, "metadata": {"name": name, "namespace": "team"}, "spec": spec}


A = Nodes(("a",))


# ── nodes ──


@pytest.mark.parametrize(
    "nodes, found, said",
    [
        (Nodes(("b", "a")), ["b", "a"], "b a"),
        (Nodes(selector="pool=x"), ["b"], "-l pool=x"),
        (Nodes(), ["a", "b"], "--all-nodes"),
    ],
)
def test_nodes_are_found_by_name_or_label_or_all(nodes, found, said):
    cluster = Noting(node("a"), node("b", metadata={"labels": {"pool": "x"}}))
    assert [each["metadata"]["name"] for each in nodes.find(cluster)] == found
    assert str(nodes) == said


@pytest.mark.parametrize(
    "nodes, said",
    [
        (Nodes(("a", "z")), "no node z in the cluster (it has 1)"),
        (Nodes(selector="pool=y"), "no node has the labels pool=y"),
    ],
)
def test_nodes_that_are_not_there_are_named(nodes, said):
    with pytest.raises(ChangeError) as raised:
        nodes.find(Noting(node("a")))
    assert str(raised.value) == said


def test_a_cluster_without_nodes_says_so():
    with pytest.raises(ChangeError, match="the cluster has no nodes"):
        Nodes().find(Noting())  # type: ignore[arg-type]


def taint(*edits: str) -> Taint:
    return Taint(
        A, tuple(TaintEdit(parse_taint(each.rstrip("-")), removes=each.endswith("-")) for each in edits)
    )


@pytest.mark.parametrize(
    "edits, there, after",
    [
        (("hot=1:NoExecute",), (), [("hot", "NoExecute", "1")]),
        (
            ("hot=2:NoExecute",),
            ("hot=1:NoExecute", "x:NoSchedule"),
            [("x", "NoSchedule", ""), ("hot", "NoExecute", "2")],
        ),
        (
            ("hot=2:NoExecute",),
            ("hot=1:NoSchedule",),
            [("hot", "NoSchedule", "1"), ("hot", "NoExecute", "2")],
        ),
        (("hot:NoExecute-",), ("hot=1:NoExecute", "hot=2:NoSchedule"), [("hot", "NoSchedule", "2")]),
        (("hot:NoExecute-",), ("hot=1:NoExecute",), None),
        (("cold:NoExecute", "hot:NoExecute-"), ("hot=1:NoExecute",), [("cold", "NoExecute", "")]),
    ],
)
def test_tainting_replaces_what_has_the_same_key_and_effect(edits, there, after):
    cluster, said = make(taint(*edits), node("a", *there), node("b"))
    ((_, kind, patches),) = cluster.done
    (entries,) = [patch["spec"]["taints"] for patch in patches.values()]
    told = entries and [(each["key"], each["effect"], each.get("value", "")) for each in entries]
    assert (kind, list(patches), told, said) == ("Node", ["a"], after, [])


def test_taking_a_key_away_takes_it_with_every_effect():
    edit = TaintEdit(type(parse_taint("hot:NoExecute"))("hot", "", ""), removes=True)
    cluster, _ = make(Taint(A, (edit,)), node("a", "hot:NoExecute", "hot:NoSchedule", "x:NoSchedule"))
    ((_, _, patches),) = cluster.done
    assert [each["key"] for each in patches["a"]["spec"]["taints"]] == ["x"]
    with pytest.raises(ChangeError) as raised:
        make(Taint(A, (edit,)), node("a"))
    assert str(raised.value) == "node a has no taint hot"


def test_a_taint_that_is_not_there_cannot_be_taken_away():
    with pytest.raises(ChangeError) as raised:
        make(taint("hot:NoExecute-"), node("a", "hot:NoSchedule"))
    assert str(raised.value) == "node a has no taint hot:NoExecute"


def test_a_taint_that_the_server_would_refuse_is_not_set():
    with pytest.raises(ChangeError, match=r"taints\[0\]\.key: Invalid value"):
        make(Taint(A, (TaintEdit(type(parse_taint("x:NoExecute"))("a b", "", "NoExecute")),)), node("a"))


def test_labels_are_set_and_taken_away():
    cluster, said = make(Label(A, (("x", "y"), ("z", None))), node("a"))
    assert (cluster.done, said) == (
        [("patch", "Node", {"a": {"metadata": {"labels": {"x": "y", "z": None}}}})],
        [],
    )


def test_a_label_that_the_server_refuses_is_told_in_one_line():
    cluster = Noting(node("a"))
    cluster.answers = [ApiError("no\n  good")]
    with pytest.raises(ChangeError) as raised:
        Label(A, (("x", "y"),)).make(cluster)  # type: ignore[arg-type]
    assert str(raised.value) == "the server would refuse it: no good"


@pytest.mark.parametrize("change, on", [(Cordon(A), True), (Cordon(A, on=False), None)])
def test_a_cordon_is_a_field_of_the_node(change, on):
    cluster, said = make(change, node("a"), node("b"))
    assert (cluster.done, said) == ([("patch", "Node", {"a": {"spec": {"unschedulable": on}}})], [])


def test_nodes_are_deleted():
    cluster, said = make(DeleteNode(Nodes(("a", "b"))), node("a"), node("b"))
    assert (cluster.done, said) == ([("delete", "Node", "a"), ("delete", "Node", "b")], [])


# ── drains ──


def drained(*pods: Document, force: bool = False) -> tuple[list[str], list[str]]:
    """Return whom a drain of node a evicts, and what it says; the node is cordoned first."""
    cluster, said = make(Drain(A, force), node("a"), *pods)
    assert cluster.done[0] == ("patch", "Node", {"a": {"spec": {"unschedulable": True}}})
    return [what[1] for what in cluster.done[1:]], said


def test_a_drain_evicts_what_others_make_again():
    pods = [
        pod("p"),
        pod("elsewhere", "b"),
        pod("agent", owner="DaemonSet"),
        pod("static", metadata={"annotations": {MIRROR: "x"}}),
        pod("noted", metadata={"annotations": {"x": "y"}}),
        pod("done", owner="", status={"phase": "Succeeded"}),
        pod("failed", owner="", status={"phase": "Failed"}),
    ]
    assert drained(*pods) == (["team/p", "team/noted", "team/done", "team/failed"], [])


def test_a_drain_stops_at_pods_that_nobody_makes_again():
    bare = [pod(f"bare-{number}", owner="", status={"phase": "Running"}) for number in range(6)]
    gone, (said,) = drained(pod("p"), *bare[:5])
    assert gone == []
    assert said == (
        "kubectl drain cordons, then stops and evicts nothing: team/bare-0, team/bare-1, team/bare-2, team/bare-3, "
        "team/bare-4 declare no controller (--force deletes them)"
    )
    _, (said,) = drained(*bare)
    assert "team/bare-4 … declare no controller" in said and "bare-5" not in said
    assert drained(pod("p"), bare[0], force=True) == (["team/p", "team/bare-0"], [])


def refusing(*answers: Exception | None, change: Drain, there: Document | None = None) -> Noting:
    """Return a cluster in which a drain of pod p was answered so; *there* is what the pod has become."""
    cluster = Noting(node("a"), pod("p"))
    change.make(cluster)  # type: ignore[arg-type]
    cluster.done, cluster.answers = [], list(answers)
    if there is not None:
        cluster.held = (there,)
    (work,) = cluster.work
    asyncio.run(work)  # type: ignore[arg-type]
    return cluster


def test_an_eviction_that_a_budget_refuses_is_asked_for_again():
    change, noted = Drain(A), []
    causes = [
        {"message": "x"},
        {"message": "The disruption budget all needs 1 healthy pods and has 1 currently"},
    ]
    refusal = ApiError("no")
    refusal.details = {"causes": causes}

    class Watched(dict[str, str]):
        def __setitem__(self, key: str, value: str) -> None:
            noted.append((key, value))
            super().__setitem__(key, value)

    change = Drain(A, blocked=Watched())
    cluster = refusing(refusal, None, ApiError("later"), change=change)
    assert cluster.done == [
        ("evict", "team/p"),
        ("sleep", 5.0),
        ("evict", "team/p"),
        ("sleep", 5.0),
        ("evict", "team/p"),
    ]
    assert (noted, change.blocked) == ([("team/p", "team/all"), ("team/p", "later")], {})


def test_an_eviction_of_a_pod_that_is_gone_is_over():
    assert refusing(NotFound("gone"), change=Drain(A)).done == [("evict", "team/p")]
    assert refusing(change=Drain(A), there=pod("other")).done == []
    assert refusing(change=Drain(A), there=pod("p", metadata={"uid": "another"})).done == []


# ── new nodes ──


def added(change: AddNodes, *documents: Document) -> list[Document]:
    cluster, said = make(change, *documents)
    assert said == [] and {what[0] for what in cluster.done} <= {"create"}
    return [what[1] for what in cluster.done]


def test_new_nodes_are_like_their_model():
    model = node(
        "a",
        "hot=1:NoExecute",
        metadata={"labels": {"kubernetes.io/hostname": "a", "pool": "x"}},
        spec={"unschedulable": True},
        status={"allocatable": {"cpu": "1"}, "capacity": {"cpu": "2"}, "nodeInfo": {"x": 1}, "images": []},
    )
    (found,) = added(AddNodes(1, "a", (("zone", "z"),)), model)
    now = "2026-01-01T12:00:00Z"
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    assert found == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "a-new-1",
            "labels": {"kubernetes.io/hostname": "a-new-1", "pool": "x", "zone": "z"},
        },
        "spec": {"taints": [{"key": "hot", "effect": "NoExecute", "value": "1"}]},
        "status": {
            "allocatable": {"cpu": "1"},
            "capacity": {"cpu": "2"},
            "nodeInfo": {"x": 1},
            "conditions": [{**ready, "lastHeartbeatTime": now, "lastTransitionTime": now}],
        },
    }


def test_new_nodes_have_names_that_are_free():
    found = added(AddNodes(3, "a"), node("a"), node("a-new-1"), node("a-new-3"))
    assert [each["metadata"]["name"] for each in found] == ["a-new-2", "a-new-4", "a-new-5"]
    assert found[0]["metadata"]["labels"] == {}


def test_new_nodes_may_have_other_taints():
    taints = (parse_taint("hot=1:NoExecute"), parse_taint("cold:NoSchedule"))
    (found,) = added(AddNodes(1, "a", taints=taints), node("a", "x:NoSchedule"))
    assert found["spec"]["taints"] == [
        {"key": "hot", "effect": "NoExecute", "value": "1"},
        {"key": "cold", "effect": "NoSchedule"},
    ]
    (bare,) = added(AddNodes(1, "a", taints=()), node("a", "x:NoSchedule"))
    assert bare["spec"]["taints"] == []
    with pytest.raises(ChangeError, match="taints"):
        added(AddNodes(1, "a", taints=(type(taints[0])("a b", "", "NoExecute"),)), node("a"))


# ── workloads ──


@pytest.mark.parametrize("text", ["deploy/web", "deployment/web", "deployments/web", "Deployment/web"])
def test_a_workload_is_scaled(text):
    cluster, said = make(Scale(text, 5, "team"), workload("Deployment", "web"))
    assert (cluster.done, said) == ([("patch", "Deployment", "web", {"spec": {"replicas": 5}}, "team")], [])


@pytest.mark.parametrize(
    "strategy, words", [({}, 0), ({"type": "RollingUpdate"}, 0), ({"type": "OnDelete"}, 1), (None, 0)]
)
def test_a_rollout_says_so_when_it_replaces_nobody(strategy, words):
    cluster, said = make(Rollout("ds/web", "team"), workload("DaemonSet", "web", updateStrategy=strategy))
    annotations = {"kubectl.kubernetes.io/restartedAt": "2026-01-01T12:00:00Z"}
    template = {"template": {"metadata": {"annotations": annotations}}}
    assert cluster.done == [("patch", "DaemonSet", "web", {"spec": template}, "team")]
    assert said == ["DaemonSet/web replaces its pods only when they are deleted (OnDelete)"][:words]


@pytest.mark.parametrize(
    "change, said",
    [
        (
            Scale("web", 1),
            "'web': write deployment/NAME or replicaset/NAME or statefulset/NAME or replicationcontroller/NAME",
        ),
        (Scale("deploy/", 1), "'deploy/': write deployment/NAME"),
        (Scale("nothing/web", 1), "'nothing/web': write deployment/NAME"),
        (Scale("ds/web", 1), "'ds/web': write deployment/NAME"),
        (Rollout("rs/web"), "'rs/web': write deployment/NAME or statefulset/NAME or daemonset/NAME"),
        (
            Scale("sts/web", 1, "team"),
            "no statefulset web in namespace team: no statefulsets were collected there",
        ),
        (Scale("deploy/no", 1, "team"), "no deployment no in namespace team: it has w0, w1, w2, w3, w4"),
    ],
)
def test_a_workload_that_is_not_meant_or_not_there_is_told(change, said):
    there = [workload("Deployment", f"w{number}") for number in (5, 4, 3, 2, 1, 0)]
    with pytest.raises(ChangeError) as raised:
        make(change, *there)
    assert str(raised.value).startswith(said) and "w5" not in str(raised.value)


# ── manifests ──


def test_a_manifest_is_applied_without_what_only_a_server_writes():
    written = {
        "managedFields": [],
        "resourceVersion": "1",
        "uid": "u",
        "creationTimestamp": "x",
        "generation": 2,
    }
    labels = {"labels": {"x": "y"}}
    document = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "a", **labels, **written},
        "spec": {},
    }
    cluster, said = make(Apply((document,)))
    assert said == []
    assert cluster.done == [("apply", {**document, "metadata": {"name": "a", **labels}})]


@pytest.mark.parametrize(
    "document, said",
    [
        ("text", "a document without a kind and an apiVersion cannot be applied"),
        ({"apiVersion": "v1", "metadata": {"name": "a"}}, "a document without a kind and an apiVersion"),
        ({"kind": "Node", "metadata": {"name": "a"}}, "a document without a kind and an apiVersion"),
        ({"apiVersion": "v1", "kind": "Node"}, "a Node without metadata.name cannot be applied"),
        ({"apiVersion": "v1", "kind": "Node", "metadata": {"labels": {}}}, "a Node without metadata.name"),
        (
            {"apiVersion": "v9", "kind": "Node", "metadata": {"name": "a"}},
            "v9 Node is no kind that weir knows",
        ),
    ],
)
def test_what_cannot_be_applied_is_told(document, said):
    with pytest.raises(ChangeError) as raised:
        make(Apply((document,)))
    assert str(raised.value).startswith(said)


def test_a_manifest_that_the_server_refuses_is_told():
    cluster = Noting()
    cluster.answers = [ApiError("no")]
    with pytest.raises(ChangeError, match="the server would refuse it: no"):
        Apply(({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}},)).make(cluster)  # type: ignore[arg-type]


# ── components ──

OFF = ((TOLERATION_COMPARISON, False),)


def gates_after(change: SetGates, *documents: Document) -> tuple[Any, list[str]]:
    cluster, said = make(change, *documents)
    ((_, gates),) = cluster.done
    return gates, said


def test_gates_are_set_in_every_component_unless_some_are_named():
    everywhere, _ = gates_after(SetGates(OFF, before=ALL_FEATURES))
    some, _ = gates_after(SetGates(OFF, ("kubelet", "scheduler"), ALL_FEATURES))
    names = ("apiserver", "scheduler", "controllers", "kubelet")
    assert [getattr(everywhere, name).enabled(TOLERATION_COMPARISON) for name in names] == [False] * 4
    assert [getattr(some, name).enabled(TOLERATION_COMPARISON) for name in names] == [
        True,
        False,
        True,
        False,
    ]
    assert (everywhere.older, some.older) == (frozenset(), frozenset())
    assert everywhere.scheduler.enabled(TOLERATION_CEL)
    off, _ = gates_after(SetGates((), ("kubelet",), ALL_FEATURES.replace(dict(OFF))))
    assert not off.apiserver.enabled(TOLERATION_COMPARISON)


def test_components_may_become_an_older_release():
    whole, _ = gates_after(SetGates((), before=ALL_FEATURES, to="1.35"))
    some, _ = gates_after(SetGates((), ("scheduler",), ALL_FEATURES, "1.35"))
    assert whole.older == {"apiserver=1.35", "scheduler", "controllers", "kubelet"}
    assert some.older == {"scheduler"}
    assert (some.scheduler.enabled(TOLERATION_CEL), some.kubelet.enabled(TOLERATION_CEL)) == (False, True)
    asked, _ = gates_after(SetGates(((TOLERATION_CEL, True),), before=ALL_FEATURES, to="1.35"))
    assert asked.scheduler.enabled(TOLERATION_CEL)


def using(operator: str) -> Document:
    tolerations = [{"key": "sla", "operator": operator, "value": "5"}]
    return workload("Deployment", "web", template={"spec": {"containers": [], "tolerations": tolerations}})


def test_what_should_have_been_done_before_is_said():
    _, said = gates_after(SetGates(OFF, before=ALL_FEATURES), using("Gt"))
    assert [line.partition(":")[0] for line in said] == ["deployment/team/web", "order"]
    assert "kube-apiserver → kube-scheduler" in said[1]
    assert gates_after(SetGates(OFF, before=ALL_FEATURES), using("Equal"))[1] == []
    rule = {"kind": "DeviceTaintRule", "metadata": {"name": "r"}, "spec": {"taint": {"key": "k"}}}
    assert "devicetaintrule/r" in gates_after(SetGates((), to="1.35"), rule)[1][0]


def test_only_an_api_server_that_changes_refuses_templates():
    assert gates_after(SetGates(OFF, ("kubelet",), ALL_FEATURES), using("Gt"))[1] == []


def test_what_comes_has_its_order_too():
    none, on = Gates.of({TOLERATION_COMPARISON: False}), ((TOLERATION_COMPARISON, True),)
    expression = workload("Deployment", "cel", template={"spec": {"tolerations": [{"expression": "true"}]}})
    (everywhere,) = gates_after(SetGates(on, before=none), using("Gt"), expression)[1]
    (some,) = gates_after(SetGates(on, ("kubelet", "scheduler"), none), using("Gt"), expression)[1]
    assert everywhere.startswith(
        "order: kubelets → kube-controller-manager → kube-scheduler → kube-apiserver;"
    )
    assert some.startswith("order: kubelets → kube-scheduler;")


def test_time_passes_between_changes():
    cluster, said = make(Wait(30.0))
    assert (cluster.done, said) == ([("advance", 30.0)], [])


# ── said as commands ──


def test_a_change_is_what_is_asked_not_what_comes_of_it():
    assert Drain(A, blocked={"team/p": "team/all"}) == Drain(A) != Drain(A, force=True)
    assert len({Apply(({"kind": "Node"},)), Apply(({"kind": "Node"},))}) == 1


@pytest.mark.parametrize(
    "change, said",
    [
        (taint("hot=1:NoExecute", "x:NoSchedule-"), "taint a hot=1:NoExecute x:NoSchedule-"),
        (Label(A, (("x", "y"), ("z", None))), "label a x=y z-"),
        (Cordon(A), "cordon a"),
        (Cordon(A, on=False), "uncordon a"),
        (Drain(A), "drain a"),
        (Drain(A, force=True), "drain a --force"),
        (DeleteNode(A), "delete-node a"),
        (AddNodes(2, "a"), "add-nodes 2 --like a"),
        (Scale("deploy/web", 3), "scale deploy/web 3"),
        (Scale("deploy/web", 3, "team"), "scale deploy/web 3 -n team"),
        (Rollout("deploy/web"), "rollout deploy/web"),
        (Rollout("deploy/web", "team"), "rollout deploy/web -n team"),
        (Apply(({"kind": "Node", "metadata": {"name": "a"}}, {}, {"kind": "Pod"})), "apply node/a ?/? pod/?"),
        (SetGates((("A", True), ("B", False))), "gates A=true,B=false"),
        (
            SetGates((("A", True),), ("kubelet", "scheduler")),
            "gates A=true --component kubelet --component scheduler",
        ),
        (SetGates((), ("kubelet",), to="1.34"), "gates --component kubelet --to 1.34"),
        (Wait(90.0), "wait 90s"),
    ],
)
def test_a_change_is_said_as_a_command(change, said):
    assert change.say() == said


def test_a_taint_is_removed_from_those_of_the_selected_nodes_that_have_it():
    edit = TaintEdit(type(parse_taint("hot:NoExecute"))("hot", "", ""), removes=True)
    cluster, _ = make(Taint(Nodes(), (edit,)), node("a"), node("b", "hot:NoExecute"))
    ((_, _, patches),) = cluster.done
    assert patches["b"] == {"spec": {"taints": None}}
    with pytest.raises(ChangeError) as raised:
        make(Taint(Nodes(), (edit,)), node("a"), node("b"))
    assert str(raised.value) == "none of these nodes has a taint hot"
