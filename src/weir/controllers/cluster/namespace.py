"""Namespace controller: deletes the content of a terminating namespace, then removes its finalizer.

Pods are deleted first, then kind by kind, repeated until nothing remains (pods take their grace period). Conditions
report what remains, which finalizers block, and what could not be deleted. Kinds that weir does not know (custom
resources of other servers) are found by discovery before the finalizer is removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from weir.client.cache import ObjectKey
from weir.controllers.runtime.controller import Action, ActionContext, Controller, Steps, WakeAt
from weir.controllers.runtime.expectations import key_of
from weir.controllers.runtime.listers import Listers
from weir.errors import ApiError, MethodNotAllowed, NotFound
from weir.objects.kind import Kind
from weir.objects.kinds import KINDS, NAMESPACES, PODS
from weir.objects.times import format_time

#: Every kind that lives in namespaces but pods, which go first; events of both groups are one store.
CONTENT: Final = tuple(
    kind
    for kind in KINDS
    if kind.namespaced
    and kind.stored
    and "list" in kind.verbs
    and kind.kind != "Pod"
    and kind.group != "events.k8s.io"
    and not kind.hub
)
_GROUPS: Final = frozenset(kind.group for kind in KINDS)
AGAIN: Final = timedelta(seconds=1)


@dataclass(frozen=True)
class Resource:
    """A kind that weir does not know, as far as deleting its objects needs it."""

    group: str
    version: str
    plural: str
    namespaced: bool = True


@dataclass
class RemainingContent:
    """What remains in a namespace."""

    objects: Counter[str] = field(default_factory=Counter)  # by `pods.` or `jobs.batch`
    finalizers: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @property
    def nothing(self) -> bool:
        return not self.objects and not self.failures


class Namespaces(Controller):
    """The namespace controller."""

    name = "namespace-controller"
    kinds: Sequence[Kind] = (NAMESPACES,)

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[ObjectKey]:
        """Yield namespaces that are being deleted."""
        if new is not None and new["metadata"].get("deletionTimestamp"):
            yield key_of(new)

    def reconcile(self, key: ObjectKey, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield the emptying of a namespace that waits for it."""
        namespace = listers.get(NAMESPACES, key.name)
        if namespace is None or not namespace["metadata"].get("deletionTimestamp"):
            return
        if "kubernetes" in (namespace.get("spec", {}).get("finalizers") or ()):
            yield Emptying(key.name)

    def carried_out(self, action: Steps, left: object, now: datetime) -> Iterator[Action]:
        """Yield when to look again at a namespace that is not empty yet."""
        if isinstance(action, Emptying) and isinstance(left, RemainingContent) and not left.nothing:
            yield WakeAt(ObjectKey("", action.namespace), now + AGAIN)


@dataclass(frozen=True)
class Emptying(Steps):
    """Delete everything in a namespace, say what is left, and when nothing is, let the namespace go."""

    namespace: str

    async def carry_out(self, context: ActionContext) -> RemainingContent:
        left = RemainingContent()
        resources: list[Kind | Resource] = [*CONTENT, *await self._unknown(context, left)]
        await self._empty(context, PODS, left)
        told = left
        if left.objects:
            # A pod that still runs may need its secrets, its policies and its network: the rest waits until all are
            # gone. Upstream then neither counts the rest nor reports the pods.
            told = RemainingContent(failures=left.failures)
        else:
            for resource in resources:
                await self._empty(context, resource, left)
        found = await context.client.find(NAMESPACES, self.namespace)
        if found is None:
            return RemainingContent()
        conditions = conditions_of(
            told, (found.get("status") or {}).get("conditions") or (), context.clock.now()
        )
        if conditions is not None:
            patch = {"status": {"conditions": conditions}}
            found = await context.client.patch(NAMESPACES, self.namespace, patch, subresource="status")
        if left.nothing:
            spec = dict(found.get("spec") or {})
            spec["finalizers"] = [each for each in spec.get("finalizers") or () if each != "kubernetes"]
            await context.client.update(NAMESPACES, {**found, "spec": spec}, subresource="finalize")
        return left

    async def _empty(self, context: ActionContext, resource: Kind | Resource, left: RemainingContent) -> None:
        try:
            if not (await context.client.list(resource, self.namespace, limit=1)).items:
                return
            await context.client.delete_collection(resource, self.namespace)
            remaining = (await context.client.list(resource, self.namespace)).documents()
        except (NotFound, MethodNotAllowed):
            return  # not served here
        except ApiError as error:
            left.failures.append(str(error))
            return
        if remaining:
            left.objects[f"{resource.plural}.{resource.group}"] += len(remaining)
            for document in remaining:
                left.finalizers.update(document["metadata"].get("finalizers") or ())

    async def _unknown(self, context: ActionContext, left: RemainingContent) -> list[Resource]:
        """Return the namespaced resources of groups that weir does not know."""
        resources: list[Resource] = []
        try:
            groups = (await _page(context, "/apis")).get("groups") or ()
            for group in groups:
                if group["name"] in _GROUPS:
                    continue
                preferred = group["preferredVersion"]
                listed = await _page(context, f"/apis/{preferred['groupVersion']}")
                resources += [
                    Resource(group["name"], preferred["version"], each["name"])
                    for each in listed.get("resources") or ()
                    if each.get("namespaced") and {"list", "delete"} <= set(each.get("verbs") or ())
                ]
        except ApiError as error:
            left.failures.append(f"discovery failed: {error}")
        return resources


async def _page(context: ActionContext, path: str) -> dict[str, Any]:
    page: dict[str, Any] = msgspec.json.decode(await context.client.call("GET", path))
    return page


def conditions_of(left: RemainingContent, present: Any, now: datetime) -> list[dict[str, Any]] | None:
    """Return the conditions that say what is *left*; None when they say so already."""
    remain = ", ".join(
        f"{name} has {count} resource instances" for name, count in sorted(left.objects.items())
    )
    held = ", ".join(
        f"{name} in {count} resource instances" for name, count in sorted(left.finalizers.items())
    )
    failed = (
        f"Failed to delete all resource types, {len(left.failures)} remaining: {', '.join(left.failures)}"
    )
    wanted = (
        (
            "NamespaceDeletionDiscoveryFailure",
            "",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            failed if left.failures else "",
            "ContentDeletionFailed" if left.failures else "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        (
            "NamespaceContentRemaining",
            f"Some resources are remaining: {remain}" if remain else "",
            "SomeResourcesRemain" if remain else "ContentRemoved",
            "All content successfully removed",
        ),
        (
            "NamespaceFinalizersRemaining",
            f"Some content in the namespace has finalizers remaining: {held}" if held else "",
            "SomeFinalizersRemain" if held else "ContentHasNoFinalizers",
            "All content-preserving finalizers finished",
        ),
    )
    before = {each["type"]: each for each in present}
    made = [each for each in present if each["type"] not in {type for type, *_ in wanted}]
    for type, problem, reason, fine in wanted:
        status, earlier = "True" if problem else "False", before.get(type)
        since = earlier["lastTransitionTime"] if earlier and earlier["status"] == status else format_time(now)
        made.append(
            {
                "type": type,
                "status": status,
                "lastTransitionTime": since,
                "reason": reason,
                "message": problem or fine,
            }
        )
    return made if {each["type"]: each for each in made} != before else None
