"""Replay what a real scheduler wrote: each situation on a fresh server with weir's scheduler running.

Only what was read is in the recordings. Nodes and pods have the state the recordings show, taken back to before the
scheduler acted; what no recording shows (a claim, a pod that was only in the way, a cordon) is in SITUATIONS. What is
said about a pod that neither shows is replayed as it is kept, without a scheduler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qs

from tests.golden.arrange import times_of
from tests.golden.cluster import GATES_ON, TOKEN, Cluster
from tests.golden.compare import compare
from tests.golden.recording import Document, Evidence, Exchange, kind_of
from tests.golden.undo import alive, unbound
from weir.apiserver.transport.http import Request
from weir.client.api import Client
from weir.client.local import LocalTransport
from weir.scheduler.config import SchedulerConfig
from weir.scheduler.profile_arguments import ProfileArguments
from weir.scheduler.run import Scheduler

ANY = [{"operator": "Exists"}]
ZONE_A = {"zone": "a"}


def pod(name: str, node: str = "", labels: dict[str, str] | None = None, **spec: Any) -> Document:
    container = {"name": "c", "image": "i", **spec.pop("container", {})}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "golden", "uid": f"uid-{name}", "labels": labels or {}},
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [container],
            "tolerations": ANY,
            "priority": 0,
            "terminationGracePeriodSeconds": 30,
            "preemptionPolicy": "PreemptLowerPriority",
            **({"nodeName": node} if node else {}),
            **spec,
        },
        "status": {"phase": "Pending"},
    }


PORT = {"ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]}
CPU = {"resources": {"requests": {"cpu": "3"}}}
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}
SLA = [{"key": "sla", "operator": "Gt", "value": "900", "effect": "NoSchedule"}]
VICTIM = pod("victim", "n950", nodeSelector=ZONE_A, container=CPU)
#: pod the exchange is about → what was there that no recording shows; `nodes: []` takes the nodes away
SITUATIONS: dict[str, dict[str, Any]] = {
    "f0": {"nodes": [], "pods": [pod("f0")]},
    "f10": {"pods": [pod("f10", tolerations=SLA, nodeSelector={"zone": "b"})]},
    "f13": {
        "objects": [
            {
                "kind": "PersistentVolumeClaim",
                "apiVersion": "v1",
                "metadata": {"name": "unbound", "namespace": "golden", "uid": "u"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }
        ]
    },
    "f16": {"cordoned": ["n950"]},
    "f17": {
        "pods": [pod("f17", nodeSelector=ZONE_A, container=PORT), pod("web", "n950", container=PORT)],
    },
    "f18": {"pods": [pod("f18", nodeSelector=ZONE_A, affinity=APART), pod("x", "n950", {"app": "x"})]},
    "f21": {"pods": [VICTIM]},
    "victim": {"pods": [pod("preemptor", nodeSelector=ZONE_A, container=CPU, priority=1000)]},
    "preemptor": {"pods": [pod("preemptor", nodeSelector=ZONE_A, container=CPU, priority=1000), VICTIM]},
}


#: what only a running scheduler can answer; what else a folder holds may be about something no recording shows
SHOWS = frozenset(
    (
        *(
            "no-nodes-event",
            "no-toleration-event",
            "no-toleration-pod",
            "lt-too-low-pod",
            "gt-wrong-effect-event",
        ),
        *("gt-wrong-effect-pod", "gt-wrong-key-event", "gt-wrong-key-pod", "insufficient-cpu-pod"),
        *("insufficient-cpu-memory-pod", "extended-resource-event", "extended-resource-pod", "cordoned-pod"),
        *("node-affinity-and-taint-event", "taint-and-cpu-event", "taint-and-cpu-pod", "pvc-unbound-event"),
        *(
            "pvc-unbound-pod",
            "matchfields-pod",
            "bound-pod",
            "bound-event-v1",
            "hostport-event",
            "anti-affinity-event",
        ),
        *("pod-affinity-pod", "preempt-no-help-same-priority-event", "preempt-no-help-same-priority-pod"),
        *("preempt-victim-pod", "preempt-victim-events", "preemptor-events"),
    )
)


class SchedulingReplay:
    """The exchanges that show a scheduler's work."""

    def __init__(self, evidence: Evidence, exchanges: list[Exchange], start: Any) -> None:
        self._evidence, self._exchanges, self._start = evidence, exchanges, start

    async def answers(self, asked: list[Exchange]) -> dict[str, list[str]]:
        """Return how the answers to those exchanges differ that show a scheduler's work on a pod somebody knows."""
        found = {}
        for exchange in asked:
            subject = subject_of(exchange)
            documents = list(self._documents(subject)) if subject is not None else []
            if any(d["kind"] == "Pod" and d["metadata"]["name"] == subject for d in documents):
                found[exchange.name] = await self._once(exchange, documents)
        return found

    def _documents(self, subject: str) -> Iterable[Document]:
        """Yield what was there before the scheduler met the pod called *subject*."""
        situation = SITUATIONS.get(subject, {})
        if situation.get("nodes", True):
            for key in sorted(key for key in self._evidence.versions if key[1] == "Node"):
                found = self._newest(key)
                if key[3] in situation.get("cordoned", ()):
                    found = {**found, "spec": {**found["spec"], "unschedulable": True}}
                if key[3] in self._area_nodes():
                    yield found
        yield from situation.get("objects", ())
        seen = set()
        for document in situation.get("pods", ()):
            seen.add(document["metadata"]["name"])
            yield document
        key = ("v1", "Pod", "golden", subject)
        if subject not in seen and (versions := self._evidence.versions.get(key)):
            yield unscheduled(versions[max(versions)], keep_node=subject == "victim")

    def _area_nodes(self) -> set[str]:
        """The nodes that this recording's own lists show."""
        return {
            item["metadata"]["name"]
            for exchange in self._exchanges
            if isinstance(exchange.body, dict) and exchange.body.get("kind") == "NodeList"
            for item in exchange.body["items"]
        }

    def _newest(self, key: tuple[str, str, str, str]) -> Document:
        own = [
            {"kind": "Node", "apiVersion": "v1", **item}
            for exchange in self._exchanges
            if isinstance(exchange.body, dict) and exchange.body.get("kind") == "NodeList"
            for item in exchange.body["items"]
            if item["metadata"]["name"] == key[3]
        ]
        versions = self._evidence.versions[key]
        return own[-1] if own else versions[max(versions)]

    async def _once(self, exchange: Exchange, documents: list[Document]) -> list[str]:
        cluster = Cluster(GATES_ON, max(times_of(exchange), default=self._start))
        await cluster.start()
        for document in documents:
            assert kind_of(document) is not None
            # A pod meets a scheduler that already knows the cluster, as it did then.
            if not waits(document):
                await cluster.put(document)
        headers = {"authorization": f"Bearer {TOKEN}", "user-agent": "kube-scheduler/v1.37"}
        client = Client(LocalTransport(cluster.server.handle, Request, headers))
        config = SchedulerConfig(profiles=(ProfileArguments(upstream_reasons=True),), leader_elect=False)
        scheduler = Scheduler(client, GATES_ON, cluster.clock, config=config, identity="vm")
        task = asyncio.ensure_future(scheduler.run())
        try:
            await cluster.clock.settle(300)
            for document in documents:
                if waits(document):
                    await cluster.put(document)
            for _ in range(30):
                await cluster.clock.settle(60)
                await cluster.clock.advance(0.05)
            got = await cluster.call(
                exchange.request["method"],
                exchange.path,
                exchange.query,
                dict(exchange.request.get("headers") or {}),
                b"",
            )
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return compare(exchange, got)


