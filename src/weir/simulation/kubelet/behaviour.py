"""Behaviour of simulated containers, from pod annotations and the node's class.

    weir.dev/run-seconds       how long a container runs ("5", or "5,5,60": one number for each start)
    weir.dev/exit-code         its exit code ("1", or "1,1,0": one code for each start)
    weir.dev/stop-seconds      how long it takes to exit after SIGTERM; "ignore": until SIGKILL
    weir.dev/stop-exit-code    its exit code after SIGTERM
    weir.dev/pre-stop-seconds  how long its preStop hook takes
    weir.dev/image-pull        "fail": its image cannot be pulled; a number: so many tries fail first

An annotation applies to the regular containers; with a container's name appended (`weir.dev/exit-code.setup`) to that
one, which is the only form for init, sidecar and ephemeral containers. Without annotations a command that can be
played decides (weir.simulation.kubelet.programs), else the node's class. After SIGTERM a container with restartPolicy
Always exits with 0, like a server that shuts down; others with 143.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from weir.simulation.kubelet.programs.images import is_missing
from weir.simulation.kubelet.programs.play import Play, Stage
from weir.simulation.kubelet.programs.probes import ProbeTimes

Document = dict[str, Any]
PREFIX: Final = "weir.dev/"
RUN_SECONDS: Final = "run-seconds"
EXIT_CODE: Final = "exit-code"
STOP_SECONDS: Final = "stop-seconds"
STOP_EXIT_CODE: Final = "stop-exit-code"
PRE_STOP_SECONDS: Final = "pre-stop-seconds"
IMAGE_PULL: Final = "image-pull"
SETTINGS: Final = (RUN_SECONDS, EXIT_CODE, STOP_SECONDS, STOP_EXIT_CODE, PRE_STOP_SECONDS, IMAGE_PULL)
PROBES: Final = ("startupProbe", "readinessProbe", "livenessProbe")
IGNORES: Final = "ignore"
FAILS: Final = "fail"
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
        found: dict[str, float] = {}
        for name, value in document.items():
            if name not in names:
                raise LifeError(f"life: unknown field {name!r}: there are {', '.join(names)}")
            if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
                raise LifeError(f"life: {name}: {value!r} is no number from 0 on")
            found[names[name]] = float(value)
        return cls(**found)


class Behaviour:
    """How the containers of one pod behave."""

    def __init__(self, pod: Document, life: Life, chance: random.Random, stage: Stage | None = None) -> None:
        """*stage* plays commands; without one they say nothing."""
        annotations: Mapping[str, str] = pod["metadata"].get("annotations") or {}
        self._settings = {
            name[len(PREFIX) :]: text
            for name, text in annotations.items()
            if name.startswith(PREFIX) and name[len(PREFIX) :].partition(".")[0] in SETTINGS
        }
        self._life, self._chance, self._stage = life, chance, stage
        self._runs_for_ever = pod["spec"].get("restartPolicy", "Always") == "Always"

    def problems(self) -> Iterator[str]:
        """Yield the annotations that cannot be used; what the node's class says counts instead."""
        for name, text in sorted(self._settings.items()):
            setting = name.partition(".")[0]
            if setting == IMAGE_PULL:
                fine = text == FAILS or text.isdigit()
            elif setting == STOP_SECONDS and text == IGNORES:
                fine = True
            elif setting in (EXIT_CODE, STOP_EXIT_CODE):
                fine = all(_code(each) is not None for each in text.split(","))
            else:
                fine = all(_seconds(each) is not None for each in text.split(","))
            if not fine:
                yield f"annotation {PREFIX}{name}: {text[:60]!r} cannot be used; the node's class decides"

    def start_seconds(self) -> float:
        """Return how long it takes until the pod's containers can start."""
        return self._varied(self._life.start_seconds)

    def play(self, pod: Document, container: Document, start: int, now: float) -> Play | None:
        """Return how the command of a container goes that is started now, if it can be played."""
        return self._stage.play(pod, container, start, now) if self._stage is not None else None

    def probes(self, pod: Document, container: Document, start: int, now: float) -> ProbeTimes:
        """Return when the probes of a container that starts now let it be ready, and end it."""
        if self._stage is None or not any(name in container for name in PROBES):
            return ProbeTimes()
        return self._stage.probes(pod, container, start, now)

    def missing(self, pod: Document, container: Document) -> str:
        """Return the ConfigMap, Secret or key that a container cannot be created without, or ""."""
        return self._stage.missing(pod, container) if self._stage is not None else ""

    def stopped(self, pod: Document, container: Document, start: int, now: float) -> None:
        """Note that a container whose command was played has ended, perhaps before its time."""
        if self._stage is not None:
            self._stage.stop(pod, container, start, now)

    def run_seconds(
        self, container: str, start: int, *, ordinary: bool, init: bool = False, play: Play | None = None
    ) -> float:
        """Return how long the container runs when it is started for the *start*-th time (0, 1, …)."""
        asked: float | None = _nth(self._text(RUN_SECONDS, container, ordinary), start, _seconds)
        if asked is not None:
            return asked
        if play is not None:
            return play.seconds
        if init:
            return 0.0
        return math.inf if self._runs_for_ever or not ordinary else self._varied(self._life.run_seconds)

    def exit_code(self, container: str, start: int, *, ordinary: bool, play: Play | None = None) -> int:
        """Return how the container ends by itself."""
        asked: int | None = _nth(self._text(EXIT_CODE, container, ordinary), start, _code)
        if asked is not None:
            return asked
        if play is not None:
            return play.exit_code
        rate = self._life.failure_rate if ordinary else 0.0
        return 1 if rate and self._chance.random() < rate else 0

    def stop_seconds(self, container: str, *, ordinary: bool, play: Play | None = None) -> float:
        """Return how long the container runs on after SIGTERM; for ever if it ignores it."""
        text = self._text(STOP_SECONDS, container, ordinary)
        if text == IGNORES:
            return math.inf
        asked = _seconds(text)
        if asked is None and play is not None and play.on_term is not None:
            return play.on_term[0]
        return self._varied(self._life.terminate_seconds) if asked is None else asked

    def stop_exit_code(self, container: str, *, ordinary: bool, play: Play | None = None) -> int:
        """Return how the container ends after SIGTERM."""
        asked = _code(self._text(STOP_EXIT_CODE, container, ordinary))
        if asked is not None:
            return asked
        if play is not None and play.on_term is not None:
            return play.on_term[1]
        return 0 if self._runs_for_ever or not ordinary else INTERRUPTED

    def pre_stop_seconds(
        self, container: Document, *, ordinary: bool, pod: Document | None = None, now: float = 0.0
    ) -> float:
        """Return how long the container's preStop hook takes: as long as its `sleep` or its command says."""
        hook = (container.get("lifecycle") or {}).get("preStop")
        if not hook:
            return 0.0
        asked = _seconds(self._text(PRE_STOP_SECONDS, container["name"], ordinary))
        if asked is not None:
            return asked
        command = (hook.get("exec") or {}).get("command")
        if command and pod is not None and self._stage is not None:
            return self._stage.hook_seconds(pod, container, command, now) or 0.0
        return float((hook.get("sleep") or {}).get("seconds") or 0)

    def failed_pulls(self, container: str, *, ordinary: bool, image: str = "") -> float:
        """Return how many tries to pull the container's image fail."""
        text = self._text(IMAGE_PULL, container, ordinary)
        if text.isdigit():
            return int(text)
        return math.inf if text == FAILS or is_missing(image) else 0

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
