"""The kubelet's own look at a pod: core.md 6."""

from __future__ import annotations

import pytest

from weir.gates import ALL_FEATURES, KUBERNETES_DEFAULTS
from weir.objects.core import Node, Pod, read
from weir.simulation.kubelet.admit import admit, admit_system, needs_admission

pytestmark = pytest.mark.proves("5500-55")

AMOUNTS = {"cpu": "4", "memory": "8Gi", "pods": "3"}


def node(*taints, conditions=(), labels=None):
    found = [{"type": type, "status": "True"} for type in conditions]
    return read(
        Node,
        {
            "metadata": {"name": "n", "labels": labels or {}},
            "spec": {"taints": [{"key": k, "value": v, "effect": e} for k, v, e in taints]},
            "status": {"allocatable": AMOUNTS, "conditions": found},
        },
    )


def pod(name="p", cpu="", annotations=None, port=0, **spec):
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}} if cpu else {}}
    if port:
        container["ports"] = [{"containerPort": 80, "hostPort": port}]
    metadata = {"name": name, "namespace": "default", "annotations": annotations or {}}
    return read(Pod, {"metadata": metadata, "spec": {"containers": [container], **spec}})


SLA = ("sla", "950", "NoExecute")


def tolerate(operator="Gt", value="900"):
    return {"tolerations": [{"key": "sla", "operator": operator, "value": value, "effect": "NoExecute"}]}


@pytest.mark.parametrize(
    "asked, where, others, reason",
    [
        (pod(), node(), [], ""),
        (pod(), node(SLA), [], "TaintToleration"),
        (pod(**tolerate()), node(SLA), [], ""),
        (pod(tolerations=[{"expression": "taint.value == '950'"}]), node(SLA), [], ""),
        (pod(), node(("sla", "1", "NoSchedule")), [], ""),
        (pod(annotations={"kubernetes.io/config.source": "file"}), node(SLA), [], ""),
        (pod(annotations={"kubernetes.io/config.source": "api"}), node(SLA), [], "TaintToleration"),
        (pod(cpu="5"), node(SLA), [], "OutOfcpu"),
        (pod(nodeSelector={"a": "b"}), node(SLA), [], "NodeAffinity"),
        (pod(nodeName="m"), node(SLA), [], "NodeName"),
        (pod(port=80), node(SLA), [pod("q", port=80)], "NodePorts"),
        (pod(), node(), [pod("a"), pod("b"), pod("c")], "OutOfpods"),
        (pod(priority=2_000_000_000), node(SLA), [], "TaintToleration"),
        (pod(), node(conditions=["MemoryPressure"]), [], "Evicted"),
        (pod(cpu="1"), node(conditions=["MemoryPressure"]), [], ""),
        (pod(cpu="1"), node(conditions=["MemoryPressure", "DiskPressure"]), [], "Evicted"),
        (pod(priority=2_000_000_000), node(conditions=["DiskPressure"]), [], ""),
    ],
)
def test_a_pod_is_admitted_or_told_the_first_problem(asked, where, others, reason):
    assert admit(asked, where, others, ALL_FEATURES).reason == reason


@pytest.mark.parametrize(
    "resource, status, reason",
    [
        ("example.com/gpu", {}, ""),
        ("deviceclass.resource.kubernetes.io/gpu", {}, "OutOfdeviceclass.resource.kubernetes.io/gpu"),
        ("deviceclass.resource.kubernetes.io/gpu", {"resourceClaimName": "p-extended-resources-x"}, ""),
    ],
)
def test_what_the_node_does_not_have_may_come_from_devices(resource, status, reason):
    container = {"name": "c", "resources": {"requests": {resource: "1"}}}
    told = {"extendedResourceClaimStatus": status} if status else {}
    asked = read(Pod, {"metadata": {"name": "p"}, "spec": {"containers": [container]}, "status": told})
    assert admit(asked, node(), [], ALL_FEATURES).reason == reason


def test_a_best_effort_pod_that_tolerates_memory_pressure_is_admitted():
    entry = {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"}
    assert admit(pod(tolerations=[entry]), node(conditions=["MemoryPressure"]), [], ALL_FEATURES)


@pytest.mark.parametrize(
    "asked, where, message",
    [
        (
            pod(),
            node(SLA),
            "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate",
        ),
        (
            pod(cpu="5"),
            node(),
            "Node didn't have enough resource: cpu, requested: 5000, used: 0, capacity: 4000",
        ),
        (pod(), node(conditions=["MemoryPressure"]), "The node had condition: [MemoryPressure]. "),
    ],
)
def test_refusals_are_worded_as_people_know_them(asked, where, message):
    assert admit(asked, where, [], ALL_FEATURES).message == message


def test_the_status_says_that_the_pod_was_rejected():
    refused = admit(pod(), node(SLA), [], ALL_FEATURES)
    assert refused.status_message == (
        "Pod was rejected: Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"
    )


def test_with_the_gate_off_a_pod_the_scheduler_placed_is_rejected():
    assert admit(pod(**tolerate()), node(SLA), [], KUBERNETES_DEFAULTS).reason == "TaintToleration"


def test_a_critical_pod_pushes_the_least_important_off():
    others = [pod("weak", cpu="2", priority=1), pod("strong", cpu="2", priority=9)]
    answer = admit(pod(cpu="2", priority=2_000_000_000), node(), others, ALL_FEATURES)
    assert [victim.metadata.name for victim in answer.victims] == ["weak"]


@pytest.mark.parametrize(
    "document",
    [
        {"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}},
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {"metadata": {}, "status": {"phase": "Succeeded"}},
    ],
    ids=["mirror", "being deleted", "ended"],
)
def test_some_pods_are_not_asked_about(document):
    assert not needs_admission(read(Pod, document))


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        ({"os": {"name": "linux"}, "nodeSelector": {"kubernetes.io/os": "linux"}}, "", ""),
        (
            {"os": {"name": "windows"}},
            "PodOSNotSupported",
            "Failed to admit pod as the OS field doesn't match node OS",
        ),
        (
            {"nodeSelector": {"kubernetes.io/os": "windows"}},
            "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
        ),
        ({"securityContext": {"sysctls": [{"name": "net/ipv4/tcp_syncookies", "value": "1"}]}}, "", ""),
        (
            {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}},
            "SysctlForbidden",
            'forbidden sysctl: "kernel.msgmax" not allowlisted',
        ),
        (
            {
                "hostIPC": True,
                "securityContext": {"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}]},
            },
            "SysctlForbidden",
            'forbidden sysctl: "kernel.shm_rmid_forced" not allowed with host IPC enabled',
        ),
    ],
)
def test_what_the_system_of_a_node_allows(spec, reason, message):
    answer = admit_system({"spec": spec}, {"metadata": {"labels": {"kubernetes.io/os": "linux"}}})
    assert (answer.reason, answer.message) == (reason, message)
