"""Validation of kinds whose group has little of its own: APIService, Lease, EndpointSlice, RuntimeClass and others.

Spec: apiserver.md 13 (Lease, PriorityClass); core.md 2.7 (RuntimeClass: its tolerations never take gated operators);
upstream's rules for the other kinds.
"""

from __future__ import annotations

import base64
import re
from functools import partial
from typing import Any, Final

from weir.compat.customresources.definition_rules import validate_definition
from weir.fields import field
from weir.fields.addresses import check_ip, check_usable_ip, find_ip
from weir.fields.field import Context, Document, Enum, Errors, invalid, required
from weir.fields.meta import (
    IMMUTABLE,
    validate_generic_meta,
    validate_labels,
    validate_meta,
    validate_object_meta,
    validate_object_meta_update,
)
from weir.validate.conditions import validate_conditions
from weir.validate.core.resources import validate_container_resources
from weir.validate.core.service import PROTOCOLS
from weir.validate.core.tolerations import validate_tolerations
from weir.validate.gonames import go_struct
from weir.validate.numbers import validate_at_most_all, validate_int_or_percent, validate_not_negative
from weir.validate.ratchet import CLOSED
from weir.validate.selectors import selector_json, validate_label_selector
from weir.values.names import (
    Messages,
    check_dns1035_label,
    check_dns1123_label,
    check_dns1123_subdomain,
    check_label_key,
    check_label_value,
    check_path_segment,
)
from weir.values.quoting import quote

# ── apiextensions.k8s.io ────────────────────────────────────────────────────────────────────────────


validate_custom_resource_definition = validate_definition


# ── apiregistration.k8s.io ──────────────────────────────────────────────────────────────────────────


_STATUSES: Final = ("True", "False", "Unknown")
_GROUP_MAX, _VERSION_MAX = 20_000, 1_000


