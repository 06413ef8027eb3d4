"""Controllers at work: changes go in, keys are reconciled, actions are carried out.

Deciding is elsewhere and pure. All controllers of one process share one copy of each collection. A key that fails
comes again after a pause that doubles; a created or deleted object holds its key back until the copy shows it, so
that no decision builds on what is no longer so. With leader election only the elected process acts.
Not here: which controllers there are (weir.controllers.catalog), what each decides (its own module), when the copy
shows what was done (weir.controllers.runtime.expectations).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

from weir import errors
from weir.client.api import Client, Unreachable
from weir.client.cache import Informer, ObjectKey, wait_all_synced
from weir.client.events import ObjectReference, Recorder
from weir.client.leases import Elector, Leadership, Timing
from weir.client.queue import WorkQueue, work
from weir.client.rate_limiter import RateLimiter
from weir.clock import Clock
from weir.controllers.runtime.actions import (
    Action,
    ActionContext,
    Count,
    Create,
    Delete,
    Evict,
    Observe,
    Patch,
    Record,
    Retry,
    Steps,
    WakeAt,
)
from weir.controllers.runtime.bursts import REQUESTS_AT_ONCE, at_once, bursts
from weir.controllers.runtime.controller import Controller
from weir.controllers.runtime.create_backoff import CreateBackoff
from weir.controllers.runtime.custom_kinds import DEFINITIONS, CustomKinds
from weir.controllers.runtime.expectations import Expectations, is_deleting, key_of
from weir.controllers.runtime.listers import PODS, Listers, decoder, prepare
from weir.controllers.runtime.metrics import ControllerMetrics
from weir.controllers.runtime.pod_eviction import Evicted, evict_pod
from weir.objects.kind import Kind
from weir.observe.endpoint import Pages, pages
from weir.observe.logs import Log, ObjectRef

EVICTIONS_AT_ONCE: Final = 32
EVICTION_TRIES: Final = 5
EVICTION_PAUSE_SECONDS: Final = 0.01


class ComesAgain(errors.WeirError):
    """A controller asked to look at a key again later."""


class Controllers:
    """Several controllers over one client."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        controllers: Sequence[Controller],
        *,
        metrics: ControllerMetrics | None = None,
        identity: str = "weir-controller-manager",
        lease_name: str = "",
        seed: int = 0,
        log: Log | None = None,
        qps: float = 0.0,
        burst: int = 0,
    ) -> None:
        """With a *lease_name* only the elected one of several processes acts.

        Each controller makes *burst* writes at once and *qps* a second, as upstream's do; 0 is no limit.
        """
        self.client, self.clock = client, clock
        self.qps, self.burst = qps, burst
        self.metrics = metrics or ControllerMetrics()
        self._identity, self._lease_name = identity, lease_name
        self._log = log or Log("weir.controllers")
        self._controllers, self._seed = controllers, seed
        self._leadership: Leadership | None = None
        self._acting = not lease_name
        self._prepare()

    def _prepare(self) -> None:
        """Begin with nothing known, as every term of office does."""
        kinds = list(dict.fromkeys(kind for controller in self._controllers for kind in controller.kinds))
        self.custom_kinds = CustomKinds()
        self._custom_tasks: dict[Kind, asyncio.Task[None]] = {}
        for controller in self._controllers:
            controller.know(self.custom_kinds)
        if any(controller.custom for controller in self._controllers) and DEFINITIONS not in kinds:
            kinds.append(DEFINITIONS)
        self.informers: dict[Kind, Informer[Any]] = {}
        for number, kind in enumerate(kinds):
            informer = Informer(self.client, kind, self.clock, decoder(kind), seed=self._seed + number)
            prepare(kind, informer.cache)
            self.informers[kind] = informer
        self.listers = Listers({kind: informer.cache for kind, informer in self.informers.items()})
        self.workers = [_Worker(self, controller) for controller in self._controllers]

    async def run(self) -> None:
        """Act until cancelled; with leader election, only while elected."""
        if not self._lease_name:
            await self._act(None)
            return
        elector = Elector(
            self.client,
            self.clock,
            name=self._lease_name,
            namespace="kube-system",
            identity=self._identity,
            timing=Timing(),
        )
        await elector.run(self._act)

    def pages(self) -> Pages:
        """Return what the controllers serve about themselves; one that waits to be elected is well."""
        return pages(self.metrics.registry.render, self.is_well)

    def is_well(self) -> bool:
        """Return whether this process waits to be elected, or knows everything it decides on."""
        return not self._acting or all(each.cache.synced for each in self.informers.values())

    async def _act(self, leadership: Leadership | None) -> None:
        self._acting, self._leadership = True, leadership
        elected = self.metrics.elected.child(self._lease_name) if self._lease_name else None
        if elected is not None:
            elected.set(1)
        try:
            await self._control()
        finally:
            self._acting = False
            if elected is not None:
                elected.set(0)

    async def _control(self) -> None:
        self._prepare()
        await self._leave_out_unserved()
        tasks = [asyncio.ensure_future(informer.run()) for informer in self.informers.values()]
        try:
            await wait_all_synced(self.informers.values())
            self._log.v(1, "Caches populated", kinds=len(self.informers))
            for worker in self.workers:
                worker.start()
                tasks += worker.tasks
            if DEFINITIONS in self.informers:
                self.informers[DEFINITIONS].cache.listen(self._defined)
            await asyncio.gather(*tasks)
        finally:
            tasks += self._custom_tasks.values()
            for task in tasks:
                task.cancel()
            for worker in self.workers:
                worker.stop()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _defined(self, old: Any, new: Any) -> None:
        """Watch the objects of a definition that is established, and no longer those of one that is gone."""
        gone, came = self.custom_kinds.set((new or old)["metadata"]["name"], new)
        if gone is not None:
            self._custom_tasks.pop(gone).cancel()
            self.listers.caches.pop(gone, None)
            self.informers.pop(gone, None)
        if came is None:
            return
        informer = Informer(self.client, came, self.clock, decoder(came), seed=self._seed)
        self.informers[came], self.listers.caches[came] = informer, informer.cache
        for worker in self.workers:
            if worker.controller.custom:
                worker.follow(came)
        self._custom_tasks[came] = asyncio.ensure_future(informer.run())

    async def _leave_out_unserved(self) -> None:
        """Do without kinds that this server does not serve: another version's, or a feature's that is off."""
        for kind in list(self.informers):
            while True:
                try:
                    await self.client.list(kind, limit=1)
                except errors.NotFound:
                    self._log.info("not served here, left out", kind=kind.kind, version=kind.api_version)
                    del self.informers[kind], self.listers.caches[kind]
                except (errors.ApiError, Unreachable) as error:
                    self._log.info("waiting for the API", error=str(error))
                    await self.clock.sleep(1.0)
                    continue
                break

    def check(self) -> None:
        """Raise unless this process may still act."""
        if self._leadership is not None:
            self._leadership.check()

    @property
    def idle(self) -> bool:
        """Whether nothing waits to be looked at now."""
        return all(not len(worker.queue) for worker in self.workers)


