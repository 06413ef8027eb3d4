"""Table cells of admission policies and their bindings."""

from __future__ import annotations

from weir.apiserver.printers.cells import UNSET, Document, at


def parameter_kind(policy: Document, now: float) -> str:
    """Return the kind of a policy's parameters."""
    kind = at(policy, "spec", "paramKind")
    return UNSET if kind is None else f"{kind.get('apiVersion') or ''}/{kind.get('kind') or ''}"


def parameters(binding: Document, now: float) -> str:
    """Return the parameters of a policy binding."""
    return params_text(at(binding, "spec", "paramRef"))


def params_text(ref: Document | None) -> str:
    """Return which parameters a binding names; a selector is shown as Go prints one.

    >>> params_text(None), params_text({"name": "limits"}), params_text({"namespace": "ns", "name": "limits"})
    ('<unset>', '*/limits', 'ns/limits')
    >>> params_text({"selector": {"matchLabels": {"a": "b"}}})
    '&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}'
    """
    if ref is None:
        return UNSET
    if ref.get("name"):
        return f"{ref.get('namespace') or '*'}/{ref['name']}"
    selector = ref.get("selector")
    if selector is None:
        return UNSET
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
