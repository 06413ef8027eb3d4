"""Webhooks that answer as webhooks should not: one TLS server for both API servers, one path for each bad habit.

Every case is one webhook, chosen by the label `case` of the object that is written, so that all of them are registered
at once.
"""

# ruff: noqa: E501  (tables read better on long lines)

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from weir.apiserver.auth import pki

Document = dict[str, Any]
OK = object()
"""Stands for the uid that was asked."""
REVIEW = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}
REGISTRATION = "admissionregistration.k8s.io/v1"


@dataclass(frozen=True)
class Case:
    """One webhook, and what it answers."""

    name: str
    mutating: bool
    body: Any  # a document (OK becomes the uid), or the text as it is
    hook: Document = field(default_factory=dict)
    code: int = 200
    seconds: float = 0.0
    query: str = ""
    methods: tuple[str, ...] = ("POST",)
    content: str = "application/json"


def review(**response: Any) -> Document:
    return {**REVIEW, "response": {"uid": OK, "allowed": True, **response}}


def patch(operations: Any, **more: Any) -> Document:
    text = operations if isinstance(operations, str) else json.dumps(operations)
    return review(patch=base64.b64encode(text.encode()).decode(), patchType="JSONPatch", **more)


def op(name: str, path: str, **more: Any) -> Document:
    return {"op": name, "path": path, **more}


LABEL = [op("add", "/metadata/labels/seen", value="yes")]
PATCHES: dict[str, Any] = {
    "good": patch(LABEL),
    "no-operations": patch([]),
    "bad-base64": review(patch="?!", patchType="JSONPatch"),
    "short-base64": review(patch="abc", patchType="JSONPatch"),
    "patch-number": review(patch=5, patchType="JSONPatch"),
    "bad-json": patch("{nope"),
    "patch-object": patch({"op": "add"}),
    "patch-strings": patch(["add"]),
    "patch-text": patch('"add"'),
    "test-fails": patch([op("test", "/metadata/name", value="other")]),
    "test-missing": patch([op("test", "/metadata/nope", value="other")]),
    "path-missing": patch([op("add", "/spec/nope/deeper", value=1)]),
    "replace-missing": patch([op("replace", "/spec/nope", value=1)]),
    "remove-missing": patch([op("remove", "/spec/nope")]),
    "remove-index": patch([op("remove", "/spec/containers/9")]),
    "add-index": patch([op("add", "/spec/containers/9", value={})]),
    "index-word": patch([op("add", "/spec/containers/x", value={})]),
    "move-missing": patch([op("move", "/spec/a", **{"from": "/spec/b"})]),
    "copy-missing": patch([op("copy", "/spec/a", **{"from": "/spec/b"})]),
    "unknown-op": patch([op("nope", "/spec/a", value=1)]),
    "no-op": patch([{"path": "/spec/a", "value": 1}]),
    "no-path": patch([{"op": "add", "value": 1}]),
    "no-value": patch([op("add", "/metadata/labels/x")]),
    "wrong-type": patch([op("add", "/metadata/labels/x", value=5)]),
    "wrong-type-deep": patch([op("replace", "/spec/containers/0/image", value=["a"])]),
    "unknown-field": patch([op("add", "/spec/nope", value=1)]),
    "invalid-object": patch([op("replace", "/spec/containers", value=[])]),
    "kind-changed": patch([op("replace", "/kind", value="Nope")]),
    "kind-other": patch([op("replace", "/kind", value="Secret")]),
    "kind-removed": patch([op("remove", "/kind")]),
    "name-changed": patch([op("replace", "/metadata/name", value="other-name")]),
    "namespace-changed": patch([op("replace", "/metadata/namespace", value="other")]),
    "whole-replaced": patch([op("replace", "", value=5)]),
    "no-patch-type": review(patch=base64.b64encode(b"[]").decode()),
    "type-without-patch": review(patchType="JSONPatch"),
    "empty-type": review(patch=base64.b64encode(b"[]").decode(), patchType=""),
    "other-type": review(patch=base64.b64encode(json.dumps(LABEL).encode()).decode(), patchType="MergePatch"),
    "denied-with-patch": patch(LABEL, allowed=False),
}
ANSWERS: dict[str, Any] = {
    "allowed": review(),
    "other-uid": review(uid="nope"),
    "no-uid": {**REVIEW, "response": {"allowed": True}},
    "uid-number": review(uid=5),
    "no-response": REVIEW,
    "null-response": {**REVIEW, "response": None},
    "response-text": {**REVIEW, "response": "yes"},
    "other-version": {**review(), "apiVersion": "admission.k8s.io/v1beta1"},
    "unknown-version": {**review(), "apiVersion": "admission.k8s.io/v7"},
    "other-group": {**review(), "apiVersion": "v1"},
    "no-version": {"kind": "AdmissionReview", "response": {"uid": OK, "allowed": True}},
    "no-kind": {"apiVersion": "admission.k8s.io/v1", "response": {"uid": OK, "allowed": True}},
    "neither": {"response": {"uid": OK, "allowed": True}},
    "other-kind": {**review(), "kind": "Nope"},
    "status-kind": {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "told", "code": 409, "reason": "Conflict"},
    "status-success": {"kind": "Status", "apiVersion": "v1", "status": "Success"},
    "empty-object": {},
    "not-json": "I am no JSON",
    "broken-json": '{"kind": ',
    "array": "[]",
    "number": "5",
    "null": "null",
    "empty": "",
    "yaml": "kind: AdmissionReview\n",
    "allowed-text": review(allowed="yes"),
    "allowed-missing": {**REVIEW, "response": {"uid": OK}},
    "warned": review(warnings=["be careful", 'with "quotes"', "", "two\nlines"]),
    "warning-number": review(warnings=[5]),
    "denied": review(allowed=False),
    "denied-message": review(allowed=False, status={"message": "not today"}),
    "denied-reason": review(allowed=False, status={"reason": "Forbidden"}),
    "denied-both": review(allowed=False, status={"reason": "Conflict", "message": "not today", "code": 409}),
    "denied-code": review(allowed=False, status={"code": 418}),
    "denied-code-200": review(allowed=False, status={"code": 200, "message": "odd"}),
    "denied-code-302": review(allowed=False, status={"code": 302, "message": "odd"}),
    "denied-code-99": review(allowed=False, status={"code": 99, "message": "odd"}),
    "denied-code-700": review(allowed=False, status={"code": 700, "message": "odd"}),
    "denied-success": review(allowed=False, status={"status": "Success", "message": "odd"}),
    "denied-details": review(allowed=False, status={"code": 422, "reason": "Invalid", "message": "no", "metadata": {"continue": "x"}, "details": {"name": "n", "kind": "k", "causes": [{"reason": "r", "message": "m", "field": "f"}], "retryAfterSeconds": 3}}),
    "denied-429": review(allowed=False, status={"code": 429, "reason": "TooManyRequests", "message": "slow", "details": {"retryAfterSeconds": 3}}),
    "denied-warned": review(allowed=False, warnings=["careful"]),
    "status-text": review(allowed=False, status="no"),
    "unknown-fields": review(nope=1),
    "annotated": review(auditAnnotations={"a": "b"}),
    "annotated-number": review(auditAnnotations={"a": 5}),
}  # fmt: skip
CODES = (201, 204, 400, 401, 403, 404, 405, 406, 409, 410, 415, 422, 429, 500, 502, 503, 504)
IGNORE = {"failurePolicy": "Ignore"}


