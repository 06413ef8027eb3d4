"""Validation of webhook configurations and of match conditions.

Spec: upstream's rules of admissionregistration.k8s.io/v1; cel.md 9.1 (`matchConditions`). An expression whose result
is of unknown type is rejected where one type is required.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from weir.caches import bounded
from weir.compat.policies.expressions import Expression, environment
from weir.compat.policies.validating import CONDITION
from weir.fields import field
from weir.fields.field import Context, Document, Errors
from weir.fields.meta import validate_generic_meta
from weir.fields.webhook_client import validate_client_service, validate_client_url
from weir.validate.selectors import validate_label_selector
from weir.values.names import check_dns1035_label, check_dns1123_subdomain, check_label_key
from weir.values.quoting import quote


def validate_expression(expression: str, at: str, *, params: bool = False) -> Errors:
    """Yield why an expression is no match condition."""
    yield from refusals(_compiled(expression, params), at)


@bounded(most=100, longest=4096)
def _compiled(expression: str, params: bool) -> Expression:
    """Compile a condition once: a webhook's stay the same, and are looked at again whenever it is written."""
    return Expression(expression, environment(params), CONDITION)


def refusals(expression: Expression, at: str, shown: str | None = None) -> Errors:
    """Yield why a compiled expression cannot be used; *shown* is how the field has it."""
    refused = expression.refused
    if refused is None:
        return
    if refused.internal:
        yield field.internal(at, refused.detail)
    else:
        yield field.invalid(at, expression.text if shown is None else shown, refused.detail)


_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES: Final = ("*", "Cluster", "Namespaced")
_EFFECTS: Final = ("None", "NoneOnDryRun")
_MATCH: Final = ("Equivalent", "Exact")
_FAILURE: Final = ("Fail", "Ignore")
MOST_CONDITIONS: Final = 64
_REVIEWS: Final = ("v1", "v1beta1")
_STATIC: Final = ".static.k8s.io"


def validate_validating_webhook_configuration(
    new: Document, old: Document | None, context: Context
) -> Errors:
    """Yield what is wrong with a validating or mutating webhook configuration."""
    yield from validate_generic_meta(new, old, context)
    names: set[str] = set()
    for i, hook in enumerate(new.get("webhooks") or ()):
        name = hook.get("name") or ""
        yield from _validate_webhook(hook, f"webhooks[{i}]")
        yield from field.unique(name, names, f"webhooks[{i}].name")
    yield from validate_static_name(new, old)


validate_mutating_webhook_configuration = validate_validating_webhook_configuration


def _validate_webhook(hook: Document, at: str) -> Errors:
    name = hook.get("name") or ""
    yield from _validate_qualified(name, f"{at}.name")
    yield from field.each(validate_rule, hook.get("rules"), f"{at}.rules")
    for member, allowed in (("failurePolicy", _FAILURE), ("matchPolicy", _MATCH), ("sideEffects", _EFFECTS)):
        value = hook.get(member)
        yield from field.one_of(f"{at}.{member}", value, allowed)
    if hook.get("sideEffects") is None:
        yield field.required(f"{at}.sideEffects", "must specify one of None, NoneOnDryRun")
    seconds = hook.get("timeoutSeconds")
    yield from field.in_range(
        f"{at}.timeoutSeconds", seconds, 1, 30, "the timeout value must be between 1 and 30 seconds"
    )
    yield from field.one_of(f"{at}.reinvocationPolicy", hook.get("reinvocationPolicy"), ("IfNeeded", "Never"))
    for member in ("namespaceSelector", "objectSelector"):
        yield from validate_label_selector(hook.get(member), f"{at}.{member}")
    yield from validate_match_conditions(hook.get("matchConditions") or (), f"{at}.matchConditions")
    yield from _validate_client(hook.get("clientConfig") or {}, f"{at}.clientConfig")
    yield from _validate_versions(hook.get("admissionReviewVersions") or [], f"{at}.admissionReviewVersions")


def validate_match_conditions(conditions: Sequence[Document], at: str, *, params: bool = False) -> Errors:
    """Yield what is wrong with match conditions, of webhooks and of policies (which may have *params*)."""
    names: set[str] = set()
    yield from field.at_most(at, conditions, MOST_CONDITIONS)
    yield from field.each(_validate_condition, conditions, at, names, params)


