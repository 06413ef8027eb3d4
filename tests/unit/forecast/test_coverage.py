"""Which questions a forecast leaves to a copy of the control plane."""

from __future__ import annotations

import pytest

from weir.forecast.coverage import manifests_need_control_plane, needs_control_plane

RULE = {"apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceTaintRule", "metadata": {"name": "r"}}
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}


def named(kind: str) -> dict[str, object]:
    return {"kind": kind, "metadata": {"name": "x"}}


def test_rules_and_workloads_are_applied_without_a_control_plane():
    assert manifests_need_control_plane([RULE, DEPLOYMENT], [named("Node")]) == ""


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("ResourceQuota", "quotas are counted by the API server"),
        ("HorizontalPodAutoscaler", "an autoscaler reads what pods use from the API server"),
        ("CustomResourceDefinition", "custom resources are served by the API server"),
        ("ValidatingAdmissionPolicy", "a ValidatingAdmissionPolicy is called by the API server"),
        ("Namespace", "what belongs to a namespace from its start is made by a control plane"),
    ],
)
def test_what_only_a_server_does_with_a_manifest_is_its_reason(kind, reason):
    assert manifests_need_control_plane([RULE, named(kind)], []) == reason


@pytest.mark.parametrize("kind", ["MutatingWebhookConfiguration", "ValidatingAdmissionPolicy"])
def test_what_judges_manifests_in_the_cluster_leaves_them_to_a_server(kind):
    assert kind in manifests_need_control_plane([DEPLOYMENT], [named(kind)])
    assert needs_control_plane([named(kind)]) == ""
