"""The scheduler at work: watches, decides, binds, reports.

Everything that decides is elsewhere and pure; here are the watches that feed it and the writes that carry it out. A
pod is counted on its node the moment it is decided (assumed), bound in the background, and confirmed when the watch
shows it; a binding that fails takes the pod off again and sends it back to the queue. A lost watch is listed anew,
and what was assumed meanwhile stays counted, so nothing is placed twice.
Not here: what is known of the cluster (weir.scheduler.cluster_state), plugins and the cycle (.cycle), the queue
(.queue), whom to preempt (.preemption) and how (.preemption_eviction), what comes before binding (.prebind),
events and conditions (.status_reporter).
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
from weir.scheduler.claim_writes import deallocate
from weir.scheduler.cluster_state import ClusterState, Namespace
from weir.scheduler.config import SchedulerConfig
from weir.scheduler.cycle import Engine, Placement
from weir.scheduler.decision_log import DecisionLog, ref
from weir.scheduler.framework import Diagnosis, NoNodes, PluginError, Reservation
from weir.scheduler.metrics import SAMPLE, SchedulerMetrics
from weir.scheduler.plugins.claim_reservation import ClaimReservation
from weir.scheduler.plugins.dynamic_resources import NAME as DYNAMIC_RESOURCES
from weir.scheduler.pod_class import PodClass
from weir.scheduler.prebind import PreBind
from weir.scheduler.preemption import NoPreemption, preempt, priority
from weir.scheduler.preemption_eviction import Budget, disruption_budgets, evict_victims
from weir.scheduler.queue import QueuedPod
from weir.scheduler.queueing_hints import ClusterEvent
from weir.scheduler.status_reporter import PODS, StatusReporter
from weir.taints.expression import Expressions
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
        self._log = log or Log("weir.scheduler")
        self._decision_log = DecisionLog(self._log, clock)
        self.expressions = Expressions()  # one cache, shared by all plugins
        self.metrics.cel.watch("scheduler", self.expressions)
        self._rng = random.Random(seed)
        self._seed = seed
        self._begin()
        self._began = False

    def _begin(self) -> None:
        """Start from nothing: a scheduler that is elected anew reads what the cluster is then."""
        client, clock, gates, seed = self.client, self.clock, self.gates, self._seed
        self.state = ClusterState(
            client,
            clock,
            gates,
            self.config,
            self.metrics,
            seed,
            self._report_rule_problem,
            self.expressions.evaluate,
        )
        self._decisions = 0
        self._absent: set[str] = set()  #: kinds that the server does not have
        self._popped = asyncio.Event()
        self._binding: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(self.config.parallelism)
        self._leadership: Leadership | None = None
        self.recorders = {
            name: SeriesRecorder(client, clock, name, f"{name}-{self.identity}", busy=self._has_work)
            for name in self.state.engines
        }
        #: leases, events and what is only read do not wait behind bindings
        self._writing = client.limited(self.config.qps, self.config.burst)
        self._reporter = StatusReporter(self._writing, clock, self.recorders, self._log)
        self._prebind = PreBind(self._writing, clock, self._room, self._reporter, self.metrics)
        self.informers: dict[str, Informer[Any]] = {
            "nodes": Informer(client, NODES, clock, _decoder(Node), seed=seed),
            "pods": Informer(client, PODS, clock, _decoder(Pod), seed=seed + 1),
            "namespaces": Informer(client, NAMESPACES, clock, _decoder(Namespace), seed=seed + 2),
            "budgets": Informer(client, BUDGETS, clock, _decoder(Budget), seed=seed + 3),
            **self.state.informers.informers,
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
            self._absent = await self.state.informers.unserved()
            if self._absent:
                self._log.info(
                    "claims are not looked at: kinds are not served", kinds=",".join(sorted(self._absent))
                )
            await wait_all_synced(each for kind, each in self.informers.items() if kind not in self._absent)
            self._log.v(1, "Caches populated", kinds=len(self.informers))
            self.state.informers.listen()
            self.informers["namespaces"].cache.listen(self.state.namespace_changed)
            self.informers["nodes"].cache.listen(self.state.node_changed)
            self.informers["pods"].cache.listen(self.state.pod_changed)
            tasks.append(asyncio.ensure_future(self._tick()))
            await self._loop()
        finally:
            for task in (*tasks, *self._binding):
                task.cancel()
            await asyncio.gather(*tasks, *self._binding, return_exceptions=True)

    async def _loop(self) -> None:
        decisions = 0
        while True:
            item = self.state.queue.pop(self.clock.monotonic())
            if item is None:
                self.state.work.clear()
                self.measure()
                await self.state.work.wait()
                continue
            self._popped.set()
            await self._room.acquire()
            self._attempt(item)
            decisions += 1
            # A pod that fits nowhere costs a look at every node for its reasons: then news is let in at once.
            if decisions % _DECISIONS_AT_ONCE == 0 or item.key not in self.state.assumed:
                await asyncio.sleep(0)

    async def _tick(self) -> None:
        """Do every second what time alone does; the queue counts by a clock that never jumps."""
        while True:
            if self.state.queue.idle:  # then time does nothing, until some pod had its turn
                self._popped.clear()
                await self._popped.wait()
            now = self.clock.monotonic()
            await self.clock.sleep(1.0 - now % 1.0)
            if self.state.queue.tick(self.clock.monotonic()):
                self.state.work.set()

    def measure(self) -> None:
        """Bring the metrics that are read rather than counted up to date."""
        sizes = {
            "nodes": len(self.state.table),
            "pods": len(self.state.table.row_of_pod),
            "assumed_pods": len(self.state.assumed),
        }
        self.metrics.publish(self.state.queue, self.state.engines.items(), sizes)

    def pages(self) -> Pages:
        """Return what the scheduler serves about itself."""

        def metrics() -> bytes:
            self.measure()
            return self.metrics.registry.render()

        def ready() -> bool:
            return all(each.cache.synced for kind, each in self.informers.items() if kind not in self._absent)

        return pages(metrics, ready)

    def _has_work(self) -> bool:
        """Whether pods wait to be placed or bound: events about those that were can wait a moment."""
        return bool(self._binding) or self.state.queue.counts()["active"] > 0

    def _report_rule_problem(self, problem: Problem) -> None:
        """Report a rule that could not be applied: in an event if it fails for a device, else in the log."""
        rule = self.informers["DeviceTaintRule"].cache.get(ObjectKey("", problem.rule))
        if problem.reason and rule is not None:
            self._reporter.record_rule_event(rule.metadata, problem.reason, problem.message)
        else:
            self._log.info("device taint rule not applied", rule=problem.rule, error=problem.message)

    # ── one attempt ──────────────────────────────────────────────────────────────────────────────

    def _attempt(self, item: QueuedPod) -> None:
        """Decide for one pod and start what follows; the room taken for it is given back then."""
        pod, started = item.pod, self.clock.monotonic()
        if pod.metadata.deletion_timestamp:
            self._log.v(3, "Skip schedule deleting pod", pod=ref(pod))
            self._reporter.record_event(
                pod, "Warning", "FailedScheduling", "Scheduling", f"skip schedule deleting pod: {pod.key}"
            )
            self._end_turn(item)
            self._room.release()
            return
        self._log.v(3, "Attempting to schedule pod", pod=ref(pod))
        engine = self.state.engines[pod.spec.scheduler_name]
        nominated = self._nominated_pods(pod, engine)
        began = perf_counter()
        try:
            answer = self._decide(engine, pod, nominated)
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
        self._decision_log.note(engine, pod, answer)
        if isinstance(answer, Placement):
            engine.assume(pod.key, pod, answer.node)
            self.state.assume(pod, answer.node)
            self.state.nominated.pop(pod.key, None)
            promises = engine.reserve(pod, answer.node) if answer.reserves else []
            self._start(self._bind(item, answer.node, started, promises))
        else:
            frees = DYNAMIC_RESOURCES in answer.plugins and engine.profile.arguments.frees_claims
            idle = engine.post_filter(pod) if frees else None
            self._start(self._after_rejection(item, engine, answer, nominated, started, idle))

    def _note_decision(self, engine: Engine, pod: Pod, answer: Placement | Diagnosis, seconds: float) -> None:
        profile = pod.spec.scheduler_name
        feasibility = engine.feasibility(pod)
        self.metrics.note_decision(feasibility, answer, profile, seconds)
        self._decisions += 1
        if self._decisions % SAMPLE == 0:
            for plugin, took in engine.time_plugins(feasibility):
                self.metrics.plugin_duration.child(plugin, "Filter", "Success").observe(took)

    def _decide(
        self, engine: Engine, pod: Pod, nominated: dict[str, list[PodClass]]
    ) -> Placement | Diagnosis:
        promised = pod.status.nominated_node_name
        if promised and promised in self.state.table.row_of:
            alone = engine.place_on(pod, promised, nominated)
            if alone is not None:
                return alone
        return engine.place(pod, nominated)

    def _nominated_pods(self, pod: Pod, engine: Engine) -> dict[str, list[PodClass]]:
        """Return the pods at least as important that were promised room, by node."""
        found: dict[str, list[PodClass]] = {}
        for key, (node, other) in self.state.nominated.items():
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
                    await self._reporter.patch_status(pod, {"nominatedNodeName": node})
                patience = self.state.engine_of(pod).profile.arguments.bind_timeout_seconds
                await self._prebind.keep(promises, patience)
                self._note_point("PreBind", pod, began)
            if self._leadership is not None:
                self._leadership.check()
            began = perf_counter()
            await self._writing.bind(pod.metadata.name, pod.metadata.namespace, node, uid=pod.metadata.uid)
            self._note_point("Bind", pod, began)
        except asyncio.CancelledError:
            raise
        except (WeirError, OSError, TimeoutError, PluginError) as error:
            if not await self._was_bound_anyway(pod, node, error):
                await self._unbind(item, node, error, started, promises or [])
                return
        finally:
            for promise in promises or ():
                if promise.end() and isinstance(promise, ClaimReservation):
                    self.state.informers.devices_changed(promise.pools)
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
        self._log.v(2, "Successfully bound pod to node", pod=ref(pod), node=node, attempts=item.attempts)
        note = f"Successfully assigned {pod.key} to {node}"
        self._reporter.record_event(pod, "Normal", "Scheduled", "Binding", note)

    def _note_point(self, point: str, pod: Pod, began: float) -> None:
        profile = pod.spec.scheduler_name
        self.metrics.note_point(point, "Success", profile, perf_counter() - began)

    async def _unbind(
        self, item: QueuedPod, node: str, error: Exception, started: float, promises: list[Reservation]
    ) -> None:
        """Take back a binding that failed: free the node and let the pod try again."""
        key = item.key
        self._log.v(1, "Failed to bind pod", pod=ref(item.pod), node=node, err=error)
        if promises:
            await self._prebind.take_back(promises)
            status = msgspec.structs.replace(item.pod.status, nominated_node_name=node)
            item.pod = msgspec.structs.replace(item.pod, status=status)
        if self.state.assumed.pop(key, None) is not None and key not in self.state.pods:
            self.state.table.remove_pod(key)
            self.state.on_event(ClusterEvent("AssignedPodDelete", item.pod, None))
        why = (
            str(error) if isinstance(error, PluginError) else f'running Bind plugin "DefaultBinder": {error}'
        )
        await self._fail(item, why, started)

    async def _was_bound_anyway(self, pod: Pod, node: str, error: Exception) -> bool:
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
        if self.state.queue.done(item.key):
            self.state.work.set()

    async def _fail(self, item: QueuedPod, why: str, started: float) -> None:
        """Report an attempt that broke, and take back the promise of a node."""
        if self._waits_no_more(item):
            return
        profile = item.pod.spec.scheduler_name
        self._log.error("Error scheduling pod; retrying", err=why, pod=ref(item.pod))
        self.metrics.attempts.child("error", profile).inc()
        self.metrics.attempt_duration.child("error", profile).observe(self.clock.monotonic() - started)
        self.state.queue.failed(item, self.clock.monotonic())
        self.state.work.set()
        self._reporter.record_event(item.pod, "Warning", "FailedScheduling", "Scheduling", why)
        await self._reporter.set_condition(item.pod, "SchedulerError", why, "")

    # ── rejection ────────────────────────────────────────────────────────────────────────────────

    async def _after_rejection(
        self,
        item: QueuedPod,
        engine: Engine,
        diagnosis: Diagnosis,
        nominated: dict[str, list[PodClass]],
        started: float,
        idle: ResourceClaim | None = None,
    ) -> None:
        message, promised = diagnosis.message, None
        freed = await deallocate(idle, self.state.claims, self._writing) if idle is not None else ""
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
                self.state.counted,
                disruption_budgets(self.informers["budgets"].cache),
                nominated,
                self._rng,
            )
            self._note_point("PostFilter", item.pod, began)
            message = f"{message}{',' if freed else ''} {found.message}"
            if isinstance(found, NoPreemption):
                promised = None if found.keeps_promise else ""
            else:
                promised = found.node
                self.metrics.preemption_victims.child().observe(len(found.victims))
                for victim in found.victims:
                    self._log.v(
                        2,
                        "Preemptor pod preempts victim pod",
                        preemptor=ref(item.pod),
                        victim=ref(victim),
                        node=promised,
                    )
                self.state.nominated[item.key] = (promised, item.pod)
                self.state.queue.held[item.key] = "waiting for the preemption for this pod to be finished"
                await evict_victims(
                    item.pod, found, self.state.nominated, self._writing, self.clock, self._reporter
                )
        await self._reject(item, diagnosis, message, promised, started)
        self.state.queue.release(item.key, self.clock.monotonic())
        self.state.work.set()

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
            self.state.claims.note_waiting(item.pod)
            self._decision_log.note_devices(self.state.claims, item.pod)
        self._log.v(2, "Unable to schedule pod; no fit; waiting", pod=ref(item.pod), err=message)
        self.state.queue.rejected(item, diagnosis.plugins, diagnosis.pending, self.clock.monotonic())
        self.state.work.set()
        self._reporter.record_event(item.pod, "Warning", "FailedScheduling", "Scheduling", message)
        await self._reporter.set_condition(item.pod, "Unschedulable", message, promised)
