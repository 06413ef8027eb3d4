"""Ratcheting: what an update may keep although a create may not use it.

Spec: core.md 2.7 "Ratcheting". A disabled gate rejects new use; an object that already uses the feature may be
updated and may use it more: the flag is per object, not per entry. Creation never ratchets. One flag covers semver
operators in tolerations and in node affinity.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from weir.fields.field import Document
from weir.gates import EXTENDED, TOLERATION_CEL, Gates
from weir.taints.operators import find_comparison, find_in_affinity
from weir.values.names import check_label_value

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class Options:
    """Which forms a document may use, and which checks an update is spared."""

    features: frozenset[str] = frozenset()  #: the gates whose operators and expressions may be used
    label_values: bool = True  #: check the values of required node-affinity terms
    mutable_pv_affinity: bool = False
    raw: bool = False  #: the document has not been defaulted: absent fields mean their default
    shares: bool = True  #: devices may be allocated several times, by capacity
    never: bool = False  #: the object takes none of the gated forms, whatever the gates

    def allows(self, gate: str) -> bool:
        """Return whether a form may be used that needs *gate*; "" needs none."""
        return not gate or gate in self.features

    def with_features(self, used: Iterable[str]) -> Options:
        """Return the options of an object that uses these gates' forms already."""
        features = self.features.union(used)
        return self if features == self.features else replace(self, features=features)


#: Options for objects that never take gated forms (RuntimeClass tolerations).
CLOSED: Final = Options(never=True)


@lru_cache(maxsize=64)
def options_for(gates: Gates, raw: bool = False) -> Options:
    """Return the options of a create: exactly what the gates say."""
    return Options(
        features=frozenset(gate for gate in EXTENDED if gates.enabled(gate)),
        mutable_pv_affinity=gates.enabled("MutablePVNodeAffinity"),
        raw=raw,
        shares=gates.enabled("DRAConsumableCapacity"),
    )


def pod_options(gates: Gates, old_spec: Document | None, raw: bool = False) -> Options:
    """Return the options for a pod spec (or template) that replaces *old_spec*."""
    options = options_for(gates, raw)
    if not old_spec:
        return options
    used = toleration_gates(old_spec.get("tolerations") or ()) | _affinity_gates(_expressions(old_spec))
    return replace(options.with_features(used), label_values=not has_invalid_values(_required(old_spec)))


def volume_options(gates: Gates, old_spec: Document | None, raw: bool = False) -> Options:
    """Return the options for a PersistentVolume spec that replaces *old_spec*."""
    options = options_for(gates, raw)
    required = ((old_spec or {}).get("nodeAffinity") or {}).get("required")
    if not required:
        return options
    requirements = (
        requirement
        for term in required.get("nodeSelectorTerms") or ()
        for requirement in term.get("matchExpressions") or ()
    )
    used = _affinity_gates(requirements)
    return replace(options.with_features(used), label_values=not has_invalid_values(required))


def toleration_gates(tolerations: Iterable[Any]) -> set[str]:
    """Return the gates that stored *tolerations* of a pod or of a claim's requests need."""
    gates = {TOLERATION_CEL for toleration in tolerations if toleration.get("expression")}
    operators = (find_comparison(toleration.get("operator")) for toleration in tolerations)
    return gates | {operator.gate for operator in operators if operator is not None}


def _affinity_gates(requirements: Iterable[Any]) -> set[str]:
    operators = (find_in_affinity(requirement.get("operator")) for requirement in requirements)
    return {operator.affinity_gate for operator in operators if operator is not None} - {""}


def has_invalid_values(selector: Document | None) -> bool:
    """Return whether a stored node selector has a value that is no label value."""
    return any(
        check_label_value(value)
        for term in (selector or {}).get("nodeSelectorTerms") or ()
        for requirement in term.get("matchExpressions") or ()
        for value in requirement.get("values") or ()
    )


def _node_affinity(spec: Document) -> Document:
    affinity: Document = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return affinity


def _required(spec: Document) -> Document | None:
    return _node_affinity(spec).get(_REQUIRED)


def _expressions(spec: Document) -> Iterator[Document]:
    """Yield every requirement on node labels, required and preferred."""
    affinity = _node_affinity(spec)
    for term in (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ():
        yield from term.get("matchExpressions") or ()
    for preferred in affinity.get(_PREFERRED) or ():
        yield from (preferred.get("preference") or {}).get("matchExpressions") or ()
