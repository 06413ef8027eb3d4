"""Table cells of every API group but core."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, TypeVar

from weir.apiserver.admission.default_classes import INGRESS_MARK
from weir.apiserver.printers.cells import (
    NONE,
    UNKNOWN,
    UNSET,
    Cells,
    Document,
    age,
    at,
    condition_of,
    first_of,
    human_duration,
    is_true,
    name_of,
)

# ── table cells of admission policies and their bindings ──


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


# ── table cells of HorizontalPodAutoscaler in the layout of v2 ──
# Two metrics are shown as current/target, of more only the number.


_METRICS_SHOWN: Final = 2
_SOURCES: Final = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


def reference(autoscaler: Document, now: float) -> str:
    """Return what is scaled, as `kind/name`."""
    target = at(autoscaler, "spec", "scaleTargetRef")
    return f"{at(target, 'kind') or ''}/{at(target, 'name') or ''}"


def targets(autoscaler: Document, now: float) -> str:
    """Return the metrics, each as `current/target`."""
    current = at(autoscaler, "status", "currentMetrics") or ()
    metrics = at(autoscaler, "spec", "metrics") or ()
    shown = [_metric(each, current[i] if i < len(current) else None) for i, each in enumerate(metrics)]
    return first_of(shown, _METRICS_SHOWN, ", ") or NONE


def _metric(spec: Document, status: Document | None) -> str:
    """Return `current/target` of one metric.

    >>> _metric({"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}}, None)
    'cpu: <unknown>/80%'
    """
    source = _SOURCES.get(str(spec.get("type")))
    if source is None:
        return "<unknown type>"
    target, current = at(spec, source, "target") or {}, at(status, source, "current") or {}
    by_resource = source in ("resource", "containerResource")
    if target.get("averageValue") is not None:
        pair = f"{current.get('averageValue', UNKNOWN)}/{target['averageValue']}"
        if source in ("external", "object"):
            return f"{pair} (avg)"
    elif by_resource:
        now, wanted = current.get("averageUtilization"), target.get("averageUtilization")
        pair = f"{UNKNOWN if now is None else f'{now}%'}/{'<auto>' if wanted is None else f'{wanted}%'}"
    else:
        pair = f"{current.get('value', UNKNOWN)}/{target.get('value', '0')}"
    return f"{at(spec, source, 'name') or ''}: {pair}" if by_resource else pair


# ── table cells of Job and CronJob ──


def state(job: Document, now: float) -> str:
    """Return the first state of a Job that holds."""
    for name in ("Complete", "Failed"):
        if is_true(condition_of(job, name)):
            return name
    if at(job, "metadata", "deletionTimestamp"):
        return "Terminating"
    for name in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if is_true(condition_of(job, name)):
            return name
    return "Running"


def completions(job: Document, now: float) -> str:
    """Return how many pods of a Job succeeded, of how many; a work queue ends with one."""
    succeeded, parallel = at(job, "status", "succeeded") or 0, at(job, "spec", "parallelism") or 0
    if (wanted := at(job, "spec", "completions")) is not None:
        return f"{succeeded}/{wanted}"
    return f"{succeeded}/1 of {parallel}" if parallel > 1 else f"{succeeded}/1"


def duration(job: Document, now: float) -> str:
    """Return how long a Job has run."""
    start, end = at(job, "status", "startTime"), at(job, "status", "completionTime")
    if not start:
        return ""
    until = datetime.fromisoformat(end).timestamp() if end else now
    return human_duration(until - datetime.fromisoformat(start).timestamp())


def suspended(cron_job: Document, now: float) -> str:
    return "True" if at(cron_job, "spec", "suspend") else "False"


# ── table cells of certificates.k8s.io ──


def wanted_duration(request: Document, now: float) -> str:
    """Return for how long a CertificateSigningRequest wants its certificate."""
    seconds = at(request, "spec", "expirationSeconds")
    return NONE if seconds is None else human_duration(seconds)


def approval(request: Document, now: float) -> str:
    """Return whether a CertificateSigningRequest is approved, failed, issued."""
    types = {condition.get("type") for condition in at(request, "status", "conditions") or ()}
    state = "Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"
    failed = ",Failed" if "Failed" in types else ""
    return state + failed + (",Issued" if at(request, "status", "certificate") else "")


def outcome(request: Document, now: float) -> str:
    """Return the last outcome of a PodCertificateRequest."""
    types = [condition.get("type") for condition in at(request, "status", "conditions") or ()]
    return next((end for end in reversed(types) if end in ("Issued", "Denied", "Failed")), "Pending")


# ── table cells of FlowSchema and PriorityLevelConfiguration ──
# Flow schemas are listed by matching precedence. One without a Dangling condition shows a question mark.


Schema = TypeVar("Schema", bound=Document)
_QUEUING = ("queues", "handSize", "queueLengthLimit")


def schemas_in_order(schemas: Iterable[Schema]) -> list[Schema]:
    """Return flow schemas in the order in which they are tried."""
    return sorted(schemas, key=lambda each: (at(each, "spec", "matchingPrecedence") or 0, name_of(each)))


def distinguisher(schema: Document, now: float) -> str:
    method = at(schema, "spec", "distinguisherMethod")
    return NONE if method is None else at(method, "type") or ""


def dangling(schema: Document, now: float) -> str:
    condition = condition_of(schema, "Dangling")
    return "?" if condition is None else condition.get("status") or ""


def priority_level(level: Document, now: float) -> Cells:
    limited = at(level, "spec", "limited")
    queuing = at(limited, "limitResponse", "queuing")
    return [
        name_of(level),
        at(level, "spec", "type") or "",
        NONE if limited is None else at(limited, "nominalConcurrencyShares") or 0,
        *(NONE if queuing is None else queuing.get(name) or 0 for name in _QUEUING),
        age(level, now),
    ]


# ── table cells of networking.k8s.io and discovery.k8s.io ──


_SHOWN: Final = 3


def hosts(ingress: Document, now: float) -> str:
    return hosts_text(at(ingress, "spec", "rules") or [])


def hosts_text(rules: list[Document]) -> str:
    """Return the first hosts; of the rest it says how many rules there are, with a host or without.

    >>> hosts_text([]), hosts_text([{"host": "a"}, {}, {"host": "b"}, {"host": "c"}]), hosts_text([{"host": "a"}] * 5)
    ('*', 'a,b,c', 'a,a,a + 2 more...')
    """
    shown: list[str] = []
    for rule in rules:
        if len(shown) == _SHOWN:
            return f"{','.join(shown)} + {len(rules) - _SHOWN} more..."
        if rule.get("host"):
            shown.append(rule["host"])
    return ",".join(shown) or "*"


def ingress_addresses(ingress: Document, now: float) -> str:
    entries = at(ingress, "status", "loadBalancer", "ingress") or ()
    return ",".join(sorted({entry.get("ip") or entry.get("hostname") or "" for entry in entries} - {""}))


def ingress_ports(ingress: Document, now: float) -> str:
    return "80, 443" if at(ingress, "spec", "tls") else "80"


def class_name(ingress_class: Document, now: float) -> str:
    """Return the name of an IngressClass, marked when it is the default."""
    marked = at(ingress_class, "metadata", "annotations", INGRESS_MARK) == "true"
    return name_of(ingress_class) + (" (default)" if marked else "")


def class_parameters(ingress_class: Document, now: float) -> str:
    """Return the parameters of an IngressClass, as `kind.group/name`."""
    parameters = at(ingress_class, "spec", "parameters")
    if parameters is None:
        return NONE
    kind, group = parameters.get("kind") or "", parameters.get("apiGroup")
    return f"{kind if group is None else f'{kind}.{group}'}/{parameters.get('name') or ''}"


def parent(address: Document, now: float) -> str:
    """Return the owner of an IPAddress, as `resource.group/namespace/name`."""
    reference = at(address, "spec", "parentRef")
    if reference is None:
        return NONE
    group, resource, namespace = (reference.get(field) or "" for field in ("group", "resource", "namespace"))
    name = reference.get("name") or ""
    return f"{(f'{resource}.{group}' if group else resource).lower()}/{f'{namespace}/{name}' if namespace else name}"


def slice_ports(endpoint_slice: Document, now: float) -> str:
    ports = [str(port.get("port", "*")) for port in endpoint_slice.get("ports") or ()]
    return first_of(ports, _SHOWN) or UNSET


def slice_addresses(endpoint_slice: Document, now: float) -> str:
    endpoints = endpoint_slice.get("endpoints") or ()
    addresses = [address for endpoint in endpoints for address in endpoint.get("addresses") or ()]
    return first_of(addresses, _SHOWN) or UNSET


# ── table cells of RoleBinding and ClusterRoleBinding ──


def role_binding(binding: Document, now: float) -> Cells:
    role, subjects = binding.get("roleRef") or {}, binding.get("subjects") or ()

    def names(kind: str) -> str:
        return ", ".join(
            f"{subject.get('namespace')}/{subject.get('name')}"
            if kind == "ServiceAccount"
            else str(subject.get("name"))
            for subject in subjects
            if subject.get("kind") == kind
        )

    shown = f"{role.get('kind', '')}/{role.get('name', '')}"
    return [
        name_of(binding),
        shown,
        age(binding, now),
        names("User"),
        names("Group"),
        names("ServiceAccount"),
    ]


# ── table cells of resource.k8s.io ──


def claim_state(claim: Document, now: float) -> str:
    """Return whether a ResourceClaim is deleted, pending, allocated, reserved."""
    states = ["deleted"] if at(claim, "metadata", "deletionTimestamp") else []
    if at(claim, "status", "allocation") is None:
        return ",".join(states or ["pending"])
    states.append("allocated")
    if at(claim, "status", "reservedFor"):
        states.append("reserved")
    return ",".join(states)


# ── table cells of storage.k8s.io and storagemigration.k8s.io ──


def storage_class_name(storage_class: Document, now: float) -> str:
    """Return the name of a StorageClass, marked when it is the default."""
    marked = (
        at(storage_class, "metadata", "annotations", "storageclass.kubernetes.io/is-default-class") == "true"
    )
    return name_of(storage_class) + (" (default)" if marked else "")


def audiences(driver: Document, now: float) -> str:
    """Return for whom a CSIDriver requests tokens."""
    requests = at(driver, "spec", "tokenRequests") or ()
    return ",".join(str(request.get("audience", "")) for request in requests) or UNSET


def migrated(migration: Document, now: float) -> str:
    """Return the resource of a StorageVersionMigration."""
    group, resource = (at(migration, "spec", "resource", name) or "" for name in ("group", "resource"))
    return f"{resource}.{group}" if group else resource


def migration_state(migration: Document, now: float) -> str:
    """Return the last condition of a StorageVersionMigration that is true."""
    state = "Unknown"
    for condition in at(migration, "status", "conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in ("Running", "Failed", "Succeeded"):
            state = condition["type"]
    return state
