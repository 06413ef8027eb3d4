"""NodeName: a pod that names its node goes there or nowhere.

Spec: core.md 3.7.3.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from weir.scheduler.framework import Code, Status
from weir.scheduler.node_table import Ids, NodeTable
from weir.scheduler.pod_class import PodClass
from weir.scheduler.reasons import OtherNode, Reason

NAME: Final = "NodeName"
_REJECTED: Final = Status(Code.UNRESOLVABLE, (OtherNode.words,), NAME)


class NodeName:
    name = NAME

    def bind(self, pod: PodClass, table: NodeTable) -> BoundNodeName | None:
        """Return the check, or None for a pod that names no node."""
        wanted = pod.pod.spec.node_name
        return BoundNodeName(wanted, table) if wanted else None


class BoundNodeName:
    name = NAME
    dynamic = False

    def __init__(self, wanted: str, table: NodeTable) -> None:
        self._wanted, self._table = wanted, table

    def only(self) -> set[str]:
        """PreFilter: the one node worth looking at."""
        return {self._wanted}

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
