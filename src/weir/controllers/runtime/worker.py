"""Work loop of one controller: changes become keys, keys are reconciled one by one, failures are retried.

A failed key is retried with exponential backoff; a created or deleted object blocks its key until the informer shows
it. A rejected creation is reported by an event on the owner and backs off.

Exponential backoff for creations that the API server rejected. Spec: KEP-5471 and KEP-5500 "Risks and Mitigations"
(controllers hot-looping on templates that are refused). A rejected template is rejected each time, and without backoff
every change of the workload (its own status included) would be another attempt. A new generation of the owner is tried
at once, since it may be the fix, and so is an owner whose `status.observedGeneration` somebody sets back: it is to be
looked at again.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, TypeVar

from weir import errors
from weir.client.api import Unreachable
from weir.client.queue import WorkQueue, work
from weir.controllers.runtime.action_runner import ActionRunner, ControllerContext, Requeue
from weir.controllers.runtime.controller import (
    Action,
    Controller,
    Count,
    Create,
    Delete,
    Observe,
    Patch,
    Record,
    Steps,
)
from weir.errors import ApiError
from weir.objects.kind import Kind
from weir.objects.kinds import PODS
from weir.observe.logs import ObjectRef

# ── concurrency of the actions of one reconcile: pods are created with slow start and deleted in parallel ──
# Creations go in batches of one, two, four, eight …, so that a template the server rejects costs one rejection and not
# five hundred. All other actions run in the order given: a status is written after the pods it counts, a StatefulSet's
# pod is created after its claims.


#: Of all bursts of one controller. More do not make a server faster, and each has a connection of its own.
REQUESTS_AT_ONCE: Final = 32

A = TypeVar("A")
R = TypeVar("R")


def bursts(actions: Iterable[Action]) -> Iterator[Sequence[Action]]:
    """Yield *actions* in their order, together those that may be under way at once.

    >>> pod = Create(PODS, {})
    >>> [len(burst) for burst in bursts([pod] * 10)], [len(burst) for burst in bursts([Delete(PODS, "a")] * 10)]
    ([1, 2, 4, 3], [10])
    """
    for sort, several in groupby(actions, key=_sort):
        if sort is None:
            for action in several:
                yield (action,)
        elif sort is Delete:
            yield tuple(several)
        else:
            yield from slow_start(tuple(several))


def slow_start(several: Sequence[Action]) -> Iterator[Sequence[Action]]:
    """Yield one, then twice as many each time, up to the last."""
    size, begin = 1, 0
    while begin < len(several):
        yield several[begin : begin + size]
        size, begin = 2 * size, begin + size


def _sort(action: Action) -> type[Create] | type[Delete] | None:
    """Return what an action may go together with; None is with nothing."""
    if isinstance(action, Create) and action.kind is PODS:
        return Create
    return Delete if isinstance(action, Delete) and action.kind is PODS else None


async def at_once(
    actions: Sequence[A], carry_out: Callable[[A], Awaitable[R]], under_way: asyncio.Semaphore
) -> list[tuple[A, R | Exception]]:
    """Carry out *actions* concurrently, started in order; return those started with their results.

    *under_way* is a semaphore shared with other bursts.
    A rejection by the server does not stop the others; when the server cannot be reached no more are started.
    """
    outcomes: dict[int, R | Exception] = {}
    waiting = deque(enumerate(actions))

    async def work() -> None:
        while waiting:
            number, action = waiting.popleft()
            try:
                async with under_way:
                    outcomes[number] = await carry_out(action)
            except Exception as error:  # the others were already sent; the caller handles this failure
                outcomes[number] = error
                if not isinstance(error, ApiError):
                    waiting.clear()

    if len(actions) == 1:
        try:
            return [(actions[0], await carry_out(actions[0]))]
        except Exception as error:
            return [(actions[0], error)]
    async with asyncio.TaskGroup() as group:
        for _ in range(min(REQUESTS_AT_ONCE, len(actions))):
            group.create_task(work())
    return [(actions[number], outcomes[number]) for number in sorted(outcomes)]


FIRST_PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 1000.0


@dataclass(frozen=True, slots=True)
class _Refused:
    generation: int
    times: int
    not_before: float  #: on the monotonic clock, in seconds


class CreateBackoff:
    """Recent rejections by work item."""

    def __init__(self) -> None:
        self._refused: dict[Hashable, _Refused] = {}

    def __len__(self) -> int:
        return len(self._refused)

    def wait(self, key: Hashable, action: Create, now: float) -> float:
        """Return for how many seconds the action had better not be tried; nothing when it may be.

        >>> from weir.objects.kinds import by_kind
        >>> backoff, create = CreateBackoff(), Create(by_kind("v1", "Pod"), {}, generation=1)
        >>> backoff.note("web", create, now=10.0), backoff.wait("web", create, now=10.04) > 0
        (0.1, True)
        """
        refused = self._refused.get(key)
        if refused is None or refused.generation != action.generation:
            return 0.0
        return max(0.0, refused.not_before - now)

    def note(self, key: Hashable, action: Create, now: float) -> float:
        """Take in a refusal; return the pause in seconds until the next try."""
        before = self._refused.get(key)
        times = before.times if before is not None and before.generation == action.generation else 0
        pause = min(FIRST_PAUSE_SECONDS * 2.0 ** min(times, 60), LONGEST_PAUSE_SECONDS)
        self._refused[key] = _Refused(action.generation, times + 1, now + pause)
        return pause

    def forget(self, key: Hashable) -> None:
        """Nothing was refused this time: it was accepted, or is not wanted any more."""
        self._refused.pop(key, None)


class Worker:
    """One controller with its queue."""

    def __init__(self, context: ControllerContext, controller: Controller) -> None:
        self._context, self.controller, self._clock = context, controller, context.clock
        name, metrics = controller.name, context.metrics
        self.queue: WorkQueue[Hashable] = WorkQueue(context.clock, meter=metrics.queue(name))
        metrics.queue_depth.child(name).look = lambda: len(self.queue)
        metrics.queue_unfinished.child(name).look = lambda: sum(self.queue.working_seconds())
        metrics.queue_longest.child(name).look = lambda: max(self.queue.working_seconds(), default=0.0)
        self.tasks: list[asyncio.Task[None]] = []
        self._actions = ActionRunner(context, controller, self.queue)
        self._expectations = self._actions.expectations
        self._under_way = asyncio.Semaphore(REQUESTS_AT_ONCE)
        self._create_backoff = CreateBackoff()
        #: what the controller's own code raised for a key, until it succeeds; as text, for an error holds its frames
        self.failed: dict[Hashable, str] = {}
        metrics.refused_workloads.child(name).look = lambda: len(self._create_backoff)

    def start(self) -> None:
        self.controller.register_metrics(self._context.metrics)
        for kind in self.controller.kinds:
            if kind in self._context.informers:
                self.follow(kind)
        for key in self.controller.first_keys:
            self.queue.add(key)
        self.tasks.append(asyncio.ensure_future(self._actions.recorder.run()))
        for _ in range(self.controller.workers):
            self.tasks.append(asyncio.ensure_future(work(self.queue, self._reconcile, failed=self._failed)))

    def follow(self, kind: Kind) -> None:
        """Queue the keys that changes of *kind* affect."""
        self._context.informers[kind].cache.listen(self._listener(kind))

    def stop(self) -> None:
        self.queue.close()
        self._actions.stop()

    def _listener(self, kind: Kind) -> Callable[[Any, Any], None]:
        def changed(old: Any, new: Any) -> None:
            if self._expectations:
                self._expectations.saw(kind, old if new is None else new, gone=new is None)
            again = len(self._create_backoff) and is_set_back(old, new)
            for key in self.controller.changed(kind, old, new):
                if again:
                    self._create_backoff.forget(key)
                self.queue.add(key)

        return changed

    async def _reconcile(self, key: Hashable) -> None:
        started = self._clock.monotonic()
        name = self.controller.name
        self._context.log.v(5, "Reconciling", controller=name, key=str(key))
        seen: list[asyncio.Future[None]] = []
        refused = False
        stopped: Exception | None = None
        for burst in bursts(list(self.controller.reconcile(key, self._context.listers, self._clock.now()))):
            action = burst[0]
            if isinstance(action, Steps):
                stopped = await self._actions.take_steps(action, seen)
            elif isinstance(action, Create):
                # What was refused will be refused again: one answer is enough for this round, and for a while.
                wait = self._create_backoff.wait(key, action, self._clock.monotonic())
                if wait > 0:
                    self.queue.add_after(key, wait)
                refused = refused or wait > 0
                if not refused:
                    refused, stopped = await self._create_several(key, burst, seen)
            elif not (refused and only_after_success(action)):
                stopped = await self._take(burst, seen)
            if stopped is not None:
                break  # what follows builds on it
        if not refused and stopped is None:
            self._create_backoff.forget(key)
        if seen:
            await self._expectations.wait(seen)
        if stopped is not None:
            raise stopped
        self._context.metrics.reconcile_duration.child(name).observe(self._clock.monotonic() - started)
        self._context.metrics.reconciles.child(name, "refused" if refused else "done").inc()
        self.failed.pop(key, None)

    async def _take(self, burst: Sequence[Action], seen: list[asyncio.Future[None]]) -> Exception | None:
        """Carry out what may be under way at once; return what stopped one of them, if something did."""
        stopped: Exception | None = None
        for _, outcome in await at_once(burst, self._actions.carry_out, self._under_way):
            if isinstance(outcome, Exception):
                stopped = stopped or outcome
            else:
                seen += outcome
        return stopped

    async def _create_several(
        self, key: Hashable, burst: Sequence[Action], seen: list[asyncio.Future[None]]
    ) -> tuple[bool, Exception | None]:
        """Create several; return whether the server refused one, and what else went wrong."""
        refused, stopped = False, None
        for action, outcome in await at_once(burst, self._actions.carry_out, self._under_way):
            assert isinstance(action, Create)
            if isinstance(outcome, errors.ApiError):
                self._report_refusal(action, outcome)
                if not refused:  # the others may have succeeded; the key is retried
                    await self._refused(key, action, outcome)
                refused = True
            elif isinstance(outcome, Exception):
                stopped = stopped or outcome
            else:
                seen += outcome
        return refused, stopped

    async def _refused(self, key: Hashable, action: Create, error: errors.ApiError) -> None:
        """Note a refusal where the workload's owner looks, and come again after a pause."""
        pause = self._create_backoff.note(key, action, self._clock.monotonic())
        self.queue.add_after(key, pause)
        for each in self.controller.create_refused(key, str(error), self._context.listers, self._clock.now()):
            await self._actions.carry_out(each)

    def _failed(self, key: Hashable, error: Exception) -> None:
        name = self.controller.name
        self._context.metrics.reconciles.child(name, "failed").inc()
        if isinstance(error, errors.Conflict | Unreachable | Requeue):
            return  # another client was faster, the server is away, or it is too early: the next try sees
        if isinstance(error, errors.WeirError):
            self._context.log.v(4, "will be tried again", controller=name, key=str(key), err=str(error))
            return
        self.failed[key] = f"{type(error).__name__}: {error}"
        try:
            raise error
        except Exception:
            self._context.log.exception("a controller failed", controller=name, key=str(key))

    def _report_refusal(self, action: Create, error: errors.ApiError) -> None:
        reason = error.reason or "Unknown"
        self._context.metrics.refusals.child(self.controller.name, reason).inc()
        self._context.log.v(
            2,
            "API server refused to create object",
            controller=self.controller.name,
            kind=action.kind.kind,
            owner=ObjectRef(action.about.namespace, action.about.name) if action.about else None,
            err=str(error),
        )
        if action.about is not None:
            text = str(error)
            metadata = action.document.get("metadata", {})
            if (prefix := metadata.get("generateName")) and not metadata.get("name"):
                # The generated name differs each time; without it, repeated events aggregate into one with a count.
                text = re.sub(re.escape(prefix) + "[a-z0-9]{5}", prefix, text)
            self._actions.recorder.record(action.about, "Warning", "FailedCreate", f"{action.failed} {text}")


def is_set_back(old: Any, new: Any) -> bool:
    """Return whether a change of an object takes back that its controller has seen its generation.

    >>> is_set_back({"status": {"observedGeneration": 2}}, {"status": {"observedGeneration": 1}})
    True
    """
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return False
    before, after = (((each.get("status") or {}).get("observedGeneration") or 0) for each in (old, new))
    return bool(after < before)


def only_after_success(action: Action) -> bool:
    """Return whether an action is only right when everything before it in the round went well."""
    if isinstance(action, Patch):
        return action.unless_refused
    return isinstance(action, Count | Observe) or (isinstance(action, Record) and action.type != "Warning")
