"""Why does a pod fit here and not there? The reason tree that explain builds and everything else prints.

    Explanation                the answer for one pod
    ├── blockers: Reason …     what keeps it off every node
    ├── nodes: NodeVerdict …   one per node
    │   ├── reasons: Reason …  empty: it fits
    │   └── stay: Stay         how long NoExecute taints would let it stay
    ├── fix: Fix               the smallest change that helps, proven (weir.explain.fix)
    └── not_considered         what this answer left out

Each reason names the scheduler plugin that would give it and the words that plugin uses (core.md 3.6), so
that the scheduler's own message can be derived, and carries what was asked and what was found.
Not here: sentences for people (weir.explain.words), how a node is judged (weir.explain.node).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from weir.devices.origin import RuleOrigin, TrackedTaint
from weir.devices.outcome import DeviceRefusal
from weir.gates import Gates
from weir.objects.core import NodeSelectorRequirement, Pod, Taint, Toleration
from weir.selectors.node import Match
from weir.taints.eviction import Stay
from weir.taints.toleration import Outcome

if TYPE_CHECKING:
    from weir.explain.fix import Fix
    from weir.explain.subject import Subject

SCHEMA: Final = "weir.explain/v1"
CORDON_KEY: Final = "node.kubernetes.io/unschedulable"

#: The order in which the scheduler asks its filters; the first that refuses a node names the reason.
FILTER_ORDER: Final = (
    "NodeName",
    "NodeUnschedulable",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "DynamicResources",
)


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
            "toleration": _builtins(self.toleration),
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
            "taint": _builtins(self.taint),
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
            "requirement": _builtins(self.requirement),
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


# ── devices ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class NoDevices(Reason):
    """The devices the pod's claims ask for cannot be had there; *refusals* says of each why."""

    kind: ClassVar[str] = "devices"
    plugin: ClassVar[str] = "DynamicResources"
    text: str
    refusals: tuple[DeviceRefusal, ...] = ()

    def message(self) -> str:
        return self.text

    def data(self) -> dict[str, Any]:
        return {"devices": [_refused_device(refusal) for refusal in self.refusals]}

    @property
    def group(self) -> tuple[Any, ...]:
        # Each node has devices of its own; what speaks against them makes nodes alike.
        return (
            self.kind,
            self.text,
            *(
                (one.claim, one.request, one.device.device, one.refusal, *map(_taint_and_rule, one.taints))
                for one in self.refusals
            ),
        )


@dataclass(frozen=True, slots=True)
class ClaimTied(Reason):
    """A claim is allocated and cannot be used there: its devices are elsewhere, or their pods have to leave."""

    kind: ClassVar[str] = "allocated-claim"
    plugin: ClassVar[str] = "DynamicResources"
    text: str
    taints: tuple[tuple[str, TrackedTaint], ...] = ()  #: claim and taint, when its pods have to leave

    def message(self) -> str:
        return self.text

    def data(self) -> dict[str, Any]:
        return {"taints": [{"claim": claim, **_tracked(taint)} for claim, taint in self.taints]}

    @property
    def group(self) -> tuple[Any, ...]:
        return (self.kind, self.text, *((claim, *_taint_and_rule(taint)) for claim, taint in self.taints))


@dataclass(frozen=True, slots=True)
class DeviceClaimUnusable(Reason):
    """A device claim of the pod keeps it off every node; *text* is the scheduler's."""

    kind: ClassVar[str] = "device-claim"
    plugin: ClassVar[str] = "DynamicResources"
    text: str
    hint: str = ""  #: what would help, in weir's words

    def message(self) -> str:
        return self.text


def _refused_device(refusal: DeviceRefusal) -> dict[str, Any]:
    data: dict[str, Any] = {
        "claim": refusal.claim,
        "request": refusal.request,
        "device": str(refusal.device),
        "refusal": refusal.refusal.name,
        "text": refusal.refusal.value,
    }
    return data | ({"taints": [_tracked(taint) for taint in refusal.taints]} if refusal.taints else {})


def _tracked(taint: TrackedTaint) -> dict[str, Any]:
    origin = taint.origin
    if isinstance(origin, RuleOrigin):
        where: dict[str, Any] = {"kind": "DeviceTaintRule", "name": origin.name}
    else:
        where = {"kind": "ResourceSlice", "name": origin.slice, "field": origin.form, "index": origin.index}
    return {"taint": _builtins(taint.plain), "origin": where}


def _taint_and_rule(taint: TrackedTaint) -> tuple[str, str]:
    return str(taint.taint), taint.origin.name if isinstance(taint.origin, RuleOrigin) else ""


