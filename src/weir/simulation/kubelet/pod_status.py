"""Pod status: phase, conditions and container statuses, as a kubelet writes them.

Spec: core/v1 PodStatus; KEP-3085 (PodReadyToStartContainers), KEP-580 (readiness gates). Reasons and messages are
Kubernetes'. A phase is final only when no container runs, also for pods that would be restarted; a condition keeps
its lastTransitionTime while its status is unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from weir.objects.times import format_time
from weir.simulation.kubelet.container_lifecycle import Container, Ended, Role, State
from weir.simulation.kubelet.pod_lifecycle import PodLife

Document = dict[str, Any]
_PARTS: Final = (
    ("initContainerStatuses", (Role.INIT, Role.SIDECAR)),
    ("containerStatuses", (Role.ORDINARY,)),
    ("ephemeralContainerStatuses", (Role.EPHEMERAL,)),
)


def phase_of(life: PodLife) -> str:
    """Return the phase of a pod."""
    ordinary = [each for each in life.containers if each.ordinary]
    if life.over:
        failed = life.ending is not None and life.ending.reason
        fine = not failed and all(each.ended is not None and each.ended.exit_code == 0 for each in ordinary)
        return "Succeeded" if fine else "Failed"
    if not all(each.done for each in life.containers if each.role in (Role.INIT, Role.SIDECAR)):
        return "Pending"
    return "Pending" if any(not each.starts for each in ordinary) else "Running"


def status_of(life: PodLife, host_ip: str, pod_ip: str, before: Iterable[Document], now: str) -> Document:
    """Return the status that a kubelet would write now; *before* are the conditions so far."""
    phase = phase_of(life)
    status: Document = {"phase": phase, "startTime": _printed(life.started_at)}
    generation = life.pod["metadata"].get("generation") if life.over else life.generation
    if generation is not None:
        status["observedGeneration"] = generation
    if life.ending is not None and life.over and life.ending.reason:
        status["reason"], status["message"] = life.ending.reason, life.ending.message
    status["hostIP"], status["hostIPs"] = host_ip, [{"ip": host_ip}]
    if life.sandbox:
        status["podIP"], status["podIPs"] = pod_ip, [{"ip": pod_ip}]
    status["conditions"] = list(_dated(conditions_of(life, phase), before, now))
    if generation is not None:
        for each in status["conditions"]:
            each["observedGeneration"] = generation
    for part, roles in _PARTS:
        found = [container_status(each) for each in life.containers if each.role in roles]
        if found:
            status[part] = found
    return status


def container_status(container: Container) -> Document:
    """Return what the status says about one container."""
    spec, running = container.spec, container.state is State.RUNNING
    image = spec.get("image", "")
    status: Document = {
        "name": container.name,
        "image": image,
        "imageID": f"weir.dev/simulated/{image}" if container.starts else "",
        "ready": container.ready if container.role is not Role.INIT else container.done,
        "started": container.started if container.role is not Role.INIT else running,
        "restartCount": max(container.starts - 1, 0),
        "state": _state(container),
    }
    if container.starts:
        status["containerID"] = f"weir://{container.name}"
        if container.starts > 1:
            status["containerID"] += f"/{container.starts - 1}"
    if container.last is not None:
        status["lastState"] = {"terminated": _terminated(container.last)}
    return status


def _state(container: Container) -> Document:
    if container.state is State.RUNNING:
        return {"running": {"startedAt": _printed(container.started_at)}}
    if container.ended is not None:
        return {"terminated": _terminated(container.ended)}
    waiting = {"reason": container.reason}
    if container.message:
        waiting["message"] = container.message
    return {"waiting": waiting}


def _terminated(ended: Ended) -> Document:
    found: Document = {
        "exitCode": ended.exit_code,
        "reason": ended.reason,
        "startedAt": _printed(ended.started_at),
        "finishedAt": _printed(ended.finished_at),
    }
    if ended.message:
        found["message"] = ended.message
    return found


# ── conditions ───────────────────────────────────────────────────────────────────────────────────


def conditions_of(life: PodLife, phase: str) -> Iterator[Document]:
    """Yield the conditions a kubelet writes, without times."""
    yield _condition("PodReadyToStartContainers", life.sandbox and not life.over)
    yield _initialized(life, phase)
    ready = _containers_ready(life, phase)
    yield {**ready, "type": "Ready"} if ready["status"] != "True" else _gated(life.pod)
    yield ready


def _initialized(life: PodLife, phase: str) -> Document:
    if phase == "Succeeded":
        return _condition("Initialized", True, "PodCompleted")
    started = any(each.ordinary and each.starts for each in life.containers)
    incomplete = [
        each.name for each in life.containers if each.role in (Role.INIT, Role.SIDECAR) and not each.done
    ]
    if started or not incomplete:
        return _condition("Initialized", True)
    message = f"containers with incomplete status: [{' '.join(incomplete)}]"
    return _condition("Initialized", False, "ContainersNotInitialized", message)


def _containers_ready(life: PodLife, phase: str) -> Document:
    if phase in ("Succeeded", "Failed"):
        return _condition("ContainersReady", False, "PodCompleted" if phase == "Succeeded" else "PodFailed")
    unready = [
        each.name for each in life.containers if each.role in (Role.SIDECAR, Role.ORDINARY) and not each.ready
    ]
    if unready:
        message = f"containers with unready status: [{' '.join(unready)}]"
        return _condition("ContainersReady", False, "ContainersNotReady", message)
    return _condition("ContainersReady", True)


def _gated(pod: Document) -> Document:
    """Return Ready of a pod whose containers are: its readiness gates decide."""
    found = {each["type"]: each for each in (pod.get("status") or {}).get("conditions") or ()}
    problems = []
    for gate in pod["spec"].get("readinessGates") or ():
        name = gate["conditionType"]
        if name not in found:
            problems.append(f'corresponding condition of pod readiness gate "{name}" does not exist.')
        elif found[name].get("status") != "True":
            status = found[name].get("status")
            problems.append(f'the status of pod readiness gate "{name}" is not "True", but {status}')
    if problems:
        return _condition("Ready", False, "ReadinessGatesNotReady", ", ".join(problems))
    return _condition("Ready", True)


def _condition(type: str, holds: bool, reason: str = "", message: str = "") -> Document:
    found: Document = {"type": type, "status": "True" if holds else "False"}
    if reason:
        found["reason"] = reason
    if message:
        found["message"] = message
    return found


def _dated(conditions: Iterable[Document], present: Iterable[Document], now: str) -> Iterator[Document]:
    """Yield conditions with the times since when they are so; a reason or message that is gone is taken away."""
    before = {each["type"]: each for each in present}
    for each in conditions:
        earlier = before.get(each["type"]) or {}
        same = earlier.get("status") == each["status"]
        since = (earlier.get("lastTransitionTime") if same else None) or now
        gone: Document = {
            name: None for name in ("reason", "message") if name in earlier and name not in each
        }
        yield {**each, **gone, "lastProbeTime": None, "lastTransitionTime": since}


def _printed(at: float) -> str:
    return format_time(datetime.fromtimestamp(at, UTC))
