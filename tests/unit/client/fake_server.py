"""A transport that answers like a small API server, and fails when told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs

import msgspec

from weir.client.api import Reply, Unreachable
from weir.errors import AlreadyExists, ApiError, Conflict, Gone, NotFound

Document = dict[str, Any]


class PodsType:
    group, version, plural, namespaced, kind = "", "v1", "pods", True, "Pod"


PODS = PodsType()


def pod(name: str, spec: Document) -> Document:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


class FakeServer:
    """Keeps objects by path, with revisions, lists in pages and watches."""

    def __init__(self) -> None:
        self.objects: dict[str, Document] = {}
        self.revision = 10
        self.oldest = 0
        self.log: list[tuple[int, str, str, Document]] = []  # revision, type, path, object
        self.requests: list[str] = []
        self.failures: list[Exception | Reply] = []  # the next requests fail with these
        self.hang = False
        self._changed = asyncio.Event()
        self.cut = asyncio.Event()

    # --------------------------------------------------------------------------------------- for the tests

    def put(self, path: str, document: Document) -> Document:
        self.revision += 1
        document = msgspec.json.decode(msgspec.json.encode(document))
        document["metadata"]["resourceVersion"] = str(self.revision)
        kind = "MODIFIED" if path in self.objects else "ADDED"
        self.objects[path] = document
        self._note(kind, path, document)
        return document

    def remove(self, path: str) -> Document:
        self.revision += 1
        gone = self.objects.pop(path)
        gone = {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self.revision)}}
        self._note("DELETED", path, gone)
        return gone

    def put_pod(self, name: str, **spec: object) -> Document:
        return self.put(f"/api/v1/namespaces/default/pods/{name}", pod(name, spec))

    def remove_pod(self, name: str) -> None:
        self.remove(f"/api/v1/namespaces/default/pods/{name}")

    def bookmark(self) -> None:
        self.revision += 5
        self._note("BOOKMARK", "", {"metadata": {"resourceVersion": str(self.revision)}})

    def compact(self) -> None:
        self.oldest = self.revision

    def cut_watches(self) -> None:
        """End every open watch as a broken connection would."""
        self.cut.set()
        self.cut = asyncio.Event()
        self._note_changed()

    def _note(self, kind: str, path: str, document: Document) -> None:
        self.log.append((self.revision, kind, path, document))
        self._note_changed()

    def _note_changed(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # ------------------------------------------------------------------------------------------- transport

    async def request(
        self, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Reply:
        self.requests.append(f"{method} {target}")
        if self.hang:
            await asyncio.get_running_loop().create_future()
        if self.failures:
            failure = self.failures.pop(0)
            if isinstance(failure, Reply):
                return failure
            if not isinstance(failure, ApiError):
                raise failure
            return Reply(failure.code, msgspec.json.encode(failure.status()), {})
        path, _, query = target.partition("?")
        try:
            answer = self._answer(method, path, parse_qs(query), msgspec.json.decode(body) if body else {})
        except ApiError as error:
            return Reply(error.code, msgspec.json.encode(error.status()), {})
        return Reply(200, msgspec.json.encode(answer), {})

    def _answer(self, method: str, path: str, query: dict[str, list[str]], body: Document) -> Document:
        if method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            if path in self.objects:
                raise AlreadyExists("taken")
            return self.put(path, body)
        if method == "GET" and path not in self.objects and path.count("/") in (3, 5):
            return self._list(path, query)
        if path not in self.objects:
            raise NotFound(f"{path} not found")
        if method == "GET":
            return self.objects[path]
        if method == "DELETE":
            return self.remove(path)
        if method == "PATCH":
            return self.put(path, {**self.objects[path], **body})
        if body["metadata"].get("resourceVersion") != self.objects[path]["metadata"]["resourceVersion"]:
            raise Conflict("changed since")
        return self.put(path, body)

    def _list(self, path: str, query: dict[str, list[str]]) -> Document:
        items = [self.objects[key] for key in sorted(self.objects) if self._within(path, key)]
        start, version = 0, str(self.revision)
        if "continue" in query:
            version, _, text = query["continue"][0].partition("/")
            start = int(text)
            if int(version) < self.oldest:
                raise Gone("token too old")
        limit = int(query.get("limit", ["0"])[0]) or len(items)
        metadata = {"resourceVersion": version}
        if start + limit < len(items):
            metadata["continue"] = f"{version}/{start + limit}"
        return {"kind": "PodList", "metadata": metadata, "items": items[start : start + limit]}

    @staticmethod
    def _within(path: str, key: str) -> bool:
        plural = path.rsplit("/", 1)[-1]
        return f"/{plural}/" in key

    @asynccontextmanager
    async def stream(
        self, target: str, headers: Mapping[str, str] | None = None, *, silent_seconds: float = 0.0
    ) -> AsyncIterator[tuple[Reply, AsyncIterator[bytes]]]:
        self.requests.append(f"WATCH {target}")
        if self.failures:
            failure = self.failures.pop(0)
            if isinstance(failure, ApiError):
                yield Reply(failure.code, msgspec.json.encode(failure.status()), {}), _none()
                return
            assert isinstance(failure, Exception)
            raise failure
        path, _, query = target.partition("?")
        after = int(parse_qs(query)["resourceVersion"][0])
        yield Reply(200, b"", {}), self._events(path, after)

    async def _events(self, path: str, after: int) -> AsyncIterator[bytes]:
        if after < self.oldest:
            gone = Gone("too old resource version").status()
            yield msgspec.json.encode({"type": "ERROR", "object": gone})
            return
        cut = self.cut
        while True:
            if cut.is_set():  # what came after the cut, or was compacted with it, is not sent on this watch
                raise Unreachable("cut")
            for revision, kind, key, document in list(self.log):
                if revision > after and (kind == "BOOKMARK" or self._within(path, key)):
                    after = revision
                    yield msgspec.json.encode({"type": kind, "object": document})
            await self._changed.wait()

    async def close(self) -> None: ...


async def _none() -> AsyncIterator[bytes]:
    return
    yield b""
