"""Which objects a quota is about."""

from __future__ import annotations

import pytest

from weir.objects.kinds import by_kind
from weir.objects.quota_usage import in_scope

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
