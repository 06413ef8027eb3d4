"""Lifetimes: the seconds that pods of one spec take to start and to end on a node, computed once per spec.

The kubelet's own state machine (weir.simulation.kubelet.pod_lifecycle) is run for the first pod of a spec; others go
through the same states after the same seconds. A pod whose life depends on more than its spec has no lifetime here and
is played by itself: one that ends by itself or starts again, or that waits for volumes or devices; and one that
finalizers keep, since its last status is read.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from weir.forecast.objects import Objects
from weir.objects.kinds import CONFIG_MAPS, SECRETS
from weir.simulation.kubelet.behaviour import PREFIX, Behaviour, Life
from weir.simulation.kubelet.container_lifecycle import Ending
from weir.simulation.kubelet.pod_lifecycle import PodLife
from weir.simulation.kubelet.pod_status import status_of
from weir.simulation.kubelet.preparation import references

Document = dict[str, Any]
_REFERRED: Final = {"ConfigMap": CONFIG_MAPS, "Secret": SECRETS}
_MOST_STEPS: Final = 64
_MOST_SHARED: Final = 65_536
#: The parts of a spec that the life of a pod is made from, and those that forbid working it out beforehand.
_PLAYED: Final = ("containers", "initContainers", "restartPolicy", "activeDeadlineSeconds")
_READ: Final = (*_PLAYED, "resourceClaims", "readinessGates", "ephemeralContainers", "volumes")
_encode: Final = msgspec.json.Encoder(order="sorted").encode


@dataclass(frozen=True)
class Step:
    """A state that a pod reaches some seconds after it was admitted."""

    after: float
    status: Document  #: without times


class Lifetime:
    """The life of a pod until somebody ends it."""

    def __init__(self, pod: Document, behaviour: Behaviour) -> None:
        self._pod, self._behaviour = pod, behaviour
        self.steps: list[Step] = []
        self._stops: dict[float, float] = {}
        life = PodLife.begin(pod, behaviour, 0.0)
        shown: object = None
        at, count = 0.0, 0
        while at < math.inf and count < _MOST_STEPS:
            life.advance(at)
            status = status_of(life, "", "", (), "")
            ready = next(c["status"] for c in status["conditions"] if c["type"] == "Ready")
            if (status["phase"], ready) != shown and status["phase"] != "Pending":
                shown = (status["phase"], ready)
                self.steps.append(Step(at, status))
            at, count = life.due(), count + 1
        #: whether it runs from its last step on until it is told to stop
        self.steady = at == math.inf and not life.over and bool(self.steps)

    def seconds_to_stop(self, grace: float) -> float:
        """Return how long a pod in its last state takes to end with so many seconds of grace."""
        if grace not in self._stops:
            self._stops[grace] = self.stops_after(self.steps[-1].after, grace)
        return self._stops[grace]

    def stops_after(self, age: float, grace: float) -> float:
        """Return how long a pod that was admitted *age* seconds ago takes to end."""
        life = PodLife.begin(self._pod, self._behaviour, 0.0)
        at = 0.0
        while at <= age:
            life.advance(at)
            at = life.due()
        life.end(age, Ending(), grace)
        now = age
        life.advance(now)
        while not life.over:
            now = max(life.due(), now)
            life.advance(now)
        return now - age


class Lifetimes:
    """The lifetimes of all specs of one forecast."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._known: dict[bytes, Lifetime | None] = {}
        #: by the identity of the containers, which pods of one template share
        self._by_containers: dict[int, tuple[list[Any], Document, Life, Lifetime | None]] = {}

    def of(self, pod: Document, life: Life) -> Lifetime | None:
        """Return the lifetime of *pod* on a node where pods live as *life* says; None when it is played by itself."""
        metadata, spec = pod["metadata"], pod["spec"]
        if metadata.get("finalizers") or life.jitter or life.failure_rate:
            return None
        if (pod.get("status") or {}).get("extendedResourceClaimStatus"):
            return None
        annotations, parts = metadata.get("annotations") or {}, [spec.get(part) for part in _READ]
        key = id(parts[0])
        known = self._by_containers.get(key)
        if (
            known is None
            or known[0] != parts  # mostly the same objects, which costs no comparison
            or known[1] != annotations
            or (known[2] is not life and known[2] != life)
        ):
            if len(self._by_containers) >= _MOST_SHARED:
                self._by_containers.clear()
            known = self._by_containers[key] = (parts, annotations, life, self._find(pod, life))
        return known[3]

    def _find(self, pod: Document, life: Life) -> Lifetime | None:
        spec = pod["spec"]
        if (
            spec.get("resourceClaims")
            or spec.get("readinessGates")
            or spec.get("ephemeralContainers")
            or any(
                "persistentVolumeClaim" in each or "ephemeral" in each for each in spec.get("volumes") or ()
            )
        ):
            return None
        own = {
            name: text
            for name, text in (pod["metadata"].get("annotations") or {}).items()
            if name.startswith(PREFIX)
        }
        referred = list(references(pod))
        key = _encode(
            [
                [spec.get(part) for part in _PLAYED],
                [pod["metadata"]["namespace"], *referred] if referred else None,
                own,
                life.start_seconds,
                life.run_seconds,
                life.terminate_seconds,
            ]
        )
        if key not in self._known:
            self._known[key] = self._made(pod, life)
        return self._known[key]

    def _made(self, pod: Document, life: Life) -> Lifetime | None:
        namespace = pod["metadata"]["namespace"]
        behaviour = Behaviour(pod, life, random.Random(0))
        behaviour.objects = {
            (kind, name): self._objects.find(_REFERRED[kind], namespace, name) if name else None
            for kind, name in dict.fromkeys(references(pod))
        }
        lifetime = Lifetime(pod, behaviour)
        return lifetime if lifetime.steady else None
