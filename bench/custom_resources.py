"""The cost of custom resources: `python -m bench custom_resources`.

500 definitions of a few hundred lines are created and established; then discovery is asked for, and a custom resource
without rules is written beside a ConfigMap of the same size. Seconds are of CPU, in one process with the server.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import Figure
from weir.apiserver.build import Running, build
from weir.apiserver.options import Options, open_store
from weir.apiserver.transport.http import Request, Response
from weir.clock import RealClock
from weir.compat.customresources.served import shown_kinds

DEFINITIONS = 500
FIELDS = 40  #: of a definition, each a few lines of YAML
WRITES = 400
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
Document = dict[str, Any]


def definition(number: int) -> Document:
    """Return a definition of about three hundred lines of YAML."""
    part = {
        "type": "object",
        "description": "A part of the specification, with a sentence of words as they are found in the field.",
        "properties": {
            "name": {"type": "string", "maxLength": 63, "description": "The name of the part."},
            "weight": {"type": "integer", "minimum": 0, "maximum": 100},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    }
    spec = {"type": "object", "properties": {f"part{i}": part for i in range(FIELDS)}}
    status = {"type": "object", "properties": {"phase": {"type": "string"}}}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    group = f"group{number % 50}.example.com"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things{number}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": f"things{number}", "kind": f"Thing{number}"},
            "versions": [version],
        },
    }


def rss_bytes() -> int:
    """Return how much memory this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Asking:
    """Requests to a server in this process."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._token = b"Bearer " + running.admin_token.encode()

    async def __call__(self, method: str, path: str, body: Document | None = None, accept: str = "") -> bytes:
        headers = {b"authorization": self._token, b"content-type": b"application/json"}
        if accept:
            headers[b"accept"] = accept.encode()
        data = b"" if body is None else json.dumps(body).encode()
        answer = await self._running.server.handle(Request(method, path, "", headers, data))
        assert isinstance(answer, Response) and answer.code < 300, answer
        return answer.body


async def measure() -> list[Figure]:
    """Return the figures."""
    with tempfile.TemporaryDirectory() as folder:
        options, clock = Options(Path(folder), store="memory", insecure=True), RealClock()
        running = await build(options, await open_store(options, clock), clock)
        running.server.verbs.off_loop.start()
        ask = Asking(running)
        await ask("GET", "/apis")
        gc.collect()
        before, started, cpu = rss_bytes(), time.perf_counter(), time.process_time()
        for number in range(DEFINITIONS):
            await ask("POST", CRDS, definition(number))
        while len(shown_kinds(running.server.served)) < DEFINITIONS:
            await asyncio.sleep(0.01)
        ready, ready_cpu = time.perf_counter() - started, time.process_time() - cpu
        gc.collect()
        grown = rss_bytes() - before
        cpu = time.process_time()
        await ask("GET", "/apis", accept=AGGREGATED)
        discovery = time.process_time() - cpu
        thing, config = await writes(ask)
        await running.stop()
    about = f"{DEFINITIONS} definitions of {FIELDS * 4} fields"
    return [
        Figure(f"{about}: until all are established", ready, "s", target="at most 20 s"),
        Figure(f"{about}: CPU", ready_cpu, "s"),
        Figure(f"{about}: memory", grown / 2**20, "MiB", target="at most 150 MiB"),
        Figure("aggregated discovery of them: CPU", discovery * 1000, "ms", target="under 200 ms"),
        Figure(
            "write of a custom resource against a ConfigMap: CPU",
            thing * 1e6,
            "µs",
            config * 1e6,
            config / thing,
            "at most twice a ConfigMap's cost",
        ),
    ]


async def writes(ask: Asking) -> tuple[float, float]:
    """Return what a write of a custom resource and one of a ConfigMap of that size cost, the best of five."""
    parts = {f"part{i}": {"name": f"n{i}", "weight": i, "labels": {"a": "b"}} for i in range(5)}
    texts = {f"part{i}": json.dumps(part) for i, part in enumerate(parts.values())}
    things = "/apis/group0.example.com/v1/namespaces/default/things0"
    maps = "/api/v1/namespaces/default/configmaps"
    costs: dict[str, float] = {"thing": 9.0, "map": 9.0}
    for turn in range(5):
        for name, path in (("thing", things), ("map", maps)):
            cpu = time.process_time()
            for number in range(WRITES):
                body: Document = {"metadata": {"name": f"{name}-{turn}-{number}"}}
                if name == "thing":
                    body |= {"apiVersion": "group0.example.com/v1", "kind": "Thing0", "spec": parts}
                else:
                    body |= {"apiVersion": "v1", "kind": "ConfigMap", "data": texts}
                await ask("POST", path, body)
            costs[name] = min(costs[name], (time.process_time() - cpu) / WRITES)
    return costs["thing"], costs["map"]


def run() -> list[Figure]:
    return asyncio.run(measure())
