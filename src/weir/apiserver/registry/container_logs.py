"""Logs of simulated containers, kept in memory.

Spec: core/v1 PodLogOptions; the refusals are those of Kubernetes' server and kubelet. A simulated kubelet writes a
container's output once, when it starts (`create` of `pods/log`), each piece with its time; readers see what is due by
now. Bounded: the oldest pods are dropped first. A container whose output is not known has no log (501).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from weir import errors

Document = Mapping[str, Any]
MOST_BYTES: Final = 32 << 20
MOST_OF_ONE: Final = 1 << 17
RUNS_KEPT: Final = 2  # of a container: this one and the one before
_OVERHEAD: Final = 200


class Run(msgspec.Struct, frozen=True):
    """One run of a container: seconds since the epoch, and what is printed how long after its start."""

    uid: str
    container: str
    start: int
    started_at: float
    printed: tuple[tuple[float, str], ...]


class LogOptions(msgspec.Struct, frozen=True):
    """What a reader asked for."""

    container: str = ""
    previous: bool = False
    follow: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    limit_bytes: int | None = None
    since: float | None = None  #: seconds since the epoch

    @classmethod
    def parse(cls, params: Mapping[str, str], now: float) -> LogOptions:
        """Return the options of a query; raises 400."""
        seconds = _number(params, "sinceSeconds", 1)
        since = now - seconds if seconds is not None else None
        if text := params.get("sinceTime"):
            if since is not None:
                raise errors.BadRequest("at most one of `sinceTime` or `sinceSeconds` may be specified")
            try:
                since = datetime.fromisoformat(text).timestamp()
            except ValueError:
                raise errors.BadRequest(f"sinceTime: {text[:60]!r} is no time of RFC 3339") from None
        return cls(
            params.get("container", ""),
            _flag(params, "previous"),
            _flag(params, "follow"),
            _flag(params, "timestamps"),
            _number(params, "tailLines", 0),
            _number(params, "limitBytes", 1),
            since,
        )


class ContainerLogs:
    """The logs of one server's simulated pods."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._runs: OrderedDict[str, dict[str, dict[int, Run]]] = OrderedDict()  # by uid, container and start
        self._bytes, self._most = 0, most_bytes

    def write(self, body: bytes) -> None:
        """Take in a run that a kubelet tells of; raises 400."""
        try:
            run = msgspec.json.decode(body, type=Run)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise errors.BadRequest(f"the body is no run of a container: {error}") from None
        if _size(run) > MOST_OF_ONE:
            raise errors.BadRequest("the run printed too much")
        runs = self._runs.setdefault(run.uid, {}).setdefault(run.container, {})
        self._runs.move_to_end(run.uid)
        for start in [each for each in runs if each == run.start or each <= run.start - RUNS_KEPT]:
            self._bytes -= _size(runs.pop(start))
        runs[run.start] = run
        self._bytes += _size(run)
        while self._bytes > self._most and len(self._runs) > 1:
            _, oldest = self._runs.popitem(last=False)
            self._bytes -= sum(_size(each) for kept in oldest.values() for each in kept.values())

    def read(self, pod: Document, options: LogOptions, now: float) -> bytes:
        """Return what a container has printed by now; raises 400 and 501."""
        name = _container(pod, options.container)
        if not pod["spec"].get("nodeName"):
            return b""
        status = _status(pod, name)
        state, last = status.get("state") or {}, status.get("lastState") or {}
        restarts = int(status.get("restartCount") or 0)
        podname = pod["metadata"]["name"]
        if options.previous and not last.get("terminated"):
            raise errors.BadRequest(f'previous terminated container "{name}" in pod "{podname}" not found')
        if not status or ("waiting" in state and not last.get("terminated")):
            reason = (state.get("waiting") or {}).get("reason") or "ContainerCreating"
            raise errors.BadRequest(f'container "{name}" in pod "{podname}" is waiting to start: {reason}')
        ended = (last if options.previous or "waiting" in state else state).get("terminated")
        run = self._runs.get(pod["metadata"]["uid"], {}).get(name, {}).get(restarts - options.previous)
        if run is None:
            raise errors.NotImplementedHere(
                f'the output of container "{name}" of pod "{podname}" is not known: declare it by the annotation '
                f"weir.dev/output.{name}"
            )
        if options.follow and ended is None:
            raise errors.NotImplementedHere(
                "the log of a running container cannot be followed on simulated nodes"
            )
        until = now if ended is None else datetime.fromisoformat(ended["finishedAt"]).timestamp() + 1
        return _shown(run, options, min(until, now))


def _shown(run: Run, options: LogOptions, until: float) -> bytes:
    lines = [
        (at, text)
        for at, text in _lines(run)
        if at <= until and (options.since is None or at >= options.since)
    ]
    if options.tail_lines is not None:
        lines = lines[max(len(lines) - options.tail_lines, 0) :]
    found = "".join(f"{_printed(at)} {text}" if options.timestamps else text for at, text in lines).encode()
    return found if options.limit_bytes is None else found[: options.limit_bytes]


def _lines(run: Run) -> Iterator[tuple[float, str]]:
    """Yield what was printed line by line, each with the time of its beginning."""
    begun, rest = 0.0, ""
    for after, text in run.printed:
        for piece in text.splitlines(keepends=True):
            begun = begun if rest else after
            rest += piece
            if rest.endswith("\n"):
                yield run.started_at + begun, rest
                rest = ""
    if rest:
        yield run.started_at + begun, rest


def _container(pod: Document, asked: str) -> str:
    spec, podname = pod["spec"], pod["metadata"]["name"]
    names = [each["name"] for each in spec["containers"]]
    before = [each["name"] for each in spec.get("initContainers") or ()]
    beside = [each["name"] for each in spec.get("ephemeralContainers") or ()]
    if asked:
        if asked not in (*names, *before, *beside):
            raise errors.BadRequest(f"container {asked} is not valid for pod {podname}")
        return asked
    if len(names) == 1:
        return str(names[0])
    every = " ".join((*before, *names, *beside))
    raise errors.BadRequest(f"a container name must be specified for pod {podname}, choose one of: [{every}]")


def _status(pod: Document, name: str) -> Document:
    status = pod.get("status") or {}
    for part in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for each in status.get(part) or ():
            if each["name"] == name:
                found: Document = each
                return found
    return {}


def _number(params: Mapping[str, str], name: str, least: int) -> int | None:
    text = params.get(name)
    if text is None or text == "":
        return None
    if not text.removeprefix("-").isdigit() or len(text) > 18:
        raise errors.BadRequest(f"{name}: {text[:60]!r} is no number")
    if int(text) < least:
        raise errors.BadRequest(f"{name} must be greater than {'or equal to 0' if not least else '0'}")
    return int(text)


def _flag(params: Mapping[str, str], name: str) -> bool:
    return params.get(name, "").lower() in ("true", "1", "t")


def _printed(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds")[:26] + "Z"


def _size(run: Run) -> int:
    return _OVERHEAD + sum(len(text) + 50 for _, text in run.printed)
