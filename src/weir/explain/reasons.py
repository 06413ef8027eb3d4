"""Why does a node not take a pod, or no node at all? One class for each reason there is.

A reason names the scheduler plugin that would give it and the words that plugin uses (core.md 3.6), so that the
scheduler's own message can be derived, and carries what was asked and what was found.
Not here: reasons that speak of devices (weir.explain.device_reasons), sentences for people (weir.explain.words), what
becomes of a node's reasons (weir.explain.verdict), how they are found (weir.explain.node, weir.explain.engine).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

import msgspec

from weir.objects.core import NodeSelectorRequirement, Taint, Toleration
from weir.selectors.node import Match
from weir.taints.toleration import Outcome

#: Filters whose refusals have a kind of their own.
_FILTER_KINDS: Final = {
    "PodTopologySpread": "topology-spread",
    "InterPodAffinity": "pod-affinity",
    "VolumeRestrictions": "volume",
    "NodeVolumeLimits": "volume",
    "VolumeBinding": "volume",
    "VolumeZone": "volume",
}


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a node does not take the pod, or why no node does."""

    kind: ClassVar[str]  #: stable name, used in JSON and to count
    plugin: ClassVar[str] = ""
    preemptible: ClassVar[bool] = False  #: whether removing other pods could help

    def message(self) -> str:
        """Return the plugin's own words for it."""
        raise NotImplementedError

    def data(self) -> dict[str, Any]:
        """Return what was asked and found, JSON-able."""
        return {}

    @property
    def group(self) -> tuple[Any, ...]:
        """What must be equal for two nodes to be shown as one row."""
        return (self,)


# ── taints ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Attempt:
    """How one toleration met the taint."""

    toleration: Toleration
    outcome: Outcome
    deciding: str = ""  #: the part of an expression that made it false or fail
    error: str = ""  #: what the expression failed with

    def data(self) -> dict[str, Any]:
        data = {
            "toleration": plain(self.toleration),
            "outcome": self.outcome.name,
            "text": self.outcome.value,
        }
        more = {"deciding": self.deciding, "error": self.error}
        return data | {key: value for key, value in more.items() if value}


@dataclass(frozen=True, slots=True)
class UntoleratedTaint(Reason):
    """No toleration tolerates this taint; each one was asked."""

    kind: ClassVar[str] = "taint"
    plugin: ClassVar[str] = "TaintToleration"
    taint: Taint
    attempts: tuple[Attempt, ...] = ()

    def message(self) -> str:
        return f"node(s) had untolerated taint {{{self.taint.key}: {self.taint.value}}}"

    def data(self) -> dict[str, Any]:
        return {
            "taint": plain(self.taint),
            "attempts": [attempt.data() for attempt in self.attempts],
        }


@dataclass(frozen=True, slots=True)
class Cordoned(Reason):
    """The node takes no new pods (spec.unschedulable)."""

    kind: ClassVar[str] = "unschedulable"
    plugin: ClassVar[str] = "NodeUnschedulable"

    def message(self) -> str:
        return "node(s) were unschedulable"


# ── labels ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class WrongLabel(Reason):
    """A nodeSelector entry that the node's labels do not have."""

    kind: ClassVar[str] = "node-selector"
    plugin: ClassVar[str] = "NodeAffinity"
    key: str
    wanted: str
    found: str | None

    def message(self) -> str:
        return "node(s) didn't match Pod's node affinity/selector"

    def data(self) -> dict[str, Any]:
        return {"key": self.key, "wanted": self.wanted, "found": self.found}


@dataclass(frozen=True, slots=True)
class Unmet:
    """A requirement that was not met: what it asks, and what the node has."""

    field: str  #: matchExpressions or matchFields
    index: int
    requirement: NodeSelectorRequirement
    match: Match
    found: str | None

    def data(self) -> dict[str, Any]:
        return {
            "field": self.field,
            "index": self.index,
            "requirement": plain(self.requirement),
            "outcome": self.match.name,
            "text": self.match.value,
            "found": self.found,
        }


