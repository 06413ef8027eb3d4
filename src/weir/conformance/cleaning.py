"""Removes everything that conformance runs created, by label.

Namespaces first, with their content; pods are deleted without grace, since their nodes may no longer be simulated.
Then nodes and other cluster-scoped objects.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Final

from weir import errors
from weir.client.api import Client
from weir.conformance.renaming import LABEL
from weir.objects.kind import Document, Kind
from weir.objects.kinds import KINDS, LEASES, NAMESPACES, PODS

LEASE_NAMESPACE: Final = "kube-node-lease"
PATIENCE_SECONDS: Final = 90.0
GLANCE_SECONDS: Final = 0.3
#: The kinds without a namespace that a story may make, each once, namespaces and nodes first.
_FIRST: Final = ("Namespace", "Node")
_ALL: Final = [kind for kind in KINDS if kind.stored and not kind.namespaced and "delete" in kind.verbs]
#: … by the name of the kind, in every version that a server may have.
CLUSTER_SCOPED: Final = {
    name: tuple(kind for kind in _ALL if kind.kind == name)
    for name in sorted({kind.kind for kind in _ALL}, key=lambda name: (name not in _FIRST, name))
}


class NotClean(errors.WeirError):
    """Something of a run is still there."""


async def remains(client: Client, run: str = "") -> dict[str, Counter[str]]:
    """Return what is there of a run, or of all of them: run → kind → how many."""
    by_run: dict[str, Counter[str]] = {}
    for name in CLUSTER_SCOPED:
        for _, each in await _listed(client, name, run):
            label = each["metadata"]["labels"][LABEL]
            by_run.setdefault(label, Counter())[name] += 1
    return by_run


async def clean(client: Client, run: str = "", patience_seconds: float = PATIENCE_SECONDS) -> Counter[str]:
    """Take away all that a run made, or all runs; return how many objects of which kind. Raises NotClean."""
    taken: Counter[str] = Counter()
    seen: set[str] = set()
    deadline = time.monotonic() + patience_seconds
    while True:
        left = 0
        for name in CLUSTER_SCOPED:
            for kind, each in await _listed(client, name, run):
                left += 1
                metadata = each["metadata"]
                if metadata["uid"] not in seen:
                    seen.add(metadata["uid"])
                    taken[kind.kind] += 1
                if not metadata.get("deletionTimestamp"):
                    await _delete(client, kind, metadata["name"])
                if kind is NAMESPACES:
                    await empty(client, metadata["name"])
                if kind.kind == "Node":
                    await _delete(client, LEASES, metadata["name"], LEASE_NAMESPACE)
        if not left:
            return taken
        if time.monotonic() > deadline:
            raise NotClean(f"{left} objects with the label {LABEL} are still there: weir conformance --clean")
        await asyncio.sleep(GLANCE_SECONDS)


async def empty(client: Client, namespace: str) -> None:
    """Delete the pods of a namespace immediately: their kubelets may be gone."""
    for pod in (await client.list(PODS, namespace)).documents():
        await _delete(client, PODS, pod["metadata"]["name"], namespace, grace_period_seconds=0)


async def _delete(
    client: Client, kind: Kind, name: str, namespace: str = "", grace_period_seconds: int | None = None
) -> None:
    try:
        await client.delete(kind, name, namespace, grace_period_seconds=grace_period_seconds, read=False)
    except (errors.NotFound, errors.Conflict):
        return


async def _listed(client: Client, name: str, run: str) -> list[tuple[Kind, Document]]:
    """Return the objects of a kind that a run made, each with the version in which the server has the kind."""
    selector = f"{LABEL}={run}" if run else LABEL
    for kind in CLUSTER_SCOPED[name]:
        try:
            listed = await client.list(kind, label_selector=selector)
        except errors.NotFound:  # not served, or not in this version
            continue
        except errors.Forbidden:
            if name in _FIRST:
                raise
            return []  # a user who may not list them cannot have created them
        return [(kind, each) for each in listed.documents()]
    return []
