"""The objects of a forecast, and what the API server makes of a write to them.

Documents are shared and never changed in place: a write makes a new one that has all untouched parts in common with
the old one. New objects pass the server's defaults, admission plugins, strategies and rules; pods that an owner makes
from one template pass them once. What components write to status is not admitted or validated again.
Webhooks and policies are left to a server (weir.forecast.coverage).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from weir import errors
from weir.apiserver import documents
from weir.apiserver.admission.chain import Chain
from weir.apiserver.auth.authn import User
from weir.apiserver.bootstrap.objects import PRIORITIES, SYSTEM_NAMESPACES
from weir.apiserver.patches import apply as server_side
from weir.apiserver.patches import json as json_patch
from weir.apiserver.patches import merge as merge_patch
from weir.apiserver.patches import strategic as strategic_patch
from weir.apiserver.registry import conversion
from weir.apiserver.registry.deletion import begin_deletion, finalizers_after, mark_terminating
from weir.apiserver.registry.object_write import (
    Creation,
    ObjectWrite,
    Replacement,
    gone_with_this_update,
    keep_server_set,
    new_uid,
)
from weir.apiserver.registry.pod_subresources import (
    EVICTED,
    assign,
    check_budget,
    ignores_budgets,
    selects,
    set_condition,
    unhealthy_may_go,
)
from weir.apiserver.registry.write_request import WriteRequest
from weir.apiserver.strategies import for_kind
from weir.apiserver.transport.options import DeleteOptions
from weir.client.api import APPLY_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from weir.client.cache import ObjectKey
from weir.fields.field import Tolerated
from weir.forecast.pod_templates import PodTemplates
from weir.forecast.timeline import Timeline
from weir.gates import Gates
from weir.objects.document import copied
from weir.objects.kind import Kind
from weir.objects.kinds import (
    NAMESPACES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    PRIORITY_CLASSES,
    SERVICE_ACCOUNTS,
    by_kind,
    hub_of,
)
from weir.objects.times import format_time
from weir.store import KeyValue
from weir.values.names import generate_name, name_suffix

Document = dict[str, Any]
Listener = Callable[[Document | None, Document | None], None]
_USER: Final = User("weir:forecast")
#: Pods that share a status change it one after the other, at one instant; later nothing asks for what became of it.
MOST_STATUSES: Final = 1_024
_new_key: Final = tuple.__new__  # what a named tuple's own constructor calls, in half of the time


class Objects:
    """All objects of one forecast, by kind and name."""

    def __init__(self, clock: Timeline, gates: Gates, seed: int, held: Iterable[Document]) -> None:
        self._clock, self._gates = clock, gates
        self._chance = random.Random(f"{seed} forecast")
        self._entropy = bytearray()
        self._collections: dict[Kind, dict[ObjectKey, Document]] = {}
        self._versions: dict[Kind, int] = {}
        self._listeners: dict[Kind, list[Listener]] = {}
        self._second, self._now = -1, ""
        self._admission = Chain.build(self, new_suffix=lambda: name_suffix(self._chance.randbytes))
        self._templates = PodTemplates()
        #: by the identity of a status that pods share before they are bound: itself, and what it became last
        self._bound_statuses: dict[int, tuple[Document | None, Document]] = {}
        #: by the identity of a status: itself, a condition that was set in it last, and what it became
        self._marked_statuses: dict[int, tuple[Document | None, Document, Document]] = {}
        self.revision = 0
        for document in held:
            kind = by_kind(document["apiVersion"], document["kind"])
            hub = hub_of(kind)
            stored = document if hub is kind else conversion.to_storage(kind, copied(document))
            self._store(hub, stored)
        for kind, document in first_objects():
            if (
                self.find(kind, document["metadata"].get("namespace", ""), document["metadata"]["name"])
                is None
            ):
                documents.default(document, kind, self.now)
                document["metadata"].update(uid=self.new_uid(), creationTimestamp=self.now)
                self._store(kind, document)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    @property
    def now(self) -> str:
        """The time of day as objects say it."""
        second = int(self._clock.time())
        if second != self._second:
            self._second, self._now = second, format_time(self._clock.now().replace(microsecond=0))
        return self._now

    @property
    def gates(self) -> Gates:
        return self._gates

    def random_bytes(self, count: int) -> bytes:
        """Return the next *count* bytes of chance."""
        return self._chance.randbytes(count)

    def new_uid(self) -> str:
        """Return the next uid."""
        return new_uid(self._entropy, self.random_bytes)

    def of(self, kind: Kind) -> dict[ObjectKey, Document]:
        """Return the objects of *kind* by name."""
        return self._collections.setdefault(hub_of(kind), {})

    def find(self, kind: Kind, namespace: str, name: str) -> Document | None:
        """Return one object, or None."""
        held = self._collections.get(hub_of(kind))
        if held is None:
            return None
        return held.get((namespace if kind.namespaced else "", name))  # type: ignore[call-overload, no-any-return]

    def get(self, kind: Kind, namespace: str, name: str) -> Document:
        """Return one object; raises NotFound."""
        found = self.find(kind, namespace, name)
        if found is None:
            raise errors.NotFound.object(kind, name)
        return found

    def documents(self, kind: Kind) -> list[Document]:
        """Return every object of *kind*."""
        return list(self.of(kind).values())

    def kinds(self) -> Iterator[Kind]:
        """Yield the kinds there are objects of."""
        yield from (kind for kind, held in self._collections.items() if held)

    # ── what admission plugins read ──────────────────────────────────────────────────────────────

    def get_now(self, kind: Kind, namespace: str, name: str) -> Mapping[str, Any] | None:
        return self.find(kind, namespace, name)

    def list_now(self, kind: Kind, namespace: str | None) -> list[Mapping[str, Any]]:
        held = self.of(kind)
        return [each for key, each in held.items() if namespace is None or key.namespace == namespace]

    def version(self, kind: Kind) -> int:
        return self._versions.get(kind, 0)

    def follow(
        self, kind: Kind, namespace: str, changed: Callable[[str, Mapping[str, Any] | None], None]
    ) -> Any:
        raise NotImplementedError("a forecast has no quotas: weir.forecast.coverage")

    # ── listening ────────────────────────────────────────────────────────────────────────────────

    def listen(self, kind: Kind, listener: Listener) -> None:
        """Call *listener* with (old, new) for every write to *kind* from now on."""
        self._listeners.setdefault(hub_of(kind), []).append(listener)

    def _store(self, kind: Kind, new: Document) -> Document:
        """Hold *new* in its next version and tell who listens."""
        metadata = new["metadata"]
        self.revision += 1
        metadata["resourceVersion"] = str(self.revision)
        key = key_of(new)
        held = self._collections.setdefault(kind, {})
        old = held.get(key)
        held[key] = new
        self._versions[kind] = self.revision
        for listener in self._listeners.get(kind, ()):
            listener(old, new)
        return new

    def put(self, kind: Kind, new: Document) -> None:
        """Write what a component alone decides about; *new* must have a metadata of its own."""
        self._store(kind, new)

    def remove(self, kind: Kind, old: Document) -> None:
        """Let an object go that nothing holds any more."""
        self._remove(kind, old)

    def _remove(self, kind: Kind, old: Document) -> None:
        self.revision += 1
        self._versions[kind] = self.revision
        self.of(kind).pop(key_of(old), None)
        for listener in self._listeners.get(kind, ()):
            listener(old, None)

    # ── creating ─────────────────────────────────────────────────────────────────────────────────

    def create(self, kind: Kind, document: Document, namespace: str = "") -> Document:
        """Create an object as the server would; raises what it answers."""
        owner = next(
            (o["uid"] for o in document["metadata"].get("ownerReferences") or () if o.get("controller")), ""
        )
        made = self._templates.like_before(owner, document) if kind is PODS and owner else None
        if made is None:
            made = self._made(kind, document, namespace)
            if kind is PODS and owner:
                self._templates.note(owner, document, made)
        metadata = made["metadata"]
        prefix = metadata.get("generateName")
        asked = document["metadata"].get("name")
        metadata["name"] = asked or generate_name(prefix or "", self.random_bytes)
        metadata["uid"] = self.new_uid()
        metadata["creationTimestamp"] = self.now
        if self.find(kind, metadata.get("namespace", ""), metadata["name"]) is not None:
            raise errors.AlreadyExists.object(kind, metadata["name"])
        return self._store(hub_of(kind), made)

    def _made(self, kind: Kind, document: Document, namespace: str) -> Document:
        """Take a new object through the stages of a write, without those that need a server."""
        new: Document = copied(document)
        if kind.namespaced:
            namespace = namespace or new["metadata"].get("namespace") or "default"
        return self._through_stages(Creation(WriteRequest(kind, namespace, "", _USER, "", owned=True), new))

    def _through_stages(self, write: ObjectWrite) -> Document:
        """Return what the stages of a write make of its object."""
        write.identify()
        write.complete(self.now)
        self._admission.mutate(write.begin_admission())
        write.prepare(self)
        write.hold_against_others(self)
        write.validate(self._gates)
        self._admission.validate(write.attributes)
        write.settle()
        return write.new

    # ── changing ─────────────────────────────────────────────────────────────────────────────────

    def apply(self, kind: Kind, configuration: Document, manager: str) -> Document:
        """Create or change an object by a forced server-side apply; raises what the server answers."""
        hub, metadata = hub_of(kind), configuration["metadata"]
        namespace, name = metadata.get("namespace", "") if kind.namespaced else "", metadata["name"]
        old = self.find(hub, namespace, name)
        live = None
        if old is not None:
            live = {"apiVersion": kind.api_version, "kind": kind.kind, **copied(old)}
            if kind is not hub:
                live = conversion.from_storage(kind, live)
        new = server_side.apply_configuration(
            live, copied(configuration), kind, manager=manager, force=True, subresource="", now=self.now
        )
        request = WriteRequest(kind, namespace, name, _USER, manager, owned=True, patched=True)
        if old is None or live is None:
            return self._store(hub, self._through_stages(Creation(request, new)))
        revision = int(old["metadata"]["resourceVersion"])
        write = Replacement(request, new, live, KeyValue("", b"", revision, revision))
        new = self._through_stages(write)
        if new == write.old:
            return old
        if write.is_last:
            self._remove(hub, old)
            return new
        return self._store(hub, new)

    def patch(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        patch: Any,
        *,
        patch_type: str = MERGE_PATCH,
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
    ) -> Document:
        """Change an object as *patch* says; raises what the server answers."""
        kind, old = hub_of(kind), self.get(kind, namespace, name)
        if isinstance(patch, bytes):
            patch = msgspec.json.decode(patch)
        if isinstance(patch, Mapping):
            meant = (patch.get("metadata") or {}).get("uid")
            if meant and meant != old["metadata"]["uid"]:
                raise errors.Conflict.object(kind, name)
        if subresource == "status" and patch_type in (MERGE_PATCH, STRATEGIC_MERGE_PATCH):
            return self.update(kind, old, self._with_status(kind, old, patch, patch_type), subresource)
        if kind is PODS and patch_type == MERGE_PATCH and patch.keys() == {"metadata"}:
            metadata = merge_patch.merge(copied(old["metadata"]), copied(patch["metadata"]))
            return self.update(kind, old, {**old, "metadata": metadata}, subresource)
        if patch_type == MERGE_PATCH:
            new = merge_patch.merge(copied(old), copied(dict(patch)))
        elif patch_type == STRATEGIC_MERGE_PATCH:
            new = strategic_patch.merge_map(
                copied(old), copied(dict(patch)), strategic_patch.schema_node(kind)
            )
        elif patch_type == APPLY_PATCH:
            named = {"apiVersion": kind.api_version, "kind": kind.kind, **patch}
            live = {"apiVersion": kind.api_version, "kind": kind.kind, **copied(old)}
            new = server_side.apply_configuration(
                live, named, kind, manager=field_manager, force=force, subresource=subresource, now=self.now
            )
        else:
            new = json_patch.patch(copied(old), msgspec.json.encode(patch))
        documents.default(new, kind, self.now)
        return self.update(kind, old, new, subresource)

    def _with_status(self, kind: Kind, old: Document, patch: Mapping[str, Any], patch_type: str) -> Document:
        """Return *old* with the metadata and status that *patch* makes of its own."""
        part = {"metadata": dict(old["metadata"]), "status": copied(old.get("status") or {})}
        overlay = {name: copied(value) for name, value in patch.items() if name in part}
        for name in ("labels", "annotations"):
            if name in (overlay.get("metadata") or {}):
                part["metadata"][name] = dict(part["metadata"].get(name) or {})
        if patch_type == MERGE_PATCH:
            merge_patch.merge(part, overlay)
        else:
            strategic_patch.merge_map(part, overlay, strategic_patch.schema_node(kind))
        return {**old, **part}

    def update(self, kind: Kind, old: Document, new: Document, subresource: str = "") -> Document:
        """Put *new* in the place of *old*, by the rules of its kind; *new* must have a metadata of its own."""
        metadata, strategy = new["metadata"], for_kind(kind)
        keep_server_set(metadata, old["metadata"])
        strategy.restrict(kind, new, old, subresource)
        strategy.prepare_update(kind, new, old, self)
        if subresource == "status" and "generation" in old["metadata"]:
            metadata["generation"] = old["metadata"]["generation"]
        if subresource == "" and kind is not PODS:
            problems = [
                problem
                for problem in (
                    *strategy.problems(kind, new, old, self),
                    *documents.validate(new, old, kind, self._gates),
                )
                if not isinstance(problem, Tolerated)
            ]
            if problems:
                raise errors.Invalid.from_field_errors(kind, metadata["name"], problems)
        metadata["resourceVersion"] = old["metadata"].get("resourceVersion", "")
        if new == old:
            return old
        if gone_with_this_update(kind, new):
            self._remove(kind, old)
            return new
        return self._store(kind, new)

    def bind(self, namespace: str, name: str, node: str, uid: str = "") -> None:
        """Assign a pod to a node; raises Conflict."""
        old = self.get(PODS, namespace, name)
        pod = _own_parts(old)
        pod["spec"] = dict(pod["spec"])
        binding = {"metadata": {"name": name, "uid": uid}, "target": {"name": node}}
        assign(pod, binding, f"/registry/pods/{namespace}/{name}", self.now)
        before = old.get("status")
        alike = self._bound_statuses.get(id(before))
        if alike is not None and alike[0] is before and alike[1] == pod["status"]:
            pod["status"] = alike[1]
        else:
            if len(self._bound_statuses) >= MOST_STATUSES:
                self._bound_statuses.clear()
            self._bound_statuses[id(before)] = (before, pod["status"])
        self._store(PODS, pod)

    # ── deleting ─────────────────────────────────────────────────────────────────────────────────

    def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        grace_period_seconds: int | None = None,
        propagation_policy: str = "",
        uid: str = "",
        noted: bool = False,
    ) -> None:
        """Delete an object, or start its end; with *noted*, one of an eviction, whose condition is set before."""
        kind, old = hub_of(kind), self.get(kind, namespace, name)
        if uid and uid != old["metadata"]["uid"]:
            raise errors.Conflict.object(kind, name)
        new = _own_parts(old)
        if noted and set_condition(new, EVICTED, self.now):
            old = self._store(kind, new)
            new = _own_parts(old)
        metadata = new["metadata"]
        asked = 1 if (grace_period_seconds or 0) < 0 else grace_period_seconds
        graceful, pending, grace = begin_deletion(kind, new, asked, self.now)
        if pending:
            return
        options = DeleteOptions(propagation_policy=propagation_policy or None)
        finalizers = finalizers_after(kind, list(metadata.get("finalizers") or ()), options)
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)
        if finalizers and not graceful:
            mark_terminating(metadata, self.now)
        if (finalizers or graceful) and metadata != old["metadata"]:
            old = self._store(kind, new)
        if not finalizers and grace <= 0:
            self._remove(kind, old)

    def mark_and_delete(self, pod: Document, condition: Document | None) -> None:
        """Set a condition of *pod* and start its end, in one write."""
        new = {**pod, "metadata": dict(pod["metadata"])}
        if condition is not None:
            new["status"] = self._marked(pod.get("status"), condition)
        _, pending, grace = begin_deletion(PODS, new, None, self.now)
        if new != pod:
            self._store(PODS, new)
        if not pending and not new["metadata"].get("finalizers") and grace <= 0:
            self._remove(PODS, new)

    def _marked(self, before: Document | None, condition: Document) -> Document:
        """Return a status with a condition set in it, the same one for all pods that shared it before."""
        alike = self._marked_statuses.get(id(before))
        if alike is None or alike[0] is not before or alike[1] != condition:
            if len(self._marked_statuses) >= MOST_STATUSES:
                self._marked_statuses.clear()
            old = (before or {}).get("conditions") or ()
            conditions = [*(c for c in old if c.get("type") != condition["type"]), condition]
            alike = (before, condition, {**(before or {}), "conditions": conditions})
            self._marked_statuses[id(before)] = alike
        return alike[2]

    def evict(self, namespace: str, name: str) -> None:
        """Delete a pod unless a disruption budget forbids it; raises TooManyRequests."""
        pod = self.get(PODS, namespace, name)
        if not ignores_budgets(pod):
            self._spend_budget(pod, namespace)
        self.delete(PODS, namespace, name, noted=True)

    def _spend_budget(self, pod: Document, namespace: str) -> None:
        labels = pod["metadata"].get("labels") or {}
        budgets = [
            each
            for key, each in self.of(POD_DISRUPTION_BUDGETS).items()
            if key.namespace == namespace and selects(each, labels)
        ]
        if not budgets:
            return
        if len(budgets) > 1:
            raise errors.InternalError(
                "This pod has more than one PodDisruptionBudget, "
                "which the eviction subresource does not support.",
                reason="InternalError",
            )
        if unhealthy_may_go(pod, budgets[0]):
            return
        budget = _own_parts(budgets[0])
        check_budget(budget)
        status = budget["status"]
        status["disruptionsAllowed"] -= 1
        status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod["metadata"]["name"]: self.now}
        self._store(POD_DISRUPTION_BUDGETS, budget)


def first_objects() -> Iterator[tuple[Kind, Document]]:
    """Yield what every cluster has from its start and pods may need."""
    for name in SYSTEM_NAMESPACES:
        yield NAMESPACES, {"metadata": {"name": name}, "status": {"phase": "Active"}}
        yield SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": name}}
    for each in PRIORITIES:
        yield PRIORITY_CLASSES, {**each, "metadata": dict(each["metadata"])}


def key_of(document: Document) -> ObjectKey:
    """Return the name of an object within its collection."""
    metadata = document["metadata"]
    return _new_key(ObjectKey, (metadata.get("namespace", ""), metadata["name"]))


def _own_parts(document: Document) -> Document:
    """Return *document* with a metadata and a status that can be changed; conditions can be added and replaced."""
    new = {**document, "metadata": dict(document["metadata"])}
    if "status" in document:
        new["status"] = status = dict(document["status"] or {})
        if status.get("conditions"):
            status["conditions"] = list(status["conditions"])
    return new
