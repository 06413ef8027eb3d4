"""NodePorts: a host port can be used once per node.

Spec: core.md 3.7.3. Two ports conflict when protocol and number are equal and the addresses are equal or either is
0.0.0.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from weir.objects.core import Pod
from weir.objects.requests import HostPort, host_ports
from weir.scheduler.framework import Code, Extensions, FilterPlugin, Plugin, Scope, Status
from weir.scheduler.node_columns import Ids
from weir.scheduler.node_table import NodeTable
from weir.scheduler.pod_class import PodClass
from weir.scheduler.queueing_hints import NODE_ADD, POD_DELETE, ClusterEvent, QueueingHint, always
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


class NodePorts(Plugin):
    name = NAME

    def __init__(self, table: NodeTable) -> None:
        self._table = table

    def for_class(self, pod: PodClass) -> Extensions:
        """Return the check; none for a pod without host ports."""
        return Extensions(filter=_Filter(pod.host_ports, self._table)) if pod.host_ports else Extensions()

    def events_to_register(self) -> Mapping[str, QueueingHint]:
        return {NODE_ADD: always, POD_DELETE: self._frees_port}

    def _frees_port(self, pod: Pod, event: ClusterEvent) -> bool:
        return any(conflicts(wanted, held) for wanted in host_ports(pod) for held in host_ports(event.old))


class _Filter(FilterPlugin):
    name = NAME
    scope = Scope.PODS

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
