"""Plays a container's command ahead: output, files, exit code.

Spec: core/v1 Container (command, args, terminationMessagePath, terminationMessagePolicy); decision 89. A command that
is understood completely decides its container's behaviour unless an annotation does; others use the node's class.
Nothing is executed: files are those of simulated containers, and there is no network.
"""

from __future__ import annotations

import math
import posixpath
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from weir.simulation.kubelet.programs import images
from weir.simulation.kubelet.programs.commands import find
from weir.simulation.kubelet.programs.environment import (
    NOTHING,
    Missing,
    Objects,
    environment,
    expand_all,
    hostnames,
    sub_path,
)
from weir.simulation.kubelet.programs.files import Files, Place
from weir.simulation.kubelet.programs.probes import ProbeTimes, predict_probes
from weir.simulation.kubelet.programs.shell import Exit, ForEver, Printed, Shell, text_of
from weir.simulation.kubelet.programs.syntax import Unplayable, parse

Document = Mapping[str, Any]
TERMINATION_LOG: Final = "/dev/termination-log"
LONGEST_MESSAGE: Final = 4096
LONGEST_LOG_MESSAGE: Final = 2048
MOST_LOG_LINES: Final = 80


@dataclass(frozen=True, slots=True)
class Play:
    """One run of a container, computed ahead."""

    seconds: float  #: until it ends by itself
    exit_code: int
    printed: tuple[Printed, ...] = ()
    message: str = ""  #: what it left for the status
    on_term: tuple[float, int] | None = None  #: after how many seconds, and how, it ends after SIGTERM


class Stage:
    """The containers of one pod, with the files they see."""

    def __init__(self, node: Document, files: Files, chance: random.Random) -> None:
        self._node, self._files, self._chance = node, files, chance
        self.objects: Objects = NOTHING  #: what the pod refers to
        self.addresses: Document = {}  #: of the pod, as its status will show them

    def missing(self, pod: Document, container: Document) -> str:
        """Return what a container cannot be created without, or ""."""
        try:
            variables = environment(pod, container, self._node, self.objects)
            for mount in container.get("volumeMounts") or ():
                sub_path(mount, variables)
        except Missing as missing:
            return str(missing)
        except Unplayable:
            pass
        return ""

    def play(self, pod: Document, container: Document, start: int, now: float) -> Play | None:
        """Return how a container that is started now for the *start*-th time goes; None when that is not known."""
        disk = _Disk(pod, container, self._files, start, now)
        try:
            shown = {**pod, "status": {**(pod.get("status") or {}), **self.addresses}}
            variables = environment(shown, container, self._node, self.objects)
            words = images.program(
                container.get("image", ""),
                expand_all(container.get("command") or (), variables),
                expand_all(container.get("args") or (), variables),
            )
            if not words:
                return None
            disk.variables = variables
            disk.begin()
            shell = Shell(variables, disk, find, lambda: self._chance.randrange(32768), *hostnames(pod))
            return _played(shell, words, container, disk)
        except (Unplayable, Missing):
            disk.undo()
            return None

    def probes(self, pod: Document, container: Document, start: int, now: float) -> ProbeTimes:
        """Return when the probes of a container that starts now let it be ready, and end it."""

        def answer(probe: Document, after: float) -> bool | None:
            command = (probe.get("exec") or {}).get("command")
            found = self._run(pod, container, command, start, now + after) if command else None
            if found is None:
                return None
            return found.exit_code == 0 and found.seconds <= float(probe.get("timeoutSeconds") or 1)

        return predict_probes(container, answer)

    def hook_seconds(
        self, pod: Document, container: Document, command: Sequence[str], now: float
    ) -> float | None:
        """Return how long a command of a hook takes; None when it cannot be played."""
        found = self._run(pod, container, command, 0, now)
        return None if found is None else found.seconds

    def _run(
        self, pod: Document, container: Document, command: Sequence[str], start: int, at: float
    ) -> Play | None:
        """Play a command inside a container that is there."""
        disk = _Disk(pod, container, self._files, start, at)
        try:
            variables = disk.variables = environment(pod, container, self._node, self.objects)
            shell = Shell(variables, disk, find, lambda: self._chance.randrange(32768), *hostnames(pod))
            return _played(shell, tuple(command), container, disk)
        except (Unplayable, Missing):
            return None

    def stop(self, pod: Document, container: Document, start: int, now: float) -> None:
        """Note that a run of a container ended now: what it was to write later is not written."""
        for owner in (pod["metadata"]["uid"], pod["spec"].get("nodeName", "")):
            self._files.undo(owner, _writer(pod, container, start), now)


