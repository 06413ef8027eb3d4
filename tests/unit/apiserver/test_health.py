"""A server that cannot write says so on /readyz, and answers all the same."""

from __future__ import annotations

import json

import pytest

from weir.apiserver.admission.chain import Chain, Settings
from weir.apiserver.auth.authn import MASTERS, Authenticator, StaticTokens, proven
from weir.apiserver.auth.authz import Authorizer
from weir.apiserver.compat.audit import EVERYTHING, Audit, parse_policy
from weir.apiserver.metrics import Metrics
from weir.apiserver.registry.codec import Reader
from weir.apiserver.registry.storage import Parts
from weir.apiserver.server import ApiServer, Security
from weir.apiserver.transport.http import Request
from weir.clock import RealClock
from weir.gates import ALL_FEATURES
from weir.store import StoreUnavailable
from weir.store.memory import MemoryStore

HEADERS = {b"authorization": b"Bearer admin", b"content-type": b"application/json"}
NODE = json.dumps({"kind": "Node", "apiVersion": "v1", "metadata": {"generateName": "n-"}}).encode()


class Disk:
    """An audit log, and a store beside it, that may be full."""

    full = False

    def __call__(self, line: bytes) -> None:
        if self.full:
            raise OSError(28, "No space left on device")


class Failing(MemoryStore):
    disk: Disk

    async def commit(self, writes):
        if self.disk.full:
            raise StoreUnavailable("disk full")
        return await super().commit(writes)


@pytest.fixture
def disk():
    return Disk()


def server(store, disk=None):
    reader = Reader(store)
    audit = Audit(disk, EVERYTHING, now=RealClock().now) if disk is not None else None
    admin = StaticTokens({"admin": proven("root", (MASTERS,))})
    security = Security(Authenticator([admin.find]), Authorizer(reader), audit=audit)
    return ApiServer(
        Parts(store, reader, Chain.build(reader, Settings()), ALL_FEATURES, RealClock()),
        security,
        metrics=Metrics(),
    )


async def ask(server, method, path, body=b""):
    answer = await server.handle(Request(method, path, headers=HEADERS, body=body))
    return answer.code, answer.body


async def test_a_full_audit_log_loses_no_answer_and_is_reported(disk):
    found = server(MemoryStore(), disk)
    disk.full = True
    assert (await ask(found, "POST", "/api/v1/nodes", NODE))[0] == 201
    assert await ask(found, "GET", "/readyz") == (
        500,
        b"[-]audit failed: reason withheld\nreadyz check failed\n",
    )
    assert b'apiserver_audit_error_total{plugin="log"} 2' in found._metrics.render()
    disk.full = False
    await ask(found, "GET", "/version")
    assert (await ask(found, "GET", "/readyz"))[0] == 200