def validate_api_service(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with an APIService, or with its status."""
    metadata = new.get("metadata") or {}
    if old is not None:
        yield from validate_object_meta_update(metadata, old.get("metadata") or {})
        if context.subresource == "status":
            for i, one in enumerate((new.get("status") or {}).get("conditions") or ()):
                if one.get("status") not in _STATUSES:
                    yield field.not_supported(
                        f"status.conditions[{i}].status", one.get("status") or "", _STATUSES
                    )
            return
    spec = new.get("spec") or {}
    group, version = spec.get("group") or "", spec.get("version") or ""
    yield from validate_object_meta(metadata, context, partial(_check_name, f"{version}.{group}"))
    if not group and version != "v1":
        yield field.required("spec.group", "only v1 may have an empty group and it better be legacy kube")
    yield from field.well_formed("spec.group", group or None, check_dns1123_subdomain)
    yield from field.each_invalid("spec.version", version, check_dns1035_label(version))
    for name, most in (("groupPriorityMinimum", _GROUP_MAX), ("versionPriority", _VERSION_MAX)):
        value = spec.get(name) or 0
        if not 0 < value <= most:
            yield field.invalid(f"spec.{name}", value, f"must be positive and less than {most}")
    yield from _validate_remote(spec)


def _check_name(wanted: str, name: str) -> Messages:
    if messages := check_path_segment(name):
        return messages
    return () if name == wanted else (f'must be `spec.version+"."+spec.group`: {quote(wanted)}',)


def _validate_remote(spec: Document) -> Errors:
    service, bundle = spec.get("service"), spec.get("caBundle") or ""
    insecure = bool(spec.get("insecureSkipTLSVerify"))
    if service is None:
        if bundle:
            shown = f"{len(base64.b64decode(bundle))} bytes"
            yield field.invalid("spec.caBundle", shown, "local APIServices may not have a caBundle")
        if insecure:
            detail = "local APIServices may not have insecureSkipTLSVerify"
            yield field.invalid("spec.insecureSkipTLSVerify", True, detail)
        return
    for name in ("namespace", "name"):
        yield from field.present(f"spec.service.{name}", service.get(name))
    port = service.get("port") or 0
    yield from field.in_range(
        "spec.service.port", port, 1, 65535, "port is not valid: must be between 1 and 65535, inclusive"
    )
    if insecure and bundle:
        yield field.invalid("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present")


# ── coordination.k8s.io ─────────────────────────────────────────────────────────────────────────────


def validate_lease(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a Lease."""
    yield from validate_generic_meta(new, old, context)
    spec = new.get("spec") or {}
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    yield from field.at_least("spec.leaseDurationSeconds", seconds, 1, "must be greater than 0")
    yield from field.at_least("spec.leaseTransitions", transitions, 0, "must be greater than or equal to 0")


# ── discovery.k8s.io ────────────────────────────────────────────────────────────────────────────────


_ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")


def validate_endpoint_slice(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with an EndpointSlice; its address type never changes."""
    yield from validate_meta(new, old, context)
    kind, endpoints = new.get("addressType") or "", new.get("endpoints") or []
    yield from field.required_one_of("addressType", kind, _ADDRESS_TYPES)
    yield from field.at_most("endpoints", endpoints, 1000)
    for i, endpoint in enumerate(endpoints):
        # The type cannot change, so what is wrong with a new one is not also wrong with every address.
        yield from _validate_endpoint(endpoint, (old or new).get("addressType") or "", f"endpoints[{i}]")
    ports: list[Any] = new.get("ports") or []
    names: set[str] = set()
    for i, port in enumerate(ports):
        name = port.get("name") or ""
        yield from field.well_formed(f"ports[{i}].name", name or None, check_dns1123_label)
        yield from field.unique(name, names, f"ports[{i}].name")
        yield from field.one_of(f"ports[{i}].protocol", port.get("protocol") or "TCP", PROTOCOLS)
        yield from field.well_formed(f"ports[{i}].appProtocol", port.get("appProtocol"), check_label_key)
    if old is not None and kind != (old.get("addressType") or ""):
        yield field.invalid("addressType", None, IMMUTABLE)


def _validate_endpoint(endpoint: Document, kind: str, at: str) -> Errors:
    addresses = endpoint.get("addresses") or []
    if not addresses:
        yield field.required(f"{at}.addresses")
    elif len(addresses) > 100:
        yield field.too_many(f"{at}.addresses", len(addresses), 100)
    for a, address in enumerate(addresses):
        found = find_ip(address)
        if kind == "FQDN":
            yield from field.each_invalid(f"{at}.addresses[{a}]", address, check_dns1123_subdomain(address))
        elif found is None:
            yield from field.each_invalid(f"{at}.addresses[{a}]", address, check_ip(address))
        else:
            if kind in ("IPv4", "IPv6") and f"IPv{found.version}" != kind:
                yield field.invalid(f"{at}.addresses", address, f"must be an {kind} address")
            yield from field.each_invalid(f"{at}.addresses[{a}]", address, check_usable_ip(address))
    yield from field.well_formed(f"{at}.nodeName", endpoint.get("nodeName"), check_dns1123_subdomain)
    topology = endpoint.get("deprecatedTopology")
    if topology:
        yield from validate_labels(topology, f"{at}.deprecatedTopology")
    yield from _validate_hints(endpoint.get("hints") or {}, f"{at}.hints")
    yield from field.well_formed(f"{at}.hostname", endpoint.get("hostname"), check_dns1123_label)


def _validate_hints(hints: Document, at: str) -> Errors:
    """Yield what is wrong with where the traffic of an endpoint should come from."""
    for part, most, check in (
        ("forZones", 8, check_label_value),
        ("forNodes", 8, check_dns1123_subdomain),
    ):
        wanted = hints.get(part) or []
        if len(wanted) > most:
            yield field.too_many(f"{at}.{part}", len(wanted), most)
            continue
        names: set[str] = set()
        for i, hint in enumerate(wanted):
            name = hint.get("name") or ""
            yield from field.unique(name, names, f"{at}.{part}[{i}].name")
            yield from field.each_invalid(f"{at}.{part}[{i}].name", name, check(name))


# ── node.k8s.io ─────────────────────────────────────────────────────────────────────────────────────


def validate_runtime_class(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a RuntimeClass; its handler never changes."""
    yield from validate_generic_meta(new, old, context)
    handler = new.get("handler") or ""
    overhead = (new.get("overhead") or {}).get("podFixed") or {}
    yield from validate_container_resources({"limits": overhead}, (), "overhead")
    scheduling = new.get("scheduling") or {}
    if selector := scheduling.get("nodeSelector"):
        yield from validate_labels(selector, "scheduling.nodeSelector")
    tolerations = scheduling.get("tolerations") or []
    yield from validate_tolerations(tolerations, "scheduling.tolerations", CLOSED)
    seen: set[tuple[tuple[str, object], ...]] = set()
    for i, toleration in enumerate(tolerations):
        if (same := tuple(sorted(toleration.items()))) in seen:
            yield field.duplicate(f"scheduling.tolerations[{i}]", go_struct("Toleration", toleration))
        seen.add(same)
    if not handler:
        yield field.required("handler")
    else:
        for message in check_dns1123_label(handler):
            yield field.invalid("handler", handler, message.replace("63 characters", "63 bytes"))
    if old is not None and handler != (old.get("handler") or ""):
        yield field.invalid("handler", None, IMMUTABLE)


# ── policy ──────────────────────────────────────────────────────────────────────────────────────────


def validate_pod_disruption_budget(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a PodDisruptionBudget; metadata is only looked at when the spec is sound."""
    if context.subresource == "status":
        status = new.get("status") or {}
        yield from validate_conditions(status.get("conditions") or [], "status.conditions")
        names = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
        yield from validate_not_negative(status, names, "status")
        return
    errors = list(_validate_budget(new))
    yield from errors
    if not errors:
        yield from validate_generic_meta(new, old, context, check_path_segment)


def _validate_budget(new: Document) -> Errors:
    spec = new.get("spec") or {}
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if least is not None and most is not None:
        shown = {
            "MinAvailable": least,
            "Selector": selector_json(spec.get("selector")),
            "MaxUnavailable": most,
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        yield field.invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set")
    for name, value in (("minAvailable", least), ("maxUnavailable", most)):
        if value is not None:
            yield from validate_int_or_percent(value, f"spec.{name}")
            yield from validate_at_most_all(value, f"spec.{name}")
    yield from validate_label_selector(spec.get("selector"), "spec.selector")
    yield from field.one_of(
        "spec.unhealthyPodEvictionPolicy",
        spec.get("unhealthyPodEvictionPolicy"),
        ("AlwaysAllow", "IfHealthyBudget"),
    )


# ── scheduling.k8s.io ───────────────────────────────────────────────────────────────────────────────


HIGHEST_USER_PRIORITY: Final = 1_000_000_000
SYSTEM_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_PREEMPTION: Final = ("PreemptLowerPriority", "Never")


def validate_priority_class(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a PriorityClass; its value never changes."""
    yield from validate_meta(new, old, context)
    value, policy = new.get("value") or 0, new.get("preemptionPolicy")
    if old is not None:
        if value != (old.get("value") or 0):
            yield field.forbidden("value", "may not be changed in an update.")
        if (policy or "PreemptLowerPriority") != (old.get("preemptionPolicy") or "PreemptLowerPriority"):
            yield field.invalid("preemptionPolicy", Enum(policy or ""), IMMUTABLE)
        return
    name = (new.get("metadata") or {}).get("name") or ""
    if name.startswith("system-"):
        if SYSTEM_PRIORITIES.get(name) != value:
            detail = (
                "priority class names with 'system-' prefix are reserved for system use only. error: "
                f"{name} is not a known system priority class"
                if name not in SYSTEM_PRIORITIES
                else "priority class names with 'system-' prefix are reserved for system use only. error: "
                f"value of {name} PriorityClass must be {SYSTEM_PRIORITIES[name]}"
            )
            yield field.forbidden("metadata.name", detail)
    elif value > HIGHEST_USER_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        yield field.forbidden("value", detail)
    if policy is not None and policy not in _PREEMPTION:
        yield (
            field.not_supported("preemptionPolicy", policy, _PREEMPTION)
            if policy
            else field.required("preemptionPolicy")
        )


# ── storagemigration.k8s.io ─────────────────────────────────────────────────────────────────────────


_CONDITIONS: Final = "status.conditions"
_CONDITION: Final = ("type", "status", "observedGeneration", "lastTransitionTime", "reason", "message")
_match_version = re.compile("[1-9][0-9]*").fullmatch


def validate_storage_version_migration(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a migration, or with its status."""
    metadata = new.get("metadata") or {}
    if context.subresource == "status" and old is not None:
        yield from validate_object_meta_update(metadata, old.get("metadata") or {})
        yield from _validate_status(new.get("status") or {}, old.get("status") or {})
        return
    yield from validate_object_meta(metadata, context)
    resource = _resource(new)
    if not resource["resource"]:
        yield required("spec.resource.resource", "resource is required to be set")
    elif messages := check_dns1035_label(resource["resource"]):
        yield invalid("spec.resource.resource", resource["resource"], ",".join(messages))
    if resource["group"] and (messages := check_dns1123_subdomain(resource["group"])):
        yield invalid("spec.resource.group", resource["group"], ",".join(messages))
    if old is not None:
        yield from validate_object_meta_update(metadata, old.get("metadata") or {})
        if resource != _resource(old):
            yield invalid("spec", {"Resource": resource}, IMMUTABLE)


def _resource(document: Document) -> dict[str, str]:
    found = (document.get("spec") or {}).get("resource") or {}
    return {"group": found.get("group") or "", "resource": found.get("resource") or ""}


def _validate_status(status: Document, before: Document) -> Errors:
    version, known = status.get("resourceVersion") or "", before.get("resourceVersion") or ""
    if version and not _match_version(version):
        yield invalid("status.resourceVersion", version, f"resource version is not well formed: {version}")
    sent = status.get("conditions")
    conditions = sent or []
    yield from validate_conditions(conditions, _CONDITIONS)
    if known and known != version:
        yield invalid("status.resourceVersion", version, IMMUTABLE)
    parts = [{name: one[name] for name in _CONDITION if name in one} for one in conditions]
    shown = None if sent is None else parts
    if _is_true(status, "Succeeded") and _is_true(status, "Failed"):
        detail = "Both success and failed conditions cannot be true at the same time"
        yield invalid(_CONDITIONS, shown, detail)
    for kind, name in (("Succeeded", "Success"), ("Failed", "Failed")):
        if _is_true(before, kind) and not _is_true(status, kind):
            yield invalid(_CONDITIONS, shown, f"{name} condition cannot be set to false once it is true")


def _is_true(status: Document, kind: str) -> bool:
    found = (one.get("status") for one in status.get("conditions") or () if one.get("type") == kind)
    return next(found, None) == "True"
