"""Declared behaviour of simulated containers: pod annotations, known commands, the node's class.

    weir.dev/run-seconds          how long a container runs ("5", or "5,5,60": one number for each start)
    weir.dev/exit-code            its exit code ("1", or "1,1,0": one code for each start)
    weir.dev/output               what it prints when it starts
    weir.dev/termination-message  the message that it leaves when it ends by itself
    weir.dev/startup-seconds      when its startupProbe succeeds; "never"
    weir.dev/ready-seconds        when its readinessProbe succeeds; "never"
    weir.dev/healthy-seconds      until when its livenessProbe succeeds
    weir.dev/stop-seconds         how long it takes to exit after SIGTERM; "ignore": until SIGKILL
    weir.dev/stop-exit-code       its exit code after SIGTERM
    weir.dev/pre-stop-seconds     how long its preStop hook takes
    weir.dev/image-pull           "fail": its image cannot be pulled; a number: so many tries fail first

An annotation applies to the regular containers; with a container's name appended (`weir.dev/exit-code.setup`) to that
one, which is the only form for init, sidecar and ephemeral containers. Without annotations a known command decides
(weir.simulation.kubelet.commands), else the node's class. After SIGTERM a container with restartPolicy Always exits
with 0, like a server that shuts down; others with 143.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from weir.simulation.kubelet.commands import MOST_OUTPUT, Outcome, Output, command_outcome, is_missing
from weir.simulation.kubelet.preparation import Missing, Objects, check

# ── times at which the probes of a container make it started, ready or restarted ──
# Spec: core/v1 Probe; the numbers that are not set are Kubernetes' defaults. When a probe succeeds is declared
# (weir.simulation.kubelet.behaviour); a container that was ready stays ready until it exits.


PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


class ProbeTimes(NamedTuple):
    """Seconds after a container's start."""

    started: float = 0.0  #: when its startup probe has succeeded
    ready: float = 0.0
    killed: float = math.inf  #: when a startup or liveness probe has failed too often


def probe_times(
    container: Mapping[str, Any],
    *,
    startup_from: float = 0.0,
    ready_from: float = 0.0,
    healthy_until: float = math.inf,
) -> ProbeTimes:
    """Return when a container is started, ready and killed whose probes succeed from or until a number of seconds.

    >>> probe_times({"readinessProbe": {"initialDelaySeconds": 30}})
    ProbeTimes(started=0.0, ready=30.0, killed=inf)
    """
    started, killed = 0.0, math.inf
    if (startup := container.get("startupProbe")) is not None:
        started = _succeeded(startup, 0.0, startup_from)
        if (failed := _failed(startup, 0.0, 0.0)) < started:
            return ProbeTimes(math.inf, math.inf, failed)
    ready = started
    if (readiness := container.get("readinessProbe")) is not None:
        ready = _succeeded(readiness, started, ready_from)
    if (liveness := container.get("livenessProbe")) is not None:
        killed = _failed(liveness, started, healthy_until)
    return ProbeTimes(started, ready, killed)


def _succeeded(probe: Mapping[str, Any], since: float, at: float) -> float:
    """Return when a probe that succeeds from *at* on has succeeded often enough."""
    return _run_at(probe, since, at) + (int(probe.get("successThreshold") or 1) - 1) * _period(probe)


def _failed(probe: Mapping[str, Any], since: float, at: float) -> float:
    """Return when a probe that fails from *at* on has failed so often that its container is killed."""
    return _run_at(probe, since, at) + (int(probe.get("failureThreshold") or 3) - 1) * _period(probe)


def _run_at(probe: Mapping[str, Any], since: float, at: float) -> float:
    """Return the first time from *at* on at which the probe runs."""
    first = max(since, float(probe.get("initialDelaySeconds") or 0))
    return first + max(math.ceil((at - first) / _period(probe)), 0) * _period(probe) if at < math.inf else at


def _period(probe: Mapping[str, Any]) -> float:
    return float(probe.get("periodSeconds") or 10)


