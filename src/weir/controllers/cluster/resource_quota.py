"""Keeps ResourceQuota status up to date.

Admission counts for itself; the status is what users see. Built-in kinds are counted from informers as they change;
custom resources that a quota names (`count/widgets.example.com`) and events are listed when the quota changes and
every few minutes. What one object uses is in weir.objects.quota_usage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from weir.client.cache import ObjectKey
from weir.controllers.runtime.controller import (
    Action,
    ActionContext,
    Controller,
    Document,
    Patch,
    Steps,
    WakeAt,
)
from weir.controllers.runtime.listers import Listers
from weir.errors import NotFound
from weir.gates import Gates
from weir.objects.kind import Kind
from weir.objects.kinds import KINDS, PERSISTENT_VOLUME_CLAIMS, PODS, RESOURCE_QUOTAS, SERVICES
from weir.objects.pod_resources import Amounts, read_amounts
from weir.objects.quota_usage import attributes_classes_of, in_scope, usage_of
from weir.values.quantity import parse_quantity

SPENDING: Final = (PODS, SERVICES, PERSISTENT_VOLUME_CLAIMS)
#: Kinds that some controller keeps a copy of in any case: the garbage collector watches them.
KNOWN: Final = tuple(
    kind
    for kind in KINDS
    if kind.namespaced and kind.stored and not kind.hub and "watch" in kind.verbs and kind.kind != "Event"
)
AGAIN: Final = timedelta(minutes=5)
SOON: Final = timedelta(seconds=15)  #: for custom resources, which have no informer here
ZERO: Final = parse_quantity("0")


class ResourceQuotas(Controller):
    """The ResourceQuota controller."""

    name = "resourcequota-controller"
    kinds: Sequence[Kind] = KNOWN

    def __init__(self, gates: Gates) -> None:
        self._quotas: dict[str, dict[str, None]] = {}  # namespace → names

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[ObjectKey]:
        """Yield the quota that changed, or all of a namespace in which something came, went or changed."""
        if kind is RESOURCE_QUOTAS:
            metadata = (new or old)["metadata"]
            there = self._quotas.setdefault(metadata["namespace"], {})
            if new is None:
                there.pop(metadata["name"], None)
                if not there:
                    del self._quotas[metadata["namespace"]]
            else:
                there[metadata["name"]] = None
            yield ObjectKey(metadata["namespace"], metadata["name"])
            if old is not None and new is not None:
                return
        if not self._quotas:
            return
        item = new if new is not None else old
        namespace = item.metadata.namespace if kind is PODS else item["metadata"]["namespace"]
        if namespace in self._quotas and _moved(kind, old, new):
            for name in self._quotas[namespace]:
                yield ObjectKey(namespace, name)

    def reconcile(self, key: ObjectKey, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield the status when it is no longer true."""
        quota = listers.get(RESOURCE_QUOTAS, key.name, key.namespace)
        if quota is None:
            return
        hard = read_amounts(quota["spec"].get("hard"))
        used = dict.fromkeys(hard, ZERO)
        named = _named(hard)
        for kind in KNOWN:
            if listers.serves(kind) and (kind in SPENDING or _name(kind) in named):
                _count(used, quota, kind, map(_document, listers.within(kind, key.namespace)))
        others, unknown = tuple(_others(hard)), tuple(_unknown(hard))
        if others or unknown:
            yield Recount(quota, used, others, unknown)
            yield WakeAt(key, now + (SOON if unknown else AGAIN))
        else:
            yield from _status(quota, used)


@dataclass(frozen=True)
class Recount(Steps):
    """List the kinds that have no informer, then write the status."""

    quota: Document
    used: Amounts
    kinds: tuple[Kind, ...]
    unknown: tuple[tuple[str, str], ...] = ()  # group and plural of what may be custom resources

    async def carry_out(self, context: ActionContext) -> None:
        used, namespace = dict(self.used), self.quota["metadata"]["namespace"]
        for kind in (*self.kinds, *await _served(context, self.unknown)):
            try:
                listed = await context.client.list(kind, namespace)
            except NotFound:
                continue  # not served here
            _count(used, self.quota, kind, listed.documents())
        for patch in _status(self.quota, used):
            try:
                await context.client.patch(
                    patch.kind, patch.name, dict(patch.patch), namespace, subresource="status"
                )
            except NotFound:
                return


async def _served(context: ActionContext, wanted: Iterable[tuple[str, str]]) -> list[Kind]:
    """Return rows for the groups and plurals that the API serves, in the version it prefers."""
    resources = []
    for group, plural in wanted:
        try:
            page = msgspec.json.decode(await context.client.call("GET", f"/apis/{group}"))
        except NotFound:
            continue
        resources.append(Kind(group, page["preferredVersion"]["version"], plural, plural))
    return resources


def _count(used: Amounts, quota: Document, kind: Kind, documents: Iterable[Document]) -> None:
    for document in documents:
        if in_scope(quota, kind, document):
            for name, amount in usage_of(kind, document).items():
                if name in used:
                    used[name] = used[name] + amount


def _others(hard: Iterable[str]) -> Iterator[Kind]:
    """Yield the kinds that a quota counts and of which there is no copy here."""
    wanted = _named(hard)
    for kind in KINDS:
        listed = kind.stored and kind.namespaced and "list" in kind.verbs and not kind.hub
        if listed and kind not in KNOWN and _name(kind) in wanted:
            yield kind


def _named(hard: Iterable[str]) -> frozenset[str]:
    """Return the resources that a quota counts."""
    return frozenset(name.removeprefix("count/") for name in hard)


def _name(kind: Kind) -> str:
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def _unknown(hard: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield group and plural of what a quota counts and the table of kinds does not have."""
    known = {(kind.group, kind.plural) for kind in KINDS}
    for name in hard:
        plural, _, group = name.removeprefix("count/").partition(".")
        if name.startswith("count/") and group and (group, plural) not in known:
            yield group, plural


def _status(quota: Document, used: Amounts) -> Iterator[Patch]:
    hard: Mapping[str, Any] = quota["spec"].get("hard") or {}
    present = quota.get("status") or {}
    printed = {name: str(amount) for name, amount in used.items()}
    before = read_amounts(present.get("used"))
    if present.get("hard") == hard and before == used and set(present.get("used") or ()) == set(printed):
        return
    gone = {name: None for name in present.get("used") or () if name not in printed}
    dropped = {name: None for name in present.get("hard") or () if name not in hard}
    status = {"hard": {**dropped, **hard}, "used": {**gone, **printed}}
    metadata = quota["metadata"]
    yield Patch(
        RESOURCE_QUOTAS, metadata["name"], metadata["namespace"], {"status": status}, subresource="status"
    )


def _moved(kind: Kind, old: Any, new: Any) -> bool:
    """Return whether a change may change what is used: of pods their end, of others their spec."""
    if old is None or new is None:
        return True
    if kind is PODS:
        return bool(old.terminated != new.terminated or (old.spec is not new.spec and old.spec != new.spec))
    if kind is PERSISTENT_VOLUME_CLAIMS and attributes_classes_of(old) != attributes_classes_of(new):
        return True  # a scope may be about the class that its volume has now
    return kind in SPENDING and bool(old.get("spec") != new.get("spec"))


def _document(item: Any) -> Document:
    found: Document = item if isinstance(item, dict) else msgspec.to_builtins(item)
    return found
