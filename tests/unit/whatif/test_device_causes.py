"""Why taints of devices drive pods out: the first to come due, and how long it is tolerated."""

from __future__ import annotations

from typing import Any

from tests.unit.whatif.lives import life
from tests.unit.whatif.test_run import NOW, devices, node, rule
from weir.gates import ALL_FEATURES, DEVICE_TAINT_RULES
from weir.objects.core import Taint
from weir.whatif.changes import Apply, Change, SetGates, Wait
from weir.whatif.device_causes import device_cause
from weir.whatif.history import Cause, Why
from weir.whatif.run import WhatIfOptions, what_if

RECALL = Taint("recall", "", "NoExecute")


def causes(before: list[dict[str, Any]], *changes: Change, gates: Any = ALL_FEATURES) -> list[Cause]:
    found = what_if([node("a", cpu="64"), *before], changes, WhatIfOptions(gates, NOW, until=90.0))
    return [one.cause for one in found.leaving]


def tolerating(*seconds: int) -> list[dict[str, Any]]:
    """Return a device, its claim and its pod; the claim tolerates a recall for each of these seconds."""
    found = devices(1)
    (claim,) = [each for each in found if each["kind"] == "ResourceClaim"]
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    result["tolerations"] = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": each}
        for key, each in zip(("recall", "later"), seconds, strict=False)
    ]
    return found


def recall(key: str = "recall") -> dict[str, Any]:
    found = rule(effect="NoExecute")
    found["metadata"] = {"name": key}
    found["spec"]["taint"]["key"] = key
    return found


def test_every_pod_names_the_rule_it_goes_for_those_that_go_at_once_too():
    named = Cause(Why.DEVICE_TAINT, RECALL, "DeviceTaintRule recall")
    assert causes(devices(12), Apply((recall(),))) == [named] * 12


def test_how_long_it_may_stay_is_told():
    for seconds, told in ((30, 30), (1, 1), (0, None)):
        (cause,) = causes(tolerating(seconds), Apply((recall(),)))
        assert cause.tolerated_for == told
    (cause,) = causes(tolerating(30), Wait(20.0), Apply((recall(),)))
    assert cause.tolerated_for == 30, "counted from when the taint was added"


def test_a_taint_that_does_not_say_when_it_was_added_counts_from_the_copys_beginning():
    (cause,) = causes([*tolerating(30), recall()], Wait(1.0))
    assert cause.tolerated_for == 30


def test_the_taint_that_comes_due_first_is_told():
    (cause,) = causes(tolerating(60, 30), Apply((recall(), recall("later"))))
    assert (cause.taint and cause.taint.key, cause.tolerated_for, cause.of) == (
        "later",
        30,
        "DeviceTaintRule later",
    )


def test_a_pod_that_goes_because_a_gate_is_turned_on_names_the_rule():
    before = ALL_FEATURES.replace({DEVICE_TAINT_RULES: False})
    (cause,) = causes(
        [*tolerating(), recall()], SetGates(((DEVICE_TAINT_RULES, True),), before=before), gates=before
    )
    assert cause == Cause(Why.DEVICE_TAINT, RECALL, "DeviceTaintRule recall")


def test_of_a_pod_that_nothing_drives_out_no_taint_is_known():
    found: list[Cause] = []
    asked = WhatIfOptions(ALL_FEATURES, NOW, until=1.0)
    what_if(
        [node("a"), *devices(1)],
        (Wait(1.0),),
        asked,
        at_the_end=lambda cluster: found.append(device_cause(cluster, NOW, life("p0"))),
    )
    assert found == [Cause(Why.DEVICE_TAINT)]
