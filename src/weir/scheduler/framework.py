"""The scheduling framework: extension points, plugin statuses and the message of a failed attempt.

Spec: core.md 3.2 "Status codes", 3.3 "Extension point rules", 3.10 "Events and conditions".
The names are those of the kube-scheduler framework: Plugin, Handle, PreFilter, Filter, PostFilter, Score, Reserve,
QueueingHint, Status and Diagnosis. Pods with equal scheduling input form a class (weir.scheduler.pod_class), and
plugins work on a class and many nodes at once: a filter returns a code for each row of the node table, and a status
for each code.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from weir.scheduler.reasons import OtherReason, Reason

if TYPE_CHECKING:
    from weir.gates import Gates
    from weir.objects.core import LabelSelector, Pod
    from weir.objects.resource import ResourceClaim
    from weir.scheduler.claims import Claims
    from weir.scheduler.judged_taints import JudgedTaints
    from weir.scheduler.node_columns import Bools, Ids, Ints
    from weir.scheduler.node_table import NodeTable
    from weir.scheduler.pod_class import PodClass
    from weir.scheduler.pod_counts import PodCounts
    from weir.scheduler.profile_arguments import ProfileArguments
    from weir.scheduler.queueing_hints import QueueingHint
    from weir.scheduler.volumes import Storage
    from weir.taints.toleration import Evaluate

MAX_NODE_SCORE: Final = 100
#: So long may the reasons in a message get before the rarest are only counted (D-38).
REASONS_BYTES: Final = 512


class Code(enum.Enum):
    """What a plugin decided."""

    SUCCESS = "Success"
    ERROR = "Error"
    UNSCHEDULABLE = "Unschedulable"  # preempting pods may help
    UNRESOLVABLE = "UnschedulableAndUnresolvable"  # it cannot
    SKIP = "Skip"
    PENDING = "Pending"

    @property
    def rejected(self) -> bool:
        return self in (Code.UNSCHEDULABLE, Code.UNRESOLVABLE, Code.PENDING)


@dataclass(frozen=True, slots=True)
class Status:
    """A plugin's answer for one node or one pod, with its reasons."""

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)


class PluginError(Exception):
    """A plugin failed; the pod goes to error backoff with this text."""


class NoNodes(Exception):
    """There is nothing to schedule on."""

    def __str__(self) -> str:
        return "no nodes available to schedule pods"


# ── extension points ─────────────────────────────────────────────────────────────────────────────


class Scope(enum.Enum):
    """What a plugin's result for one node depends on, and so when it must be evaluated again."""

    NODE = "the node object"
    PODS = "the node object and the pods on the node"
    CLUSTER = "anything: pods on other nodes, volumes, claims"
    SEARCH = "anything, at such a cost that only nodes every other filter accepts are asked about"


class FilterPlugin(Protocol):
    """Filter: which nodes cannot run pods of one class."""

    name: str
    scope: Scope

    def codes(self, rows: Any) -> Ids:
        """Return for each of *rows* 0 when the node passes, else a number that `status` understands."""

    def status(self, code: int) -> Status:
        """Return what a code other than 0 means."""

    def reasons(self, row: int, code: int) -> tuple[Reason, ...]:
        """Return, as data, why the node in *row* was given *code*."""
        return tuple(OtherReason(self.name, text) for text in self.status(code).reasons)


@runtime_checkable
class LazyFilterPlugin(FilterPlugin, Protocol):
    """A filter so expensive per node that the best nodes are evaluated first (weir.scheduler.best_first)."""

    def scores_alike(self) -> bool:
        """Return whether it gives every node the same score in this attempt, and may accept any of them."""

    def refused(self) -> Bools:
        """Return which rows are known to be refused, without asking about others."""


class PreFilterPlugin(Protocol):
    """PreFilter: what holds for a pod before any node is looked at; its other points rely on it in each attempt."""

    name: str

    def start_cycle(self, pod: Pod) -> None:
        """Answer for *pod* from now on: pods of one class may have claims of their own."""
        return

    def pre_filter(self) -> Status | None:
        """Return why no node can take the pod, or None."""


class PostFilterPlugin(Protocol):
    """PostFilter: what would help a pod that no node took."""

    name: str

    def post_filter(self) -> ResourceClaim | None:
        """Return an allocated claim to give up, that fits nowhere and that no other pod uses."""


class Normalize(enum.Enum):
    """What becomes of a plugin's raw scores (NormalizeScore)."""

    NONE = "they are final, from 0 to 100"
    HIGHEST = "the highest among feasible nodes becomes 100"
    REVERSED = "the highest among feasible nodes becomes 0, none becomes 100"


class ScorePlugin(Protocol):
    """Score, node by node: a raw score for each node, which depends on the node and its own pods only."""

    name: str
    scope: Scope
    normalize: Normalize

    def score(self, rows: Any) -> Ids | Ints:
        """Return the raw score of each of *rows*: from 0 to 2**24."""


class ClusterScorePlugin(Protocol):
    """Score, over all feasible nodes at once."""

    name: str

    def normalized_scores(self, feasible: Bools) -> Ints | None:
        """Return scores from 0 to 100, meaningless outside of *feasible*; None when no node stands out."""


