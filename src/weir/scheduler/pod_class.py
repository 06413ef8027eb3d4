"""Pod classes: pods with equal scheduling input, evaluated together.

A Deployment's pods differ in name and UID only. A class holds what is derived from the pod: requests as numbers, host
ports, image names, selectors.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import msgspec
from msgspec.structs import astuple

from weir.objects.core import Affinity, Pod, Toleration, TopologySpreadConstraint
from weir.objects.pod_reader import relevant_volumes
from weir.objects.requests import (
    HostPort,
    has_allocated_resources,
    has_pod_level_requests,
    host_ports,
    pod_requests,
    unit_nanos,
)

#: What a container without a request counts as in scoring, so that many such pods still spread.
DEFAULT_MILLI_CPU: Final = 100
DEFAULT_MEMORY: Final = 200 * 1024 * 1024
_DEFAULTS: Final = {
    "cpu": DEFAULT_MILLI_CPU * unit_nanos("cpu"),
    "memory": DEFAULT_MEMORY * unit_nanos("memory"),
}


@dataclass(frozen=True, eq=False)
class PodClass:
    """Everything the plugins read of a pod; equal pods share one object."""

    key: Hashable
    pod: Pod  #: the first pod of this class, for plugins that read rare fields
    requests: dict[str, int]
    nonzero_cpu: int
    nonzero_memory: int
    host_ports: tuple[HostPort, ...]

    @cached_property
    def namespace(self) -> str:
        return self.pod.metadata.namespace or "default"

    @cached_property
    def labels(self) -> dict[str, str]:
        return self.pod.metadata.labels or {}

    @cached_property
    def terminating(self) -> bool:
        return bool(self.pod.metadata.deletion_timestamp)

    @property
    def tolerations(self) -> tuple[Toleration, ...]:
        return self.pod.spec.tolerations or ()

    @cached_property
    def affinity(self) -> Affinity | None:
        return self.pod.spec.affinity

    @property
    def spread(self) -> tuple[TopologySpreadConstraint, ...]:
        return self.pod.spec.topology_spread_constraints or ()

    @cached_property
    def images(self) -> tuple[str, ...]:
        """The images of the pod, each with its tag, once for every container that uses it."""
        return tuple(_images(self.pod))


@dataclass(frozen=True)
class Usage:
    """What pods take of their node together."""

    requests: dict[str, int]
    nonzero_cpu: int
    nonzero_memory: int
    with_ports: tuple[PodClass, ...]


class SeatedPods(dict[str, PodClass]):
    """Pods by key that stay on their node and only take room there; not changed once their usage was asked for."""

    @cached_property
    def usage(self) -> Usage:
        """What they take together, worked out once for every table that counts them."""
        requests: dict[str, int] = {}
        for pod in self.values():
            for name, amount in pod.requests.items():
                requests[name] = requests.get(name, 0) + amount
        return Usage(
            requests,
            sum([pod.nonzero_cpu for pod in self.values()]),
            sum([pod.nonzero_memory for pod in self.values()]),
            tuple([pod for pod in self.values() if pod.host_ports]),
        )


def _images(pod: Pod) -> Iterator[str]:
    for container in (*(pod.spec.init_containers or ()), *pod.spec.containers):
        if container.image:
            yield with_tag(container.image)
    for volume in pod.spec.volumes or ():
        if volume.image is not None and volume.image.reference:
            yield with_tag(volume.image.reference)


def with_tag(image: str) -> str:
    """Return *image* with `:latest` when it names neither tag nor digest.

    >>> with_tag("registry:5000/app"), with_tag("app:v1")
    ('registry:5000/app:latest', 'app:v1')
    """
    if image.rfind(":") <= image.rfind("/"):
        return f"{image}:latest"
    return image


#: So many classes are known; a pod of one that was forgotten is of a new class.
_MOST_CLASSES: Final = 16384
_MOST_SPECS: Final = 4096


@dataclass
class PodClasses:
    """Hands out one PodClass for all pods that scheduling does not distinguish."""

    _known: dict[Hashable, PodClass] = field(default_factory=dict)
    #: by the identity of containers that pods share: one of them, and its class
    _by_spec: dict[int, tuple[Pod, PodClass]] = field(default_factory=dict)
    _terminating: dict[PodClass, PodClass] = field(default_factory=dict)

    def of(self, pod: Pod) -> PodClass:
        """Return the class of *pod*."""
        key_of_spec = id(pod.spec.containers)
        alike = self._by_spec.get(key_of_spec)
        if alike is not None and _is_alike(alike[0], pod):
            return alike[1]
        key = class_key(pod)
        pod_class = self._known.get(key)
        if pod_class is None:
            if len(self._known) >= _MOST_CLASSES:
                self.forget(_MOST_CLASSES // 2)
            pod_class = self._known[key] = build(pod, key)
        if len(self._by_spec) >= _MOST_SPECS:
            self._by_spec.clear()
        self._by_spec[key_of_spec] = (pod, pod_class)
        return pod_class

    def terminating(self, pod_class: PodClass) -> PodClass:
        """Return the class of pods of *pod_class* that are being deleted."""
        if pod_class.terminating:
            return pod_class
        known = self._terminating.get(pod_class)
        if known is None:
            if len(self._terminating) >= _MOST_CLASSES:
                self._terminating.clear()
            pod = pod_class.pod
            metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp="now")
            known = self._terminating[pod_class] = self.of(msgspec.structs.replace(pod, metadata=metadata))
        return known

    def forget(self, keep: int) -> None:
        """Drop the oldest classes beyond *keep*, so that a long life does not fill memory."""
        while len(self._known) > keep:
            self._known.pop(next(iter(self._known)))


def _is_alike(one: Pod, other: Pod) -> bool:
    """Return whether pods are certainly of one class: what their keys are made of is the same or equal."""
    mine, its = one.metadata, other.metadata
    return (
        one.spec.containers is other.spec.containers
        and (one.spec is other.spec or astuple(one.spec) == astuple(other.spec))
        and (
            one.status is other.status or not (has_allocated_resources(one) or has_allocated_resources(other))
        )
        and mine.namespace == its.namespace
        and mine.labels == its.labels
        and mine.owner_references == its.owner_references
        and mine.deletion_timestamp == its.deletion_timestamp
        and (mine.uid == its.uid or not any(volume.ephemeral for volume in one.spec.volumes or ()))
    )


def class_key(pod: Pod) -> Hashable:
    """Return what identifies the class of *pod*: all that any plugin reads."""
    spec, metadata = pod.spec, pod.metadata
    return (
        metadata.namespace,
        tuple(sorted(metadata.labels.items())) if metadata.labels else (),
        spec.tolerations,
        tuple(sorted(spec.node_selector.items())) if spec.node_selector else (),
        _frozen(spec.affinity) if spec.affinity else None,
        _frozen(spec.topology_spread_constraints) if spec.topology_spread_constraints else None,
        _frozen(spec.containers),
        _frozen(spec.init_containers) if spec.init_containers else None,
        _frozen(spec.resources) if spec.resources else None,
        _frozen(spec.overhead) if spec.overhead else None,
        _frozen(volumes) if spec.volumes and (volumes := relevant_volumes(pod)) else None,
        # The claim of an ephemeral volume has the pod's name in its own and the pod as its owner.
        (metadata.name, metadata.uid) if spec.volumes and any(v.ephemeral for v in spec.volumes) else None,
        bool(metadata.deletion_timestamp),  # a pod that is leaving does not count in topology spread
        resources_set_aside(pod),
        spec.node_name,
        spec.host_network,
        spec.host_users,
        spec.scheduler_name,
        # Claims are resolved per pod: those of a template have a different name for each.
        bool(spec.resource_claims),
        # The selector of the default spread constraints comes from the pod's controller.
        next((owner.uid for owner in metadata.owner_references or () if owner.controller), ""),
    )


def _frozen(value: object) -> Hashable:
    """Return *value* in a hashable form; dicts and nested views have none of their own."""
    return msgspec.json.encode(value, order="sorted")


def build(pod: Pod, key: Hashable = None) -> PodClass:
    """Return a class made from *pod* alone."""
    requests = pod_requests(pod, set_aside=True)
    cpu, memory = nonzero_requests(pod, requests)
    return PodClass(key, pod, requests, cpu, memory, tuple(host_ports(pod)))


def nonzero_requests(pod: Pod, requests: dict[str, int] | None = None) -> tuple[int, int]:
    """Return CPU (milli) and memory (bytes), with a default for every container that omits one.

    Pod-level requests replace those of the containers: then a default applies only if no container sets one.
    """
    requests = pod_requests(pod, set_aside=True) if requests is None else requests
    defaults = _DEFAULTS
    if has_pod_level_requests(pod):
        defaults = {name: amount for name, amount in _DEFAULTS.items() if name not in requests}
    if defaults:
        requests = pod_requests(pod, missing=defaults, set_aside=True)
    return requests.get("cpu", 0), requests.get("memory", 0)


def differently_resized(old: Pod, new: Pod) -> bool:
    """Return whether what is set aside for a pod on its node may have become another amount."""
    if old.status is new.status or not (has_allocated_resources(old) or has_allocated_resources(new)):
        return False
    return resources_set_aside(old) != resources_set_aside(new)


def resources_set_aside(pod: Pod) -> Hashable:
    """Return what a resize in place makes of the requests of *pod*; None when it is as its spec says."""
    if not has_allocated_resources(pod):
        return None
    plain, now = pod_requests(pod), pod_requests(pod, set_aside=True)
    return None if plain == now else tuple(sorted(now.items()))
