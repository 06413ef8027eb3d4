"""Edits for insufficient resources: lower requests.

The containers with the largest requests are lowered equally; overhead is fixed. Extended resources and hugepages
change limit and request together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from weir.explain.edits.edit import Edit
from weir.objects.core import Pod
from weir.objects.requests import container_requests, pod_requests, restarts, show_amount
from weir.scheduler.reasons import TooFew


@dataclass(frozen=True)
class LowerRequest(Edit):
    """Lower the request of one resource, in the containers with the largest."""

    resource: str
    before: int
    after: int
    containers: tuple[tuple[str, int, str, int], ...]  #: (list, index, name, new amount)
    pod_level: int | None = None

    @property
    def cost(self) -> float:
        if any(amount == 0 for *_, amount in self.containers):
            return 500  # a last resort: the pod no longer gets what it needs
        return 20 + 30 * (self.before - self.after) / max(self.before, 1)

    def say(self) -> str:
        def show(amount: int) -> str:
            return show_amount(self.resource, amount)

        if not self.containers:
            return f"request {show(self.after)} of {self.resource} for the pod instead of {show(self.before)}"
        if _fixed(self.resource) and all(amount == 0 for *_, amount in self.containers):
            where = ", ".join(name for _, _, name, _ in self.containers)
            return f"no longer request {self.resource} in {where}"
        parts = [f"{show(amount)} in {name}" for _, _, name, amount in self.containers]
        return f"request less {self.resource}: {', '.join(parts)} ({show(self.after)} instead of {show(self.before)})"

    def on_pod(self, spec: dict[str, Any]) -> None:
        for where, index, _, amount in self.containers:
            entries = list(spec.get(where) or ())
            if index < len(entries):
                container = dict(entries[index])
                container["resources"] = self._resources(container.get("resources"), amount)
                entries[index] = container
            spec[where] = entries
        if self.pod_level is not None:
            spec["resources"] = self._resources(spec.get("resources"), self.pod_level)

    def _resources(self, present: Any, amount: int) -> dict[str, Any]:
        text = show_amount(self.resource, amount)
        resources: dict[str, Any] = dict(present or {})
        if _fixed(self.resource):
            # Extended resources and hugepages allow no difference between request and limit.
            for part in ("requests", "limits"):
                if self.resource in (resources.get(part) or {}):
                    rest = {key: value for key, value in resources[part].items() if key != self.resource}
                    resources[part] = {**rest, self.resource: text} if amount else rest
        else:
            resources["requests"] = {**(resources.get("requests") or {}), self.resource: text}
        return resources


def _fixed(resource: str) -> bool:
    return "/" in resource or resource.startswith("hugepages-")


def for_shortage(reason: TooFew, pod: Pod) -> Iterator[Edit]:
    """Yield the lowering that lets the pod into what is free, if anything is."""
    resource, spec = reason.resource, pod.spec
    overhead = reason.requested - _without_overhead(pod, reason)
    budget = _round_down(resource, reason.free - overhead)
    if budget < 0:
        return
    running = [("containers", i, c) for i, c in enumerate(spec.containers)]
    initial = [("initContainers", i, c) for i, c in enumerate(spec.init_containers or ())]
    running += [entry for entry in initial if restarts(entry[2])]
    wants = {(w, i): container_requests(c).get(resource, 0) for w, i, c in (*running, *initial)}
    cap = _level([wants[w, i] for w, i, _ in running], budget, resource)
    lowered: dict[tuple[str, int], int] = {(w, i): cap for w, i, _ in running if wants[w, i] > cap}
    beside = 0
    for where, index, container in initial:
        amount = lowered.get((where, index), wants[where, index])
        if restarts(container):
            beside += amount
        elif amount + beside > budget:
            if budget < beside:
                return
            lowered[where, index] = _round_down(resource, budget - beside)
    names = {(w, i): c.name or f"{w}[{i}]" for w, i, c in (*running, *initial)}
    pod_level = spec.resources is not None and (
        resource in (spec.resources.requests or {}) or resource in (spec.resources.limits or {})
    )
    if lowered or pod_level:
        settings = tuple((w, i, names[w, i], amount) for (w, i), amount in lowered.items())
        yield LowerRequest(
            resource, reason.requested, budget + overhead, settings, budget if pod_level else None
        )


def _without_overhead(pod: Pod, reason: TooFew) -> int:
    bare = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, overhead=None))
    return pod_requests(bare).get(reason.resource, 0)


def _round_down(resource: str, amount: int) -> int:
    """Return *amount* rounded down to whole Mi, if at least one remains."""
    coarse = resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")
    return amount >> 20 << 20 if coarse and amount >= 1 << 20 else amount


def _level(wants: list[int], budget: int, resource: str) -> int:
    """Return the amount to which the largest of *wants* are lowered so that all fit into *budget*."""
    remaining, ordered = budget, sorted(wants)
    for position, want in enumerate(ordered):
        share = remaining // (len(ordered) - position)
        if want > share:
            return _round_down(resource, share)
        remaining -= want
    return max(ordered, default=0)