Document = dict[str, Any]
PREFIX: Final = "weir.dev/"
RUN_SECONDS: Final = "run-seconds"
EXIT_CODE: Final = "exit-code"
OUTPUT: Final = "output"
TERMINATION_MESSAGE: Final = "termination-message"
STARTUP_SECONDS: Final = "startup-seconds"
READY_SECONDS: Final = "ready-seconds"
HEALTHY_SECONDS: Final = "healthy-seconds"
STOP_SECONDS: Final = "stop-seconds"
STOP_EXIT_CODE: Final = "stop-exit-code"
PRE_STOP_SECONDS: Final = "pre-stop-seconds"
IMAGE_PULL: Final = "image-pull"
TEXTS: Final = (OUTPUT, TERMINATION_MESSAGE)
SETTINGS: Final = (
    *(RUN_SECONDS, EXIT_CODE, STARTUP_SECONDS, READY_SECONDS, HEALTHY_SECONDS),
    *(STOP_SECONDS, STOP_EXIT_CODE, PRE_STOP_SECONDS, IMAGE_PULL, *TEXTS),
)
#: The word that a setting takes beside a number.
WORDS: Final = {
    STOP_SECONDS: "ignore",
    STARTUP_SECONDS: "never",
    READY_SECONDS: "never",
    IMAGE_PULL: "fail",
}
LONGEST_MESSAGE: Final = 4096
INTERRUPTED: Final = 143  # 128 + SIGTERM


class LifeError(ValueError):
    """An invalid behaviour description."""


@dataclass(frozen=True)
class Life:
    """How long the stages of pods last on a node, in seconds, and how often containers fail."""

    start_seconds: float = 1.0
    run_seconds: float = 5.0  #: of pods that end by themselves (restartPolicy Never or OnFailure)
    terminate_seconds: float = 1.0  #: from SIGTERM to the end of a container
    jitter: float = 0.0  #: up to this share is added at random
    failure_rate: float = 0.0  #: how often a container that ends by itself fails

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
        life: dict[str, float] = {}
        for name, value in document.items():
            if name not in names:
                raise LifeError(f"life: unknown field {name!r}: there are {', '.join(names)}")
            if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
                raise LifeError(f"life: {name}: {value!r} is no number from 0 on")
            life[names[name]] = float(value)
        return cls(**life)


