"""What does an object of this kind print when nothing is set?

Spec: apiserver.md 10.2 "Events": a BOOKMARK carries the zero value of its kind. Fields that are always printed
appear with their empty value, everything else is absent. A kind that prints nothing is not listed.
"""

from __future__ import annotations

from typing import Any

from weir.objects.kinds import Kind

__all__ = ["zero"]

_TEMPLATE: dict[str, Any] = {"metadata": {}, "spec": {"containers": None}}
_NODE_INFO = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)
_ZERO: dict[tuple[str, str], dict[str, Any]] = {
    ("", "Pod"): {"spec": {"containers": None}, "status": {}},
    ("", "Node"): {
        "spec": {},
        "status": {
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
            "nodeInfo": dict.fromkeys(_NODE_INFO, ""),
        },
    },
    ("", "Namespace"): {"spec": {}, "status": {}},
    ("", "Service"): {"spec": {}, "status": {"loadBalancer": {}}},
    ("", "PersistentVolume"): {"spec": {}, "status": {}},
    ("", "PersistentVolumeClaim"): {"spec": {"resources": {}}, "status": {}},
    ("", "ReplicationController"): {"spec": {}, "status": {"replicas": 0}},
    ("", "ResourceQuota"): {"spec": {}, "status": {}},
    ("", "LimitRange"): {"spec": {"limits": None}},
    ("", "PodTemplate"): {"template": _TEMPLATE},
    ("", "Event"): {
        "involvedObject": {},
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    },
    ("events.k8s.io", "Event"): {
        "eventTime": None,
        "regarding": {},
        "deprecatedSource": {},
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
    },
    ("apps", "Deployment"): {
        "spec": {"selector": None, "template": _TEMPLATE, "strategy": {}},
        "status": {},
    },
    ("apps", "ReplicaSet"): {"spec": {"selector": None, "template": _TEMPLATE}, "status": {"replicas": 0}},
    ("apps", "StatefulSet"): {
        "spec": {"selector": None, "template": _TEMPLATE, "serviceName": "", "updateStrategy": {}},
        "status": {"replicas": 0, "availableReplicas": 0},
    },
    ("apps", "DaemonSet"): {
        "spec": {"selector": None, "template": _TEMPLATE, "updateStrategy": {}},
        "status": {
            "currentNumberScheduled": 0,
            "numberMisscheduled": 0,
            "desiredNumberScheduled": 0,
            "numberReady": 0,
        },
    },
    ("apps", "ControllerRevision"): {"revision": 0},
    ("batch", "Job"): {"spec": {"template": _TEMPLATE}, "status": {}},
    ("batch", "CronJob"): {
        "spec": {"schedule": "", "jobTemplate": {"metadata": {}, "spec": {"template": _TEMPLATE}}},
        "status": {},
    },
    ("policy", "PodDisruptionBudget"): {
        "spec": {},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
    },
    ("scheduling.k8s.io", "PriorityClass"): {"value": 0},
    ("coordination.k8s.io", "Lease"): {"spec": {}},
    ("node.k8s.io", "RuntimeClass"): {"handler": ""},
    ("storage.k8s.io", "StorageClass"): {"provisioner": ""},
    ("storage.k8s.io", "CSIDriver"): {"spec": {}},
    ("storage.k8s.io", "CSINode"): {"spec": {"drivers": None}},
    ("storage.k8s.io", "CSIStorageCapacity"): {"storageClassName": ""},
    ("storage.k8s.io", "VolumeAttachment"): {
        "spec": {"attacher": "", "source": {}, "nodeName": ""},
        "status": {"attached": False},
    },
    ("storage.k8s.io", "VolumeAttributesClass"): {"driverName": ""},
    ("rbac.authorization.k8s.io", "Role"): {"rules": None},
    ("rbac.authorization.k8s.io", "ClusterRole"): {"rules": None},
    ("rbac.authorization.k8s.io", "RoleBinding"): {"roleRef": {"apiGroup": "", "kind": "", "name": ""}},
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): {
        "roleRef": {"apiGroup": "", "kind": "", "name": ""}
    },
    ("resource.k8s.io", "ResourceClaim"): {"spec": {"devices": {}}, "status": {}},
    ("resource.k8s.io", "ResourceClaimTemplate"): {"spec": {"metadata": {}, "spec": {"devices": {}}}},
    ("resource.k8s.io", "DeviceClass"): {"spec": {}},
    ("resource.k8s.io", "ResourceSlice"): {
        "spec": {"driver": "", "pool": {"name": "", "generation": 0, "resourceSliceCount": 0}}
    },
    ("resource.k8s.io", "DeviceTaintRule"): {"spec": {"taint": {"key": "", "effect": ""}}, "status": {}},
    ("discovery.k8s.io", "EndpointSlice"): {"addressType": "", "endpoints": None, "ports": None},
}


def zero(kind: Kind) -> dict[str, Any]:
    """Return the fields an empty object of *kind* prints besides kind, apiVersion and metadata.

    >>> from weir.objects.kinds import by_kind
    >>> zero(by_kind("v1", "Pod"))
    {'spec': {'containers': None}, 'status': {}}
    """
    return _ZERO.get((kind.group, kind.kind), {})