def _validate_condition(condition: Document, at: str, names: set[str], params: bool) -> Errors:
    name = condition.get("name") or ""
    expression = (condition.get("expression") or "").strip()
    if not expression:
        yield field.required(f"{at}.expression")
    else:
        yield from validate_expression(expression, f"{at}.expression", params=params)
    if not name:
        yield field.required(f"{at}.name")
        return
    yield from field.each_invalid(f"{at}.name", name, check_label_key(name))
    yield from field.unique(name, names, f"{at}.name")


def _validate_qualified(name: str, at: str) -> Errors:
    if not name:
        yield field.required(at)
        return
    messages = check_dns1123_subdomain(name)
    yield from field.each_invalid(at, name, messages)
    if not messages and name.count(".") < 2:
        yield field.invalid(at, name, "should be a domain with at least three segments separated by dots")


def _validate_versions(versions: list[str], at: str) -> Errors:
    if not versions:
        yield field.required(at, "must specify one of v1, v1beta1")
        return
    seen: set[str] = set()
    for i, version in enumerate(versions):
        if version in seen:
            yield field.invalid(f"{at}[{i}]", version, "duplicate version")
        seen.add(version)
        yield from field.each_invalid(f"{at}[{i}]", version, check_dns1035_label(version))
    if not seen & {*_REVIEWS}:
        yield field.invalid(at, versions, f"must include at least one of {', '.join(_REVIEWS)}")


def validate_rule(rule: Document, at: str) -> Errors:
    """Yield what is wrong with a rule of a webhook or policy."""
    for member in ("operations", "apiGroups", "apiVersions", "resources"):
        values: list[str] = rule.get(member) or []
        yield from field.present(f"{at}.{member}", values)
        if len(values) > 1 and "*" in values and member != "resources":
            detail = "if '*' is present, must not specify other " + _plural(member)
            yield field.invalid(f"{at}.{member}", values, detail)
        if member == "apiVersions" or member == "resources":
            for i, value in enumerate(values):
                yield from field.present(f"{at}.{member}[{i}]", value)
        elif member == "operations":
            for i, value in enumerate(values):
                if value not in _OPERATIONS:
                    yield field.not_supported(f"{at}.{member}[{i}]", value, _OPERATIONS)
        if member == "resources":
            yield from _validate_resources(values, f"{at}.{member}")
    yield from field.one_of(f"{at}.scope", rule.get("scope"), _SCOPES)


def _validate_resources(values: list[str], at: str) -> Errors:
    """Yield resources that one before them in the list already covers."""
    whole: set[str] = set()  # of which every subresource is named
    every: set[str] = set()  # subresources named of every resource
    plain = False  # whether the last one without a subresource is a name, as upstream has it
    for i, value in enumerate(values):
        resource, slash, sub = value.partition("/")
        if not slash:
            plain = value != "*" if value else plain
            continue
        if resource in whole:
            yield field.invalid(
                f"{at}[{i}]", value, f"if '{resource}/*' is present, must not specify {value}"
            )
        if sub in every:
            yield field.invalid(f"{at}[{i}]", value, f"if '*/{sub}' is present, must not specify {value}")
        if sub == "*":
            whole.add(resource)
        if resource == "*":
            every.add(sub)
    if len(values) > 1 and "*/*" in values:
        yield field.invalid(at, values, "if '*/*' is present, must not specify other resources")
    if "*" in values and plain:
        detail = "if '*' is present, must not specify other resources without subresources"
        yield field.invalid(at, values, detail)


def validate_static_name(new: Document, old: Document | None) -> Errors:
    """Yield that a new object has a name that is kept for configurations in files."""
    name = (new.get("metadata") or {}).get("name") or ""
    if old is None and name.endswith(_STATIC):
        detail = (
            f"names ending with {quote(_STATIC)} are reserved for static manifest-based configurations and cannot "
            "be managed via the API"
        )
        yield field.invalid("metadata.name", name, detail)


def _plural(member: str) -> str:
    return {"apiGroups": "API groups", "apiVersions": "API versions"}.get(member, member)


def _validate_client(client: Document, at: str) -> Errors:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        yield field.required(at, "exactly one of url or service is required")
        return
    if url is not None:
        yield from validate_client_url(url, f"{at}.url")
    if service is not None:
        yield from validate_client_service(service, f"{at}.service")
