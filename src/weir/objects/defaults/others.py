"""Defaults of the small groups: scheduling, storage, rbac, authentication, webhooks, discovery, autoscaling, flow
control, resource.

Spec: apiserver.md 5.2 (StorageClass, PriorityClass), dra.md 1.14 (device requests, tolerations).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Final

from weir.objects.autoscaler_versions import DEFAULT_CPU_UTILIZATION, default_metric, has_other_metrics
from weir.objects.defaults.core import fill

# ── defaults of apps/v1: replicas and update strategies ──
# Spec: apiserver.md 5.2 (Deployment, ReplicaSet, DaemonSet).


#: A field of the first DaemonSets that lives on as an annotation; the strategy counts it up.
TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"


def deployment(deployment: dict[str, Any]) -> None:
    spec = deployment.setdefault("spec", {})
    fill(spec, "replicas", 1)
    strategy = spec.setdefault("strategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        fill(strategy, "rollingUpdate", {})
        fill(strategy["rollingUpdate"], "maxUnavailable", "25%")
        fill(strategy["rollingUpdate"], "maxSurge", "25%")
    elif strategy.get("rollingUpdate") is not None:
        fill(strategy["rollingUpdate"], "maxUnavailable", 0)
        fill(strategy["rollingUpdate"], "maxSurge", 0)
    fill(spec, "revisionHistoryLimit", 10)
    fill(spec, "progressDeadlineSeconds", 600)


def daemon_set(daemon_set: dict[str, Any]) -> None:
    spec = daemon_set.setdefault("spec", {})
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        fill(strategy, "rollingUpdate", {})
        fill(strategy["rollingUpdate"], "maxUnavailable", 1)
        fill(strategy["rollingUpdate"], "maxSurge", 0)
    elif strategy.get("rollingUpdate") is not None:
        fill(strategy["rollingUpdate"], "maxUnavailable", 0)
        fill(strategy["rollingUpdate"], "maxSurge", 0)
    fill(spec, "revisionHistoryLimit", 10)
    annotations = daemon_set.setdefault("metadata", {}).setdefault("annotations", {})
    annotations.setdefault(TEMPLATE_GENERATION, "0")


def stateful_set(stateful_set: dict[str, Any]) -> None:
    spec = stateful_set.setdefault("spec", {})
    if not spec.get("podManagementPolicy"):
        spec["podManagementPolicy"] = "OrderedReady"
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        fill(strategy, "rollingUpdate", {})
    rolling = strategy.get("rollingUpdate")
    if rolling is not None:
        fill(rolling, "partition", 0)
        if strategy["type"] == "RollingUpdate":
            fill(rolling, "maxUnavailable", 1)
    fill(spec, "persistentVolumeClaimRetentionPolicy", {})
    for key in ("whenDeleted", "whenScaled"):
        if not spec["persistentVolumeClaimRetentionPolicy"].get(key):
            spec["persistentVolumeClaimRetentionPolicy"][key] = "Retain"
    fill(spec, "replicas", 1)
    fill(spec, "revisionHistoryLimit", 10)
    for template in spec.get("volumeClaimTemplates") or ():
        template["apiVersion"], template["kind"] = "v1", "PersistentVolumeClaim"


def replica_set(replica_set: dict[str, Any]) -> None:
    fill(replica_set.setdefault("spec", {}), "replicas", 1)


_APPS: Final = {
    "apps.v1.Deployment": deployment,
    "apps.v1.DaemonSet": daemon_set,
    "apps.v1.StatefulSet": stateful_set,
    "apps.v1.ReplicaSet": replica_set,
}


# ── defaults of batch/v1: jobs and the jobs of a schedule ──


MOST_RETRIES: Final = 2**31 - 1


def job(job: dict[str, Any]) -> None:
    """A job without either number runs one pod once; a job with a work queue has no completions."""
    spec = job.setdefault("spec", {})
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    fill(spec, "parallelism", 1)
    fill(spec, "backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else MOST_RETRIES)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    metadata = job.setdefault("metadata", {})
    if labels and not metadata.get("labels"):
        metadata["labels"] = (
            labels  # the same map: labels the server generates for the pods show on the job too
        )
    fill(spec, "completionMode", "NonIndexed")
    fill(spec, "suspend", False)
    fill(
        spec,
        "podReplacementPolicy",
        "TerminatingOrFailed" if spec.get("podFailurePolicy") is None else "Failed",
    )
    fill(spec, "manualSelector", False)


def cron_job(cron_job: dict[str, Any]) -> None:
    spec = cron_job.setdefault("spec", {})
    if not spec.get("concurrencyPolicy"):
        spec["concurrencyPolicy"] = "Allow"
    fill(spec, "suspend", False)
    fill(spec, "successfulJobsHistoryLimit", 3)
    fill(spec, "failedJobsHistoryLimit", 1)


def failure_pattern(pattern: dict[str, Any]) -> None:
    if not pattern.get("status"):
        pattern["status"] = "True"


_BATCH: Final = {
    "batch.v1.Job": job,
    "batch.v1.CronJob": cron_job,
    "batch.v1.PodFailurePolicyOnPodConditionsPattern": failure_pattern,
}


# ── defaults of networking.k8s.io: policy types, and the scope of ingress class parameters ──


def ingress_class(found: dict[str, Any]) -> None:
    parameters = (found.get("spec") or {}).get("parameters")
    if parameters is not None:
        fill(parameters, "scope", "Cluster")


def network_policy(policy: dict[str, Any]) -> None:
    """A policy is about what comes in, and about what goes out only when it has rules for that."""
    spec = policy.setdefault("spec", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def network_policy_port(port: dict[str, Any]) -> None:
    fill(port, "protocol", "TCP")


_NETWORKING: Final = {
    "networking.v1.IngressClass": ingress_class,
    "networking.v1.NetworkPolicy": network_policy,
    "networking.v1.NetworkPolicyPort": network_policy_port,
}


RBAC_GROUP: Final = "rbac.authorization.k8s.io"
RESOURCE_GROUP: Final = "resource.k8s.io"
#: Fields whose default in the field table depends on something else; a rule below sets them.
CONDITIONAL: Final = frozenset({("DeviceToleration", "operator")})


def priority_class(priority_class: dict[str, Any]) -> None:
    fill(priority_class, "preemptionPolicy", "PreemptLowerPriority")


def storage_class(storage_class: dict[str, Any]) -> None:
    fill(storage_class, "reclaimPolicy", "Delete")
    fill(storage_class, "volumeBindingMode", "Immediate")


def csi_driver(driver: dict[str, Any]) -> None:
    spec = driver.setdefault("spec", {})
    fill(spec, "attachRequired", True)
    fill(spec, "podInfoOnMount", False)
    fill(spec, "storageCapacity", False)
    fill(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType")
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]
    fill(spec, "requiresRepublish", False)
    fill(spec, "seLinuxMount", False)
    fill(spec, "preventPodSchedulingIfMissing", False)


def role_binding(binding: dict[str, Any]) -> None:
    role = binding.setdefault("roleRef", {})
    if not role.get("apiGroup"):
        role["apiGroup"] = RBAC_GROUP


def subject(subject: dict[str, Any]) -> None:
    if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
        subject["apiGroup"] = RBAC_GROUP


def token_request_spec(spec: dict[str, Any]) -> None:
    fill(spec, "expirationSeconds", 3600)


def custom_resource_definition(definition: dict[str, Any]) -> None:
    spec = definition.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind") or ""
    if not names.get("singular") and kind:
        names["singular"] = kind.lower()
    if not names.get("listKind") and kind:
        names["listKind"] = f"{kind}List"
    fill(spec, "conversion", {"strategy": "None"})
    status = definition.get("status")
    if status is not None and not status.get("storedVersions"):
        stored = [one["name"] for one in spec.get("versions") or () if one.get("storage")]
        status["storedVersions"] = stored[:1] or None


def conversion_service(service: dict[str, Any]) -> None:
    fill(service, "port", 443)


def webhook(webhook: dict[str, Any]) -> None:
    fill(webhook, "failurePolicy", "Fail")
    fill(webhook, "matchPolicy", "Equivalent")
    fill(webhook, "namespaceSelector", {})
    fill(webhook, "objectSelector", {})
    fill(webhook, "timeoutSeconds", 10)


def mutating_webhook(mutating: dict[str, Any]) -> None:
    webhook(mutating)
    fill(mutating, "reinvocationPolicy", "Never")


def rule(rule: dict[str, Any]) -> None:
    fill(rule, "scope", "*")


def match_resources(match: dict[str, Any]) -> None:
    fill(match, "matchPolicy", "Equivalent")
    fill(match, "namespaceSelector", {})
    fill(match, "objectSelector", {})


def admission_policy_spec(spec: dict[str, Any]) -> None:
    fill(spec, "failurePolicy", "Fail")


def service_reference(reference: dict[str, Any]) -> None:
    fill(reference, "port", 443)


def endpoint_slice_port(port: dict[str, Any]) -> None:
    fill(port, "name", "")
    fill(port, "protocol", "TCP")


def autoscaler(autoscaler: dict[str, Any]) -> None:
    fill(autoscaler.setdefault("spec", {}), "minReplicas", 1)


def autoscaler_v1(found: dict[str, Any]) -> None:
    """The metric that conversion gives an autoscaler without one shows as this field's value."""
    autoscaler(found)
    spec = found["spec"]
    if "targetCPUUtilizationPercentage" not in spec and not has_other_metrics(found):
        spec["targetCPUUtilizationPercentage"] = DEFAULT_CPU_UTILIZATION


