"""ResourceQuota: rejects creates beyond a namespace's quota.

Spec: core/v1 ResourceQuota; part of upstream's default plugins. Usage is counted from the stored objects,
so quotas hold with or without the controller that writes `status.used`.
Admitted objects that are not stored yet are counted for a moment, so that two concurrent creates do not both get the
last place. Unlike upstream, only creation and growing claims are checked.

Running totals of quota usage per namespace. Spec: core/v1 ResourceQuota. A ledger receives every change of what it
counts and keeps the sum. Quotas with the same scopes share a ledger.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from weir.apiserver.admission.attributes import CREATE, UPDATE, Attributes, Following, Reader
from weir.objects.kind import Kind
from weir.objects.kinds import PERSISTENT_VOLUME_CLAIMS, PODS, RESOURCE_QUOTAS
from weir.objects.pod_resources import Amounts, read_amounts, sets_pod_level
from weir.objects.quota_usage import MUST_BE_SET, in_scope, unset, usage_of
from weir.values.quantity import parse_quantity

Document = Mapping[str, Any]
ZERO = parse_quantity("0")
REMEMBERED_SECONDS = 10.0


class Ledger:
    """The sum of what the objects of one kind and one namespace use, as far as *quota* is about them.

    >>> from weir.objects.kinds import by_kind
    >>> ledger = Ledger(by_kind("v1", "Secret"), {})
    >>> for name in "ab":
    ...     ledger.changed(name, {"metadata": {"name": name}})
    >>> ledger.changed("a", None)
    >>> {name: str(amount) for name, amount in ledger.used(["secrets", "pods"]).items()}
    {'secrets': '1', 'pods': '0'}
    """

    def __init__(self, kind: Kind, quota: Document) -> None:
        self._kind, self._quota = kind, quota
        self._own: dict[str, Amounts] = {}
        self._total: Amounts = {}

    def __contains__(self, name: str) -> bool:
        return name in self._own

    def changed(self, name: str, document: Document | None) -> None:
        """Note what an object has become; None: it is gone."""
        before = self._own.pop(name, None)
        if before:
            for resource, amount in before.items():
                self._total[resource] = self._total[resource] - amount
        if document is None:
            return
        now = usage_of(self._kind, document) if in_scope(self._quota, self._kind, document) else {}
        self._own[name] = now
        for resource, amount in now.items():
            self._total[resource] = self._total.get(resource, ZERO) + amount

    def used(self, names: list[str], without: str = "") -> Amounts:
        """Return what is used of *names*, as if the object *without* were not there."""
        own = self._own.get(without, {}) if without else {}
        return {
            name: self._total.get(name, ZERO) - own[name] if name in own else self._total.get(name, ZERO)
            for name in names
        }


class ResourceQuota:
    name = "ResourceQuota"

    def __init__(self, reader: Reader, timer: Callable[[], float] = time.monotonic) -> None:
        self._reader = reader
        self._timer = timer
        self._seen: tuple[int, dict[str, list[Document]]] = (-1, {})
        self._ledgers: dict[tuple[Kind, str, bytes], tuple[Ledger, Following]] = {}
        self._underway: dict[tuple[Kind, str], dict[str, tuple[float, Document]]] = {}

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        if not kind.namespaced or not kind.stored or subresource:
            return False
        return operation == CREATE or (operation == UPDATE and kind is PERSISTENT_VOLUME_CLAIMS)

    def validate(self, a: Attributes) -> None:
        quotas = self._quotas(a.namespace)
        if not quotas:
            return
        assert a.object is not None
        about = [
            (quota, hard)
            for quota in quotas
            if (hard := read_amounts((quota.get("spec") or {}).get("hard")))
            and in_scope(quota, a.kind, a.object)
        ]
        for quota, hard in about:  # missing amounts are reported before amounts that are too large
            self._check_set(a, quota, hard)
        wanted = usage_of(a.kind, a.object)
        for quota, hard in about:
            self._check_amounts(a, quota, hard, wanted)
        if a.operation == CREATE and not a.dry_run:
            places = self._underway.setdefault((a.kind, a.namespace), {})
            places[a.shown_name()] = (self._timer(), a.object)

    def _check_set(self, a: Attributes, quota: Document, hard: Amounts) -> None:
        wanted = MUST_BE_SET.intersection(hard)
        if a.kind is not PODS or not wanted:
            return
        spec = (a.object or {}).get("spec") or {}
        if sets_pod_level(spec):
            return  # the whole pod says what it takes
        missing = unset(spec, wanted)
        if missing:
            text = "; ".join(f"{name} for: {','.join(sorted(who))}" for name, who in sorted(missing.items()))
            raise a.forbidden(f"failed quota: {quota['metadata']['name']}: must specify {text}")

    def _check_amounts(self, a: Attributes, quota: Document, hard: Amounts, wanted: Amounts) -> None:
        names = [name for name in sorted(hard) if name in wanted and wanted[name].sign > 0]
        if not names:
            return
        used = self._used(a, quota, names)
        over = [name for name in names if hard[name] < used[name] + wanted[name]]
        if a.operation == UPDATE and over:
            before = usage_of(a.kind, a.old or {})
            over = [name for name in over if before.get(name, ZERO) < wanted[name]]
        if over:
            raise a.forbidden(
                f"exceeded quota: {quota['metadata']['name']}, requested: {_amounts_text(over, wanted)}, "
                f"used: {_amounts_text(over, used)}, limited: {_amounts_text(over, hard)}"
            )

    def _used(self, a: Attributes, quota: Document, names: list[str]) -> Amounts:
        """Return what the namespace's other objects of this kind use of *names*."""
        ledger = self._ledger(a.kind, a.namespace, quota)
        own_name = a.name if a.operation == UPDATE else ""
        total = ledger.used(names, own_name)
        for document in self._not_yet_stored(a, ledger):
            if not in_scope(quota, a.kind, document):
                continue
            usage = usage_of(a.kind, document)
            for name in names:
                if name in usage:
                    total[name] = total[name] + usage[name]
        return total

    def _ledger(self, kind: Kind, namespace: str, quota: Document) -> Ledger:
        """Return what counts the objects that *quota* is about."""
        spec = quota.get("spec") or {}
        scopes = msgspec.json.encode([spec.get("scopes") or (), spec.get("scopeSelector") or ()])
        key = (kind, namespace, scopes)
        found = self._ledgers.get(key)
        if found is None or not found[1]:
            ledger = Ledger(kind, quota)
            found = self._ledgers[key] = (ledger, self._reader.follow(kind, namespace, ledger.changed))
        return found[0]

    def _forget(self) -> None:
        """Stop counting in namespaces that have no quota any more."""
        for key in [key for key in self._ledgers if not self._quotas(key[1])]:
            self._ledgers.pop(key)[1].stop()
        for place in [place for place in self._underway if not self._quotas(place[1])]:
            del self._underway[place]

    def _not_yet_stored(self, a: Attributes, there: Ledger) -> list[Document]:
        places = self._underway.get((a.kind, a.namespace))
        if not places:
            return []
        now = self._timer()
        for name, (since, _) in list(places.items()):
            if name in there or now - since > REMEMBERED_SECONDS:
                del places[name]
        if not places:
            del self._underway[a.kind, a.namespace]
        return [document for _, document in places.values()]

    def _quotas(self, namespace: str) -> list[Document]:
        version = self._reader.version(RESOURCE_QUOTAS)
        if self._seen[0] != version:
            self._seen = (version, {})
            self._forget()
        found = self._seen[1].get(namespace)
        if found is None:
            quotas = self._reader.list_now(RESOURCE_QUOTAS, namespace)
            found = self._seen[1][namespace] = sorted(
                quotas, key=lambda quota: str(quota["metadata"]["name"])
            )
        return found


def _amounts_text(names: list[str], values: Amounts) -> str:
    return ",".join(f"{name}={values[name]}" for name in names)
