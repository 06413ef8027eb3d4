"""Table cells of admission policies and their bindings.

Spec: apiserver.md 11 "Tables", "Cells".
"""

from __future__ import annotations

from weir.apiserver.printers.values import Cells, Document, age, at, name_of

_UNSET = "<unset>"


def policy_cells(rules: str, found: Document, now: float) -> Cells:
    """The cells of a policy, whose rules stand in the field *rules* of its spec."""
    kind = at(found, "spec", "paramKind")
    shown = _UNSET if kind is None else f"{kind.get('apiVersion') or ''}/{kind.get('kind') or ''}"
    return [name_of(found), len(at(found, "spec", rules) or ()), shown, age(found, now)]


def policy_binding_cells(found: Document, now: float) -> Cells:
    ref = at(found, "spec", "paramRef")
    return [name_of(found), at(found, "spec", "policyName") or "", params_text(ref), age(found, now)]


def params_text(ref: Document | None) -> str:
    """Return which parameters a binding names; a selector is shown as Go prints one.

    >>> params_text(None), params_text({"name": "limits"}), params_text({"namespace": "ns", "name": "limits"})
    ('<unset>', '*/limits', 'ns/limits')
    >>> params_text({"selector": {"matchLabels": {"a": "b"}}})
    '&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}'
    """
    if ref is None:
        return _UNSET
    if ref.get("name"):
        return f"{ref.get('namespace') or '*'}/{ref['name']}"
    selector = ref.get("selector")
    if selector is None:
        return _UNSET
    labels = "".join(f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{one.get('key', '')},Operator:{one.get('operator', '')},"
        f"Values:[{' '.join(one.get('values') or ())}],}},"
        for one in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
