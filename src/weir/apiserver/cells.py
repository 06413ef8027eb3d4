"""What stands in the cells of a kind's row?

Spec: apiserver.md 11 "Tables", "Cells". One function per kind, in the order of the kind's columns
(`columns.json`). An absent value prints as kubectl users know it: `<none>`, `<unset>`, `<unknown>` or nothing,
depending on the column.
Not here: which columns there are (weir.apiserver.tables).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from weir.objects.kinds import Kind
from weir.selectors import labels

__all__ = ["cells_of", "human_duration"]

Document = Mapping[str, Any]
Cells = list[Any]
NONE, UNSET, UNKNOWN = "<none>", "<unset>", "<unknown>"


def human_duration(seconds: float) -> str:
    """Return a duration as short as kubectl prints it.

    >>> [human_duration(s) for s in (0, 119, 300, 11_520, 183_600, 40_000_000)]
    ['0s', '119s', '5m', '3h12m', '2d3h', '462d']
    """
    total = int(seconds)
    if total < -1:
        return "<invalid>"
    if total < 0:
        return "0s"
    if total < 120:
        return f"{total}s"
    minutes = total // 60
    if minutes < 10:
        return f"{minutes}m{total % 60}s" if total % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if hours < 192:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if hours < 24 * 365 * 2:
        return f"{days}d"
    years = days // 365
    if years < 8:
        return f"{years}y{days % 365}d" if days % 365 else f"{years}y"
    return f"{years}y"


def _since(text: str | None, now: float) -> str:
    if not text:
        return UNKNOWN
    try:
        return human_duration(now - datetime.fromisoformat(text).timestamp())
    except ValueError:
        return UNKNOWN


def _at(document: Any, *path: str) -> Any:
    for name in path:
        if not isinstance(document, Mapping):
            return None
        document = document.get(name)
    return document


def _age(document: Document, now: float) -> str:
    return _since(_at(document, "metadata", "creationTimestamp"), now)


def _name(document: Document) -> str:
    return str(_at(document, "metadata", "name") or "")


def _selector(selector: Document | None) -> str:
    """A LabelSelector as text."""
    try:
        found = labels.from_object(selector)
    except labels.SelectorError:
        return "<error>"
    if found is None:
        return NONE
    return str(found) or NONE


def _map(found: Document | None) -> str:
    """A plain map of labels as text."""
    return ",".join(f"{key}={value}" for key, value in sorted((found or {}).items())) or NONE


def _containers(spec: Any) -> tuple[str, str]:
    found = _at(spec, "containers") or ()
    return (
        ",".join(str(container.get("name", "")) for container in found),
        ",".join(str(container.get("image", "")) for container in found),
    )


def _template(document: Document) -> tuple[str, str]:
    return _containers(_at(document, "spec", "template", "spec"))


def _count(document: Document, *path: str) -> int:
    return int(_at(document, *path) or 0)


# ---------------------------------------------------------------------------------------------------- pods


def _terminated(state: Document, prefix: str = "") -> str:
    if state.get("reason"):
        return f"{prefix}{state['reason']}"
    if state.get("signal"):
        return f"{prefix}Signal:{state['signal']}"
    return f"{prefix}ExitCode:{state.get('exitCode', 0)}"


def _condition(document: Document, kind: str) -> Document | None:
    found = _at(document, "status", "conditions") or ()
    return next((condition for condition in found if condition.get("type") == kind), None)


def _is_true(condition: Document | None) -> bool:
    return condition is not None and condition.get("status") == "True"


class _Restarts:
    """Restart counts and the time of the last one."""

    def __init__(self) -> None:
        self.count, self.last = 0, ""

    def add(self, status: Document) -> None:
        self.count += status.get("restartCount") or 0
        ended = _at(status, "lastState", "terminated", "finishedAt")
        if ended and ended > self.last:
            self.last = ended


def _pod(pod: Document, now: float) -> Cells:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    phase = status.get("phase") or ""
    reason = status.get("reason") or phase
    scheduled = _condition(pod, "PodScheduled")
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
    if not initializing or _is_true(_condition(pod, "Initialized")):
        restarts = of_sidecars
        reason, running = _running(pod, status, reason, restarts)
        ready += running
    if _at(pod, "metadata", "deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif phase not in ("Failed", "Succeeded"):
            reason = "Terminating"
    text = str(restarts.count)
    if restarts.count and restarts.last:
        text = f"{restarts.count} ({_since(restarts.last, now)} ago)"
    addresses = status.get("podIPs") or ()
    gates = spec.get("readinessGates") or ()
    passed = sum(_is_true(_condition(pod, gate.get("conditionType", ""))) for gate in gates)
    return [
        _name(pod),
        f"{ready}/{total}",
        reason,
        text,
        _age(pod, now),
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
        if running and _is_true(_condition(pod, "Ready")):
            reason = "Running"
        elif failed:
            reason = failed
        elif running:
            reason = "NotReady"
    return reason, ready


# --------------------------------------------------------------------------------------------- other kinds


def _node(node: Document, now: float) -> Cells:
    ready = _condition(node, "Ready")
    state = ["Unknown" if ready is None else "Ready" if _is_true(ready) else "NotReady"]
    if _at(node, "spec", "unschedulable"):
        state.append("SchedulingDisabled")
    roles: set[str] = set()
    for key, value in (_at(node, "metadata", "labels") or {}).items():
        if key.startswith("node-role.kubernetes.io/"):
            role = key.removeprefix("node-role.kubernetes.io/")
            if role:
                roles.add(role)
        elif key == "kubernetes.io/role" and value:
            roles.add(value)
    addresses = {a.get("type"): a.get("address") for a in reversed(_at(node, "status", "addresses") or ())}
    info = _at(node, "status", "nodeInfo") or {}
    return [
        _name(node),
        ",".join(state),
        ",".join(sorted(roles)) or NONE,
        _age(node, now),
        info.get("kubeletVersion") or "",
        addresses.get("InternalIP") or NONE,
        addresses.get("ExternalIP") or NONE,
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _modes(found: Any) -> str:
    given = set(found or ())
    return ",".join(short for mode, short in _MODES.items() if mode in given)


def _persistent_volume(volume: Document, now: float) -> Cells:
    spec, status = volume.get("spec") or {}, volume.get("status") or {}
    claim = spec.get("claimRef")
    phase = status.get("phase") or ""
    if _at(volume, "metadata", "deletionTimestamp"):
        phase = "Terminating"
    beta = _at(volume, "metadata", "annotations", "volume.beta.kubernetes.io/storage-class")
    return [
        _name(volume),
        _at(spec, "capacity", "storage") or "0",
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy") or "",
        phase,
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        beta or spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or UNSET,
        status.get("reason") or "",
        _age(volume, now),
        spec.get("volumeMode") or UNSET,
    ]


def _claim(claim: Document, now: float) -> Cells:
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    phase = "Terminating" if _at(claim, "metadata", "deletionTimestamp") else status.get("phase") or ""
    bound = bool(spec.get("volumeName"))
    return [
        _name(claim),
        phase,
        spec.get("volumeName") or "",
        (_at(status, "capacity", "storage") or "0") if bound else "",
        _modes(status.get("accessModes")) if bound else "",
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or UNSET,
        _age(claim, now),
        spec.get("volumeMode") or UNSET,
    ]


def _deployment(found: Document, now: float) -> Cells:
    names, images = _template(found)
    return [
        _name(found),
        f"{_count(found, 'status', 'readyReplicas')}/{_count(found, 'spec', 'replicas')}",
        _count(found, "status", "updatedReplicas"),
        _count(found, "status", "availableReplicas"),
        _age(found, now),
        names,
        images,
        _selector(_at(found, "spec", "selector")),
    ]


def _replicas(found: Document, now: float) -> Cells:
    names, images = _template(found)
    selector = _at(found, "spec", "selector")
    return [
        _name(found),
        _count(found, "spec", "replicas"),
        _count(found, "status", "replicas"),
        _count(found, "status", "readyReplicas"),
        _age(found, now),
        names,
        images,
        _map(selector) if found.get("kind") == "ReplicationController" else _selector(selector),
    ]


def _daemon_set(found: Document, now: float) -> Cells:
    names, images = _template(found)
    status = [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    ]
    return [
        _name(found),
        *(_count(found, "status", field) for field in status),
        _map(_at(found, "spec", "template", "spec", "nodeSelector")),
        _age(found, now),
        names,
        images,
        _selector(_at(found, "spec", "selector")),
    ]


def _stateful_set(found: Document, now: float) -> Cells:
    ready, wanted = _count(found, "status", "readyReplicas"), _count(found, "spec", "replicas")
    return [_name(found), f"{ready}/{wanted}", _age(found, now), *_template(found)]


def _job(job: Document, now: float) -> Cells:
    spec, status = job.get("spec") or {}, job.get("status") or {}
    done, parallel = status.get("succeeded") or 0, spec.get("parallelism") or 0
    if spec.get("completions") is not None:
        completions = f"{done}/{spec['completions']}"
    else:
        completions = f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"
    duration = ""
    if status.get("startTime"):
        end = status.get("completionTime")
        until = datetime.fromisoformat(end).timestamp() if end else now
        duration = human_duration(until - datetime.fromisoformat(status["startTime"]).timestamp())
    state = "Running"
    for name, text in (
        ("Complete", "Complete"),
        ("Failed", "Failed"),
        (None, "Terminating"),
        ("Suspended", "Suspended"),
        ("FailureTarget", "FailureTarget"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    ):
        met = _at(job, "metadata", "deletionTimestamp") if name is None else _is_true(_condition(job, name))
        if met:
            state = text
            break
    selector = _selector(spec.get("selector"))
    return [_name(job), state, completions, duration, _age(job, now), *_template(job), selector]


def _cron_job(found: Document, now: float) -> Cells:
    spec, status = found.get("spec") or {}, found.get("status") or {}
    last = status.get("lastScheduleTime")
    template = _at(spec, "jobTemplate", "spec")
    return [
        _name(found),
        spec.get("schedule") or "",
        spec.get("timeZone") or NONE,
        bool(spec.get("suspend")),
        len(status.get("active") or ()),
        _since(last, now) if last else NONE,
        _age(found, now),
        *_containers(_at(template, "template", "spec")),
        _selector(_at(template, "selector")),
    ]


def _budget(found: Document, now: float) -> Cells:
    spec = found.get("spec") or {}
    return [
        _name(found),
        str(spec["minAvailable"]) if "minAvailable" in spec else "N/A",
        str(spec["maxUnavailable"]) if "maxUnavailable" in spec else "N/A",
        _count(found, "status", "disruptionsAllowed"),
        _age(found, now),
    ]


def _event(found: Document, now: float) -> Cells:
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
        _since(last, now),
        found.get("type") or "",
        found.get("reason") or "",
        f"{str(subject.get('kind', '')).lower()}/{subject.get('name', '')}",
        subject.get("fieldPath") or "",
        f"{component}, {host}" if host else component,
        str(found.get("message") or "").strip(),
        _since(first, now),
        count or 1,
        _name(found),
    ]


def _service(found: Document, now: float) -> Cells:
    spec = found.get("spec") or {}
    kind = spec.get("type") or ""
    ingress = [
        i.get("ip") or i.get("hostname") for i in _at(found, "status", "loadBalancer", "ingress") or ()
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
        _name(found),
        kind,
        inside,
        outside,
        ports or NONE,
        _age(found, now),
        _map(spec.get("selector")),
    ]


def _endpoints(found: Document, now: float) -> Cells:
    texts = [
        f"{address.get('ip')}:{port.get('port')}"
        for subset in found.get("subsets") or ()
        for port in (subset.get("ports") or ({"port": 0},))
        for address in subset.get("addresses") or ()
    ]
    shown = ",".join(texts[:3]) + (f" + {len(texts) - 3} more..." if len(texts) > 3 else "")
    return [_name(found), shown or NONE, _age(found, now)]


def _endpoint_slice(found: Document, now: float) -> Cells:
    ports = [str(port.get("port", "*")) for port in found.get("ports") or ()]
    addresses = [a for endpoint in found.get("endpoints") or () for a in endpoint.get("addresses") or ()]

    def short(values: list[str]) -> str:
        if not values:
            return UNSET
        more = f" + {len(values) - 3} more..." if len(values) > 3 else ""
        return ",".join(values[:3]) + more

    return [_name(found), found.get("addressType") or "", short(ports), short(addresses), _age(found, now)]


def _role_binding(found: Document, now: float) -> Cells:
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
    return [_name(found), shown, _age(found, now), of("User"), of("Group"), of("ServiceAccount")]


def _quota(found: Document, now: float) -> Cells:
    hard, used = _at(found, "status", "hard") or {}, _at(found, "status", "used") or {}
    requests: list[str] = []
    limits: list[str] = []
    for name in sorted(hard):
        text = f"{name}: {used.get(name, '0')}/{hard[name]}"
        (limits if name.startswith("limits.") else requests).append(text)
    return [_name(found), ", ".join(requests), ", ".join(limits), _age(found, now)]


def _storage_class(found: Document, now: float) -> Cells:
    name = _name(found)
    if _at(found, "metadata", "annotations", "storageclass.kubernetes.io/is-default-class") == "true":
        name += " (default)"
    return [
        name,
        found.get("provisioner") or "",
        found.get("reclaimPolicy") or "Delete",
        found.get("volumeBindingMode") or "Immediate",
        bool(found.get("allowVolumeExpansion")),
        _age(found, now),
    ]


def _csi_driver(found: Document, now: float) -> Cells:
    spec = found.get("spec") or {}
    requests = ",".join(str(r.get("audience", "")) for r in spec.get("tokenRequests") or ())
    modes = ",".join(spec.get("volumeLifecycleModes") or ()) or NONE
    return [
        _name(found),
        bool(spec.get("attachRequired", True)),
        bool(spec.get("podInfoOnMount", False)),
        bool(spec.get("storageCapacity", False)),
        requests or UNSET,
        bool(spec.get("requiresRepublish", False)),
        modes,
        _age(found, now),
    ]


def _controller_revision(found: Document, now: float) -> Cells:
    owners = _at(found, "metadata", "ownerReferences") or ()
    owner = next((o for o in owners if o.get("controller")), None)
    kind, _, group = "", "", ""
    if owner is not None:
        kind, group = str(owner.get("kind", "")).lower(), str(owner.get("apiVersion", "")).rpartition("/")[0]
    shown = f"{kind}{'.' + group if group else ''}/{owner.get('name')}" if owner is not None else NONE
    return [_name(found), shown, found.get("revision", 0), _age(found, now)]


def _resource_claim(found: Document, now: float) -> Cells:
    states = []
    if _at(found, "metadata", "deletionTimestamp"):
        states.append("deleted")
    if _at(found, "status", "allocation") is None:
        if not states:
            states.append("pending")
    else:
        states.append("allocated")
        if _at(found, "status", "reservedFor"):
            states.append("reserved")
    return [_name(found), ",".join(states), _age(found, now)]


def _device_taint_rule(found: Document, now: float) -> Cells:
    taint = _at(found, "spec", "taint") or {}
    return [
        _name(found),
        taint.get("key") or "",
        taint.get("value") or "",
        taint.get("effect") or "",
        _since(taint.get("timeAdded"), now),
        _age(found, now),
    ]


def _plain(*paths: str) -> Callable[[Document, float], Cells]:
    """Name, then the values at *paths* (empty text when absent), then the age."""

    def cells(found: Document, now: float) -> Cells:
        values = [_at(found, *path.split(".")) for path in paths]
        return [_name(found), *("" if value is None else value for value in values), _age(found, now)]

    return cells


_CELLS: dict[str, Callable[[Document, float], Cells]] = {
    "Pod": _pod,
    "Node": _node,
    "Namespace": _plain("status.phase"),
    "ServiceAccount": _plain(),
    "ConfigMap": lambda found, now: [
        _name(found),
        len(found.get("data") or ()) + len(found.get("binaryData") or ()),
        _age(found, now),
    ],
    "Secret": lambda found, now: [
        _name(found),
        found.get("type") or "",
        len(found.get("data") or ()),
        _age(found, now),
    ],
    "PersistentVolume": _persistent_volume,
    "PersistentVolumeClaim": _claim,
    "StorageClass": _storage_class,
    "Deployment": _deployment,
    "ReplicaSet": _replicas,
    "ReplicationController": _replicas,
    "DaemonSet": _daemon_set,
    "StatefulSet": _stateful_set,
    "Job": _job,
    "CronJob": _cron_job,
    "PodDisruptionBudget": _budget,
    "PriorityClass": lambda found, now: [
        _name(found),
        found.get("value", 0),
        bool(found.get("globalDefault")),
        _age(found, now),
        found.get("preemptionPolicy") or "PreemptLowerPriority",
    ],
    "Event": _event,
    "Lease": _plain("spec.holderIdentity"),
    "Service": _service,
    "Endpoints": _endpoints,
    "EndpointSlice": _endpoint_slice,
    "RoleBinding": _role_binding,
    "ClusterRoleBinding": _role_binding,
    "ResourceQuota": _quota,
    "RuntimeClass": _plain("handler"),
    "VolumeAttributesClass": _plain("driverName"),
    "VolumeAttachment": lambda found, now: [
        _name(found),
        _at(found, "spec", "attacher") or "",
        _at(found, "spec", "source", "persistentVolumeName") or "",
        _at(found, "spec", "nodeName") or "",
        bool(_at(found, "status", "attached")),
        _age(found, now),
    ],
    "CSINode": lambda found, now: [
        _name(found),
        len(_at(found, "spec", "drivers") or ()),
        _age(found, now),
    ],
    "CSIDriver": _csi_driver,
    "CSIStorageCapacity": lambda found, now: [
        _name(found),
        found.get("storageClassName") or "",
        found.get("capacity") or UNSET,
    ],
    "MutatingWebhookConfiguration": lambda found, now: [
        _name(found),
        len(found.get("webhooks") or ()),
        _age(found, now),
    ],
    "ValidatingWebhookConfiguration": lambda found, now: [
        _name(found),
        len(found.get("webhooks") or ()),
        _age(found, now),
    ],
    "ControllerRevision": _controller_revision,
    "PodTemplate": lambda found, now: [
        _name(found),
        *_containers(_at(found, "template", "spec")),
        _map(_at(found, "template", "metadata", "labels")),
    ],
    "Scale": lambda found, now: [
        _name(found),
        _count(found, "spec", "replicas"),
        _count(found, "status", "replicas"),
        _age(found, now),
    ],
    "DeviceClass": _plain(),
    "ResourceClaim": _resource_claim,
    "ResourceClaimTemplate": _plain(),
    "ResourceSlice": lambda found, now: [
        _name(found),
        _at(found, "spec", "nodeName") or "",
        _at(found, "spec", "driver") or "",
        _at(found, "spec", "pool", "name") or "",
        _age(found, now),
    ],
    "DeviceTaintRule": _device_taint_rule,
}


def cells_of(kind: Kind, document: Document, now: float) -> Cells:
    """Return the cells of one object, in the order of its kind's columns."""
    return _CELLS[kind.kind](document, now)
