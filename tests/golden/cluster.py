"""A fresh API server in process, under a virtual clock, with the settings the recordings were made with.

AlwaysAllow, a static token of group system:masters, default admission, the memory store. Unit tests use it too.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from tests.golden.recording import Document, kind_of
from weir.apiserver.admission.chain import Chain
from weir.apiserver.auth.authn import MASTERS, Authenticator, StaticTokens, proven
from weir.apiserver.auth.authz import Authorizer
from weir.apiserver.auth.reviews import Reviews
from weir.apiserver.auth.tokens import Signer
from weir.apiserver.bootstrap.objects import bootstrap, ensure_namespace_objects
from weir.apiserver.own_endpoints import IdentityLease
from weir.apiserver.registry import codec
from weir.apiserver.registry.storage import Parts
from weir.apiserver.server import ApiServer, Security
from weir.apiserver.transport import protobuf
from weir.apiserver.transport.http import Request, Response, Stream
from weir.clock import VirtualClock
from weir.gates import KUBERNETES_DEFAULTS, Gates
from weir.objects.kind import Kind
from weir.store import Write
from weir.store.memory import MemoryStore

TOKEN = "golden"
GATES_ON = KUBERNETES_DEFAULTS.replace({"TaintTolerationComparisonOperators": True})
GATES_OFF = KUBERNETES_DEFAULTS.replace({"TaintTolerationComparisonOperators": False})
START = datetime(2026, 11, 15, 2, 0, 0, tzinfo=UTC)


class MemorySink:
    """Collects what a watch writes."""

    def __init__(self) -> None:
        self.text = bytearray()
        self.closed = False

    def write(self, frame: bytes) -> None:
        self.text += frame

    def write_chunk(self, chunk: bytes) -> None:
        while chunk:
            size, _, rest = chunk.partition(b"\r\n")
            length = int(size, 16)
            self.text += rest[:length]
            chunk = rest[length + 2 :]

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    @property
    def pending_bytes(self) -> int:
        return 0


class Cluster:
    """A fresh server."""

    def __init__(self, gates: Gates, start: datetime = START) -> None:
        self.clock = VirtualClock(start)
        self.store = MemoryStore(time=self.clock.time)
        reader = codec.Reader(self.store)
        chain = Chain.build(reader)
        user = proven("admin", (MASTERS,), uid="admin")
        authenticator = Authenticator([StaticTokens({TOKEN: user}).find])
        authorizer = Authorizer(reader, ("AlwaysAllow",))
        security = Security(
            authenticator,
            authorizer,
            review=Reviews(authorizer, authenticator).review,
            signer=_signer(),
        )
        self.server = ApiServer(Parts(self.store, reader, chain, gates, self.clock), security)

    async def start(self) -> None:
        await bootstrap(self.server.verbs, rbac=False)
        ns = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "golden"}}
        await self.call("POST", "/api/v1/namespaces", "", {}, json.dumps(ns).encode())
        await ensure_namespace_objects(self.server.verbs, "golden")
        instance = "4eca377d-c655-4914-b2e5-ec023818929b"
        await IdentityLease(self.server.verbs, self.clock, "vm", "127.0.0.1:16443", instance).renew()
        await self.clock.advance(1)

    async def call(
        self, method: str, path: str, query: str, headers: dict[str, str], body: bytes, *, token: bool = True
    ) -> Document:
        """Return the response in the recording's form."""
        sent = {name.lower().encode(): value.encode() for name, value in headers.items()}
        sent.setdefault(b"user-agent", b"golden/1.0")
        if token:
            sent[b"authorization"] = f"Bearer {TOKEN}".encode()
        request = Request(method, path, query, sent, body)
        task = asyncio.ensure_future(self.server.handle(request))
        answer = await self._settle(task)
        result: Document = {"code": answer.code, "headers": _headers(answer)}
        if isinstance(answer, Stream):
            sink = MemorySink()
            running = asyncio.ensure_future(answer.run(sink))
            await self._settle(running)
            text = bytes(sink.text)
            if protobuf.MEDIA_TYPE.encode() in answer.content_type:
                result["events"] = list(_events_of_frames(text))
            else:
                result["events"] = [json.loads(line) for line in text.splitlines()]
        else:
            result["body"] = _body(answer)
        return result

    async def _settle(self, task: asyncio.Future[Any]) -> Any:
        """Let time pass until *task* is done."""
        for _ in range(400):
            await self.clock.settle(10)
            if task.done():
                break
            await self.clock.advance(self.clock.next_wake_seconds or 0.01)
        return await task

    async def put(self, document: Document) -> None:
        """Place a document in the store as it is."""
        kind = kind_of(document)
        assert kind is not None
        key = kind.key(document["metadata"].get("namespace", ""), document["metadata"]["name"])
        document = msgspec.json.decode(msgspec.json.encode(document))
        (result,) = await self.store.commit([Write(key, codec.encode(document, kind), None, codec.STAMP)])
        result.check()

    async def drop(self, kind: Kind, namespace: str, name: str) -> None:
        """Remove a document from the store, if it is there."""
        key = kind.key(namespace, name)
        if self.store.get(key) is not None:
            await self.store.commit([Write(key, None)])

    def find(self, kind: Kind, namespace: str, name: str) -> Document | None:
        found = self.store.get(kind.key(namespace, name))
        return codec.decode(kind, found.value) if found is not None else None


_KEY: list[Signer] = []


def _signer() -> Signer:
    if not _KEY:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        _KEY.append(Signer.load(pem))
    return _KEY[0]


def _headers(answer: Response | Stream) -> Document:
    found: Document = {"Content-Type": answer.content_type.decode()}
    for name, value in answer.headers or ():
        text = value.decode()
        found[name.decode()] = f"{found[name.decode()]}\n{text}" if name.decode() in found else text
    return found


def _events_of_frames(text: bytes) -> Iterator[Document]:
    """Yield the events of a watch in protobuf."""
    while text:
        end = 4 + int.from_bytes(text[:4])
        event, text = text[4:end], text[end:]
        object = protobuf.to_document(event[event.index(protobuf.MAGIC) :])
        yield {"type": event[2 : 2 + event[1]].decode(), "object": object}


def _body(answer: Response) -> Any:
    if answer.content_type == protobuf.MEDIA_TYPE.encode():
        return protobuf.to_document(answer.body)
    if answer.content_type.startswith(b"application/json"):
        return json.loads(answer.body) if answer.body else ""
    return answer.body.decode()
