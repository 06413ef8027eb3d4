"""Pod worker: admits a pod, runs its lifecycle, writes its status, deletes it at its end.

Writes in a kubelet's order: admission (startTime, containers waiting), each visible step, the final status when the
last container terminated, then the deletion, which finalizers may delay.

Kubelet metrics of pods and admission, summed over all simulated nodes of the process.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Final

import msgspec

from weir import errors
from weir.client.api import STRATEGIC_MERGE_PATCH, Client
from weir.client.cache import Cache
from weir.client.events import ObjectReference, Recorder
from weir.client.queue import WorkQueue
from weir.clock import Clock
from weir.gates import Gates
from weir.objects.core import Node, Pod, ViewError, read
from weir.objects.kinds import (
    CONFIG_MAPS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    RESOURCE_CLAIMS,
    SECRETS,
)
from weir.objects.resource import ResourceClaim
from weir.objects.times import format_time
from weir.objects.volumes import PersistentVolume
from weir.observe.logs import Log, ObjectRef
from weir.observe.metrics import Registry
from weir.observe.process_metrics import ExpressionMetrics
from weir.observe.unreadable import UnreadableValues
from weir.simulation.kubelet.admit import Admission, admit, admit_system, needs_admission
from weir.simulation.kubelet.behaviour import Behaviour, Life
from weir.simulation.kubelet.container_lifecycle import Ending, Printing
from weir.simulation.kubelet.pod_lifecycle import PodLife
from weir.simulation.kubelet.pod_status import status_of
from weir.simulation.kubelet.preparation import (
    CLAIMS_REASON,
    MOUNT_REASON,
    mount_problem,
    references,
    resource_claim_names,
    unprepared,
    volume_claim_names,
)
from weir.taints.expression import STOPPED_REASON, Expressions
from weir.taints.toleration import EVICTING

REFERRED: Final = {"ConfigMap": CONFIG_MAPS, "Secret": SECRETS}
PREPARE_AGAIN_SECONDS: Final = 5.0
PREEMPTED: Final = Ending("Preempting", "Preempted in order to admit critical pod")

Document = dict[str, Any]


class KubeletMetrics:
    """The metrics of all simulated kubelets of one process."""

    def __init__(self, registry: Registry | None = None) -> None:
        self.registry = registry or Registry()
        self.running_pods = self.registry.gauge(
            "kubelet_running_pods", "Pods that run on the simulated nodes."
        )
        self.started_pods = self.registry.counter(
            "kubelet_started_pods_total", "Pods that were admitted and begun."
        )
        self.rejections = self.registry.counter(
            "kubelet_admission_rejections_total", "Pods that were not admitted, by reason.", ("reason",)
        )
        self.nodes = self.registry.gauge("weir_kubelet_nodes", "Simulated nodes that are played.")
        self.cel = ExpressionMetrics(self.registry)


class PodKey(msgspec.Struct, frozen=True):
    """A pod that something may have to happen to."""

    namespace: str
    name: str


class PodWorker:
    """The pods of all simulated kubelets of one process."""

    def __init__(
        self,
        client: Client,
        gates: Gates,
        clock: Clock,
        pods: Cache[Document],
        queue: WorkQueue[PodKey],
        recorder: Recorder,
        chance: random.Random,
        life_of: Callable[[Document], Life],
        log: Log | None = None,
        metrics: KubeletMetrics | None = None,
    ) -> None:
        """*pods* must have the index `node`; *life_of* says how pods live on a node."""
        self._client, self._gates, self._clock = client, gates, clock
        self._pods, self._queue, self._recorder = pods, queue, recorder
        self._chance, self._life_of = chance, life_of
        self._admitted: set[str] = set()  # uids of pods that went through admission
        self._rejected: set[str] = set()  # uids of pods that were not admitted
        self._views: dict[
            str, tuple[Document, Pod]
        ] = {}  # uid → the document last read as a view, and that view
        self._lives: dict[str, PodLife] = {}
        self._hosts: dict[str, str] = {}  # uid → address of its node
        self._addresses: dict[str, str] = {}
        self._written: dict[str, Document] = {}  # uid → the status last written
        self._deleted: set[str] = set()  # uids of pods whose deletion was sent
        self._logs_kept = True
        self._next_address = 0
        self.expressions = Expressions()  # a cache of its own, as every component has
        self._log = log or Log("weir.simulation.kubelet")
        self._unreadable = UnreadableValues(self._log, self.expressions)
        self._metrics = metrics or KubeletMetrics()
        self._metrics.cel.watch("kubelet", self.expressions)
        self._metrics.running_pods.child().look = lambda: sum(
            life.sandbox and not life.over for life in self._lives.values()
        )

    def forget(self, uid: str) -> None:
        """A pod was deleted."""
        for seen in (self._admitted, self._rejected, self._deleted):
            seen.discard(uid)
        for each in (self._views, self._lives, self._hosts, self._addresses, self._written):
            each.pop(uid, None)

    def write_again(self, pod: Document) -> None:
        """Write the status of a pod anew: others may have changed it while its node was off."""
        self._written.pop(pod["metadata"]["uid"], None)

    async def sync(self, pod: Document, node: Document) -> None:
        """Bring one pod on a node that is on up to now."""
        uid = pod["metadata"]["uid"]
        if uid in self._deleted:
            return  # only its finalizers keep it
        life = self._lives.get(uid)
        if life is None:
            life = await self._begin(pod, node)
            if life is None:
                return
        life.refresh(pod)
        now = self._clock.time()
        if pod["metadata"].get("deletionTimestamp") and not life.over:
            life.end(now, Ending(), grace_of(pod["metadata"], now))
        if not life.sandbox and life.ending is None and now >= life.sandbox_at:
            if not await self._prepared(pod, node):
                if life.deadline < math.inf:
                    self._queue.add_after(pod_key(pod), max(life.deadline - now, 0.0))
                return
            now = self._clock.time()
        if life.starts_something(now):
            await self._look_up(pod, life)
        if not life.advance(now) and life.restored and life.ending is None:
            self._note_unchanged(pod, life)
        await self._show(pod, life)
        if life.over and pod["metadata"].get("deletionTimestamp"):
            await self._delete(pod)
            return
        due = life.due()
        if due < math.inf:
            self._queue.add_after(pod_key(pod), max(due - self._clock.time(), 0.0))

    async def _begin(self, pod: Document, node: Document) -> PodLife | None:
        """Return the life of a pod that is seen for the first time; None when it is not admitted."""
        uid, status = pod["metadata"]["uid"], pod.get("status") or {}
        behaviour = Behaviour(pod, self._life_of(node), self._chance)
        if uid in self._rejected and not status.get("startTime"):
            return None  # the copy does not show its final status yet
        known = bool(status.get("startTime")) or status.get("phase") in ("Succeeded", "Failed")
        if not known and uid not in self._admitted:
            self._admitted.add(uid)
            if not await self._admit(pod, node):
                self._rejected.add(uid)
                return None
            for problem in behaviour.problems():
                self._record(pod, "Warning", "InvalidAnnotation", problem)
        self._admitted.add(uid)
        begin = PodLife.restore if known else PodLife.begin
        life = self._lives[uid] = begin(pod, behaviour, self._clock.time())
        self._hosts[uid] = host_ip(node)
        if status.get("podIP"):
            self._addresses[uid] = status["podIP"]
        return life

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    async def _show(self, pod: Document, life: PodLife) -> None:
        """Write the status, if it says something new, and record what happened."""
        uid = pod["metadata"]["uid"]
        if life.sandbox:
            self._address(pod)
        for printing in life.take_printed():
            await self._send_output(pod, printing)
        if not (life.over and (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")):
            written = self._written.get(uid)
            now = format_time(self._clock.now())
            before = (written or pod.get("status") or {}).get("conditions") or ()
            status = status_of(life, self._hosts.get(uid, ""), self._addresses.get(uid, ""), before, now)
            if written != status:
                self._written[uid] = status
                await self._write(pod, status)
        for each in life.take_occurrences():
            self._record(pod, each.type, each.reason, each.message)

    def _address(self, pod: Document) -> str:
        """Return the address of a pod: one of its own, or its node's."""
        uid = pod["metadata"]["uid"]
        if uid not in self._addresses:
            self._next_address += 1
            number = self._next_address
            own = f"10.{128 + (number >> 16 & 127)}.{number >> 8 & 255}.{number & 255}"
            self._addresses[uid] = self._hosts.get(uid, own) if pod["spec"].get("hostNetwork") else own
        return self._addresses[uid]

    async def _look_up(self, pod: Document, life: PodLife) -> None:
        """Read the ConfigMaps and Secrets that containers need which are about to start."""
        namespace = pod["metadata"]["namespace"]
        life.behaviour.objects = {
            (kind, name): await self._client.find(REFERRED[kind], name, namespace) if name else None
            for kind, name in dict.fromkeys(references(pod))
        }

    async def _send_output(self, pod: Document, printing: Printing) -> None:
        """Send a container's output to the server, for its log."""
        if not self._logs_kept:
            return
        metadata = pod["metadata"]
        run = {
            "uid": metadata["uid"],
            "container": printing.container,
            "start": printing.start,
            "started_at": printing.started_at,
            "printed": printing.output,
        }
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/log"
        try:
            await self._client.call("POST", path, body=run)
        except errors.NotFound:
            return
        except (errors.MethodNotAllowed, errors.Forbidden) as error:
            self._logs_kept = False  # the server is not weir's, or we may not
            self._log.v(2, "The server does not keep logs of simulated containers", err=str(error))

    def _note_unchanged(self, pod: Document, life: PodLife) -> None:
        """Take the status that another process wrote for what this one would write, while nothing happens."""
        uid, said = pod["metadata"]["uid"], pod.get("status") or {}
        if uid not in self._written and said.get("phase") == "Running":
            before, now = said.get("conditions") or (), format_time(self._clock.now())
            status = status_of(life, self._hosts.get(uid, ""), self._addresses.get(uid, ""), before, now)
            if status["phase"] == "Running":
                self._written[uid] = status

    async def _write(self, pod: Document, status: Document) -> None:
        metadata = pod["metadata"]
        about = ObjectRef(metadata["namespace"], metadata["name"])
        self._log.v(4, "Status of pod changes", pod=about, phase=status.get("phase"))
        try:
            await self._client.patch(
                PODS,
                metadata["name"],
                {"metadata": {"uid": metadata["uid"]}, "status": status},
                metadata["namespace"],
                patch_type=STRATEGIC_MERGE_PATCH,
                subresource="status",
                read=False,
            )
        except (errors.NotFound, errors.Conflict):
            return  # gone, or another pod of the same name

    async def _delete(self, pod: Document) -> None:
        """Let the object go: nothing of the pod runs any more."""
        metadata = pod["metadata"]
        about = ObjectRef(metadata["namespace"], metadata["name"])
        self._log.v(3, "Pod ended, deleting it", pod=about)
        self._deleted.add(metadata["uid"])
        try:
            await self._client.delete(
                PODS,
                metadata["name"],
                metadata["namespace"],
                grace_period_seconds=0,
                uid=metadata["uid"],
                read=False,
            )
        except (errors.NotFound, errors.Conflict):
            self.forget(metadata["uid"])
        except BaseException:
            self._deleted.discard(metadata["uid"])
            raise

    def _record(self, pod: Document, type: str, reason: str, message: str) -> None:
        metadata = pod["metadata"]
        about = ObjectReference("Pod", metadata["name"], metadata["namespace"], metadata["uid"])
        self._recorder.record(about, type, reason, message)

    # ── admission ────────────────────────────────────────────────────────────────────────────────

    async def _admit(self, pod: Document, node: Document) -> bool:
        try:
            view, node_view = read(Pod, pod), read(Node, node)
            if not needs_admission(view):
                return True
            evaluate = self.expressions.evaluate
            about = ObjectRef(view.metadata.namespace, view.metadata.name)
            taints = [taint for taint in node_view.taints if taint.effect in EVICTING]
            self._unreadable.look(
                view.tolerations,
                taints,
                self._gates,
                evaluate,
                now=self._clock.time(),
                pod=about,
                node=node_view.name,
            )
            answer = admit_system(pod, node)
            if answer:
                answer = admit(view, node_view, list(self._others(pod)), self._gates, evaluate)
            if warning := self.expressions.warning(view.metadata.uid, view.tolerations):
                self._record(pod, "Warning", STOPPED_REASON, warning)
        except (ViewError, ValueError) as error:
            answer = Admission(
                "UnexpectedAdmissionError", f"Unexpected error while attempting to admit: {error}"
            )
        metadata = pod["metadata"]
        self._log.v(
            2,
            "Admitted pod" if answer else "Rejected pod",
            pod=ObjectRef(metadata["namespace"], metadata["name"]),
            node=pod["spec"]["nodeName"],
            **({} if answer else {"reason": answer.reason, "message": answer.message}),
        )
        if answer:
            for victim in answer.victims:
                await self._preempt(victim)
            self._metrics.started_pods.child().inc()
            return True
        self._metrics.rejections.child(answer.reason).inc()
        self._record(pod, "Warning", answer.reason, answer.message)
        status = {"phase": "Failed", "reason": answer.reason, "message": answer.status_message}
        await self._write(pod, {**status, "startTime": format_time(self._clock.now())})
        return False

    def _others(self, pod: Document) -> Iterator[Pod]:
        """Yield the pods admitted earlier on the same node that have not finished."""
        for other in self._pods.by_index("node", pod["spec"]["nodeName"]):
            uid = other["metadata"]["uid"]
            if uid != pod["metadata"]["uid"] and uid in self._admitted:
                life = self._lives.get(uid)
                if life is None or life.over:
                    continue
                known = self._views.get(uid)
                if known is None or known[0] is not other:
                    known = self._views[uid] = (other, read(Pod, other))
                if not known[1].terminated:
                    yield known[1]

    async def _preempt(self, victim: Pod) -> None:
        """End a pod at once for a critical one."""
        life = self._lives[victim.metadata.uid]
        now = self._clock.time()
        life.end(now, PREEMPTED, 0.0)
        life.advance(now)
        await self._show(life.pod, life)

    # ── devices and volumes ──────────────────────────────────────────────────────────────────────

    async def _prepared(self, pod: Document, node: Document) -> bool:
        """Return whether the pod has its devices and volumes; if not, it is tried again."""
        problem = await self._unprepared_claim(pod)
        reason = CLAIMS_REASON
        if not problem:
            problem, reason = await self._unmounted_volume(pod, node), MOUNT_REASON
        if problem:
            self._record(pod, "Warning", reason, problem)
            self._queue.add_after(pod_key(pod), PREPARE_AGAIN_SECONDS)
        return not problem

    async def _unprepared_claim(self, pod: Document) -> str:
        status = pod.get("status") or {}
        if not (pod["spec"].get("resourceClaims") or status.get("extendedResourceClaimStatus")):
            return ""
        namespace = pod["metadata"]["namespace"]
        view, claims = read(Pod, pod), {}
        for name in resource_claim_names(view):
            found = await self._client.find(RESOURCE_CLAIMS, name, namespace)
            if found is not None:
                claims[f"{namespace}/{name}"] = read(ResourceClaim, found)
        return unprepared(view, claims)

    async def _unmounted_volume(self, pod: Document, node: Document) -> str:
        for name in volume_claim_names(pod):
            claim = await self._client.find(PERSISTENT_VOLUME_CLAIMS, name, pod["metadata"]["namespace"])
            bound = ((claim or {}).get("spec") or {}).get("volumeName")
            volume = await self._client.find(PERSISTENT_VOLUMES, bound) if bound else None
            if volume is not None:
                labels = node["metadata"].get("labels") or {}
                problem = mount_problem(read(PersistentVolume, volume), labels, self._gates)
                if problem:
                    return problem
        return ""


def pod_key(pod: Document) -> PodKey:
    """Return the key of a pod."""
    return PodKey(pod["metadata"]["namespace"], pod["metadata"]["name"])


def host_ip(node: Document) -> str:
    """Return the address of a node, as its pods show it."""
    found = (node.get("status") or {}).get("addresses") or ()
    return next((str(each["address"]) for each in found if each["type"] == "InternalIP"), "127.0.0.1")


def grace_of(metadata: Document, now: float) -> float:
    """Return how many seconds a pod that is being deleted has left: as many as it was given, or until its time."""
    given = float(metadata.get("deletionGracePeriodSeconds") or 0)
    left = datetime.fromisoformat(metadata["deletionTimestamp"]).timestamp() + 1 - now
    return max(min(given, left), 0.0)
