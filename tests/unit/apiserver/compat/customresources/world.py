"""A server in this process for tests of custom resources, and definitions to give it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from weir.apiserver.build import Running, build
from weir.apiserver.options import Options, open_store
from weir.apiserver.transport.http import Request, Response
from weir.clock import RealClock

Document = dict[str, Any]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


def definition(schema: Document, plural: str = "widgets", **version: Any) -> Document:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural.capitalize()[:-1]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": schema}}},
                    **version,
                }
            ],
        },
    }


def widget(name: str, /, **spec: Any) -> Document:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


class Server:
    """Asks a server in this process."""

    def __init__(self, running: Running) -> None:
        self.running = running

    async def ask(
        self, method: str, path: str, body: Any = None, content: str = "application/json", accept: str = ""
    ) -> tuple[int, Any]:
        """Return the code and the body of the answer."""
        path, _, query = path.partition("?")
        headers = {
            b"authorization": b"Bearer " + self.running.admin_token.encode(),
            b"content-type": content.encode(),
            b"user-agent": b"test/1",
        }
        if accept:
            headers[b"accept"] = accept.encode()
        data = b"" if body is None else json.dumps(body).encode()
        answer = await self.running.server.handle(Request(method, path, query, headers, data))
        assert isinstance(answer, Response)
        try:
            return answer.code, json.loads(answer.body)
        except ValueError:
            return answer.code, answer.body.decode(errors="replace")

    async def define(self, found: Document) -> None:
        """Create a definition and wait until it is established."""
        code, answer = await self.ask("POST", CRDS, found)
        assert code == 201, answer
        await self.until(f"{CRDS}/{found['metadata']['name']}", established)

    async def until(self, path: str, holds: Any, tries: int = 6000) -> Any:
        """Ask for *path* until the answer is as it should be."""
        for _ in range(tries):
            code, answer = await self.ask("GET", path)
            if holds(code, answer):
                return answer
            await asyncio.sleep(0.01)
        raise AssertionError(answer)


def established(code: int, found: Any) -> bool:
    conditions = found["status"].get("conditions") or ()
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


@asynccontextmanager
async def server(folder: Path, store: str = "memory") -> AsyncIterator[Server]:
    options, clock = Options(folder, store=store, insecure=True), RealClock()
    running = await build(options, await open_store(options, clock), clock)
    running.server.verbs.off_loop.start()
    try:
        yield Server(running)
    finally:
        await running.stop()
