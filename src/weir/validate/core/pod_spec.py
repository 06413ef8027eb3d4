"""Validation of pod specs, shared by pods and pod templates.

Spec: core.md 2.13 "Order of spec checks that matter here", apiserver.md 13. The body of `validate_pod_spec` is the
order in which the API server reports errors.
"""

from __future__ import annotations

from typing import Final

from weir.fields import field
from weir.fields.addresses import check_ip
from weir.fields.field import Document, Errors
from weir.fields.meta import validate_labels
from weir.validate.core.affinity import validate_affinity, validate_spread_constraints
from weir.validate.core.containers import (
    PodContext,
    validate_containers,
    validate_ephemeral_containers,
    validate_init_containers,
)
from weir.validate.core.environment import validate_file_volumes
from weir.validate.core.resources import validate_container_resources, validate_pod_resources
from weir.validate.core.security_context import (
    validate_host_process,
    validate_host_users,
    validate_os,
    validate_pod_security_context,
)
from weir.validate.core.tolerations import validate_tolerations
from weir.validate.core.volumes import validate_volumes
from weir.validate.gonames import go_struct
from weir.validate.ratchet import Options
from weir.values.names import (
    check_dns1123_label,
    check_dns1123_subdomain,
    check_label_key,
    check_search_domain,
)

_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
_FINE_RESTART_POLICIES: Final = frozenset({None, "", *_RESTART_POLICIES})
_FINE_DNS_POLICIES: Final = frozenset({None, "", "ClusterFirstWithHostNet", "ClusterFirst", "Default"})
_INT32_MAX: Final = 2**31 - 1
_LONGEST_HOSTNAME: Final = 64  # of Linux
DEADLINE_RANGE: Final = f"must be between 1 and {_INT32_MAX}, inclusive"

_NO_SURROUNDINGS: Final = PodContext()


