"""Taints of a cluster's nodes as columns, and the nodes whose taints a list of tolerations tolerates.

A cordon counts as the taint that NodeUnschedulable matches. Workloads of one cluster share the columns: whether a
toleration tolerates a taint is asked once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from weir.gates import Gates
from weir.objects.core import Node, Taint, Toleration
from weir.scheduler.plugins.node_unschedulable import CORDONED
from weir.taints.toleration import BLOCKING, tolerates

Bools = npt.NDArray[np.bool_]
Identity = tuple[str, str, str]
_CORDON: Final[Identity] = (CORDONED.key, CORDONED.value, CORDONED.effect)


class NodeTaints:
    """The blocking taints of nodes; a row stands for a node, in the order of *nodes*."""

    def __init__(self, nodes: Iterable[Node], gates: Gates) -> None:
        self._gates = gates
        self._numbers: dict[Identity, int] = {}
        lists: dict[tuple[int, ...], int] = {(): 0}
        rows = [lists.setdefault(self._members(node), len(lists)) for node in nodes]
        self._list_of_row = np.array(rows, np.int64)
        tainted = [members for members in lists if members]
        self._members_of_lists = np.array([each for members in tainted for each in members], np.int64)
        lengths = [len(members) for members in tainted]
        self._starts = np.cumsum([0, *lengths[:-1]], dtype=np.int64)
        self.taints = [Taint(*identity) for identity in self._numbers]
        self._tolerated: dict[Toleration, Bools] = {}

    def _members(self, node: Node) -> tuple[int, ...]:
        identities = [(each.key, each.value, each.effect) for each in node.taints if each.effect in BLOCKING]
        if node.spec.unschedulable:
            identities.append(_CORDON)
        return tuple(self._numbers.setdefault(each, len(self._numbers)) for each in identities)

    def tolerated_by(self, tolerations: Iterable[Toleration]) -> Bools:
        """Return for every taint whether one of *tolerations* tolerates it."""
        result = np.zeros(len(self.taints), np.bool_)
        for toleration in tolerations:
            known = self._tolerated.get(toleration)
            if known is None:
                verdicts = [bool(tolerates(toleration, taint, self._gates)) for taint in self.taints]
                known = self._tolerated[toleration] = np.array(verdicts, np.bool_)
            result |= known
        return result

    def open_rows(self, tolerated: Bools) -> Bools:
        """Return for every node whether all its taints are among the *tolerated* ones."""
        open_lists = np.ones(len(self._starts) + 1, np.bool_)
        if len(self._members_of_lists):
            open_lists[1:] = np.logical_and.reduceat(tolerated[self._members_of_lists], self._starts)
        return open_lists[self._list_of_row]
