"""What happens to a pod on its node, and when? Its life as a table of stages.

A stage applies while a pod looks a certain way (a phase, being deleted or not), lasts a while, and leaves
the pod looking another way. Times and how often something fails come from the node's class; a pod may say
otherwise in its annotations (`weir.dev/run-seconds`, `weir.dev/exit-code`).
Not here: carrying it out (weir.simulation.kubelet.run), whether the pod may start (weir.simulation.kubelet.admit).
"""

from __future__ import annotations

import math
import random
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

Document = dict[str, Any]
RUN_SECONDS: Final = "weir.dev/run-seconds"
EXIT_CODE: Final = "weir.dev/exit-code"


@dataclass(frozen=True)
class Life:
    """How long the stages of pods last on a node, in seconds, and how often containers fail."""

    start_seconds: float = 1.0
    run_seconds: float = 5.0  #: of pods that end by themselves (restartPolicy Never or OnFailure)
    terminate_seconds: float = 1.0
    jitter: float = 0.0  #: up to this share is added at random
    failure_rate: float = 0.0  #: how often a pod that ends by itself fails

    @classmethod
    def read(cls, document: Document) -> Life:
        """Return the life that a class file or annotation describes; unknown names are an error.

        >>> Life.read({"startSeconds": 2}).start_seconds
        2.0
        """
        names = {
            "startSeconds": "start_seconds",
            "runSeconds": "run_seconds",
            "terminateSeconds": "terminate_seconds",
            "jitter": "jitter",
            "failureRate": "failure_rate",
        }
        found: dict[str, float] = {}
        for name, value in document.items():
            if name not in names:
                raise LifeError(f"life: unknown field {name!r}: there are {', '.join(names)}")
            if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
                raise LifeError(f"life: {name}: {value!r} is no number from 0 on")
            found[names[name]] = float(value)
        return cls(**found)


class LifeError(ValueError):
    """A description of pods' lives that cannot be used."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One row of the table."""

    name: str
    phase: str  #: the phase a pod is in while the stage lasts
    deleting: bool
    ends_by_itself: bool | None  #: None: whichever
    lasts: str  #: the field of Life that says how long


#: The first row that fits is the stage a pod is in; a pod that fits none stays as it is.
STAGES: Final = (
    Stage("terminate", "*", True, None, "terminate_seconds"),
    Stage("start", "Pending", False, None, "start_seconds"),
    Stage("finish", "Running", False, True, "run_seconds"),
)


def stage_of(pod: Document) -> Stage | None:
    """Return the stage a pod is in; None when nothing will happen to it by itself.

    >>> stage_of({"metadata": {}, "spec": {"restartPolicy": "Never"}, "status": {"phase": "Running"}}).name
    'finish'
    """
    phase = pod.get("status", {}).get("phase") or "Pending"
    deleting = bool(pod["metadata"].get("deletionTimestamp"))
    for stage in STAGES:
        if stage.deleting != deleting or stage.phase not in ("*", phase):
            continue
        if stage.ends_by_itself is None or stage.ends_by_itself == ends_by_itself(pod):
            return stage
    return None


def ends_by_itself(pod: Document) -> bool:
    """Return whether the pod's containers are meant to finish."""
    annotations = pod["metadata"].get("annotations") or {}
    return pod["spec"].get("restartPolicy", "Always") != "Always" or RUN_SECONDS in annotations


def lasts_seconds(stage: Stage, pod: Document, life: Life, chance: random.Random) -> float:
    """Return how long the stage lasts for this pod."""
    seconds: float = getattr(life, stage.lasts)
    if stage.name == "finish":
        text = (pod["metadata"].get("annotations") or {}).get(RUN_SECONDS, "")
        with suppress(ValueError):  # not a number: the node's own time counts
            asked = float(text)
            seconds = asked if 0 <= asked < math.inf else seconds
    if stage.name == "terminate":
        grace = pod["metadata"].get("deletionGracePeriodSeconds")
        seconds = min(seconds, grace) if grace is not None else seconds
        if (pod.get("status", {}).get("phase") or "Pending") in ("Succeeded", "Failed"):
            return 0.0
    return seconds * (1 + life.jitter * chance.random()) if life.jitter else seconds


def started_status(pod: Document, now: str, host_ip: str, pod_ip: str) -> Document:
    """Return the status of a pod whose containers run."""
    started = {"running": {"startedAt": now}}
    status: Document = {
        "phase": "Running",
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        "startTime": pod.get("status", {}).get("startTime") or now,
        "conditions": conditions("True", now),
        "containerStatuses": [_container(c, started, True) for c in pod["spec"]["containers"]],
    }
    if pod["spec"].get("initContainers"):
        done = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}}
        status["initContainerStatuses"] = [
            _container(c, started if c.get("restartPolicy") == "Always" else done, True)
            for c in pod["spec"]["initContainers"]
        ]
    return status


def ended_status(pod: Document, now: str, exit_code: int) -> Document:
    """Return the status of a pod whose containers have ended."""
    started = pod.get("status", {}).get("startTime") or now
    reason = "Completed" if exit_code == 0 else "Error"
    state = {"terminated": {"exitCode": exit_code, "reason": reason, "startedAt": started, "finishedAt": now}}
    return {
        "phase": "Succeeded" if exit_code == 0 else "Failed",
        "conditions": conditions("False", now, "PodCompleted" if exit_code == 0 else "PodFailed"),
        "containerStatuses": [_container(c, state, False) for c in pod["spec"]["containers"]],
    }


def exit_code(pod: Document, life: Life, chance: random.Random) -> int:
    """Return how the containers of a pod end."""
    text = (pod["metadata"].get("annotations") or {}).get(EXIT_CODE, "")
    if text.isdigit():
        return int(text) & 0xFF
    return 1 if life.failure_rate and chance.random() < life.failure_rate else 0


def conditions(ready: str, now: str, reason: str = "") -> list[Document]:
    """Return the conditions a kubelet writes."""
    found = []
    for type in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"):
        status = ready if type in ("Ready", "ContainersReady", "PodReadyToStartContainers") else "True"
        condition: Document = {
            "type": type,
            "status": status,
            "lastProbeTime": None,
            "lastTransitionTime": now,
        }
        if reason and type != "PodReadyToStartContainers":
            condition["reason"] = reason
        found.append(condition)
    return found


def _container(container: Document, state: Document, ready: bool) -> Document:
    name, image = container["name"], container.get("image", "")
    return {
        "name": name,
        "image": image,
        "imageID": f"weir.dev/simulated/{image}",
        "containerID": f"weir://{name}",
        "ready": ready,
        "started": "running" in state,
        "restartCount": 0,
        "state": state,
    }
