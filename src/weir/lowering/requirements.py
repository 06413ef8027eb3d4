"""Extended node selector requirements: which documents may stand for a synthetic label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from weir.gates import EXTENDED
from weir.lowering.names import requirement_hash
from weir.taints.operators import find_in_affinity
from weir.validate.ratchet import Options
from weir.validate.selectors import validate_node_selector_term

_FIELDS: Final = frozenset({"key", "operator", "values"})
EVERY_FORM: Final = Options(frozenset(EXTENDED))


def is_extended_requirement(requirement: Mapping[str, Any]) -> bool:
    """Return whether stock clusters do not have the requirement's operator."""
    operator = find_in_affinity(requirement.get("operator"))
    return operator is not None and bool(operator.affinity_gate)


def requirement_problems(term: dict[str, Any], at: str) -> list[str]:
    """Return what a server that knew SemVer requirements would refuse a node selector term for."""
    return [str(error) for error in validate_node_selector_term(term, at, EVERY_FORM, check_values=False)]


def is_original_requirement(hash_: str, requirement: Any) -> bool:
    """Return whether *requirement* is one that lowering would write under *hash_*."""
    if not isinstance(requirement, dict) or not requirement.keys() <= _FIELDS:
        return False
    values = requirement.get("values")
    texts = (
        requirement.get("key"),
        requirement.get("operator"),
        *(values if isinstance(values, list) else (None,)),
    )
    return (
        all(isinstance(text, str) for text in texts)
        and is_extended_requirement(requirement)
        and requirement_hash(requirement) == hash_
        and not requirement_problems({"matchExpressions": [requirement]}, "")
    )
