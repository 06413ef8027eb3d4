"""Validation of node affinity, pod affinity and topology spread constraints.

Spec: core.md 2.9 "Node selector terms" (node affinity), apiserver.md 13 (pod affinity, topology spread). An empty
topologyKey gives three errors; namespaces are reported on `namespace`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from weir.fields import field
from weir.fields.field import Document, Errors
from weir.validate.ratchet import Options
from weir.validate.selectors import (
    validate_label_selector,
    validate_node_selector,
    validate_node_selector_term,
)
from weir.values.names import check_dns1123_label, check_label_key

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
WEIGHT_RANGE: Final = "must be in the range 1-100"
NOT_EMPTY: Final = "can not be empty"
POSITIVE: Final = "must be greater than zero"
_WHEN_UNSATISFIABLE: Final = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES: Final = ("Honor", "Ignore")


def validate_affinity(affinity: Document, at: str, options: Options) -> Errors:
    """Yield what is wrong with the affinities of a pod."""
    if node := affinity.get("nodeAffinity"):
        yield from validate_node_affinity(node, f"{at}.nodeAffinity", options)
    for name in ("podAffinity", "podAntiAffinity"):
        if pod := affinity.get(name):
            yield from _validate_pod_affinity(pod, f"{at}.{name}")


def validate_node_affinity(affinity: Document, at: str, options: Options) -> Errors:
    """Yield what is wrong with the node affinity of a pod."""
    if (selector := affinity.get(_REQUIRED)) is not None:
        yield from validate_node_selector(selector, f"{at}.{_REQUIRED}", options)
    for t, term in enumerate(affinity.get(_PREFERRED) or ()):
        where = f"{at}.{_PREFERRED}[{t}]"
        yield from _validate_weight(term, where)
        yield from validate_node_selector_term(
            term.get("preference") or {}, f"{where}.preference", options, check_values=False
        )


def _validate_weight(term: Document, at: str) -> Errors:
    weight = term.get("weight") or 0
    yield from field.in_range(f"{at}.weight", weight, 1, 100, WEIGHT_RANGE)


def _validate_pod_affinity(affinity: Document, at: str) -> Errors:
    yield from field.each(_validate_pod_term, affinity.get(_REQUIRED), f"{at}.{_REQUIRED}")
    for t, weighted in enumerate(affinity.get(_PREFERRED) or ()):
        where = f"{at}.{_PREFERRED}[{t}]"
        yield from _validate_weight(weighted, where)
        yield from _validate_pod_term(weighted.get("podAffinityTerm") or {}, f"{where}.podAffinityTerm")


def _validate_pod_term(term: Document, at: str) -> Errors:
    yield from validate_label_selector(term.get("labelSelector"), f"{at}.labelSelector")
    yield from validate_label_selector(term.get("namespaceSelector"), f"{at}.namespaceSelector")
    for namespace in term.get("namespaces") or ():
        yield from field.each_invalid(f"{at}.namespace", namespace, check_dns1123_label(namespace))
    match, mismatch = term.get("matchLabelKeys") or (), term.get("mismatchLabelKeys") or ()
    for name, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        if keys and term.get("labelSelector") is None:
            yield field.forbidden(f"{at}.{name}", "must not be specified when labelSelector is not set")
            continue
        yield from field.each_well_formed(f"{at}.{name}", keys, check_label_key)
    yield from _validate_keys_apart(term, match, at)
    for i, key in enumerate(match):
        if key in mismatch:
            yield field.invalid(
                f"{at}.matchLabelKeys[{i}]", key, "exists in both matchLabelKeys and mismatchLabelKeys"
            )
    topology_key = term.get("topologyKey") or ""
    yield from field.present(f"{at}.topologyKey", topology_key, NOT_EMPTY)
    yield from field.each_invalid(f"{at}.topologyKey", topology_key, check_label_key(topology_key))


def _validate_keys_apart(term: Document, match: Sequence[str], at: str) -> Errors:
    """Yield the keys that the selector names as well; the server has already added what the keys stand for."""
    selector = term.get("labelSelector") or {}
    places = {key: i for i, key in enumerate(match)}
    seen = set(selector.get("matchLabels") or {})
    for expression in selector.get("matchExpressions") or ():
        key = expression.get("key") or ""
        if key in places and key in seen:
            # Upstream forgets to name the list.
            yield field.invalid(
                f"{at}[{places[key]}]", key, "exists in both matchLabelKeys and labelSelector"
            )
        seen.add(key)


def validate_spread_constraints(constraints: list[Document], at: str) -> Errors:
    """Yield what is wrong with the topology spread constraints of a pod."""
    last = {_what_it_spreads(constraint): i for i, constraint in enumerate(constraints)}
    for i, constraint in enumerate(constraints):
        again = last[_what_it_spreads(constraint)] > i
        yield from _validate_spread(constraint, f"{at}[{i}]", again=again)


def _what_it_spreads(constraint: Document) -> tuple[str, str]:
    return constraint.get("topologyKey") or "", constraint.get("whenUnsatisfiable") or ""


def _validate_spread(constraint: Document, at: str, *, again: bool) -> Errors:
    """Yield what is wrong with one constraint; *again* says that a later one spreads the same."""
    skew, key = constraint.get("maxSkew") or 0, constraint.get("topologyKey") or ""
    action = constraint.get("whenUnsatisfiable") or ""
    yield from field.at_least(f"{at}.maxSkew", skew, 1, POSITIVE)
    yield from field.present(f"{at}.topologyKey", key, NOT_EMPTY)
    yield from field.one_of(f"{at}.whenUnsatisfiable", action, _WHEN_UNSATISFIABLE)
    if again:
        yield field.duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
    if (domains := constraint.get("minDomains")) is not None:
        if domains <= 0:
            yield field.invalid(f"{at}.minDomains", domains, POSITIVE)
        if action != "DoNotSchedule":
            detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            yield field.invalid(f"{at}.minDomains", domains, detail)
    for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        yield from field.one_of(f"{at}.{name}", constraint.get(name), _POLICIES)
    yield from _validate_spread_keys(constraint, at)
    yield from validate_label_selector(constraint.get("labelSelector"), f"{at}.labelSelector")


def _validate_spread_keys(constraint: Document, at: str) -> Errors:
    keys = constraint.get("matchLabelKeys")
    if not keys:
        return
    if constraint.get("labelSelector") is None:
        yield field.forbidden(f"{at}.matchLabelKeys", "must not be specified when labelSelector is not set")
        return
    yield from field.each_well_formed(f"{at}.matchLabelKeys", keys, check_label_key)
    yield from _validate_keys_apart(constraint, keys, at)
