"""The scheduler at work: watches, decides, binds, tells.

Everything that decides is elsewhere and pure; here are the watches that feed it and the writes that carry it out. A
pod is counted on its node the moment it is decided (assumed), bound in the background, and confirmed when the watch
shows it; a binding that fails takes the pod off again and sends it back to the queue. A lost watch is listed anew,
and what was assumed meanwhile stays counted, so nothing is placed twice.
Not here: what is known of the cluster (weir.scheduler.cluster_state), plugins and the cycle (.cycle), the queue
(.queue), who to preempt (.preemption) and how (.victims), what comes before binding (.prebind), events and
conditions (.telling).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final

import msgspec

from weir.client.api import Client, Unreachable
from weir.client.cache import Informer, ObjectKey, wait_all_synced
from weir.client.leases import Elector, Leadership, Timing
from weir.client.series import SeriesRecorder
from weir.clock import Clock
from weir.devices.tracker import Problem
from weir.errors import InternalError, ServiceUnavailable, Timeout, WeirError
from weir.gates import Gates
from weir.objects.core import Node, Pod
from weir.objects.kinds import by_kind
from weir.objects.resource import ResourceClaim
from weir.observe.endpoint import Pages, pages
from weir.observe.features import publish_features
from weir.observe.logs import Log
from weir.scheduler.claim_writes import give_up
from weir.scheduler.cluster_state import ClusterState, Namespace
from weir.scheduler.config import SchedulerConfig
from weir.scheduler.cycle import Engine, Placement
from weir.scheduler.framework import Diagnosis, NoNodes, PluginError, Reservation
from weir.scheduler.metrics import SAMPLE, SchedulerMetrics
from weir.scheduler.plugins.claim_reservation import ClaimReservation
from weir.scheduler.plugins.dynamic_resources import NAME as DYNAMIC_RESOURCES
from weir.scheduler.pod_class import PodClass
from weir.scheduler.prebind import PreBind
from weir.scheduler.preemption import NoPreemption, preempt, priority
from weir.scheduler.preemption_eviction import Budget, disruption_budgets, send_away
from weir.scheduler.queue import QueuedPod
from weir.scheduler.queueing_hints import ClusterEvent
from weir.scheduler.status_reporter import PODS, StatusReporter
from weir.taints.operators import NUMERIC

NODES = by_kind("v1", "Node")
NAMESPACES = by_kind("v1", "Namespace")
BUDGETS = by_kind("policy/v1", "PodDisruptionBudget")

#: After this many decisions in a row the loop lets messages in and out.
_DECISIONS_AT_ONCE: Final = 16


def _decoder(view: type[Any]) -> Callable[[msgspec.Raw], Any]:
    return msgspec.json.Decoder(view).decode


class Scheduler:
    """One scheduler over one client."""

    def __init__(
        self,
        client: Client,
        gates: Gates,
        clock: Clock,
        *,
        config: SchedulerConfig | None = None,
        metrics: SchedulerMetrics | None = None,
        identity: str = "weir-scheduler",
        seed: int = 0,
        log: Log | None = None,
    ) -> None:
        self.client, self.gates, self.clock = client, gates, clock
        self.config = config or SchedulerConfig()
        self.metrics = metrics or SchedulerMetrics()
        publish_features(self.metrics.registry, gates)
        self.identity = identity
        self._log = log
        self._rng = random.Random(seed)
        self._seed = seed
        self._begin()
        self._began = False

    def _begin(self) -> None:
        """Know nothing yet: whoever is elected anew starts from what the cluster is then."""
        client, clock, gates, seed = self.client, self.clock, self.gates, self._seed
        self.known = ClusterState(client, clock, gates, self.config, self.metrics, seed, self._troubled)
        self._decisions = 0
        self._absent: set[str] = set()  #: kinds that the server does not have
        self._stirred = asyncio.Event()
        self._binding: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(self.config.parallelism)
        self._leadership: Leadership | None = None
        self.recorders = {
            name: SeriesRecorder(client, clock, name, f"{name}-{self.identity}", busy=self._has_work)
            for name in self.known.engines
        }
        self._teller = StatusReporter(client, clock, self.recorders, self._log)
        self._prebind = PreBind(client, clock, self._room, self._teller, self.metrics)
        self.informers: dict[str, Informer[Any]] = {
            "nodes": Informer(client, NODES, clock, _decoder(Node), seed=seed),
            "pods": Informer(client, PODS, clock, _decoder(Pod), seed=seed + 1),
            "namespaces": Informer(client, NAMESPACES, clock, _decoder(Namespace), seed=seed + 2),
            "budgets": Informer(client, BUDGETS, clock, _decoder(Budget), seed=seed + 3),
            **self.known.around.informers,
        }

    # ── life ─────────────────────────────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Schedule until cancelled; with leader election, only while elected."""
        if not self.config.leader_elect:
            await self._schedule_pods(None)
            return
        timing = Timing(self.config.lease_seconds, self.config.renew_seconds, self.config.retry_seconds)
        elector = Elector(
            self.client,
            self.clock,
            name=self.config.lease_name,
            namespace=self.config.lease_namespace,
            identity=self.identity,
            timing=timing,
        )
        await elector.run(self._schedule_pods)

    async def _schedule_pods(self, leadership: Leadership | None) -> None:
        if self._began:
            self._begin()
        self._began = True
        self._leadership = leadership
        tasks = [asyncio.ensure_future(informer.run()) for informer in self.informers.values()]
        tasks += [asyncio.ensure_future(recorder.run()) for recorder in self.recorders.values()]
        try:
            self._absent = await self.known.around.unserved()
            if self._absent and self._log is not None:
                self._log.info(
                    "claims are not looked at: kinds are not served", kinds=",".join(sorted(self._absent))
                )
            await wait_all_synced(each for kind, each in self.informers.items() if kind not in self._absent)
            self.known.around.listen()
            self.informers["namespaces"].cache.listen(self.known.namespace_changed)
            self.informers["nodes"].cache.listen(self.known.node_changed)
            self.informers["pods"].cache.listen(self.known.pod_changed)
            tasks.append(asyncio.ensure_future(self._tick()))
            await self._loop()
        finally:
            for task in (*tasks, *self._binding):
                task.cancel()
            await asyncio.gather(*tasks, *self._binding, return_exceptions=True)

    async def _loop(self) -> None:
        decisions = 0
        while True:
            item = self.known.queue.pop(self.clock.monotonic())
            if item is None:
                self.known.work.clear()
                self.measure()
                await self.known.work.wait()
                continue
            self._stirred.set()
            await self._room.acquire()
            self._attempt(item)
            decisions += 1
            # A pod that fits nowhere costs a look at every node for its reasons: then news is let in at once.
            if decisions % _DECISIONS_AT_ONCE == 0 or item.key not in self.known.assumed:
                await asyncio.sleep(0)

    async def _tick(self) -> None:
        """Do every second what time alone does; the queue counts by a clock that never jumps."""
        while True:
            if self.known.queue.idle:  # then time does nothing, until some pod had its turn
                self._stirred.clear()
                await self._stirred.wait()
            now = self.clock.monotonic()
            await self.clock.sleep(1.0 - now % 1.0)
            if self.known.queue.tick(self.clock.monotonic()):
                self.known.work.set()

    def measure(self) -> None:
        """Bring the metrics that are read rather than counted up to date."""
        sizes = {
            "nodes": len(self.known.table),
            "pods": len(self.known.table.row_of_pod),
            "assumed_pods": len(self.known.assumed),
        }
        self.metrics.publish(self.known.queue, self.known.engines.items(), sizes)

    def pages(self) -> Pages:
        """Return what the scheduler serves about itself."""

        def metrics() -> bytes:
            self.measure()
            return self.metrics.registry.render()

        def ready() -> bool:
            return all(each.cache.synced for kind, each in self.informers.items() if kind not in self._absent)

        return pages(metrics, ready)

    def _has_work(self) -> bool:
        """Whether pods wait to be placed or bound: telling about those that were can wait a moment."""
        return bool(self._binding) or self.known.queue.counts()["active"] > 0

    def _troubled(self, problem: Problem) -> None:
        """Say that a rule could not be applied: to its author if it fails for a device, else in the log."""
        rule = self.informers["DeviceTaintRule"].cache.get(ObjectKey("", problem.rule))
        if problem.reason and rule is not None:
            self._teller.tell_rule(rule.metadata, problem.reason, problem.message)
        elif self._log is not None:
            self._log.info("device taint rule not applied", rule=problem.rule, error=problem.message)

    # ── one attempt ──────────────────────────────────────────────────────────────────────────────

    def _attempt(self, item: QueuedPod) -> None:
        """Decide for one pod and start what follows; the room taken for it is given back then."""
        pod, started = item.pod, self.clock.monotonic()
        if pod.metadata.deletion_timestamp:
            self._teller.tell(
                pod, "Warning", "FailedScheduling", "Scheduling", f"skip schedule deleting pod: {pod.key}"
            )
            self._end_turn(item)
            self._room.release()
            return
        engine = self.known.engines[pod.spec.scheduler_name]
        rivals = self._nominated_pods(pod, engine)
        began = perf_counter()
        try:
            answer = self._decide(engine, pod, rivals)
        except NoNodes as nothing:
            self._start(self._reject(item, Diagnosis(0), str(nothing), "", started))
            return
        except PluginError as error:
            self._start(self._fail(item, str(error), started))
            return
        except Exception as error:
            self._start(self._fail(item, f"{type(error).__name__}: {error}", started))
            return
        self._note_decision(engine, pod, answer, perf_counter() - began)
        if isinstance(answer, Placement):
            engine.assume(pod.key, pod, answer.node)
            self.known.assumed[pod.key] = answer.node
            self.known.nominated.pop(pod.key, None)
            promises = engine.reserve(pod, answer.node) if answer.reserves else []
            self._start(self._bind(item, answer.node, started, promises))
        else:
            frees = DYNAMIC_RESOURCES in answer.plugins and engine.profile.arguments.frees_claims
            idle = engine.post_filter(pod) if frees else None
            self._start(self._after_rejection(item, engine, answer, rivals, started, idle))

    def _note_decision(self, engine: Engine, pod: Pod, answer: Placement | Diagnosis, seconds: float) -> None:
        profile = pod.spec.scheduler_name
        feasibility = engine.feasibility(pod)
        self.metrics.note_decision(feasibility, answer, profile, seconds)
        self._decisions += 1
        if self._decisions % SAMPLE == 0:
            for plugin, took in engine.time_plugins(feasibility):
                self.metrics.plugin_duration.child(plugin, "Filter", "Success").observe(took)

    def _decide(self, engine: Engine, pod: Pod, rivals: dict[str, list[PodClass]]) -> Placement | Diagnosis:
        promised = pod.status.nominated_node_name
        if promised and promised in self.known.table.row_of:
            alone = engine.place_on(pod, promised, rivals)
            if alone is not None:
                return alone
        return engine.place(pod, rivals)

    def _nominated_pods(self, pod: Pod, engine: Engine) -> dict[str, list[PodClass]]:
        """Return the pods at least as important that were promised room, by node."""
        found: dict[str, list[PodClass]] = {}
        for key, (node, other) in self.known.nominated.items():
            if key != pod.key and priority(other) >= priority(pod):
                found.setdefault(node, []).append(engine.classes.of(other))
        return found

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(self._with_room(work))
        self._binding.add(task)
        task.add_done_callback(self._binding.discard)

    async def _with_room(self, work: Any) -> None:
        try:
            await work
        finally:
            self._room.release()

    # ── binding ──────────────────────────────────────────────────────────────────────────────────

    async def _bind(
        self, item: QueuedPod, node: str, started: float, promises: list[Reservation] | None = None
    ) -> None:
        pod = item.pod
        try:
            if promises:
                began = perf_counter()
                if pod.status.nominated_node_name != node:  # it may take a while: say where the pod will go
                    await self._teller.patch_status(pod, {"nominatedNodeName": node})
                patience = self.known.engine_of(pod).profile.arguments.bind_timeout_seconds
                await self._prebind.keep(promises, patience)
                self._note_point("PreBind", pod, began)
            if self._leadership is not None:
                self._leadership.check()
            began = perf_counter()
            await self.client.bind(pod.metadata.name, pod.metadata.namespace, node, uid=pod.metadata.uid)
            self._note_point("Bind", pod, began)
        except asyncio.CancelledError:
            raise
        except (WeirError, OSError, TimeoutError, PluginError) as error:
            if not await self._happened_all_the_same(pod, node, error):
                await self._unbind(item, node, error, started, promises or [])
                return
        finally:
            for promise in promises or ():
                if promise.end() and isinstance(promise, ClaimReservation):
                    self.known.around.devices_changed(promise.pools)
        self._end_turn(item)
        profile = pod.spec.scheduler_name
        self.metrics.attempts.child("scheduled", profile).inc()
        self.metrics.attempt_duration.child("scheduled", profile).observe(self.clock.monotonic() - started)
        self.metrics.pod_attempts.child().observe(item.attempts)
        waited = self.clock.monotonic() - (item.first_attempt or item.timestamp)
        attempts = str(item.attempts) if item.attempts < 15 else "15+"
        self.metrics.sli_duration.child(attempts).observe(max(waited, 0.0))
        if any(toleration.operator in NUMERIC for toleration in pod.tolerations):
            self.metrics.numeric_tolerations.child(profile).inc()
        note = f"Successfully assigned {pod.key} to {node}"
        self._teller.tell(pod, "Normal", "Scheduled", "Binding", note)

    def _note_point(self, point: str, pod: Pod, began: float) -> None:
        profile = pod.spec.scheduler_name
        self.metrics.note_point(point, "Success", profile, perf_counter() - began)

    async def _unbind(
        self, item: QueuedPod, node: str, error: Exception, started: float, promises: list[Reservation]
    ) -> None:
        """Take back a binding that failed: free the node and let the pod try again."""
        key = item.key
        if promises:
            await self._prebind.take_back(promises)
            told = msgspec.structs.replace(item.pod.status, nominated_node_name=node)
            item.pod = msgspec.structs.replace(item.pod, status=told)
        if self.known.assumed.pop(key, None) is not None and key not in self.known.pods:
            self.known.table.remove_pod(key)
            self.known.on_event(ClusterEvent("AssignedPodDelete", item.pod, None))
        why = (
            str(error) if isinstance(error, PluginError) else f'running Bind plugin "DefaultBinder": {error}'
        )
        await self._fail(item, why, started)

    async def _happened_all_the_same(self, pod: Pod, node: str, error: Exception) -> bool:
        """Return whether a binding of which no answer came was made; room is not given away while it may be."""
        if not isinstance(error, Unreachable | InternalError | Timeout | ServiceUnavailable):
            return False
        try:
            found = await self.client.get(PODS, pod.metadata.name, pod.metadata.namespace)
        except (WeirError, OSError, TimeoutError):
            return False
        same = found["metadata"].get("uid") == pod.metadata.uid
        return same and found["spec"].get("nodeName") == node

    def _waits_no_more(self, item: QueuedPod) -> bool:
        """Return whether the pod of a broken attempt is gone or placed meanwhile; it is then not tried again."""
        metadata = item.pod.metadata
        now = self.informers["pods"].cache.get(ObjectKey(metadata.namespace, metadata.name))
        gone = now is None or now.metadata.uid != metadata.uid or bool(now.spec.node_name)
        if gone:
            self._end_turn(item)
        return gone

    def _end_turn(self, item: QueuedPod) -> None:
        if self.known.queue.done(item.key):
            self.known.work.set()

    async def _fail(self, item: QueuedPod, why: str, started: float) -> None:
        """Tell of an attempt that broke, and take back the promise of a node."""
        if self._waits_no_more(item):
            return
        profile = item.pod.spec.scheduler_name
        self.metrics.attempts.child("error", profile).inc()
        self.metrics.attempt_duration.child("error", profile).observe(self.clock.monotonic() - started)
        self.known.queue.failed(item, self.clock.monotonic())
        self.known.work.set()
        self._teller.tell(item.pod, "Warning", "FailedScheduling", "Scheduling", why)
        await self._teller.set_condition(item.pod, "SchedulerError", why, "")

    # ── rejection ────────────────────────────────────────────────────────────────────────────────

    async def _after_rejection(
        self,
        item: QueuedPod,
        engine: Engine,
        diagnosis: Diagnosis,
        rivals: dict[str, list[PodClass]],
        started: float,
        idle: ResourceClaim | None = None,
    ) -> None:
        message, promised = diagnosis.message, None
        freed = await give_up(idle, self.known.claims, self.client) if idle is not None else ""
        if freed:
            message = f"{message} {freed}"
        if engine.profile.loses_claim_state(diagnosis):
            message = f"{message} not found"
        elif not engine.profile.arguments.preempts:
            claims = engine.profile.arguments.frees_claims and self.gates.enabled("DynamicResourceAllocation")
            promised = None if claims else ""  # without any PostFilter a promise is void
        else:
            self.metrics.preemption_attempts.child().inc()
            began = perf_counter()
            found = preempt(
                engine,
                item.pod,
                diagnosis,
                self.known.pods,
                disruption_budgets(self.informers["budgets"].cache),
                rivals,
                self._rng,
            )
            self._note_point("PostFilter", item.pod, began)
            message = f"{message}{',' if freed else ''} {found.message}"
            if isinstance(found, NoPreemption):
                promised = None if found.keeps_promise else ""
            else:
                promised = found.node
                self.metrics.preemption_victims.child().observe(len(found.victims))
                self.known.nominated[item.key] = (promised, item.pod)
                self.known.queue.held[item.key] = "waiting for the preemption for this pod to be finished"
                await send_away(item.pod, found, self.known.nominated, self.client, self.clock, self._teller)
        await self._reject(item, diagnosis, message, promised, started)
        self.known.queue.release(item.key, self.clock.monotonic())
        self.known.work.set()

    async def _reject(
        self, item: QueuedPod, diagnosis: Diagnosis, message: str, promised: str | None, started: float
    ) -> None:
        profile = item.pod.spec.scheduler_name
        self.metrics.attempts.child("unschedulable", profile).inc()
        self.metrics.attempt_duration.child("unschedulable", profile).observe(
            self.clock.monotonic() - started
        )
        if self._waits_no_more(item):
            return
        if DYNAMIC_RESOURCES in diagnosis.plugins:
            self.known.claims.note_waiting(item.pod)
        self.known.queue.rejected(item, diagnosis.plugins, diagnosis.pending, self.clock.monotonic())
        self.known.work.set()
        self._teller.tell(item.pod, "Warning", "FailedScheduling", "Scheduling", message)
        await self._teller.set_condition(item.pod, "Unschedulable", message, promised)
