"""What an owner that was not collected must say to have made the pods that are there."""

from __future__ import annotations

from typing import Any

import pytest

from weir.whatif.inferred_owners import OWNER_LABEL, class_of, daemon, job, owner_label, replicated, stateful


def pod(name: str = "web-0", phase: str = "Running", going: bool = False, **spec: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "labels": {"app": "web"}}
    if going:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


@pytest.mark.parametrize(
    "uid, label",
    [
        ("5d4-AB_c.9", "5d4-AB_c.9"),
        ("replicaset/team/web", "replicaset-team-web"),
        ("x" * 10 + "y" * 63, "y" * 63),
        ("/_.-web.-_/", "web"),
    ],
)
def test_the_label_of_an_owner_is_its_uid_as_a_label_can_say_it(uid, label):
    assert owner_label(uid) == {OWNER_LABEL: label}


@pytest.mark.parametrize("priority, name", [(7, "priority-7"), (0, "priority-0"), (-1, "priority-minus-1")])
def test_a_class_is_named_after_its_priority(priority, name):
    assert class_of(priority) == name


def test_as_many_are_wanted_as_are_neither_ended_nor_going():
    pods = [pod(), pod(phase="Pending"), pod(phase="Succeeded"), pod(phase="Failed"), pod(going=True)]
    assert replicated(pods)["replicas"] == 2
    assert (job(pods)["parallelism"], job(pods)["completions"]) == (2, 2)


def test_a_job_whose_pods_have_ended_still_wants_one():
    spec = job([pod(phase="Succeeded")])
    assert (spec["parallelism"], spec["completions"]) == (1, 1)


def test_the_template_is_the_pod_without_what_was_added_to_it():
    added = {
        "nodeName": "a",
        "priority": 5,
        "preemptionPolicy": "Never",
        "overhead": {"cpu": "1"},
        "ephemeralContainers": [{"name": "e"}],
        "schedulingGates": [{"name": "g"}],
        "hostname": "h",
        "subdomain": "s",
    }
    first = pod(containers=[{"name": "c"}], restartPolicy="Never", priorityClassName="high", **added)
    first["metadata"]["annotations"] = {}
    template = replicated([first, pod()])["template"]
    assert template == {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c"}], "restartPolicy": "Always", "priorityClassName": "high"},
    }
    assert template["metadata"]["labels"] is not first["metadata"]["labels"]


@pytest.mark.parametrize("priority, name", [(5, "priority-5"), (0, None), (None, None)])
def test_a_template_names_the_class_of_a_priority_without_one(priority, name):
    template = replicated([pod(priority=priority)])["template"]
    assert template["spec"].get("priorityClassName") == name


@pytest.mark.parametrize(
    "names, replicas, ordinals",
    [
        (["web-0", "web-2"], 3, None),
        (["web-3", "web-5"], 3, {"start": 3}),
        (["web-1"], 1, {"start": 1}),
        (["web-x"], 0, None),
        (["web-x", "web-2"], 1, {"start": 2}),
    ],
)
def test_a_statefulset_has_every_number_from_its_first_to_its_last(names, replicas, ordinals):
    spec = stateful([pod(name) for name in names])
    assert (spec["replicas"], spec.get("ordinals")) == (replicas, ordinals)


def test_a_statefulset_has_the_service_of_its_pods_and_replaces_none_by_itself():
    alone, served = stateful([pod()]), stateful([pod(subdomain="db"), pod(subdomain="other")])
    assert (alone["serviceName"], served["serviceName"]) == ("none", "db")
    assert alone["updateStrategy"] == {"type": "OnDelete"}


def bound(*terms: dict[str, Any], **more: Any) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"nodeAffinity": {**required, **more.pop("node", {})}, **more}


ITS_NODE = [{"key": "metadata.name", "operator": "In", "values": ["a"]}]
SSD = [{"key": "disk", "operator": "In", "values": ["ssd"]}]
PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}


@pytest.mark.parametrize(
    "affinity, left",
    [
        (None, None),
        ({}, None),
        (bound({"matchFields": ITS_NODE}), None),
        (bound({"matchFields": ITS_NODE, "matchExpressions": []}), None),
        (bound({"matchFields": ITS_NODE, "matchExpressions": SSD}), bound({"matchExpressions": SSD})),
        (bound({"matchFields": ITS_NODE}, node=PREFERRED), {"nodeAffinity": PREFERRED}),
        (bound({"matchFields": ITS_NODE}, podAffinity={"x": 1}), {"podAffinity": {"x": 1}}),
    ],
)
def test_a_daemonset_takes_the_node_out_of_what_its_pods_ask_for(affinity, left):
    spec = daemon([pod(affinity=affinity)])
    assert spec["template"]["spec"].get("affinity") == left
    assert (spec["template"]["spec"]["restartPolicy"], spec["updateStrategy"]) == (
        "Always",
        {"type": "OnDelete"},
    )


@pytest.mark.parametrize(
    "said, policy", [("Never", "Never"), ("OnFailure", "OnFailure"), ("Always", "Never"), (None, "Never")]
)
def test_the_pods_of_a_job_are_restarted_as_a_job_allows(said, policy):
    template = job([pod(restartPolicy=said, hostNetwork=True), pod(restartPolicy="OnFailure")])["template"]
    assert template["spec"] == {"restartPolicy": policy, "hostNetwork": True}
