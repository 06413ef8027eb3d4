"""Validation of label selectors.

Spec: apiserver.md 13 (pod affinity labelSelector, PVC selector). The messages are those of node selectors, with the
four operators of label selectors.
"""

from __future__ import annotations

from typing import Any

from weir.selectors.labels import SelectorError, from_object
from weir.validate.core.node_selector import NEEDS_VALUES, NOT_AN_OPERATOR, TAKES_NO_VALUES
from weir.validate.field import Document, Enum, Errors, each_invalid, forbidden, invalid, required
from weir.validate.meta import validate_labels
from weir.values.names import check_label_key, check_label_value


def validate_label_selector(selector: Document | None, at: str) -> Errors:
    """Yield what is wrong with a label selector; an absent one is fine."""
    if not selector:
        return
    if labels := selector.get("matchLabels"):
        yield from validate_labels(labels, f"{at}.matchLabels")
    for i, requirement in enumerate(selector.get("matchExpressions") or ()):
        yield from _validate_requirement(requirement, f"{at}.matchExpressions[{i}]")


def _validate_requirement(requirement: Document, at: str) -> Errors:
    operator, values = requirement.get("operator") or "", requirement.get("values") or ()
    key = requirement.get("key") or ""
    if operator in ("In", "NotIn"):
        if not values:
            yield required(f"{at}.values", NEEDS_VALUES)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield forbidden(f"{at}.values", TAKES_NO_VALUES)
    else:
        yield invalid(f"{at}.operator", Enum(operator), NOT_AN_OPERATOR)
    yield from each_invalid(f"{at}.key", key, check_label_key(key))
    for i, value in enumerate(values):
        if messages := check_label_value(value):
            yield from each_invalid(f"{at}.values[{i}]", value, messages)


def selector_json(selector: Document | None) -> dict[str, Any] | None:
    """Return a selector in the order its fields are printed."""
    if selector is None:
        return None
    shown: dict[str, Any] = {}
    if selector.get("matchLabels"):
        shown["matchLabels"] = dict(sorted(selector["matchLabels"].items()))
    if selector.get("matchExpressions"):
        shown["matchExpressions"] = [
            {
                "key": each.get("key") or "",
                "operator": each.get("operator") or "",
                **({"values": each["values"]} if each.get("values") else {}),
            }
            for each in selector["matchExpressions"]
        ]
    return shown


def is_sound(selector: Document | None) -> bool:
    """Return whether a selector can be read at all."""
    return next(validate_label_selector(selector, ""), None) is None


def selects(selector: Document, labels: Document) -> bool:
    """Return whether a selector picks *labels*; one that cannot be read was reported already and picks them."""
    try:
        found = from_object(selector)
    except SelectorError:
        return True
    return found is None or found.matches(labels)
