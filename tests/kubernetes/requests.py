"""Requests of every kind and verb, asked of a real API server and of weir, whose answers are compared whole.

State carries over: a case may use what an earlier one wrote. `CASES` is in the order of the API: create every kind and
read it as object and as table, then lists, patches, server-side apply, subresources, deletes, options.
"""

# ruff: noqa: E501  (tables read better on long lines)

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Document = dict[str, Any]
NS = "/api/v1/namespaces/default"
PODS = f"{NS}/pods"
APPS = "/apis/apps/v1/namespaces/default"
DRA = "/apis/resource.k8s.io/v1"
CLAIMS = f"{DRA}/namespaces/default/resourceclaims"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
JSON_PATCH, MERGE, STRATEGIC, APPLY = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)


@dataclass(frozen=True)
class Asked:
    """One request."""

    name: str
    method: str
    path: str
    body: Any = None
    content: str = "application/json"
    accept: str = "application/json"
    headers: Document = field(default_factory=dict)
    fresh: bool = (
        False  # depends on what the request before it wrote, which a real server's caches may not hold yet
    )


def document(kind: str, name: str, version: str = "v1", **rest: Any) -> Document:
    metadata = {"name": name, **rest.pop("metadata", {})}
    return {"kind": kind, "apiVersion": version, "metadata": metadata, **rest}


def pod(name: str, **spec: Any) -> Document:
    metadata = spec.pop("metadata", {})
    whole = {"containers": [{"name": "c", "image": "app:1"}], "schedulerName": "none", **spec}
    whole.setdefault("automountServiceAccountToken", False)
    return document("Pod", name, metadata=metadata, spec=whole)


