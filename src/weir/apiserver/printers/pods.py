"""Table cells of pods, with the status derived from phase, conditions and container states.

Spec: apiserver.md 11 "Tables", "Cells".
"""

from __future__ import annotations

from weir.apiserver.printers.values import (
    NONE,
    Cells,
    Document,
    age,
    at,
    condition_of,
    is_true,
    name_of,
    since,
)


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


def pod_cells(pod: Document, now: float) -> Cells:
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