def _condition(text: str, name: str = "c") -> Document:
    return {"matchConditions": [{"name": name, "expression": text}]}


def cases() -> Iterator[Case]:
    yield from (Case(f"m-{name}", True, body) for name, body in PATCHES.items())
    yield from (Case(f"m-{name}", True, body) for name, body in ANSWERS.items())
    yield from (Case(f"v-{name}", False, body) for name, body in ANSWERS.items())
    yield from (
        Case(f"v-{name}", False, PATCHES[name]) for name in ("good", "type-without-patch", "empty-type")
    )
    for code in CODES:
        yield Case(f"code-{code}", True, "went wrong\n", code=code, content="text/plain")
    yield Case("code-500-empty", True, "", code=500)
    yield Case(
        "code-500-status",
        True,
        {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "message": "told",
            "reason": "InternalError",
            "code": 500,
        },
        code=500,
    )
    yield Case(
        "code-409-status",
        False,
        {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "message": "told",
            "reason": "Conflict",
            "code": 409,
        },
        code=409,
    )
    yield Case("code-500-review", True, review(), code=500)
    yield Case("v-code-500", False, "went wrong", code=500, content="text/plain")
    yield Case("text-plain", True, review(), content="text/plain")
    yield Case("slow", True, review(), {"timeoutSeconds": 1}, seconds=5)
    for name in (
        "bad-json",
        "bad-base64",
        "test-fails",
        "unknown-op",
        "wrong-type",
        "other-type",
        "kind-changed",
        "no-patch-type",
    ):
        yield Case(f"ignored-{name}", True, PATCHES[name], IGNORE)
    for name in ("other-uid", "no-response", "not-json", "denied", "denied-both"):
        yield Case(f"ignored-{name}", True, ANSWERS[name], IGNORE)
        yield Case(f"v-ignored-{name}", False, ANSWERS[name], IGNORE)
    yield Case("ignored-500", True, "no", IGNORE, 500)
    yield Case("nowhere", True, "", {"clientConfig": {"url": "https://127.0.0.1:1/x"}})
    yield Case("untrusted", True, review(), {"clientConfig": {"caBundle": ""}})
    yield Case(
        "no-service", True, "", {"clientConfig": {"service": {"name": "none", "namespace": "default"}}}
    )
    for name, text in {
        "false": "false",
        "true": "true",
        "index": "object.metadata.annotations['nope'] == 'x'",
        "divide": "1/0 == 1",
        "field": "object.spec.nope == 1",
        "request": "request.operation == 'CREATE' && request.userInfo.username == 'admin'",
        "old": "oldObject.metadata.name == 'x'",
        "authorizer": "authorizer.group('').resource('pods').check('get').allowed()",
        "conversion": "int(object.metadata.name) > 5",
        "own-right": "authorizer.requestResource.check('create').allowed()",
        "namespace": "namespaceObject.metadata.name == 'default'",
        "no-namespace": "namespaceObject == null",
    }.items():
        for mutating in (True, False):
            yield Case(
                f"{'m' if mutating else 'v'}-when-{name}", mutating, ANSWERS["denied"], _condition(text)
            )
        yield Case(f"ignored-when-{name}", True, ANSWERS["denied"], {**_condition(text), **IGNORE})
    two = [{"name": "a", "expression": "1/0 == 1"}, {"name": "b", "expression": "object.spec.nope == 1"}]
    yield Case("when-two-fail", True, ANSWERS["denied"], {"matchConditions": two})
    yield Case(
        "when-one-false",
        True,
        ANSWERS["denied"],
        {"matchConditions": [*two, {"name": "c", "expression": "false"}]},
    )
    yield Case("dry-none", True, ANSWERS["denied"], query="?dryRun=All")
    yield Case(
        "dry-none-on-dry-run", False, ANSWERS["denied"], {"sideEffects": "NoneOnDryRun"}, query="?dryRun=All"
    )
    yield Case(
        "old-reviews",
        True,
        {**PATCHES["good"], "apiVersion": "admission.k8s.io/v1beta1"},
        {"admissionReviewVersions": ["v1beta1"]},
    )
    yield Case(
        "old-reviews-uid",
        True,
        {**ANSWERS["other-uid"], "apiVersion": "admission.k8s.io/v1beta1"},
        {"admissionReviewVersions": ["v1beta1"]},
    )
    yield Case(
        "delete-patched", True, PATCHES["good"], {"rules": _rules("DELETE")}, methods=("POST", "DELETE")
    )
    yield Case(
        "delete-denied",
        False,
        ANSWERS["denied-both"],
        {"rules": _rules("DELETE")},
        methods=("POST", "DELETE"),
    )
    yield Case(
        "update-patched", True, PATCHES["good"], {"rules": _rules("UPDATE")}, methods=("POST", "PATCH", "GET")
    )
    yield Case(
        "update-invalid",
        True,
        PATCHES["invalid-object"],
        {"rules": _rules("UPDATE")},
        methods=("POST", "PATCH"),
    )
    yield Case(
        "update-name", True, PATCHES["name-changed"], {"rules": _rules("UPDATE")}, methods=("POST", "PATCH")
    )
    yield Case(
        "update-namespace",
        True,
        PATCHES["namespace-changed"],
        {"rules": _rules("UPDATE")},
        methods=("POST", "PATCH"),
    )
    yield Case(
        "update-ignored",
        True,
        ANSWERS["not-json"],
        {"rules": _rules("UPDATE"), **IGNORE},
        methods=("POST", "PATCH"),
    )


