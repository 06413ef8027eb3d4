"""Ratcheting: what an update may keep although a create may not use it.

Spec: core.md 2.7 "Ratcheting". A disabled gate rejects new use; an object that already uses the feature may be
updated and may use it more: the flag is per object, not per entry. Creation never ratchets. One flag covers semver
operators in tolerations and in node affinity.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from weir.gates import Gates
from weir.validate.field import Document
from weir.values.names import check_label_value

NUMERIC_OPERATORS: Final = frozenset({"Lt", "Gt"})
SEMVER_OPERATORS: Final = frozenset({"SemverLt", "SemverGt", "SemverEq"})

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class Options:
    """Which forms a document may use, and which checks an update is spared."""

    numeric: bool = False  #: `Lt` and `Gt` in tolerations
    semver: bool = False  #: `SemverLt`, `SemverGt`, `SemverEq` in tolerations and node affinity
    cel: bool = False  #: `expression` in tolerations
    label_values: bool = True  #: check the values of required node-affinity terms
    mutable_pv_affinity: bool = False
    raw: bool = False  #: the document has not been defaulted: absent fields mean their default
    shares: bool = True  #: devices may be allocated several times, by capacity
    never: bool = False  #: the object takes none of the gated forms, whatever the gates


#: Options for objects that never take gated forms (RuntimeClass tolerations).
CLOSED: Final = Options(never=True)


@lru_cache(maxsize=64)
def options_for(gates: Gates, raw: bool = False) -> Options:
    """Return the options of a create: exactly what the gates say."""
    return Options(
        numeric=gates.numeric,
        semver=gates.semver,
        cel=gates.cel,
        mutable_pv_affinity=gates.enabled("MutablePVNodeAffinity"),
        raw=raw,
        shares=gates.enabled("DRAConsumableCapacity"),
    )


def pod_options(gates: Gates, old_spec: Document | None, raw: bool = False) -> Options:
    """Return the options for a pod spec (or template) that replaces *old_spec*."""
    options = options_for(gates, raw)
    if not old_spec:
        return options
    tolerations = old_spec.get("tolerations") or ()
    operators = {toleration.get("operator", "") for toleration in tolerations}
    expressions = list(_expressions(old_spec))
    return replace(
        options,
        numeric=options.numeric or not operators.isdisjoint(NUMERIC_OPERATORS),
        semver=options.semver
        or not operators.isdisjoint(SEMVER_OPERATORS)
        or any(requirement.get("operator") in SEMVER_OPERATORS for requirement in expressions),
        cel=options.cel or any(toleration.get("expression") for toleration in tolerations),
        label_values=not has_invalid_values(_required(old_spec)),
    )


def volume_options(gates: Gates, old_spec: Document | None, raw: bool = False) -> Options:
    """Return the options for a PersistentVolume spec that replaces *old_spec*."""
    options = options_for(gates, raw)
    required = ((old_spec or {}).get("nodeAffinity") or {}).get("required")
    if not required:
        return options
    uses_semver = any(
        requirement.get("operator") in SEMVER_OPERATORS
        for term in required.get("nodeSelectorTerms") or ()
        for requirement in term.get("matchExpressions") or ()
    )
    return replace(
        options,
        semver=options.semver or uses_semver,
        label_values=not has_invalid_values(required),
    )


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
