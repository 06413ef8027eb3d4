"""Validation of label selectors and node selector terms.

Spec: apiserver.md 13 (pod affinity labelSelector, PVC selector); core.md 2.9 "Node selector terms"; KEP-5721 "API
Validation". Both have the same messages. Values of required node selector terms are checked as label values, those of
preferred terms are not; `Gt` and `Lt` accept any value here (one that is no integer never matches).
"""

from __future__ import annotations

from typing import Any, Final

from weir.fields.field import (
    Document,
    Enum,
    Errors,
    each,
    each_invalid,
    forbidden,
    invalid,
    present,
    required,
)
from weir.fields.meta import validate_labels
from weir.selectors.labels import SelectorError, from_object
from weir.taints.operators import find_in_affinity, names_of
from weir.validate.ratchet import Options
from weir.values.names import check_dns1123_subdomain, check_label_key, check_label_value


def validate_label_selector(selector: Document | None, at: str) -> Errors:
    """Yield what is wrong with a label selector; an absent one is fine."""
    if not selector:
        return
    if labels := selector.get("matchLabels"):
        yield from validate_labels(labels, f"{at}.matchLabels")
    yield from each(_validate_requirement, selector.get("matchExpressions"), f"{at}.matchExpressions")


def _validate_requirement(requirement: Document, at: str) -> Errors:
    operator, values = requirement.get("operator") or "", requirement.get("values") or ()
    key = requirement.get("key") or ""
    if operator in ("In", "NotIn"):
        yield from present(f"{at}.values", values, NEEDS_VALUES)
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


# ── node selectors ────────────────────────────────────────────────────────────────────────────────────


NO_TERMS: Final = "must have at least one node selector term"
NOT_AN_OPERATOR: Final = "not a valid selector operator"
NEEDS_VALUES: Final = "must be specified when `operator` is 'In' or 'NotIn'"
TAKES_NO_VALUES: Final = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
ONE_VALUE: Final = "must be specified single value when `operator` is {}"
ONE_FIELD_VALUE: Final = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
NOT_A_FIELD: Final = "not a valid field selector key"


def validate_node_selector(selector: Document, at: str, options: Options) -> Errors:
    """Yield what is wrong with a required node selector: at least one term, each term sound."""
    terms = selector.get("nodeSelectorTerms") or ()
    yield from present(f"{at}.nodeSelectorTerms", terms, NO_TERMS)
    yield from each(
        validate_node_selector_term,
        terms,
        f"{at}.nodeSelectorTerms",
        options,
        check_values=options.label_values,
    )


def validate_node_selector_term(term: Document, at: str, options: Options, *, check_values: bool) -> Errors:
    """Yield what is wrong with one term; *check_values* says whether values must be label values."""
    yield from each(
        _validate_expression, term.get("matchExpressions"), f"{at}.matchExpressions", options, check_values
    )
    yield from each(_validate_field, term.get("matchFields"), f"{at}.matchFields")


def _validate_expression(requirement: Document, at: str, options: Options, check_values: bool) -> Errors:
    key, operator = requirement.get("key") or "", requirement.get("operator") or ""
    values = requirement.get("values") or ()
    if operator in ("In", "NotIn"):
        yield from present(f"{at}.values", values, NEEDS_VALUES)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield forbidden(f"{at}.values", TAKES_NO_VALUES)
    elif (comparison := find_in_affinity(operator)) and options.allows(comparison.affinity_gate):
        if len(values) != 1:
            alike = names_of(comparison.scale, in_affinity=True)
            yield required(f"{at}.values", ONE_VALUE.format(" or ".join(f"'{name}'" for name in alike)))
        for i, value in enumerate(values):
            for problem in comparison.scale.label_problems(value):
                yield invalid(f"{at}.values[{i}]", value, problem)
    else:
        yield invalid(f"{at}.operator", Enum(operator), NOT_AN_OPERATOR)
    yield from each_invalid(f"{at}.key", key, check_label_key(key))
    if check_values:
        for i, value in enumerate(values):
            if messages := check_label_value(value):
                yield from each_invalid(f"{at}.values[{i}]", value, messages)


def _validate_field(requirement: Document, at: str) -> Errors:
    key, operator = requirement.get("key") or "", requirement.get("operator") or ""
    values = requirement.get("values") or ()
    if operator in ("In", "NotIn"):
        if len(values) != 1:
            yield required(f"{at}.values", ONE_FIELD_VALUE)
    else:
        yield invalid(f"{at}.operator", Enum(operator), NOT_AN_OPERATOR)
    if key != "metadata.name":
        yield invalid(f"{at}.key", key, NOT_A_FIELD)
        return
    for i, value in enumerate(values):
        if messages := check_dns1123_subdomain(value):
            yield from each_invalid(f"{at}.values[{i}]", value, messages)
