"""A manifest is judged as what the API server would make of it, and refused where the server would refuse it."""

from __future__ import annotations

from typing import Any

import pytest

from weir.explain.admission import Admission, Admitted, refused_fields
from weir.explain.explanation import Explanation
from weir.explain.pod import explain
from weir.explain.subject import Subject
from weir.gates import ALL_FEATURES
from weir.world import World

CONTAINER = {"name": "c", "image": "i"}


def pod(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"containers": [CONTAINER], **spec},
    }


def deployment(**more: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [CONTAINER]}}
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template, **more.pop("spec", {})}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec, **more}


def node(name: str = "n1", **allocatable: str) -> dict[str, Any]:
    room = {"cpu": "1", "memory": "1Gi", "pods": "9", **allocatable}
    return {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": room}}


def admit(document: dict[str, Any], *documents: dict[str, Any], strict: bool = True) -> Admitted:
    from dataclasses import replace

    subject = replace(Subject.of(document), strict=strict)
    return Admission(World.of(documents), ALL_FEATURES).admit(subject)


def ask(document: dict[str, Any], *documents: dict[str, Any]) -> Explanation:
    return explain(document, World.of(documents), ALL_FEATURES)


def limits(**item: Any) -> dict[str, Any]:
    return {
        "kind": "LimitRange",
        "metadata": {"name": "l"},
        "spec": {"limits": [{"type": "Container", **item}]},
    }


def test_the_defaults_of_a_limit_range_are_what_is_asked_for():
    answer = ask(pod(), node(), limits(defaultRequest={"cpu": "2"}))
    assert [reason.message() for reason in answer.nodes[0].reasons] == ["Insufficient cpu"]


def test_the_bounds_of_a_limit_range_refuse():
    (said,) = admit(pod(), limits(max={"cpu": "1"})).refused
    assert said == 'pods "web" is forbidden: maximum cpu usage per Container is 1.  No limit is specified'


def test_the_priority_of_a_class_is_the_pods():
    important = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7}
    assert admit(pod(priorityClassName="high"), important).pod.spec.priority == 7


def test_a_priority_that_no_class_gives_is_refused():
    (said,) = admit(pod(priority=5)).refused
    assert "the integer value of priority (5) must not be provided in pod spec" in said


def test_a_priority_class_that_does_not_exist_is_refused_where_classes_were_collected():
    other = {"kind": "PriorityClass", "metadata": {"name": "system-node-critical"}, "value": 2000001000}
    assert admit(pod(priorityClassName="high"), other).refused == (
        'pods "web" is forbidden: no PriorityClass with name high was found',
    )
    unsure = admit(pod(priorityClassName="high"))
    assert (unsure.refused, len(unsure.unknown)) == ((), 1)


def test_the_classes_every_cluster_has_are_known():
    assert admit(pod(priorityClassName="system-node-critical")).pod.spec.priority == 2000001000


def test_a_runtime_class_gives_overhead_selector_and_tolerations():
    sandbox = {
        "kind": "RuntimeClass",
        "metadata": {"name": "sandbox"},
        "overhead": {"podFixed": {"cpu": "2"}},
        "scheduling": {"nodeSelector": {"vm": "yes"}, "tolerations": [{"key": "vm", "operator": "Exists"}]},
    }
    answer = ask(pod(runtimeClassName="sandbox"), node(), sandbox)
    assert {reason.message() for reason in answer.nodes[0].reasons} == {
        "Insufficient cpu",
        "node(s) didn't match Pod's node affinity/selector",
    }
    assert "vm" in {toleration.key for toleration in answer.pod.tolerations}


@pytest.mark.parametrize("selector", [{}, {"nodeSelector": {"vm": "yes"}}], ids=["its", "also the pod's"])
def test_a_runtime_class_whose_selector_refuses_is_removed(selector):
    sandbox = {
        "kind": "RuntimeClass",
        "metadata": {"name": "sandbox"},
        "scheduling": {"nodeSelector": {"vm": "yes"}},
    }
    answer = ask(pod(runtimeClassName="sandbox", **selector), node(), sandbox)
    own = ["remove vm=yes from nodeSelector"] if selector else []
    said = [edit.say() for edit in answer.fix.edits if edit.side == "pod"]
    assert sorted(said) == sorted([*own, "remove runtimeClassName sandbox"])


