"""What should be done before a feature goes, and in which order; asked of a copy of a cluster."""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest

from weir.gates import (
    ALL_FEATURES,
    DEVICE_TAINT_RULES,
    SEMVER_COMPARISON,
    TOLERATION_CEL,
    TOLERATION_COMPARISON,
)
from weir.whatif.changes import SetGates
from weir.whatif.run import WhatIfOptions, what_if
from weir.whatif.upgrade_order import advice

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def deployment(name: str, *tolerations: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i"}], "tolerations": list(tolerations)}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    }


def rule(name: str, **taint: Any) -> dict[str, Any]:
    spec = {"deviceSelector": {"driver": "gpu.example.com"}, "taint": {"key": "a", **taint}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": name},
        "spec": spec,
    }


GT = deployment("web", {"key": "sla", "operator": "Gt", "value": "900", "effect": "NoExecute"})
CEL = deployment("cel", {"expression": "taint.key == 'sla'"})
TRIAL, SLOW = rule("trial", effect="None"), rule("slow", effect="NoExecute", evictionsPerSecond=2)
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n", "labels": {"kubernetes.io/hostname": "n"}},
    "spec": {"taints": [{"key": "sla", "value": "950", "effect": "NoExecute"}]},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "20"}},
}


def test_templates_that_would_be_refused_are_named_once() -> None:
    owned = {
        **GT,
        "kind": "ReplicaSet",
        "metadata": {"name": "web-1", "ownerReferences": [{"controller": True}]},
    }
    lines = advice([GT, owned, CEL], [TOLERATION_COMPARISON], [], ())
    assert lines[0] == (
        "deployment/default/web: would be refused when their controllers make pods (again and again)"
    )
    assert lines[-1].startswith(
        "order: kube-apiserver → kube-scheduler → kube-controller-manager → kubelets;"
    )


@pytest.mark.proves("5055-87")
def test_rules_that_an_older_release_cannot_mean_are_named_with_the_reason() -> None:
    assert advice([TRIAL, SLOW], [DEVICE_TAINT_RULES], [], ())[0] == (
        "devicetaintrule/slow (a rate, without which all pods leave at once), devicetaintrule/trial (effect None): "
        "should be removed or rewritten first"
    )
    assert advice([TRIAL], [DEVICE_TAINT_RULES], [], ())[-1] == (
        "order: kube-controller-manager → kube-scheduler → kube-apiserver; delete rules before the first"
    )
    assert advice([CEL], [], [], ("apiserver",), "1.34") == [
        "deployment/default/cel (expression): should be removed or rewritten first"
    ]


def test_nothing_is_said_where_nothing_uses_it_and_the_order_where_it_comes() -> None:
    assert advice([GT], [TOLERATION_CEL], [], ()) == []
    assert advice([], [], [TOLERATION_CEL], ("scheduler",))[0].startswith("order: kube-scheduler;")
    devices = "kube-apiserver → kube-scheduler → kube-controller-manager"
    assert advice([], [], [DEVICE_TAINT_RULES], ()) == [
        f"order: {devices}; use the feature only after the last"
    ]
    assert advice([], [], [DEVICE_TAINT_RULES], ("kubelet",)) == [], "kubelets do not judge taints of devices"


@pytest.mark.parametrize(
    "gate",
    [
        pytest.param(TOLERATION_COMPARISON, marks=pytest.mark.proves("5471-52")),
        pytest.param(SEMVER_COMPARISON, marks=pytest.mark.proves("5721-96")),
        pytest.param(TOLERATION_CEL, marks=pytest.mark.proves("5500-68")),
    ],
)
def test_who_judges_tolerations_has_the_feature_before_who_accepts_them(gate: str) -> None:
    order = "kubelets → kube-controller-manager → kube-scheduler → kube-apiserver"
    assert advice([], [], [gate], ()) == [f"order: {order}; use the feature only after the last"]


def test_going_back_a_release_evicts_who_runs_because_of_what_it_does_not_know() -> None:
    found = what_if([NODE, GT, CEL], [SetGates((), to="1.34")], WhatIfOptions(ALL_FEATURES, NOW, until=300))
    assert found.said == ("gates --to 1.34",)
    assert (
        sorted(each.cause.say(where=False) for each in found.leaving)
        == ["nothing tolerates sla=950:NoExecute"] * 2
    )
    assert {each.name for each in found.workloads} == {"default/Deployment/cel", "default/Deployment/web"}
    assert any("would be refused" in line for line in found.notes)


def test_an_older_api_server_alone_evicts_whose_expression_it_does_not_show() -> None:
    change = SetGates((), ("apiserver",), to="1.34")
    found = what_if([NODE, GT, CEL], [change], WhatIfOptions(ALL_FEATURES, NOW, until=300))
    assert {each.name for each in found.workloads} == {"default/Deployment/cel"}


@pytest.mark.proves("5721-49")
def test_templates_by_version_are_named_for_tolerations_and_affinity() -> None:
    tolerant = deployment("tolerant", {"key": "driver", "operator": "SemverGt", "value": "2.0.0"})
    choosy, plain = deployment("choosy"), deployment("plain")
    requirement = {"key": "kernel", "operator": "SemverGt", "values": ["6.1.0"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
    choosy["spec"]["template"]["spec"]["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    }
    assert advice([tolerant, choosy, plain], [SEMVER_COMPARISON], [], ())[0] == (
        "deployment/default/choosy, deployment/default/tolerant: "
        "would be refused when their controllers make pods (again and again)"
    )


def test_an_expression_that_goes_is_named_and_drives_out() -> None:
    off = SetGates(((TOLERATION_CEL, False),))
    found = what_if([NODE, GT, CEL], [off], WhatIfOptions(ALL_FEATURES, NOW, until=300))
    assert {each.name for each in found.workloads} == {"default/Deployment/cel"}
    assert [each.cause.say(where=False) for each in found.leaving] == ["nothing tolerates sla=950:NoExecute"]
    assert any(note.startswith("deployment/default/cel: would be refused") for note in found.notes)


def test_asking_changes_nothing() -> None:
    documents = [NODE, GT, CEL, TRIAL]
    before = deepcopy(documents)
    off = SetGates(((TOLERATION_COMPARISON, False),))
    found = what_if(documents, [off], WhatIfOptions(ALL_FEATURES, NOW, until=300))
    assert (len(found.leaving), documents) == (1, before)
