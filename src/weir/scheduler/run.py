"""The scheduler process: watches, the scheduling loop, leader election.

A scheduled pod is assumed on its node and confirmed by the watch. A lost watch is relisted, and assumed pods stay
counted, so nothing is placed twice. One attempt is in weir.scheduler.schedule_one.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import msgspec

from weir.client.api import Client
from weir.client.cache import Informer, ObjectKey, wait_all_synced
from weir.client.leases import Elector, Leadership, Timing
from weir.client.series import SeriesRecorder
from weir.clock import Clock
from weir.devices.tracker import Problem
from weir.gates import Gates
from weir.objects.core import Node, Pod
from weir.objects.kinds import NAMESPACES, NODES, POD_DISRUPTION_BUDGETS, PODS
from weir.observe.endpoint import Pages, pages
from weir.observe.logs import Log
from weir.observe.process_metrics import publish_features
from weir.scheduler.cluster_state import ClusterState, Namespace
from weir.scheduler.config import SchedulerConfig
from weir.scheduler.decision_log import DecisionLog
from weir.scheduler.metrics import SchedulerMetrics
from weir.scheduler.prebind import PreBind
from weir.scheduler.preemption_eviction import Budget
from weir.scheduler.queue import QueuedPod
from weir.scheduler.schedule_one import ScheduleOne
from weir.scheduler.status_reporter import StatusReporter
from weir.taints.expression import Expressions

#: Expressions of one pod are evaluated for so long at a time; what takes longer goes on beside the other pods.
_EVALUATING_SECONDS: Final = 0.02
#: After this many decisions in a row the loop lets messages in and out.
_DECISIONS_AT_ONCE: Final = 16


def _decoder(view: type[Any]) -> Callable[[msgspec.Raw], Any]:
    return msgspec.json.Decoder(view).decode


class Scheduler(ScheduleOne):
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
        self.expressions = Expressions()  # one cache, shared by all plugins
        self._decision_log = DecisionLog(self._log, clock, self.expressions)
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
            self.expressions,
        )
        self._decisions = 0
        self._evaluating: deque[QueuedPod] = deque()  #: pods whose expressions are being evaluated
        self._evaluated: deque[QueuedPod] = (
            deque()
        )  #: pods whose expressions were, and whose turn it is again
        self._more_to_evaluate = asyncio.Event()
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
            "budgets": Informer(client, POD_DISRUPTION_BUDGETS, clock, _decoder(Budget), seed=seed + 3),
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
            tasks.append(asyncio.ensure_future(self._evaluate_expressions()))
            await self._loop()
        finally:
            for task in (*tasks, *self._binding):
                task.cancel()
            await asyncio.gather(*tasks, *self._binding, return_exceptions=True)

    async def _loop(self) -> None:
        decisions = 0
        while True:
            ready = self._evaluated.popleft() if self._evaluated else None
            item = ready or self.state.queue.pop(self.clock.monotonic())
            if item is None:
                self.state.work.clear()
                self.measure()
                await self.state.work.wait()
                continue
            self._popped.set()
            if ready is None and not self._expressions_done(item):
                self._evaluating.append(item)
                self._more_to_evaluate.set()
                await asyncio.sleep(0)
                continue
            await self._room.acquire()
            self._attempt(item)
            decisions += 1
            # A pod that fits nowhere evaluates every node for its reasons: yield to the watches afterwards.
            if decisions % _DECISIONS_AT_ONCE == 0 or item.key not in self.state.assumed:
                await asyncio.sleep(0)

    def _expressions_done(self, item: QueuedPod) -> bool:
        """Evaluate the expressions of a pod's tolerations for a moment; return whether none is left."""
        tolerations = item.pod.tolerations
        if not any(toleration.expression for toleration in tolerations):
            return True
        judged = self.state.engine_of(item.pod).judged_taints
        judged.read(self.state.table)
        return judged.judge.advance(tolerations, _EVALUATING_SECONDS)

    async def _evaluate_expressions(self) -> None:
        """Evaluate expressions that take long, in turns of pods, while other pods are placed."""
        while True:
            if not self._evaluating:
                self._more_to_evaluate.clear()
                await self._more_to_evaluate.wait()
                continue
            item = self._evaluating.popleft()
            if self._expressions_done(item):
                self._evaluated.append(item)
                self.state.work.set()
            else:
                self._evaluating.append(item)
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

        standard = pages(metrics, ready)
        profiler = self.state.profiler
        return standard if profiler is None else {**standard, "/debug/plugins": profiler.page}

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
