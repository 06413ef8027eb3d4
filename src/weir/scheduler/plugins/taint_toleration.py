"""TaintToleration: keep pods away from nodes whose taints they do not tolerate.

Spec: core.md 3.7.1; KEP-5471 "Implementation", KEP-5500 "TaintToleration Plugin".
Filter reads NoSchedule and NoExecute and names the first untolerated taint; Score counts untolerated
PreferNoSchedule. Each distinct taint is judged once per toleration list, each distinct taint list once per class, and
the nodes only look their list up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from weir.objects.core import Node, Pod, Taint, Toleration
from weir.scheduler.framework import (
    Code,
    Extensions,
    FilterPlugin,
    Normalize,
    Plugin,
    Scope,
    ScorePlugin,
    Status,
)
from weir.scheduler.judged_taints import JudgedTaints
from weir.scheduler.node_columns import Ids
from weir.scheduler.node_table import NodeTable
from weir.scheduler.pod_class import PodClass
from weir.scheduler.queueing_hints import (
    NODE_ADD,
    NODE_TAINT,
    OWN_TOLERATION,
    ClusterEvent,
    QueueingHint,
    always,
)
from weir.scheduler.reasons import Attempt, Reason, UntoleratedTaint
from weir.taints.toleration import BLOCKING, SCORING, Outcome, compares, tolerates, untolerated

if TYPE_CHECKING:
    from weir.taints.expression import Expressions

NAME = "TaintToleration"
#: So many distinct taints keep the reasons for which a class does not tolerate them.
_MOST_JUDGED = 4096


class TaintToleration(Plugin):
    name = NAME

    def __init__(self, table: NodeTable, taints: JudgedTaints, *, upstream_reason: bool = False) -> None:
        self._table, self._taints, self._upstream_reason = table, taints, upstream_reason

    def for_class(self, pod: PodClass) -> Extensions:
        bound = BoundTaintToleration(pod, self._table, self._taints, upstream_reason=self._upstream_reason)
        return Extensions(filter=bound, score=bound)

    def events_to_register(self) -> Mapping[str, QueueingHint]:
        return {NODE_ADD: self._now_tolerated, NODE_TAINT: self._now_tolerated, OWN_TOLERATION: always}

    def _now_tolerated(self, pod: Pod, event: ClusterEvent) -> bool:
        was = event.old is not None and self._tolerates_node(pod, event.old)
        return not was and self._tolerates_node(pod, event.new)

    def _tolerates_node(self, pod: Pod, node: Node) -> bool:
        gates, evaluate = self._taints.gates, self._taints.evaluate
        return not untolerated(node.taints, pod.tolerations, gates, BLOCKING, evaluate)


class BoundTaintToleration(FilterPlugin, ScorePlugin):
    """The plugin for one pod class: an answer for every distinct taint list, extended as lists appear."""

    name = NAME
    scope = Scope.NODE
    normalize = Normalize.REVERSED

    def __init__(
        self, pod: PodClass, table: NodeTable, taints: JudgedTaints, *, upstream_reason: bool = False
    ) -> None:
        self._table, self._taints, self._upstream_reason = table, taints, upstream_reason
        self._tolerations = pod.tolerations
        # PreScore keeps the entries that can be about PreferNoSchedule; an expression has no effect and stays.
        self._soft = tuple(t for t in pod.tolerations if t.effect in ("", "PreferNoSchedule"))
        self._comparing = tuple(
            t for t in pod.tolerations if compares(t)
        )  # what may not be able to read a value
        self._codes: Ids = np.zeros(0, np.int32)
        self._raw: Ids = np.zeros(0, np.int32)
        self._codes_version = self._raw_version = -1  #: the table's taint_version they are for
        self._judged: dict[tuple[str, str, str], UntoleratedTaint | None] = {}

    def codes(self, rows: Any) -> Ids:
        """Return 0 for tolerated nodes, else 1 + the number of the first untolerated taint."""
        if self._codes_version != self._table.taint_version:
            self._judge_hard()
        return self._codes[self._table.taint_list[rows]]

    def score(self, rows: Any) -> Ids:
        """Return how many PreferNoSchedule taints of each node are not tolerated."""
        if self._raw_version != self._table.taint_version:
            self._judge_soft()
        return self._raw[self._table.taint_list[rows]]

    def status(self, code: int) -> Status:
        taint = self._taints.judge.taints[code - 1]
        if self._upstream_reason:
            return Status(Code.UNRESOLVABLE, (UntoleratedTaint.words,), NAME)
        gates, evaluate = self._taints.gates, self._taints.evaluate
        tried = (Attempt(each, tolerates(each, taint, gates, evaluate)) for each in self._comparing)
        return Status(Code.UNRESOLVABLE, (UntoleratedTaint(taint, tuple(tried)).message(),), NAME)

    def reasons(self, row: int, code: int) -> tuple[Reason, ...]:
        """Return every taint of the node that is not tolerated: the first is the one `status` names."""
        node = self._table.nodes[row]
        assert node is not None
        found = (self._untolerated(taint) for taint in node.taints if taint.effect in BLOCKING)
        return tuple(reason for reason in found if reason is not None)

    def disliked(self, row: int) -> tuple[Taint, ...]:
        """Return the PreferNoSchedule taints of the node that count against it."""
        node = self._table.nodes[row]
        assert node is not None
        return tuple(t for t in node.taints if t.effect in SCORING and self._untolerated(t) is not None)

    def _untolerated(self, taint: Taint) -> UntoleratedTaint | None:
        """Return why *taint* is not tolerated, or None when it is; each distinct taint is judged once."""
        identity = (taint.key, taint.value, taint.effect)
        if identity not in self._judged:
            if len(self._judged) >= _MOST_JUDGED:
                self._judged.clear()
            attempts = []
            for toleration in self._tolerations:
                outcome = tolerates(toleration, taint, self._taints.gates, self._taints.evaluate)
                if outcome:
                    self._judged[identity] = None
                    break
                attempts.append(_attempt(toleration, taint, outcome, self._taints.expressions))
            else:
                bare = Taint(*identity)  # when it was added does not matter
                self._judged[identity] = UntoleratedTaint(bare, tuple(attempts))
        return self._judged[identity]

    def _judge_hard(self) -> None:
        self._taints.read(self._table)
        self._codes_version = self._table.taint_version
        self._codes = np.zeros(len(self._table.taint_lists), np.int32)
        members, starts, owners = self._taints.hard.arrays
        if len(starts):
            tolerated = self._taints.judge.tolerated(self._tolerations)[members]
            nowhere = len(members)
            position = np.where(tolerated, nowhere, np.arange(nowhere))
            first = np.minimum.reduceat(position, starts)
            kept_off = first < nowhere
            self._codes[owners[kept_off]] = 1 + members[first[kept_off]]

    def _judge_soft(self) -> None:
        self._taints.read(self._table)
        self._raw_version = self._table.taint_version
        self._raw = np.zeros(len(self._table.taint_lists), np.int32)
        members, starts, owners = self._taints.soft.arrays
        if len(starts):
            counted = ~self._taints.judge.tolerated(self._soft)[members]
            self._raw[owners] = np.add.reduceat(counted.astype(np.int32), starts)


def _attempt(
    toleration: Toleration, taint: Taint, outcome: Outcome, expressions: Expressions | None
) -> Attempt:
    """Return how *toleration* met *taint*; an expression also says which part of it decided."""
    if outcome not in (Outcome.EXPRESSION_FALSE, Outcome.EXPRESSION_FAILED):
        return Attempt(toleration, outcome)
    from weir.taints.expression import shared  # loads the language, which most pods do not need

    judgement = (expressions or shared()).judge(toleration.expression, taint)
    return Attempt(toleration, outcome, judgement.deciding, judgement.error)