def _rules(*operations: str) -> list[Document]:
    return [{"operations": operations, "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]


CASES = {case.name: case for case in cases()}


def configuration(kind: str, base: str, ca: bytes, cases: dict[str, Case] = CASES) -> Document:
    """Return the webhook configuration of *kind* with every case of its step."""
    hooks = []
    for case in cases.values():
        if case.mutating == kind.startswith("Mutating"):
            client = {"url": f"{base}/{case.name}", "caBundle": base64.b64encode(ca).decode()}
            given = case.hook.get("clientConfig", {})
            hooks.append({
                "name": f"{case.name}.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "rules": _rules("CREATE"), "objectSelector": {"matchLabels": {"case": case.name}}, **case.hook,
                "clientConfig": given if {"url", "service"} & given.keys() else {**client, **given},
            })  # fmt: skip
    return {"kind": kind, "apiVersion": REGISTRATION, "metadata": {"name": "all"}, "webhooks": hooks}


@contextmanager
def running_webhooks(
    folder: Path, cases: dict[str, Case] = CASES
) -> Iterator[tuple[str, bytes, dict[str, list[Any]]]]:
    """Give the address, the certificate authority, and the reviews asked so far by case."""
    asked: dict[str, list[Any]] = {}
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one packet: two would wait for each other
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            received = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            case = cases[self.path.partition("?")[0].strip("/")]
            asked.setdefault(case.name, []).append(received)
            over.wait(case.seconds)
            body = case.body
            if not isinstance(body, str):
                body = json.dumps(_with_uid(body, received["request"]["uid"]))
            data = body.encode() if case.code != 204 else b""
            self.send_response(case.code)
            self.send_header("Content-Type", case.content)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    made = pki.ensure(folder / "webhooks", now=datetime.now(UTC))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.server_cert_path, made.server_key_path)

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:  # a client that gave up is what some cases are about
            pass

    with Server(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_address[1]}", made.ca_pem, asked
        finally:
            over.set()
            server.shutdown()
            thread.join(10)


def _with_uid(value: Any, uid: str) -> Any:
    if isinstance(value, dict):
        return {name: _with_uid(inner, uid) for name, inner in value.items()}
    return uid if value is OK else value
