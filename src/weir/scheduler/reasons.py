"""Rejection reasons of filters, one class per reason.

A reason names its plugin and carries the required and the actual values. `message()` is the text of core.md 3.6 that
is counted into the FailedScheduling event; `weir explain` renders the same objects. Reasons about devices and volumes
are in claim_reasons.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Final

import msgspec

from weir.objects.core import NodeSelectorRequirement, Taint, Toleration
from weir.selectors.node import Match
from weir.taints.operators import UNREADABLE
from weir.taints.toleration import Outcome


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a node does not take the pod, or why no node does."""

    kind: ClassVar[str]  #: stable name, used in JSON and to count
    plugin: ClassVar[str] = ""
    words: ClassVar[str] = ""  #: the plugin's words, where they are always the same

    def message(self) -> str:
        """Return the plugin's own words for it."""
        return self.words

    def data(self) -> dict[str, Any]:
        """Return the required and actual values, JSON-able: the fields, by their names in camelCase."""
        return {_camel(each.name): plain(getattr(self, each.name)) for each in fields(self)}

    @property
    def group(self) -> tuple[Any, ...]:
        """What must be equal for two nodes to be shown as one row."""
        return (self,)


@dataclass(frozen=True, slots=True)
class OtherReason(Reason):
    """What a filter says that has no class of its own for it, or that failed on the node."""

    filter: str
    text: str
    fails: bool = False  #: the filter itself failed, which ends an attempt for all nodes

    def data(self) -> dict[str, Any]:
        return {}

    @property
    def kind(self) -> str:  # type: ignore[override]
        return "devices" if self.filter == "DynamicResources" else "filter"

    @property
    def plugin(self) -> str:  # type: ignore[override]
        return self.filter

    def message(self) -> str:
        return self.text


def plain(value: Any) -> Any:
    """Return *value* as JSON would have it."""
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    if isinstance(value, Attempt | UnmetTerm):
        return value.data()
    return msgspec.json.decode(msgspec.json.encode(value))


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


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


#: What a message adds when no toleration tolerates a taint and one could not be compared with it.
UNREAD_WORDS: Final = {
    Outcome.NOT_AN_INTEGER: "its value is not an integer",
    Outcome.NOT_A_VERSION: "its value is not a version",
    Outcome.TOLERATION_NOT_AN_INTEGER: "the toleration's value is not an integer",
    Outcome.TOLERATION_NOT_A_VERSION: "the toleration's value is not a version",
    Outcome.EXPRESSION_FAILED: "the toleration's expression fails for it",
}


@dataclass(frozen=True, slots=True)
class UntoleratedTaint(Reason):
    """No toleration tolerates this taint; each one was evaluated."""

    kind: ClassVar[str] = "taint"
    plugin: ClassVar[str] = "TaintToleration"
    #: Kubernetes since 1.35 leaves key and value out of the message.
    words: ClassVar[str] = "node(s) had untolerated taint(s)"
    taint: Taint
    attempts: tuple[Attempt, ...] = ()

    def message(self) -> str:
        """Return the words of the KEPs, and why the taint's value could not even be compared, if so."""
        text = f"node(s) had untolerated taint {{{self.taint.key}: {self.taint.value}}}"
        unread = next((each.outcome for each in self.attempts if each.outcome in UNREADABLE), None)
        return text if unread is None else f"{text} ({UNREAD_WORDS[unread]})"


@dataclass(frozen=True, slots=True)
class Cordoned(Reason):
    """The node takes no new pods (spec.unschedulable)."""

    kind: ClassVar[str] = "unschedulable"
    plugin: ClassVar[str] = "NodeUnschedulable"
    words: ClassVar[str] = "node(s) were unschedulable"


# ── labels ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class WrongLabel(Reason):
    """A nodeSelector entry that the node's labels do not have."""

    kind: ClassVar[str] = "node-selector"
    plugin: ClassVar[str] = "NodeAffinity"
    words: ClassVar[str] = "node(s) didn't match Pod's node affinity/selector"
    key: str
    wanted: str
    found: str | None


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
    words: ClassVar[str] = WrongLabel.words
    terms: tuple[UnmetTerm, ...]

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
class UnmetProfileAffinity(Reason):
    """The scheduler's own configuration keeps pods off the node."""

    kind: ClassVar[str] = "filter"
    plugin: ClassVar[str] = "NodeAffinity"
    words: ClassVar[str] = "node(s) didn't match scheduler-enforced node affinity"


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
class OtherNode(Reason):
    """spec.nodeName names another node."""

    kind: ClassVar[str] = "node-name"
    plugin: ClassVar[str] = "NodeName"
    words: ClassVar[str] = "node(s) didn't match the requested node name"
    wanted: str


