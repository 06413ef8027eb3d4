"""Replay the recorded story of an eviction: a server, a scheduler and the taint eviction controller in one process.

What happened between the exchanges is not recorded but follows from them: before the taint every pod of the table
was created and placed; `t3-` is three seconds after the taint; `e-cancel` came after the table and had a minute.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from tests.golden.cluster import GATES_ON, TOKEN, Cluster
from tests.golden.compare import compare
from tests.golden.recording import Document, Exchange
from tests.golden.undo import before
from weir.apiserver.transport.http import Request
from weir.client.api import Client
from weir.client.local import LocalTransport
from weir.controllers.nodes.taint_eviction import TaintEviction
from weir.controllers.runtime.runner import Controllers
from weir.scheduler.config import SchedulerConfig
from weir.scheduler.run import Scheduler

NODE = "taint-node"
LATER = re.compile(r"t(\d+)-")  #: so many seconds after the taint
#: what only running components can answer; what else a folder holds may be about something no recording shows
SHOWS = frozenset(
    (
        *(
            "taint-node",
            "t0-events-e-none",
            "t0-e-gt-low",
            "t0-events-e-gt-low",
            "t0-e-noschedule-only",
            "t0-e-gt-ok",
        ),
        *("t3-e-gt-secs", "table-after", "untaint-node", "cancel-events", "taint-below"),
    )
)
DEFAULTS = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}


def client(cluster: Cluster, agent: str) -> Client:
    headers = {"authorization": f"Bearer {TOKEN}"}
    transport = LocalTransport(cluster.server.handle, Request, headers)
    return Client(transport, clock=cluster.clock, user_agent=f"{agent}/v1.37")


async def answers(exchanges: list[Exchange]) -> dict[str, list[str]]:
    """Live through the story, asking what the recording asked; return how each answer differs."""
    found: dict[str, list[str]] = {}
    by_name = {exchange.name: exchange for exchange in exchanges}
    cluster = Cluster(GATES_ON)
    await cluster.start()
    await cluster.put(before(by_name[NODE], by_name[NODE].body))
    config = SchedulerConfig(leader_elect=False)
    parts = [
        Scheduler(client(cluster, "kube-scheduler"), GATES_ON, cluster.clock, config=config, identity="vm"),
        Controllers(client(cluster, "kube-controller-manager"), cluster.clock, [TaintEviction(GATES_ON)]),
    ]
    tasks = [asyncio.ensure_future(part.run()) for part in parts]
    tainted, cancelled = 0.0, False
    try:
        await cluster.clock.advance(1)
        for name, tolerations in pods(exchanges).items():
            await create(cluster, name, tolerations)
        await cluster.clock.advance(1)
        for exchange in exchanges:
            if (later := LATER.match(exchange.name)) and tainted:
                ahead = tainted + int(later[1]) + 0.5 - cluster.clock.time()
                await cluster.clock.advance(max(ahead, 0.0))
            if exchange.name.startswith("untaint") and not cancelled:
                cancelled = True
                await create(cluster, "e-cancel", [{**SLA, "operator": "Exists", "tolerationSeconds": 60}])
                await cluster.clock.advance(1)
            found[exchange.name] = await ask(cluster, exchange)
            if exchange.name == NODE:
                tainted = cluster.clock.time()
            await cluster.clock.advance(0.1)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return found


SLA = {"key": "sla", "effect": "NoExecute"}
ANY_VALUE = {"operator": "Exists"}


def pods(exchanges: list[Exchange]) -> dict[str, list[Document]]:
    """Return every pod that was there before the taint, with the tolerations its creator wrote."""
    found: dict[str, list[Document]] = {}
    for exchange in exchanges:
        body: Any = exchange.body
        if body.get("kind") == "Table":
            for row in body["rows"]:
                metadata = row["object"]["metadata"]
                # Who was not shown whole: managed fields tell whether its creator wrote tolerations.
                # Whether they helped shows in whether it had to go.
                wrote = "f:tolerations" in json.dumps(metadata["managedFields"])
                helps = (
                    {"operator": "Equal", "value": "other"} if "deletionTimestamp" in metadata else ANY_VALUE
                )
                found.setdefault(metadata["name"], [{**SLA, **helps}] if wrote else [])
    for exchange in exchanges:
        if exchange.body.get("kind") == "Pod":
            tolerations = exchange.body["spec"]["tolerations"]
            found[exchange.body["metadata"]["name"]] = [t for t in tolerations if t["key"] not in DEFAULTS]
    return found


async def create(cluster: Cluster, name: str, tolerations: list[Document]) -> None:
    spec: Document = {
        "containers": [{"name": "c", "image": "registry.example/app:1"}],
        "automountServiceAccountToken": False,
    }
    if tolerations:
        spec["tolerations"] = tolerations
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    headers = {"Content-Type": "application/json"}
    body = json.dumps(pod).encode()
    answer = await cluster.call("POST", "/api/v1/namespaces/golden/pods", "", headers, body)
    assert answer["code"] in (201, 409), answer


async def ask(cluster: Cluster, exchange: Exchange) -> list[str]:
    request = exchange.request
    body = json.dumps(request["body"]).encode() if "body" in request else b""
    headers = dict(request.get("headers") or {})
    return compare(
        exchange, await cluster.call(request["method"], exchange.path, exchange.query, headers, body)
    )
