"""The safe eviction of KEP-5055 with the real kubectl: look first, then evict, wait, and end the maintenance.

Spec: dra.md 9 "Safe eviction procedure", 7.6.
"""

from __future__ import annotations

import pytest

from tests.e2e.test_up import kubectl, pods, until, up

pytestmark = pytest.mark.proves("5055-15", "5055-16", "5055-17", "5055-74", "5055-80")

__all__ = ["kubectl"]

WORKLOAD = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: train}
spec:
  replicas: 2
  selector: {matchLabels: {app: train}}
  template:
    metadata: {labels: {app: train}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: c, image: "train:1", resources: {claims: [{name: gpu}]}}]
      resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
"""
PATIENT = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: patient}
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: gpu.example.com
        tolerations: [{operator: Exists, effect: NoExecute, tolerationSeconds: 3600}]
---
apiVersion: v1
kind: Pod
metadata: {name: patient}
spec:
  containers: [{name: c, image: "i"}]
  resourceClaims: [{name: gpu, resourceClaimName: patient}]
"""
RULE = """
apiVersion: resource.k8s.io/v1
kind: DeviceTaintRule
metadata: {name: maintenance}
spec:
  deviceSelector: {driver: gpu.example.com, pool: node-0}
  taint: {key: example.com/maintenance, effect: None}
"""
NOEXECUTE = '{"spec":{"taint":{"effect":"NoExecute"}}}'
FINISHED = "--for=condition=EvictionInProgress=false"


def nodes_of(kubectl):
    return {p["spec"].get("nodeName") for p in pods(kubectl) if p["status"]["phase"] == "Running"}


def test_a_device_is_freed_for_maintenance_step_by_step(kubectl, tmp_path):
    with up(tmp_path, "--nodes", "2", "--gpus", "1"):  # so that there is one pod on each
        kubectl("apply", "-f", "-", stdin=WORKLOAD)
        kubectl("rollout", "status", "deployment/train", "--timeout=60s")
        until(lambda: nodes_of(kubectl) == {"node-0", "node-1"})
        before = {p["metadata"]["name"] for p in pods(kubectl)}
        kubectl("apply", "-f", "-", stdin=RULE)
        kubectl("wait", FINISHED, "DeviceTaintRule/maintenance", "--timeout=60s")
        described = kubectl("describe", "devicetaintrule", "maintenance")
        still = {p["metadata"]["name"] for p in pods(kubectl)}
        kubectl("patch", "devicetaintrule", "maintenance", "--type=merge", "-p", NOEXECUTE)
        waited = kubectl("wait", FINISHED, "DeviceTaintRule/maintenance", "--timeout=60s")
        until(lambda: nodes_of(kubectl) == {"node-1"})
        message = kubectl(
            "get", "devicetaintrule", "maintenance", "-o", "jsonpath={.status.conditions[0].message}"
        )
        told = kubectl("events", "--types=Normal") if kubectl.can("events") else kubectl("get", "events")
        kubectl("delete", "devicetaintrule", "maintenance")
        assert (
            "1 published device selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace"
            in " ".join(described.split())
        )
        assert still == before  # telling is all the dry run does
        assert "devicetaintrule.resource.k8s.io/maintenance condition met" in waited
        assert message.strip() == "1 pod evicted since starting the controller."
        assert "DeviceTaintManagerEviction" in told and "Marking for deletion" in told


def test_waiting_for_a_pod_that_may_stay_for_an_hour_times_out(kubectl, tmp_path):
    with up(tmp_path, "--nodes", "1", "--gpus", "1"):
        kubectl("apply", "-f", "-", stdin=PATIENT)
        kubectl("wait", "--for=condition=Ready", "pod/patient", "--timeout=60s")
        kubectl("apply", "-f", "-", stdin=RULE.replace("effect: None", "effect: NoExecute"))
        kubectl("wait", "--for=condition=EvictionInProgress", "DeviceTaintRule/maintenance", "--timeout=60s")
        said = kubectl("wait", FINISHED, "DeviceTaintRule/maintenance", "--timeout=2s", fails=True)
        assert "error: timed out waiting for the condition on devicetaintrules/maintenance" in said
