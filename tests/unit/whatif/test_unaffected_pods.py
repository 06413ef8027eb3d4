"""Who lives in the copy of a large cluster, and who only takes room there."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from weir.gates import Gates
from weir.taints.notation import parse_taint
from weir.whatif import unaffected_pods
from weir.whatif.changes import (
    AddNodes,
    Apply,
    Change,
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
from weir.whatif.inferred_owners import owner_label
from weir.whatif.pod_records import whole
from weir.whatif.unaffected_pods import Divided, Population

Document = dict[str, Any]
A = Nodes(("a",))
HOT = Taint(A, (TaintEdit(parse_taint("hot:NoExecute")),))
EVERYTHING = [{"operator": "Exists"}]


def node(name: str, *effects: str, **more: Any) -> Document:
    spec = {"taints": [{"key": "k", "effect": effect} for effect in effects]}
    return {"kind": "Node", "metadata": {"name": name, **more.pop("metadata", {})}, "spec": spec, **more}


def reference(owner: str) -> list[Document]:
    kind, _, name = owner.partition("/")
    return [{"kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}] if owner else []


def pod(
    name: str, on: str = "b", owner: str = "ReplicaSet/web", phase: str = "Running", **more: Any
) -> Document:
    """Return a pod; *more* is of its spec, `metadata` apart."""
    metadata = {"name": name, "ownerReferences": reference(owner), **more.pop("metadata", {})}
    return {
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [], "nodeName": on, **more},
        "status": {"phase": phase},
    }


def workload(owner: str, replicas: int | None = None, above: str = "", **metadata: Any) -> Document:
    kind, _, name = owner.partition("/")
    spec = {} if replicas is None else {"replicas": replicas}
    metadata = {"name": name, "uid": f"uid-{name}", "ownerReferences": reference(above), **metadata}
    return {"kind": kind, "metadata": metadata, "spec": spec}


NODES = [node("a"), node("b")]


def divided(
    *documents: Document, change: Change = HOT, nodes: list[Document] = NODES, below: int | None = None
) -> Divided:
    pods = [each for each in documents if each["kind"] == "Pod"]
    others = [each for each in documents if each["kind"] != "Pod"]
    found = Population([*nodes, *others], pods).divide([change], below)
    assert found is not None
    return found


def alive(found: Divided, kind: str = "Pod") -> list[str]:
    return sorted(each["metadata"]["name"] for each in found.documents if each["kind"] == kind)


def seated(found: Divided) -> dict[str, list[str]]:
    return {node: list(seats) for node, seats in found.seats.items()}


def replicas(found: Divided) -> dict[str, int]:
    return {
        each["metadata"]["name"]: each["spec"]["replicas"]
        for each in found.documents
        if "replicas" in each.get("spec", {})
    }


WEB = (workload("ReplicaSet/web", 3), pod("web-0", "a"), pod("web-1"), pod("web-2"))
DB = (workload("StatefulSet/db", 2), pod("db-0", "a", "StatefulSet/db"), pod("db-1", owner="StatefulSet/db"))
FAR = (workload("StatefulSet/far", 1), pod("far-0", owner="StatefulSet/far"))


# ── whom a change touches ──


def test_of_a_replicaset_only_the_touched_pods_live_and_it_wants_fewer():
    found = divided(*WEB)
    assert (alive(found), seated(found)) == (["web-0"], {"b": ["default/web-1", "default/web-2"]})
    assert (replicas(found), found.seated) == ({"web": 1}, {"uid-web": 2})


def test_of_any_other_owner_all_pods_live_when_one_is_touched():
    found = divided(*DB)
    assert (alive(found), found.seats, replicas(found)) == (["db-0", "db-1"], {}, {"db": 2})


def test_owners_without_a_living_pod_are_left_out_and_what_is_theirs():
    theirs = {
        "kind": "ControllerRevision",
        "metadata": {"name": "r", "ownerReferences": reference("StatefulSet/far")},
    }
    others = {
        "kind": "ControllerRevision",
        "metadata": {"name": "s", "ownerReferences": reference("StatefulSet/db")},
    }
    secret = {"kind": "Service", "metadata": {"name": "t", "ownerReferences": reference("StatefulSet/far")}}
    free = {"kind": "ControllerRevision", "metadata": {"name": "u"}}
    found = divided(*FAR, *DB, theirs, others, secret, free)
    assert (alive(found), alive(found, "StatefulSet")) == (["db-0", "db-1"], ["db"])
    assert (alive(found, "ControllerRevision"), alive(found, "Service")) == (["s", "u"], ["t"])
    assert alive(found, "Node") == ["a", "b"]


def test_a_pod_nobody_owns_is_its_own_group():
    found = divided(pod("near", "a", ""), pod("far", "b", ""))
    assert (alive(found), seated(found), found.seated) == (["near"], {"b": ["default/far"]}, {})


def test_the_deployment_above_wants_fewer_too():
    above = workload("Deployment/app", 3)
    web = workload("ReplicaSet/web", 3, "Deployment/app")
    found = divided(above, web, *WEB[1:])
    assert (alive(found), replicas(found)) == (["web-0"], {"app": 1, "web": 1})


def test_a_deployment_never_wants_less_than_nobody():
    web = workload("ReplicaSet/web", 3, "Deployment/app")
    assert replicas(divided(workload("Deployment/app", 1), web, *WEB[1:]))["app"] == 0
    two = (workload("ReplicaSet/web", 2, "Deployment/app"), *WEB[1:3])
    one = divided(workload("Deployment/app"), *two)
    assert "replicas" in {
        key for each in one.documents if each["kind"] == "Deployment" for key in each["spec"]
    }
    assert replicas(one) == {"app": 0, "web": 1}


def test_what_is_no_workload_of_kubernetes_or_says_nothing_stays_as_it_is():
    web = workload("ReplicaSet/web", 3, "Rollout/app")
    assert replicas(divided(workload("Rollout/app", 3), web, *WEB[1:])) == {"app": 3, "web": 1}
    silent = {**workload("Deployment/app"), "spec": None}
    found = divided(silent, workload("ReplicaSet/web", 3, "Deployment/app"), *WEB[1:])
    assert silent in found.documents


def test_the_least_priority_of_those_left_out_is_known():
    web = (WEB[0], pod("web-0", "a", priority=-9), pod("web-1", priority=7), pod("web-2", priority=3))
    assert divided(*web).lowest == 3
    assert divided(WEB[0], *WEB[1:3], pod("web-2", priority=3)).lowest == 0
    assert divided(*DB).lowest is None


def test_less_important_pods_live_once_somebody_could_push_them_out():
    web = (WEB[0], pod("web-0", "a"), pod("web-1", priority=7), pod("web-2", priority=3))
    assert alive(divided(*web, below=7)) == ["web-0", "web-2"]
    assert alive(divided(*web, pod("ended", phase="Failed", owner="", priority=3), below=7)) == [
        "web-0",
        "web-2",
    ]


@pytest.mark.parametrize(
    "stirring",
    [
        pod("web-1", ""),
        pod("web-1", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        pod("web-1", resourceClaims=[{"name": "gpu"}]),
    ],
)
def test_pods_that_wait_end_or_have_claims_live(stirring):
    assert alive(divided(WEB[0], stirring, pod("web-2"), pod("web-3"))) == ["web-1"]


def test_a_pod_that_has_ended_neither_lives_nor_takes_room():
    found = divided(*WEB, pod("done", phase="Succeeded"), pod("never", "", phase="Failed"))
    assert (alive(found), seated(found)) == (["web-0"], {"b": ["default/web-1", "default/web-2"]})


def test_a_pod_that_ended_on_a_touched_node_lives_with_all_of_its_owner():
    web = (workload("ReplicaSet/web", 2), pod("web-0", "a", phase="Failed"), pod("web-1"), pod("web-2"))
    assert alive(divided(*web)) == ["web-0", "web-1", "web-2"]


@pytest.mark.parametrize(
    "unwell, lives",
    [
        (node("b", "NoExecute"), True),
        (node("b", "NoSchedule"), False),
        (node("b", status={"conditions": [{"type": "Ready", "status": "Unknown"}]}), True),
        (node("b", status={"conditions": [{"type": "Ready", "status": "True"}]}), False),
        (node("b", status={"conditions": [{"type": "DiskPressure", "status": "False"}]}), False),
        ({"kind": "Node", "metadata": {"name": "b"}}, False),
        (node("other"), True),
    ],
)
def test_pods_on_nodes_that_are_not_well_or_not_there_live(unwell, lives):
    assert alive(divided(*FAR, nodes=[node("a"), unwell])) == (["far-0"] if lives else [])


# ── daemons ──


def daemon(*tolerations: Document) -> list[Document]:
    of = {"owner": "DaemonSet/agent", "tolerations": list(tolerations)}
    return [workload("DaemonSet/agent"), pod("on-a", "a", **of), pod("on-b", "b", **of)]


@pytest.mark.parametrize("change", [HOT, Cordon(A), Drain(A)])
def test_a_daemons_pods_that_tolerate_everything_are_not_moved(change):
    found = divided(*daemon(*EVERYTHING), change=change)
    assert (alive(found), alive(found, "DaemonSet"), len(found.seats)) == ([], [], 2)


@pytest.mark.parametrize(
    "change",
    [
        Label(A, (("x", "y"),)),
        DeleteNode(A),
        AddNodes(1, "a"),
        Apply(({"kind": "Node", "metadata": {"name": "a"}},)),
    ],
)
def test_a_daemons_pods_are_moved_by_what_makes_or_unmakes_nodes(change):
    assert alive(divided(*daemon(*EVERYTHING), change=change)) == ["on-a", "on-b"]


def elsewhere() -> list[Document]:
    """A DaemonSet that has no pod on the node that is changed, and tolerates nothing."""
    return [workload("DaemonSet/agent"), pod("on-b", "b", "DaemonSet/agent")]


def tainted(text: str, *, removes: bool = False) -> Taint:
    return Taint(A, (TaintEdit(parse_taint(text, effect_required=False), removes),))


@pytest.mark.parametrize(
    "change",
    [
        Label(A, (("x", "y"),)),
        AddNodes(1, "a"),
        Apply(({"kind": "Node", "metadata": {"name": "a"}},)),
        tainted("k:NoSchedule", removes=True),
        tainted("k", removes=True),
        tainted("k=100:NoSchedule"),
    ],
)
def test_a_daemon_lives_when_the_change_may_let_it_in(change):
    nodes = [node("a", "NoSchedule"), node("b")]
    assert alive(divided(*elsewhere(), change=change, nodes=nodes)) == ["on-b"]


@pytest.mark.parametrize(
    "change", [HOT, tainted("k:NoExecute"), tainted("other:NoSchedule"), Cordon(A), Drain(A)]
)
def test_a_daemon_is_left_out_where_a_change_only_keeps_others_away(change):
    nodes = [node("a", "NoSchedule"), node("b")]
    assert seated(divided(*elsewhere(), change=change, nodes=nodes)) == {"b": ["default/on-b"]}


def test_a_daemons_pods_that_stir_live():
    going = pod(
        "on-b",
        "b",
        "DaemonSet/agent",
        tolerations=EVERYTHING,
        metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"},
    )
    assert alive(divided(*daemon(*EVERYTHING)[:2], going)) == ["on-a", "on-b"]


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Exists", "key": "hot"},
        {"operator": "Exists", "effect": "NoExecute"},
        {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
        {"operator": "Exists", "tolerationSeconds": 5},
        {"operator": "Equal", "value": "x"},
    ],
)
def test_a_daemons_pods_that_tolerate_less_may_be_moved(toleration):
    assert alive(divided(*daemon(toleration), change=Drain(A))) == ["on-a", "on-b"]


def test_only_a_daemons_pods_stay_for_all_they_tolerate():
    db = (workload("StatefulSet/db", 1), pod("db-0", "a", "StatefulSet/db", tolerations=EVERYTHING))
    assert alive(divided(*db, change=Drain(A))) == ["db-0"]


# ── whom a taint does not touch ──


def on_a(*tolerations: Document, **more: Any) -> tuple[Document, ...]:
    return workload("StatefulSet/db", 1), pod("db-0", "a", "StatefulSet/db", tolerations=tolerations, **more)


HOT_TOLERATED = {"operator": "Exists", "key": "hot"}


def test_pods_that_tolerate_a_new_taint_for_ever_only_take_room():
    found = divided(*on_a(HOT_TOLERATED))
    assert (alive(found), alive(found, "StatefulSet"), seated(found)) == ([], [], {"a": ["default/db-0"]})


@pytest.mark.parametrize(
    ("toleration", "change"),
    [
        ({**HOT_TOLERATED, "effect": "NoExecute", "tolerationSeconds": 5}, HOT),
        ({**HOT_TOLERATED, "effect": "NoSchedule"}, HOT),
        ({**HOT_TOLERATED, "effect": "NoExecute"}, tainted("hot:NoSchedule")),  # it could not come back
        (HOT_TOLERATED, tainted("other:NoExecute")),
        (HOT_TOLERATED, Cordon(A)),
    ],
)
def test_pods_that_a_taint_evicts_later_or_keeps_from_coming_back_live(toleration, change):
    assert alive(divided(*on_a(toleration), change=change)) == ["db-0"]


def test_a_pod_must_tolerate_all_taints_of_its_node_at_any_time():
    both = [HOT_TOLERATED, {"operator": "Equal", "key": "k", "value": "1"}]
    nodes = [node("a", "NoExecute"), node("b")]
    assert alive(divided(*on_a(HOT_TOLERATED), nodes=nodes)) == ["db-0"]
    assert alive(divided(*on_a(*both), change=tainted("k=1:NoExecute"), nodes=nodes)) == ["db-0"]
    exists = {"operator": "Exists", "key": "k"}
    assert alive(divided(*on_a(exists), change=tainted("k=1:NoExecute"), nodes=nodes)) == []


def test_pods_of_a_tainted_node_that_is_also_drained_or_unwell_live():
    others, db = on_a(HOT_TOLERATED)
    found = Population([*NODES, others], [db]).divide([HOT, Drain(A)])
    assert found is not None
    assert alive(found) == ["db-0"]
    unwell = node("a", status={"conditions": [{"type": "Ready", "status": "Unknown"}]})
    assert alive(divided(others, db, nodes=[unwell, node("b")])) == ["db-0"]


# ── what is changed ──


def test_nodes_are_chosen_by_their_labels_too():
    nodes = [node("a", metadata={"labels": {"pool": "x"}}), node("b"), node("c")]
    chosen = Cordon(Nodes(selector="pool=x"))
    assert alive(divided(*DB, *FAR, change=chosen, nodes=nodes)) == ["db-0", "db-1"]
    assert alive(divided(*DB, *FAR, change=Cordon(Nodes()), nodes=nodes)) == ["db-0", "db-1", "far-0"]


@pytest.mark.parametrize(
    "change",
    [
        Scale("sts/far", 5),
        Scale("statefulset/far", 5),
        Scale("statefulsets/far", 5),
        Scale("StatefulSet/far", 5),
        Rollout("sts/far"),
        Apply(({"kind": "StatefulSet", "metadata": {"name": "far"}},)),
        Apply(({"kind": "StatefulSet", "metadata": {"name": "far", "namespace": "default"}},)),
    ],
)
def test_all_pods_of_a_workload_that_is_changed_live(change):
    assert alive(divided(*DB, *FAR, change=change)) == ["far-0"]


@pytest.mark.parametrize("change", [Scale("sts/far", 5, "team"), Scale("what/far", 5), Apply(())])
def test_a_workload_elsewhere_is_another(change):
    assert alive(divided(*DB, *FAR, change=change)) == []


def test_a_deployment_that_is_changed_lives_with_its_pods():
    app = (workload("Deployment/app", 3), workload("ReplicaSet/web", 3, "Deployment/app"), *WEB[1:])
    for change in (Scale("deploy/app", 5), Scale("rs/web", 5)):
        found = divided(*app, change=change)
        assert (alive(found), replicas(found)) == (["web-0", "web-1", "web-2"], {"app": 3, "web": 3})


def test_a_deployment_without_pods_stays_when_it_is_changed():
    assert alive(divided(workload("Deployment/app", 0), change=Scale("deploy/app", 5)), "Deployment") == [
        "app"
    ]


@pytest.mark.parametrize("kind", ["Node", "Pod"])
def test_a_manifest_touches_what_it_is_laid_over(kind):
    near, far = {"kind": kind, "metadata": {"name": "a"}}, {"kind": kind, "metadata": {"name": "z"}}
    documents = (*FAR, pod("a", "a", "StatefulSet/near"), workload("StatefulSet/near", 1))
    assert alive(divided(*documents, change=Apply((near,)))) == ["a"]
    assert alive(divided(*documents, change=Apply((far,)))) == []


def test_a_pods_manifest_touches_the_pod_of_its_namespace():
    there = pod("p", owner="DaemonSet/agent", tolerations=EVERYTHING, metadata={"namespace": "team"})
    for namespace, lives in (("team", ["p"]), ("default", [])):
        manifest = {"kind": "Pod", "metadata": {"name": "p", "namespace": namespace}}
        assert alive(divided(there, change=Apply((manifest,)))) == lives
    new = Apply(({"kind": "Pod", "metadata": {"name": "new", "namespace": "team"}},))
    assert alive(
        divided(labelled("x"), labelled("y", namespace="team"), quota("team"), quota(), change=new)
    ) == ["y"]


@pytest.mark.parametrize("kind", ["DeviceTaintRule", "ResourceSlice", "DeviceClass", "Pod"])
def test_devices_touch_only_those_that_have_claims(kind):
    found = divided(*DB, *FAR, change=Apply(({"kind": kind, "metadata": {"name": "x"}},)))
    assert alive(found) == []


@pytest.mark.parametrize(
    "change",
    [
        SetGates((), before=Gates()),
        Apply(({"kind": "ResourceQuota", "metadata": {"name": "q"}},)),
        Apply(({"kind": "DaemonSet", "metadata": {"name": "d"}},)),
        Apply(({"kind": "Node", "metadata": {"name": "a"}}, {"kind": "ConfigMap"})),
    ],
)
def test_a_change_that_could_touch_anything_leaves_nobody_out(change):
    assert Population([*NODES], []).divide([HOT, change]) is None


def test_waiting_touches_nobody():
    assert alive(divided(*DB, *FAR, change=Wait(5.0))) == []


# ── what is under way ──


def test_all_pods_of_an_owner_that_has_more_or_fewer_than_it_wants_live():
    for wanted in (2, 4):
        found = divided(workload("ReplicaSet/web", wanted), *WEB[1:])
        assert alive(found) == ["web-0", "web-1", "web-2"]


def test_an_owner_that_does_not_say_how_many_wants_one():
    assert alive(divided(workload("ReplicaSet/web"), pod("web-0"))) == []
    assert (
        alive(divided({"kind": "ReplicaSet", "metadata": {"name": "web", "uid": "uid-web"}}, pod("web-0")))
        == []
    )


def test_pods_that_have_ended_are_not_counted():
    assert alive(divided(*FAR, pod("far-1", owner="StatefulSet/far", phase="Succeeded"))) == []


def test_a_deployment_with_two_revisions_is_under_way():
    app, web = workload("Deployment/app", 2), workload("ReplicaSet/web", 1, "Deployment/app")
    one, two = pod("web-0"), pod("old-0", owner="ReplicaSet/old")
    assert alive(divided(app, web, one)) == []
    assert alive(divided(app, web, one, workload("ReplicaSet/old", 0, "Deployment/app"))) == []
    assert alive(divided(app, web, one, workload("ReplicaSet/old", 1, "Deployment/app"), two)) == [
        "old-0",
        "web-0",
    ]


# ── counted together ──


def budget(name: str, *apps: str, **metadata: Any) -> Document:
    wanted = [{"key": "app", "operator": "In", "values": list(apps)}]
    spec = {"selector": {"matchExpressions": wanted}} if apps else {}
    return {"kind": "PodDisruptionBudget", "metadata": {"name": name, **metadata}, "spec": spec}


def quota(namespace: str = "default") -> Document:
    return {"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": namespace}, "spec": {}}


def labelled(name: str, on: str = "b", **metadata: Any) -> Document:
    return pod(name, on, "", metadata={"labels": {"app": name}, **metadata})


def test_all_pods_that_a_budget_counts_live_when_one_does():
    pods = [labelled("w", "a"), labelled("x"), labelled("y"), labelled("z"), labelled("far")]
    budgets = [budget("second", "x", "y"), budget("first", "w", "x")]
    found = divided(*pods, *budgets, budget("idle", "z", "far"), budget("nobody", "nobody"), budget("none"))
    assert alive(found) == ["w", "x", "y"]
    assert alive(found, "PodDisruptionBudget") == ["first", "nobody", "none", "second"]


def test_a_budget_counts_pods_of_its_namespace_only():
    pods = [labelled("w", "a"), labelled("w", namespace="team")]
    found = divided(*pods, budget("b", "w", namespace="team"))
    assert (alive(found), seated(found)) == (["w"], {"b": ["team/w"]})


def test_a_namespace_with_a_quota_lives_as_a_whole():
    pods = [labelled("w", "a"), labelled("x"), labelled("y", namespace="team")]
    assert alive(divided(*pods, quota())) == ["w", "x"]
    assert alive(divided(*pods, quota("team"))) == ["w"]


def test_a_namespace_with_a_quota_lives_when_something_in_it_is_changed():
    pods = [labelled("x"), labelled("y", namespace="team")]
    assert alive(divided(*pods, quota(), change=Scale("sts/none", 1))) == ["x"]
    assert alive(divided(*pods, quota("team"), change=Scale("sts/none", 1))) == []
    assert alive(divided(*pods, budget("b", "x"), change=Scale("sts/none", 1))) == []


def test_all_pods_of_a_replicaset_in_a_budget_live():
    web = [
        workload("ReplicaSet/web", 2),
        *(pod(f"web-{n}", on, metadata={"labels": {"app": "w"}}) for n, on in enumerate("ab")),
    ]
    found = divided(*web, budget("b", "w"))
    assert (alive(found), replicas(found)) == (["web-0", "web-1"], {"web": 2})


# ── how pods are read ──


def test_pods_given_as_bytes_are_read_and_come_back_whole():
    documents = [{key: value for key, value in each.items() if key != "kind"} for each in DB[1:]]
    found = Population(
        [*NODES, DB[0]], [msgspec.Raw(msgspec.json.encode(each)) for each in documents]
    ).divide([HOT])
    assert found is not None and alive(found) == ["db-0", "db-1"]
    assert whole(msgspec.json.encode(documents[0])) == DB[1]
    assert whole(DB[1]) is DB[1]


@pytest.mark.parametrize(
    "odd",
    [
        {"kind": "Pod", "metadata": {"name": "p"}, "spec": 5},
        msgspec.Raw(b'{"metadata": {"name": "p"}, "spec": 5}'),
        {"kind": "Pod", "metadata": {}, "spec": {"containers": []}},
        {
            "kind": "Pod",
            "metadata": {"name": "p", "ownerReferences": [{"kind": "Job", "name": "j", "controller": True}]},
        },
    ],
)
def test_where_a_pod_cannot_be_told_nobody_is_left_out(odd):
    assert Population([*NODES], [WEB[1], odd]).divide([HOT]) is None


def test_those_that_take_room_are_seen_as_the_scheduler_would_see_them():
    found = divided(
        workload("StatefulSet/far", 1), pod("far-0", owner="StatefulSet/far", metadata={"labels": {"x": "y"}})
    )
    (seat,) = found.seats["b"].values()
    assert (seat.pod.spec.node_name, seat.namespace, seat.labels) == ("", "default", {"x": "y"})


@pytest.mark.parametrize("kind, told", [("ReplicaSet", True), ("Job", True), ("Rollout", False)])
def test_pods_whose_owner_will_be_made_up_have_its_label(kind, told):
    found = divided(pod("p", owner=f"{kind}/gone"))
    (seat,) = found.seats["b"].values()
    assert seat.labels == (owner_label("uid-gone") if told else {})


# ── what is under way anyway ──


def described(owner: str, pods: int, **spec: Any) -> list[Document]:
    """Return a workload with a template, and so many pods of it: on b, then on a."""
    body = {"template": {"spec": {"containers": [], "tolerations": EVERYTHING}}, **spec}
    made = [pod(f"p-{on}", on, owner, tolerations=EVERYTHING) for on in "ba"[:pods]]
    return [{**workload(owner), "spec": body}, *made]


@pytest.mark.parametrize("pods, names", [(2, []), (1, ["p-b"])])
def test_a_daemon_that_lacks_a_pod_lives(pods, names):
    assert alive(divided(*described("DaemonSet/agent", pods), change=Wait(0.0))) == names


@pytest.mark.parametrize(
    "spec, names",
    [
        ({"parallelism": 2}, []),
        ({"parallelism": 3, "completions": 2}, []),
        ({"parallelism": 3}, ["p-a", "p-b"]),
        ({"parallelism": 1}, ["p-a", "p-b"]),
        ({"parallelism": 2, "suspend": True}, ["p-a", "p-b"]),
    ],
)
def test_a_job_with_more_or_fewer_pods_than_it_wants_lives(spec, names):
    assert alive(divided(*described("Job/batch", 2, **spec), change=Wait(0.0))) == names


@pytest.mark.parametrize(
    "least, status, names",
    [
        (1, {}, []),
        (2, {}, ["web-0", "web-1"]),
        ("50%", {"currentHealthy": 1, "desiredHealthy": 1}, []),
        ("50%", {"currentHealthy": 0, "desiredHealthy": 1}, ["web-0", "web-1"]),
    ],
)
def test_the_pods_of_a_budget_that_is_short_already_live(least, status, names):
    pods = [
        pod("web-0", metadata={"labels": {"app": "web"}}),
        pod("web-1", metadata={"labels": {"app": "web"}}),
    ]
    pods[0]["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    short = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": "web"}}},
        "status": status,
    }
    assert alive(divided(workload("ReplicaSet/web", 2), short, *pods, change=Wait(0.0))) == names


def test_a_cluster_in_which_nothing_is_under_way_is_quiet():
    assert divided(*WEB, workload("ReplicaSet/old", 0), change=Wait(0.0)).quiet
    assert not divided(*WEB, workload("ReplicaSet/more", 1), change=Wait(0.0)).quiet
    assert not divided(*WEB).quiet


def test_questions_share_who_takes_room_without_them(monkeypatch):
    made: list[object] = []
    kept = unaffected_pods._Unchanged
    monkeypatch.setattr(unaffected_pods, "_Unchanged", lambda *known: made.append(known) or kept(*known))
    population = Population([*NODES, WEB[0]], WEB[1:])
    for name, living in (("a", ["web-0"]), ("b", ["web-1", "web-2"]), ("a", ["web-0"])):
        found = population.divide([Cordon(Nodes((name,)))])
        assert found is not None
        assert alive(found) == living
        assert sorted(key for seats in found.seats.values() for key in seats) == sorted(
            f"default/web-{number}" for number in range(3) if f"web-{number}" not in living
        )
        assert found.seated == {"uid-web": 3 - len(living)}
    assert len(made) == 1
