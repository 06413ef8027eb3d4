"""The nodes and workloads that a change is made to, before anything follows from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from weir.objects.core import Taint, read
from weir.objects.kinds import KINDS
from weir.selectors.labels import parse
from weir.taints.toleration import BLOCKING
from weir.whatif.changes import (
    AddNodes,
    Apply,
    Change,
    Cordon,
    DeleteNode,
    Drain,
    Label,
    Rollout,
    Scale,
    Wait,
)
from weir.whatif.changes import Taint as TaintNodes
from weir.whatif.pod_records import OWNERS

Document = dict[str, Any]


@dataclass
class Scope:
    """What a change is made to."""

    nodes: set[str] = field(default_factory=set)
    tainted: dict[str, tuple[Taint, ...]] = field(default_factory=dict)  #: node → its taints at any time
    workloads: set[tuple[str, str, str]] = field(default_factory=set)  #: kind, namespace, name
    moves_daemons: bool = False  #: a DaemonSet may want a pod where it had none


def scope_of(changes: Sequence[Change], nodes: dict[str, Document]) -> Scope | None:
    """Return what *changes* are made to; None when that could be anything."""
    found, tainted = Scope(), dict[str, list[Document]]()
    for change in changes:
        if isinstance(change, TaintNodes | Cordon | Drain | Label | DeleteNode):
            chosen = set(_chosen(change.nodes.names, change.nodes.selector, nodes))
            found.moves_daemons |= isinstance(change, Label | DeleteNode)
            if not isinstance(change, TaintNodes):
                found.nodes |= chosen
                continue
            for name in chosen & nodes.keys():
                found.moves_daemons |= _takes_away(change, nodes[name])
                before = tainted.get(name) or (nodes[name].get("spec") or {}).get("taints") or []
                tainted[name] = [*before, *(each for each in change.change(before) if each not in before)]
        elif isinstance(change, AddNodes):
            found.moves_daemons = True
        elif isinstance(change, Scale | Rollout):
            short, _, name = change.workload.partition("/")
            kind = next(
                (
                    k.kind
                    for k in KINDS
                    if short.lower() in (k.kind.lower(), k.plural, k.singular, *k.short_names)
                ),
                "",
            )
            found.workloads.add((kind, change.namespace, name))
        elif isinstance(change, Apply):
            if not _scope_of_manifests(change, found):
                return None
        elif not isinstance(change, Wait):
            return None
    for name, taints in tainted.items():
        found.tainted[name] = taints_with({"spec": {"taints": taints}}, BLOCKING)
    return found


def _takes_away(change: TaintNodes, node: Document) -> bool:
    """Return whether a taint of *node* is gone after the change, or has another value."""
    return any(
        taint.get("key") == edit.taint.key and edit.taint.effect in ("", taint.get("effect"))
        for edit in change.edits
        for taint in (node.get("spec") or {}).get("taints") or ()
    )


def _scope_of_manifests(change: Apply, found: Scope) -> bool:
    for document in change.documents:
        kind, metadata = document.get("kind"), document.get("metadata") or {}
        if kind == "Node":
            found.nodes.add(metadata.get("name", ""))
            found.moves_daemons = True
        elif kind in OWNERS and kind != "DaemonSet":
            found.workloads.add((str(kind), metadata.get("namespace") or "default", metadata.get("name", "")))
        elif kind == "Pod":
            found.workloads.add((kind, metadata.get("namespace") or "default", metadata.get("name", "")))
        elif kind not in ("DeviceTaintRule", "ResourceSlice", "DeviceClass"):
            return False
    return True


def _chosen(names: Sequence[str], selector: str, nodes: dict[str, Document]) -> Iterator[str]:
    if names:
        yield from names
        return
    wanted = parse(selector)
    for name, node in nodes.items():
        if wanted.matches(node["metadata"].get("labels") or {}):
            yield name


def taints_with(node: Document, effects: frozenset[str]) -> tuple[Taint, ...]:
    """Return the taints of a node with one of *effects*."""
    taints = (node.get("spec") or {}).get("taints") or ()
    return tuple(read(Taint, taint) for taint in taints if taint.get("effect") in effects)
