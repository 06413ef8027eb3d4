"""Forecasts of a cluster that was read: what they need of it, and what stays uncertain for lack of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
import msgspec

from weir.inputs.certainty import because, needed_kinds
from weir.inputs.cluster import ClusterObjects
from weir.inputs.files import CannotSay
from weir.output import progress

if TYPE_CHECKING:
    from weir.client.known_gates import KnownGates
    from weir.whatif.changes import Change
    from weir.whatif.changes.change import ChangedCluster
    from weir.whatif.forecast import Forecast
    from weir.whatif.horizon import Tick
    from weir.whatif.run import WhatIfOptions

Document = dict[str, Any]


def readable(held: ClusterObjects) -> ClusterObjects:
    """Return *held* unless what every answer needs could not be read."""
    if missing := held.lacks({"Node", "Pod"}):
        raise CannotSay(f"cannot say what would change: {because(missing)}")
    return held


def unmeasured_nodes(held: ClusterObjects) -> frozenset[str]:
    """Return the nodes that do not say what they have, if any pod asks for something."""
    silent = frozenset(
        str((each.get("metadata") or {}).get("name"))
        for each in flat(held)
        if each.get("kind") == "Node"
        and not ((each.get("status") or {}).get("allocatable") or (each.get("status") or {}).get("capacity"))
    )
    if not silent:
        return silent
    asks = any(b'"requests"' in bytes(pod) for pod in held.pods) or any(
        b'"requests"' in msgspec.json.encode(each) for each in flat(held)
    )
    return silent if asks else frozenset()


def check_plannable(held: ClusterObjects, applied: Sequence[Document], known: KnownGates) -> None:
    """Raise unless what decides where pods may run was read, and which gates decide is known."""
    check_kinds(held, applied)
    used = used_gates(held, applied)
    if len(known.possible(used)) > 1:
        names = ", ".join(name for name in known.unknown if name in used)
        raise CannotSay(f"cannot plan: it is not known whether {names} is on; say it with --feature-gates")
    if unmeasured_nodes(held):
        raise CannotSay(
            "cannot plan where pods go: nodes do not say how much room they have (no allocatable)"
        )


def places_unmeasured(found: Forecast, unmeasured: Collection[str]) -> str:
    """Return the sentence on pods that are rescheduled only where it is not known how much room there is, or ""."""
    from weir.explain.phrases import counted, listed

    nodes = {one.ends_on for one in found.leaving} | {turn.node for turn in found.helped}
    nodes |= {end for each in found.workloads for _, end, _ in each.moves}
    if not (unknown := sorted(nodes & set(unmeasured))):
        return ""
    return (
        f"Not certain: it is not known how much room {counted(len(unknown), 'node')} that "
        f"{'takes pods has' if len(unknown) == 1 else 'take pods have'} (no allocatable in the dump): "
        f"{listed(unknown, 3)}."
    )


def check_kinds(held: ClusterObjects, applied: Sequence[Document]) -> None:
    """Raise unless everything was read that decides where the pods of the cluster may run."""
    pods = (document for document in (*flat(held), *held.pod_shapes) if document.get("kind") == "Pod")
    specs = [document.get("spec") for document in pods]
    needed = frozenset(kind for spec in specs for kind in needed_kinds(spec))
    named = {str(document.get("kind")) for document in applied} - {"Node"}
    missing = held.lacks(needed | {kind for kind in named if kind in {each.kind for each in held.missing}})
    if missing:
        raise CannotSay(f"cannot say where pods would go that need them: {because(missing)}")


def used_gates(held: ClusterObjects, applied: Sequence[Document]) -> frozenset[str]:
    """Return the gates that an answer depends on."""
    from weir.taints.features import needed_gates

    return frozenset(needed_gates([*flat(held), *held.pod_shapes, *applied]))


def flat(held: ClusterObjects) -> Iterator[Document]:
    from weir.world import flatten

    return flatten(document for _, document in held.documents)


def objects_but_pods(held: ClusterObjects) -> list[Document]:
    """Return every object that was read but pods."""
    return [each for each in flat(held) if each.get("kind") != "Pod"]


def run_copy(
    held: ClusterObjects,
    asked_changes: Sequence[Change],
    asked: WhatIfOptions,
    tick: Tick | None = None,
    at_the_end: Callable[[ChangedCluster], None] | None = None,
) -> Forecast:
    """Return what the changes come to in a copy; what cannot be done or read is an error with its place.

    *tick* receives how far it is, instead of the terminal; *at_the_end* the copy.
    """
    from weir.objects.core import ViewError
    from weir.whatif.changes import ChangeError, SetGates
    from weir.whatif.snapshot import read_object
    from weir.world import flatten

    made = [
        replace(each, before=asked.gates) if isinstance(each, SetGates) else each for each in asked_changes
    ]
    with progress("running a copy with the change and without, seconds:") as shown:
        try:
            return held.loaded.what_if(made, asked, tick or shown, at_the_end)
        except ChangeError as error:
            raise click.UsageError(str(error)) from None
        except ViewError as error:
            for file, document in held.documents:
                try:
                    for each in flatten([document]):
                        read_object(each)
                except ViewError:
                    if held.dumped:
                        raise CannotSay(f"the cluster's dump cannot be read: {file}: {error}") from None
                    raise ViewError(f"{file}: {error}") from None
            if held.dumped:
                raise CannotSay(f"the cluster's dump cannot be read: {error}") from None
            raise


def not_considered(found: Forecast, unread: Sequence[str]) -> Iterator[str]:
    """Yield what the answer did not look at."""
    from weir.whatif.run import NOT_CONSIDERED

    if unread:
        yield f"{', '.join(unread)} (not read)"
    yield from found.not_considered
    yield NOT_CONSIDERED
