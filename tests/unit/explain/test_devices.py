"""What explain says of pods with device claims: which device, which taint, whose, and what would help."""

from __future__ import annotations

from typing import Any

import pytest

from weir.explain.explanation import Explanation
from weir.explain.pod import explain
from weir.explain.words import sentence
from weir.gates import ALL_FEATURES, Gates
from weir.scheduler.claim_reasons import ClaimTied, DeviceClaimUnusable
from weir.world import World

pytestmark = pytest.mark.proves("5055-112")

Document = dict[str, Any]
GROUP = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"


def node(name: str) -> Document:
    allocatable = {"cpu": "8", "memory": "8Gi", "pods": "110"}
    return {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": allocatable}}


def slice_of(pool: str, *devices: Document, version: str = GROUP) -> Document:
    spec = {
        "driver": DRIVER,
        "nodeName": pool,
        "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
        "devices": list(devices),
    }
    return {"apiVersion": version, "kind": "ResourceSlice", "metadata": {"name": f"{pool}-s"}, "spec": spec}


def device(name: str, *taints: str) -> Document:
    found = [dict(zip(("key", "effect"), text.split(":"), strict=True)) for text in taints]
    return {"name": name, "taints": found, "attributes": {"index": {"int": int(name[-1])}}}


DEVICE_CLASS = {"apiVersion": GROUP, "kind": "DeviceClass", "metadata": {"name": "gpu"}}


def claim(name: str, status: Document | None = None, **asked: Any) -> Document:
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu", **asked}}]
    return {
        "apiVersion": GROUP,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"devices": {"requests": requests}},
        "status": status or {},
    }


def template(name: str, **asked: Any) -> Document:
    spec = claim(name, **asked)["spec"]
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": GROUP,
        "kind": "ResourceClaimTemplate",
        "metadata": metadata,
        "spec": {"spec": spec},
    }


def rule(name: str, pool: str, taint: str) -> Document:
    key, _, effect = taint.partition(":")
    spec = {
        "deviceSelector": {"pool": pool},
        "taint": {"key": key, "effect": effect, "timeAdded": "2026-01-01T00:00:00Z"},
    }
    return {"apiVersion": GROUP, "kind": "DeviceTaintRule", "metadata": {"name": name}, "spec": spec}


def allocated(pool: str, name: str, reserved: bool = False) -> Document:
    result = {"request": "r", "driver": DRIVER, "pool": pool, "device": name}
    found: Document = {"allocation": {"devices": {"results": [result]}}}
    return found | ({"reservedFor": [{"resource": "pods", "name": "o", "uid": "o"}]} if reserved else {})


def pod(**uses: str) -> Document:
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "g"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "g", **uses}]}
    return {"kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": spec}


def ask(*documents: Document, pod_uses: Document | None = None, gates: Gates = ALL_FEATURES) -> Explanation:
    uses = pod_uses or {"resourceClaimName": "c"}
    return explain(pod(**uses), World.of([node("n1"), DEVICE_CLASS, *documents]), gates)


def only_reason(answer: Explanation) -> str:
    ((reason,),) = [verdict.reasons for verdict in answer.nodes]
    return sentence(reason)


def test_a_taint_of_the_driver_is_named_with_its_device_and_slice() -> None:
    answer = ask(slice_of("n1", device("gpu-0", "hot:NoSchedule")), claim("c"))
    assert only_reason(answer) == (
        f"cannot allocate all claims ({DRIVER}/n1/gpu-0: hot:NoSchedule of its driver, in ResourceSlice n1-s is not "
        "tolerated)"
    )


def test_a_taint_of_a_rule_is_named_with_the_rule() -> None:
    answer = ask(slice_of("n1", device("gpu-0")), claim("c"), rule("cool-down", "n1", "hot:NoExecute"))
    assert only_reason(answer) == (
        f"cannot allocate all claims ({DRIVER}/n1/gpu-0: hot:NoExecute of DeviceTaintRule cool-down is not tolerated)"
    )