def autoscaler_v2(found: dict[str, Any]) -> None:
    """An autoscaler without metrics scales by CPU, and rules that are half said get the usual other half."""
    autoscaler(found)
    spec = found["spec"]
    if not spec.get("metrics"):
        spec["metrics"] = [default_metric()]
    if (behavior := spec.get("behavior")) is not None:
        for way, usual in (("scaleUp", _SCALE_UP), ("scaleDown", _SCALE_DOWN)):
            rules = {name: value for name, value in (behavior.get(way) or {}).items() if value is not None}
            # Copies: what the server stores of one autoscaler must not be another's.
            behavior[way] = {**copy.deepcopy(usual), **rules}


_SCALE_UP: Final = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_SCALE_DOWN: Final = {
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}


def flow_schema_spec(spec: dict[str, Any]) -> None:
    if not spec.get("matchingPrecedence"):
        spec["matchingPrecedence"] = 1000


def exempt_priority_level(level: dict[str, Any]) -> None:
    fill(level, "nominalConcurrencyShares", 0)
    fill(level, "lendablePercent", 0)


def limited_priority_level(level: dict[str, Any]) -> None:
    fill(level, "nominalConcurrencyShares", 30)
    fill(level, "lendablePercent", 0)


def queuing(queuing: dict[str, Any]) -> None:
    for name, usual in (("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)):
        if not queuing.get(name):
            queuing[name] = usual


def device_request(request: dict[str, Any]) -> None:
    if not request.get("allocationMode"):
        request["allocationMode"] = "ExactCount"
    if request["allocationMode"] == "ExactCount" and not request.get("count"):
        request["count"] = 1


def flattened_device_request(request: dict[str, Any]) -> None:
    """In v1beta1 the request holds the fields itself, and none are set when it only lists alternatives."""
    if request.get("deviceClassName"):
        device_request(request)


def device_toleration(toleration: dict[str, Any]) -> None:
    """An expression stands alone: it has no operator."""
    if not toleration.get("operator") and not toleration.get("expression"):
        toleration["operator"] = "Equal"


def device_taints(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the device taints of a rule or slice, whatever its version."""
    spec = document.get("spec") or {}
    if isinstance(spec.get("taint"), dict):
        yield spec["taint"]
    devices = spec.get("devices")
    for device in devices if isinstance(devices, list) else ():
        yield from device.get("taints") or ()
        yield from (device.get("basic") or {}).get("taints") or ()
    for entry in spec.get("taints") or ():
        yield entry["taint"]


RULES: Final = {
    **_APPS,
    **_BATCH,
    **_NETWORKING,
    "scheduling.v1.PriorityClass": priority_class,
    "storage.v1.StorageClass": storage_class,
    "storage.v1.CSIDriver": csi_driver,
    "rbac.v1.ClusterRoleBinding": role_binding,
    "rbac.v1.RoleBinding": role_binding,
    "rbac.v1.Subject": subject,
    "authentication.v1.TokenRequestSpec": token_request_spec,
    "admissionregistration.v1.ValidatingWebhook": webhook,
    "admissionregistration.v1.MutatingWebhook": mutating_webhook,
    "admissionregistration.v1.RuleWithOperations": rule,
    "admissionregistration.v1.NamedRuleWithOperations": rule,
    "admissionregistration.v1.MatchResources": match_resources,
    "admissionregistration.v1.MutatingAdmissionPolicySpec": admission_policy_spec,
    "admissionregistration.v1.ValidatingAdmissionPolicySpec": admission_policy_spec,
    "admissionregistration.v1.ServiceReference": service_reference,
    "discovery.v1.EndpointPort": endpoint_slice_port,
    "apiextensions.v1.CustomResourceDefinition": custom_resource_definition,
    "apiextensions.v1.ServiceReference": conversion_service,
    "apiregistration.v1.ServiceReference": conversion_service,
    "autoscaling.v1.HorizontalPodAutoscaler": autoscaler_v1,
    "autoscaling.v2.HorizontalPodAutoscaler": autoscaler_v2,
    "flowcontrol.v1.FlowSchemaSpec": flow_schema_spec,
    "flowcontrol.v1.ExemptPriorityLevelConfiguration": exempt_priority_level,
    "flowcontrol.v1.LimitedPriorityLevelConfiguration": limited_priority_level,
    "flowcontrol.v1.QueuingConfiguration": queuing,
    "resource.v1.ExactDeviceRequest": device_request,
    "resource.v1.DeviceSubRequest": device_request,
    "resource.v1beta2.ExactDeviceRequest": device_request,
    "resource.v1beta2.DeviceSubRequest": device_request,
    "resource.v1beta1.DeviceRequest": flattened_device_request,
    "resource.v1beta1.DeviceSubRequest": device_request,
    **{f"resource.{version}.DeviceToleration": device_toleration for version in ("v1", "v1beta1", "v1beta2")},
}
