"""The history of DaemonSets and StatefulSets."""

from __future__ import annotations

import json

import msgspec

from tests.unit.controllers.builders import decide, made, of, only, pod, workload
from weir.client.cache import ObjectKey
from weir.controllers.runtime.controller import Create, Delete, Patch
from weir.controllers.workloads.controller_revisions import REVISIONS, restoring
from weir.controllers.workloads.daemonset import DaemonSets
from weir.controllers.workloads.statefulset import StatefulSets
from weir.objects.kinds import PODS

KEY = ObjectKey("default", "db")


def template(image):
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}}


def stateful(image="db:1", **more):
    return workload("StatefulSet", "db", template=template(image), **{"replicas": 0, **more})


def revision(owner, name, number, image, **more):
    return made(
        "ControllerRevision", name, labels={"app": "web", "controller.kubernetes.io/hash": name},
        owner=owner, data=restoring(template(image)), revision=number, **more,
    )  # fmt: skip


def of_revisions(kind, actions):
    return [action for action in only(kind, actions) if action.kind is REVISIONS]


def test_a_new_template_becomes_the_next_revision():
    db = stateful("db:2")
    (made_one,) = of_revisions(Create, decide(of(StatefulSets), KEY, [db, revision(db, "db-a", 4, "db:1")]))
    document = made_one.document
    assert (document["revision"], document["data"], document["metadata"]["labels"]["app"]) == (
        5,
        restoring(template("db:2")),
        "web",
    )


def test_what_a_revision_holds_is_in_the_order_in_which_others_compute_it():
    spec = {"volumes": [], "containers": [{"name": "c", "image": "i", "env": [{"value": "1", "name": "A"}]}]}
    held = msgspec.json.encode(restoring({"spec": spec, "metadata": {"labels": {"b": "1", "a": "2"}}}))
    assert held == json.dumps(msgspec.json.decode(held), sort_keys=True, separators=(",", ":")).encode()


def test_going_back_makes_the_old_revision_the_newest():
    db = stateful("db:1")
    history = [revision(db, "db-a", 1, "db:1"), revision(db, "db-b", 2, "db:2")]
    actions = decide(of(StatefulSets), KEY, [db, *history])
    (renumbered,) = of_revisions(Patch, actions)
    assert (renumbered.name, renumbered.patch, of_revisions(Create, actions)) == ("db-a", {"revision": 3}, [])


def test_a_template_that_is_unchanged_changes_nothing():
    db = stateful("db:1")
    history = [revision(db, "db-b", 1, "db:2"), revision(db, "db-a", 2, "db:1")]
    actions = decide(of(StatefulSets), KEY, [db, *history])
    assert (of_revisions(Create, actions), of_revisions(Patch, actions)) == ([], [])


def test_a_revision_that_kubernetes_wrote_is_recognised():
    db = stateful("db:1")
    written = revision(db, "db-a", 1, "db:1")
    written["data"]["spec"]["template"]["metadata"]["creationTimestamp"] = None
    assert of_revisions(Create, decide(of(StatefulSets), KEY, [db, written])) == []


def test_an_orphaned_revision_is_adopted():
    db = stateful("db:1")
    stray = revision(None, "db-a", 1, "db:1")
    (adopted,) = of_revisions(Patch, decide(of(StatefulSets), KEY, [db, stray]))
    assert adopted.patch["metadata"]["ownerReferences"][0]["uid"] == "uid-db"


def test_only_as_many_old_revisions_stay_as_the_limit_says():
    db = stateful("db:9", revisionHistoryLimit=2)
    history = [revision(db, f"db-{n}", n, f"db:{n}") for n in range(1, 10)]
    gone = [each.name for each in of_revisions(Delete, decide(of(StatefulSets), KEY, [db, *history]))]
    assert gone == [f"db-{n}" for n in range(1, 7)]


def test_a_revision_that_a_pod_still_runs_stays():
    db = stateful("db:9", replicas=1, revisionHistoryLimit=0, updateStrategy={"type": "OnDelete"})
    history = [revision(db, f"db-{n}", n, f"db:{n}") for n in (1, 2, 9)]
    old = pod("db-0", owner=db, labels={"app": "web", "controller-revision-hash": "db-1"})
    gone = [each.name for each in of_revisions(Delete, decide(of(StatefulSets), KEY, [db, *history, old]))]
    assert gone == ["db-2"]


def test_below_the_partition_a_lost_pod_comes_back_as_it_was():
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    db = stateful("db:2", replicas=1, updateStrategy=rolling, status={"currentRevision": "db-a"})
    history = [revision(db, "db-a", 1, "db:1"), revision(db, "db-b", 2, "db:2")]
    (lost,) = [a for a in only(Create, decide(of(StatefulSets), KEY, [db, *history])) if a.kind is PODS]
    assert (
        lost.document["spec"]["containers"][0]["image"],
        lost.document["metadata"]["labels"]["controller-revision-hash"],
    ) == ("db:1", "db-a")


def test_maxunavailable_lets_several_pods_of_a_statefulset_go_at_once():
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}
    db = stateful("db:2", replicas=4, updateStrategy=rolling, status={"currentRevision": "db-a"})
    history = [revision(db, "db-a", 1, "db:1"), revision(db, "db-b", 2, "db:2")]
    labels = {"app": "web", "controller-revision-hash": "db-a"}
    pods = [pod(f"db-{n}", owner=db, labels=labels) for n in range(4)]
    gone = [a.name for a in only(Delete, decide(of(StatefulSets), KEY, [db, *history, *pods]))]
    assert gone == ["db-3", "db-2"]


def node(name):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name}, "spec": {}}


def test_a_surging_daemonset_starts_the_new_pod_beside_the_old():
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    agent = workload("DaemonSet", "agent", updateStrategy=rolling)
    old = [
        pod(f"old-{n}", owner=agent, node=f"n{n}", labels={"app": "web", "controller-revision-hash": "x"})
        for n in range(2)
    ]
    actions = decide(of(DaemonSets), ObjectKey("default", "agent"), [agent, node("n0"), node("n1"), *old])
    pods = [a for a in only(Create, actions) if a.kind is PODS]
    assert (len(pods), only(Delete, actions)) == (1, [])


def test_a_daemonset_adopts_pods_meant_for_its_nodes():
    agent = workload("DaemonSet", "agent")
    actions = decide(of(DaemonSets), ObjectKey("default", "agent"), [agent, node("n0"), pod("stray")])
    assert [a.name for a in only(Patch, actions) if a.kind is PODS] == ["stray"]
