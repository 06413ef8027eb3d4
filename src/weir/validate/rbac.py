"""Validation of Role, ClusterRole and their bindings.

Spec: upstream's rules of rbac.authorization.k8s.io: names are path segments, a rule has resources or URLs, and
roleRef is immutable.
"""

from __future__ import annotations

from typing import Final

from weir.fields import field
from weir.fields.field import Context, Document, Errors, FieldError
from weir.fields.meta import IMMUTABLE, same, validate_meta
from weir.validate.selectors import is_sound, validate_label_selector
from weir.values.names import check_dns1123_subdomain, check_path_segment

_GROUP: Final = "rbac.authorization.k8s.io"


def validate_role(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a Role."""
    yield from validate_meta(new, old, context, check_path_segment)
    yield from field.each(_validate_rule, new.get("rules"), "rules", namespaced=True)
    yield from _validate_verbs(new.get("rules") or [])


def validate_cluster_role(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a ClusterRole, which may also name URLs and gather other roles."""
    yield from validate_meta(new, old, context, check_path_segment)
    yield from field.each(_validate_rule, new.get("rules"), "rules", namespaced=False)
    if (aggregation := new.get("aggregationRule")) is not None:
        selectors = aggregation.get("clusterRoleSelectors") or []
        yield from field.present(
            "aggregationRule.clusterRoleSelectors",
            selectors,
            "at least one clusterRoleSelector required if aggregationRule is non-nil",
        )
        for i, selector in enumerate(selectors):
            at = f"aggregationRule.clusterRoleSelectors[{i}]"
            yield from validate_label_selector(selector, at)
            if not is_sound(selector):
                yield field.invalid(at, None, "invalid label selector.")
    yield from _validate_verbs(new.get("rules") or [])


def _validate_verbs(rules: list[Document]) -> Errors:
    """Yield rules without verbs, which the server notices last."""
    for i, rule in enumerate(rules):
        yield from field.present(f"rules[{i}].verbs", rule.get("verbs"))


def _validate_rule(rule: Document, at: str, *, namespaced: bool) -> Errors:
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            detail = "namespaced rules cannot apply to non-resource URLs"
            yield field.invalid(f"{at}.nonResourceURLs", urls, detail)
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            detail = "rules cannot apply to both regular resources and non-resource URLs"
            yield field.invalid(f"{at}.nonResourceURLs", urls, detail)
        return
    yield from field.present(
        f"{at}.apiGroups", rule.get("apiGroups"), "resource rules must supply at least one api group"
    )
    yield from field.present(
        f"{at}.resources", rule.get("resources"), "resource rules must supply at least one resource"
    )


def validate_role_binding(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a RoleBinding."""
    yield from validate_meta(new, old, context, check_path_segment)
    yield from _validate_binding(new, old, ("Role", "ClusterRole"), cluster=False)


def validate_cluster_role_binding(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a ClusterRoleBinding."""
    yield from validate_meta(new, old, context, check_path_segment)
    yield from _validate_binding(new, old, ("ClusterRole",), cluster=True)


def _validate_binding(
    new: Document, old: Document | None, kinds: tuple[str, ...], *, cluster: bool
) -> Errors:
    """Yield what is wrong with a binding; names that are missing come last, as the server finds them."""
    missing: list[FieldError] = []
    yield from _validate_reference(new.get("roleRef") or {}, kinds, missing)
    subjects: list[FieldError] = []
    yield from _validate_subjects(new.get("subjects") or [], subjects, cluster=cluster)
    yield from _validate_reference_kept(new, old)
    yield from subjects
    yield from missing


def _validate_reference_kept(new: Document, old: Document | None) -> Errors:
    if old is not None and not same(new.get("roleRef"), old.get("roleRef")):
        reference = new.get("roleRef") or {}
        shown = {"APIGroup": reference.get("apiGroup") or "", "Kind": reference.get("kind") or "",
                 "Name": reference.get("name") or ""}  # fmt: skip
        yield field.invalid("roleRef", shown, IMMUTABLE)


def _validate_reference(reference: Document, kinds: tuple[str, ...], missing: list[FieldError]) -> Errors:
    if (reference.get("apiGroup") or _GROUP) != _GROUP:
        yield field.not_supported("roleRef.apiGroup", reference["apiGroup"], (_GROUP,))
    yield from field.one_of("roleRef.kind", reference.get("kind") or "", kinds)
    name = reference.get("name") or ""
    if not name:
        missing.append(field.required("roleRef.name"))
    else:
        yield from field.each_invalid("roleRef.name", name, check_path_segment(name))


def _validate_subjects(subjects: list[Document], missing: list[FieldError], *, cluster: bool) -> Errors:
    for i, subject in enumerate(subjects):
        at, kind, name = f"subjects[{i}]", subject.get("kind") or "", subject.get("name") or ""
        group = subject.get("apiGroup")
        if not name:
            missing.append(field.required(f"{at}.name"))
        if kind == "ServiceAccount":
            yield from field.well_formed(f"{at}.name", name or None, check_dns1123_subdomain)
            if group:
                yield field.not_supported(f"{at}.apiGroup", group, ("",))
            if cluster and not subject.get("namespace"):
                yield field.required(f"{at}.namespace")
        elif kind in ("User", "Group"):
            if group and group != _GROUP:
                yield field.not_supported(f"{at}.apiGroup", group, (_GROUP,))
        else:
            yield field.not_supported(f"{at}.kind", kind, ("ServiceAccount", "User", "Group"))
