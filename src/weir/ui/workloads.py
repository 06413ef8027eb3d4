"""Workloads and their pods: the matrix' rows.

Top-level workloads: a Deployment, not its ReplicaSets and pods. In a dump with pods only, the controller named by
their owner references takes its place, with one pod as template.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from weir.explain.subject import Subject
from weir.explain.workload import wanted_replicas
from weir.objects.core import ENDED
from weir.objects.templates import TEMPLATE_PATHS

Document = dict[str, Any]
#: Owners are followed so far up: pod, ReplicaSet or Job, Deployment or CronJob.
_MOST_OWNERS: Final = 5


@dataclass(frozen=True)
class Workload:
    """One row: what it is called, the pod it asks for, and the pods that are there."""

    kind: str
    namespace: str
    name: str
    subject: Subject
    wanted: int | None  #: None if unknown: a DaemonSet, or a controller that was not read
    pods: tuple[Document, ...] = field(default=(), repr=False)

    @property
    def id(self) -> str:
        """What the page and its links call it.

        >>> Workload("Deployment", "shop", "web", Subject({}, "Deployment"), 1).id
        'Deployment/shop/web'
        """
        return f"{self.kind}/{self.namespace}/{self.name}"

    @property
    def running(self) -> int:
        """How many of its pods have a node."""
        return sum(bool(_spec(pod).get("nodeName")) for pod in self.pods)

    @property
    def pending(self) -> int:
        """How many pods it waits for: without a node, or not even made."""
        waiting = len(self.pods) - self.running
        return max(waiting, self.wanted - self.running) if self.wanted is not None else waiting

    def by_node(self) -> dict[str, int]:
        """Return how many of its pods each node has."""
        found: dict[str, int] = {}
        for pod in self.pods:
            if node := _spec(pod).get("nodeName"):
                found[str(node)] = found.get(str(node), 0) + 1
        return found


def find_workloads(documents: Iterable[Document]) -> list[Workload]:
    """Return the workloads of a cluster, those with waiting pods first, else by namespace and name."""
    made = [each for each in documents if each.get("kind") in TEMPLATE_PATHS]
    there = {_identity(each): each for each in made}
    pods: dict[tuple[str, str, str], list[Document]] = {}
    roots: dict[tuple[str, str, str], Document | None] = {}
    for each in made:
        root, document = _root(each, there)
        if each.get("kind") == "Pod" and not _ended(each):
            pods.setdefault(root, []).append(each)
            roots.setdefault(root, document)
        elif root == _identity(each) and each.get("kind") not in ("Pod", "PodTemplate"):
            roots[root] = document
    found = [_workload(root, document, pods.get(root, [])) for root, document in roots.items()]
    return sorted(found, key=lambda each: (not each.pending, each.namespace, each.name, each.kind))


def _workload(root: tuple[str, str, str], document: Document | None, pods: list[Document]) -> Workload:
    kind, namespace, name = root
    if document is None or kind == "Pod":  # a pod speaks for itself, or for the controller that was not read
        first = min(pods, key=lambda pod: (bool(_spec(pod).get("nodeName")), str(_name(pod))))
        subject = replace(Subject.of({**first, "kind": "Pod"}, stored=True), in_cluster=True)
        return Workload(kind, namespace, name, subject, 1 if kind == "Pod" else None, tuple(pods))
    subject = replace(Subject.of(document), in_cluster=True)
    wanted = None if kind in ("DaemonSet", "CronJob") else wanted_replicas(document, kind)
    if kind == "Job" and _over(document):
        wanted = 0
    return Workload(kind, namespace, name, subject, wanted, tuple(pods))


def _over(job: Document) -> bool:
    status = job.get("status")
    conditions = (status.get("conditions") if isinstance(status, dict) else None) or ()
    return any(
        isinstance(each, dict) and each.get("type") in ("Complete", "Failed") and each.get("status") == "True"
        for each in conditions
    )


def _root(
    document: Document, there: Mapping[tuple[str, str, str], Document]
) -> tuple[tuple[str, str, str], Document | None]:
    """Return what stands above all owners of *document*: its identity, and its document if that was read."""
    at: tuple[str, str, str] = _identity(document)
    found: Document | None = document
    for _ in range(_MOST_OWNERS):
        owner = next(_controllers(found), None) if found is not None else None
        if owner is None:
            break
        at = (str(owner.get("kind") or ""), at[1], str(owner.get("name") or ""))
        found = there.get(at)
    return at, found


def _controllers(document: Document) -> Iterator[Document]:
    owners = _metadata(document).get("ownerReferences")
    for owner in owners if isinstance(owners, list) else ():
        if isinstance(owner, dict) and owner.get("controller"):
            yield owner


def _identity(document: Document) -> tuple[str, str, str]:
    metadata = _metadata(document)
    return (str(document.get("kind")), str(metadata.get("namespace") or "default"), _name(document))


def _ended(pod: Document) -> bool:
    status = pod.get("status")
    return isinstance(status, dict) and status.get("phase") in ENDED


def _name(document: Document) -> str:
    metadata = _metadata(document)
    return str(metadata.get("name") or metadata.get("generateName") or "(no name)")


def _metadata(document: Document) -> Document:
    found = document.get("metadata")
    return found if isinstance(found, dict) else {}


def _spec(document: Document) -> Document:
    found = document.get("spec")
    return found if isinstance(found, dict) else {}