def test_what_else_is_in_the_way_is_counted() -> None:
    only_two = [{"cel": {"expression": f"device.attributes['{DRIVER}'].index < 2"}}]
    taken = claim("taken", allocated("n1", "gpu-0"))
    answer = ask(
        slice_of("n1", *map(device, ("gpu-0", "gpu-1", "gpu-2"))),
        taken,
        claim("c", selectors=only_two, count=2),
    )
    assert only_reason(answer) == (
        "cannot allocate all claims (request r needs 2 devices, 1 there; 1 device: it is allocated to another claim; "
        "1 device: a selector of the request is false for it)"
    )


@pytest.mark.parametrize(
    "requests, text",
    [
        ([{"count": 5}], "request r0 needs 5 devices, 4 there"),
        ([{"count": 3}, {"count": 2}], "requests r0 and r1 need 5 devices, 4 there"),
        (
            [{"count": 3}, {"allocationMode": "All"}],
            "8 devices: it could be used, but not together with the rest",
        ),
        ([{"count": 4, "constrained": True}], "4 devices: it could be used, but not together with the rest"),
    ],
)
def test_too_few_devices_are_counted_as_needed_and_there(requests: list[dict[str, Any]], text: str) -> None:
    constrained = any(request.pop("constrained", False) for request in requests)
    constraints = [{"matchAttribute": f"{DRIVER}/index"}] if constrained else []
    asked = [
        {"name": f"r{number}", "exactly": {"deviceClassName": "gpu", **request}}
        for number, request in enumerate(requests)
    ]
    document = {**claim("c"), "spec": {"devices": {"requests": asked, "constraints": constraints}}}
    answer = ask(slice_of("n1", *map(device, ("gpu-0", "gpu-1", "gpu-2", "gpu-3"))), document)
    assert f"cannot allocate all claims ({text}" in only_reason(answer)


def test_every_device_is_there_for_programs() -> None:
    answer = ask(slice_of("n1", device("gpu-0", "hot:NoSchedule")), claim("c"))
    (verdict,) = answer.nodes
    assert verdict.reasons[0].data() == {
        "devices": [
            {
                "claim": "default/c",
                "request": "r",
                "device": f"{DRIVER}/n1/gpu-0",
                "refusal": "TAINTED",
                "text": "it has taints that are not tolerated",
                "taints": [
                    {
                        "taint": {"key": "hot", "effect": "NoSchedule"},
                        "origin": {"kind": "ResourceSlice", "name": "n1-s", "field": "devices", "index": 0},
                    }
                ],
            }
        ]
    }


def test_a_toleration_of_the_request_is_proposed_and_was_tried() -> None:
    answer = ask(slice_of("n1", device("gpu-0", "hot:NoSchedule", "old:NoExecute")), claim("c"))
    assert answer.fix is not None
    also, note = (
        "let request r of ResourceClaim default/c also tolerate",
        "(recreate it: its spec cannot be changed)",
    )
    assert [edit.say() for edit in answer.fix.edits] == [
        f"{also} hot (NoSchedule) {note}",
        f"{also} old (NoExecute) {note}",
    ]
    assert answer.fix.nodes == ("n1",)


def test_a_pod_that_was_not_created_yet_is_judged_by_its_template() -> None:
    uses = {"resourceClaimTemplateName": "t"}
    free, hot = slice_of("n1", device("gpu-0")), slice_of("n1", device("gpu-0", "hot:NoSchedule"))
    assert ask(free, template("t"), pod_uses=uses).fits
    answer = ask(hot, template("t"), pod_uses=uses)
    assert answer.fix is not None
    assert (
        answer.fix.edits[0]
        .say()
        .startswith("let request r of ResourceClaimTemplate default/t also tolerate hot")
    )


def test_a_template_that_does_not_exist_is_named() -> None:
    answer = ask(slice_of("n1", device("gpu-0")), pod_uses={"resourceClaimTemplateName": "t"})
    assert [sentence(reason) for reason in answer.blockers] == [
        'pod "default/p": ResourceClaim not created yet; there is no ResourceClaimTemplate default/t'
    ]


def test_a_claim_that_does_not_exist_keeps_the_pod_from_every_node() -> None:
    answer = ask(slice_of("n1", device("gpu-0")))
    assert answer.blockers == (DeviceClaimUnusable('could not find ResourceClaim "default/c"'),)
    assert not any(verdict.reasons for verdict in answer.nodes)


