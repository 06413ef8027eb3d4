"""Where does a pod fit, why not elsewhere, what would help? The tree that explain builds and everything else prints.

    Explanation                the answer for one pod
    ├── blockers: Reason …     what keeps it off every node
    ├── nodes: NodeVerdict …   one per node
    │   ├── reasons: Reason …  empty: it fits
    │   └── stay: Stay         how long NoExecute taints would let it stay
    ├── fix: Fix               the smallest change that helps, proven (weir.explain.fix)
    └── not_considered         what this answer left out

Not here: the reasons (weir.explain.reasons), sentences for people (weir.explain.words), how a node is judged
(weir.explain.node).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from weir.explain.reasons import Cordoned, Reason, UntoleratedTaint
from weir.gates import Gates
from weir.objects.core import Pod, Taint
from weir.scheduler.config import FILTERS
from weir.taints.eviction import Stay
from weir.taints.wellknown import UNSCHEDULABLE

if TYPE_CHECKING:
    from weir.explain.fix import Fix
    from weir.explain.subject import Subject

SCHEMA: Final = "weir.explain/v1"
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
        first = min(self.reasons, key=lambda reason: FILTERS.index(reason.plugin)).plugin
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
            if not (isinstance(reason, UntoleratedTaint) and reason.taint.key == UNSCHEDULABLE)
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