def waits(document: Document) -> bool:
    return document["kind"] == "Pod" and not document["spec"].get("nodeName")


def subject_of(exchange: Exchange) -> str | None:
    """Return the pod whose scheduling *exchange* shows, or None when it shows none."""
    info, body = exchange.info, exchange.body
    if exchange.request["method"] != "GET" or info.kind is None:
        return None
    if info.kind.kind == "Pod" and info.name and isinstance(body, dict) and body.get("kind") == "Pod":
        return info.name
    if info.kind.kind == "Event":
        (selector,) = parse_qs(exchange.query).get("fieldSelector") or [""]
        fields = dict(part.partition("=")[::2] for part in selector.split(","))
        return fields.get("involvedObject.name") or fields.get("regarding.name")
    return None


def unscheduled(document: Document, *, keep_node: bool) -> Document:
    """Return a recorded pod as it was before the scheduler wrote about it, or evicted it."""
    found = alive(document)
    if keep_node:
        conditions = [c for c in found["status"]["conditions"] if c["type"] == "PodScheduled"]
        found = {**found, "status": {**found["status"], "conditions": conditions}}
    else:
        found = unbound(found)
    fields = [
        entry for entry in found["metadata"].get("managedFields", ()) if entry["manager"] != "kube-scheduler"
    ]
    return {**found, "metadata": {**found["metadata"], "managedFields": fields}}
