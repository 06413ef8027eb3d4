"""Validation of resource names, amounts, and requests and limits.

Spec: apiserver.md 13 (`resources.requests`, `resources[foo]`, extended resources); pods, templates, nodes, volumes
and quotas share the rules for names and amounts. Shared by pods, templates, nodes, volumes and quotas. An unknown
plain name gives two errors; resources that cannot be overcommitted (extended, huge pages) need a limit equal to the
request.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from weir.fields import field
from weir.fields.field import Document, Enum, Errors
from weir.fields.field import duplicate as duplicate_value
from weir.objects.pod_resources import container_totals, is_extended_resource, is_native
from weir.validate.numbers import NOT_NEGATIVE
from weir.values.names import check_dns1123_label, check_label_key
from weir.values.quantity import Quantity, parse_quantity

HUGE_PAGES: Final = "hugepages-"
_CONTAINER: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
#: Counted things: their amounts have no fraction.
_COUNTED: Final = frozenset(
    {
        "pods",
        "resourcequotas",
        "services",
        "services.nodeports",
        "services.loadbalancers",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
    }
)
_QUOTA_ONLY: Final = _COUNTED | {
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "requests.storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "storage",
}


def amount(value: Any) -> Quantity:
    """Return the amount of a quantity field; files may hold a bare number."""
    return parse_quantity(value if type(value) is str else str(value))


#: The scheduler's and the kubelet's name for it.
is_extended: Final = is_extended_resource


def _may_overcommit(name: str) -> bool:
    return is_native(name) and not name.startswith(HUGE_PAGES)


def is_standard(name: str) -> bool:
    """Return whether a plain name is one that some resource list knows."""
    return (
        name in _CONTAINER or name in _QUOTA_ONLY or name.startswith((HUGE_PAGES, "requests." + HUGE_PAGES))
    )


def validate_resource_name(name: str, at: str) -> Errors:
    """Yield what is wrong with the name of a resource, wherever it is used."""
    if messages := check_label_key(name):
        yield from field.each_invalid(at, name, messages)
    elif "/" not in name and not is_standard(name):
        yield field.invalid(at, name, "must be a standard resource type or fully qualified")


def validate_container_resource_name(name: str, at: str) -> Errors:
    """Yield errors in the name of a resource that a container requests."""
    yield from validate_resource_name(name, at)
    yield from validate_container_only(name, at)


def validate_container_only(name: str, at: str) -> Errors:
    """Yield an error for a resource that containers cannot request."""
    if "/" not in name:
        if name not in _CONTAINER and not name.startswith(HUGE_PAGES):
            yield field.invalid(at, name, "must be a standard resource for containers")
    elif not is_native(name) and not is_extended_resource(name):
        yield field.invalid(at, name, "doesn't follow extended resource name standard")


def validate_amount(name: str, value: Any, at: str) -> Errors:
    """Yield what is wrong with the amount of a resource."""
    quantity = amount(value)
    if quantity.sign < 0:
        yield field.invalid(at, str(quantity), NOT_NEGATIVE)
    if (name in _COUNTED or is_extended_resource(name)) and quantity.milli_value % 1000:
        yield field.invalid(at, Enum(str(quantity)), "must be an integer")


def validate_container_resources(resources: Document, claim_names: Collection[str], at: str) -> Errors:
    """Yield what is wrong with the requests, limits and claims of a container."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name in sorted(limits):
        yield from _validate_entry(name, limits[name], f"{at}.limits")
    for name in sorted(requests):
        yield from _validate_entry(name, requests[name], f"{at}.requests")
        yield from _validate_against_limit(name, requests[name], limits, at)
    names = {*limits, *requests}
    if any(name.startswith(HUGE_PAGES) for name in names) and names.isdisjoint(("cpu", "memory")):
        yield field.forbidden(at, "HugePages require cpu or memory")
    if claims := resources.get("claims"):
        yield from _validate_claims(claims, claim_names, f"{at}.claims")


