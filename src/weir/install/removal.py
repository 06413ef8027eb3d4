"""Removal of the operator from a cluster, in the safe order.

Spec: stock.md 9 and 11. The barrier goes first: without the operator it would only refuse. Then the hooks that lower,
so that nothing new is held; then pods that are still held are let go; then everything else.
What stays is inert: markers and annotations say nothing to Kubernetes, entries tolerate exactly the taints that their
author meant, labels on nodes are only labels. What is lost is the future: no pod gets an entry for a taint value that
is new, and pods that workloads make from now on have markers only. Those workloads are listed beforehand.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

from weir import errors
from weir.client.api import JSON_PATCH, Client
from weir.explain.phrases import asks
from weir.install.apply import delete
from weir.install.manifests import LABELS, Installation, documents
from weir.lowering.names import GATE, NAMESPACE
from weir.lowering.originals import extended_entries, is_lowered, raised
from weir.lowering.tolerations import read_entry
from weir.objects.kinds import PODS, by_kind

_WORKLOADS: Final = (
    ("apps/v1", "Deployment"), ("apps/v1", "StatefulSet"), ("apps/v1", "DaemonSet"), ("batch/v1", "Job"),
    ("batch/v1", "CronJob"), ("v1", "ReplicationController"),
)  # fmt: skip

Document = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """What is taken out, in this order, and what depends on it."""

    objects: tuple[Document, ...]  #: what is deleted, the first first
    workloads: tuple[str, ...]  #: whose new pods will not be tolerated any more, with what they ask
    lowered_pods: int  #: that keep the entries they have
    held_pods: tuple[tuple[str, str], ...]  #: namespace and name of pods that are let go


async def plan(client: Client, namespace: str = NAMESPACE) -> Plan:
    """Return what an uninstallation would do; nothing is written."""
    there = []
    for document in removal_order(namespace):
        kind = by_kind(document["apiVersion"], document["kind"])
        found = await client.find(
            kind, document["metadata"]["name"], document["metadata"].get("namespace", "")
        )
        if found is not None and _is_own(found):
            there.append(document)
    workloads: list[str] = []
    for version, name in _WORKLOADS:
        kind = by_kind(version, name)
        async for page in client.pages(kind):
            for each in page.documents():
                workloads += _depends({"kind": name, **each})
    lowered, held = 0, []
    async for page in client.pages(PODS):
        for pod in page.documents():
            lowered += is_lowered({"kind": "Pod", **pod})
            if any(gate.get("name") == GATE for gate in pod["spec"].get("schedulingGates") or ()):
                held.append((pod["metadata"]["namespace"], pod["metadata"]["name"]))
    return Plan(tuple(there), tuple(workloads), lowered, tuple(held))


def removal_order(namespace: str) -> list[Document]:
    """Return every object of an installation, the barrier first and the namespace last.

    >>> [each["kind"] for each in removal_order("weir-system")][:2]
    ['ValidatingWebhookConfiguration', 'MutatingWebhookConfiguration']
    """
    return list(reversed(documents(Installation(namespace, image="any", client_ca="any"))))


async def remove(client: Client, plan: Plan) -> AsyncIterator[str]:
    """Take it out; yield a line for each step as it is done."""
    hooks = [each for each in plan.objects if each["kind"].endswith("WebhookConfiguration")]
    rest = [each for each in plan.objects if each not in hooks]
    for document in hooks:
        yield await delete(client, document)
    for namespace, name in await _held(client):
        if await _let_go(client, namespace, name):
            yield f"pod/{name} in {namespace} let go"
    for document in rest:
        if document["kind"] == "Namespace" and (
            others := await _others(client, document["metadata"]["name"])
        ):
            yield f"namespace/{document['metadata']['name']} kept: {others[0]} is in it"
            continue
        yield await delete(client, document)


async def _held(client: Client) -> list[tuple[str, str]]:
    """Return the pods that weir holds, now that it holds no new ones."""
    found = []
    async for page in client.pages(PODS):
        for pod in page.documents():
            if any(gate.get("name") == GATE for gate in pod["spec"].get("schedulingGates") or ()):
                found.append((pod["metadata"]["namespace"], pod["metadata"]["name"]))
    return found


async def _let_go(client: Client, namespace: str, name: str) -> bool:
    """Remove weir's gate from a pod; False when the operator, or its end, was faster."""
    pod = await client.find(PODS, name, namespace)
    gates = ((pod or {}).get("spec") or {}).get("schedulingGates") or []
    for number, gate in enumerate(gates):
        if gate.get("name") == GATE:
            path = f"/spec/schedulingGates/{number}"
            patch = [{"op": "test", "path": f"{path}/name", "value": GATE}, {"op": "remove", "path": path}]
            try:
                await client.patch(PODS, name, patch, namespace, patch_type=JSON_PATCH, read=False)
            except (errors.NotFound, errors.Invalid):
                return False
            return True
    return False


async def _others(client: Client, namespace: str) -> list[str]:
    """Return the pods of a namespace that are not weir's."""
    found = (await client.list(PODS, namespace)).documents()
    return [f"pod/{each['metadata']['name']}" for each in found if not _is_own(each)]


def _is_own(document: Document) -> bool:
    labels = (document.get("metadata") or {}).get("labels") or {}
    return bool(LABELS.items() <= labels.items())


def _depends(workload: Document) -> list[str]:
    """Return a line about a workload whose pods rely on the operator; nothing about others, or owned ones."""
    metadata = workload["metadata"]
    if any(owner.get("controller") for owner in metadata.get("ownerReferences") or ()):
        return []
    asked = [_words(each) for each in extended_entries(raised(workload))] if is_lowered(workload) else []
    name = f"{workload['kind'].lower()} {metadata.get('namespace', '')}/{metadata['name']}"
    return [f"{name}: {', '.join(asked)}"] if asked else []


def _words(entry: Document) -> str:
    read = read_entry(entry)
    return asks(read) if read.expression else f"{read.key} {asks(read)}"