class Behaviour:
    """How the containers of one pod behave."""

    def __init__(self, pod: Document, life: Life, chance: random.Random) -> None:
        #: what the pod refers to, as it was when its containers were last created; None: not checked
        self.objects: Objects | None = None
        annotations: Mapping[str, str] = pod["metadata"].get("annotations") or {}
        self._settings = {
            name[len(PREFIX) :]: text
            for name, text in annotations.items()
            if name.startswith(PREFIX) and name[len(PREFIX) :].partition(".")[0] in SETTINGS
        }
        self._life, self._chance = life, chance
        self._runs_for_ever = pod["spec"].get("restartPolicy", "Always") == "Always"

    def problems(self) -> Iterator[str]:
        """Yield the annotations that cannot be used; what the node's class says counts instead."""
        for name, text in sorted(self._settings.items()):
            setting = name.partition(".")[0]
            if setting in TEXTS or text == WORDS.get(setting):
                continue
            if setting == IMAGE_PULL:
                fine = text.isdigit()
            elif setting in (EXIT_CODE, STOP_EXIT_CODE):
                fine = all(_code(each) is not None for each in text.split(","))
            else:
                fine = all(_seconds(each) is not None for each in text.split(","))
            if not fine:
                yield f"annotation {PREFIX}{name}: {text[:60]!r} cannot be used; the node's class decides"

    def start_seconds(self) -> float:
        """Return how long it takes until the pod's containers can start."""
        return self._varied(self._life.start_seconds)

    def missing(self, pod: Document, container: Document) -> str:
        """Return what a container cannot be created without, or ""."""
        try:
            if self.objects is not None:
                check(pod, container, self.objects)
        except Missing as missing:
            return str(missing)
        return ""

    def run_seconds(
        self,
        container: str,
        start: int,
        *,
        ordinary: bool,
        init: bool = False,
        outcome: Outcome | None = None,
    ) -> float:
        """Return how long the container runs when it is started for the *start*-th time (0, 1, …)."""
        declared: float | None = _nth(self._text(RUN_SECONDS, container, ordinary), start, _seconds)
        if declared is not None:
            return declared
        if outcome is not None:
            return outcome.seconds
        if init:
            return 0.0
        return math.inf if self._runs_for_ever or not ordinary else self._varied(self._life.run_seconds)

    def exit_code(self, container: str, start: int, *, ordinary: bool, outcome: Outcome | None = None) -> int:
        """Return how the container ends by itself."""
        declared: int | None = _nth(self._text(EXIT_CODE, container, ordinary), start, _code)
        if declared is not None:
            return declared
        if outcome is not None:
            return outcome.exit_code
        rate = self._life.failure_rate if ordinary else 0.0
        return 1 if rate and self._chance.random() < rate else 0

    def output(self, container: str, *, ordinary: bool, outcome: Outcome | None = None) -> Output | None:
        """Return what the container prints, and when; None when that is not known."""
        if text := self._text(OUTPUT, container, ordinary):
            return ((0.0, text[:MOST_OUTPUT]),)
        return outcome.output if outcome is not None else None

    def termination_message(self, container: str, *, ordinary: bool, outcome: Outcome | None = None) -> str:
        """Return the message that the container leaves when it ends by itself."""
        declared = self._text(TERMINATION_MESSAGE, container, ordinary)
        return (declared or (outcome.message if outcome is not None else ""))[:LONGEST_MESSAGE]

    def probes(self, container: Document, *, ordinary: bool) -> ProbeTimes:
        """Return when the probes of a container let it be ready, and end it."""
        if not any(name in container for name in PROBES):
            return ProbeTimes()
        name = container["name"]
        startup, ready, healthy = (
            self._probe_seconds(container.get(probe) or {}, self._text(setting, name, ordinary))
            for probe, setting in zip(PROBES, (STARTUP_SECONDS, READY_SECONDS, HEALTHY_SECONDS), strict=True)
        )
        return probe_times(
            container,
            startup_from=startup or 0.0,
            ready_from=ready or 0.0,
            healthy_until=math.inf if healthy is None else 0.0 if healthy == math.inf else healthy,
        )

    @staticmethod
    def _probe_seconds(probe: Document, declared: str) -> float | None:
        """Return the declared time of a probe, infinity when its known command fails, None when nothing says."""
        if declared == "never":
            return math.inf
        seconds = _seconds(declared)
        outcome = command_outcome((probe.get("exec") or {}).get("command") or ())
        if seconds is not None or outcome is None:
            return seconds
        fails = outcome.exit_code or outcome.seconds > float(probe.get("timeoutSeconds") or 1)
        return math.inf if fails else None

    def stop_seconds(self, container: str, *, ordinary: bool) -> float:
        """Return how long the container runs on after SIGTERM; for ever if it ignores it."""
        text = self._text(STOP_SECONDS, container, ordinary)
        if text == WORDS[STOP_SECONDS]:
            return math.inf
        declared = _seconds(text)
        return self._varied(self._life.terminate_seconds) if declared is None else declared

    def stop_exit_code(self, container: str, *, ordinary: bool, outcome: Outcome | None = None) -> int:
        """Return how the container ends after SIGTERM."""
        declared = _code(self._text(STOP_EXIT_CODE, container, ordinary))
        if declared is not None:
            return declared
        if outcome is not None and outcome.stop_exit_code is not None:
            return outcome.stop_exit_code
        return 0 if self._runs_for_ever or not ordinary else INTERRUPTED

    def pre_stop_seconds(self, container: Document, *, ordinary: bool) -> float:
        """Return how long the container's preStop hook takes: as long as its `sleep` or its known command says."""
        hook = (container.get("lifecycle") or {}).get("preStop")
        if not hook:
            return 0.0
        declared = _seconds(self._text(PRE_STOP_SECONDS, container["name"], ordinary))
        if declared is not None:
            return declared
        outcome = command_outcome((hook.get("exec") or {}).get("command") or ())
        return (
            outcome.seconds if outcome is not None else float((hook.get("sleep") or {}).get("seconds") or 0)
        )

    def failed_pulls(self, container: str, *, ordinary: bool, image: str = "") -> float:
        """Return how many tries to pull the container's image fail."""
        text = self._text(IMAGE_PULL, container, ordinary)
        if text.isdigit():
            return int(text)
        return math.inf if text == WORDS[IMAGE_PULL] or is_missing(image) else 0

    def _text(self, setting: str, container: str, ordinary: bool) -> str:
        own = self._settings.get(f"{setting}.{container}")
        if own is not None:
            return own
        return self._settings.get(setting, "") if ordinary else ""

    def _varied(self, seconds: float) -> float:
        jitter = self._life.jitter
        return seconds * (1 + jitter * self._chance.random()) if jitter else seconds


def _seconds(text: str) -> float | None:
    """Return a number of seconds, or None.

    >>> _seconds("2.5"), _seconds("soon"), _seconds("-1"), _seconds("nan")
    (2.5, None, None, None)
    """
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < math.inf else None


def _code(text: str) -> int | None:
    """Return an exit code, or None.

    >>> _code("3"), _code("256"), _code("x")
    (3, None, None)
    """
    return int(text) if text.isdigit() and int(text) < 256 else None


def _nth(text: str, number: int, read: Any) -> Any:
    """Return the *number*-th of a comma-separated list, the last one for all that follow.

    >>> [_nth("1,1,0", number, _code) for number in range(5)]
    [1, 1, 0, 0, 0]
    """
    if "," not in text:
        return read(text)
    values = text.split(",")
    return read(values[min(number, len(values) - 1)])
