"""Extended resources backed by DRA: the devices a pod's request means, and the claim made for them.

Spec: KEP-5004 "DRA Extended Resource", dra.md 1.1 (names), 1.9, 1.11, 2.4. A DeviceClass that names a resource offers
its devices to pods that request it. One claim covers all such requests of a pod; the scheduler creates it right
before binding. A node whose device plugin offers the resource serves it as before, so each node may need a different
claim; such requests have no tolerations. Init containers that finish share one request, the largest, and use the
devices of containers that start later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from weir.objects.core import Container, Pod, read
from weir.objects.requests import container_requests, pod_requests, restarts
from weir.objects.resource import DeviceClass, ResourceClaim
from weir.scheduler.claims import EXTENDED_CLAIM, IMPLICIT_PREFIX, Claims
from weir.scheduler.pod_class import PodClass
from weir.validate.core.resources import is_extended

Document = dict[str, Any]

#: A claim that is only in memory; no claim can be called this.
UNWRITTEN: Final = "<extended-resources>"
STALE: Final = "cannot schedule extended resource claim"
NO_SUCH_RESOURCE: Final = "cannot fit resource"


def may_be_offered(resource: str) -> bool:
    """Return whether *resource* may be offered by devices: an extended resource, or a class by its name.

    >>> [may_be_offered(name) for name in ("example.com/gpu", "cpu", "hugepages-2Mi", "kubernetes.io/x")]
    [True, False, False, False]
    """
    return resource.startswith(IMPLICIT_PREFIX) or is_extended(resource)


def offered_by_devices(pod: PodClass, claims: Claims) -> frozenset[str]:
    """Return the resources *pod* requests that devices offer, on nodes whose device plugins do not."""
    extended = claims.extended
    return frozenset(name for name, amount in pod.requests.items() if amount and name in extended)


def class_offers(device_class: DeviceClass, pod: Pod) -> bool:
    """Return whether *device_class* offers an extended resource that *pod* requests."""
    wanted = pod_requests(pod)
    if wanted.get(f"{IMPLICIT_PREFIX}{device_class.name}"):
        return True
    offered = device_class.spec.extended_resource_name
    return bool(offered and wanted.get(offered))


def requests_and_mappings(
    pod: Pod, resources: Iterable[str], classes: Mapping[str, str]
) -> tuple[list[Document], list[Document]]:
    """Return the requests of the claim for *resources*, and which container's resource each of them serves.

    >>> container = {"name": "c", "resources": {"requests": {"cpu": "1", "example.com/gpu": "2"}}}
    >>> pod = read(Pod, {"metadata": {"name": "p"}, "spec": {"containers": [container]}})
    >>> requests, mappings = requests_and_mappings(pod, ["example.com/gpu"], {"example.com/gpu": "gpu"})
    >>> requests[0]["name"], requests[0]["exactly"]["count"], mappings[0]["containerName"]
    ('container-0-request-1', 2, 'c')
    """
    starting = list(pod.spec.init_containers or ())
    containers = [*starting, *pod.spec.containers]
    lasting = [i for i, one in enumerate(containers) if i >= len(starting) or restarts(one)]
    passing = [i for i in range(len(starting)) if i not in lasting]
    requests: list[Document] = []
    mappings: list[Document] = []
    for resource in sorted(resources):
        own: list[Document | None] = [None] * len(containers)
        of_lasting: list[Document] = []
        for index in lasting:
            own[index], mapped = _of_container(index, containers[index], resource, classes[resource], ())
            of_lasting += mapped
        largest: Document | None = None
        names: set[str] = set()
        of_passing: list[Document] = []
        for index in passing:
            later = [one for one in own[index:] if one is not None]
            asked, mapped = _of_container(index, containers[index], resource, classes[resource], later)
            of_passing += mapped
            if asked is not None:
                names.add(asked["name"])
                if largest is None or largest["exactly"]["count"] < asked["exactly"]["count"]:
                    largest = asked
        if largest is not None:
            requests.append(largest)
            for mapping in of_passing:
                if mapping["requestName"] in names:
                    mapping["requestName"] = largest["name"]
        requests += [one for one in own if one is not None]
        mappings += [*of_lasting, *of_passing]
    return sorted(requests, key=lambda request: str(request["name"])), mappings


def _of_container(
    index: int, container: Container, resource: str, device_class: str, reusable: Sequence[Document]
) -> tuple[Document | None, list[Document]]:
    """Return what a container requests beyond what it can reuse, and what serves it."""
    wanted = container_requests(container).get(resource, 0)
    if not wanted:
        return None, []

    def served_by(name: str) -> Document:
        return {"containerName": container.name, "resourceName": resource, "requestName": name}

    there = 0
    mappings: list[Document] = []
    for request in reusable:
        there += request["exactly"]["count"]
        mappings.append(served_by(request["name"]))
        if there >= wanted:
            return None, mappings
    resources = container.resources
    keys = sorted((resources.requests or resources.limits or {}) if resources is not None else {})
    name = f"container-{index}-request-{keys.index(resource) if resource in keys else 0}"
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": wanted - there}
    return {"name": name, "exactly": exactly}, [*mappings, served_by(name)]


def claim_document(pod: Pod, requests: Sequence[Document]) -> Document:
    """Return the claim for a pod's extended resources as it is created."""
    metadata = pod.metadata
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": metadata.name,
        "uid": metadata.uid,
        "controller": True,
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "namespace": metadata.namespace or "default",
            "generateName": f"{metadata.name}-extended-resources-",
            "annotations": {EXTENDED_CLAIM: "true"},
            "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": list(requests)}},
    }


def unwritten_claim(pod: Pod, requests: Sequence[Document]) -> ResourceClaim:
    """Return the same claim before it exists: devices are searched and promised for it."""
    document = claim_document(pod, requests)
    metadata = {**document["metadata"], "name": UNWRITTEN, "uid": f"{UNWRITTEN} {pod.metadata.uid}"}
    return read(ResourceClaim, {**document, "metadata": metadata})
