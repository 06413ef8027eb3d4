"""Running totals of quota usage per namespace.

Spec: core/v1 ResourceQuota. A ledger receives every change of what it counts and keeps the sum. Quotas with the same
scopes share a ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weir.objects.kind import Kind
from weir.objects.pod_resources import Amounts
from weir.objects.quota_usage import in_scope, usage_of
from weir.values.quantity import parse_quantity

__all__ = ["Ledger"]

Document = Mapping[str, Any]
ZERO = parse_quantity("0")


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
