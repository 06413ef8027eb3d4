"""What a pod names is there in the copy: its namespace, account, classes and volumes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from weir.whatif.pod_references import add_named
from weir.whatif.snapshot import Snapshot

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
NO_VOLUMES = "where volumes can go: none were collected"


def named(*specs: dict[str, Any], holding: list[dict[str, Any]] | None = None) -> Snapshot:
    """Return a snapshot that holds what pods of these specs name."""
    snapshot = Snapshot(NOW)
    for document in holding or ():
        snapshot.add(document)
    for spec in specs:
        add_named(snapshot, {"metadata": {"name": "p", "namespace": "team"}, "spec": spec})
    return snapshot


def only(snapshot: Snapshot, kind: str) -> dict[str, Any]:
    (found,) = snapshot.of(kind).values()
    return found


def test_its_namespace_is_there_and_no_class_it_does_not_name():
    found = named({})
    assert only(found, "Namespace")["status"] == {"phase": "Active"}
    assert {kind for kind, held in found.held.items() if held} == {"Namespace", "ServiceAccount"}


@pytest.mark.parametrize(
    "spec, account",
    [
        ({}, "default"),
        ({"serviceAccountName": "robot"}, "robot"),
        ({"serviceAccount": "old"}, "old"),
        ({"serviceAccountName": "robot", "serviceAccount": "old"}, "robot"),
    ],
)
def test_its_account_is_there_and_the_one_new_pods_have(spec, account):
    assert set(named(spec).of("ServiceAccount")) == {("team", "default"), ("team", account)}


@pytest.mark.parametrize(
    "spec, name, value",
    [
        ({"priorityClassName": "high", "priority": 9}, "high", 9),
        ({"priorityClassName": "high"}, "high", 0),
        ({"priority": 7}, "priority-7", 7),
        ({"priority": -7}, "priority-minus-7", -7),
    ],
)
def test_its_priority_class_is_there(spec, name, value):
    found = only(named(spec), "PriorityClass")
    assert (found["metadata"]["name"], found["value"]) == (name, value)


def test_a_pod_without_priority_needs_no_class():
    assert not named({"priority": 0}).of("PriorityClass")


@pytest.mark.parametrize(
    "said, policy", [({"preemptionPolicy": "Never"}, "Never"), ({}, "PreemptLowerPriority")]
)
def test_its_priority_class_preempts_as_the_pod_says(said, policy):
    assert only(named({"priority": 7, **said}), "PriorityClass")["preemptionPolicy"] == policy


def test_its_runtime_class_has_its_overhead():
    light = only(named({"runtimeClassName": "kata"}), "RuntimeClass")
    heavy = only(named({"runtimeClassName": "kata", "overhead": {"cpu": "1"}}), "RuntimeClass")
    assert (light["handler"], "overhead" in light) == ("kata", False)
    assert heavy["overhead"] == {"podFixed": {"cpu": "1"}}


CLAIMS = {
    "volumes": [
        {"name": "v", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "w", "persistentVolumeClaim": {"claimName": "more"}},
        {"name": "x", "emptyDir": {}},
    ]
}


def test_claims_that_nobody_collected_are_bound_to_volumes_that_go_everywhere():
    found = named(CLAIMS)
    assert set(found.of("PersistentVolumeClaim")) == {("team", "data"), ("team", "more")}
    volume = found.of("PersistentVolume")["", "team-data"]
    claim = found.of("PersistentVolumeClaim")["team", "data"]
    assert (claim["spec"]["volumeName"], claim["status"]["phase"]) == ("team-data", "Bound")
    assert claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] == "yes"
    assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
    assert "nodeAffinity" not in volume["spec"]
    assert found.notes == [NO_VOLUMES]


def test_no_claim_is_made_up_where_claims_were_collected():
    there = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "other"}, "spec": {}}
    found = named(CLAIMS, holding=[there])
    assert (set(found.of("PersistentVolumeClaim")), found.notes) == ({("default", "other")}, [])