def test_a_runtime_class_that_is_not_in_the_snapshot_makes_the_answer_unsure():
    answer = ask(pod(runtimeClassName="sandbox"), node())
    assert answer.unknown == (
        "what RuntimeClass sandbox adds to the pod (no RuntimeClasses in the snapshot)",
    )


def test_container_ports_of_the_host_network_are_host_ports():
    holder = {
        "kind": "Pod",
        "metadata": {"name": "holder"},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "ports": [{"hostPort": 80}]}]},
    }
    ported = {**CONTAINER, "ports": [{"containerPort": 80}]}
    answer = ask(pod(hostNetwork=True, containers=[ported]), node(), holder)
    assert [reason.kind for reason in answer.nodes[0].reasons] == ["ports"]


def test_an_account_that_does_not_exist_is_refused_where_accounts_were_collected():
    default = {"kind": "ServiceAccount", "metadata": {"name": "default"}}
    assert admit(pod(), default).refused == ()
    (said,) = admit(pod(serviceAccountName="robot"), default).refused
    assert 'serviceaccount "robot" not found' in said


def test_a_namespace_that_does_not_exist_is_refused_where_namespaces_were_collected():
    asked = pod()
    asked["metadata"]["namespace"] = "shop"
    (said,) = admit(asked, {"kind": "Namespace", "metadata": {"name": "default"}}).refused
    assert said == 'namespaces "shop" not found'
    assert admit(asked, {"kind": "Namespace", "metadata": {"name": "other"}}).refused == ()


def test_a_quota_that_is_used_up_refuses_the_pod():
    quota = {"kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}
    other = {"kind": "Pod", "metadata": {"name": "other"}, "spec": {"nodeName": "n1"}}
    (said,) = admit(pod(), quota, other).refused
    assert (
        said == 'pods "web" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'
    )


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (deployment(metadata={"name": "DEP"}), "metadata.name: Invalid value"),
        (deployment(spec={"replicas": "3"}), "spec.replicas"),
        (pod(containers=[]), "spec.containers: Required value"),
        (pod(efect="NoExecute"), 'unknown field "spec.efect"'),
    ],
)
def test_what_the_server_refuses_of_a_file_is_refused(document, text):
    assert text in admit(document).refused[0]
    assert admit(document, strict=False).refused == ()


def test_a_fix_is_proven_on_the_pod_as_it_would_be_stored():
    """Asking for less than the LimitRange's least is no way out; the class's overhead counts."""
    sandbox = {
        "kind": "RuntimeClass",
        "metadata": {"name": "sandbox"},
        "overhead": {"podFixed": {"cpu": "500m"}},
    }
    wants = {**CONTAINER, "resources": {"requests": {"cpu": "1"}}}
    asked = pod(runtimeClassName="sandbox", containers=[wants])
    assert ask(asked, node(), sandbox).fix.edits[0].say() == (
        "request less cpu: 500m in c (1 instead of 1500m)"
    )
    bound = limits(min={"cpu": "600m"})
    fix = ask(asked, node(), sandbox, bound).fix
    assert fix is None or "500m in c" not in fix.edits[0].say()


@pytest.mark.parametrize(
    "spec, gate",
    [
        (
            {"tolerations": [{"key": "sla", "operator": "Gt", "value": "9"}]},
            "TaintTolerationComparisonOperators",
        ),
        (
            {"tolerations": [{"key": "v", "operator": "SemverGt", "value": "1.0.0"}]},
            "TaintTolerationNodeAffinitySemverComparisonOperators",
        ),
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {
                                    "matchExpressions": [
                                        {"key": "v", "operator": "SemverEq", "values": ["1.0.0"]}
                                    ]
                                }
                            ]
                        }
                    }
                }
            },
            "TaintTolerationNodeAffinitySemverComparisonOperators",
        ),
    ],
)
def test_an_operator_that_is_refused_for_its_gate_names_the_gate(spec: dict[str, Any], gate: str) -> None:
    subject = Subject.of(pod(**spec))
    off = list(refused_fields(subject, ALL_FEATURES.replace({gate: False})))
    assert len(off) == 1 and off[0].endswith(f" (the feature gate {gate} is off)")
    assert list(refused_fields(subject, ALL_FEATURES)) == []
