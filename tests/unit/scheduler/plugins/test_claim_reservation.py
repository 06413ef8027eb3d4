"""What is written for the claims of a pod that found its node, and when its devices are ready."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.unit.devices.builders import DRIVER
from tests.unit.scheduler.claim_scene import Scene, allocation, pod
from weir.gates import ALL_FEATURES
from weir.objects.resource import ResourceClaim
from weir.scheduler.framework import PluginError
from weir.scheduler.plugins.claim_reservation import (
    FINALIZER,
    ClaimBinding,
    ClaimReservation,
    Extended,
    NotReady,
)

POD = pod("p", "c")
NEW = allocation("node-1", "gpu-0")["allocation"]
GONE = "2026-01-01T12:00:00Z"


def claim(
    name: str = "c", status: dict[str, Any] | None = None, scene: Scene | None = None, **metadata: Any
) -> ResourceClaim:
    return (scene or Scene(0)).claim(name, status=status, **metadata)


def held(*reserved: str) -> dict[str, Any]:
    return allocation("node-1", "gpu-0", reserved=reserved)


# ── what is written ──


@pytest.mark.parametrize(
    "found, new, said",
    [
        (claim(), NEW, ""),
        (claim(status=held()), None, ""),
        (claim(deletionTimestamp=GONE), NEW, "claim default/c got deleted in the meantime"),
        (claim(status=held()), NEW, "claim default/c got allocated elsewhere in the meantime"),
        (claim(), None, "claim default/c got deallocated elsewhere in the meantime"),
    ],
)
def test_what_is_no_longer_true_is_not_written(found, new, said):
    binding = ClaimBinding(found, new)
    if not said:
        assert binding.check() is None  # type: ignore[func-returns-value]
        return
    with pytest.raises(PluginError) as raised:
        binding.check()
    assert str(raised.value) == said


@pytest.mark.parametrize(
    "finalizers, new, written",
    [
        ([], NEW, [FINALIZER]),
        (None, NEW, [FINALIZER]),
        (["x"], NEW, ["x", FINALIZER]),
        ([FINALIZER], NEW, None),
        ([], None, None),
    ],
)
def test_a_claim_is_protected_before_it_is_allocated(finalizers, new, written):
    patch = ClaimBinding(claim(finalizers=finalizers), new).finalizer()
    assert patch == (
        written and {"metadata": {"uid": "uid-c", "resourceVersion": "1", "finalizers": written}}
    )


def test_the_reservation_is_added_to_those_that_are_there():
    status = held("other")
    status["reservedFor"].append({"apiGroup": "x.io", "resource": "things", "name": "t", "uid": "u"})
    assert ClaimBinding(claim(status=status), None).status(POD, "now") == {
        "metadata": {"uid": "uid-c", "resourceVersion": "1"},
        "status": {
            "reservedFor": [
                {"resource": "pods", "name": "other", "uid": "other"},
                {"apiGroup": "x.io", "resource": "things", "name": "t", "uid": "u"},
                {"resource": "pods", "name": "p", "uid": POD.metadata.uid},
            ]
        },
    }


@pytest.mark.parametrize("time, stamp", [("now", {"allocationTimestamp": "now"}), (None, {})])
def test_a_new_allocation_says_when_it_was_made_if_asked(time, stamp):
    status = ClaimBinding(claim(), NEW).status(POD, time)["status"]
    assert status["allocation"] == {**NEW, **stamp}
    assert [each["name"] for each in status["reservedFor"]] == ["p"]


# ── what was promised ──


def reservation(
    scene: Scene, *bindings: ClaimBinding, uses: list[ResourceClaim] | None = None, **more: Any
) -> ClaimReservation:
    for binding in bindings:
        if binding.allocation is not None:
            scene.claims.promise(binding.claim.metadata.uid, binding.allocation)
    claims = [binding.claim for binding in bindings] if uses is None else uses
    return ClaimReservation(scene.claims, POD, "node-1", list(bindings), claims, **more)


def test_the_pools_of_new_allocations_are_known():
    scene = Scene(0)
    old = ClaimBinding(scene.claim("old", status=allocation("node-2", "gpu-1")), None)
    new = ClaimBinding(scene.claim("new"), NEW)
    none = ClaimBinding(scene.claim("none"), {"devices": {}})
    assert reservation(scene, old, new, none).pools == {(DRIVER, "node-1")}


def test_what_is_only_promised_is_taken_back_once():
    scene = Scene(0)
    found = reservation(
        scene, ClaimBinding(scene.claim("c"), NEW), ClaimBinding(scene.claim("d", status=held()), None)
    )
    assert scene.claims.promised("uid-c")
    assert (found.end(), scene.claims.promised("uid-c"), found.end()) == (True, False, False)


def test_what_is_promised_anew_afterwards_is_anothers():
    scene = Scene(0)
    found = reservation(scene, ClaimBinding(scene.claim("c"), NEW))
    found.end()
    scene.claims.promise("uid-c", NEW)
    assert (found.end(), scene.claims.promised("uid-c")) == (False, True)


def test_a_promise_that_was_written_is_not_taken_back():
    scene = Scene(0)
    binding = ClaimBinding(scene.claim("c"), NEW)
    found = reservation(scene, binding)
    written = scene.claim("c", status=held(POD.metadata.uid))
    found.wrote(binding, written)
    assert binding.claim is written
    assert list(found.results()) == list(written.results)
    assert (found.reserved(), found.end()) == ([written], False)


def test_what_was_written_is_known_to_all():
    scene, elsewhere = Scene(0), Scene(0)
    binding = ClaimBinding(scene.claim("c"), NEW)
    elsewhere.claim("x")
    written = elsewhere.claim("c", status=held())  # the second version
    reservation(scene, binding).wrote(binding, written)
    assert scene.claims.claims["default/c"] is written


def test_only_claims_that_are_reserved_for_the_pod_are_freed():
    scene = Scene(0)
    mine, others = scene.claim("c", status=held(POD.metadata.uid)), scene.claim("d", status=held("other"))
    assert reservation(scene, uses=[mine, others]).reserved() == [mine]


def test_the_claim_for_extended_resources_gets_its_own_name_and_is_not_freed():
    scene = Scene(0)
    first, unwritten = ClaimBinding(scene.claim("c"), None), ClaimBinding(claim("unwritten"), NEW)
    found = reservation(scene, first, unwritten, uses=[first.claim], extended=Extended([], []))
    assert found.reserved() == []
    made = claim("made", status=held(POD.metadata.uid))
    found.made(made)
    assert found.extended is not None and found.extended.written is made
    assert (first.claim.metadata.name, unwritten.claim) == ("c", made)
    assert (scene.claims.promised("uid-unwritten"), scene.claims.claims["default/made"]) == (False, made)
    found.wrote(unwritten, made)
    assert found.reserved() == []


def test_the_promise_of_a_claim_for_extended_resources_is_taken_back_under_its_new_name():
    scene = Scene(0)
    unwritten = ClaimBinding(claim("unwritten"), NEW)
    found = reservation(scene, unwritten, uses=[], extended=Extended([], []))
    found.made(claim("made"))
    assert (scene.claims.promised("uid-made"), found.end(), scene.claims.promised("uid-made")) == (
        True,
        True,
        False,
    )


# ── are they ready? ──


def conditioned(*conditions: str, **said: str) -> dict[str, Any]:
    status = held()
    (result,) = status["allocation"]["devices"]["results"]
    result |= {"bindingConditions": list(conditions), "bindingFailureConditions": ["broken"]}
    status["allocation"]["allocationTimestamp"] = GONE
    told = [{"type": type, "status": value, "reason": "r", "message": "m"} for type, value in said.items()]
    status["devices"] = [{"driver": DRIVER, "pool": "node-1", "device": "gpu-0", "conditions": told}]
    return status


@pytest.mark.parametrize(
    "off, stamped",
    [((), True), (("DRADeviceBindingConditions",), False), (("DRAResourceClaimDeviceStatus",), False)],
)
def test_conditions_are_waited_for_where_the_features_are_on(off, stamped):
    scene = Scene(0, gates=ALL_FEATURES.replace(dict.fromkeys(off, False)))
    found = reservation(
        scene, uses=[scene.claim("d", status=held()), scene.claim("c", status=conditioned("ready"))]
    )
    assert (found.stamped, found.waits()) == (stamped, stamped)


def test_devices_without_conditions_are_not_waited_for():
    scene = Scene(0)
    found = reservation(scene, uses=[scene.claim("c", status=held()), scene.claim("d", status=conditioned())])
    assert (found.waits(), found.settled()) == (False, True)


@pytest.mark.parametrize("said, ready", [({"ready": "True"}, True), ({"ready": "False"}, False), ({}, False)])
def test_a_device_is_ready_when_its_conditions_are_met(said, ready):
    scene = Scene(0)
    uses = [
        scene.claim("a", status=held()),
        scene.claim("c", status=conditioned("ready", **said)),
        scene.claim("z", status=held()),
    ]
    assert reservation(scene, uses=uses).settled() is ready


def failure(found: ClaimReservation) -> tuple[str, str]:
    with pytest.raises(NotReady) as raised:
        found.settled()
    return raised.value.outcome, str(raised.value)


def test_a_device_that_never_will_be_ready_is_told():
    scene = Scene(0)
    broken = reservation(scene, uses=[scene.claim("c", status=conditioned("ready", broken="True"))])
    assert failure(broken)[0] == "failure" and "device binding failed: claim=c" in failure(broken)[1]
    unknown = reservation(scene, uses=[claim("unknown")])
    assert failure(unknown) == ("error", 'could not find ResourceClaim "default/unknown"')


def test_a_device_that_takes_too_long_is_told():
    scene = Scene(0)
    uses = [scene.claim("c", status=conditioned("ready"))]
    patient, hasty = (reservation(scene, uses=uses, binding_seconds=seconds) for seconds in (100.0, 10.0))
    scene.now += timedelta(seconds=50)
    assert not patient.settled()
    assert failure(hasty) == ("timeout", "device binding timeout: claim=c")