def validate_pod_resources(spec: Document, at: str) -> Errors:
    """Yield what is wrong with resources of the whole pod: only basic ones, no claims, enough for its containers."""
    resources = spec["resources"]
    if (spec.get("os") or {}).get("name") == "windows":
        yield field.forbidden(at, "may not be set for a windows pod")
        return
    if resources.get("claims"):
        yield field.forbidden(f"{at}.claims", "claims may not be set for Resources at pod-level")
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name in sorted(amounts):
            if name not in ("cpu", "memory") and not name.startswith(HUGE_PAGES):
                yield field.not_supported(f"{at}.{part}[{name}]", name, ("cpu", HUGE_PAGES, "memory"))
            else:
                yield from _validate_entry(name, amounts[name], f"{at}.{part}")
    for name in sorted(requests):
        yield from _validate_against_limit(name, requests[name], limits, at)
    asked = container_totals(spec, "requests")
    for name in sorted(asked):
        if name in requests and amount(requests[name]) < asked[name]:
            detail = f"must be greater than or equal to aggregate container requests of {asked[name]}"
            yield field.invalid(f"{at}.requests[{name}]", str(amount(requests[name])), detail)
    most = container_totals(spec, "limits")
    for name in sorted(most):
        if name.startswith(HUGE_PAGES) and name in limits and amount(limits[name]) < most[name]:
            detail = f"must be greater than or equal to aggregate container limits of {most[name]}"
            yield field.invalid(f"{at}.limits[{name}]", str(amount(limits[name])), detail)
    for i, container in enumerate(spec.get("containers") or ()):
        own = (container.get("resources") or {}).get("limits") or {}
        for name in sorted(own):
            if name in limits and amount(limits[name]) < amount(own[name]):
                detail = f"must be less than or equal to pod limits of {amount(limits[name])}"
                yield field.invalid(f"{at}.containers[{i}][{name}].limits", str(amount(own[name])), detail)


def _validate_entry(name: str, value: Any, at: str) -> Errors:
    if name in _CONTAINER:
        if amount(value).sign < 0:
            yield field.invalid(f"{at}[{name}]", str(amount(value)), NOT_NEGATIVE)
        return
    yield from validate_container_resource_name(name, f"{at}[{name}]")
    yield from validate_amount(name, value, f"{at}[{name}]")


def _validate_against_limit(name: str, value: Any, limits: Document, at: str) -> Errors:
    if name not in limits:
        if not _may_overcommit(name):
            yield field.required(f"{at}.limits", "Limit must be set for non overcommitable resources")
        return
    if value == limits[name]:
        return
    request, limit = amount(value), amount(limits[name])
    if not _may_overcommit(name):
        if request != limit:
            yield field.invalid(f"{at}.requests", str(request), f"must be equal to {name} limit of {limit}")
    elif limit < request:
        yield field.invalid(
            f"{at}.requests", str(request), f"must be less than or equal to {name} limit of {limit}"
        )


def _validate_claims(claims: list[Document], claim_names: Collection[str], at: str) -> Errors:
    seen: set[tuple[str, str]] = set()
    names: set[str] = set()
    for i, claim in enumerate(claims):
        name, request = claim.get("name") or "", claim.get("request") or ""
        if not name:
            yield field.required(f"{at}[{i}]")
            continue
        # The whole claim and one request of it are the same claim twice.
        if (name, request) in seen or (name, "") in seen or (not request and name in names):
            whole = not request or (name, "") in seen
            yield duplicate_value(f"{at}[{i}]", name if whole else f"{name}/{request}")
        seen.add((name, request))
        names.add(name)
        yield from field.well_formed(f"{at}[{i}].request", request or None, check_dns1123_label)
        if name not in claim_names:
            known = f": {', '.join(sorted(claim_names))}" if claim_names else " which is empty"
            yield field.not_found(
                f"{at}[{i}]", name, f"must be one of the names in pod.spec.resourceClaims{known}"
            )