@dataclass(frozen=True, slots=True)
class UnmetTerm:
    """A term of a node selector and everything in it that was not met; empty: the term asks nothing."""

    index: int
    unmet: tuple[Unmet, ...]

    def data(self) -> dict[str, Any]:
        return {"index": self.index, "unmet": [unmet.data() for unmet in self.unmet]}


@dataclass(frozen=True, slots=True)
class UnmetAffinity(Reason):
    """No term of the required node affinity selects the node."""

    kind: ClassVar[str] = "node-affinity"
    plugin: ClassVar[str] = "NodeAffinity"
    terms: tuple[UnmetTerm, ...]

    def message(self) -> str:
        return "node(s) didn't match Pod's node affinity/selector"

    def data(self) -> dict[str, Any]:
        return {"terms": [term.data() for term in self.terms]}

    @property
    def group(self) -> tuple[Any, ...]:
        # A requirement on the node's name fails for each node with another name: still one row.
        return (
            self.kind,
            *(
                tuple(
                    (unmet.field, unmet.index, unmet.found if unmet.field == "matchExpressions" else "")
                    for unmet in term.unmet
                )
                for term in self.terms
            ),
        )


@dataclass(frozen=True, slots=True)
class OtherNode(Reason):
    """spec.nodeName asks for another node."""

    kind: ClassVar[str] = "node-name"
    plugin: ClassVar[str] = "NodeName"
    wanted: str

    def message(self) -> str:
        return "node(s) didn't match the requested node name"

    def data(self) -> dict[str, Any]:
        return {"wanted": self.wanted}


@dataclass(frozen=True, slots=True)
class UndeclaredFeatures(Reason):
    """The pod needs features that the node's kubelet does not say it has."""

    kind: ClassVar[str] = "features"
    plugin: ClassVar[str] = "NodeDeclaredFeatures"
    features: tuple[str, ...]  #: those it does not declare

    def message(self) -> str:
        return "node(s) didn't match Pod's required features"

    def data(self) -> dict[str, Any]:
        return {"features": list(self.features)}


# ── room ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class TooFew(Reason):
    """Too little of one resource is free; amounts as the scheduler counts them (CPU in thousandths)."""

    kind: ClassVar[str] = "resources"
    plugin: ClassVar[str] = "NodeResourcesFit"
    resource: str
    requested: int
    allocatable: int
    used: int

    @property
    def free(self) -> int:
        return self.allocatable - self.used

    @property
    def preemptible(self) -> bool:  # type: ignore[override]
        return self.requested <= self.allocatable

    def message(self) -> str:
        return f"Insufficient {self.resource}"

    def data(self) -> dict[str, Any]:
        return {
            "resource": self.resource,
            "unit": "m" if self.resource == "cpu" else "",
            "requested": self.requested,
            "allocatable": self.allocatable,
            "used": self.used,
        }

    @property
    def group(self) -> tuple[Any, ...]:
        # Nodes differ in how much is missing; one row shows the one that comes closest.
        return (self.kind, self.resource, self.requested > self.allocatable)


@dataclass(frozen=True, slots=True)
class TooManyPods(Reason):
    """The node runs as many pods as it may."""

    kind: ClassVar[str] = "pods"
    plugin: ClassVar[str] = "NodeResourcesFit"
    preemptible: ClassVar[bool] = True
    limit: int
    running: int

    def message(self) -> str:
        return "Too many pods"

    def data(self) -> dict[str, Any]:
        return {"limit": self.limit, "running": self.running}

    @property
    def group(self) -> tuple[Any, ...]:
        return (self.kind, self.limit)


@dataclass(frozen=True, slots=True)
class PortTaken(Reason):
    """A host port the pod wants is in use on the node."""

    kind: ClassVar[str] = "ports"
    plugin: ClassVar[str] = "NodePorts"
    preemptible: ClassVar[bool] = True
    port: int
    protocol: str
    holder: str

    def message(self) -> str:
        return "node(s) didn't have free ports for the requested pod ports"

    def data(self) -> dict[str, Any]:
        return {"port": self.port, "protocol": self.protocol, "holder": self.holder}

    @property
    def group(self) -> tuple[Any, ...]:
        return (self.kind, self.port, self.protocol)


