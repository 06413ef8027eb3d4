"""One scheduling attempt: places and binds a pod, or rejects it with a reason, perhaps after preemption.

Decisions are pure (.cycle); here are the writes. A pod is assumed on its node when decided and bound in the
background; a failed binding forgets the pod and requeues it, unless the binding took effect although no response
came.
"""

from __future__ import annotations

import asyncio
import random
from itertools import chain
from time import perf_counter
from typing import Any

import msgspec

from weir.client.api import Client, Unreachable
from weir.client.cache import Informer, ObjectKey
from weir.client.leases import Leadership
from weir.clock import Clock
from weir.errors import InternalError, ServiceUnavailable, Timeout, WeirError
from weir.gates import Gates
from weir.objects.core import Pod
from weir.objects.kinds import PODS
from weir.objects.resource import ResourceClaim
from weir.observe.logs import Log
from weir.scheduler.claim_writes import deallocate
from weir.scheduler.cluster_state import ClusterState
from weir.scheduler.cycle import Engine, Placement
from weir.scheduler.decision_log import DecisionLog, device_tolerations, ref
from weir.scheduler.framework import Diagnosis, NoNodes, PluginError, Reservation
from weir.scheduler.metrics import SAMPLE, SchedulerMetrics
from weir.scheduler.plugins.claim_reservation import ClaimReservation
from weir.scheduler.plugins.dynamic_resources import NAME as DYNAMIC_RESOURCES
from weir.scheduler.pod_class import PodClass
from weir.scheduler.prebind import PreBind
from weir.scheduler.preemption import NoPreemption, preempt, priority
from weir.scheduler.preemption_eviction import disruption_budgets, evict_victims
from weir.scheduler.queue import QueuedPod
from weir.scheduler.queueing_hints import ClusterEvent
from weir.scheduler.status_reporter import StatusReporter
from weir.taints.expression import STOPPED_REASON, Expressions
from weir.taints.operators import INTEGERS, find_comparison


class ScheduleOne:
    """A scheduler's attempts; what they work with, the scheduler makes anew for each term of office."""

    client: Client
    gates: Gates
    clock: Clock
    metrics: SchedulerMetrics
    state: ClusterState
    informers: dict[str, Informer[Any]]
    _writing: Client
    _reporter: StatusReporter
    _prebind: PreBind
    _room: asyncio.Semaphore  #: as many attempts are under way at once
    _binding: set[asyncio.Task[None]]
    _leadership: Leadership | None
    _decisions: int
    _decision_log: DecisionLog
    expressions: Expressions
    _log: Log
    _rng: random.Random

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
        if self.expressions.stopped:
            tolerations = chain(pod.tolerations, device_tolerations(self.state.claims, pod))
            if warning := self.expressions.warning(pod.metadata.uid, tolerations):
                self._reporter.record_event(pod, "Warning", STOPPED_REASON, "Scheduling", warning)
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
        if self._decisions % SAMPLE == 1 and self.state.profiler is None:
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
        self._note_binding(item, node, started)

    def _note_binding(self, item: QueuedPod, node: str, started: float) -> None:
        pod, profile = item.pod, item.pod.spec.scheduler_name
        self.metrics.attempts.child("scheduled", profile).inc()
        self.metrics.attempt_duration.child("scheduled", profile).observe(self.clock.monotonic() - started)
        self.metrics.pod_attempts.child().observe(item.attempts)
        waited = self.clock.monotonic() - (item.first_attempt or item.timestamp)
        attempts = str(item.attempts) if item.attempts < 15 else "15+"
        self.metrics.sli_duration.child(attempts).observe(max(waited, 0.0))
        comparisons = (find_comparison(toleration.operator) for toleration in pod.tolerations)
        if any(comparison is not None and comparison.scale is INTEGERS for comparison in comparisons):
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