class _Worker:
    """One controller with its queue."""

    def __init__(self, owner: Controllers, controller: Controller) -> None:
        self._owner, self.controller = owner, controller
        self._clock, self._client = owner.clock, owner.client
        self._limiter = RateLimiter(owner.qps, owner.burst, owner.clock)
        name, metrics = controller.name, owner.metrics
        self.queue: WorkQueue[Hashable] = WorkQueue(owner.clock, meter=metrics.queue(name))
        metrics.queue_depth.child(name).look = lambda: len(self.queue)
        metrics.queue_unfinished.child(name).look = lambda: sum(self.queue.working_seconds())
        metrics.queue_longest.child(name).look = lambda: max(self.queue.working_seconds(), default=0.0)
        self._calm = asyncio.Event()  # no pod is being evicted: what has a deadline goes before its events
        self._calm.set()
        source = controller.event_source or controller.name
        self.recorder = Recorder(owner.client, owner.clock, source, calm=self._calm)
        self.tasks: list[asyncio.Task[None]] = []
        self._evicting: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(EVICTIONS_AT_ONCE)
        self._under_way = asyncio.Semaphore(REQUESTS_AT_ONCE)
        self._expectations = Expectations(owner.informers, owner.clock)
        self._create_backoff = CreateBackoff()
        waiting = owner.metrics.refused_workloads.child(controller.name)
        waiting.look = lambda: len(self._create_backoff)

    def start(self) -> None:
        self.controller.register_metrics(self._owner.metrics)
        for kind in self.controller.kinds:
            if kind in self._owner.informers:
                self.follow(kind)
        for key in self.controller.first_keys:
            self.queue.add(key)
        self.tasks.append(asyncio.ensure_future(self.recorder.run()))
        for _ in range(self.controller.workers):
            self.tasks.append(asyncio.ensure_future(work(self.queue, self._reconcile, failed=self._failed)))

    def follow(self, kind: Kind) -> None:
        """Be told of changes of *kind*."""
        self._owner.informers[kind].cache.listen(self._listener(kind))

    def stop(self) -> None:
        self.queue.close()
        for task in self._evicting:
            task.cancel()

    def _listener(self, kind: Kind) -> Callable[[Any, Any], None]:
        def changed(old: Any, new: Any) -> None:
            if self._expectations:
                self._expectations.saw(kind, old if new is None else new, gone=new is None)
            for key in self.controller.changed(kind, old, new):
                self.queue.add(key)

        return changed

    # ── one key ──────────────────────────────────────────────────────────────────────────────────

    async def _reconcile(self, key: Hashable) -> None:
        started = self._clock.monotonic()
        name = self.controller.name
        self._owner._log.v(5, "Reconciling", controller=name, key=str(key))
        seen: list[asyncio.Future[None]] = []
        refused = False
        stopped: Exception | None = None
        for burst in bursts(list(self.controller.reconcile(key, self._owner.listers, self._clock.now()))):
            action = burst[0]
            if isinstance(action, Steps):
                stopped = await self._take_steps(action, seen)
            elif isinstance(action, Create):
                # What was refused will be refused again: one answer is enough for this round, and for a while.
                wait = self._create_backoff.wait(key, action, self._clock.monotonic())
                if wait > 0:
                    self.queue.add_after(key, wait)
                refused = refused or wait > 0
                if not refused:
                    refused, stopped = await self._create_several(key, burst, seen)
            elif not (refused and _only_after_success(action)):
                stopped = await self._take(burst, seen)
            if stopped is not None:
                break  # what follows builds on it
        if not refused and stopped is None:
            self._create_backoff.forget(key)
        if seen:
            await self._expectations.wait(seen)
        if stopped is not None:
            raise stopped
        self._owner.metrics.reconcile_duration.child(name).observe(self._clock.monotonic() - started)
        self._owner.metrics.reconciles.child(name, "refused" if refused else "done").inc()

    async def _take(self, burst: Sequence[Action], seen: list[asyncio.Future[None]]) -> Exception | None:
        """Carry out what may be under way at once; return what stopped one of them, if something did."""
        stopped: Exception | None = None
        for _, outcome in await at_once(burst, self._carry_out, self._under_way):
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
        for action, outcome in await at_once(burst, self._carry_out, self._under_way):
            assert isinstance(action, Create)
            if isinstance(outcome, errors.ApiError):
                self._report_refusal(action, outcome)
                if not refused:  # the others may have gone well; the key comes again
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
        for each in self.controller.create_refused(key, str(error), self._owner.listers, self._clock.now()):
            await self._carry_out(each)

    async def _take_steps(self, action: Steps, seen: list[asyncio.Future[None]]) -> Exception | None:
        """Let it carry itself out; return what stopped it. What it made before that is waited for all the same."""
        self._owner.check()
        context = ActionContext(self._client, self._clock, self.recorder, self._owner.metrics)
        try:
            outcome = await action.carry_out(context)
        except (errors.ApiError, Unreachable) as error:
            return error
        finally:
            for kind, key in context.made:
                seen += self._expectations.presence(kind, key, created=True)
        for each in self.controller.carried_out(action, outcome, self._clock.now()):
            seen += await self._carry_out(each)
        return None

    def _failed(self, key: Hashable, error: Exception) -> None:
        name = self.controller.name
        self._owner.metrics.reconciles.child(name, "failed").inc()
        if isinstance(error, errors.Conflict | Unreachable | ComesAgain):
            return  # another client was faster, the server is away, or it is too early: the next try sees
        if isinstance(error, errors.WeirError):
            self._owner._log.v(4, "will be tried again", controller=name, key=str(key), err=str(error))
            return
        try:
            raise error
        except Exception:
            self._owner._log.exception("a controller failed", controller=name, key=str(key))

    def _report_refusal(self, action: Create, error: errors.ApiError) -> None:
        reason = error.reason or "Unknown"
        self._owner.metrics.refusals.child(self.controller.name, reason).inc()
        self._owner._log.v(
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
                # The name the server made up is another one each time; one event with a count says as much.
                text = re.sub(re.escape(prefix) + "[a-z0-9]{5}", prefix, text)
            self.recorder.record(action.about, "Warning", "FailedCreate", f"{action.failed} {text}")

    # ── actions ──────────────────────────────────────────────────────────────────────────────────

    async def _carry_out(self, action: Action) -> list[asyncio.Future[None]]:
        """Do it, and return what to wait for until the result is known here."""
        if isinstance(action, Record):
            self.recorder.record(action.about, action.type, action.reason, action.message)
            return []
        if isinstance(action, WakeAt):
            wait = (action.at - self._clock.now()).total_seconds()
            self.queue.add_after(action.key, max(wait, 0.0))
            return []
        if isinstance(action, Retry):
            raise ComesAgain(action.why)
        if isinstance(action, Count):
            getattr(self._owner.metrics, action.metric).child(*action.labels).inc(action.by)
            return []
        if isinstance(action, Observe):
            getattr(self._owner.metrics, action.metric).child().observe(action.seconds)
            return []
        self._owner.check()
        await self._limiter.wait()
        self._owner.check()  # it may have been put out of office while it waited
        if isinstance(action, Evict):
            task = asyncio.ensure_future(self._evict(action))
            self._evicting.add(task)
            self._calm.clear()
            task.add_done_callback(self._evicted)
            return []
        if isinstance(action, Create):
            return await self._create(action)
        if isinstance(action, Delete):
            return await self._delete(action)
        assert isinstance(action, Patch)
        return await self._patch(action)

    async def _create(self, action: Create) -> list[asyncio.Future[None]]:
        try:
            made = await self._client.create(action.kind, dict(action.document), action.namespace)
        except errors.AlreadyExists:
            return []
        name = made["metadata"]["name"]
        self._say("Created object", action.kind, action.namespace, name)
        if action.about is not None:
            noun = action.kind.kind.lower() if action.kind is PODS else action.kind.kind
            message = action.event_message or f"Created {noun}: {name}"
            self.recorder.record(action.about, "Normal", "SuccessfulCreate", message)
        return self._expectations.presence(action.kind, ObjectKey(action.namespace, name), created=True)

    async def _delete(self, action: Delete) -> list[asyncio.Future[None]]:
        key = ObjectKey(action.namespace, action.name)
        for kind, name, uid in action.unless_present:
            found = await self._client.find(kind, name, action.namespace if kind.namespaced else "")
            if found is not None and found["metadata"]["uid"] == uid:
                return []  # it is there after all; the copy does not show it yet
        try:
            await self._client.delete(
                action.kind,
                action.name,
                action.namespace,
                uid=action.uid,
                grace_period_seconds=action.grace_period_seconds,
                propagation_policy=action.propagation_policy,
                read=False,
            )
        except errors.NotFound:
            return []
        except errors.Conflict:
            if action.uid:
                return []  # another object of the same name: not the one meant
            raise
        self._say("Deleted object", action.kind, action.namespace, action.name)
        if action.about is not None:
            noun = action.kind.kind.lower() if action.kind is PODS else action.kind.kind
            message = action.event_message or f"Deleted {noun}: {action.name}"
            self.recorder.record(action.about, "Normal", "SuccessfulDelete", message)
        return self._expectations.presence(action.kind, key, created=False)

    async def _patch(self, action: Patch) -> list[asyncio.Future[None]]:
        for kind, name, uid in action.while_present:
            found = await self._client.find(kind, name, action.namespace if kind.namespaced else "")
            if found is None or found["metadata"]["uid"] != uid or is_deleting(found):
                return []  # it is going, or another one of the same name; the copy does not show it yet
        try:
            made = await self._client.patch(
                action.kind,
                action.name,
                dict(action.patch),
                action.namespace,
                patch_type=action.patch_type,
                subresource=action.subresource,
                field_manager=action.field_manager,
                force=action.force,
                read=action.held,
            )
        except errors.NotFound:
            return []
        self._say("Patched object", action.kind, action.namespace, action.name)
        return self._expectations.version(action.kind, made) if action.held else []

    def _say(self, what: str, kind: Kind, namespace: str, name: str) -> None:
        """Log what was done, from `-v 4` on."""
        if self._owner._log.shows(4):
            about = ObjectRef(namespace, name)
            self._owner._log.v(4, what, controller=self.controller.name, kind=kind.kind, object=about)

    # ── eviction ─────────────────────────────────────────────────────────────────────────────────

    def _evicted(self, task: asyncio.Task[None]) -> None:
        self._evicting.discard(task)
        if not self._evicting:
            self._calm.set()

    async def _evict(self, action: Evict) -> None:
        async with self._room:
            try:
                for attempt in range(1, EVICTION_TRIES + 1):
                    try:
                        await self._evict_once(action)
                        break
                    except (errors.ApiError, Unreachable) as error:
                        if attempt == EVICTION_TRIES:
                            self._owner._log.warning(
                                "a pod could not be evicted",
                                pod=f"{action.eviction.namespace}/{action.eviction.name}",
                                error=str(error),
                            )
                    await self._clock.sleep(EVICTION_PAUSE_SECONDS)
            finally:
                self.controller.eviction_ended(action)

    async def _evict_once(self, action: Evict) -> None:
        if await evict_pod(self._client, self._clock, self.recorder, action.eviction) is Evicted.GONE:
            return
        gone = action.eviction
        self._owner._log.v(
            2,
            "Evicted pod",
            controller=self.controller.name,
            pod=ObjectRef(gone.namespace, gone.name),
            reason=gone.reason,
            message=gone.event[1] if gone.event else gone.message,
        )
        late = (self._clock.now() - action.due).total_seconds()
        self._owner.metrics.pod_deletions.child().inc()
        self._owner.metrics.pod_deletion_duration.child().observe(max(late, 0.0))


def _only_after_success(action: Action) -> bool:
    """Return whether an action is only right when everything before it in the round went well."""
    if isinstance(action, Patch):
        return action.unless_refused
    return isinstance(action, Count | Observe) or (isinstance(action, Record) and action.type != "Warning")


def about(item: Any, kind: Kind) -> ObjectReference:
    """Return a reference for events about *item*."""
    key = key_of(item)
    metadata = item["metadata"] if isinstance(item, dict) else None
    uid = metadata["uid"] if metadata is not None else item.metadata.uid
    version = metadata.get("resourceVersion", "") if metadata is not None else item.metadata.resource_version
    return ObjectReference(kind.kind, key.name, key.namespace, uid, kind.api_version, version)