async def test_a_store_that_takes_no_writes_is_not_ready_until_it_does_again(disk):
    store = Failing()
    store.disk = disk
    found = server(store)
    disk.full = True
    assert (await ask(found, "POST", "/api/v1/nodes", NODE))[0] == 503
    assert (await ask(found, "GET", "/readyz"))[0] == 500
    assert (await ask(found, "GET", "/livez"))[0] == 200
    disk.full = False
    assert (await ask(found, "GET", "/readyz"))[0] == 500, "no write has shown yet that it is well again"
    assert (await ask(found, "POST", "/api/v1/nodes", NODE))[0] == 201
    assert (await ask(found, "GET", "/readyz"))[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/pods?limit={}",
        "/api/v1/pods?timeoutSeconds={}",
        "/api/v1/pods?resourceVersion={}",
        "/api/v1/nodes/n?gracePeriodSeconds={}",
        "/api/v1/pods?continue={}",
    ],
)
@pytest.mark.parametrize("value", ["9" * 5000, "0" * 5000 + "1", "-" + "9" * 5000, "1e9", "٣", "%00"])
async def test_numbers_of_any_length_are_no_failure_of_the_server(path, value):
    target, _, query = path.partition("?")
    found = server(MemoryStore())
    for method in ("GET", "DELETE"):
        answer = await found.handle(Request(method, target, query.format(value), HEADERS))
        assert answer.code < 500, (answer.code, getattr(answer, "body", b"")[:300])


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "replace", "path": "", "value": []}],
        [{"op": "remove", "path": "/metadata/finalizers/" + "9" * 5000}],
        [{"op": "test", "path": "/metadata/finalizers/-" + "9" * 5000, "value": 1}],
        [{"op": "add", "path": "/spec/taints/" + "0" * 5000, "value": {}}],
        [{"op": "add", "path": "/a", "value": {}}]
        + [{"op": "move", "from": "/a", "path": "/b"}, {"op": "add", "path": "/a", "value": {}},
           {"op": "move", "from": "/b", "path": "/a/x"}] * 3000,
    ],
    ids=["a list", "long index", "long negative index", "zeros", "nesting"],
)  # fmt: skip
async def test_patches_that_make_no_sense_are_the_clients_fault(operations):
    found = server(MemoryStore())
    body = json.dumps(
        {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n", "finalizers": ["a.example/b"]}}
    )
    assert (await ask(found, "POST", "/api/v1/nodes", body.encode()))[0] == 201
    headers = {**HEADERS, b"content-type": b"application/json-patch+json"}
    answer = await found.handle(
        Request("PATCH", "/api/v1/nodes/n", "", headers, json.dumps(operations).encode())
    )
    assert 400 <= answer.code < 500, answer.body[:300]


@pytest.mark.parametrize("rv", ["true", "0", "1.5", '"7"', "9" * 30, "[" * 5000])
async def test_a_page_token_of_anything_else_is_refused(rv):
    import base64

    text = f'{{"v":"meta.k8s.io/v1","rv":{rv},"start":"x"}}'
    token = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
    answer = await server(MemoryStore()).handle(
        Request("GET", "/api/v1/pods", f"limit=1&continue={token}", HEADERS)
    )
    assert answer.code == 400


@pytest.fixture
def audited():
    """A server and the audit lines that a policy of everything makes it write."""
    lines: list[dict] = []
    audit = Audit(lambda line: lines.append(json.loads(line)), parse_policy("rules: [{level: Request}]"))
    store = MemoryStore()
    reader = Reader(store)
    tokens = StaticTokens({"admin": proven("admin", (MASTERS,))})
    security = Security(
        Authenticator([tokens.find]),
        Authorizer(reader, ["AlwaysAllow"]),
        audit=audit,
    )
    parts = Parts(store, reader, Chain.build(reader, Settings()), ALL_FEATURES, RealClock())
    return ApiServer(parts, security), lines


async def test_a_request_is_audited_when_it_comes_and_when_it_is_answered(audited):
    server, lines = audited
    await server.handle(Request("POST", "/api/v1/nodes", "", HEADERS, NODE))
    assert [line["stage"] for line in lines] == ["RequestReceived", "ResponseComplete"]
    received, complete = lines
    assert received["auditID"] == complete["auditID"] and "requestObject" not in received
    assert complete["requestObject"]["kind"] == "Node"


async def test_a_watch_is_audited_when_it_starts_and_when_it_ends(audited):
    server, lines = audited

    class Nobody:
        pending_bytes = 0

        def write(self, frame): ...
        def write_chunk(self, chunk): ...
        def close(self): ...
        def abort(self): ...

    watch = Request("GET", "/api/v1/nodes", "watch=1&timeoutSeconds=1&resourceVersion=1", HEADERS)
    answer = await server.handle(watch)
    assert [line["stage"] for line in lines] == ["RequestReceived", "ResponseStarted"]
    server.watches.close()
    await answer.run(Nobody())
    assert [line["stage"] for line in lines][2:] == ["ResponseComplete"]
    assert len({line["auditID"] for line in lines}) == 1


async def test_whoever_proves_nothing_is_audited_once(audited):
    server, lines = audited
    await server.handle(Request("GET", "/api/v1/nodes", "", {}))
    assert [(line["stage"], line["responseStatus"]["code"]) for line in lines] == [("ResponseStarted", 401)]