def _played(shell: Shell, words: tuple[str, ...], container: Document, disk: _Disk) -> Play:
    try:
        code = find(words[0])(shell, words[1:], "")
    except Exit as exit:
        code = exit.code
    except ForEver:
        return Play(math.inf, 0, tuple(shell.printed), on_term=_trapped(shell))
    path = container.get("terminationMessagePath") or TERMINATION_LOG
    message = (disk.read(path, shell.after) or "")[:LONGEST_MESSAGE]
    if not message and code and container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
        lines = text_of(shell.printed).splitlines(keepends=True)
        message = "".join(lines[-MOST_LOG_LINES:])[-LONGEST_LOG_MESSAGE:]
    return Play(shell.after, code, tuple(shell.printed), message, _trapped(shell))


def _trapped(shell: Shell) -> tuple[float, int] | None:
    """Return how a script ends that catches SIGTERM; one whose trap does not exit goes on until it is killed."""
    text = shell.traps.get("TERM")
    if text is None:
        return None
    after = Shell(
        dict(shell.variables),
        NoDisk(),
        find,
        shell.random,
        shell.hostname,
        shell.full_hostname,
        functions=shell.functions,
    )
    try:
        after.run(parse(text))
    except Exit as exit:
        return after.after, exit.code
    except ForEver:
        pass
    return math.inf, 0


class NoDisk:
    """No files: what a trap writes is not looked at."""

    uses = 0

    def read(self, path: str, after: float) -> str | None:
        return None

    def write(self, path: str, text: str | None, after: float) -> None:
        pass

    def is_folder(self, path: str, after: float) -> bool:
        return False


class _Disk:
    """The files of one run of a container, by path."""

    def __init__(self, pod: Document, container: Document, files: Files, start: int, now: float) -> None:
        self._files, self._now, self.uses = files, now, 0
        self.variables: Mapping[str, str] = {}  #: for parts of volumes that are named by them
        self._uid, self._node = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
        self._writer = _writer(pod, container, start)
        self._layer = Place("layer", self._uid, container["name"])
        volumes = {each["name"]: each for each in pod["spec"].get("volumes") or ()}
        self._mounts = sorted(
            (
                (posixpath.normpath(mount["mountPath"]), mount, volumes.get(mount["name"]) or {})
                for mount in container.get("volumeMounts") or ()
            ),
            key=lambda each: -len(each[0]),
        )

    def begin(self) -> None:
        """Start with an empty layer: what an earlier run wrote there is gone."""
        self._files.remove(self._layer)

    def undo(self) -> None:
        """Take back what was written: the command cannot be played after all."""
        for owner in (self._uid, self._node):
            self._files.undo(owner, self._writer, -math.inf)

    def read(self, path: str, after: float) -> str | None:
        return self._files.read(*self._at(path), self._now + after)

    def is_folder(self, path: str, after: float) -> bool:
        place, inside = self._at(path)
        if inside in ("", "/") or any(mount == posixpath.normpath(path) for mount, _, _ in self._mounts):
            return True
        return self._files.is_folder(place, inside, self._now + after)

    def write(self, path: str, text: str | None, after: float) -> None:
        place, inside = self._at(path)
        if not self._files.write(place, inside, text, self._now + after, self._writer):
            raise Unplayable("too many files")

    def _at(self, path: str) -> tuple[Place, str]:
        self.uses += 1
        full = posixpath.normpath(posixpath.join("/", path))
        for prefix, mount, volume in self._mounts:
            if full != prefix and not full.startswith(prefix.rstrip("/") + "/"):
                continue
            inside = posixpath.normpath(f"/{sub_path(mount, self.variables)}/{full[len(prefix) :]}")
            if "emptyDir" in volume:
                return Place("emptyDir", self._uid, volume["name"]), inside
            if "hostPath" in volume:
                host = volume["hostPath"]["path"]
                return Place("hostPath", self._node), posixpath.normpath(f"/{host}/{inside}")
            raise Unplayable("what the volume holds is not known")
        if full.startswith(("/proc/", "/sys/", "/etc/", "/var/run/secrets/")):
            raise Unplayable("files of the image or the machine")
        return self._layer, full


def _writer(pod: Document, container: Document, start: int) -> str:
    return f"{pod['metadata']['uid']}/{container['name']}/{start}"
