"""Node groups: the matrix' columns, nodes equal in taints, size and relevant labels.

A label with a different value on every node (hostname) is not relevant. Groups only affect display; every node is
evaluated itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from weir.explain.phrases import counted, short
from weir.objects.core import Node
from weir.objects.requests import node_allocatable, show_amount

#: Beyond this many groups, labels that no workload selects by are left out, those with the most values first.
MOST_GROUPS: Final = 60
_OF_ONE_NODE: Final = frozenset({"kubernetes.io/hostname", "hostname"})
_SIZES: Final = ("cpu", "memory")
Key = tuple[Any, ...]


@dataclass(frozen=True)
class NodeGroup:
    """Nodes that are shown as one column."""

    id: str
    nodes: tuple[str, ...]
    labels: tuple[tuple[str, str], ...]
    taints: tuple[str, ...]
    size: tuple[tuple[str, str], ...]
    cordoned: bool
    title: str  #: what tells it from the others

    def document(self) -> dict[str, Any]:
        """Return the group for the page."""
        return {
            "id": self.id,
            "title": self.title,
            "count": len(self.nodes),
            "nodes": list(self.nodes),
            "labels": dict(self.labels),
            "taints": list(self.taints),
            "size": dict(self.size),
            "cordoned": self.cordoned,
        }


def group_nodes(nodes: Sequence[Node], selected: Collection[str] = ()) -> list[NodeGroup]:
    """Return *nodes* in groups, the largest first; labels in *selected* are those that workloads select by."""
    keys = _distinguishing_labels(nodes)
    for key in sorted(keys, key=lambda each: (each in selected, -keys[each], each)):
        if len({_key(node, keys) for node in nodes}) <= MOST_GROUPS or key in selected:
            break
        del keys[key]
    groups: dict[Key, list[Node]] = {}
    for node in nodes:
        groups.setdefault(_key(node, keys), []).append(node)
    ordered = sorted(groups.items(), key=lambda each: (-len(each[1]), each[1][0].name))
    differing = _differing([members[0] for _, members in ordered], keys)
    found = []
    for number, ((labels, taints, cordoned, size), members) in enumerate(ordered):
        alone = len(members) == 1
        parts = [f"{_bare(name)}={value}" for name, value in labels if name in differing]
        parts += [_taint_words(taint) for taint in taints]
        if "size" in differing:
            parts.append(" ".join(f"{amount} {name}" for name, amount in size))
        if cordoned:
            parts.append("cordoned")
        title = " · ".join(short(part, 60) for part in parts if part)
        name = members[0].name
        title = f"{name}{' · ' + title if title else ''}" if alone else title or counted(len(members), "node")
        found.append(
            NodeGroup(
                f"g{number}",
                tuple(sorted(node.name for node in members)),
                labels,
                tuple(taints),
                size,
                cordoned,
                title,
            )
        )
    return found


def _distinguishing_labels(nodes: Sequence[Node]) -> dict[str, int]:
    """Return the labels that say what kind of node it is, each with how many values it has."""
    values: dict[str, Counter[str]] = {}
    for node in nodes:
        for name, value in (node.metadata.labels or {}).items():
            values.setdefault(name, Counter())[value] += 1
    found = {}
    for name, counts in values.items():
        own_everywhere = len(nodes) > 1 and len(counts) == len(nodes)
        if name not in _OF_ONE_NODE and not (own_everywhere and len(nodes) > MOST_GROUPS):
            found[name] = len(counts)
    return found


def _differing(firsts: Iterable[Node], keys: Collection[str]) -> set[str]:
    """Return which labels, and whether the size, differ between groups."""
    several = list(firsts)
    found = {name for name in keys if len({(node.metadata.labels or {}).get(name) for node in several}) > 1}
    if len({_size(node) for node in several}) > 1:
        found.add("size")
    return found


def _key(node: Node, labels: Collection[str]) -> Key:
    own = node.metadata.labels or {}
    return (
        tuple(sorted((name, value) for name, value in own.items() if name in labels)),
        tuple(sorted(str(taint) for taint in node.taints)),
        bool(node.spec.unschedulable),
        _size(node),
    )


def _size(node: Node) -> tuple[tuple[str, str], ...]:
    amounts = node_allocatable(node) or {}
    extended = sorted(name for name in amounts if "/" in name)
    return tuple((name, _rounded(name, amounts[name])) for name in (*_SIZES, *extended) if name in amounts)


def _rounded(name: str, amount: int) -> str:
    """Return an amount as a class of sizes has it: machines of one kind differ by a few mebibytes.

    >>> _rounded("memory", (32 << 30) - 12345), _rounded("cpu", 4000)
    ('32Gi', '4')
    """
    if name == "memory" and amount >= 1 << 30:
        return f"{round(amount / (1 << 30))}Gi"
    return show_amount(name, amount)


def _bare(label: str) -> str:
    """Return a label without its prefix, which is long and mostly the same.

    >>> _bare("topology.kubernetes.io/zone")
    'zone'
    """
    return label.rpartition("/")[2]


def _taint_words(taint: str) -> str:
    return f"⊘ {taint}"