TEMPLATE = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"containers": [{"name": "c", "image": "app:1"}], "schedulerName": "none"},
}
SETS = {"selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE}
ONCE = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
DEVICES = [
    {
        "name": "d0",
        "attributes": {"index": {"int": 0}, "model": {"string": "m"}},
        "capacity": {"memory": {"value": "8Gi"}},
    },
    {"name": "d1", "attributes": {"ok": {"bool": True}, "v": {"version": "1.2.3"}}},
]

#: collection → a whole object of it
OBJECTS: dict[str, Document] = {
    f"{NS}/configmaps": document("ConfigMap", "k", data={"a": "1"}, binaryData={"b": "aGk="}, immutable=True),
    f"{NS}/secrets": document("Secret", "k", data={"a": "aGk="}, stringData={"b": "there"}),
    f"{NS}/endpoints": document(
        "Endpoints", "k", subsets=[{"addresses": [{"ip": "10.1.1.1"}], "ports": [{"port": 80}]}]
    ),
    f"{NS}/limitranges": document(
        "LimitRange", "k", spec={"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "5Gi"}}]}
    ),
    "/api/v1/namespaces": document("Namespace", "k", metadata={"labels": {"team": "a"}}),
    "/api/v1/nodes": document(
        "Node",
        "k",
        metadata={"labels": {"zone": "a"}},
        spec={"taints": [{"key": "sla", "value": "950", "effect": "NoSchedule"}], "podCIDR": "10.2.0.0/24"},
        status={"capacity": {"cpu": "4", "memory": "8Gi"}},
    ),
    f"{NS}/persistentvolumeclaims": document(
        "PersistentVolumeClaim",
        "k",
        spec={
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "s",
        },
    ),
    "/api/v1/persistentvolumes": document(
        "PersistentVolume",
        "k",
        spec={
            "capacity": {"storage": "2Gi"},
            "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
            "hostPath": {"path": "/x"},
        },
    ),
    PODS: pod(
        "k",
        containers=[
            {
                "name": "c",
                "image": "app:1",
                "ports": [{"containerPort": 80}],
                "env": [
                    {"name": "A", "value": "1"},
                    {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                ],
                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
                "readinessProbe": {"httpGet": {"path": "/", "port": 80}},
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            }
        ],
        volumes=[{"name": "v", "configMap": {"name": "k"}}, {"name": "e", "emptyDir": {}}],
        tolerations=[{"key": "sla", "operator": "Gt", "value": "900", "effect": "NoSchedule"}],
    ),
    f"{NS}/podtemplates": document("PodTemplate", "k", template=TEMPLATE),
    f"{NS}/replicationcontrollers": document(
        "ReplicationController", "k", spec={"replicas": 2, "selector": {"app": "a"}, "template": TEMPLATE}
    ),
    f"{NS}/resourcequotas": document(
        "ResourceQuota", "k", spec={"hard": {"services": "5", "count/jobs.batch": "9"}}
    ),
    f"{NS}/serviceaccounts": document("ServiceAccount", "k", imagePullSecrets=[{"name": "s"}]),
    f"{NS}/services": document(
        "Service",
        "k",
        spec={"selector": {"app": "a"}, "clusterIP": "None", "ports": [{"port": 80, "name": "web"}]},
    ),
    f"{APPS}/controllerrevisions": document(
        "ControllerRevision", "k", "apps/v1", revision=3, data={"a": {"b": 1}}
    ),
    f"{APPS}/daemonsets": document("DaemonSet", "k", "apps/v1", spec=SETS),
    f"{APPS}/deployments": document("Deployment", "k", "apps/v1", spec={"replicas": 2, **SETS}),
    f"{APPS}/replicasets": document("ReplicaSet", "k", "apps/v1", spec={"replicas": 2, **SETS}),
    f"{APPS}/statefulsets": document(
        "StatefulSet",
        "k",
        "apps/v1",
        spec={
            **SETS,
            "serviceName": "k",
            "volumeClaimTemplates": [
                {
                    "metadata": {"name": "d"},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                }
            ],
        },
    ),
    "/apis/batch/v1/namespaces/default/jobs": document(
        "Job", "k", "batch/v1", spec={"template": ONCE, "suspend": True}
    ),
    "/apis/batch/v1/namespaces/default/cronjobs": document(
        "CronJob",
        "k",
        "batch/v1",
        spec={"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": ONCE}}},
    ),
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets": document(
        "PodDisruptionBudget",
        "k",
        "policy/v1",
        spec={"minAvailable": "50%", "selector": {"matchLabels": {"app": "a"}}},
    ),
    f"{DRA}/deviceclasses": document(
        "DeviceClass",
        "k",
        "resource.k8s.io/v1",
        spec={"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]},
    ),
    f"{DRA}/devicetaintrules": document(
        "DeviceTaintRule",
        "k",
        "resource.k8s.io/v1",
        spec={
            "deviceSelector": {"driver": "gpu.example.com"},
            "taint": {"key": "bad", "effect": "NoSchedule"},
        },
    ),
    CLAIMS: document(
        "ResourceClaim",
        "k",
        "resource.k8s.io/v1",
        spec={
            "devices": {
                "requests": [
                    {
                        "name": "r",
                        "exactly": {
                            "deviceClassName": "k",
                            "tolerations": [{"key": "bad", "operator": "Exists"}],
                        },
                    }
                ],
                "constraints": [{"requests": ["r"], "matchAttribute": "gpu.example.com/model"}],
            }
        },
    ),
    f"{DRA}/namespaces/default/resourceclaimtemplates": document(
        "ResourceClaimTemplate",
        "k",
        "resource.k8s.io/v1",
        spec={
            "spec": {
                "devices": {
                    "requests": [
                        {"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "k", "count": 2}]}
                    ]
                }
            }
        },
    ),
    f"{DRA}/resourceslices": document(
        "ResourceSlice",
        "k",
        "resource.k8s.io/v1",
        spec={
            "driver": "gpu.example.com",
            "nodeName": "k",
            "pool": {"name": "k", "generation": 1, "resourceSliceCount": 1},
            "devices": DEVICES,
        },
    ),
    "/apis/storage.k8s.io/v1/csidrivers": document(
        "CSIDriver", "csi.example.com", "storage.k8s.io/v1", spec={}
    ),
    "/apis/storage.k8s.io/v1/csinodes": document(
        "CSINode",
        "k",
        "storage.k8s.io/v1",
        spec={"drivers": [{"name": "csi.example.com", "nodeID": "k", "topologyKeys": []}]},
    ),
    "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities": document(
        "CSIStorageCapacity", "k", "storage.k8s.io/v1", storageClassName="s", capacity="1Gi"
    ),
    "/apis/storage.k8s.io/v1/storageclasses": document(
        "StorageClass", "s", "storage.k8s.io/v1", provisioner="p.example.com"
    ),
    "/apis/storage.k8s.io/v1/volumeattachments": document(
        "VolumeAttachment",
        "k",
        "storage.k8s.io/v1",
        spec={"attacher": "csi.example.com", "nodeName": "k", "source": {"persistentVolumeName": "k"}},
    ),
    "/apis/scheduling.k8s.io/v1/priorityclasses": document(
        "PriorityClass", "k", "scheduling.k8s.io/v1", value=1000, description="d"
    ),
    "/apis/coordination.k8s.io/v1/namespaces/default/leases": document(
        "Lease", "k", "coordination.k8s.io/v1", spec={"holderIdentity": "me", "leaseDurationSeconds": 15}
    ),
    "/apis/node.k8s.io/v1/runtimeclasses": document(
        "RuntimeClass", "k", "node.k8s.io/v1", handler="runc", overhead={"podFixed": {"cpu": "10m"}}
    ),
    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices": document(
        "EndpointSlice",
        "k",
        "discovery.k8s.io/v1",
        addressType="IPv4",
        endpoints=[{"addresses": ["10.1.1.2"], "conditions": {"ready": True}}],
        ports=[{"port": 80, "name": "web", "protocol": "TCP"}],
    ),
    f"{NS}/events": document(
        "Event",
        "k",
        involvedObject={"kind": "Pod", "namespace": "default", "name": "k"},
        reason="Because",
        message="m",
        type="Normal",
        source={"component": "me"},
        firstTimestamp="2026-01-01T00:00:00Z",
        lastTimestamp="2026-01-01T00:00:00Z",
        count=1,
    ),
    "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles": document(
        "Role",
        "k",
        "rbac.authorization.k8s.io/v1",
        rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    ),
    "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings": document(
        "RoleBinding",
        "k",
        "rbac.authorization.k8s.io/v1",
        roleRef={"kind": "Role", "name": "k", "apiGroup": "rbac.authorization.k8s.io"},
        subjects=[
            {"kind": "User", "name": "jane"},
            {"kind": "ServiceAccount", "name": "k", "namespace": "default"},
        ],
    ),
}


def objects() -> Iterator[Asked]:
    """Create every kind, and read it in every representation."""
    for path, body in OBJECTS.items():
        kind, name = body["kind"], body["metadata"]["name"]
        body = {
            **body,
            "metadata": {**body["metadata"], "labels": {"side": "y", **body["metadata"].get("labels", {})}},
        }
        yield Asked(f"{kind}: create", "POST", path, body)
        yield Asked(f"{kind}: create again", "POST", path, body)
        yield Asked(f"{kind}: get", "GET", f"{path}/{name}")
        yield Asked(f"{kind}: table", "GET", f"{path}?labelSelector=side", accept=TABLE)
        yield Asked(
            f"{kind}: table of one, wide objects", "GET", f"{path}/{name}?includeObject=Object", accept=TABLE
        )
        yield Asked(f"{kind}: list", "GET", f"{path}?fieldSelector=metadata.name%3D{name}")
        yield Asked(f"{kind}: partial", "GET", f"{path}/{name}", accept=PARTIAL)
        yield Asked(f"{kind}: empty body", "POST", path, {"kind": kind, "apiVersion": body["apiVersion"]})
        yield Asked(f"{kind}: bad names and labels", "POST", path, {
            **body, "metadata": {"name": "Bad_Name", "labels": {"a b": "c d"}, "annotations": {"x y": "z"}, "finalizers": ["no"]},
        })  # fmt: skip
        yield Asked(f"{kind}: unknown field", "POST", f"{path}?fieldValidation=Strict", {
            **body, "metadata": {"name": "strict", "bogus": 1}, "wrong": {"x": 1},
        })  # fmt: skip
        yield Asked(
            f"{kind}: label by merge patch",
            "PATCH",
            f"{path}/{name}",
            {"metadata": {"labels": {"l": "1"}}},
            MERGE,
        )
        yield Asked(f"{kind}: label by strategic patch", "PATCH", f"{path}/{name}", {
            "metadata": {"labels": {"l": None, "m": "2"}}}, STRATEGIC)  # fmt: skip
        yield Asked(f"{kind}: apply over it", "PATCH", f"{path}/{name}?fieldManager=a", json.dumps(
            {"kind": kind, "apiVersion": body["apiVersion"], "metadata": {"labels": {"m": "3"}}}), APPLY)  # fmt: skip
        yield Asked(f"{kind}: apply by force", "PATCH", f"{path}/{name}?fieldManager=a&force=true", json.dumps(
            {"kind": kind, "apiVersion": body["apiVersion"], "metadata": {"labels": {"m": "3"}}}), APPLY)  # fmt: skip
        yield Asked(f"{kind}: put without name", "PUT", f"{path}/{name}", {**body, "metadata": {}})
        yield Asked(f"{kind}: dry put", "PUT", f"{path}/{name}?dryRun=All", body)
        yield Asked(f"{kind}: unknown field selector", "GET", f"{path}?fieldSelector=spec.nope%3D1")
        yield Asked(f"{kind}: status", "PATCH", f"{path}/{name}/status", {"status": {}}, MERGE)
        yield Asked(f"{kind}: unknown subresource", "GET", f"{path}/{name}/nope")
        yield Asked(f"{kind}: get a missing one", "GET", f"{path}/missing")
        yield Asked(f"{kind}: delete a missing one", "DELETE", f"{path}/missing")


def lists() -> Iterator[Asked]:
    """Selectors, pages and versions of a collection."""
    for number in range(5):
        labels = {"app": "a" if number % 2 else "b", "n": str(number)}
        yield Asked(f"lists: pod {number}", "POST", PODS, pod(f"l{number}", metadata={"labels": labels}))
    queries = [
        "labelSelector=app%3Da", "labelSelector=app!%3Da", "labelSelector=app in (a,b),n notin (1)", "labelSelector=!app",
        "labelSelector=n%3E2", "labelSelector=n%3C2", "labelSelector=n%3Ex", "labelSelector=app in (", "labelSelector=,",
        "labelSelector=a b", "labelSelector=-a%3Db", "labelSelector=app%3D" + "x" * 64, "labelSelector=app in ()",
        "labelSelector=app%3D%3Da", "labelSelector=app%3Da,app%3Db", "labelSelector=app%3D", "labelSelector=%20app%20%3D%20a",
        "fieldSelector=spec.nodeName%3D", "fieldSelector=status.phase%3DPending,metadata.name%3Dl1",
        "fieldSelector=status.phase!%3DPending", "fieldSelector=spec.nodeName", "fieldSelector=a%3D%3Db",
        "fieldSelector=metadata.name%3Dl1,metadata.name%3Dl2", "fieldSelector=metadata.uid%3Dx",
        "fieldSelector=spec.restartPolicy%3DAlways&limit=1", "fieldSelector=metadata.name%3Da%5C,b",
        "limit=2", "limit=0", "limit=-1", "limit=x", "limit=2&continue=nonsense", "continue=e30",
        "limit=99999999999999999999", "resourceVersion=0", "resourceVersion=x", "resourceVersion=1&resourceVersionMatch=Exact",
        "resourceVersionMatch=Exact", "resourceVersionMatch=Nope&resourceVersion=1", "resourceVersion=0&resourceVersionMatch=Exact",
        "resourceVersion=999999999", "resourceVersion=-1", "timeoutSeconds=x", "sendInitialEvents=true",
        "allowWatchBookmarks=true", "watch=1&timeoutSeconds=1&resourceVersion=x", "watch=1&timeoutSeconds=1&limit=1&resourceVersion=999999999",
        "watch=true&sendInitialEvents=true&timeoutSeconds=1", "watch=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1",
        "pretty=true&limit=1", "includeObject=Nope", "dryRun=All", "fieldSelector=", "labelSelector=",
    ]  # fmt: skip
    for query in queries:
        yield Asked(f"lists: {query}", "GET", f"{PODS}?{query.replace(' ', '%20')}")
    for query in (
        "labelSelector=app%3Da",
        "includeObject=None&labelSelector=app",
        "includeObject=Nope",
        "limit=1&labelSelector=n",
    ):
        yield Asked(f"lists: table {query}", "GET", f"{PODS}?{query}", accept=TABLE)
        yield Asked(f"lists: partial {query}", "GET", f"{PODS}?{query}", accept=PARTIAL_LIST)
    for accept in ("text/html", "application/xml,*/*", "application/json;as=Nope;v=v1;g=meta.k8s.io",
                   "application/json;as=Table;v=v2;g=meta.k8s.io", "application/json;stream=watch", "application/yaml;q=0.5"):  # fmt: skip
        yield Asked(f"lists: accept {accept}", "GET", f"{PODS}?labelSelector=n%3D1", accept=accept)
    for path in ("/api/v1/pods?labelSelector=n%3D1", "/api/v1/namespaces/none/pods", "/api/v1/namespaces/none/pods/x",
                 "/apis/apps/v1/deployments?limit=1", "/api/v1/watch/namespaces/none/pods?timeoutSeconds=1",
                 "/api/v1/nope", "/apis/nope/v1/x", "/apis/apps/v2/deployments", "/apis/apps/v1/nope", "/nope", "/apis/apps/v1/",
                 "/api/v1/namespaces/default/pods/l1/log", "/api/v1/namespaces/default/pods/l1/status",
                 "/apis/autoscaling/v1/namespaces/default/scales"):  # fmt: skip
        yield Asked(f"lists: path {path}", "GET", path)
    for method in ("PUT", "PATCH"):
        yield Asked(
            f"lists: {method} on a collection",
            method,
            PODS,
            {},
            MERGE if method == "PATCH" else "application/json",
        )
    yield Asked("lists: post on an object", "POST", f"{PODS}/l1", pod("l1"))


def patches() -> Iterator[Asked]:
    """Every kind of patch, with its errors."""
    labels = {"a": "1", "b": "2", "c": "3"}
    containers = [
        {"name": "c", "image": "app:1", "env": [{"name": "A", "value": "1"}]},
        {"name": "d", "image": "app:2"},
    ]
    yield Asked("patches: pod", "POST", PODS, pod("t", metadata={"labels": labels}, containers=containers))
    yield Asked("patches: deployment", "POST", f"{APPS}/deployments", document(
        "Deployment", "t", "apps/v1", metadata={"labels": labels, "finalizers": ["x.example/a", "x.example/b"]},
        spec={**SETS, "template": {**TEMPLATE, "spec": {"containers": containers, "volumes": [{"name": "v", "emptyDir": {}}]}}}))  # fmt: skip
    target = f"{PODS}/t"
    operations: list[Any] = [
        [{"op": "add", "path": "/metadata/labels/x~1y", "value": "1"}], [{"op": "remove", "path": "/metadata/labels/nope"}],
        [{"op": "replace", "path": "/metadata/labels/nope", "value": "1"}], [{"op": "test", "path": "/metadata/labels/a", "value": "2"}],
        [{"op": "test", "path": "/metadata/labels/a", "value": "1"}, {"op": "remove", "path": "/metadata/labels/a"}],
        [{"op": "move", "from": "/metadata/labels/b", "path": "/metadata/labels/z"}],
        [{"op": "copy", "from": "/metadata/labels/nope", "path": "/metadata/labels/z"}],
        [{"op": "nope", "path": "/x"}], [{"op": "add", "path": "x", "value": 1}], [{"op": "add", "value": 1}], [{"path": "/x"}],
        {"op": "add"}, [1], [], "nope", "[", [{"op": "add", "path": "/metadata/labels", "value": 1}],
        [{"op": "add", "path": "/spec/tolerations/-", "value": {"key": "x", "operator": "Exists"}}],
        [{"op": "add", "path": "/spec/tolerations/99", "value": {"key": "x", "operator": "Exists"}}],
        [{"op": "add", "path": "/spec/bogus", "value": 1}], [{"op": "add", "path": "/status/phase", "value": "Running"}],
        [{"op": "replace", "path": "/metadata/name", "value": "other"}], [{"op": "remove", "path": "/spec"}],
        [{"op": "replace", "path": "/spec/containers/0/image", "value": "app:9"}],
        [{"op": "replace", "path": "/spec/containers/9/image", "value": "app:9"}],
        [{"op": "remove", "path": "/spec/containers/-1"}], [{"op": "replace", "path": "", "value": {}}],
        [{"op": "add", "path": "/metadata/annotations/k", "value": "v"}],
        [{"op": "test", "path": "/spec/nope", "value": None}], [{"op": "test", "path": "/metadata/labels/nope"}],
        [{"op": "add", "path": "/metadata/labels/n", "value": None}], [{"op": "move", "from": "/metadata", "path": "/metadata/labels"}],
    ]  # fmt: skip
    for number, operation in enumerate(operations):
        body = operation if isinstance(operation, str) else json.dumps(operation)
        yield Asked(f"patches: json {number} {body[:90]}", "PATCH", target, body, JSON_PATCH)
    merges: list[Any] = [
        {"metadata": {"labels": {"a": None, "k": "v"}}}, {"metadata": {"labels": None}}, {"metadata": None}, {"spec": None}, [], 1,
        "nope", {"spec": {"containers": [{"name": "c", "image": "app:5"}]}}, {"spec": {"activeDeadlineSeconds": 100}},
        {"spec": {"activeDeadlineSeconds": 200}}, {"spec": {"activeDeadlineSeconds": None}}, {"spec": {"nodeName": "k"}},
        {"metadata": {"name": "x"}}, {"metadata": {"namespace": "x"}}, {"metadata": {"uid": "x"}}, {"kind": "Nope"},
        {"apiVersion": "v2"}, {"metadata": {"resourceVersion": "1"}}, {"metadata": {"resourceVersion": "x"}}, {"spec": {"bogus": 1}},
        {"metadata": {"labels": {"a b": "c"}}}, {"metadata": {"annotations": {"k": "x" * 10}}}, {"metadata": {"finalizers": ["bad"]}},
        {"metadata": {"ownerReferences": [{"kind": "Pod"}]}}, {"metadata": {"generation": 9}}, {"metadata": {"creationTimestamp": None}},
        {"spec": {"terminationGracePeriodSeconds": 5}}, {"spec": {"tolerations": []}}, {"status": {"phase": "Running"}},
        {"metadata": {"managedFields": []}}, {"metadata": {"managedFields": [{}]}}, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {"metadata": {"labels": {"a": 1}}}, {"spec": {"containers": {}}}, {"spec": {"priority": 5}}, {"spec": {"schedulingGates": [{"name": "x.example/g"}]}},
    ]  # fmt: skip
    for number, change in enumerate(merges):
        body = change if isinstance(change, str) else json.dumps(change)
        yield Asked(f"patches: merge {number} {body[:90]}", "PATCH", target, body, MERGE)
    strategic: list[Any] = [
        {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "app:7"}]}}}},
        {"spec": {"template": {"spec": {"containers": [{"name": "d", "$patch": "delete"}]}}}},
        {"spec": {"template": {"spec": {"containers": [{"name": "c", "env": [{"name": "B", "value": "2"}]}]}}}},
        {"spec": {"template": {"spec": {"containers": [{"name": "c", "env": [{"$patch": "replace"}, {"name": "Z", "value": "9"}]}]}}}},
        {"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "n"}, {"name": "c"}],
                                        "containers": [{"name": "n", "image": "app:3"}]}}}},
        {"spec": {"template": {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}}}},
        {"spec": {"template": {"spec": {"containers": [{"image": "app:3"}]}}}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.example/a"]}},
        {"metadata": {"finalizers": ["x.example/c"]}}, {"metadata": {"labels": {"$patch": "replace", "only": "this"}}},
        {"metadata": {"labels": {"$patch": "delete"}}}, {"metadata": {"labels": {"$patch": "nope"}}},
        {"spec": {"template": {"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]}]}}}},
        {"spec": {"template": {"spec": {"containers": "nope"}}}}, {"spec": {"template": {"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}}}},
        {"spec": {"template": {"spec": {"tolerations": [{"key": "b", "operator": "Exists"}]}}}},
        {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}, {"spec": {"selector": {"matchLabels": {"app": "z"}}}},
        {"spec": {"replicas": None}}, {"spec": {"replicas": "x"}}, {"spec": {"bogus": 1}}, {"$patch": "delete"}, {"$patch": "replace", "metadata": {}},
        {"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "nope"}]}}}},
        {"spec": {"template": {"spec": {"$deleteFromPrimitiveList/containers": ["c"]}}}}, [], "nope",
        {"spec": {"template": {"spec": {"containers": [{"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}}}},
        {"spec": {"template": {"spec": {"containers": [{"name": "c", "volumeMounts": [{"mountPath": "/v", "$patch": "delete"}]}]}}}},
        {"spec": {"template": {"spec": {"imagePullSecrets": [{"name": "a"}], "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["x"]}]}}}},
        {"spec": {"template": {"spec": {"topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]}}}},
        {"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "x"}}}}},
    ]  # fmt: skip
    for number, change in enumerate(strategic):
        body = change if isinstance(change, str) else json.dumps(change)
        yield Asked(
            f"patches: strategic {number} {body[:110]}", "PATCH", f"{APPS}/deployments/t", body, STRATEGIC
        )
    yield Asked("patches: no content type known", "PATCH", target, {}, "application/json")
    yield Asked("patches: missing object", "PATCH", f"{PODS}/missing", {}, MERGE)
    yield Asked(
        "patches: strict unknown field",
        "PATCH",
        f"{target}?fieldValidation=Strict",
        {"spec": {"bogus": 1}},
        STRATEGIC,
    )
    yield Asked(
        "patches: strict duplicate",
        "PATCH",
        f"{target}?fieldValidation=Strict",
        '{"metadata":{"labels":{"a":"1","a":"2"}}}',
        MERGE,
    )
    yield Asked("patches: field validation unknown", "PATCH", f"{target}?fieldValidation=Nope", {}, MERGE)
    yield Asked("patches: manager too long", "PATCH", f"{target}?fieldManager={'x' * 129}", {}, MERGE)
    yield Asked("patches: force without apply", "PATCH", f"{target}?force=true", {}, MERGE)


def applies() -> Iterator[Asked]:
    """Server-side apply: ownership, conflicts, lists by key, giving up fields."""

    def by(
        manager: str,
        name: str,
        spec: Any,
        *,
        query: str = "",
        path: str = f"{APPS}/deployments",
        **metadata: Any,
    ) -> Asked:
        kind, version = ("Deployment", "apps/v1") if "deployments" in path else ("ConfigMap", "v1")
        whole = {"kind": kind, "apiVersion": version, "metadata": {"name": name, **metadata}, **spec}
        number = len(seen)
        seen.append(number)
        return Asked(
            f"applies: {number} {manager} {query}",
            "PATCH",
            f"{path}/{name}?fieldManager={manager}{query}",
            json.dumps(whole),
            APPLY,
        )

    seen: list[int] = []
    one = {"spec": {"replicas": 1, **SETS}}
    env = [{"name": "A", "value": "1"}]
    container = {"name": "c", "image": "app:1", "env": env, "ports": [{"containerPort": 80}]}
    more = {"spec": {"template": {"spec": {"containers": [{**container, "image": "app:2"}]}}}}
    side = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "s:1"}]}}}}
    yield by("one", "sa", one)
    yield by("one", "sa", one)
    yield by("two", "sa", more)
    yield by("two", "sa", more, query="&force=true")
    yield by("three", "sa", side)
    yield by("three", "sa", {"spec": {}})
    yield by("one", "sa", {"spec": {"replicas": 3, **SETS}})
    yield by("two", "sa", {"spec": {"replicas": 5}})
    yield by("two", "sa", {"spec": {"replicas": 3}}, labels={"x": "y"})
    yield by("two", "sa", {"spec": {}}, labels={"x": "z"}, annotations={"n": "1"})
    yield by("one", "sa", {"spec": {**SETS}})
    yield by("one", "sa", {"spec": {"replicas": None, **SETS}})
    yield by("one", "sa", {"spec": {"bogus": 1}})
    yield by("one", "sa", {"spec": {"bogus": 1}}, query="&fieldValidation=Strict")
    yield by("one", "sa", {"status": {"replicas": 1}})
    yield by("one", "sa", {}, managedFields=[{"manager": "x"}])
    yield by("one", "sa", {}, uid="wrong")
    yield by("one", "sa", {}, resourceVersion="1")
    yield by("one", "new", {"spec": {}})
    yield by("one", "dry", one, query="&dryRun=All")
    yield by("", "sa", one)
    yield by("one", "cm", {"data": {"a": "1", "b": "2"}}, path=f"{NS}/configmaps")
    yield by("two", "cm", {"data": {"a": "2", "c": "3"}}, path=f"{NS}/configmaps")
    yield by("two", "cm", {"data": {"a": "2", "c": "3"}}, path=f"{NS}/configmaps", query="&force=true")
    yield by("one", "cm", {"data": {"b": "9"}}, path=f"{NS}/configmaps")
    yield by("two", "cm", {"data": {}}, path=f"{NS}/configmaps")
    yield Asked(
        "applies: update steals", "PATCH", f"{NS}/configmaps/cm?fieldManager=up", {"data": {"b": "10"}}, MERGE
    )
    yield by("one", "cm", {"data": {"b": "11"}}, path=f"{NS}/configmaps")
    for number, body in enumerate(("", "x", "{", "[]", "a: b", "kind: Deployment", "kind: ConfigMap\napiVersion: v1\nmetadata: {name: cm}\ndata: {a: 1}",
                                   "kind: ConfigMap\napiVersion: v1\nmetadata: {name: other}", "kind: Pod\napiVersion: v1\nmetadata: {name: cm}",
                                   "kind: ConfigMap\napiVersion: v2\nmetadata: {name: cm}", "kind: ConfigMap\napiVersion: v1\nmetadata: {name: cm}\ndata: {a: b, a: c}")):  # fmt: skip
        yield Asked(f"applies: body {number}", "PATCH", f"{NS}/configmaps/cm?fieldManager=one", body, APPLY)
    yield Asked("applies: status", "PATCH", f"{APPS}/deployments/sa/status?fieldManager=st", json.dumps(
        {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "sa"}, "status": {"conditions": [
            {"type": "Available", "status": "True", "reason": "R", "lastUpdateTime": "2026-01-01T00:00:00Z"}]}}), APPLY)  # fmt: skip
    yield Asked("applies: scale", "PATCH", f"{APPS}/deployments/sa/scale?fieldManager=sc", json.dumps(
        {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "sa"}, "spec": {"replicas": 7}}), APPLY)  # fmt: skip
    yield Asked("applies: to a missing status", "PATCH", f"{APPS}/deployments/missing/status?fieldManager=st", json.dumps(
        {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "missing"}}), APPLY)  # fmt: skip


def subresources() -> Iterator[Asked]:
    """Binding, eviction, scale, status, ephemeral containers, resize, token."""
    yield Asked("sub: pod", "POST", PODS, pod("s", metadata={"labels": {"app": "s"}}))
    yield Asked("sub: gated pod", "POST", PODS, pod("g", schedulingGates=[{"name": "x.example/g"}]))
    target = {"target": {"kind": "Node", "name": "k"}}
    bind = document("Binding", "s", **target)
    yield Asked(
        "sub: bind wrong kind",
        "POST",
        f"{PODS}/s/binding",
        document("Binding", "s", target={"kind": "Pod", "name": "k"}),
    )
    yield Asked("sub: bind without target", "POST", f"{PODS}/s/binding", document("Binding", "s"))
    yield Asked("sub: bind gated", "POST", f"{PODS}/g/binding", document("Binding", "g", **target))
    yield Asked(
        "sub: bind missing", "POST", f"{PODS}/missing/binding", document("Binding", "missing", **target)
    )
    yield Asked("sub: bind other name", "POST", f"{PODS}/s/binding", document("Binding", "other", **target))
    yield Asked("sub: bind dry", "POST", f"{PODS}/s/binding?dryRun=All", bind)
    yield Asked("sub: bind", "POST", f"{PODS}/s/binding", bind)
    yield Asked("sub: bind again", "POST", f"{PODS}/s/binding", bind)
    yield Asked("sub: bound", "GET", f"{PODS}/s")
    for name, status in (
        ("phase", {"phase": "Running", "podIP": "10.0.0.5", "podIPs": [{"ip": "10.0.0.5"}]}),
        ("bad ip", {"podIP": "x", "podIPs": [{"ip": "x"}]}),
        ("conditions", {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}),
        ("containers", {"containerStatuses": [{"name": "c", "ready": True, "restartCount": 2, "image": "i", "imageID": "x",
                                               "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]}),
        ("nominated", {"nominatedNodeName": "Bad_Name"}),
    ):  # fmt: skip
        for content in (MERGE, STRATEGIC):
            yield Asked(
                f"sub: status {name} {content[12:17]}",
                "PATCH",
                f"{PODS}/s/status",
                {"status": status},
                content,
            )
    yield Asked("sub: status table", "GET", f"{PODS}/s", accept=TABLE)
    yield Asked("sub: status get", "GET", f"{PODS}/s/status")
    yield Asked("sub: status put", "PUT", f"{PODS}/s/status", pod("s"))
    debug = [{"name": "dbg", "image": "b"}]
    for name, containers in (("bad name", [{"name": "D_", "image": "b"}]), ("add", debug), ("change", [{"name": "dbg", "image": "c"}]),
                             ("with ports", [{"name": "e", "image": "b", "ports": [{"containerPort": 1}]}]), ("same as container", [{"name": "c", "image": "b"}])):  # fmt: skip
        yield Asked(
            f"sub: ephemeral {name}",
            "PATCH",
            f"{PODS}/s/ephemeralcontainers",
            {"spec": {"ephemeralContainers": containers}},
            STRATEGIC,
        )
    yield Asked(
        "sub: ephemeral changes other",
        "PATCH",
        f"{PODS}/s/ephemeralcontainers",
        {"spec": {"activeDeadlineSeconds": 5}},
        STRATEGIC,
    )
    for name, resources in (("requests", {"requests": {"cpu": "100m"}}), ("memory", {"limits": {"memory": "1Gi"}, "requests": {"memory": "1Gi"}}),
                            ("bad", {"requests": {"cpu": "-1"}}), ("other resource", {"requests": {"ephemeral-storage": "1Gi"}})):  # fmt: skip
        yield Asked(
            f"sub: resize {name}",
            "PATCH",
            f"{PODS}/s/resize",
            {"spec": {"containers": [{"name": "c", "resources": resources}]}},
            STRATEGIC,
        )
    eviction = document("Eviction", "s", "policy/v1")
    yield Asked(
        "sub: eviction other name", "POST", f"{PODS}/s/eviction", document("Eviction", "other", "policy/v1")
    )
    yield Asked(
        "sub: eviction missing",
        "POST",
        f"{PODS}/missing/eviction",
        document("Eviction", "missing", "policy/v1"),
    )
    yield Asked(
        "sub: eviction bad options",
        "POST",
        f"{PODS}/s/eviction",
        {**eviction, "deleteOptions": {"propagationPolicy": "Nope"}},
    )
    yield Asked(
        "sub: eviction precondition",
        "POST",
        f"{PODS}/s/eviction",
        {**eviction, "deleteOptions": {"preconditions": {"uid": "x"}}},
    )
    yield Asked(
        "sub: eviction dry", "POST", f"{PODS}/s/eviction", {**eviction, "deleteOptions": {"dryRun": ["All"]}}
    )
    yield Asked("sub: budget", "POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", document(
        "PodDisruptionBudget", "s", "policy/v1", spec={"minAvailable": 1, "selector": {"matchLabels": {"app": "s"}}}))  # fmt: skip
    yield Asked("sub: eviction against the budget", "POST", f"{PODS}/s/eviction", eviction)
    yield Asked("sub: second budget", "POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", document(
        "PodDisruptionBudget", "s2", "policy/v1", spec={"maxUnavailable": "10%", "selector": {"matchLabels": {"app": "s"}}}))  # fmt: skip
    yield Asked("sub: eviction against two budgets", "POST", f"{PODS}/s/eviction", eviction)
    for resource in ("deployments", "replicasets", "statefulsets"):
        scale = f"{APPS}/{resource}/k/scale"
        yield Asked(f"sub: scale {resource}", "GET", scale)
        yield Asked(f"sub: scale {resource} patch", "PATCH", scale, {"spec": {"replicas": 4}}, MERGE)
        yield Asked(f"sub: scale {resource} negative", "PATCH", scale, {"spec": {"replicas": -1}}, MERGE)
        yield Asked(f"sub: scale {resource} text", "PATCH", scale, {"spec": {"replicas": "x"}}, MERGE)
        yield Asked(f"sub: scale {resource} table", "GET", scale, accept=TABLE)
        yield Asked(
            f"sub: scale {resource} put",
            "PUT",
            scale,
            document("Scale", "k", "autoscaling/v1", metadata={"namespace": "default"}, spec={"replicas": 5}),
        )
        yield Asked(
            f"sub: scale {resource} put wrong kind",
            "PUT",
            scale,
            document("Deployment", "k", "apps/v1", spec={}),
        )
    yield Asked(
        "sub: token",
        "POST",
        f"{NS}/serviceaccounts/k/token",
        document("TokenRequest", "k", "authentication.k8s.io/v1", spec={"expirationSeconds": 5}),
    )
    yield Asked(
        "sub: token missing account",
        "POST",
        f"{NS}/serviceaccounts/missing/token",
        {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {}},
    )
    yield Asked(
        "sub: finalize",
        "PUT",
        "/api/v1/namespaces/k/finalize",
        document("Namespace", "k", spec={"finalizers": ["kubernetes", "x.example/f"]}),
    )
    yield Asked(
        "sub: node status",
        "PATCH",
        "/api/v1/nodes/k/status",
        {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
        STRATEGIC,
    )
    yield Asked(
        "sub: node status capacity",
        "PATCH",
        "/api/v1/nodes/k/status",
        {"status": {"capacity": {"cpu": "-1"}}},
        MERGE,
    )
    yield Asked("sub: claim status", "PATCH", f"{CLAIMS}/k/status", {"status": {"allocation": {"devices": {"results": [
        {"request": "r", "driver": "gpu.example.com", "pool": "k", "device": "d0"}]}}}}, MERGE)  # fmt: skip
    yield Asked(
        "sub: claim reserve",
        "PATCH",
        f"{CLAIMS}/k/status",
        {"status": {"reservedFor": [{"resource": "pods", "name": "s", "uid": "u"}]}},
        MERGE,
    )
    yield Asked("sub: claim table", "GET", f"{CLAIMS}/k", accept=TABLE)
    yield Asked(
        "sub: claim deallocate while reserved",
        "PATCH",
        f"{CLAIMS}/k/status",
        {"status": {"allocation": None}},
        MERGE,
    )
    yield Asked("sub: rule status", "PATCH", f"{DRA}/devicetaintrules/k/status", {"status": {"conditions": [
        {"type": "EvictionInProgress", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}, MERGE)  # fmt: skip
    yield Asked(
        "sub: bad rule condition",
        "PATCH",
        f"{DRA}/devicetaintrules/k/status",
        {"status": {"conditions": [{"type": "x y", "status": "Maybe"}]}},
        MERGE,
    )


def updates() -> Iterator[Asked]:
    """What may not change, kind by kind, and odd values in options and bodies."""
    immutable: list[tuple[str, str, Any]] = [
        ("configmap", f"{NS}/configmaps/k", {"data": {"a": "2"}}), ("secret type", f"{NS}/secrets/k", {"type": "x/y"}),
        ("pvc grow", f"{NS}/persistentvolumeclaims/k", {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}),
        ("pvc class", f"{NS}/persistentvolumeclaims/k", {"spec": {"storageClassName": "z"}}),
        ("pv source", "/api/v1/persistentvolumes/k", {"spec": {"hostPath": {"path": "/z"}}}),
        ("pv capacity", "/api/v1/persistentvolumes/k", {"spec": {"capacity": {"storage": "3Gi"}}}),
        ("deployment selector", f"{APPS}/deployments/k", {"spec": {"selector": {"matchLabels": {"app": "z"}}}}),
        ("replicaset selector", f"{APPS}/replicasets/k", {"spec": {"selector": {"matchLabels": {"app": "z"}}}}),
        ("statefulset service", f"{APPS}/statefulsets/k", {"spec": {"serviceName": "z"}}),
        ("statefulset replicas", f"{APPS}/statefulsets/k", {"spec": {"replicas": 3}}),
        ("daemonset template", f"{APPS}/daemonsets/k", {"spec": {"template": {"spec": {"hostNetwork": True}}}}),
        ("job completions", "/apis/batch/v1/namespaces/default/jobs/k", {"spec": {"completions": 3}}),
        ("job parallelism", "/apis/batch/v1/namespaces/default/jobs/k", {"spec": {"parallelism": 3}}),
        ("cronjob schedule", "/apis/batch/v1/namespaces/default/cronjobs/k", {"spec": {"schedule": "nope"}}),
        ("service cluster ip", f"{NS}/services/k", {"spec": {"clusterIP": "10.0.0.9"}}),
        ("priority value", "/apis/scheduling.k8s.io/v1/priorityclasses/k", {"value": 5}),
        ("storage class", "/apis/storage.k8s.io/v1/storageclasses/s", {"provisioner": "z"}),
        ("storage class binding", "/apis/storage.k8s.io/v1/storageclasses/s", {"volumeBindingMode": "WaitForFirstConsumer"}),
        ("csi driver", "/apis/storage.k8s.io/v1/csidrivers/csi.example.com", {"spec": {"attachRequired": False}}),
        ("csi node", "/apis/storage.k8s.io/v1/csinodes/k", {"spec": {"drivers": [{"name": "csi.example.com", "nodeID": "z"}]}}),
        ("runtime handler", "/apis/node.k8s.io/v1/runtimeclasses/k", {"handler": "z"}),
        ("attachment", "/apis/storage.k8s.io/v1/volumeattachments/k", {"spec": {"nodeName": "z"}}),
        ("role ref", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings/k", {"roleRef": {"name": "z"}}),
        ("slice pool", f"{DRA}/resourceslices/k", {"spec": {"pool": {"name": "z"}}}), ("slice node", f"{DRA}/resourceslices/k", {"spec": {"nodeName": "z"}}),
        ("claim spec", f"{CLAIMS}/k", {"spec": {"devices": {"requests": []}}}),
        ("claim template", f"{DRA}/namespaces/default/resourceclaimtemplates/k", {"spec": {"metadata": {"labels": {"x": "y"}}}}),
        ("rule taint", f"{DRA}/devicetaintrules/k", {"spec": {"taint": {"effect": "NoExecute"}}}),
        ("rule selector", f"{DRA}/devicetaintrules/k", {"spec": {"deviceSelector": {"driver": "z.example.com"}}}),
        ("slice type", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/k", {"addressType": "IPv6"}),
        ("node taints", "/api/v1/nodes/k", {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}]}}),
        ("node cidr", "/api/v1/nodes/k", {"spec": {"podCIDR": "10.3.0.0/24", "podCIDRs": ["10.3.0.0/24"]}}),
        ("node provider", "/api/v1/nodes/k", {"spec": {"providerID": "a"}}), ("node provider again", "/api/v1/nodes/k", {"spec": {"providerID": "b"}}),
        ("lease", "/apis/coordination.k8s.io/v1/namespaces/default/leases/k", {"spec": {"leaseDurationSeconds": 0}}),
        ("budget selector", "/apis/policy/v1/namespaces/default/poddisruptionbudgets/k", {"spec": {"maxUnavailable": 1}}),
        ("quota", f"{NS}/resourcequotas/k", {"spec": {"hard": {"services": "-1", "nope nope": "1"}}}),
        ("account", f"{NS}/serviceaccounts/k", {"automountServiceAccountToken": False}),
        ("controller revision", f"{APPS}/controllerrevisions/k", {"revision": 4, "data": {"z": 1}}),
        ("event", f"{NS}/events/k", {"count": 2, "series": {"count": 1}}),
    ]  # fmt: skip
    for name, path, change in immutable:
        yield Asked(f"updates: {name}", "PATCH", path, change, MERGE)
    for query in (
        "dryRun=Nope",
        "fieldValidation=Nope",
        "fieldManager=a%01b",
        "fieldManager=" + "x" * 129,
        "dryRun=All&dryRun=All",
    ):
        yield Asked(
            f"updates: create with {query[:40]}",
            "POST",
            f"{NS}/configmaps?{query}",
            document("ConfigMap", "o"),
        )
    bodies: list[tuple[str, Any, str]] = [
        ("list kind", {"kind": "PodList", "apiVersion": "v1", "items": []}, "application/json"), ("null", "null", "application/json"),
        ("array", "[]", "application/json"), ("number", "1", "application/json"), ("text", "nope", "application/json"), ("cut off", '{"kind"', "application/json"),
        ("yaml", "kind: Pod\napiVersion: v1\nmetadata: {name: y}\nspec: {containers: [{name: c, image: i}]}", "application/yaml"),
        ("bad yaml", "a: [", "application/yaml"), ("xml", "<a/>", "application/xml"), ("kind only", {"kind": "Pod"}, "application/json"),
        ("version only", {"apiVersion": "v1"}, "application/json"), ("other group", document("Deployment", "x", "apps/v1"), "application/json"),
        ("duplicate keys", '{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","name":"b"}}', "application/json"),
        ("deep types", {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": 1}}, "application/json"),
        ("wrong list", {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "x"}, "spec": {"containers": [1]}}, "application/json"),
        ("bad quantity", pod("q", containers=[{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1x"}}}]), "application/json"),
        ("bad port", pod("q", containers=[{"name": "c", "image": "i", "ports": [{"containerPort": 99999999999}]}]), "application/json"),
        ("float port", pod("q", containers=[{"name": "c", "image": "i", "ports": [{"containerPort": 1.5}]}]), "application/json"),
        ("bad time", {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "x", "creationTimestamp": "yesterday"}}, "application/json"),
        ("generate", {"kind": "Pod", "apiVersion": "v1", "metadata": {"generateName": "gen-"}, "spec": pod("x")["spec"]}, "application/json"),
        ("generate long", {"kind": "Pod", "apiVersion": "v1", "metadata": {"generateName": "g" * 70}, "spec": pod("x")["spec"]}, "application/json"),
        ("namespace other", pod("x", metadata={"namespace": "other"}), "application/json"), ("version set", pod("x", metadata={"resourceVersion": "1"}), "application/json"),
        ("owner", pod("ow", metadata={"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u"}]}), "application/json"),
        ("bad owner", pod("ow2", metadata={"ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "", "uid": ""}]}), "application/json"),
    ]  # fmt: skip
    for name, body, content in bodies:
        yield Asked(f"updates: body {name}", "POST", PODS, body, content)


def deletes() -> Iterator[Asked]:
    """Deletes with every option, and collections."""
    yield Asked(
        "deletes: pod",
        "POST",
        PODS,
        pod("x", metadata={"finalizers": ["x.example/f"], "labels": {"del": "y"}}),
    )
    yield Asked("deletes: other pod", "POST", PODS, pod("x2", metadata={"labels": {"del": "y"}}))
    options: list[tuple[str, Any]] = [
        ("?gracePeriodSeconds=x", None), ("?dryRun=Nope", None), ("?propagationPolicy=Nope", None), ("?orphanDependents=true&propagationPolicy=Orphan", None),
        ("", {"preconditions": {"uid": "x"}}), ("", {"preconditions": {"resourceVersion": "1"}}), ("", {"kind": "Pod", "apiVersion": "v1"}), ("", "nope"),
        ("", {"gracePeriodSeconds": "x"}), ("", {"bogus": 1}), ("", {"gracePeriodSeconds": -1, "dryRun": ["All"]}), ("?dryRun=All", None),
        ("?propagationPolicy=Foreground&dryRun=All", None), ("?gracePeriodSeconds=5&dryRun=All", {"gracePeriodSeconds": 7}),
    ]  # fmt: skip
    for number, (query, body) in enumerate(options):
        yield Asked(f"deletes: {number} {query} {json.dumps(body)[:40]}", "DELETE", f"{PODS}/x{query}", body)
    yield Asked("deletes: foreground", "DELETE", f"{APPS}/replicasets/k?propagationPolicy=Foreground")
    yield Asked("deletes: orphan", "DELETE", f"{APPS}/deployments/k?propagationPolicy=Orphan")
    yield Asked("deletes: table of the dying", "GET", f"{APPS}/deployments/k", accept=TABLE)
    yield Asked("deletes: held by a finalizer", "DELETE", f"{PODS}/x")
    yield Asked("deletes: again", "DELETE", f"{PODS}/x")
    yield Asked("deletes: dying table", "GET", f"{PODS}/x", accept=TABLE)
    yield Asked(
        "deletes: new finalizer while dying",
        "PATCH",
        f"{PODS}/x",
        {"metadata": {"finalizers": ["x.example/f", "y.example/f"]}},
        MERGE,
    )
    yield Asked("deletes: finalizer taken", "PATCH", f"{PODS}/x", {"metadata": {"finalizers": None}}, MERGE)
    yield Asked("deletes: gone", "GET", f"{PODS}/x")
    yield Asked("deletes: collection dry", "DELETE", f"{PODS}?labelSelector=del%3Dy&dryRun=All")
    yield Asked("deletes: collection bad selector", "DELETE", f"{PODS}?labelSelector=a%20b")
    yield Asked("deletes: collection", "DELETE", f"{PODS}?labelSelector=del%3Dy")
    yield Asked(
        "deletes: collection of jobs", "DELETE", "/apis/batch/v1/namespaces/default/jobs?labelSelector=none"
    )
    yield Asked("deletes: collection of namespaces", "DELETE", "/api/v1/namespaces")
    yield Asked("deletes: collection of services", "DELETE", f"{NS}/services?labelSelector=side")
    for path, body in OBJECTS.items():
        if body["kind"] not in ("Deployment", "ReplicaSet", "Namespace"):
            name = body["metadata"]["name"]
            yield Asked(f"deletes: {body['kind']} dry", "DELETE", f"{path}/{name}?dryRun=All")
            yield Asked(f"deletes: {body['kind']}", "DELETE", f"{path}/{name}")


CASES: list[Asked] = [*objects(), *lists(), *patches(), *applies(), *subresources(), *updates(), *deletes()]

#: cases in which weir answers otherwise on purpose, with the reason
DIFFERENT: dict[str, str] = {
    "Service: empty body": "upstream allocates an address before it validates, and that fails without a name",
    "lists: limit=2&continue=nonsense": "the decoder names the byte of a text that is not UTF-8",
    "lists: path /api/v1/namespaces/default/pods/l1/log": "simulated nodes have no logs, and say so",
    "sub: status bad ip strat": "an address that is none is told once",
    "sub: ephemeral changes other": "upstream notes an owner of the field it then puts back",
    "sub: resize bad": "a negative amount is told once",
    "updates: claim template": "the value is shown in the API's spelling, upstream's in that of its Go struct",
}
