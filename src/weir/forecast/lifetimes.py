"""How long pods of one spec take to start and to end on a node, worked out once for all of them.

The kubelet's own state machine (weir.simulation.kubelet.pod_lifecycle) is run for the first pod of a spec; others go
through the same states after the same seconds. A pod whose life depends on more than its spec has no lifetime here and
is played by itself: one that ends by itself or starts again, whose command can be played, or that waits for volumes or
devices; and one that finalizers keep, since its last status is read.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from weir.forecast.objects import Objects
from weir.objects.kinds import by_kind
from weir.simulation.kubelet.behaviour import PREFIX, Behaviour, Life
from weir.simulation.kubelet.container_lifecycle import Ending
from weir.simulation.kubelet.pod_lifecycle import PodLife
from weir.simulation.kubelet.pod_status import status_of
from weir.simulation.kubelet.programs.environment import Objects as Referred
from weir.simulation.kubelet.programs.environment import references
from weir.simulation.kubelet.programs.files import Files
from weir.simulation.kubelet.programs.play import Stage

Document = dict[str, Any]
_REFERRED: Final = {"ConfigMap": by_kind("v1", "ConfigMap"), "Secret": by_kind("v1", "Secret")}
_MOST_STEPS: Final = 64
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
        played = any(each.play is not None for each in life.containers)
        #: whether it runs from its last step on until it is told to stop
        self.steady = at == math.inf and not life.over and not played and bool(self.steps)

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
        #: by the identity of a spec, which pods of one template share
        self._by_spec: dict[int, tuple[Document, Document, Life, Lifetime | None]] = {}

    def of(self, pod: Document, node: Document, life: Life) -> Lifetime | None:
        """Return the lifetime of *pod* on *node*, where pods live as *life* says; None when it is played by itself."""
        metadata, spec = pod["metadata"], pod["spec"]
        if metadata.get("finalizers") or life.jitter or life.failure_rate:
            return None
        annotations = metadata.get("annotations") or {}
        known = self._by_spec.get(id(spec))
        if known is None or known[0] is not spec or known[1] != annotations or known[2] != life:
            known = self._by_spec[id(spec)] = (spec, annotations, life, self._find(pod, node, life))
        return known[3]

    def _find(self, pod: Document, node: Document, life: Life) -> Lifetime | None:
        spec, status = pod["spec"], pod.get("status") or {}
        if (
            spec.get("resourceClaims")
            or status.get("extendedResourceClaimStatus")
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
        parts = ("containers", "initContainers", "restartPolicy", "activeDeadlineSeconds")
        key = _encode(
            [
                [spec.get(part) for part in parts],
                own,
                life.start_seconds,
                life.run_seconds,
                life.terminate_seconds,
            ]
        )
        if key not in self._known:
            self._known[key] = self._made(pod, node, life)
        return self._known[key]

    def _made(self, pod: Document, node: Document, life: Life) -> Lifetime | None:
        chance = random.Random(0)
        stage = Stage(node, Files(), chance)
        namespace = pod["metadata"]["namespace"]
        referred = {
            (kind, name): self._objects.find(_REFERRED[kind], namespace, name) if name else None
            for kind, name in dict.fromkeys(references(pod))
        }
        stage.objects = Referred(referred, ())
        found = Lifetime(pod, Behaviour(pod, life, chance, stage))
        return found if found.steady else None