# ── other pods ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Spread(Reason):
    """A pod more there would break the pod's topology spread constraints; *text* is the scheduler's."""

    kind: ClassVar[str] = "topology-spread"
    plugin: ClassVar[str] = "PodTopologySpread"
    text: str
    resolvable: bool = False  #: whether removing other pods could help

    @property
    def preemptible(self) -> bool:  # type: ignore[override]
        return self.resolvable

    def message(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class OtherPods(Reason):
    """The pods around it and this pod do not get on; *text* is the scheduler's."""

    kind: ClassVar[str] = "pod-affinity"
    plugin: ClassVar[str] = "InterPodAffinity"
    text: str
    resolvable: bool = False  #: whether removing other pods could help

    @property
    def preemptible(self) -> bool:  # type: ignore[override]
        return self.resolvable

    def message(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class OtherFilter(Reason):
    """Another filter of the scheduler refuses; *text* is its own."""

    kind: ClassVar[str] = "filter"
    filter: str
    text: str
    resolvable: bool = False  #: whether removing other pods could help

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
class Refused(Reason):
    """The API server would not accept the pod as written."""

    kind: ClassVar[str] = "invalid"
    errors: tuple[str, ...]

    def message(self) -> str:
        return self.errors[0]

    def data(self) -> dict[str, Any]:
        return {"errors": list(self.errors)}


# ── verdicts ─────────────────────────────────────────────────────────────────────────────────────


FOR_EVER: Final = Stay(None)


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """Whether one node takes the pod, why not, and how long the pod could stay."""

    node: str
    reasons: tuple[Reason, ...] = ()
    stay: Stay = FOR_EVER
    disliked: tuple[Taint, ...] = ()  #: PreferNoSchedule taints that count against the node
    victims: bool = False  #: whether pods of lower priority run there, which preemption might remove

    @property
    def fits(self) -> bool:
        return not self.reasons

    @property
    def deciding(self) -> tuple[Reason, ...]:
        """The reasons the scheduler would give: those of its first refusing filter."""
        if not self.reasons:
            return ()
        first = min(self.reasons, key=lambda reason: FILTER_ORDER.index(reason.plugin)).plugin
        found = tuple(reason for reason in self.reasons if reason.plugin == first)
        # Room is reported resource by resource; every other filter stops at the first thing it finds.
        return found if first == "NodeResourcesFit" else found[:1]

    @property
    def telling(self) -> tuple[Reason, ...]:
        """The reasons worth telling: a cordon comes with a taint that says the same again."""
        if not any(isinstance(reason, Cordoned) for reason in self.reasons):
            return self.reasons
        return tuple(
            reason
            for reason in self.reasons
            if not (isinstance(reason, UntoleratedTaint) and reason.taint.key == CORDON_KEY)
        )

    @property
    def group(self) -> tuple[Any, ...]:
        stay = None if self.reasons else (self.stay.limit, self.stay.taint and _identity(self.stay.taint))
        disliked = () if self.reasons else tuple(map(_identity, self.disliked))
        return (tuple(reason.group for reason in self.reasons), stay, disliked)


@dataclass(frozen=True)
class Group:
    """Nodes with the same reasons, closest first."""

    verdict: NodeVerdict  #: the one that comes closest speaks for all
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Explanation:
    """Where one pod fits, why not elsewhere, and what would help."""

    subject: Subject
    pod: Pod
    gates: Gates
    nodes: tuple[NodeVerdict, ...]
    blockers: tuple[Reason, ...] = ()
    groups: tuple[Group, ...] = ()
    fix: Fix | None = None
    not_considered: tuple[str, ...] = ()
    placed_on: str = ""  #: the node a stored pod already runs on
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def fits(self) -> bool:
        """Whether some node would take the pod as it is."""
        return not self.blockers and any(verdict.fits for verdict in self.nodes)

    def __str__(self) -> str:
        """The verdict, one line."""
        from weir.explain.words import verdict_line

        return verdict_line(self)

    def data(self) -> dict[str, Any]:
        """Return the explanation JSON-able, in the schema of `weir explain -o json` for one pod."""
        from weir.explain.report import one

        return one(self)

    @property
    def fitting(self) -> tuple[str, ...]:
        """The nodes whose own reasons do not keep the pod away."""
        return tuple(verdict.node for verdict in self.nodes if verdict.fits)


def count(verdicts: Iterable[NodeVerdict]) -> dict[str, int]:
    """Return how many nodes have each kind of reason, most frequent first; a node may count several times."""
    counts: dict[str, int] = {}
    for verdict in verdicts:
        for kind in {reason.kind for reason in verdict.telling}:
            counts[kind] = counts.get(kind, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _identity(taint: Taint) -> tuple[str, str, str]:
    return (taint.key, taint.value, taint.effect)


def _builtins(view: msgspec.Struct) -> Any:
    return msgspec.json.decode(msgspec.json.encode(view))
