"""Validation of node taints.

Spec: core.md 2.8 "Node taints". Values are not parsed as numbers or versions: a taint that no comparison can parse is
legal and never matches. Errors name `metadata.taints`, although the field is `spec.taints`.
"""

from __future__ import annotations

from typing import Final

from weir.validate.field import Document, Errors, duplicate, each_invalid, invalid, not_supported, required
from weir.validate.gonames import go_struct
from weir.validate.tolerations import EFFECTS
from weir.values.names import check_label_key, check_label_value

NOT_UNIQUE: Final = "taints must be unique by key and effect pair"


def validate_taints(taints: list[Document], at: str = "metadata.taints") -> Errors:
    """Yield what is wrong with the taints of a node; two taints are one when key and effect agree."""
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate(taints):
        key, value, effect = taint.get("key") or "", taint.get("value") or "", taint.get("effect") or ""
        if messages := check_label_key(key):
            yield from each_invalid(f"{at}[{i}].key", key, messages)
        if messages := check_label_value(value):
            yield invalid(f"{at}[{i}].value", value, ";".join(messages))
        if not effect:
            yield required(f"{at}[{i}].effect")
        elif effect not in EFFECTS:
            yield not_supported(f"{at}[{i}].effect", effect, EFFECTS)
        if (key, effect) in seen:
            yield duplicate(f"{at}[{i}]", go_struct("Taint", taint), NOT_UNIQUE)
        seen.add((key, effect))
