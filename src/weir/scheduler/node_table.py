"""Node table: the scheduler's snapshot of the cluster as columns, updated change by change.

One row per node. Repeated data is interned: taint lists, label values by key, pod classes. A change of a node or of
its pods appends the row to a log; caches per row (weir.scheduler.feasibility) read the log from where they stopped. A
pod that arrives before its node is kept and counted once the node is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from weir.objects.core import Node, Taint
from weir.objects.requests import HostPort, node_allocatable
from weir.scheduler.node_columns import (
    LEAST_INTERNED,
    Bools,
    Ids,
    Ints,
    LabelColumn,
    ResourceColumn,
    Rows,
    renumbered,
)
from weir.scheduler.node_tree import rows_in_order, zone_key
from weir.scheduler.pod_class import PodClass, SeatedPods

#: Rows of NodeTable.state, which is one matrix so that one gather fetches a node whole.
ALLOC_CPU: Final = 0
ALLOC_MEMORY: Final = 1
ALLOC_PODS: Final = 2
USED_CPU: Final = 3
USED_MEMORY: Final = 4
USED_PODS: Final = 5
NONZERO_CPU: Final = 6  #: usage with a default for every container without requests
NONZERO_MEMORY: Final = 7
BALANCE: Final = 8  #: how evenly CPU and memory are used, 0 to 100 (see NodeResourcesBalancedAllocation)
FREE_CPU: Final = 9
FREE_MEMORY: Final = 10
FREE_PODS: Final = 11
SPARE_CPU: Final = 12  #: a hundred times allocatable minus the nonzero usage: what LeastAllocated divides
SPARE_MEMORY: Final = 13
_STATE_ROWS: Final = 14

_FIRST_CAPACITY: Final = 64
#: Beyond this the log is cut, and readers that are behind start afresh.
_LONGEST_LOG: Final = 1_000_000
_MOST_FRESH: Final = 64
#: A sum in a row of `NodeTable.state`; more does not fit its columns.
_MOST_STATE: Final = 2**62
#: Maximum number of label columns; beyond it the oldest half is dropped and rebuilt on demand.
_MOST_LABELS: Final = 256
#: The same for resources: any pod can name a new one.
_MOST_RESOURCES: Final = 256


#: Called for every pod that comes to or leaves a row, with +1 or -1.
PodListener = Callable[[int, PodClass, int], None]


class NodeTable:
    """The nodes and the pods on them, as columns.

    >>> from weir.objects.core import Node, Pod, read
    >>> from weir.scheduler.pod_class import build
    >>> table = NodeTable()
    >>> table.put_node(read(Node, {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2"}}}))
    >>> table.add_pod("default/a", build(read(Pod, {"metadata": {"name": "a"}})), "n1")
    >>> int(table.state[ALLOC_CPU, 0]), int(table.state[USED_PODS, 0])
    (2000, 1)
    """

    def __init__(self) -> None:
        self._capacity = _FIRST_CAPACITY
        self.size = 0  #: rows in use, gaps included
        self.row_of: dict[str, int] = {}
        self.nodes: list[Node | None] = []
        self.alive: Bools = np.zeros(self._capacity, np.bool_)
        self.unschedulable: Bools = np.zeros(self._capacity, np.bool_)
        self.state: Ints = np.zeros((_STATE_ROWS, self._capacity), np.int64)
        self.resources: dict[str, ResourceColumn] = {}
        self.labels: dict[str, LabelColumn] = {}

        self.taint_list: Ids = np.zeros(self._capacity, np.int32)
        self.taint_lists: list[tuple[Taint, ...]] = [()]
        self._taint_list_number: dict[tuple[Taint, ...], int] = {(): 0}
        self._taint_list_nodes = [0]  #: how many nodes carry each taint list
        self._most_taint_lists = LEAST_INTERNED
        self.taint_version = 0  #: changes when a node is the first to carry a taint list
        self.taint_generation = 0  #: changes when taint lists get other numbers

        self.pods: list[dict[str, PodClass]] = []  #: by row
        self.row_of_pod: dict[str, int] = {}
        self.ports: dict[int, dict[HostPort, int]] = {}
        self.images: dict[str, set[int]] = {}  #: image → rows that have it
        self.image_size: dict[str, int] = {}  #: in bytes, as the first node that had it said
        self._homeless: dict[str, dict[str, PodClass]] = {}
        self._expected: dict[str, SeatedPods] = {}
        self._listeners: list[PodListener] = []

        self.log: list[int] = []  #: rows whose pods or resources changed
        self.static_log: list[int] = []  #: rows whose node changed (each is in `log` as well)
        self.log_start = 0  #: position of log[0] since the beginning
        self.static_start = 0
        self.fresh: dict[int, list[int]] = {}  #: the columns of rows written lately, as plain numbers
        self.memory: Any = None  #: what weir.scheduler.resource_scores keeps about this table
        self.epoch = 0  #: changes when rows come, go or change their order
        self.incomplete: set[int] = set()  #: rows of nodes without any CPU or without any memory
        self.overcommitted: set[int] = set()  #: rows where pods request more CPU or memory than allocatable
        self._free: list[int] = []
        self._order_stale = True
        self._rank: Ids = np.zeros(self._capacity, np.int32)
        self._ordered: Rows = np.zeros(0, np.int64)
        self._zeros: Ids = np.zeros(0, np.int32)

    # ── nodes ────────────────────────────────────────────────────────────────────────────────────

    def __len__(self) -> int:
        return len(self.row_of)

    def put_node(self, node: Node) -> None:
        """Add *node*, or bring its row up to date."""
        row = self.row_of.get(node.name)
        old = None if row is None else self.nodes[row]
        if row is None:
            row = self._new_row(node.name)
        self.nodes[row] = node
        self.unschedulable[row] = bool(node.spec.unschedulable)
        self._put_taint_list(row, self._number_of(node.taints))
        if len(self.taint_lists) > self._most_taint_lists:
            self._forget_taint_lists()
        for key, column in self.labels.items():
            column.put(row, node.labels.get(key))
        self._put_allocatable(row, node)
        self._put_images(row, old, node)
        if old is None or zone_key(old) != zone_key(node):
            self._reorder()
        elif old.status.images != node.status.images:
            self.epoch += 1  # how widespread an image is counts on every node
        self._note_static(row)
        if old is None and (expected := self._expected.pop(node.name, None)):
            self._seat(row, expected)
        if old is None and (stranded := self._homeless.pop(node.name, None)):
            self._seat(row, SeatedPods(stranded))

    def remove_node(self, name: str) -> None:
        """Take the node out; pods still bound to it wait for it to come back."""
        row = self.row_of.get(name)
        if row is None:
            return
        stranded = dict(self.pods[row])
        for key in stranded:
            self.remove_pod(key)
        if stranded:
            self._homeless[name] = stranded
        node = self.nodes[row]
        if node is not None:
            self._put_images(row, node, None)
        del self.row_of[name]
        self.nodes[row] = None
        self.alive[row] = False
        self.incomplete.discard(row)
        self.overcommitted.discard(row)
        self.state[:, row] = 0
        self.fresh.pop(row, None)
        self._put_taint_list(row, 0)
        for resource in self.resources.values():
            resource.alloc[row] = resource.used[row] = 0
        for column in self.labels.values():
            column.put(row, None)
        self._free.append(row)
        self._reorder()
        self._note_static(row)

    def _new_row(self, name: str) -> int:
        if self._free:
            row = self._free.pop()
        else:
            row = self.size
            if row == self._capacity:
                self._grow()
            self.size += 1
            self.nodes.append(None)
            self.pods.append({})
        self.row_of[name] = row
        self.alive[row] = True
        return row

    def _grow(self) -> None:
        self._capacity *= 2
        extra = self._capacity - len(self.alive)
        self.alive = np.concatenate([self.alive, np.zeros(extra, np.bool_)])
        self.unschedulable = np.concatenate([self.unschedulable, np.zeros(extra, np.bool_)])
        self.taint_list = np.concatenate([self.taint_list, np.zeros(extra, np.int32)])
        self._rank = np.concatenate([self._rank, np.zeros(extra, np.int32)])
        self.state = np.concatenate([self.state, np.zeros((_STATE_ROWS, extra), np.int64)], axis=1)
        for resource in self.resources.values():
            resource.alloc = np.concatenate([resource.alloc, np.zeros(extra, np.int64)])
            resource.used = np.concatenate([resource.used, np.zeros(extra, np.int64)])
        for column in self.labels.values():
            column.ids = np.concatenate([column.ids, np.full(extra, -1, np.int32)])

    def _put_allocatable(self, row: int, node: Node) -> None:
        amounts = node_allocatable(node) or {}
        column = self.state[:, row].tolist()
        column[ALLOC_CPU] = amounts.get("cpu", 0)
        column[ALLOC_MEMORY] = amounts.get("memory", 0)
        column[ALLOC_PODS] = amounts.get("pods", 0)
        for name in amounts:
            if name not in ("cpu", "memory", "pods"):
                self.resource(name)
        for name, resource in self.resources.items():
            resource.alloc[row] = amounts.get(name, 0)
        if amounts.get("cpu", 0) > 0 and amounts.get("memory", 0) > 0:
            self.incomplete.discard(row)
        else:
            self.incomplete.add(row)
        self._put_state(row, column)

    def _put_state(self, row: int, column: list[int]) -> None:
        """Write a row's amounts with what follows from them, the same for every pod class."""
        alloc_cpu, alloc_memory, alloc_pods, cpu, memory, pods, nonzero_cpu, nonzero_memory = column[:BALANCE]
        if row in self.incomplete:
            balance = 100
        else:
            deviation = abs(min(cpu / alloc_cpu, 1.0) - min(memory / alloc_memory, 1.0)) / 2
            balance = int((1 - deviation) * 100)
        if cpu > alloc_cpu or memory > alloc_memory:
            self.overcommitted.add(row)
        elif self.overcommitted:
            self.overcommitted.discard(row)
        column[BALANCE:] = (
            balance,
            alloc_cpu - cpu,
            alloc_memory - memory,
            alloc_pods - pods,
            100 * (alloc_cpu - nonzero_cpu),
            100 * (alloc_memory - nonzero_memory),
        )
        try:
            self.state[:, row] = column
        except OverflowError:  # of sums: one amount alone is bounded
            column = [max(-_MOST_STATE, min(amount, _MOST_STATE)) for amount in column]
            self.state[:, row] = column
        if len(self.fresh) >= _MOST_FRESH:
            self.fresh.clear()
        self.fresh[row] = column

    def _put_images(self, row: int, old: Node | None, new: Node | None) -> None:
        for name, _ in _images(old):
            holders = self.images.get(name, set())
            holders.discard(row)
            if not holders:
                self.images.pop(name, None)
                self.image_size.pop(name, None)
        for name, size in _images(new):
            self.images.setdefault(name, set()).add(row)
            self.image_size.setdefault(name, size)

    def _number_of(self, taints: tuple[Taint, ...]) -> int:
        if not taints:
            return 0
        # When a taint was added does not matter to scheduling.
        bare = tuple(Taint(taint.key, taint.value, taint.effect) for taint in taints)
        number = self._taint_list_number.get(bare)
        if number is None:
            number = self._taint_list_number[bare] = len(self.taint_lists)
            self.taint_lists.append(bare)
            self._taint_list_nodes.append(0)
        return number

    def _put_taint_list(self, row: int, number: int) -> None:
        nodes = self._taint_list_nodes
        nodes[self.taint_list[row]] -= 1
        nodes[number] += 1
        if number and nodes[number] == 1:
            self.taint_version += 1
        self.taint_list[row] = number

    def _forget_taint_lists(self) -> None:
        """Keep the taint lists that nodes carry: numeric taints that are rewritten for ever do not add up."""
        carried = self.taint_list - 1  # the empty list is number 0 whether or not a node has it
        used, numbers = renumbered(carried)
        self.taint_list[:] = numbers + 1
        self.taint_lists = [(), *(self.taint_lists[number + 1] for number in used)]
        self._taint_list_number = {taints: number for number, taints in enumerate(self.taint_lists)}
        self._taint_list_nodes = np.bincount(self.taint_list, minlength=len(self.taint_lists)).tolist()
        self._most_taint_lists = max(LEAST_INTERNED, 2 * len(self.taint_lists))
        self.taint_version += 1
        self.taint_generation += 1

    # ── columns built on first use ───────────────────────────────────────────────────────────────

    def label(self, key: str) -> LabelColumn:
        """Return the column of the label *key*."""
        column = self.labels.get(key)
        if column is None:
            if len(self.labels) >= _MOST_LABELS:
                for old in list(self.labels)[: _MOST_LABELS // 2]:
                    del self.labels[old]
            column = self.labels[key] = LabelColumn(self._capacity)
            for row, node in enumerate(self.nodes):
                if node is not None:
                    column.put(row, node.labels.get(key))
        return column

    def resource(self, name: str) -> ResourceColumn:
        """Return the column of a resource other than CPU, memory and pods."""
        column = self.resources.get(name)
        if column is None:
            if len(self.resources) >= _MOST_RESOURCES:
                for old in list(self.resources)[: _MOST_RESOURCES // 2]:
                    del self.resources[old]
            column = self.resources[name] = ResourceColumn(self._capacity)
            for row, node in enumerate(self.nodes):
                if node is not None:
                    column.alloc[row] = (node_allocatable(node) or {}).get(name, 0)
                    column.used[row] = sum(pod.requests.get(name, 0) for pod in self.pods[row].values())
        return column

    # ── pods ─────────────────────────────────────────────────────────────────────────────────────

    def listen(self, listener: PodListener) -> None:
        """Call *listener* for every pod that is here, and for every one that comes or goes."""
        for row, pods in enumerate(self.pods):
            for pod_class in pods.values():
                listener(row, pod_class, 1)
        self._listeners.append(listener)

    def add_pod(self, key: str, pod_class: PodClass, node_name: str) -> None:
        """Count the pod on its node."""
        row = self.row_of.get(node_name)
        if row is None:
            self._homeless.setdefault(node_name, {})[key] = pod_class
            return
        if key in self.row_of_pod:
            self.remove_pod(key)
        self.pods[row][key] = pod_class
        self.row_of_pod[key] = row
        self._account(row, pod_class, 1)

    def expect_pods(self, node_name: str, pods: SeatedPods) -> None:
        """Count *pods* on a node as soon as it comes."""
        self._expected[node_name] = pods

    def _seat(self, row: int, pods: SeatedPods) -> None:
        """Count new pods together: the same as `add_pod` for each."""
        self.pods[row].update(pods)
        self.row_of_pod.update(dict.fromkeys(pods, row))
        usage, column = pods.usage, self.state[:, row].tolist()
        column[USED_PODS] += len(pods)
        column[NONZERO_CPU] += usage.nonzero_cpu
        column[NONZERO_MEMORY] += usage.nonzero_memory
        self._count_requests(row, column, usage.requests, 1)
        for pod in usage.with_ports:
            self._account_ports(row, pod, 1)
        for listener in self._listeners:
            for pod in pods.values():
                listener(row, pod, 1)
        self._put_state(row, column)
        self._note(row)

    def load_pods(self, node_name: str, pods: SeatedPods) -> None:
        """Count new pods on a node that is here."""
        self._seat(self.row_of[node_name], pods)

    def remove_pod(self, key: str) -> None:
        """Stop counting the pod, wherever it is."""
        row = self.row_of_pod.pop(key, None)
        if row is None:
            for waiting in self._homeless.values():
                waiting.pop(key, None)
            return
        self._account(row, self.pods[row].pop(key), -1)

    def class_of(self, key: str) -> PodClass | None:
        """Return the class a pod is counted as, None when it is on no node that is here."""
        row = self.row_of_pod.get(key)
        return None if row is None else self.pods[row][key]

    def change_class(self, key: str, pod_class: PodClass) -> None:
        """Count a pod that is here as one of another class, which requests the same."""
        row = self.row_of_pod[key]
        old = self.pods[row][key]
        if old is pod_class:
            return
        self.pods[row][key] = pod_class
        for listener in self._listeners:
            listener(row, old, -1)
            listener(row, pod_class, 1)
        self._note(row)

    def _account(self, row: int, pod: PodClass, sign: int) -> None:
        column = self.fresh.get(row) or self.state[:, row].tolist()
        self._count(row, column, pod, sign)
        self._put_state(row, column)
        self._note(row)

    def _count(self, row: int, column: list[int], pod: PodClass, sign: int) -> None:
        column[USED_PODS] += sign
        column[NONZERO_CPU] += sign * pod.nonzero_cpu
        column[NONZERO_MEMORY] += sign * pod.nonzero_memory
        self._count_requests(row, column, pod.requests, sign)
        if pod.host_ports:
            self._account_ports(row, pod, sign)
        for listener in self._listeners:
            listener(row, pod, sign)

    def _count_requests(self, row: int, column: list[int], requests: Mapping[str, int], sign: int) -> None:
        for name, amount in requests.items():
            if name == "cpu":
                column[USED_CPU] += sign * amount
            elif name == "memory":
                column[USED_MEMORY] += sign * amount
            elif name != "pods" and amount:
                resource = self.resources.get(name)
                if resource is None:
                    self.resource(name)  # a new column counts what is there now, these already with it
                else:
                    resource.used[row] += sign * amount

    def _account_ports(self, row: int, pod: PodClass, sign: int) -> None:
        held = self.ports.setdefault(row, {})
        for port in pod.host_ports:
            held[port] = held.get(port, 0) + sign
            if not held[port]:
                del held[port]

    @property
    def nodes_version(self) -> tuple[int, int]:
        """Changes whenever any node does; what hangs on nodes alone can be kept while it stays the same."""
        return self.epoch, self.static_start + len(self.static_log)

    # ── what changed ─────────────────────────────────────────────────────────────────────────────

    def _note_static(self, row: int) -> None:
        self.static_log.append(row)
        self._note(row)

    def _note(self, row: int) -> None:
        self.log.append(row)
        if len(self.log) > _LONGEST_LOG:
            self._cut_logs()

    def _cut_logs(self) -> None:
        self.log_start += len(self.log)
        self.static_start += len(self.static_log)
        self.log.clear()
        self.static_log.clear()

    def _reorder(self) -> None:
        self.epoch += 1
        self._order_stale = True

    # ── order ────────────────────────────────────────────────────────────────────────────────────

    @property
    def rank(self) -> Ids:
        """Each row's place in the order nodes are looked at: zones in turn, oldest node first."""
        self._order()
        return self._rank

    @property
    def zeros(self) -> Ids:
        """A column of zeros that must not be written to; shared by plugins that score no row."""
        if len(self._zeros) != len(self.alive):
            self._zeros = np.zeros(len(self.alive), np.int32)
            self._zeros.flags.writeable = False
        return self._zeros

    @property
    def ordered(self) -> Rows:
        """The rows in that order."""
        self._order()
        return self._ordered

    def _order(self) -> None:
        if not self._order_stale:
            return
        # A dict keeps the order in which nodes came.
        in_order = rows_in_order(self.row_of.values(), self.nodes)
        self._ordered = np.fromiter(in_order, np.int64, len(self.row_of))
        self._rank[self._ordered] = np.arange(len(self._ordered), dtype=np.int32)
        self._order_stale = False


def _images(node: Node | None) -> Iterator[tuple[str, int]]:
    for image in (node.status.images or ()) if node is not None else ():
        for name in image.names or ():
            yield name, image.size_bytes
