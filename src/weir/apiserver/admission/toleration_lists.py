"""Merging and comparison of toleration lists.

Spec: core.md 7 "Superset" and "Merge", 1.2 (identity, add-or-update).
For PodTolerationRestriction, ExtendedResourceToleration and RuntimeClass. Works on the wire form: an absent field
equals an empty one, but an empty operator and `Equal` differ, as upstream compares them. `superset` compares what is
written, not taints: `Gt 900` does not cover `Gt 950` [D-19], and `Equal` covers only a literal `Equal`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Toleration = Mapping[str, Any]
Parts = tuple[str, str, str, str, int | None, str]


def parts(toleration: Toleration) -> Parts:
    """Return (key, operator, value, effect, tolerationSeconds, expression); absent members are empty.

    >>> parts({"key": "a", "value": ""})
    ('a', '', '', '', None, '')
    """
    get = toleration.get
    return (
        get("key") or "",
        get("operator") or "",
        get("value") or "",
        get("effect") or "",
        get("tolerationSeconds"),
        get("expression") or "",
    )


def superset(wider: Parts, narrower: Parts) -> bool:
    """Return whether *wider* permits everything *narrower* does, by the letter.

    >>> everything = parts({"operator": "Exists"})
    >>> superset(everything, parts({"key": "a", "effect": "NoSchedule"}))
    True
    """
    if wider == narrower:
        return True
    key, operator, value, effect, seconds, expression = wider
    if expression:
        return False
    if narrower[0] != key and (key or operator != "Exists"):
        return False
    if effect and narrower[3] != effect:
        return False
    if effect == "NoExecute" and seconds is not None and (narrower[4] is None or narrower[4] > seconds):
        return False
    if operator in ("", "Equal"):
        return narrower[1] == "Equal" and narrower[2] == value
    return operator == "Exists"


def merge(first: Sequence[Toleration], second: Sequence[Toleration]) -> list[Toleration]:
    """Return both lists as one without entries that another one covers; of equal ones the first stays."""
    everything = [*first, *second]
    as_parts = [parts(toleration) for toleration in everything]
    kept: list[int] = []
    for index, one in enumerate(as_parts):
        if any(superset(as_parts[other], one) for other in kept):
            continue
        if any(later != one and superset(later, one) for later in as_parts[index + 1 :]):
            continue
        kept.append(index)
    return [everything[index] for index in kept]


def permitted(tolerations: Sequence[Toleration], permit: Sequence[Toleration]) -> bool:
    """Return whether every toleration has a superset among *permit*."""
    wide = [parts(entry) for entry in permit]
    return all(any(superset(entry, parts(one)) for entry in wide) for one in tolerations)


def add_or_update(tolerations: list[Any], new: dict[str, Any]) -> bool:
    """Put *new* into the list, in place of the entry of the same identity; return whether it changed."""
    key, operator, value, effect, _, expression = wanted = parts(new)
    for index, toleration in enumerate(tolerations):
        found = parts(toleration)
        if (found[0], found[1], found[2], found[3], found[5]) == (key, operator, value, effect, expression):
            if found == wanted:
                return False
            tolerations[index] = new
            return True
    tolerations.append(new)
    return True
