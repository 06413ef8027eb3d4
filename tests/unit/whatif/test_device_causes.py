"""Why taints of devices drive pods out: the first to come due, and how long it is tolerated."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tests.unit.whatif.test_run import devices, rule
from weir.gates import ALL_FEATURES
from weir.objects.core import Taint
from weir.whatif.device_causes import device_causes
from weir.whatif.history import Cause, Why

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
RECALL = Taint("recall", "", "NoExecute")


class Holding:
    """A cluster that holds some objects, as lists of their kinds show them."""

    now = NOW

    def __init__(self, *documents: dict[str, Any]) -> None:
        self._documents = documents

    def list(self, kind: str) -> list[dict[str, Any]]:
        found = [each for each in self._documents if each["kind"] == kind]
        return [
            {key: value for key, value in each.items() if key not in ("kind", "apiVersion")} for each in found
        ]


def causes(*documents: dict[str, Any]) -> dict[str, Cause]:
    return device_causes(Holding(*documents), ALL_FEATURES)  # type: ignore[arg-type]


def tolerating(*seconds: int) -> list[dict[str, Any]]:
    """Return a device, its claim and its pod; the claim tolerates a recall for each of these seconds."""
    found = devices(1)
    (claim,) = [each for each in found if each["kind"] == "ResourceClaim"]
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    result["tolerations"] = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": each}
        for key, each in zip(("recall", "later"), seconds, strict=False)
    ]
    (pod,) = [each for each in found if each["kind"] == "Pod"]
    pod["metadata"]["namespace"] = "default"
    return found


def recall(key: str = "recall") -> dict[str, Any]:
    found = rule(effect="NoExecute", timeAdded="2026-01-01T12:00:00Z")
    found["metadata"] = {"name": key, "uid": f"uid-{key}"}
    found["spec"]["taint"]["key"] = key
    return found


def test_a_pod_that_does_not_tolerate_its_devices_taint_goes_for_it():
    assert causes(*tolerating(), recall()) == {
        "default/p0": Cause(Why.DEVICE_TAINT, RECALL, "DeviceTaintRule recall")
    }


def test_how_long_it_may_stay_is_told():
    (cause,) = causes(*tolerating(30), recall()).values()
    assert cause.tolerated_for == 30
    (short,) = causes(*tolerating(1), recall()).values()
    assert short.tolerated_for == 1
    (now,) = causes(*tolerating(0), recall()).values()
    assert now.tolerated_for is None


def test_the_taint_that_comes_due_first_is_told():
    (cause,) = causes(*tolerating(60, 30), recall(), recall("later")).values()
    assert (cause.taint and cause.taint.key, cause.tolerated_for, cause.of) == (
        "later",
        30,
        "DeviceTaintRule later",
    )


def test_without_claims_nobody_goes():
    assert causes(recall(), *(each for each in tolerating() if each["kind"] != "ResourceClaim")) == {}
    assert causes(*tolerating()) == {}
