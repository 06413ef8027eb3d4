"""Validation of webhook configurations, validating and mutating.

Spec: upstream's rules of admissionregistration.k8s.io/v1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from weir.validate.admissionregistration.match_conditions import validate_expression
from weir.validate.field import (
    Context,
    Document,
    Errors,
    duplicate,
    each_invalid,
    invalid,
    not_supported,
    required,
    too_many,
)
from weir.validate.label_selector import validate_label_selector
from weir.validate.meta import validate_generic_meta
from weir.values.names import check_dns1035_label, check_dns1123_subdomain, check_label_key
from weir.values.quoting import quote

_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES: Final = ("*", "Cluster", "Namespaced")
_EFFECTS: Final = ("None", "NoneOnDryRun")
_MATCH: Final = ("Equivalent", "Exact")
_FAILURE: Final = ("Fail", "Ignore")
MOST_CONDITIONS: Final = 64
_REVIEWS: Final = ("v1", "v1beta1")
_STATIC: Final = ".static.k8s.io"
_URL: Final = "; desired format: https://host[/path]"


def validate_validating_webhook_configuration(
    new: Document, old: Document | None, context: Context
) -> Errors:
    """Yield what is wrong with a validating or mutating webhook configuration."""
    yield from validate_generic_meta(new, old, context)
    names: set[str] = set()
    for i, hook in enumerate(new.get("webhooks") or ()):
        name = hook.get("name") or ""
        yield from _validate_webhook(hook, f"webhooks[{i}]")
        if name in names:
            yield duplicate(f"webhooks[{i}].name", name)
        names.add(name)
    yield from validate_static_name(new, old)


validate_mutating_webhook_configuration = validate_validating_webhook_configuration


def _validate_webhook(hook: Document, at: str) -> Errors:
    name = hook.get("name") or ""
    yield from _validate_qualified(name, f"{at}.name")
    for r, rule in enumerate(hook.get("rules") or ()):
        yield from validate_rule(rule, f"{at}.rules[{r}]")
    for field, allowed in (("failurePolicy", _FAILURE), ("matchPolicy", _MATCH), ("sideEffects", _EFFECTS)):
        value = hook.get(field)
        if value is not None and value not in allowed:
            yield not_supported(f"{at}.{field}", value, allowed)
    if hook.get("sideEffects") is None:
        yield required(f"{at}.sideEffects", "must specify one of None, NoneOnDryRun")
    seconds = hook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        detail = "the timeout value must be between 1 and 30 seconds"
        yield invalid(f"{at}.timeoutSeconds", seconds, detail)
    policy = hook.get("reinvocationPolicy")
    if policy is not None and policy not in ("IfNeeded", "Never"):
        yield not_supported(f"{at}.reinvocationPolicy", policy, ("IfNeeded", "Never"))
    for field in ("namespaceSelector", "objectSelector"):
        yield from validate_label_selector(hook.get(field), f"{at}.{field}")
    yield from validate_match_conditions(hook.get("matchConditions") or (), f"{at}.matchConditions")
    yield from _validate_client(hook.get("clientConfig") or {}, f"{at}.clientConfig")
    yield from _validate_versions(hook.get("admissionReviewVersions") or [], f"{at}.admissionReviewVersions")


def validate_match_conditions(conditions: Sequence[Document], at: str, *, params: bool = False) -> Errors:
    """Yield what is wrong with match conditions, of webhooks and of policies (which may have *params*)."""
    names: set[str] = set()
    if len(conditions) > MOST_CONDITIONS:
        yield too_many(at, len(conditions), MOST_CONDITIONS)
    for i, condition in enumerate(conditions):
        yield from _validate_condition(condition, f"{at}[{i}]", names, params)


def _validate_condition(condition: Document, at: str, names: set[str], params: bool) -> Errors:
    name = condition.get("name") or ""
    expression = (condition.get("expression") or "").strip()
    if not expression:
        yield required(f"{at}.expression")
    else:
        yield from validate_expression(expression, f"{at}.expression", params=params)
    if not name:
        yield required(f"{at}.name")
        return
    yield from each_invalid(f"{at}.name", name, check_label_key(name))
    if name in names:
        yield duplicate(f"{at}.name", name)
    names.add(name)


def _validate_qualified(name: str, at: str) -> Errors:
    if not name:
        yield required(at)
        return
    messages = check_dns1123_subdomain(name)
    yield from each_invalid(at, name, messages)
    if not messages and name.count(".") < 2:
        yield invalid(at, name, "should be a domain with at least three segments separated by dots")


def _validate_versions(versions: list[str], at: str) -> Errors:
    if not versions:
        yield required(at, "must specify one of v1, v1beta1")
        return
    seen: set[str] = set()
    for i, version in enumerate(versions):
        if version in seen:
            yield invalid(f"{at}[{i}]", version, "duplicate version")
        seen.add(version)
        yield from each_invalid(f"{at}[{i}]", version, check_dns1035_label(version))
    if not seen & {*_REVIEWS}:
        yield invalid(at, versions, f"must include at least one of {', '.join(_REVIEWS)}")


def validate_rule(rule: Document, at: str) -> Errors:
    """Yield what is wrong with a rule of a webhook or policy."""
    for field in ("operations", "apiGroups", "apiVersions", "resources"):
        values: list[str] = rule.get(field) or []
        if not values:
            yield required(f"{at}.{field}")
        if len(values) > 1 and "*" in values and field != "resources":
            detail = "if '*' is present, must not specify other " + _plural(field)
            yield invalid(f"{at}.{field}", values, detail)
        if field == "apiVersions" or field == "resources":
            for i, value in enumerate(values):
                if not value:
                    yield required(f"{at}.{field}[{i}]")
        elif field == "operations":
            for i, value in enumerate(values):
                if value not in _OPERATIONS:
                    yield not_supported(f"{at}.{field}[{i}]", value, _OPERATIONS)
        if field == "resources":
            yield from _validate_resources(values, f"{at}.{field}")
    scope = rule.get("scope")
    if scope is not None and scope not in _SCOPES:
        yield not_supported(f"{at}.scope", scope, _SCOPES)


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
            yield invalid(f"{at}[{i}]", value, f"if '{resource}/*' is present, must not specify {value}")
        if sub in every:
            yield invalid(f"{at}[{i}]", value, f"if '*/{sub}' is present, must not specify {value}")
        if sub == "*":
            whole.add(resource)
        if resource == "*":
            every.add(sub)
    if len(values) > 1 and "*/*" in values:
        yield invalid(at, values, "if '*/*' is present, must not specify other resources")
    if "*" in values and plain:
        detail = "if '*' is present, must not specify other resources without subresources"
        yield invalid(at, values, detail)


def validate_static_name(new: Document, old: Document | None) -> Errors:
    """Yield that a new object has a name that is kept for configurations in files."""
    name = (new.get("metadata") or {}).get("name") or ""
    if old is None and name.endswith(_STATIC):
        detail = (
            f"names ending with {quote(_STATIC)} are reserved for static manifest-based configurations and cannot "
            "be managed via the API"
        )
        yield invalid("metadata.name", name, detail)


def _plural(field: str) -> str:
    return {"apiGroups": "API groups", "apiVersions": "API versions"}.get(field, field)


def _validate_client(client: Document, at: str) -> Errors:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        yield required(at, "exactly one of url or service is required")
        return
    if url is not None:
        yield from validate_client_url(url, f"{at}.url")
    if service is not None:
        yield from validate_client_service(service, f"{at}.service")


def validate_client_service(service: Document, at: str) -> Errors:
    """Yield what is wrong with the Service that a webhook is called through."""
    # Upstream reports each of the two on the other's path.
    for field, reported in (("namespace", "name"), ("name", "namespace")):
        if not service.get(field):
            yield required(f"{at}.{reported}")
    port = service.get("port")
    if port is not None and not 1 <= port <= 65535:
        yield invalid(f"{at}.port", port, "port is not valid: must be between 1 and 65535, inclusive")
    if (path := service.get("path")) is not None:
        yield from _validate_path(path, f"{at}.path")


def _validate_path(path: str, at: str) -> Errors:
    """Yield what is wrong with where a service is called."""
    if not path.startswith("/"):
        yield invalid(at, path, "must start with a '/'")
    if path == "/":
        return
    segments = path[1:].removesuffix("/").split("/") if path.startswith("/") else path[1:].split("/")
    for i, segment in enumerate(segments):
        if not segment:
            yield invalid(at, path, f"segment[{i}] may not be empty")
            continue
        for message in check_dns1123_subdomain(segment):
            yield invalid(at, path, f"segment[{i}]: {message}")


def validate_client_url(url: str, at: str) -> Errors:
    """Yield what is wrong with the URL that a webhook is called at."""
    try:
        parts: Any = urlsplit(url)
        port = parts.netloc.rpartition("@")[2].rpartition("]")[2].partition(":")[2]
        if port and not (port.isascii() and port.isdigit()):
            raise ValueError(f"parse {quote(url)}: invalid port {quote(':' + port)} after host")
    except ValueError as error:
        yield required(at, f"url must be a valid URL: {error}{_URL}")
        return
    if parts.scheme != "https":
        yield invalid(at, parts.scheme, "'https' is the only allowed URL scheme" + _URL)
    if not parts.netloc:
        yield invalid(at, "", "host must be specified" + _URL)
    if parts.username is not None:
        shown = parts.netloc.rpartition("@")[0]
        yield invalid(at, shown, "user information is not permitted in the URL")
    if parts.fragment:
        yield invalid(at, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield invalid(at, parts.query, "query parameters are not permitted in the URL")
