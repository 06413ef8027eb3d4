"""What DynamicResources answers besides yes and no: for people, for the search by score, and as a score."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from tests.unit.devices.builders import DRIVER, device, device_class, rule, slice_of
from tests.unit.scheduler.claim_scene import Scene, allocation, ask, pod
from weir.devices.allocation_search import MOST_STEPS
from weir.objects.core import Node, Pod, read
from weir.objects.resource import DeviceClass
from weir.scheduler.claim_feasibility import REFUSED
from weir.scheduler.claim_reasons import ClaimTied, NoDevices
from weir.scheduler.framework import Diagnosis
from weir.scheduler.plugins.dynamic_resources import (
    NO_RESOURCE,
    TAINTED,
    UNAVAILABLE,
    BoundDynamicResources,
    Limits,
)

GPU, NIC = "example.com/gpu", "example.com/nic"
EITHER = {
    "name": "r",
    "firstAvailable": [
        {"name": "big", "deviceClassName": "a100"},
        {"name": "none", "deviceClassName": "none"},
        {"name": "any", "deviceClassName": "gpu"},
    ],
}


def bound(scene: Scene, wanted: Pod) -> BoundDynamicResources:
    """Return the check for a pod, before anything was asked."""
    plugin = scene.engine.profile.plugins["DynamicResources"]
    found = plugin.for_class(scene.engine.classes.of(wanted)).filter
    assert isinstance(found, BoundDynamicResources)
    return found


def codes(check: BoundDynamicResources, scene: Scene) -> list[int]:
    return check.codes(scene.engine.table.ordered).tolist()


def extended(**requests: str) -> Pod:
    names = {"gpu": GPU, "nic": NIC}
    wanted = {names[name]: amount for name, amount in requests.items()}
    container = {"name": "c", "resources": {"requests": wanted}}
    metadata = {"name": "p", "namespace": "default", "uid": "uid-p"}
    return read(Pod, {"metadata": metadata, "spec": {"containers": [container]}})


def offer_gpus(scene: Scene) -> None:
    scene.put(read(DeviceClass, {"metadata": {"name": "gpus"}, "spec": {"extendedResourceName": GPU}}))


@pytest.mark.parametrize("seconds, steps", [(10.0, MOST_STEPS), (1.0, MOST_STEPS // 10), (0.0, sys.maxsize)])
def test_a_search_has_as_many_steps_as_its_time_allows_and_without_a_limit_all(seconds, steps):
    assert Limits(filter_seconds=seconds).steps == steps


# ── Filter ───────────────────────────────────────────────────────────────────────────────────────


def test_filter_goes_by_what_prefilter_saw():
    scene = Scene()
    check = bound(scene, pod("p", "c"))
    assert check.pre_filter() is not None
    scene.claim("c")
    assert codes(check, scene) == [REFUSED, REFUSED]
    assert codes(bound(scene, pod("p", "c")), scene) == [0, 0]


def test_a_resource_that_neither_devices_nor_the_node_offer_refuses_it():
    scene = Scene(nodes=2)
    offer_gpus(scene)
    allocatable = {"cpu": "8", "memory": "8Gi", "pods": "110", NIC: "1"}
    scene.engine.table.put_node(
        read(Node, {"metadata": {"name": "node-2"}, "status": {"allocatable": allocatable}})
    )
    check = bound(scene, extended(gpu="1", nic="1"))
    assert codes(check, scene) == [NO_RESOURCE, 0]
    assert check.status(NO_RESOURCE).message == "cannot fit resource"


def test_a_claim_that_has_to_be_left_is_given_up_where_no_other_node_is():
    scene = Scene(nodes=1)
    scene.put(rule("r", {}, "a:NoExecute"))
    claim = scene.claim("c", status=allocation("node-1", "gpu-0"))
    assert isinstance(scene.place(pod("p", "c")), Diagnosis)
    assert scene.engine.post_filter(pod("p", "c")) == claim


# ── the search by score ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "requests, status, alike",
    [
        ((), None, True),
        ((EITHER,), None, False),
        ((), allocation("node-1", "gpu-0"), False),
    ],
    ids=["one device", "alternatives", "allocated"],
)
def test_nodes_score_alike_where_devices_are_to_be_had_in_one_way(requests, status, alike):
    scene = Scene()
    scene.claim("c", *requests, status=status)
    check = bound(scene, pod("p", "c"))
    check.pre_filter()
    assert check.scores_alike() is alike


def test_nodes_do_not_score_alike_for_extended_resources():
    scene = Scene()
    offer_gpus(scene)
    check = bound(scene, extended(gpu="1"))
    check.pre_filter()
    assert check.scores_alike() is False


def test_nodes_where_nothing_was_found_are_refused_until_something_changes():
    scene = Scene(gpus=0)
    scene.put(slice_of("s-1", *scene.gpus(1), pool="node-1"))
    scene.claim("c")
    check = bound(scene, pod("p", "c"))
    assert codes(check, scene) == [0, REFUSED]
    rows = [scene.engine.table.row_of[name] for name in ("node-1", "node-2")]
    assert check.refused()[rows].tolist() == [False, True]


def test_no_node_is_refused_to_a_pod_whose_claims_are_all_allocated():
    scene = Scene()
    scene.claim("c", status=allocation("node-1", "gpu-0"))
    check = bound(scene, pod("p", "c"))
    check.pre_filter()
    assert check.refused().tolist() == [False] * scene.engine.table.size


# ── for people ───────────────────────────────────────────────────────────────────────────────────


def judged(scene: Scene, wanted: Pod) -> BoundDynamicResources:
    check = bound(scene, wanted)
    check.pre_filter()
    return check


def filtered(scene: Scene, wanted: Pod) -> BoundDynamicResources:
    check = bound(scene, wanted)
    codes(check, scene)
    return check


def row(scene: Scene, name: str = "node-1") -> int:
    return scene.engine.table.row_of[name]


def test_a_claim_elsewhere_ties_the_pod_without_a_taint():
    scene = Scene()
    scene.put(rule("r", {}, "a:NoExecute"))
    scene.claim("c", status=allocation("node-2", "gpu-0"))
    (reason,) = judged(scene, pod("p", "c")).reasons(row(scene), UNAVAILABLE)
    assert reason == ClaimTied("resourceclaim not available on the node")


def test_a_claim_whose_pods_have_to_leave_is_named_with_the_taint():
    scene = Scene()
    scene.put(rule("r", {}, "a:NoExecute"))
    scene.claim("c", status=allocation("node-1", "gpu-0"))
    (reason,) = judged(scene, pod("p", "c")).reasons(row(scene), TAINTED)
    assert isinstance(reason, ClaimTied)
    assert reason.text == "resourceclaim has allocated devices with untolerated taints"
    assert [(claim, taint.taint.key) for claim, taint in reason.taints] == [("default/c", "a")]


def test_every_device_of_a_refused_node_is_named_with_what_speaks_against_it():
    scene = Scene(nodes=1, gpus=0)
    scene.put(slice_of("s", *scene.gpus(2, "sla=980:NoSchedule"), pool="node-1"))
    scene.claim("c")
    (reason,) = judged(scene, pod("p", "c")).reasons(row(scene), REFUSED)
    assert isinstance(reason, NoDevices)
    assert (reason.text, [one.device.device for one in reason.refusals]) == (
        "cannot allocate all claims",
        ["gpu-0", "gpu-1"],
    )


def test_where_prefilter_refuses_no_node_says_more():
    scene = Scene()
    assert judged(scene, pod("p", "missing")).reasons(row(scene), REFUSED) == ()


def test_a_search_that_breaks_has_no_devices_to_name():
    scene = Scene()
    scene.claim("c", ask(selectors=[{"cel": {"expression": f"device.attributes['{DRIVER}'].none == 1"}}]))
    assert judged(scene, pod("p", "c")).reasons(row(scene), REFUSED) == (
        NoDevices("cannot allocate all claims"),
    )


@pytest.mark.parametrize("status", [None, allocation("node-1", "gpu-0")], ids=["to be had", "allocated"])
def test_a_node_that_takes_the_pod_refuses_no_device(status):
    scene = Scene()
    scene.claim("c", status=status)
    node = scene.engine.table.nodes[row(scene)]
    assert node is not None
    assert judged(scene, pod("p", "c")).refusals(node) == ()


@pytest.mark.parametrize("wanted, devices", [(("held", "c"), ["gpu-0", "gpu-1"]), (("held",), ["gpu-0"])])
def test_claims_are_shown_as_they_would_be_allocated(wanted, devices):
    scene = Scene()
    scene.claim("held", status=allocation("node-1", "gpu-0"))
    scene.claim("c")
    claims = filtered(scene, pod("p", *wanted)).allocated_on(row(scene))
    assert [(claim.metadata.name, [one.device for one in claim.results]) for claim in claims] == [
        (name, [device]) for name, device in zip(wanted, devices, strict=True)
    ]


# ── Score ────────────────────────────────────────────────────────────────────────────────────────


def fleet() -> Scene:
    """Two nodes, of which the second has the better device."""
    scene = Scene(gpus=0)
    scene.put(device_class("a100", f"device.attributes['{DRIVER}'].model == 'a100'"))
    scene.put(device_class("none", "false"))
    for node, model in (("node-1", "t4"), ("node-2", "a100")):
        scene.put(slice_of(node, device("gpu-0", attributes={"model": {"string": model}}), pool=node))
    return scene


def scores(scene: Scene, wanted: Pod, feasible: bool = True) -> Any:
    check = filtered(scene, wanted)
    found = check.normalized_scores(np.full(scene.engine.table.size, feasible, np.bool_))
    return None if found is None else [int(found[row(scene, name)]) for name in ("node-1", "node-2")]


def test_the_first_alternative_counts_eight_and_every_later_one_less():
    scene = fleet()
    scene.claim("c", EITHER)
    assert scores(scene, pod("p", "c")) == [100 * 6 // 8, 100]


def test_alternatives_of_allocated_claims_count_on_every_node():
    scene = fleet()
    scene.claim("c", EITHER)
    got = {"request": "s/any", "driver": DRIVER, "pool": "far", "device": "gpu-0"}
    listed = [{"name": "big", "deviceClassName": "a100"}, {"name": "any", "deviceClassName": "gpu"}]
    scene.claim(
        "held",
        {"name": "s", "firstAvailable": listed},
        status={"allocation": {"devices": {"results": [got]}}},
    )
    assert scores(scene, pod("p", "c", "held")) == [100 * (6 + 7) // (8 + 7), 100]


def test_without_alternatives_or_nodes_there_is_no_score():
    scene = fleet()
    scene.claim("c")
    scene.claim("d", EITHER)
    assert scores(scene, pod("p", "c")) is None
    assert scores(scene, pod("p", "d"), feasible=False) is None
