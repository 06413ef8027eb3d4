"""NodeName: a pod with spec.nodeName fits only that node.

Spec: core.md 3.7.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from weir.scheduler.framework import Code, Extensions, FilterPlugin, Plugin, Scope, Status
from weir.scheduler.node_columns import Ids
from weir.scheduler.node_table import NodeTable
from weir.scheduler.pod_class import PodClass
from weir.scheduler.queueing_hints import NODE_ADD, QueueingHint, always
from weir.scheduler.reasons import OtherNode, Reason

NAME: Final = "NodeName"
_REJECTED: Final = Status(Code.UNRESOLVABLE, (OtherNode.words,), NAME)


class NodeName(Plugin):
    name = NAME

    def __init__(self, table: NodeTable) -> None:
        self._table = table

    def for_class(self, pod: PodClass) -> Extensions:
        """Return the check; none for a pod that names no node."""
        wanted = pod.pod.spec.node_name
        if not wanted:
            return Extensions()
        return Extensions(node_names=frozenset({wanted}), filter=_Filter(wanted, self._table))

    def events_to_register(self) -> Mapping[str, QueueingHint]:
        return {NODE_ADD: always}


class _Filter(FilterPlugin):
    name = NAME
    scope = Scope.NODE

    def __init__(self, wanted: str, table: NodeTable) -> None:
        self._wanted, self._table = wanted, table

    def codes(self, rows: Any) -> Ids:
        codes = np.ones(len(self._table.alive), np.int32)
        row = self._table.row_of.get(self._wanted)
        if row is not None:
            codes[row] = 0
        return codes[rows]

    def status(self, code: int) -> Status:
        return _REJECTED

    def reasons(self, row: int, code: int) -> tuple[Reason, ...]:
        return (OtherNode(self._wanted),)