def test_a_rule_that_drives_pods_away_is_the_reason_a_claim_takes_no_new_ones() -> None:
    held = claim("c", allocated("n1", "gpu-0", reserved=True))
    answer = ask(slice_of("n1", device("gpu-0")), held, rule("broken", "n1", "bad:NoExecute"))
    assert only_reason(answer) == (
        "pods have to leave the devices of an allocated claim "
        "(claim default/c: bad:NoExecute of DeviceTaintRule broken)"
    )
    assert isinstance(answer.nodes[0].reasons[0], ClaimTied)
    assert answer.fix is not None
    assert answer.fix.commands == ("kubectl delete devicetaintrule broken",)


def test_a_selector_that_fails_is_told_instead_of_devices() -> None:
    fails = [{"cel": {"expression": f"device.attributes['{DRIVER}'].none == 1"}}]
    answer = ask(slice_of("n1", device("gpu-0")), claim("c", selectors=fails))
    (reason,) = answer.nodes[0].reasons
    assert (reason.plugin, reason.kind) == ("DynamicResources", "devices")
    assert sentence(reason).startswith(
        f"claim default/c: selector #0 on device {DRIVER}/n1/gpu-0: CEL runtime error"
    )


def test_nodes_that_lack_the_same_are_one_group() -> None:
    hot = [slice_of(name, device("gpu-0")) for name in ("n1", "n2", "n3")]
    rules = [rule("hot", name, "hot:NoSchedule") for name in ("n1",)]
    rules[0]["spec"]["deviceSelector"] = {}
    answer = ask(node("n2"), node("n3"), *hot, *rules, claim("c"))
    assert [group.nodes for group in answer.groups] == [("n1", "n2", "n3")]


def test_a_world_without_devices_says_that_they_were_not_looked_at() -> None:
    answer = explain(pod(resourceClaimName="c"), World.of([node("n1")]), ALL_FEATURES)
    assert answer.unknown == ("whether its resource claims can be had (no devices in the snapshot)",)


@pytest.mark.parametrize("version", ["resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2"])
def test_other_versions_of_the_objects_are_read(version: str) -> None:
    inner = device("gpu-0", "hot:NoSchedule")
    if version.endswith("v1beta1"):
        inner = {"name": inner.pop("name"), "basic": inner}
    answer = ask(slice_of("n1", inner, version=version), claim("c"))
    assert "hot:NoSchedule of its driver" in only_reason(answer)


def test_a_toleration_without_the_effect_binds_and_is_then_evicted_and_the_answer_says_so() -> None:
    """Kubernetes' eviction reads only tolerations of NoExecute by name (dra.md D-07)."""
    hot = slice_of("n1", device("gpu-0", "hot:NoExecute"))
    tolerated = claim("c", tolerations=[{"key": "hot", "operator": "Exists"}])
    verdict = ask(hot, tolerated).nodes[0]
    assert verdict.fits
    assert "deleted at once by device-taint-eviction: hot:NoExecute" in verdict.devices_leave[0]
    named = claim("c", tolerations=[{"key": "hot", "operator": "Exists", "effect": "NoExecute"}])
    assert ask(hot, named).nodes[0].devices_leave == ()


def test_a_filter_that_fails_on_one_node_ends_the_attempt_for_all():
    """The real scheduler gives up with the plugin's error, though another node would take the pod."""
    every = claim("c", allocationMode="All")
    every["spec"]["devices"]["constraints"] = [{"matchAttribute": f"{DRIVER}/index"}]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "resourceClaims": [{"name": "c", "resourceClaimName": "c"}],
        },
    }
    good, bad = slice_of("n1", device("gpu-0")), slice_of("n2", device("gpu-0"), device("gpu-1"))
    alone = explain(pod, World.of([node("n1"), good, DEVICE_CLASS, every]), ALL_FEATURES)
    assert alone.fits
    both = explain(pod, World.of([node("n1"), node("n2"), good, bad, DEVICE_CLASS, every]), ALL_FEATURES)
    said = "cannot add device gpu.example.com/n2/gpu-1 because a claim constraint would not be satisfied"
    assert (both.fits, both.complete) == (False, False)
    assert said in both.attempt.upstream and said in sentence(both.blockers[0])
    assert both.fix is None or both.fix.edits
