"""Table cells of nodes, events, role bindings, quotas, resource claims and device taint rules.

Spec: apiserver.md 11 "Tables", "Cells".
"""

from __future__ import annotations

from weir.apiserver.printers.values import (
    NONE,
    UNKNOWN,
    Cells,
    Document,
    age,
    at,
    condition_of,
    is_true,
    name_of,
    since,
)


def component_status_cells(found: Document, now: float) -> Cells:
    """Return the cells of one ComponentStatus."""
    said = next((one for one in found.get("conditions") or () if one.get("type") == "Healthy"), None)
    if said is None:
        return [name_of(found), "Unknown", "", ""]
    state = "Healthy" if is_true(said) else "Unhealthy"
    return [name_of(found), state, said.get("message") or "", said.get("error") or ""]


def node_cells(node: Document, now: float) -> Cells:
    ready = condition_of(node, "Ready")
    state = ["Unknown" if ready is None else "Ready" if is_true(ready) else "NotReady"]
    if at(node, "spec", "unschedulable"):
        state.append("SchedulingDisabled")
    roles: set[str] = set()
    for key, value in (at(node, "metadata", "labels") or {}).items():
        if key.startswith("node-role.kubernetes.io/"):
            role = key.removeprefix("node-role.kubernetes.io/")
            if role:
                roles.add(role)
        elif key == "kubernetes.io/role" and value:
            roles.add(value)
    addresses = {a.get("type"): a.get("address") for a in reversed(at(node, "status", "addresses") or ())}
    info = at(node, "status", "nodeInfo") or {}
    return [
        name_of(node),
        ",".join(state),
        ",".join(sorted(roles)) or NONE,
        age(node, now),
        info.get("kubeletVersion") or "",
        addresses.get("InternalIP") or NONE,
        addresses.get("ExternalIP") or NONE,
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def event_cells(found: Document, now: float) -> Cells:
    last = found.get("lastTimestamp") or found.get("eventTime")
    first = found.get("firstTimestamp") or found.get("eventTime")
    count = found.get("count") or 0
    series = found.get("series") or {}
    if series:
        last, count = series.get("lastObservedTime") or last, series.get("count") or count
    subject = found.get("involvedObject") or {}
    source = found.get("source") or {}
    component = source.get("component") or found.get("reportingComponent") or ""
    host = source.get("host") or ""
    return [
        since(last, now),
        found.get("type") or "",
        found.get("reason") or "",
        f"{str(subject.get('kind', '')).lower()}/{subject.get('name', '')}",
        subject.get("fieldPath") or "",
        f"{component}, {host}" if host else component,
        str(found.get("message") or "").strip(),
        since(first, now),
        count or 1,
        name_of(found),
    ]


def role_binding_cells(found: Document, now: float) -> Cells:
    role = found.get("roleRef") or {}
    subjects = found.get("subjects") or ()

    def of(kind: str) -> str:
        names = [
            f"{s.get('namespace')}/{s.get('name')}" if kind == "ServiceAccount" else str(s.get("name"))
            for s in subjects
            if s.get("kind") == kind
        ]
        return ", ".join(names)

    shown = f"{role.get('kind', '')}/{role.get('name', '')}"
    return [name_of(found), shown, age(found, now), of("User"), of("Group"), of("ServiceAccount")]


def quota_cells(found: Document, now: float) -> Cells:
    hard, used = at(found, "status", "hard") or {}, at(found, "status", "used") or {}
    requests: list[str] = []
    limits: list[str] = []
    for name in sorted(hard):
        text = f"{name}: {used.get(name, '0')}/{hard[name]}"
        (limits if name.startswith("limits.") else requests).append(text)
    return [name_of(found), ", ".join(requests), ", ".join(limits), age(found, now)]


def resource_claim_cells(found: Document, now: float) -> Cells:
    states = []
    if at(found, "metadata", "deletionTimestamp"):
        states.append("deleted")
    if at(found, "status", "allocation") is None:
        if not states:
            states.append("pending")
    else:
        states.append("allocated")
        if at(found, "status", "reservedFor"):
            states.append("reserved")
    return [name_of(found), ",".join(states), age(found, now)]


def device_taint_rule_cells(found: Document, now: float) -> Cells:
    taint = at(found, "spec", "taint") or {}
    return [
        name_of(found),
        taint.get("key") or "",
        taint.get("value") or "",
        taint.get("effect") or "",
        since(taint.get("timeAdded"), now),
        age(found, now),
    ]