def validate_pod_spec(spec: Document, at: str, options: Options, pod_name: str = "") -> Errors:
    """Yield what is wrong with a pod spec; *pod_name* is empty for templates."""
    get = spec.get
    pod = _NO_SURROUNDINGS
    if volumes := get("volumes"):
        mountable, errors = validate_volumes(volumes, f"{at}.volumes", pod_name)
        yield from errors
        pod = PodContext(mountable)
    if claims := get("resourceClaims"):
        names = {claim["name"] for claim in claims if claim.get("name")}
        pod = PodContext(pod.volumes, names)
        yield from _validate_resource_claims(claims, f"{at}.resourceClaims")
    if get("terminationGracePeriodSeconds", 30) != 30:
        pod = PodContext(pod.volumes, pod.claim_names, get("terminationGracePeriodSeconds"))
    containers = get("containers") or []
    yield from validate_containers(containers, f"{at}.containers", pod)
    initial = get("initContainers")
    if initial:
        yield from validate_init_containers(initial, containers, f"{at}.initContainers", pod)
    if ephemeral := get("ephemeralContainers"):
        others = [*containers, *(initial or ())]
        yield from validate_ephemeral_containers(ephemeral, others, f"{at}.ephemeralContainers", pod)
    if get("resources"):
        yield from validate_pod_resources(spec, f"{at}.resources")
    if get("hostNetwork"):
        yield from _validate_host_network(containers, f"{at}.containers")
    if get("restartPolicy") not in _FINE_RESTART_POLICIES:
        yield field.not_supported(f"{at}.restartPolicy", spec["restartPolicy"], _RESTART_POLICIES)
    if get("dnsPolicy") not in _FINE_DNS_POLICIES and get("dnsPolicy") != "None":
        yield field.not_supported(f"{at}.dnsPolicy", spec["dnsPolicy"], _DNS_POLICIES)
    if selector := get("nodeSelector"):
        yield from validate_labels(selector, f"{at}.nodeSelector")
    yield from validate_pod_security_context(spec, at)
    if get("hostPID") and get("shareProcessNamespace"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield field.invalid(f"{at}.shareProcessNamespace", True, detail)
    if affinity := get("affinity"):
        yield from validate_affinity(affinity, f"{at}.affinity", options)
    if get("dnsConfig") is not None or get("dnsPolicy") == "None":
        yield from _validate_dns_config(get("dnsConfig"), get("dnsPolicy") or "", f"{at}.dnsConfig")
    for i, gate in enumerate(get("readinessGates") or ()):
        condition = gate.get("conditionType") or ""
        yield from field.each_invalid(
            f"{at}.readinessGates[{i}].conditionType", condition, check_label_key(condition)
        )
    if gates := get("schedulingGates"):
        yield from _validate_scheduling_gates(gates, f"{at}.schedulingGates")
    if constraints := get("topologySpreadConstraints"):
        yield from validate_spread_constraints(constraints, f"{at}.topologySpreadConstraints")
    yield from validate_host_process(spec, at)
    yield from validate_host_users(spec, at)
    yield from field.well_formed(
        f"{at}.serviceAccountName", get("serviceAccountName") or None, check_dns1123_subdomain
    )
    yield from field.well_formed(f"{at}.nodeName", get("nodeName") or None, check_dns1123_subdomain)
    deadline = get("activeDeadlineSeconds")
    yield from field.in_range(f"{at}.activeDeadlineSeconds", deadline, 1, _INT32_MAX, DEADLINE_RANGE)
    yield from field.well_formed(f"{at}.hostname", get("hostname") or None, check_dns1123_label)
    yield from field.well_formed(f"{at}.subdomain", get("subdomain") or None, check_dns1123_label)
    if (override := get("hostnameOverride")) is not None:
        yield from _validate_override(spec, override, f"{at}.hostnameOverride")
        yield from field.each_invalid(f"{at}.hostnameOverride", override, check_dns1123_subdomain(override))
    if tolerations := get("tolerations"):
        yield from validate_tolerations(tolerations, f"{at}.tolerations", options)
    if aliases := get("hostAliases"):
        yield from _validate_host_aliases(aliases, f"{at}.hostAliases")
    yield from field.well_formed(
        f"{at}.priorityClassName", get("priorityClassName") or None, check_dns1123_subdomain
    )
    yield from field.well_formed(f"{at}.runtimeClassName", get("runtimeClassName"), check_dns1123_subdomain)
    preemption = get("preemptionPolicy")
    if preemption is not None and preemption not in _PREEMPTION_POLICIES:
        if preemption:
            yield field.not_supported(f"{at}.preemptionPolicy", preemption, _PREEMPTION_POLICIES)
        else:
            yield field.required(f"{at}.preemptionPolicy")
    if (overhead := get("overhead")) is not None:
        yield from validate_container_resources({"limits": overhead}, (), f"{at}.overhead")
    if get("os") is not None:
        yield from validate_os(spec, at)
    yield from validate_file_volumes(spec, at, pod.volumes)


def _validate_resource_claims(claims: list[Document], at: str) -> Errors:
    names: set[str] = set()
    for i, claim in enumerate(claims):
        where, name = f"{at}[{i}]", claim.get("name") or ""
        by_name, by_template = claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName")
        if not name:
            yield field.required(f"{where}.name")
        elif name in names:
            yield field.duplicate(f"{where}.name", name)
        elif messages := check_dns1123_label(name):
            yield from field.each_invalid(f"{where}.name", name, messages)
        names.add(name)
        if by_name is not None and by_template is not None:
            detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            yield field.invalid(where, go_struct("PodResourceClaim", claim), detail)
        if by_name is None and by_template is None:
            detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            yield field.invalid(where, go_struct("PodResourceClaim", claim), detail)
        for key, value in (("resourceClaimName", by_name), ("resourceClaimTemplateName", by_template)):
            yield from field.well_formed(f"{where}.{key}", value, check_dns1123_subdomain)


def _validate_host_network(containers: list[Document], at: str) -> Errors:
    for c, container in enumerate(containers):
        for p, port in enumerate(container.get("ports") or ()):
            number = port.get("containerPort") or 0
            # Defaulting gives an absent host port the container's number.
            if (port.get("hostPort") or number) != number:
                detail = "must match `containerPort` when `hostNetwork` is true"
                yield field.invalid(f"{at}[{c}].ports[{p}].hostPort", port["hostPort"], detail)


def _validate_dns_config(config: Document | None, policy: str, at: str) -> Errors:
    servers = (config or {}).get("nameservers") or []
    if policy == "None":
        if config is None:
            yield field.required(at, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        yield from field.present(
            f"{at}.nameservers", servers, "must provide at least one DNS nameserver when `dnsPolicy` is None"
        )
    if config is None:
        return
    if len(servers) > 3:
        yield field.invalid(f"{at}.nameservers", servers, "must not have more than 3 nameservers")
    yield from field.each_well_formed(f"{at}.nameservers", servers, check_ip)
    searches = config.get("searches") or []
    if len(searches) > 32:
        yield field.invalid(f"{at}.searches", searches, "must not have more than 32 search paths")
    for i, domain in enumerate(searches):
        domain = domain.removesuffix(".")
        yield from field.each_invalid(f"{at}.searches[{i}]", domain, check_search_domain(domain))
    for i, option in enumerate(config.get("options") or ()):
        yield from field.present(f"{at}.options[{i}]", option.get("name"), "must not be empty")


def _validate_scheduling_gates(gates: list[Document], at: str) -> Errors:
    names: set[str] = set()
    for i, gate in enumerate(gates):
        name = gate.get("name") or ""
        yield from field.each_invalid(f"{at}[{i}]", name, check_label_key(name))
        yield from field.unique(name, names, f"{at}[{i}]")


def _validate_override(spec: Document, override: str, at: str) -> Errors:
    if spec.get("setHostnameAsFQDN"):
        yield field.forbidden(at, "may not be specified when setHostnameAsFQDN is true")
    if spec.get("hostNetwork"):
        yield field.forbidden(at, "may not be specified when hostNetwork is true")
    if len(override) > _LONGEST_HOSTNAME:
        yield field.too_long(at, _LONGEST_HOSTNAME)


def _validate_host_aliases(aliases: list[Document], at: str) -> Errors:
    for i, alias in enumerate(aliases):
        address = alias.get("ip") or ""
        yield from field.each_invalid(f"{at}[{i}].ip", address, check_ip(address))
        yield from field.each_well_formed(
            f"{at}[{i}].hostnames", alias.get("hostnames"), check_dns1123_subdomain
        )
