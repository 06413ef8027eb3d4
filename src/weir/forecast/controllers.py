"""The controllers of a forecast: changes make keys, keys are reconciled, actions change the objects at once.

Each controller decides as it does in a cluster (weir.controllers.runtime.worker); what it reads shows its own writes
immediately, so that nothing has to be waited for. What an action makes of an object is in weir.forecast.objects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from weir import errors
from weir.client.cache import Cache
from weir.client.events import ObjectReference, Recorder
from weir.controllers.runtime.action_runner import Requeue
from weir.controllers.runtime.controller import (
    Action,
    ActionContext,
    Controller,
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
from weir.controllers.runtime.custom_kinds import CustomKinds
from weir.controllers.runtime.expectations import is_deleting
from weir.controllers.runtime.listers import Listers, controllers_of
from weir.controllers.runtime.metrics import ControllerMetrics
from weir.controllers.runtime.pod_eviction import disruption_target
from weir.controllers.runtime.worker import CreateBackoff, only_after_success
from weir.forecast.client import ObjectsClient
from weir.forecast.objects import Objects
from weir.forecast.timeline import Timeline
from weir.forecast.views import follow
from weir.forecast.work_queue import WorkQueue
from weir.objects.kind import Kind
from weir.objects.kinds import PODS, hub_of
from weir.observe.logs import Log

Document = dict[str, Any]
_START_SECONDS: Final = 0.001
#: Controllers that have nothing to decide before there is an object of these kinds.
_ASLEEP_WITHOUT: Final = {
    "daemonset-controller": ("DaemonSet",),
    "deployment-controller": ("Deployment",),
    "replicaset-controller": ("ReplicaSet",),
    "replication-controller": ("ReplicationController",),
    "statefulset-controller": ("StatefulSet",),
    "job-controller": ("Job",),
    "horizontal-pod-autoscaler-controller": ("HorizontalPodAutoscaler",),
    "disruption-controller": ("PodDisruptionBudget",),
    "persistentvolume-controller": ("PersistentVolume", "PersistentVolumeClaim"),
    "volume-provisioner": ("PersistentVolume", "PersistentVolumeClaim"),
    "resourceclaim-controller": ("ResourceClaim", "ResourceClaimTemplate"),
    "device-taint-eviction-controller": ("ResourceClaim", "ResourceSlice", "DeviceTaintRule"),
    "resourcequota-controller": ("ResourceQuota",),
}


class EventLog(Recorder):
    """Keeps the events that an answer is read from, and writes none."""

    def __init__(
        self, client: ObjectsClient, timeline: Timeline, source: str, events: list[Document]
    ) -> None:
        super().__init__(client, timeline, source)
        self._reasons, self._events = client.event_reasons or frozenset(), events

    def record(self, about: ObjectReference, type: str, reason: str, message: str) -> None:
        if reason in self._reasons:
            involved = {
                "kind": about.kind,
                "name": about.name,
                "namespace": about.namespace,
                "uid": about.uid,
            }
            self._events.append({"reason": reason, "message": message, "involvedObject": involved})


class Controllers:
    """The controllers of one forecast over one copy of each collection; of *shared* ones there is one already."""

    def __init__(
        self,
        timeline: Timeline,
        objects: Objects,
        client: ObjectsClient,
        shared: Mapping[Kind, Cache[Any]],
        controllers: Iterable[Controller],
        events: list[Document],
    ) -> None:
        self.timeline, self.objects, self.client = timeline, objects, client
        self.metrics, self.log = ControllerMetrics(), Log("weir.forecast")
        self.starting = True  #: whether controllers still look at what there is for the first time
        self.suspended: set[str] = set()  #: uids of controllers whose pods are not evicted any more
        chosen = list(controllers)
        kinds = dict.fromkeys(kind for each in chosen for kind in each.kinds if hub_of(kind) is kind)
        self.listers = Listers(
            {
                kind: shared[kind] if kind in shared else follow(objects, kind, lambda document: document)
                for kind in kinds
            }
        )
        custom = CustomKinds()
        self.workers = [Worker(self, each, events) for each in chosen]
        for each in chosen:
            each.set_custom_kinds(custom)

    def start(self) -> None:
        """Let every controller see what is there; those without objects of their own wait for the first."""
        for worker in self.workers:
            own = _ASLEEP_WITHOUT.get(worker.controller.name)
            kinds = [kind for kind in worker.controller.kinds if own is not None and kind.kind in own]
            if own is None or any(self.objects.of(kind) for kind in kinds):
                worker.start()
                continue
            for kind in kinds:
                self.objects.listen(kind, partial(self._start, worker))
        self.timeline.after(_START_SECONDS, self._started)

    def _started(self) -> None:
        self.starting = False

    @staticmethod
    def _start(worker: Worker, old: Document | None, new: Document | None) -> None:
        worker.start()


class Worker:
    """One controller with its queue."""

    def __init__(self, host: Controllers, controller: Controller, events: list[Document]) -> None:
        self._host, self.controller, self._timeline = host, controller, host.timeline
        self.queue = WorkQueue(host.timeline, self._reconcile, self._failed)
        source = controller.event_source or controller.name
        self._recorder = EventLog(host.client, host.timeline, source, events)
        self._create_backoff = CreateBackoff()
        self._started = False
        #: what the controller's own code raised for a key, until it succeeds
        self.failed: dict[Hashable, str] = {}

    def start(self) -> None:
        """Look at everything there is, and from then on at every change; once."""
        if self._started:
            return
        self._started = True
        self.controller.register_metrics(self._host.metrics)
        for kind in self.controller.kinds:
            if kind in self._host.listers.caches:
                self._host.listers.caches[kind].listen(self._listener(kind), self.controller.reads.get(kind))
        for key in self.controller.first_keys:
            self.queue.add(key)

    def _listener(self, kind: Kind) -> Callable[[Any, Any], None]:
        changed, add = self.controller.changed, self.queue.add

        def listener(old: Any, new: Any) -> None:
            for key in changed(kind, old, new):
                add(key)

        return listener

    async def _reconcile(self, key: Hashable) -> None:
        refused = False
        now = self._timeline.now()
        for action in list(self.controller.reconcile(key, self._host.listers, now)):
            if isinstance(action, Steps):
                await self._take_steps(action)
            elif isinstance(action, Create):
                wait = self._create_backoff.wait(key, action, self._timeline.monotonic())
                if wait > 0:
                    self.queue.add_after(key, wait)
                    refused = True
                elif not refused:
                    refused = self._create(key, action)
            elif not (refused and only_after_success(action)):
                self._carry_out(action)
        if not refused:
            self._create_backoff.forget(key)
        self.failed.pop(key, None)

    async def _take_steps(self, action: Steps) -> None:
        context = ActionContext(self._host.client, self._timeline, self._recorder, self._host.metrics)
        outcome = await action.carry_out(context)
        for each in self.controller.carried_out(action, outcome, self._timeline.now()):
            self._carry_out(each)

    def _create(self, key: Hashable, action: Create) -> bool:
        """Create an object; return whether the server refuses it."""
        try:
            self._host.objects.create(action.kind, dict(action.document), action.namespace)
        except errors.AlreadyExists:
            return False
        except errors.ApiError as error:
            self._report_refusal(action, error)
            self.queue.add_after(key, self._create_backoff.note(key, action, self._timeline.monotonic()))
            now = self._timeline.now()
            for each in self.controller.create_refused(key, str(error), self._host.listers, now):
                self._carry_out(each)
            return True
        return False

    def _report_refusal(self, action: Create, error: errors.ApiError) -> None:
        if action.about is not None:
            text, metadata = str(error), action.document.get("metadata", {})
            if (prefix := metadata.get("generateName")) and not metadata.get("name"):
                text = re.sub(re.escape(prefix) + "[a-z0-9]{5}", prefix, text)
            self._recorder.record(action.about, "Warning", "FailedCreate", f"{action.failed} {text}")

    def _carry_out(self, action: Action) -> None:
        if isinstance(action, Record):
            self._recorder.record(action.about, action.type, action.reason, action.message)
        elif isinstance(action, WakeAt):
            self.queue.add_after(action.key, max((action.at - self._timeline.now()).total_seconds(), 0.0))
        elif isinstance(action, Retry):
            raise Requeue(action.why)
        elif isinstance(action, Evict):
            if self._host.starting:
                self._timeline.soon(partial(self._evict, action))  # all have looked at what there is by then
            else:
                self._evict(action)
        elif isinstance(action, Delete):
            self._delete(action)
        elif isinstance(action, Patch):
            self._patch(action)
        elif isinstance(action, Create):
            self._host.objects.create(action.kind, dict(action.document), action.namespace)
        else:
            assert isinstance(action, Count | Observe)

    def _evict(self, action: Evict) -> None:
        """Mark and delete a pod as weir.controllers.runtime.pod_eviction does, in one write."""
        eviction = action.eviction
        pod = self._host.objects.find(PODS, eviction.namespace, eviction.name)
        same = pod is not None and pod["metadata"]["uid"] == eviction.uid
        if pod is not None and same and self._host.suspended.intersection(controllers_of(pod)):
            self.controller.eviction_ended(action)
            return
        if pod is not None and same and not (eviction.unless_deleting and is_deleting(pod)):
            condition = disruption_target(
                pod,
                eviction.reason,
                eviction.message,
                self._timeline.now(),
                observed_generation=eviction.observed_generation,
            )
            self._host.objects.mark_and_delete(pod, condition)
        self.controller.eviction_ended(action)

    def _delete(self, action: Delete) -> None:
        objects = self._host.objects
        for kind, name, uid in action.unless_present:
            found = objects.find(kind, action.namespace, name)
            if found is not None and found["metadata"]["uid"] == uid:
                return
        try:
            objects.delete(
                action.kind,
                action.namespace,
                action.name,
                uid=action.uid,
                grace_period_seconds=action.grace_period_seconds,
                propagation_policy=action.propagation_policy,
            )
        except errors.NotFound:
            return
        except errors.Conflict:
            if not action.uid:
                raise

    def _patch(self, action: Patch) -> None:
        objects = self._host.objects
        for kind, name, uid in action.while_present:
            found = objects.find(kind, action.namespace, name)
            if found is None or found["metadata"]["uid"] != uid or is_deleting(found):
                return
        try:
            objects.patch(
                action.kind,
                action.namespace,
                action.name,
                action.patch,
                patch_type=action.patch_type,
                subresource=action.subresource,
                field_manager=action.field_manager,
                force=action.force,
            )
        except errors.NotFound:
            return

    def _failed(self, key: Hashable, error: Exception) -> None:
        if not isinstance(error, errors.WeirError):
            self.failed[key] = f"{type(error).__name__}: {error}"
            self._host.log.v(
                1, "Controller failed", controller=self.controller.name, key=str(key), err=str(error)
            )
