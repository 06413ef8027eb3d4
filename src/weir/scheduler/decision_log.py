"""Log lines of scheduling decisions: values that could not be parsed and, on request, why each node was rejected.

Spec: core.md 1.6 (an unreadable taint value is an error line), 3.7.4 (an unreadable label is verbosity 10).
Level 5 names every node that rejected the pod, level 10 also every label that could not be compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from weir.clock import Clock
from weir.objects.core import Node, NodeSelectorRequirement, Pod, Taint, Toleration
from weir.observe.logs import Log, ObjectRef
from weir.observe.unreadable import UnreadableValues
from weir.scheduler.claims import Claims
from weir.scheduler.cycle import Engine, Placement
from weir.scheduler.framework import Diagnosis
from weir.selectors.node import Match, match_requirement
from weir.taints.expression import Expressions
from weir.taints.operators import find_in_affinity
from weir.taints.toleration import BLOCKING, compares

_UNREAD = {
    Match.NOT_A_VERSION: "Parse semver failed for value in label",
    Match.NOT_AN_INTEGER: "ParseInt failed for value in label",
}


def ref(pod: Pod) -> ObjectRef:
    """Return *pod* as a log line names it."""
    return ObjectRef(pod.metadata.namespace, pod.metadata.name)


class DecisionLog:
    """The lines about decisions of one scheduler."""

    def __init__(self, log: Log, clock: Clock, expressions: Expressions) -> None:
        self._log, self._clock = log, clock
        self._unreadable = UnreadableValues(log, expressions)

    def note(self, engine: Engine, pod: Pod, answer: Placement | Diagnosis) -> None:
        """Say what deciding *answer* for *pod* brought to light."""
        lost = engine.judged_taints.judge.unreadable
        while lost:
            toleration, taint, outcome = lost.popleft()
            self._unreadable.note(
                toleration,
                taint,
                outcome,
                now=self._clock.monotonic(),
                pod=ref(pod),
                node=partial(_node_with, engine, taint),
            )
        if isinstance(answer, Diagnosis) and self._log.shows(5):
            for name, status in answer.statuses.items():
                self._log.v(
                    5,
                    "Node refused pod",
                    pod=ref(pod),
                    node=name,
                    plugin=status.plugin,
                    reason=status.message,
                )
        if self._log.shows(10):
            self._note_labels(engine, pod)

    def note_devices(self, claims: Claims, pod: Pod) -> None:
        """Log device taints that the tolerations of a rejected pod's claims could not be compared with."""
        asked = list(filter(compares, device_tolerations(claims, pod)))
        for device in claims.tracker.current_devices() if asked else ():
            self._unreadable.look(
                asked,
                [taint.plain for taint in device.taints if taint.plain.effect in BLOCKING],
                claims.gates,
                None,
                now=self._clock.monotonic(),
                pod=ref(pod),
                device=device.id,
            )

    def _note_labels(self, engine: Engine, pod: Pod) -> None:
        asked = _requirements(pod)
        gates = engine.judged_taints.gates
        for node in engine.table.nodes if asked else ():
            for requirement in asked if node is not None else ():
                assert isinstance(node, Node)
                match = match_requirement(requirement, node.labels, gates)
                if match in _UNREAD:
                    self._log.v(
                        10,
                        _UNREAD[match],
                        value=node.labels.get(requirement.key, ""),
                        label=requirement.key,
                        requirement=f"{requirement.operator} {' '.join(requirement.values or ())}",
                        node=node.name,
                        pod=ref(pod),
                    )


def device_tolerations(claims: Claims, pod: Pod) -> Iterator[Toleration]:
    """Yield the tolerations of the requests of a pod's claims."""
    found = claims.of_pod(pod) if pod.spec.resource_claims else ()
    for claim in () if isinstance(found, str) else found:
        for request in claim.spec.devices.requests or ():
            for asked in (request.exactly, *(request.first_available or ())):
                yield from (asked.tolerations if asked else None) or ()


def _requirements(pod: Pod) -> list[NodeSelectorRequirement]:
    """Return what the pod's node affinity compares, required and preferred."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    if affinity is None:
        return []
    terms = list(affinity.required.node_selector_terms or ()) if affinity.required else []
    terms += [each.preference for each in affinity.preferred or ()]
    return [
        requirement
        for term in terms
        for requirement in term.match_expressions or ()
        if find_in_affinity(requirement.operator) is not None
    ]


def _node_with(engine: Engine, taint: Taint) -> str:
    """Return the name of a node that carries *taint*, and how many others do."""
    wanted = (taint.key, taint.value, taint.effect)
    names = [
        node.name
        for node in engine.table.nodes
        if node is not None and any((t.key, t.value, t.effect) == wanted for t in node.taints)
    ]
    return f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else "".join(names)
