"""Validation of FlowSchema.

Spec: upstream's rules of flowcontrol.apiserver.k8s.io/v1. The referenced priority level need not exist: a dangling
schema is reported in its status. The specs of `exempt` and `catch-all` are fixed.
"""

from __future__ import annotations

from typing import Final

from weir.objects import flow_control
from weir.validate.field import (
    Context,
    Document,
    Enum,
    Errors,
    duplicate,
    each_invalid,
    forbidden,
    invalid,
    not_supported,
    required,
)
from weir.validate.gonames import equal, go_struct
from weir.validate.meta import validate_meta
from weir.values.names import check_dns1123_label, check_dns1123_subdomain

HIGHEST_PRECEDENCE: Final = 10_000
_METHODS: Final = ("ByNamespace", "ByUser")
_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_SUBJECTS: Final = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}
_OTHERS: Final = {
    "Group": ("serviceAccount", "user"), "ServiceAccount": ("user", "group"), "User": ("serviceAccount", "group")
}  # fmt: skip
_NAMESPACES: Final = "each member of this list must be '*' or a DNS-1123 label; "


def validate_flow_schema(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a FlowSchema."""
    yield from validate_meta(new, old, context)
    if context.subresource != "status":
        name, spec = (new.get("metadata") or {}).get("name") or "", new.get("spec") or {}
        yield from _validate_spec(spec, name)
        fixed = flow_control.mandatory_spec(flow_control.SCHEMA, name)
        if fixed is not None and not equal("FlowSchemaSpec", spec, fixed):
            shown = go_struct("FlowSchemaSpec", spec)
            yield invalid("spec", shown, f"spec of '{name}' must equal the fixed value")
    yield from validate_flow_conditions(new)


def validate_flow_conditions(new: Document) -> Errors:
    """Yield what is wrong with the conditions of a schema or a level: each type once."""
    seen = set()
    for i, condition in enumerate((new.get("status") or {}).get("conditions") or ()):
        kind = condition.get("type") or ""
        if kind in seen:
            yield duplicate(f"status.conditions[{i}].type", Enum(kind))
        seen.add(kind)
        if not kind:
            yield required(f"status.conditions[{i}].type")


def _validate_spec(spec: Document, name: str) -> Errors:
    precedence, at = spec.get("matchingPrecedence") or 0, "spec.matchingPrecedence"
    if precedence <= 0:
        yield invalid(at, precedence, "must be a positive value")
    if precedence > HIGHEST_PRECEDENCE:
        yield invalid(at, precedence, f"must not be greater than {HIGHEST_PRECEDENCE}")
    if precedence == 1 and name != flow_control.EXEMPT:
        yield invalid(at, precedence, "only the schema named 'exempt' may have matchingPrecedence 1")
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in _METHODS:
        shown = go_struct("FlowDistinguisherMethod", method)
        yield not_supported("spec.distinguisherMethod.type", shown, _METHODS)
    level = (spec.get("priorityLevelConfiguration") or {}).get("name") or ""
    if level:
        yield from each_invalid("spec.priorityLevelConfiguration.name", level, check_dns1123_subdomain(level))
    else:
        yield required("spec.priorityLevelConfiguration.name", "must reference a priority level")
    for i, rule in enumerate(spec.get("rules") or ()):
        yield from _validate_rule(rule, f"spec.rules[{i}]")


def _validate_rule(rule: Document, at: str) -> Errors:
    for i, subject in enumerate(rule.get("subjects") or ()):
        yield from _validate_subject(subject, f"{at}.subjects[{i}]")
    if not rule.get("subjects"):
        yield required(f"{at}.subjects", "subjects must contain at least one value")
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        yield required(at, "at least one of resourceRules and nonResourceRules has to be non-empty")
    for i, resources in enumerate(rule.get("resourceRules") or ()):
        yield from _validate_resources(resources, f"{at}.resourceRules[{i}]")
    for i, urls in enumerate(rule.get("nonResourceRules") or ()):
        yield from _validate_urls(urls, f"{at}.nonResourceRules[{i}]")


def _validate_subject(subject: Document, at: str) -> Errors:
    kind = subject.get("kind") or ""
    if kind not in _SUBJECTS:
        yield not_supported(f"{at}.kind", kind, _SUBJECTS)
        return
    field = _SUBJECTS[kind]
    found = subject.get(field)
    if found is None:
        yield required(f"{at}.{field}", f"{field} is required when subject kind is '{kind}'")
    else:
        yield from _validate_named(found, f"{at}.{field}", account=kind == "ServiceAccount")
    for other in _OTHERS[kind]:
        if subject.get(other) is not None:
            detail = f"{other} is forbidden when subject kind is not '{other[0].upper() + other[1:]}'"
            yield forbidden(f"{at}.{other}", detail)


def _validate_named(found: Document, at: str, *, account: bool) -> Errors:
    name = found.get("name") or ""
    if not name:
        yield required(f"{at}.name")
    elif account and name != "*":
        yield from each_invalid(f"{at}.name", name, check_dns1123_subdomain(name))
    if account:
        namespace = found.get("namespace") or ""
        if namespace:
            yield from each_invalid(f"{at}.namespace", namespace, check_dns1123_label(namespace))
        else:
            yield required(f"{at}.namespace", "must specify namespace for service account")


def _validate_verbs(verbs: list[str], at: str) -> Errors:
    if not verbs:
        yield required(f"{at}.verbs", "verbs must contain at least one value")
    elif "*" in verbs:
        yield from _validate_alone(verbs, f"{at}.verbs", "verbs")
    elif not set(verbs) <= set(_VERBS):
        yield not_supported(f"{at}.verbs", verbs, _VERBS)


def _validate_alone(values: list[str], at: str, what: str) -> Errors:
    """Yield that a star stands beside something else."""
    if "*" in values and len(values) > 1:
        yield invalid(at, values, f"if '*' is present, must not specify other {what}")


def _validate_resources(rule: Document, at: str) -> Errors:
    yield from _validate_verbs(rule.get("verbs") or [], at)
    for field, one, many in (
        ("apiGroups", "api group", "api groups"),
        ("resources", "resource", "resources"),
    ):
        values = rule.get(field) or []
        if not values:
            yield required(f"{at}.{field}", f"resource rules must supply at least one {one}")
        yield from _validate_alone(values, f"{at}.{field}", many)
    namespaces = rule.get("namespaces") or []
    if not namespaces and not rule.get("clusterScope"):
        detail = "resource rules that are not cluster scoped must supply at least one namespace"
        yield required(f"{at}.namespaces", detail)
    elif "*" in namespaces:
        yield from _validate_alone(namespaces, f"{at}.namespaces", "namespaces")
    else:
        for i, namespace in enumerate(namespaces):
            problems = (_NAMESPACES + problem for problem in check_dns1123_label(namespace))
            yield from each_invalid(f"{at}.namespaces[{i}]", namespace, problems)


def _validate_urls(rule: Document, at: str) -> Errors:
    yield from _validate_verbs(rule.get("verbs") or [], at)
    urls = rule.get("nonResourceURLs") or []
    if not urls:
        yield required(f"{at}.nonResourceURLs", "nonResourceURLs must contain at least one value")
    elif "*" in urls:
        yield from _validate_alone(urls, f"{at}.nonResourceURLs", "non-resource URLs")
    else:
        for i, url in enumerate(urls):
            if problem := _url_problem(url):
                yield invalid(f"{at}.nonResourceURLs[{i}]", url, problem)


def _url_problem(url: str) -> str:
    if not url:
        return "must not be empty"
    if not url.startswith("/"):
        return "must start with slash"
    if " " in url:
        return "must not contain white-space"
    if "//" in url:
        return "must not contain double slash"
    stars = url.count("*")
    return "wildcard can only do suffix matching" if stars > 1 or (stars and not url.endswith("/*")) else ""
