"""Replay what controllers and a scheduler did: an area on one cluster in which weir's own run.

The exchanges are asked in their order, and what a component should have done by then it has done by itself: nothing of
its work is put in place. What the recordings do not show (a node, a claim, an object deleted in between) is in STORIES,
as requests somebody made before an exchange. Fixtures that show a component's work are named there and must be
answered by the living cluster; the others of an area get a second chance in the plain replay (tests.golden.arrange).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tests.golden.cluster import GATES_ON, TOKEN, Cluster
from tests.golden.compare import compare
from tests.golden.recording import Document, Exchange
from weir.apiserver.transport.http import Request
from weir.client.api import Client
from weir.client.local import LocalTransport
from weir.controllers.catalog import choose
from weir.controllers.nodes.lifecycle import NodeLifecycle
from weir.controllers.runtime.runner import Controllers
from weir.scheduler.config import SchedulerConfig
from weir.scheduler.profile_arguments import ProfileArguments
from weir.scheduler.run import Scheduler

PODS, CLAIMS = "/api/v1/namespaces/golden/pods", "/apis/resource.k8s.io/v1/namespaces/golden/resourceclaims"
NODES, SLICES = "/api/v1/nodes", "/apis/resource.k8s.io/v1/resourceslices"
CLASSES, DEPLOYMENTS = "/apis/resource.k8s.io/v1/deviceclasses", "/apis/apps/v1/namespaces/golden/deployments"
GRACE = timedelta(hours=1000)


@dataclass(frozen=True)
class Call:
    """Something somebody did that no recording shows."""

    method: str
    path: str
    body: Document | None = None


@dataclass(frozen=True)
class Story:
    """What was done in between, and which fixtures only a living cluster can answer."""

    shows: frozenset[str]
    before: Mapping[str, tuple[Call, ...]]
    #: fixtures of which more is compared than the recording calls stable: the cells of a table, ages apart
    with_cells: frozenset[str] = field(default_factory=frozenset)
    #: fixtures asked in the second of what was done before: managed fields are sorted by whole seconds
    same_second: frozenset[str] = field(default_factory=frozenset)


def node(name: str, *taints: Document) -> tuple[Call, ...]:
    """A ready node, as somebody without a kubelet makes one."""
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
    spec: Document = {"taints": list(taints)} if taints else {}
    body = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}, "spec": spec, "status": status}
    return (Call("POST", NODES, body),)


def pod(name: str, *, claim: str = "", **spec: Any) -> Call:
    container: Document = {"name": "c", "image": "i" if claim else "registry.example/app:1"}
    whole: Document = {"automountServiceAccountToken": False, "containers": [container], **spec}
    if claim:
        container["resources"] = {"claims": [{"name": "g"}]}
        whole["resourceClaims"] = [{"name": "g", "resourceClaimName": claim}]
    return Call("POST", PODS, {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name}, "spec": whole})


def claim(name: str, index: int | None, device_class: str = "gpu.example.com", **exactly: Any) -> Call:
    request: Document = {"deviceClassName": device_class, **exactly}
    if index is not None:
        expression = f'device.attributes["gpu.example.com"].index == {index}'
        request["selectors"] = [{"cel": {"expression": expression}}]
    spec = {"devices": {"requests": [{"name": "r", "exactly": request}]}}
    body = {
        "kind": "ResourceClaim",
        "apiVersion": "resource.k8s.io/v1",
        "metadata": {"name": name},
        "spec": spec,
    }
    return Call("POST", CLAIMS, body)


def devices(*taken: str) -> tuple[Call, ...]:
    """A node with four devices; those *taken* have a taint nobody tolerates."""
    taint = {"key": "taken.example", "effect": "NoSchedule"}
    listed = [
        {
            "name": f"d{number}",
            "attributes": {"index": {"int": number}},
            **({"taints": [taint]} if f"d{number}" in taken else {}),
        }
        for number in range(4)
    ]
    spec = {
        "driver": "gpu.example.com",
        "nodeName": "dra1",
        "pool": {"name": "dra1", "generation": 1, "resourceSliceCount": 1},
        "devices": listed,
    }
    version = "resource.k8s.io/v1"
    found = {"kind": "ResourceSlice", "apiVersion": version, "metadata": {"name": "dra1-gpu"}, "spec": spec}
    chosen = {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]}
    named = {
        "kind": "DeviceClass",
        "apiVersion": version,
        "metadata": {"name": "gpu.example.com"},
        "spec": chosen,
    }
    return (*node("dra1"), Call("POST", CLASSES, named), Call("POST", SLICES, found))


def taint(value: str, effect: str = "NoSchedule") -> Document:
    return {"key": "sla", "value": value, "effect": effect}


def tolerates(operator: str, value: str) -> list[Document]:
    return [{"key": "sla", "operator": operator, "value": value, "effect": "PreferNoSchedule"}]


BAD = {"key": "h.example/bad", "operator": "Exists", "effect": "NoExecute"}
DEPLOYMENT = {
    "kind": "Deployment",
    "apiVersion": "apps/v1",
    "metadata": {"name": "dep"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "dep"}},
        "template": {
            "metadata": {"labels": {"app": "dep"}},
            "spec": {
                "schedulerName": "none",
                "automountServiceAccountToken": False,
                "containers": [{"name": "c", "image": "registry.example/app:1"}],
            },
        },
    },
}
GONE = {"gracePeriodSeconds": 0, "kind": "DeleteOptions", "apiVersion": "v1"}

STORIES: dict[str, Story] = {
    "deletes": Story(
        frozenset({"deployment-replicasets", "foreground-pods-after", "background-rs-after"}),
        {"delete-background": (Call("POST", DEPLOYMENTS, DEPLOYMENT),)},
    ),
    "extra": Story(
        frozenset({"claimtemplate-claims", "prefer-lt-placement-table", "late-add-toleration"}),
        {
            # The first device was not free; which claim or taint kept it is not recorded.
            "claimtemplate-create": devices("d0"),
            "prefer-lt-placement-table": (
                Call("DELETE", f"{PODS}/tp", GONE),
                Call("DELETE", f"{NODES}/dra1"),
                *node("pa", taint("100", "PreferNoSchedule")),
                *node("pb", taint("900", "PreferNoSchedule")),
                *(pod(f"pref{number}", tolerations=tolerates("Gt", "500")) for number in range(3)),
                *(pod(f"prefl{number}", tolerations=tolerates("Lt", "500")) for number in range(3)),
            ),
            "late-add-toleration": (
                Call("DELETE", PODS, GONE),
                Call("DELETE", f"{NODES}/pa"),
                Call("DELETE", f"{NODES}/pb"),
                *node("n950", taint("950")),
                pod("late"),
            ),
        },
        with_cells=frozenset({"prefer-lt-placement-table"}),
        same_second=frozenset({"late-add-toleration"}),
    ),
    "device_taint": Story(
        frozenset(
            {
                *("allocated-claim-c0", "allocated-claim-c1", "bound-pod", "claims-table"),
                *("rule-status-first", "pod-dp3", "events-dp0"),
                *("sched-device-tainted-event", "sched-device-tainted-pod", "sched-no-class-pod"),
            }
        ),
        {
            "allocated-claim-c0": (
                *devices(),
                *(claim("c0", 0), pod("dp0", claim="c0")),
                *(claim("c1", 1, tolerations=[BAD]), pod("dp1", claim="c1")),
                *(claim("c2", 2, tolerations=[{**BAD, "tolerationSeconds": 8}]), pod("dp2", claim="c2")),
                *(claim("c3", 3), pod("dp3", claim="c3")),
            ),
            "sched-device-tainted-event": (
                Call("DELETE", PODS, GONE),
                Call("DELETE", CLAIMS),
                *(claim("c0", 0), pod("dq0", claim="c0")),
            ),
            "sched-no-class-pod": (
                claim("cnoclass", None, "no.such"),
                pod("dq3", claim="cnoclass"),
            ),
        },
    ),
}


@asynccontextmanager
async def living(start: datetime) -> AsyncIterator[Cluster]:
    """Give a fresh server with a scheduler and every controller; nodes stay ready without kubelets, as recorded."""
    cluster = Cluster(GATES_ON, start)
    await cluster.start()

    def client(agent: str) -> Client:
        headers = {"authorization": f"Bearer {TOKEN}"}
        transport = LocalTransport(cluster.server.handle, Request, headers)
        return Client(transport, clock=cluster.clock, user_agent=f"{agent}/v1.37")

    config = SchedulerConfig(profiles=(ProfileArguments(upstream_reasons=True),), leader_elect=False)
    controllers = [*choose(["*", "-node-lifecycle"], GATES_ON), NodeLifecycle(GATES_ON, grace=GRACE)]
    parts = [
        Scheduler(client("kube-scheduler"), GATES_ON, cluster.clock, config=config, identity="vm"),
        Controllers(client("kube-controller-manager"), cluster.clock, controllers),
    ]
    tasks = [asyncio.ensure_future(part.run()) for part in parts]
    try:
        await pause(cluster)
        yield cluster
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def pause(cluster: Cluster, seconds: float = 1.5) -> None:
    """Let every component do what there is to do now, and tell of it (events come up to a second later)."""
    for _ in range(int(seconds / 0.05)):
        await cluster.clock.settle(30)
        await cluster.clock.advance(0.05)


HASH = "pod-template-hash"


class Hashes:
    """Which hash of a pod template here is which one there (decision G-10: weir hashes templates in its own way)."""

    def __init__(self) -> None:
        self._own: dict[str, str] = {}  # recorded → own

    def learn(self, recorded: Any, own: Any) -> None:
        """Pair the hashes of two answers that show the same objects."""
        there, here = (dict.fromkeys(found_hashes(answer)) for answer in (recorded, own))
        if len(there) == len(here):
            self._own.update(zip(there, here, strict=True))

    def to_own(self, text: str) -> str:
        for recorded, own in self._own.items():
            text = text.replace(recorded, own)
        return text

    def to_recorded(self, answer: Document) -> Document:
        text = json.dumps(answer)
        for recorded, own in self._own.items():
            text = text.replace(own, recorded)
        found: Document = json.loads(text)
        return found


def found_hashes(value: Any) -> Iterator[str]:
    """Yield the template hashes an answer shows, in its order."""
    if isinstance(value, dict):
        if isinstance(value.get(HASH), str):
            yield value[HASH]
        for inner in value.values():
            yield from found_hashes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from found_hashes(inner)


async def answers(area: str, exchanges: Iterable[Exchange], start: datetime) -> dict[str, list[str]]:
    """Return how a living cluster's answer to each exchange differs from the recorded one."""
    story, found, hashes = STORIES[area], {}, Hashes()
    async with living(start) as cluster:
        for exchange in exchanges:
            if (calls := story.before.get(exchange.name)) is not None:
                await act(cluster, calls, same_second=exchange.name in story.same_second)
            body = exchange.request.get("body")
            sent = (
                b"" if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
            )
            headers = {"Content-Type": "application/json", **(exchange.request.get("headers") or {})}
            token = not exchange.request.get("noAuthorization")
            path = hashes.to_own(exchange.path)
            got = await cluster.call(
                exchange.request["method"], path, exchange.query, headers, sent, token=token
            )
            hashes.learn(exchange.body, got.get("body"))
            found[exchange.name] = compare(_with_cells(exchange, story), hashes.to_recorded(got))
            await pause(cluster)
    return found


async def act(cluster: Cluster, calls: tuple[Call, ...], *, same_second: bool) -> None:
    """Do what somebody did, with time for the components after each step."""
    for number, call in enumerate(calls, 1):
        last = number == len(calls)
        if last and same_second:
            await cluster.clock.advance(1 - cluster.clock.time() % 1)
        body = json.dumps(call.body).encode() if call.body is not None else b""
        headers = {"Content-Type": "application/json"}
        got = await cluster.call(call.method, call.path, "", headers, body)
        # An exchange of a larger folder may have done it already.
        done = {"POST": 409, "DELETE": 404}.get(call.method)
        assert got["code"] < 300 or got["code"] == done, (call, got["body"])
        await pause(cluster, 0.5 if same_second or not last else 2.0)


def _with_cells(exchange: Exchange, story: Story) -> Exchange:
    if exchange.name not in story.with_cells:
        return exchange
    volatile = [path for path in exchange.volatile if ".cells" not in path]
    return Exchange(exchange.area, exchange.name, exchange.request, exchange.response, volatile)
