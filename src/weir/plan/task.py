"""What a plan is to do, item by item: nodes to taint or drain, manifests to apply, components to restart."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from weir.gates import Gates
from weir.whatif.changes import Apply, Change, Cordon, Drain, Nodes, SetGates, Taint, TaintEdit
from weir.whatif.upgrade_order import DEVICE_GATES, DEVICES_DOWN, DEVICES_UP, DOWN, UP

Document = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """Items that are changed in waves."""

    items: tuple[str, ...]
    changes: Callable[[tuple[str, ...]], list[Change]]  #: what a wave of some of the items does
    prepare: tuple[
        Change, ...
    ] = ()  #: made before the first wave, to keep pods from nodes that are still to come
    finish: tuple[Change, ...] = ()  #: made after the last wave, to take that back
    is_prepared: bool = (
        False  #: an earlier plan made `prepare`: `finish` is made however many waves there are
    )
    ordered: bool = False  #: the items go in the order they have
    evicts_alike: bool = False  #: the items evict the same pods in whatever waves they go
    asks_budgets: bool = False  #: evictions are asked for through the API, which keeps budgets by itself
    together: bool = True  #: several items may go in one wave

    def without(self, items: Sequence[str]) -> Task:
        """Return the task for all but some items."""
        left = tuple(each for each in self.items if each not in items)
        return replace(self, items=left)

    def wave(self, items: tuple[str, ...], *, first: bool, last: bool, prepared: bool) -> list[Change]:
        """Return the changes of a wave of *items*."""
        before = self.prepare if first and prepared else ()
        after = self.finish if last and (prepared or self.is_prepared) else ()
        return [*before, *self.changes(items), *after]


def task_of(changes: Sequence[Change], objects: Sequence[Document]) -> Task:
    """Return the task that makes *changes* in the cluster of *objects*, those but pods."""
    (change,) = changes if len(changes) == 1 else (None,)
    if isinstance(change, Taint | Drain):
        return _nodes(change, objects)
    if isinstance(change, Apply):
        return _manifests(change)
    if changes and all(isinstance(each, SetGates) for each in changes):
        return _components(changes)
    raise ValueError(f"no waves are known of: {'; '.join(each.say() for each in changes)}")


def remaining(changes: Sequence[Change], objects: Sequence[Document]) -> tuple[Change, Task]:
    """Return what the last waves of a plan do together, and its task; raises ValueError where these are not alike.

    *changes* are those of the waves. Nodes that the first wave of the plan cordoned are still uncordoned at the end.
    """
    nodes = {each["metadata"]["name"]: each for each in objects if each.get("kind") == "Node"}
    change = _joined([each for each in changes if not isinstance(each, Cordon)], nodes)
    task = task_of([change], objects)
    opening = [each for each in changes if isinstance(each, Cordon) and not each.on]
    opened = {name for each in opening for name in each.nodes.names if name in nodes}
    if not any((nodes[name].get("spec") or {}).get("unschedulable") for name in opened):
        return change, task
    closed = Nodes(tuple(sorted(opened)))
    prepared = replace(task, prepare=(Cordon(closed),), finish=(Cordon(closed, on=False),), is_prepared=True)
    return change, prepared


def _joined(changes: Sequence[Change], there: Collection[str]) -> Change:
    """Return the one change that *changes* are, made to those nodes that are still *there*."""
    applied = [each for each in changes if isinstance(each, Apply)]
    if applied and len(applied) == len(changes):
        return Apply(tuple(document for each in applied for document in each.documents))
    made = [each for each in changes if isinstance(each, Taint | Drain)]
    if (
        not made
        or len(made) < len(changes)
        or any(replace(each, nodes=made[0].nodes) != made[0] for each in made)
    ):
        raise ValueError("its changes are of several kinds")
    names = dict.fromkeys(name for each in made for name in each.nodes.names if name in there)
    if not names:
        raise ValueError("none of its nodes is there any more")
    return replace(made[0], nodes=Nodes(tuple(names)))


def _nodes(change: Taint | Drain, objects: Sequence[Document]) -> Task:
    """Return the task of nodes; those that have the taints already, if not all do, are left as they are."""
    chosen = change.nodes.among(each for each in objects if each.get("kind") == "Node")
    if isinstance(change, Taint):
        change.check_removals(chosen)
        chosen = [each for each in chosen if change.edits_for(each)] or chosen
    nodes = {each["metadata"]["name"]: each for each in chosen}
    names = tuple(sorted(nodes))
    closed = Nodes(tuple(name for name in names if not (nodes[name].get("spec") or {}).get("unschedulable")))
    evicts = isinstance(change, Drain) or any(
        edit.taint.effect == "NoExecute" and not edit.removes for edit in change.edits
    )
    prepare: tuple[Change, ...] = (Cordon(closed),) if evicts and closed.names and len(names) > 1 else ()
    return Task(
        names,
        lambda items: on_nodes(change, [nodes[each] for each in items]),
        prepare,
        (Cordon(closed, on=False),) if prepare and isinstance(change, Taint) else (),
        asks_budgets=isinstance(change, Drain),
    )


def on_nodes(change: Change, nodes: Sequence[Document]) -> list[Change]:
    """Return a change of nodes for some of them; a taint is removed from those that have it."""
    names = tuple(each["metadata"]["name"] for each in nodes)
    if not isinstance(change, Taint) or not any(edit.removes for edit in change.edits):
        return [replace(change, nodes=Nodes(names))] if names else []  # type: ignore[type-var]
    by_edits: dict[tuple[TaintEdit, ...], list[str]] = {}
    for name, node in zip(names, nodes, strict=True):
        by_edits.setdefault(change.edits_for(node), []).append(name)
    return [Taint(Nodes(tuple(some)), edits) for edits, some in by_edits.items() if edits]


def _manifests(change: Apply) -> Task:
    by_name = {f"{each['kind'].lower()}/{each['metadata']['name']}": each for each in change.documents}
    if len(by_name) != len(change.documents):  # two namespaces have one of the same name
        by_name = {f"{number}": each for number, each in enumerate(change.documents)}
    return Task(
        tuple(by_name),
        lambda items: [Apply(tuple(by_name[each] for each in items))],
        ordered=True,
        evicts_alike=all(each["kind"] == "DeviceTaintRule" for each in change.documents),
    )


def upgrade(before: Gates, wanted: Mapping[str, bool], to: str = "") -> list[SetGates]:
    """Return the restarts that bring components from gates to others, or back *to* an older release, in safe order.

    Each names all components that have been restarted so far: the forecast of one is made with what came before it.
    """
    if to:
        steps = [(tuple(wanted.items()), DOWN[: place + 1]) for place in range(len(DOWN))]
        return [SetGates(settings, components, before, to) for settings, components in steps]
    found = []
    for devices, on, order in (
        (False, False, DOWN),
        (True, False, DEVICES_DOWN),
        (False, True, UP),
        (True, True, DEVICES_UP),
    ):
        settings = tuple(
            (name, value)
            for name, value in wanted.items()
            if value is on and before.enabled(name) is not on and (name in DEVICE_GATES) is devices
        )
        for place in range(len(order)) if settings else ():
            found.append(SetGates(settings, order[: place + 1], before))
        before = before.replace(dict(settings))
    return found


def _components(changes: Sequence[Change]) -> Task:
    by_words = {each.say(): each for each in changes}
    return Task(
        tuple(by_words),
        lambda items: [by_words[items[-1]]],  # it names the components of those before it, too
        ordered=True,
        together=False,
    )