# ── volumes ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class VolumeElsewhere(Reason):
    """A bound volume cannot be used on the node."""

    kind: ClassVar[str] = "volume"
    plugin: ClassVar[str] = "VolumeBinding"
    claim: str
    volume: str
    terms: tuple[UnmetTerm, ...]

    def message(self) -> str:
        return "node(s) didn't match PersistentVolume's node affinity"

    def data(self) -> dict[str, Any]:
        return {"claim": self.claim, "volume": self.volume, "terms": [term.data() for term in self.terms]}


@dataclass(frozen=True, slots=True)
class VolumeMissing(Reason):
    """A claim is bound to a volume that does not exist."""

    kind: ClassVar[str] = "volume"
    plugin: ClassVar[str] = "VolumeBinding"
    claim: str
    volume: str

    def message(self) -> str:
        return "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

    def data(self) -> dict[str, Any]:
        return {"claim": self.claim, "volume": self.volume}


@dataclass(frozen=True, slots=True)
class ClaimUnusable(Reason):
    """A claim of the pod keeps it off every node; *text* is the scheduler's."""

    kind: ClassVar[str] = "claim"
    plugin: ClassVar[str] = "VolumeBinding"
    claim: str
    text: str

    def message(self) -> str:
        return self.text

    def data(self) -> dict[str, Any]:
        return {"claim": self.claim}


# ── whatever else the scheduler asks ─────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class FilterRefusal(Reason):
    """A filter refuses for which explain has no finer reason; *text* is the scheduler's."""

    filter: str
    text: str
    resolvable: bool = False  #: whether removing other pods could help

    @property
    def kind(self) -> str:  # type: ignore[override]
        return _FILTER_KINDS.get(self.filter, "filter")

    @property
    def plugin(self) -> str:  # type: ignore[override]
        return self.filter

    @property
    def preemptible(self) -> bool:  # type: ignore[override]
        return self.resolvable

    def message(self) -> str:
        return self.text


# ── the pod itself ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Gated(Reason):
    """Scheduling gates hold the pod back; the scheduler does not look at it."""

    kind: ClassVar[str] = "scheduling-gates"
    plugin: ClassVar[str] = "SchedulingGates"
    gates: tuple[str, ...]

    def message(self) -> str:
        return f"waiting for scheduling gates: [{' '.join(self.gates)}]"

    def data(self) -> dict[str, Any]:
        return {"gates": list(self.gates)}


@dataclass(frozen=True, slots=True)
class Over(Reason):
    """The pod has ended or is being deleted; the scheduler does not look at it."""

    kind: ClassVar[str] = "over"
    phase: str  #: Succeeded or Failed; "" while it is being deleted

    def message(self) -> str:
        return f"it has ended ({self.phase})" if self.phase else "it is being deleted"

    def data(self) -> dict[str, Any]:
        return {"phase": self.phase}


@dataclass(frozen=True, slots=True)
class UnreadablePreference(Reason):
    """Several nodes fit, and the preferred node affinity that has to choose between them cannot be read."""

    kind: ClassVar[str] = "preference"
    plugin: ClassVar[str] = "NodeAffinity"
    text: str  #: the scheduler's
    terms: tuple[int, ...]  #: the preferred terms that cannot be read
    requirements: tuple[NodeSelectorRequirement, ...]  #: what in them cannot

    def message(self) -> str:
        return f'running PreScore plugin "{self.plugin}": {self.text}'

    def data(self) -> dict[str, Any]:
        return {
            "preferredTerms": list(self.terms),
            "requirements": [plain(each) for each in self.requirements],
        }


@dataclass(frozen=True, slots=True)
class Refused(Reason):
    """The API server would not accept the pod as written."""

    kind: ClassVar[str] = "invalid"
    errors: tuple[str, ...]

    def message(self) -> str:
        return self.errors[0]

    def data(self) -> dict[str, Any]:
        return {"errors": list(self.errors)}


def plain(view: msgspec.Struct) -> Any:
    """Return *view* as JSON would have it."""
    return msgspec.json.decode(msgspec.json.encode(view))
