"""What undoes a change: the words of `weir what-if changes` that bring its objects back to how they were."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from weir.objects import core
from weir.selectors.labels import parse
from weir.whatif.changes import (
    AddNodes,
    Apply,
    Change,
    Cordon,
    Drain,
    Label,
    Nodes,
    Scale,
    SetGates,
    Taint,
)
from weir.whatif.changes.apply import managed

Document = dict[str, Any]


class Undo(NamedTuple):
    """Lines in the order to make them, and what the line `apply` among them applies."""

    lines: tuple[str, ...]
    manifests: tuple[Document, ...] = ()


def undo(changes: Sequence[Change], objects: Iterable[Document]) -> Undo:
    """Return what undoes *changes* in the cluster of *objects* (those of other kinds than Pod); last change first.

    What cannot be undone (a rollout, a deleted node, restarted components) has no line.
    """
    held = list(objects)
    lines: list[str] = []
    manifests: list[Document] = []
    for change in reversed(changes):
        if isinstance(change, Apply):
            for document in reversed(change.documents):
                before = _find(held, document["kind"], document["metadata"])
                if before is None:
                    lines.append(f"delete {_name(document)}")
                else:
                    manifests.append(managed(before))
        else:
            lines += _lines(change, held)
    if manifests:
        lines.append("apply")
    return Undo(tuple(lines), tuple(manifests))


def nodes_of(changes: Iterable[Change], objects: Iterable[Document]) -> list[str]:
    """Return the nodes that *changes* name or select, in the order of their names."""
    held = list(objects)
    chosen = [getattr(each, "nodes", None) for each in changes]
    return sorted({name for nodes in chosen if isinstance(nodes, Nodes) for name, _ in selected(nodes, held)})


def selected(nodes: Nodes, objects: Iterable[Document]) -> Iterator[tuple[str, Document]]:
    """Yield the nodes of *objects* that *nodes* means, by name; names that are not there are left out."""
    matches = parse(nodes.selector).matches
    for each in objects:
        if each.get("kind") == "Node":
            metadata = each["metadata"]
            if metadata["name"] in nodes.names or (not nodes.names and matches(metadata.get("labels") or {})):
                yield metadata["name"], each


def _lines(change: Change, held: Sequence[Document]) -> Iterator[str]:
    """Yield the lines that undo one change but Apply."""
    if isinstance(change, Scale):
        kind, _, name = change.workload.partition("/")
        wanted = {"name": name, "namespace": change.namespace}
        for each in held:
            if each.get("kind", "").lower().startswith(kind.lower()) and _same(each["metadata"], wanted):
                before = (each.get("spec") or {}).get("replicas", 1)
                yield Scale(change.workload, before, change.namespace).say()
        return
    if isinstance(change, SetGates) and not change.to:
        settings = tuple((name, change.before.enabled(name)) for name, _ in change.settings)
        yield replace(change, settings=settings).say()
    if not isinstance(change, Taint | Label | Cordon | Drain):
        if isinstance(change, AddNodes):
            yield f"delete-node {' '.join(f'{change.like}-new-{n + 1}' for n in range(change.count))}"
        return
    by_words: dict[str, list[str]] = {}
    for name, node in selected(change.nodes, held):
        for words in _words(change, node):
            by_words.setdefault(words, []).append(name)
    for words, names in by_words.items():
        command, _, rest = words.partition(" ")
        yield " ".join(filter(None, (command, *names, rest)))


def _words(change: Taint | Label | Cordon | Drain, node: Mapping[str, Any]) -> Iterator[str]:
    """Yield the commands, without the node's name, that bring a node back to how it is."""
    spec = node.get("spec") or {}
    if isinstance(change, Taint):
        before = list(spec.get("taints") or ())
        after = change.change(before)
        for taint in after:
            same = [e for e in before if (e.get("key"), e.get("effect")) == (taint["key"], taint["effect"])]
            if not same:
                yield f"untaint {taint['key']}:{taint['effect']}"
            elif same[0] != taint:
                yield f"taint {_taint(same[0])}"
        kept = {(each["key"], each["effect"]) for each in after}
        for taint in before:
            if (taint.get("key"), taint.get("effect")) not in kept:
                yield f"taint {_taint(taint)}"
    elif isinstance(change, Label):
        labels = node["metadata"].get("labels") or {}
        for key, value in change.labels:
            if labels.get(key) != value:
                yield f"label {key}={labels[key]}" if key in labels else f"label {key}-"
    elif (on := change.on if isinstance(change, Cordon) else True) != bool(spec.get("unschedulable")):
        yield "uncordon" if on else "cordon"


def _taint(document: Mapping[str, Any]) -> core.Taint:
    return core.Taint(document.get("key", ""), document.get("value") or "", document.get("effect", ""))


def _find(held: Iterable[Document], kind: str, metadata: Mapping[str, Any]) -> Document | None:
    return next(
        (each for each in held if each.get("kind") == kind and _same(each["metadata"], metadata)), None
    )


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    names = (one.get("name"), one.get("namespace") or "default")
    return names == (other.get("name"), other.get("namespace") or "default")


def _name(document: Document) -> str:
    metadata = document["metadata"]
    namespace = metadata.get("namespace", "")
    return f"{document['kind'].lower()}/{metadata['name']}{f' -n {namespace}' if namespace else ''}"
