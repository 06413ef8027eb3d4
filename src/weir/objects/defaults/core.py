"""Defaults of core/v1: pods and everything a pod is made of, nodes, volumes, claims, services, namespaces.

Spec: apiserver.md 5.1 "Pod", 5.2 "Other kinds".
"""

from __future__ import annotations

import base64
from typing import Any, Final

from weir.objects import schema

ALWAYS, IF_NOT_PRESENT = "Always", "IfNotPresent"


def fill(into: dict[str, Any], key: str, value: Any) -> None:
    """Set *key* where it is absent; zero is a value."""
    if into.get(key) is None:
        into[key] = value


def pod(pod: dict[str, Any]) -> None:
    """Rules a pod has and a pod template has not."""
    spec = pod.setdefault("spec", {})
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for kind in ("containers", "initContainers"):
        for container in spec.get(kind) or ():
            resources = container.get("resources")
            if resources and (limits := resources.get("limits")):
                resources["requests"] = {**limits, **(resources.get("requests") or {})}
            if spec.get("hostNetwork"):
                for port in container.get("ports") or ():
                    if not port.get("hostPort") and port.get("containerPort"):
                        port["hostPort"] = port["containerPort"]


def pod_spec(spec: dict[str, Any]) -> None:
    """serviceAccount is the old name of serviceAccountName."""
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def pod_status(status: dict[str, Any]) -> None:
    """podIP and podIPs[0] are the same address."""
    ip, ips = status.get("podIP"), status.get("podIPs")
    if ip and (not ips or ips[0].get("ip") != ip):
        status["podIPs"] = [{"ip": ip}]
    elif ips and not ip and ips[0].get("ip"):
        status["podIP"] = ips[0]["ip"]


def container(container: dict[str, Any]) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = pull_policy(container.get("image") or "")


def pull_policy(image: str) -> str:
    """Return the pull policy of an image that names none.

    >>> pull_policy("nginx"), pull_policy("host:5000/nginx"), pull_policy("nginx:1.27"), pull_policy("nginx@sha256:0")
    ('Always', 'Always', 'IfNotPresent', 'IfNotPresent')
    """
    if not image:
        return IF_NOT_PRESENT  # a name that cannot be read has no tag
    name = image.rpartition("/")[2]
    tagged, _, digest = name.partition("@")
    tag = tagged.partition(":")[2]
    if digest:
        return ALWAYS if tag == "latest" else IF_NOT_PRESENT
    return ALWAYS if tag in ("", "latest") else IF_NOT_PRESENT


_SOURCES: Final = frozenset(f.name for f in schema.struct("core.v1.Volume").fields.values() if f.embedded)


def volume(volume: dict[str, Any]) -> None:
    if _SOURCES.isdisjoint(volume):
        volume["emptyDir"] = {}
    image = volume.get("image")
    if image is not None and not image.get("pullPolicy"):
        image["pullPolicy"] = pull_policy(image.get("reference") or "")


def replication_controller(controller: dict[str, Any]) -> None:
    spec = controller.setdefault("spec", {})
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        metadata = controller.setdefault("metadata", {})
        if not metadata.get("labels"):
            metadata["labels"] = dict(labels)


def service(service: dict[str, Any]) -> None:
    spec = service.setdefault("spec", {})
    if not spec.get("sessionAffinity"):
        spec["sessionAffinity"] = "None"
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        client = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        if client.get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
    if not spec.get("type"):
        spec["type"] = "ClusterIP"
    for port in spec.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
        if not port.get("targetPort"):
            port["targetPort"] = port.get("port", 0)
    kind = spec["type"]
    outside = kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and spec.get("externalIPs"))
    if outside and not spec.get("externalTrafficPolicy"):
        spec["externalTrafficPolicy"] = "Cluster"
    if spec.get("internalTrafficPolicy") is None and kind in ("NodePort", "LoadBalancer", "ClusterIP"):
        spec["internalTrafficPolicy"] = "Cluster"
    if kind == "LoadBalancer":
        if spec.get("allocateLoadBalancerNodePorts") is None:
            spec["allocateLoadBalancerNodePorts"] = True
        balancer = (service.get("status") or {}).get("loadBalancer") or {}
        for ingress in balancer.get("ingress") or ():
            if ingress.get("ip") and ingress.get("ipMode") is None:
                ingress["ipMode"] = "VIP"


def secret(secret: dict[str, Any]) -> None:
    """The write-only `stringData` moves into `data`."""
    if texts := secret.pop("stringData", None):
        data = secret.setdefault("data", {})
        for key, text in texts.items():
            data[key] = base64.b64encode(text.encode()).decode()


def namespace(namespace: dict[str, Any]) -> None:
    metadata = namespace.setdefault("metadata", {})
    if name := metadata.get("name"):
        labels = metadata.get("labels") or {}
        metadata["labels"] = {**labels, "kubernetes.io/metadata.name": name}


def node_spec(spec: dict[str, Any]) -> None:
    """podCIDR and podCIDRs[0] are the same range."""
    one, many = spec.get("podCIDR"), spec.get("podCIDRs")
    if one and (not many or many[0] != one):
        spec["podCIDRs"] = [one]
    elif many and not one and many[0]:
        spec["podCIDR"] = many[0]


def node_status(status: dict[str, Any]) -> None:
    if not status.get("allocatable") and status.get("capacity"):
        status["allocatable"] = dict(status["capacity"])


def limit_range_item(item: dict[str, Any]) -> None:
    """A container's default limit is its maximum; its default request is the default limit, else the minimum."""
    if item.get("type") != "Container":
        return
    limits = {**(item.get("max") or {}), **(item.get("default") or {})}
    requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
    if limits:
        item["default"] = limits
    if requests:
        item["defaultRequest"] = requests


RULES: Final = {
    "core.v1.Pod": pod,
    "core.v1.PodSpec": pod_spec,
    "core.v1.PodStatus": pod_status,
    "core.v1.Container": container,
    "core.v1.EphemeralContainer": container,
    "core.v1.Volume": volume,
    "core.v1.ReplicationController": replication_controller,
    "core.v1.Service": service,
    "core.v1.Secret": secret,
    "core.v1.Namespace": namespace,
    "core.v1.NodeSpec": node_spec,
    "core.v1.NodeStatus": node_status,
    "core.v1.LimitRangeItem": limit_range_item,
}
