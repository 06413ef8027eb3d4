"""Defaults that are constants, by Go struct: the path of a field and its value.

A struct that a path goes through is created where it is absent. A field that is a pointer gets its default where it is
absent, any other also where it is empty or zero, as in Go. Defaults that depend on something else are functions, in the
module of their group; they run before the constants of their struct.
"""

from __future__ import annotations

from typing import Any, Final

_MODE: Final = {"defaultMode": 0o644}
_MESSAGES: Final = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
_RBAC_ROLE: Final = {"roleRef.apiGroup": "rbac.authorization.k8s.io"}
_SELECTORS: Final = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
_WEBHOOK: Final = {"failurePolicy": "Fail", **_SELECTORS, "timeoutSeconds": 10}
_PORT: Final = {"port": 443}

CONSTANTS: Final[dict[str, dict[str, Any]]] = {
    "admissionregistration.v1.MatchResources": _SELECTORS,
    "admissionregistration.v1.MutatingAdmissionPolicySpec": {"failurePolicy": "Fail"},
    "admissionregistration.v1.MutatingWebhook": {**_WEBHOOK, "reinvocationPolicy": "Never"},
    "admissionregistration.v1.NamedRuleWithOperations": {"scope": "*"},
    "admissionregistration.v1.RuleWithOperations": {"scope": "*"},
    "admissionregistration.v1.ServiceReference": _PORT,
    "admissionregistration.v1.ValidatingAdmissionPolicySpec": {"failurePolicy": "Fail"},
    "admissionregistration.v1.ValidatingWebhook": _WEBHOOK,
    "apiextensions.v1.CustomResourceDefinition": {"spec.conversion": {"strategy": "None"}},
    "apiextensions.v1.ServiceReference": _PORT,
    "apiregistration.v1.ServiceReference": _PORT,
    "apps.v1.DaemonSet": {"spec.revisionHistoryLimit": 10},
    "apps.v1.Deployment": {
        "spec.replicas": 1,
        "spec.revisionHistoryLimit": 10,
        "spec.progressDeadlineSeconds": 600,
    },
    "apps.v1.ReplicaSet": {"spec.replicas": 1},
    "apps.v1.StatefulSet": {
        "spec.podManagementPolicy": "OrderedReady",
        "spec.persistentVolumeClaimRetentionPolicy.whenDeleted": "Retain",
        "spec.persistentVolumeClaimRetentionPolicy.whenScaled": "Retain",
        "spec.replicas": 1,
        "spec.revisionHistoryLimit": 10,
    },
    "authentication.v1.TokenRequestSpec": {"expirationSeconds": 3600},
    "autoscaling.v1.HorizontalPodAutoscaler": {"spec.minReplicas": 1},
    "autoscaling.v2.HorizontalPodAutoscaler": {"spec.minReplicas": 1},
    "batch.v1.CronJob": {
        "spec.concurrencyPolicy": "Allow",
        "spec.suspend": False,
        "spec.successfulJobsHistoryLimit": 3,
        "spec.failedJobsHistoryLimit": 1,
    },
    "batch.v1.Job": {
        "spec.parallelism": 1,
        "spec.completionMode": "NonIndexed",
        "spec.suspend": False,
        "spec.manualSelector": False,
    },
    "batch.v1.PodFailurePolicyOnPodConditionsPattern": {"status": "True"},
    "core.v1.ConfigMapVolumeSource": _MODE,
    "core.v1.Container": _MESSAGES,
    "core.v1.DownwardAPIVolumeSource": _MODE,
    "core.v1.EndpointPort": {"protocol": "TCP"},
    "core.v1.EphemeralContainer": _MESSAGES,
    "core.v1.HTTPGetAction": {"path": "/", "scheme": "HTTP"},
    "core.v1.HostPathVolumeSource": {"type": ""},
    "core.v1.NamespaceStatus": {"phase": "Active"},
    "core.v1.ObjectFieldSelector": {"apiVersion": "v1"},
    "core.v1.PersistentVolume": {
        "status.phase": "Pending",
        "spec.persistentVolumeReclaimPolicy": "Retain",
        "spec.volumeMode": "Filesystem",
    },
    "core.v1.PersistentVolumeClaim": {"status.phase": "Pending"},
    "core.v1.PersistentVolumeClaimSpec": {"volumeMode": "Filesystem"},
    "core.v1.Pod": {"spec.enableServiceLinks": True},
    "core.v1.PodSpec": {
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
        "schedulerName": "default-scheduler",
    },
    "core.v1.Probe": {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
    "core.v1.ProjectedVolumeSource": _MODE,
    "core.v1.Secret": {"type": "Opaque"},
    "core.v1.SecretVolumeSource": _MODE,
    "core.v1.ServiceAccountTokenProjection": {"expirationSeconds": 3600},
    "discovery.v1.EndpointPort": {"name": "", "protocol": "TCP"},
    "flowcontrol.v1.ExemptPriorityLevelConfiguration": {"nominalConcurrencyShares": 0, "lendablePercent": 0},
    "flowcontrol.v1.FlowSchemaSpec": {"matchingPrecedence": 1000},
    "flowcontrol.v1.LimitedPriorityLevelConfiguration": {
        "nominalConcurrencyShares": 30,
        "lendablePercent": 0,
    },
    "flowcontrol.v1.QueuingConfiguration": {"handSize": 8, "queues": 64, "queueLengthLimit": 50},
    "networking.v1.IngressClassParametersReference": {"scope": "Cluster"},
    "networking.v1.NetworkPolicyPort": {"protocol": "TCP"},
    "rbac.v1.ClusterRoleBinding": _RBAC_ROLE,
    "rbac.v1.RoleBinding": _RBAC_ROLE,
    "scheduling.v1.PriorityClass": {"preemptionPolicy": "PreemptLowerPriority"},
    "storage.v1.CSIDriver": {
        "spec.attachRequired": True,
        "spec.podInfoOnMount": False,
        "spec.storageCapacity": False,
        "spec.fsGroupPolicy": "ReadWriteOnceWithFSType",
        "spec.volumeLifecycleModes": ["Persistent"],
        "spec.requiresRepublish": False,
        "spec.seLinuxMount": False,
        "spec.preventPodSchedulingIfMissing": False,
    },
    "storage.v1.StorageClass": {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
}