@dataclass(frozen=True, slots=True)
class UndeclaredFeatures(Reason):
    """The pod needs features that the node's kubelet does not say it has."""

    kind: ClassVar[str] = "features"
    plugin: ClassVar[str] = "NodeDeclaredFeatures"
    words: ClassVar[str] = "node(s) didn't match Pod's required features"
    features: tuple[str, ...]  #: those it does not declare


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

    @staticmethod
    def words_for(resource: str) -> str:
        """Return the scheduler's words for a shortage of *resource*."""
        return f"Insufficient {resource}"

    def message(self) -> str:
        return self.words_for(self.resource)

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
    words: ClassVar[str] = "Too many pods"
    limit: int
    running: int

    @property
    def group(self) -> tuple[Any, ...]:
        return (self.kind, self.limit)


@dataclass(frozen=True, slots=True)
class PortTaken(Reason):
    """A host port the pod wants is in use on the node."""

    kind: ClassVar[str] = "ports"
    plugin: ClassVar[str] = "NodePorts"
    words: ClassVar[str] = "node(s) didn't have free ports for the requested pod ports"
    port: int
    protocol: str
    holder: str

    @property
    def group(self) -> tuple[Any, ...]:
        return (self.kind, self.port, self.protocol)


@dataclass(frozen=True, slots=True)
class TooSkewed(Reason):
    """One more pod in the node's domain would be too many against the emptiest domain."""

    kind: ClassVar[str] = "topology-spread"
    plugin: ClassVar[str] = "PodTopologySpread"
    words: ClassVar[str] = "node(s) didn't match pod topology spread constraints"
    constraint: int  #: its index among the pod's constraints; -1: one of the scheduler's defaults
    topology_key: str
    domain: str
    here: int  #: matching pods in the domain, the new one included
    least: int  #: in the domain with the fewest
    max_skew: int

    def data(self) -> dict[str, Any]:
        return {
            "constraint": self.constraint,
            "topologyKey": self.topology_key,
            "domain": self.domain,
            "pods": self.here,
            "least": self.least,
            "maxSkew": self.max_skew,
        }

    @property
    def group(self) -> tuple[Any, ...]:
        return (self.kind, self.constraint, self.here - self.least)


@dataclass(frozen=True, slots=True)
class NoTopologyDomain(Reason):
    """The node lacks the label that a spread constraint spreads over."""

    kind: ClassVar[str] = "topology-spread"
    plugin: ClassVar[str] = "PodTopologySpread"
    words: ClassVar[str] = "node(s) didn't match pod topology spread constraints (missing required label)"
    constraint: int
    topology_key: str


@dataclass(frozen=True, slots=True)
class NoPodNear(Reason):
    """The node's domain has no pod that a required affinity term selects."""

    kind: ClassVar[str] = "pod-affinity"
    plugin: ClassVar[str] = "InterPodAffinity"
    words: ClassVar[str] = "node(s) didn't match pod affinity rules"
    term: int  #: its index among the required terms
    topology_key: str

    def data(self) -> dict[str, Any]:
        return {"part": "podAffinity", "term": self.term, "topologyKey": self.topology_key}


@dataclass(frozen=True, slots=True)
class AvoidedPodNear(Reason):
    """The node's domain has a pod that a required anti-affinity term avoids."""

    kind: ClassVar[str] = "pod-affinity"
    plugin: ClassVar[str] = "InterPodAffinity"
    words: ClassVar[str] = "node(s) didn't match pod anti-affinity rules"
    term: int
    topology_key: str

    def data(self) -> dict[str, Any]:
        return {"part": "podAntiAffinity", "term": self.term, "topologyKey": self.topology_key}


@dataclass(frozen=True, slots=True)
class AvoidedByPodNear(Reason):
    """The node's domain has a pod whose own anti-affinity avoids this one."""

    kind: ClassVar[str] = "pod-affinity"
    plugin: ClassVar[str] = "InterPodAffinity"
    words: ClassVar[str] = "node(s) didn't satisfy existing pods anti-affinity rules"
    topology_key: str
