"""When a rule that expires is removed, and what it says until then."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from weir.client.api import APPLY_PATCH
from weir.client.cache import ObjectKey
from weir.controllers.devices.taint_expiry import RULES, DeviceTaintExpiry
from weir.controllers.runtime.controller import Delete, Patch, Record, WakeAt
from weir.controllers.runtime.listers import Listers
from weir.gates import ALL_FEATURES
from weir.simulation.cluster import Cluster

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
KEY = ObjectKey("", "r")
SAID = "The rule will be removed at 2026-01-01T13:00:00Z."


def rule(at: str | None, **more: Any) -> dict[str, Any]:
    annotations = {"weir.dev/expires-at": at} if at else {}
    spec = {"deviceSelector": {"pool": "n"}, "taint": {"key": "hot", "effect": "NoSchedule"}}
    metadata = {"name": "r", "uid": "u", "annotations": annotations}
    return {
        "apiVersion": RULES.api_version,
        "kind": "DeviceTaintRule",
        "metadata": metadata,
        "spec": spec,
        **more,
    }


def actions(document: dict[str, Any]) -> list[Any]:
    return list(DeviceTaintExpiry(ALL_FEATURES).reconcile(KEY, Listers.of([document], [RULES]), NOW))


def test_a_rule_whose_time_has_come_is_deleted_and_no_other_of_its_name():
    assert actions(rule("2026-01-01T12:00:00Z")) == [Delete(RULES, "r", uid="u")]


def test_until_then_the_rule_says_so_and_is_looked_at_in_time():
    told, wake = actions(rule("2026-01-01T13:00:00Z"))
    assert isinstance(told, Patch) and (told.patch_type, told.subresource) == (APPLY_PATCH, "status")
    assert (
        told.patch["status"]["conditions"][0]["message"]
        == "The rule will be removed at 2026-01-01T13:00:00Z."
    )
    assert told.force and told.field_manager == "device-taint-expiry-controller", "whoever wrote it before"
    assert wake == WakeAt(KEY, NOW + timedelta(hours=1))


def test_what_was_said_is_not_said_again():
    condition = {"type": "Expires", "message": "The rule will be removed at 2026-01-01T13:00:00Z."}
    (only,) = actions(rule("2026-01-01T13:00:00Z", status={"conditions": [condition]}))
    assert isinstance(only, WakeAt)


@pytest.mark.parametrize(
    "other", [{"type": "Expires", "message": "Soon."}, {"type": "Other", "message": SAID}]
)
def test_what_was_said_otherwise_is_said(other: dict[str, str]):
    told, _ = actions(rule("2026-01-01T13:00:00Z", status={"conditions": [other]}))
    assert isinstance(told, Patch)


def test_rules_without_a_time_are_nobodys_business():
    controller = DeviceTaintExpiry(ALL_FEATURES)
    assert (actions(rule(None)), list(controller.changed(RULES, None, rule(None)))) == ([], [])


def test_a_time_that_cannot_be_read_removes_nothing_and_is_told():
    (only,) = actions(rule("tomorrow"))
    assert isinstance(only, Record) and (only.type, only.reason) == ("Warning", "InvalidExpiry")


@pytest.mark.proves("5055-22")
def test_in_a_cluster_the_rule_is_there_until_its_time_and_not_longer():
    with Cluster(controllers=["device-taint-expiry"]) as cluster:
        document = rule((cluster.now + timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%SZ"))
        del document["metadata"]["uid"]
        cluster.create(document)
        cluster.advance(7199)
        (there,) = cluster.list("DeviceTaintRule")
        cluster.advance(2)
        assert [c["type"] for c in there["status"]["conditions"]] == ["Expires"]
        assert cluster.list("DeviceTaintRule") == []
