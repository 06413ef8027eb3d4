"""NodePorts: a host port can be used once on a node.

Spec: core.md 3.7.3. Two ports meet when protocol and number are equal and either address is 0.0.0.0 or both are
the same.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from weir.objects.requests import HostPort
from weir.scheduler.framework import Code, Status
from weir.scheduler.node_table import Ids, NodeTable
from weir.scheduler.pod_class import PodClass
from weir.scheduler.reasons import PortTaken, Reason

NAME: Final = "NodePorts"
_EVERYWHERE: Final = "0.0.0.0"
_REJECTED: Final = Status(Code.UNSCHEDULABLE, (PortTaken.words,), NAME)


def conflicts(wanted: HostPort, held: HostPort) -> bool:
    """Return whether two host ports cannot be held at once.

    >>> conflicts(("0.0.0.0", "TCP", 80), ("10.0.0.1", "TCP", 80))
    True
    """
    return wanted[1:] == held[1:] and (_EVERYWHERE in (wanted[0], held[0]) or wanted[0] == held[0])


class NodePorts:
    name = NAME

    def bind(self, pod: PodClass, table: NodeTable) -> BoundNodePorts | None:
        """Return the check, or None for a pod without host ports."""
        return BoundNodePorts(pod.host_ports, table) if pod.host_ports else None


class BoundNodePorts:
    name = NAME
    dynamic = True

    def __init__(self, wanted: tuple[HostPort, ...], table: NodeTable) -> None:
        self._wanted, self._table = wanted, table

    def codes(self, rows: Any) -> Ids:
        codes = np.zeros(len(self._table.alive), np.int32)
        for row, held in self._table.ports.items():
            if any(conflicts(wanted, taken) for wanted in self._wanted for taken in held):
                codes[row] = 1
        return codes[rows]

    def status(self, code: int) -> Status:
        return _REJECTED

    def reasons(self, row: int, code: int) -> tuple[Reason, ...]:
        """Return each wanted port that is taken, with the first pod that holds it."""
        held = [(port, key) for key, pod in self._table.pods[row].items() for port in pod.host_ports]
        found = []
        for wanted in self._wanted:
            holder = next((key for port, key in held if conflicts(wanted, port)), None)
            if holder is not None:
                found.append(PortTaken(wanted[2], wanted[1], holder))
        return tuple(found)
