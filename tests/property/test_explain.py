"""In random clusters: the proposed change makes the pod fit, no part of it does, and sharing work changes nothing."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from itertools import combinations
from typing import Any
from unittest import mock

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cases import tries
from weir.explain.edits import Edit
from weir.explain.explanation import Explanation
from weir.explain.fix import Fix, changed_node
from weir.explain.pod import explain
from weir.gates import ALL_FEATURES, KUBERNETES_DEFAULTS, Gates
from weir.objects.core import Node, Pod, read
from weir.objects.requests import node_allocatable, pod_requests
from weir.selectors.node import pod_selects_node, volume_selects_node
from weir.taints.toleration import EVICTING, untolerated
from weir.world import World

KEYS = ("sla", "driver", "node.kubernetes.io/unschedulable")
VALUES = ("", "1", "5", "0950", "v1.2.0", "1.2.0-rc.1", "2.0.0", "high")
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
LABELS = {"zone": ("a", "b"), "kernel": ("5.10.0", "5.15.0-78-generic", "6.1.0"), "size": ("1", "10", "big")}
EXPRESSIONS = (
    "taint.key == 'sla' && int(taint.value) > 3",
    "taint.key.startsWith('dr') && semver(taint.value).isLessThan(semver('2.0.0'))",
    "taint.effect == 'NoExecute'",
    "taint.value == ''",
)
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "SemverGt", "SemverLt", "SemverEq")

taints = st.lists(
    st.fixed_dictionaries(
        {"key": st.sampled_from(KEYS), "value": st.sampled_from(VALUES), "effect": st.sampled_from(EFFECTS)}
    ),
    max_size=3,
    unique_by=lambda taint: (taint["key"], taint["effect"]),
)
labels = st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in LABELS.items()})
amounts = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["0", "100m", "1", "1500m", "4"]),
        "memory": st.sampled_from(["1", "1Mi", "700Mi", "1Gi", "4Gi"]),
        "example.com/gpu": st.sampled_from(["1", "2"]),
    },
)


@st.composite
def nodes(draw: st.DrawFn, name: str) -> dict[str, Any]:
    room = {
        "cpu": draw(st.sampled_from(["1", "2", "8"])),
        "memory": "2Gi",
        "pods": draw(st.sampled_from("1234")),
    }
    if draw(st.booleans()):
        room["example.com/gpu"] = "2"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": draw(labels)},
        "spec": {"taints": draw(taints), "unschedulable": draw(st.sampled_from([False, False, True]))},
        "status": draw(st.sampled_from([{"allocatable": room}, {"allocatable": room}, {}])),
    }


@st.composite
def tolerations(draw: st.DrawFn) -> dict[str, Any]:
    if draw(st.integers(0, 5)) == 0:
        return {"expression": draw(st.sampled_from(EXPRESSIONS))}
    operator = draw(st.sampled_from(["Equal", "Exists", "Gt", "Lt", "SemverGt", "SemverLt", "SemverEq"]))
    values = {"Gt": ("1", "5", "-3"), "Lt": ("1", "5"), "Exists": ("",)}.get(operator, ("1.2.0", "v2.0.0"))
    effect = draw(st.sampled_from((*EFFECTS, "")))
    entry = {"key": draw(st.sampled_from(KEYS[:2])), "operator": operator, "effect": effect}
    if value := draw(st.sampled_from(values)):
        entry["value"] = value
    if effect == "NoExecute" and draw(st.booleans()):
        entry["tolerationSeconds"] = draw(st.sampled_from([0, 30]))
    return entry


@st.composite
def requirements(draw: st.DrawFn) -> dict[str, Any]:
    key = draw(st.sampled_from(sorted(LABELS)))
    operator = draw(st.sampled_from(OPERATORS))
    entry: dict[str, Any] = {"key": key, "operator": operator}
    if operator in ("In", "NotIn"):
        entry["values"] = draw(st.lists(st.sampled_from(LABELS[key]), min_size=1, max_size=2, unique=True))
    elif operator in ("Gt", "Lt"):
        entry["values"] = [draw(st.sampled_from(["0", "5", "10"]))]
    elif operator.startswith("Semver"):
        entry["values"] = [draw(st.sampled_from(["5.10.0", "5.15.0", "6.1.0-rc.1"]))]
    return entry


terms = st.fixed_dictionaries(
    {"matchExpressions": st.lists(requirements(), min_size=1, max_size=2)},
    optional={
        "matchFields": st.just([{"key": "metadata.name", "operator": "In", "values": ["n1"]}]),
    },
)


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    def container(name: str) -> dict[str, Any]:
        wanted = draw(amounts)
        extended = {k: v for k, v in wanted.items() if "/" in k}
        return {"name": name, "image": "i", "resources": {"requests": wanted, "limits": extended}}

    spec: dict[str, Any] = {
        "containers": [container("a")],
        "tolerations": draw(st.lists(tolerations(), max_size=3)),
    }
    if draw(st.booleans()):
        spec["containers"].append(container("b"))
    if draw(st.booleans()):
        spec["initContainers"] = [container("first"), {**container("beside"), "restartPolicy": "Always"}]
    if draw(st.booleans()):
        spec["nodeSelector"] = draw(labels)
    if draw(st.booleans()):
        selector = {"nodeSelectorTerms": draw(st.lists(terms, min_size=1, max_size=2))}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}
    if draw(st.integers(0, 3)) == 0:
        values = st.sampled_from(["5", "many", "", "007"])
        preferred = [
            {
                "weight": 1,
                "preference": {"matchExpressions": [{"key": "size", "operator": "Gt", "values": [value]}]},
            }
            for value in draw(st.lists(values, min_size=1, max_size=2))
        ]
        node_affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
        node_affinity["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    if draw(st.integers(0, 7)) == 0:
        spec["schedulingGates"] = [{"name": "example.com/wait"}]
    elif draw(st.integers(0, 7)) == 0:
        spec["nodeName"] = draw(st.sampled_from(["n1", "gone"]))
    if draw(st.integers(0, 3)) == 0:
        spec["runtimeClassName"] = "sandbox"
    if draw(st.integers(0, 3)) == 0:
        spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    match draw(st.integers(0, 9)):
        case 0:
            term = {"labelSelector": {"matchLabels": {"app": "other"}}, "topologyKey": "zone"}
            part = draw(st.sampled_from(["podAffinity", "podAntiAffinity"]))
            spec.setdefault("affinity", {})[part] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        case 1:
            spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
            spec["topologySpreadConstraints"] = [
                {**spread, "labelSelector": {"matchLabels": {"app": "other"}}}
            ]
    kind = draw(st.sampled_from(["Pod", "Pod", "Deployment", "DaemonSet"]))
    if kind == "Pod":
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}
    for pinned in ("nodeName", "schedulingGates"):
        spec.pop(pinned, None)
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": spec},
        },
    }


@st.composite
def worlds(draw: st.DrawFn) -> World:
    documents = [draw(nodes(f"n{number}")) for number in range(draw(st.integers(1, 4)))]
    for number in range(draw(st.integers(0, 3))):
        spec = {
            "nodeName": f"n{number}",
            "containers": [{"name": "c", "resources": {"requests": draw(amounts)}}],
        }
        documents.append(
            {"kind": "Pod", "metadata": {"name": f"other-{number}", "labels": {"app": "other"}}, "spec": spec}
        )
    selector = {"nodeSelectorTerms": [{"matchExpressions": [draw(requirements())]}]}
    documents += [
        {
            "kind": "PersistentVolume",
            "metadata": {"name": "disk"},
            "spec": {"nodeAffinity": {"required": selector} if draw(st.booleans()) else {}},
        },
        {
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data"},
            "spec": {"volumeName": "disk"},
            "status": {"phase": "Bound"},
        },
        {
            "kind": "RuntimeClass",
            "metadata": {"name": "sandbox"},
            "overhead": {"podFixed": {"cpu": "100m"}},
        },
    ]
    return World.of(documents)


gates = st.sampled_from([ALL_FEATURES, ALL_FEATURES, KUBERNETES_DEFAULTS])
slow = settings(max_examples=tries(30, 120), deadline=None, suppress_health_check=list(HealthCheck))


def merged(document: Any, patch: Any) -> Any:
    """RFC 7386, written down plainly: what `kubectl patch --type=merge` does."""
    if not isinstance(patch, dict):
        return deepcopy(patch)
    result = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def with_others_changed(edits: tuple[Edit, ...], world: World, gates: Gates) -> tuple[World, Gates]:
    for edit in edits:
        gates = edit.on_gates(gates)
    return world.overlay(*(changed_node(node, edits) for node in world.nodes.values())), gates


def verdict(subject: Any, world: World, gates: Gates) -> Explanation:
    """Return where it fits; what would help otherwise is not asked, and is most of the work."""
    with mock.patch("weir.explain.pod.find_fix", return_value=None):
        return explain(subject, world, gates)


def after_the_patch(fix: Fix, answer: Explanation, world: World, gates: Gates) -> Explanation:
    changed, gates = with_others_changed(fix.edits, world, gates)
    return verdict(merged(answer.subject.document, fix.patch), changed, gates)


def after_a_part(part: tuple[Edit, ...], answer: Explanation, world: World, gates: Gates) -> Explanation:
    subject, spec = answer.subject.edited()
    for edit in sorted(part, key=lambda edit: edit.order):
        edit.on_pod(spec)
    return verdict(subject, *with_others_changed(part, world, gates))


def expects_a_fix(answer: Explanation) -> bool:
    """Return whether a pod that fits nowhere has a node with nothing that only others can solve."""
    unsolvable = {"pods", "volume", "claim", "invalid", "filter"}
    if answer.pod.spec.node_name:
        return False  # the kubelet takes it or not; what the scheduler would say comes out only once the name is gone
    hopeful = [v for v in answer.nodes if not {reason.kind for reason in v.reasons} & unsolvable]
    blocked = any(reason.kind in unsolvable for reason in answer.blockers)
    short = any(reason.kind == "resources" for v in hopeful for reason in v.reasons)
    return bool(hopeful) and not blocked and not short and not answer.fits


@given(pods(), worlds(), gates)
@slow
def test_a_proposed_change_helps_no_part_of_it_is_enough_and_each_alternative_helps_too(pod, world, gates):
    """One test for four statements: the search is most of the work, and is made once for all of them."""
    answer = explain(pod, world, gates)
    fix = answer.fix
    if fix is None:
        assert not expects_a_fix(answer)
        return
    assert set(after_the_patch(fix, answer, world, gates).fitting) == set(fix.nodes) != set()
    parts = (part for size in range(len(fix.edits)) for part in combinations(fix.edits, size))
    assert not [part for part in parts if after_a_part(part, answer, world, gates).fits]
    assert all(after_a_part(edits, answer, world, gates).fits for edits in fix.alternatives)


def plainly_fits(pod: Pod, node: Node, world: World, gates: Gates) -> bool:
    """The filters one after the other, nothing shared: what the fast judge must agree with."""
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    if pod.spec.node_name not in ("", node.name):
        return False
    if pod.spec.node_name:  # the kubelet's admission, not the scheduler
        if untolerated(node.taints, pod.tolerations, gates, EVICTING):
            return False
        return plainly_fits_otherwise(pod, node, world, gates)
    virtual = read(Node, {"spec": {"taints": [cordon] if node.spec.unschedulable else []}}).taints
    if untolerated((*virtual, *node.taints), pod.tolerations, gates):
        return False
    return plainly_fits_otherwise(pod, node, world, gates)


def plainly_fits_otherwise(pod: Pod, node: Node, world: World, gates: Gates) -> bool:
    if not pod_selects_node(pod, node.labels, node.name, gates):
        return False
    for volume in pod.spec.volumes or ():
        name = volume.persistent_volume_claim.claim_name
        bound = world.volumes[world.claims[f"default/{name}"].spec.volume_name]
        if not volume_selects_node(bound, node.labels, gates):
            return False
    allocatable = node_allocatable(node)
    if allocatable is None:
        return True
    others = world.pods_on(node.name)
    if len(others) + 1 > allocatable["pods"]:
        return False
    used = sum(map(Counter, map(pod_requests, others)), Counter())
    return all(
        amount <= 0 or amount <= allocatable.get(resource, 0) - used[resource]
        for resource, amount in pod_requests(pod).items()
    )


@given(pods(), worlds(), gates)
@slow
def test_judging_equal_things_once_gives_the_plain_answer(pod, world, gates):
    others = (
        "topologySpreadConstraints" in str(pod) or "podAffinity" in str(pod) or "podAntiAffinity" in str(pod)
    )
    if others:
        return  # asked of the scheduler's engine, which has its own plain loop
    answer = verdict(pod, world, gates)
    view = answer.pod
    plain = tuple(n.name for n in world.nodes.values() if plainly_fits(view, n, world, gates))
    assert answer.fitting == plain
