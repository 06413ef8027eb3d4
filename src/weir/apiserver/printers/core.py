"""Table cells of core: pods, nodes, events, services, volumes and claims, quotas.

The status of a pod is derived from its phase, conditions and container states.
"""

from __future__ import annotations

from collections.abc import Iterable

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
    is_true,
    label_text,
    name_of,
    since,
)


def pod(pod: Document, now: float) -> Cells:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    phase = status.get("phase") or ""
    reason = status.get("reason") or phase
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled is not None and scheduled.get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    sidecars = {
        container["name"]
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    }
    total = len(spec.get("containers") or ()) + len(sidecars)
    restarts, initializing, ready, of_sidecars = _init(spec, status, sidecars)
    if initializing:
        reason = initializing
    if not initializing or is_true(condition_of(pod, "Initialized")):
        restarts = of_sidecars
        reason, running = _running(pod, status, reason, restarts)
        ready += running
    if at(pod, "metadata", "deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif phase not in ("Failed", "Succeeded"):
            reason = "Terminating"
    text = str(restarts.count)
    if restarts.count and restarts.last:
        text = f"{restarts.count} ({since(restarts.last, now)} ago)"
    addresses = status.get("podIPs") or ()
    gates = spec.get("readinessGates") or ()
    passed = sum(is_true(condition_of(pod, gate.get("conditionType", ""))) for gate in gates)
    return [
        name_of(pod),
        f"{ready}/{total}",
        reason,
        text,
        age(pod, now),
        (addresses[0].get("ip") if addresses else "") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        f"{passed}/{len(gates)}" if gates else NONE,
    ]


def _init(spec: Document, status: Document, sidecars: set[str]) -> tuple[_Restarts, str, int, _Restarts]:
    """Return restarts of init containers, what initialization waits for, ready sidecars, their restarts."""
    every, of_sidecars, ready = _Restarts(), _Restarts(), 0
    for index, container in enumerate(status.get("initContainerStatuses") or ()):
        every.add(container)
        sidecar = container.get("name") in sidecars
        if sidecar:
            of_sidecars.add(container)
        state = container.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting") or {}
        if ended is not None and not ended.get("exitCode"):
            continue
        if sidecar and container.get("started"):
            ready += bool(container.get("ready"))
            continue
        if ended is not None:
            return every, _terminated(ended, "Init:"), ready, of_sidecars
        if waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return every, f"Init:{waiting['reason']}", ready, of_sidecars
        return every, f"Init:{index}/{len(spec.get('initContainers') or ())}", ready, of_sidecars
    return every, "", ready, of_sidecars


def _running(pod: Document, status: Document, reason: str, restarts: _Restarts) -> tuple[str, int]:
    """Return the reason the containers give, and how many are ready."""
    ready, running, failed = 0, False, ""
    for container in reversed(status.get("containerStatuses") or ()):
        restarts.add(container)
        state = container.get("state") or {}
        if (state.get("waiting") or {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif state.get("terminated") is not None:
            reason = _terminated(state["terminated"])
            if state["terminated"].get("exitCode"):
                failed = reason
        elif container.get("ready") and state.get("running") is not None:
            running = True
            ready += 1
    if reason == "Completed":
        if running and is_true(condition_of(pod, "Ready")):
            reason = "Running"
        elif failed:
            reason = failed
        elif running:
            reason = "NotReady"
    return reason, ready


def _terminated(state: Document, prefix: str = "") -> str:
    if state.get("reason"):
        return f"{prefix}{state['reason']}"
    if state.get("signal"):
        return f"{prefix}Signal:{state['signal']}"
    return f"{prefix}ExitCode:{state.get('exitCode', 0)}"


class _Restarts:
    """Restart counts and the time of the last one."""

    def __init__(self) -> None:
        self.count, self.last = 0, ""

    def add(self, status: Document) -> None:
        self.count += status.get("restartCount") or 0
        ended = at(status, "lastState", "terminated", "finishedAt")
        if ended and ended > self.last:
            self.last = ended


def node(node: Document, now: float) -> Cells:
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


def event(event: Document, now: float) -> Cells:
    last = event.get("lastTimestamp") or event.get("eventTime")
    first = event.get("firstTimestamp") or event.get("eventTime")
    count = event.get("count") or 0
    series = event.get("series") or {}
    if series:
        last, count = series.get("lastObservedTime") or last, series.get("count") or count
    subject = event.get("involvedObject") or {}
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent") or ""
    host = source.get("host") or ""
    return [
        since(last, now),
        event.get("type") or "",
        event.get("reason") or "",
        f"{str(subject.get('kind', '')).lower()}/{subject.get('name', '')}",
        subject.get("fieldPath") or "",
        f"{component}, {host}" if host else component,
        str(event.get("message") or "").strip(),
        since(first, now),
        count or 1,
        name_of(event),
    ]


def service(service: Document, now: float) -> Cells:
    spec = service.get("spec") or {}
    kind = spec.get("type") or ""
    ingress = [
        i.get("ip") or i.get("hostname") for i in at(service, "status", "loadBalancer", "ingress") or ()
    ]
    external = list(spec.get("externalIPs") or ())
    if kind == "LoadBalancer":
        outside = ",".join([*filter(None, ingress), *external]) or "<pending>"
    elif kind == "ExternalName":
        outside = spec.get("externalName") or ""
    else:
        outside = ",".join(external) or NONE
    ports = ",".join(
        f"{port.get('port')}{':' + str(port['nodePort']) if port.get('nodePort') else ''}/{port.get('protocol')}"
        for port in spec.get("ports") or ()
    )
    inside = ",".join((spec.get("clusterIPs") or ())[:1]) or spec.get("clusterIP") or NONE
    return [
        name_of(service),
        kind,
        inside,
        outside,
        ports or NONE,
        age(service, now),
        label_text(spec.get("selector")),
    ]


def endpoint_addresses(endpoints: Document, now: float) -> str:
    texts = [
        f"{address.get('ip')}:{port.get('port')}"
        for subset in endpoints.get("subsets") or ()
        for port in (subset.get("ports") or ({"port": 0},))
        for address in subset.get("addresses") or ()
    ]
    return first_of(texts, 3) or NONE


_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _modes(modes: Iterable[str] | None) -> str:
    present = set(modes or ())
    return ",".join(short for mode, short in _MODES.items() if mode in present)


def persistent_volume(volume: Document, now: float) -> Cells:
    spec, status = volume.get("spec") or {}, volume.get("status") or {}
    claim = spec.get("claimRef")
    phase = status.get("phase") or ""
    if at(volume, "metadata", "deletionTimestamp"):
        phase = "Terminating"
    beta = at(volume, "metadata", "annotations", "volume.beta.kubernetes.io/storage-class")
    return [
        name_of(volume),
        at(spec, "capacity", "storage") or "0",
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy") or "",
        phase,
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        beta or spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or UNSET,
        status.get("reason") or "",
        age(volume, now),
        spec.get("volumeMode") or UNSET,
    ]


def persistent_volume_claim(claim: Document, now: float) -> Cells:
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    phase = "Terminating" if at(claim, "metadata", "deletionTimestamp") else status.get("phase") or ""
    bound = bool(spec.get("volumeName"))
    return [
        name_of(claim),
        phase,
        spec.get("volumeName") or "",
        (at(status, "capacity", "storage") or "0") if bound else "",
        _modes(status.get("accessModes")) if bound else "",
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or UNSET,
        age(claim, now),
        spec.get("volumeMode") or UNSET,
    ]


def quota_requests(quota: Document, now: float) -> str:
    return _used(quota, limits=False)


def quota_limits(quota: Document, now: float) -> str:
    return _used(quota, limits=True)


def _used(quota: Document, *, limits: bool) -> str:
    """Return what is used of a quota: of its limits, or of everything else."""
    hard, used = at(quota, "status", "hard") or {}, at(quota, "status", "used") or {}
    names = (name for name in sorted(hard) if name.startswith("limits.") == limits)
    return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)


def component_status(status: Document, now: float) -> Cells:
    condition = next((each for each in status.get("conditions") or () if each.get("type") == "Healthy"), None)
    if condition is None:
        return [name_of(status), "Unknown", "", ""]
    state = "Healthy" if is_true(condition) else "Unhealthy"
    return [name_of(status), state, condition.get("message") or "", condition.get("error") or ""]


def config_map_size(config_map: Document, now: float) -> int:
    return len(config_map.get("data") or ()) + len(config_map.get("binaryData") or ())
