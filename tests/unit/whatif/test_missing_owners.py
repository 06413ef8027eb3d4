"""The owners of pods that were not collected, and the revisions their pods are of."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from weir.whatif.inferred_owners import owner_label
from weir.whatif.missing_owners import add_owners, add_revisions
from weir.whatif.snapshot import Snapshot, owner_of

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
HASH = "pod-template-hash"


def pod(name: str, owner: str = "", namespace: str = "team", **labels: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "labels": dict(labels)}
    if owner:
        kind, _, title = owner.partition("/")
        metadata["ownerReferences"] = [
            {"kind": kind, "name": title, "uid": f"uid-{title}", "controller": True}
        ]
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": "Running"},
    }


def owned(kind: str, name: str, namespace: str = "team", **metadata: Any) -> dict[str, Any]:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "own", "image": "i"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", **metadata},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def holding(*documents: dict[str, Any]) -> Snapshot:
    snapshot = Snapshot(NOW)
    for document in documents:
        snapshot.add(document)
    return snapshot


def completed(*documents: dict[str, Any]) -> Snapshot:
    snapshot = holding(*documents)
    add_owners(snapshot)
    return snapshot


def only(snapshot: Snapshot, kind: str) -> dict[str, Any]:
    (found,) = snapshot.of(kind).values()
    return found


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "DaemonSet"])
def test_an_owner_that_is_missing_selects_its_pods_by_a_label_of_its_own(kind):
    found = completed(pod("web-0", f"{kind}/web", app="web"), pod("web-1", f"{kind}/web"), pod("other"))
    owner, label = only(found, kind), owner_label("uid-web")
    assert (owner["metadata"]["name"], owner["metadata"]["namespace"]) == ("web", "team")
    assert (owner["apiVersion"], owner["metadata"]["uid"]) == ("apps/v1", "uid-web")
    assert owner["spec"]["selector"] == {"matchLabels": label}
    assert owner["spec"]["template"]["metadata"]["labels"] == {"app": "web", **label}
    assert owner["status"]["replicas"] == 2
    assert [each["metadata"].get("labels", {}) for each in found.of("Pod").values()] == [
        {"app": "web", **label},
        label,
        {},
    ]
    assert found.notes == ["what 1 owner not collected would say: each is taken to want the pods it has"]


def test_a_replication_controller_selects_by_labels_alone():
    found = only(completed(pod("p", "ReplicationController/web", app="web")), "ReplicationController")
    assert (found["apiVersion"], found["spec"]["selector"]) == ("v1", owner_label("uid-web"))


def test_a_job_says_that_it_chose_its_selector_and_has_no_replicas():
    found = only(completed(pod("p", "Job/web")), "Job")
    assert (found["apiVersion"], found["spec"]["manualSelector"]) == ("batch/v1", True)
    assert "replicas" not in found["status"]
    assert "manualSelector" not in only(completed(pod("p", "ReplicaSet/web")), "ReplicaSet")["spec"]


def test_what_is_made_up_has_its_defaults():
    assert (
        only(completed(pod("web-0", "StatefulSet/web")), "StatefulSet")["spec"]["revisionHistoryLimit"] == 10
    )


def test_owners_that_are_there_stay_as_they_are():
    there = owned("ReplicaSet", "web")
    found = completed(there, pod("p", "ReplicaSet/web", app="web"))
    assert (only(found, "ReplicaSet")["metadata"]["uid"], found.notes) == ("uid-web", [])
    assert only(found, "Pod")["metadata"]["labels"] == {"app": "web"}


def test_an_owner_of_the_name_elsewhere_is_another():
    found = completed(owned("ReplicaSet", "web", "other"), pod("p", "ReplicaSet/web"))
    assert set(found.of("ReplicaSet")) == {("other", "web"), ("team", "web")}


def test_owners_that_weir_does_not_run_are_named_once():
    found = completed(
        pod("a", "Rollout/x"),
        pod("b", "Rollout/y"),
        pod("c", "Game/z"),
        pod("d", "Node/n"),
        pod("e", "Job/j"),
    )
    assert found.notes == [
        "what 1 owner not collected would say: each is taken to want the pods it has",
        "what Game, Rollout do: weir does not run them",
    ]
    assert completed(pod("d", "Node/n"), pod("p")).notes == []


def test_two_owners_of_one_kind_are_two():
    found = completed(pod("a", "ReplicaSet/x"), pod("b", "ReplicaSet/y"), pod("c", "ReplicaSet/y"))
    assert {name: each["spec"]["replicas"] for (_, name), each in found.of("ReplicaSet").items()} == {
        "x": 1,
        "y": 2,
    }
    assert found.notes == ["what 2 owners not collected would say: each is taken to want the pods it has"]


def test_a_replicaset_whose_deployment_is_there_has_its_template():
    others = (owned("Deployment", "elsewhere", "other"), owned("Deployment", "web"))
    others[1]["spec"]["template"]["metadata"]["annotations"] = {"note": "x"}
    labels = {"app": "web", HASH: "abc"}
    pods = [
        pod("web-abc-1", "ReplicaSet/web-abc", **labels),
        pod("web-abc-2", "ReplicaSet/web-abc", app="web"),
    ]
    found = completed(*others, *pods)
    owner = only(found, "ReplicaSet")
    assert owner["spec"]["template"]["spec"]["containers"][0]["name"] == "own"
    assert owner["spec"]["template"]["metadata"] == {"labels": labels, "annotations": {"note": "x"}}
    assert owner["metadata"]["labels"] == labels
    assert owner["spec"]["selector"] == {"matchLabels": labels}
    above = owner_of(owner)
    assert above is not None and (above["kind"], above["uid"]) == ("Deployment", "uid-web")
    assert owner["metadata"]["annotations"] == {"deployment.kubernetes.io/revision": "1"}
    assert found.of("Pod")["team", "web-abc-1"]["metadata"]["labels"] == labels


@pytest.mark.parametrize(
    "kind, labels",
    [
        ("ReplicaSet", {"app": "web"}),
        ("ReplicaSet", {"app": "db", HASH: "abc"}),
        ("StatefulSet", {"app": "web", HASH: "abc"}),
    ],
)
def test_pods_that_a_deployment_did_not_make_have_no_part_in_it(kind, labels):
    found = completed(owned("Deployment", "web"), pod("p", f"{kind}/web-abc", **labels))
    assert owner_of(only(found, kind)) is None


def test_a_deployment_whose_selector_selects_nothing_is_nobodys():
    broken = owned("Deployment", "web")
    broken["spec"]["selector"] = None
    found = completed(broken, pod("p", "ReplicaSet/web-abc", **{"app": "web", HASH: "abc"}))
    assert owner_of(only(found, "ReplicaSet")) is None


REVISION = "controller-revision-hash"


def revised(*documents: dict[str, Any]) -> Snapshot:
    snapshot = holding(*documents)
    add_revisions(snapshot)
    return snapshot


@pytest.mark.parametrize(
    "kind, code, name, label",
    [
        ("DaemonSet", "abc", "web-abc", REVISION),
        ("StatefulSet", "web-abc", "web-abc", "controller.kubernetes.io/hash"),
    ],
)
def test_a_set_gets_the_revision_that_most_of_its_pods_are_of(kind, code, name, label):
    pods = [pod(f"web-{n}", f"{kind}/web", **{REVISION: each}) for n, each in enumerate(("old", code, code))]
    strangers = [pod(f"alone-{n}", **{REVISION: "x"}) for n in range(4)]
    found = revised(owned(kind, "web"), *pods, *strangers)
    revision = only(found, "ControllerRevision")
    assert (revision["metadata"]["name"], revision["metadata"]["namespace"]) == (name, "team")
    assert revision["metadata"]["labels"] == {"app": "web", label: "abc"}
    assert revision["revision"] == 1
    above = owner_of(revision)
    assert above is not None and (above["kind"], above["uid"]) == (kind, "uid-web")
    template = revision["data"]["spec"]["template"]
    assert template["spec"]["containers"][0]["name"] == "own"
    assert only(found, kind)["spec"]["updateStrategy"]["type"] == "RollingUpdate"


@pytest.mark.parametrize("others", [[], [pod("q", "DaemonSet/web", **{REVISION: "made-in-a-wave-before"})]])
def test_a_set_whose_pods_do_not_all_show_their_revision_replaces_none(others):
    found = revised(owned("DaemonSet", "web"), pod("p", "DaemonSet/web"), *others)
    assert only(found, "DaemonSet")["spec"]["updateStrategy"] == {"type": "OnDelete"}
    assert not found.of("ControllerRevision")


def test_a_set_whose_revision_was_collected_stays_as_it_is():
    owner = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "name": "web",
        "uid": "uid-web",
        "controller": True,
    }
    there = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": "web-1", "namespace": "team", "ownerReferences": [owner]},
        "revision": 4,
    }
    free = {**there, "metadata": {"name": "free", "namespace": "team"}}
    found = revised(
        owned("DaemonSet", "web"),
        there,
        free,
        pod("p", "DaemonSet/web", **{REVISION: "2"}),
        owned("StatefulSet", "db"),
        pod("db-0", "StatefulSet/db", **{REVISION: "db-7"}),
    )
    assert {name for _, name in found.of("ControllerRevision")} == {"web-1", "free", "db-7"}
    assert only(found, "DaemonSet")["spec"]["updateStrategy"]["type"] == "RollingUpdate"