@runtime_checkable
class SpreadPlugin(FilterPlugin, ClusterScorePlugin, Protocol):
    """A filter and score that treats nodes alike by their labels, and by pods counted on them by hostname."""

    filters: bool  #: whether it refuses any node
    scores: bool
    topology_keys: tuple[str, ...]  #: the labels it goes by; () where it goes by more than them

    def counted_by_hostname(self) -> Ids | None:
        """Return the pods on every row that count for scores by hostname; None where none do."""

    def codes_by_label(self, labels: Mapping[str, Ids]) -> Ids:
        """Return what `codes` returns for nodes with these labels."""

    def scores_by_place(
        self, labels: Mapping[str, list[int]], places: Sequence[tuple[int, int, int]]
    ) -> list[int]:
        """Return what `normalized_scores` returns for the nodes of places.

        A place is a position in *labels*, the pods counted there by hostname, and the feasible nodes there.
        """


class Reservation(Protocol):
    """What a plugin promised one pod on its node; weir.scheduler.prebind writes it down."""

    plugin: str

    def settled(self) -> bool:
        """Return whether the pod can be bound now; raise PluginError when it never can."""

    def end(self) -> bool | None:
        """Unreserve: the promise is kept, or the pod was not placed; True when that may help other pods."""


class ReservePlugin(Protocol):
    """Reserve: what a pod needs on its node beyond room there."""

    name: str

    def reserve(self, node: str) -> Reservation | None:
        """Promise what the pod needs on *node*; None when it needs nothing more."""


@dataclass(frozen=True)
class Extensions:
    """The extension points at which a plugin has something to say about pods of one class; None is Skip."""

    pre_filter: PreFilterPlugin | None = None
    node_names: frozenset[str] | None = None  #: PreFilterResult: the only nodes worth looking at
    filter: FilterPlugin | None = None
    post_filter: PostFilterPlugin | None = None
    pre_score: str = ""  #: PreScore: why the nodes cannot be scored for this class
    score: ScorePlugin | None = None
    cluster_score: ClusterScorePlugin | None = None
    reserve: ReservePlugin | None = None
    stale: Callable[[], bool] | None = None  #: whether the class must be evaluated again


class Plugin(Protocol):
    """A plugin of one profile, made once by its factory (weir.scheduler.plugins.registry)."""

    name: str

    def for_class(self, pod: PodClass) -> Extensions:
        """Return what the plugin has to say about *pod*."""

    def events_to_register(self) -> Mapping[str, QueueingHint]:
        """EnqueueExtensions: return a hint for every event that may help pods the plugin rejected."""


class DefaultSelector(Protocol):
    """Gives the selector by which pods without spread constraints of their own are spread."""

    version: int  #: changes whenever any answer may

    def __call__(self, pod: PodClass) -> LabelSelector | None: ...


@dataclass(frozen=True)
class Handle:
    """What a plugin's factory builds from: the state its profile shares, and the profile's arguments."""

    table: NodeTable
    pod_counts: PodCounts
    gates: Gates
    arguments: ProfileArguments
    judged_taints: JudgedTaints
    evaluate: Evaluate | None = None
    default_selector: DefaultSelector | None = None
    storage: Storage | None = None  #: None: volumes are not looked at
    claims: Claims | None = None  #: None: devices are not looked at
    share_id: Callable[[], str] = lambda: ""  #: names a share of a device


@dataclass(frozen=True)
class Diagnosis:
    """Why no node took the pod: every node's status, and what the other extension points said."""

    nodes: int  #: how many nodes there were
    statuses: Mapping[str, Status] = field(default_factory=dict)  #: rejected nodes by name
    absent: Status | None = None  #: what holds for nodes left out before filtering
    prefilter: str = ""  #: text of a PreFilter rejection, which speaks for all nodes
    postfilter: str = ""
    plugins: frozenset[str] = frozenset()  #: the plugins that rejected
    pending: frozenset[str] = frozenset()  #: those of them that answered Pending
    most_bytes: int | None = REASONS_BYTES  #: None: every reason is spelled out, as upstream does

    @property
    def message(self) -> str:
        """The text of the FailedScheduling event and the PodScheduled condition."""
        text = f"0/{self.nodes} nodes are available:"
        if self.prefilter:
            text += f" {self.prefilter}."
        elif histogram := self.histogram():
            text += f" {', '.join(histogram)}."
        return f"{text} {self.postfilter}" if self.postfilter else text

    def histogram(self) -> list[str]:
        """Return `<count> <reason>`, sorted as text; a node with two reasons counts in both.

        Where reasons differ from node to node (each has a taint value of its own) only the most frequent are named.
        """
        counts = Counter(reason for status in self.statuses.values() for reason in status.reasons)
        if self.absent is not None:
            for reason in self.absent.reasons:
                counts[reason] += self.nodes - len(self.statuses)
        lines = sorted(f"{count} {reason}" for reason, count in counts.items() if count)
        if self.most_bytes is None or sum(len(line) + 2 for line in lines) <= self.most_bytes:
            return lines
        return self._most_frequent(counts, self.most_bytes)

    def _most_frequent(self, counts: Counter[str], most_bytes: int) -> list[str]:
        """Return lines of at most *most_bytes* (one line at least), and one that counts what they leave out."""
        named: dict[str, str] = {}
        for reason, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            line = f"{count} {reason}"
            most_bytes -= len(line.encode()) + 2
            if named and most_bytes < 0:
                break
            named[reason] = line
        left_out = counts.keys() - named.keys()
        nodes = sum(not left_out.isdisjoint(status.reasons) for status in self.statuses.values())
        if self.absent is not None and not left_out.isdisjoint(self.absent.reasons):
            nodes += self.nodes - len(self.statuses)
        if not left_out:
            return sorted(named.values())
        return [*sorted(named.values()), f"{nodes} node(s) had one of {len(left_out)} other reasons"]
