"""A live cluster as a change is made to: the calls that a forecast's cluster takes, each a request.

A change is made by the same code in a forecast and here. Changes are synchronous and run in a thread beside the event
loop of the client. Lists that a patch replaces whole (a node's taints) are written only over the version they were read
from; what changed meanwhile is read again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, TypeVar, cast

from weir.client.api import Client
from weir.client.snapshot import read_kind
from weir.clock import Clock
from weir.errors import Conflict, NotFound
from weir.objects.kinds import by_kind
from weir.selectors.labels import parse
from weir.simulation.named_kinds import kind_called
from weir.whatif.changes import AddNodes, Change, ChangeError, Nodes, SetGates, Wait
from weir.whatif.changes.change import ChangedCluster

Document = dict[str, Any]
T = TypeVar("T")

MANAGER: Final = "weir-plan"
_TRIES: Final = 5
_NOT_HERE: Final = {
    AddNodes: "nodes come from your provider: add them, then make a new plan",
    SetGates: "feature gates are options of the components: restart them yourself, then resume",
    Wait: "a plan waits for states, not for times",
}


class LiveCluster:
    """The cluster of a client."""

    def __init__(
        self, client: Client, clock: Clock, loop: asyncio.AbstractEventLoop, *, force: bool = False
    ) -> None:
        """With *force* applied manifests take fields from other managers, as an undo has to."""
        self.client, self.clock, self._loop, self._force = client, clock, loop, force
        self.patched: set[str] = set()  #: names of the nodes that were
        self._versions: dict[str, str] = {}  #: of nodes, as read last
        self._background: list[Future[None]] = []

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def get(self, kind: str, name: str, namespace: str = "default") -> Document | None:
        row = kind_called(kind)
        return self._do(self.client.find(row, name, namespace if row.namespaced else ""))

    def list(self, kind: str, namespace: str = "", selector: str = "") -> list[Document]:
        items, _ = self._do(read_kind(self.client, kind, namespace))
        if kind == "Node":
            self._versions = {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in items}
        matches = parse(selector).matches
        return [each for each in items if matches(each["metadata"].get("labels") or {})]

    def patch(self, kind: str, name: str, patch: Document, namespace: str = "default") -> Document:
        row = kind_called(kind)
        return self._do(
            self.client.patch(row, name, patch, namespace if row.namespaced else "", field_manager=MANAGER)
        )

    def patch_all(self, kind: str, patches: Mapping[str, Document], namespace: str = "default") -> None:
        for name, patch in patches.items():
            if "taints" in patch.get("spec", ()):
                version = {"resourceVersion": self._versions[name]}
                patch = {**patch, "metadata": {**patch.get("metadata", {}), **version}}
            self.patch(kind, name, patch, namespace)
            self.patched.add(name)

    def delete(self, kind: str, name: str, namespace: str = "default") -> None:
        row = kind_called(kind)
        try:
            self._do(self.client.delete(row, name, namespace if row.namespaced else ""))
        except NotFound:
            return

    def apply(self, document: Document) -> Document:
        row = by_kind(document["apiVersion"], document["kind"])
        if row.namespaced and not document["metadata"].get("namespace"):
            document = {**document, "metadata": {**document["metadata"], "namespace": "default"}}
        return self._do(self.client.apply(row, document, field_manager=MANAGER, force=self._force))

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        """Let *work* go on until it ends, or `close` ends it."""
        self._background.append(asyncio.run_coroutine_threadsafe(work, self._loop))

    def failure(self) -> BaseException | None:
        """Return why work beside the changes failed, if some did."""
        ended = [each for each in self._background if each.done() and not each.cancelled()]
        return next(filter(None, (each.exception() for each in ended)), None)

    def close(self) -> None:
        """End what goes on beside the changes."""
        for each in self._background:
            each.cancel()

    def _do(self, call: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()


@dataclass(frozen=True)
class Delete:
    """`kubectl delete KIND/NAME`, which undoes an apply that created it."""

    kind: str
    name: str
    namespace: str = "default"

    def say(self) -> str:
        return (
            f"delete {self.kind}/{self.name}{'' if self.namespace == 'default' else f' -n {self.namespace}'}"
        )

    def make(self, cluster: ChangedCluster) -> list[str]:
        cluster.delete(self.kind, self.name, self.namespace)
        return []


def check_makeable(change: Change) -> None:
    """Raise ChangeError for a change that can only be forecast."""
    if (why := _NOT_HERE.get(type(change))) is not None:
        raise ChangeError(f"{change.say()}: cannot be carried out: {why}")


def make(change: Change, cluster: LiveCluster) -> list[str]:
    """Make *change* in *cluster* and return what there is to say; what changed meanwhile is read again, a few times."""
    target = cast("ChangedCluster", cluster)  # the calls that changes use are the same
    cluster.patched.clear()
    for left in reversed(range(_TRIES)):
        try:
            return change.make(target)
        except Conflict:
            if not left:
                raise
            nodes = getattr(change, "nodes", None)
            if isinstance(nodes, Nodes):
                names = (node["metadata"]["name"] for node in nodes.find(target))
                rest = tuple(name for name in names if name not in cluster.patched)
                change = replace(change, nodes=Nodes(rest))  # type: ignore[type-var]
    raise AssertionError("unreachable")
