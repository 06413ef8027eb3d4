"""Which objects a quota is about, and how much of it they use."""

from __future__ import annotations

import pytest

from weir.objects.kinds import by_kind
from weir.objects.quota_usage import in_scope, usage_of

CLAIMS, PODS, SERVICES = (by_kind("v1", kind) for kind in ("PersistentVolumeClaim", "Pod", "Service"))


def quota(operator: str, *values: str, scope: str = "VolumeAttributesClass"):
    expression = {"scopeName": scope, "operator": operator, "values": [*values]}
    return {"spec": {"scopeSelector": {"matchExpressions": [expression]}}}


def claim(wanted: str = "", current: str = "", target: str = ""):
    status = {"currentVolumeAttributesClassName": current or None}
    if target:
        status["modifyVolumeStatus"] = {"targetVolumeAttributesClassName": target}
    return {"spec": {"volumeAttributesClassName": wanted or None}, "status": status}


@pytest.mark.parametrize(
    "scope, document, expected",
    [
        (quota("In", "gold"), claim("gold"), True),
        (quota("In", "gold"), claim("silver", current="gold"), True),
        (quota("In", "gold"), claim("silver", target="gold"), True),
        (quota("In", "gold"), claim("silver"), False),
        (quota("In", "gold"), claim(), False),
        (quota("NotIn", "gold"), claim(), True),
        (quota("NotIn", "gold"), claim("gold", current="silver"), True),
        (quota("NotIn", "gold"), claim("gold"), False),
        (quota("Exists"), claim("gold"), True),
        (quota("Exists"), claim(), False),
        (quota("DoesNotExist"), claim(), True),
        (quota("DoesNotExist"), claim("gold"), False),
        (quota("Exists", scope="PriorityClass"), claim("gold"), False),
    ],
)
def test_claims_are_in_scope_by_their_attributes_classes(scope, document, expected):
    assert in_scope(scope, CLAIMS, document) is expected


def test_a_scope_of_pods_is_about_no_service():
    assert in_scope({"spec": {"scopes": ["BestEffort"]}}, SERVICES, {"spec": {}}) is False


def test_without_scopes_a_quota_is_about_everything():
    assert all(in_scope({"spec": {}}, kind, {}) for kind in (CLAIMS, PODS, SERVICES))


def exactly(name, **more):
    return {"name": "r", "exactly": {"deviceClassName": name, **more}}


@pytest.mark.parametrize(
    "requests, expected",
    [
        ([exactly("gpu", allocationMode="ExactCount", count=3)], {"gpu": "3"}),
        ([exactly("gpu")], {"gpu": "1"}),
        ([exactly("gpu", allocationMode="All")], {"gpu": "32"}),
        ([exactly("gpu", allocationMode="Other", count=9)], {"gpu": "0"}),
        ([exactly("gpu", count=2), exactly("gpu", count=3), exactly("nic")], {"gpu": "5", "nic": "1"}),
        (
            [
                {
                    "name": "r",
                    "firstAvailable": [
                        {"name": "a", "deviceClassName": "gpu", "count": 4},
                        {"name": "b", "deviceClassName": "gpu", "count": 2},
                        {"name": "c", "deviceClassName": "nic", "count": 1},
                    ],
                },
                exactly("gpu"),
            ],
            {"gpu": "5", "nic": "1"},
        ),
        ([], {}),
    ],
)
def test_a_claim_uses_the_devices_of_each_class_that_it_may_get(requests, expected):
    used = usage_of(
        by_kind("resource.k8s.io/v1", "ResourceClaim"), {"spec": {"devices": {"requests": requests}}}
    )
    suffix = ".deviceclass.resource.k8s.io/devices"
    assert {
        name.removesuffix(suffix): str(amount) for name, amount in used.items() if suffix in name
    } == expected
    assert str(used["count/resourceclaims.resource.k8s.io"]) == "1"
