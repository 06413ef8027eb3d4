"""A conversion webhook for both API servers, and the definitions that name it.

`Link` is converted as it should be: v1 has `spec.address` ("host:port"), v2 has `spec.host` and `spec.port`. Objects of
`Break` are answered as no webhook should answer; which way, their names say.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.kubernetes.custom_resource_requests import INTEGER, STRING, crd, objects, version
from weir.apiserver.auth import pki

Document = dict[str, Any]
GROUP = "conversion.example.com"
REVIEW = {"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1"}
Bad = Callable[[Document, list[Document]], Any]


def converted(found: Document, desired: str) -> Document:
    """Return an object in the version *desired*."""
    spec = dict(found.get("spec") or {})
    to = desired.rpartition("/")[2]
    if to == "v2" and "address" in spec:
        host, _, port = spec.pop("address").partition(":")
        spec |= {"host": host, "port": int(port or 0), "stray": "pruned"}
    elif to == "v1" and "host" in spec:
        spec["address"] = f"{spec.pop('host')}:{spec.pop('port', 0)}"
        spec.pop("late", None)
    metadata = dict(found["metadata"])
    metadata["annotations"] = {**(metadata.get("annotations") or {}), "converted": to}
    if "labels" in metadata:
        metadata["labels"] = {**metadata["labels"], "version": to}
    metadata.pop("managedFields", None)  # comes back whatever a webhook says
    return {**found, "apiVersion": desired, "spec": spec, "metadata": metadata}


def _review(uid: str, found: Any, /, **response: Any) -> Document:
    answer = {"uid": uid, "result": {"status": "Success"}, "convertedObjects": found}
    return {**REVIEW, "response": {**answer, **response}}


def _changed(**metadata: Any) -> Bad:
    """Return an answer whose objects have other metadata."""

    def answer(request: Document, good: list[Document]) -> Document:
        found = [{**one, "metadata": {**one["metadata"], **metadata}} for one in good]
        return _review(request["uid"], found)

    return answer


def _responded(**response: Any) -> Bad:
    return lambda request, good: _review(request["uid"], good, **response)


def _each(change: Callable[[Document], Any]) -> Bad:
    return lambda request, good: _review(request["uid"], [change(one) for one in good])


def _whole(**review: Any) -> Bad:
    return lambda request, good: {**_review(request["uid"], good), **review}


def _without(one: Document, name: str) -> Document:
    return {key: value for key, value in one.items() if key != name}


BAD: dict[str, Bad] = {
    "other-uid": _responded(uid="nope"),
    "no-uid": _responded(uid=""),
    "failed": _responded(result={"status": "Failure"}),
    "failed-message": _responded(result={"status": "Failure", "message": "I will not"}),
    "odd-status": _responded(result={"status": "Maybe"}),
    "no-result": _responded(result=None),
    "result-text": _responded(result="fine"),
    "no-objects": _responded(convertedObjects=None),
    "empty-objects": _responded(convertedObjects=[]),
    "objects-text": _responded(convertedObjects="all"),
    "two-objects": lambda request, good: _review(request["uid"], [*good, *good]),
    "old-version": _each(lambda one: {**one, "apiVersion": f"{GROUP}/v1"}),
    "odd-version": _each(lambda one: {**one, "apiVersion": "v7"}),
    "no-version": _each(lambda one: _without(one, "apiVersion")),
    "other-kind": _each(lambda one: {**one, "kind": "Other"}),
    "no-kind": _each(lambda one: _without(one, "kind")),
    "no-metadata": _each(lambda one: _without(one, "metadata")),
    "metadata-list": _each(lambda one: {**one, "metadata": []}),
    "other-name": _changed(name="else"),
    "other-namespace": _changed(namespace="else"),
    "other-object-uid": _changed(uid="else"),
    "other-generation": _changed(generation=77, finalizers=["a/b"], creationTimestamp=None),
    "labels-gone": _changed(labels=None),
    "labels-list": _changed(labels=[]),
    "labels-number": _changed(labels={"a": 5}),
    "labels-wrong": _changed(labels={"a b": "c"}),
    "labels-wrong-twice": _changed(labels={"a b": "c d"}),
    "labels-fine": _changed(labels={"a": "b"}),
    "annotations-text": _changed(annotations="x"),
    "annotations-null": _changed(annotations={"a": None}),
    "annotations-wrong": _changed(annotations={"a b": "c"}),
    "no-response": lambda request, good: REVIEW,
    "response-text": _whole(response="yes"),
    "review-v1beta1": _whole(apiVersion="apiextensions.k8s.io/v1beta1"),
    "review-v7": _whole(apiVersion="apiextensions.k8s.io/v7"),
    "review-kind": _whole(kind="Nope"),
    "review-no-kind": lambda request, good: {"response": _review(request["uid"], good)["response"]},
    "review-status": lambda request, good: {"kind": "Status", "apiVersion": "v1", "message": "told"},
    "not-json": lambda request, good: "I am no JSON",
    "array": lambda request, good: [],
    "empty": lambda request, good: "",
    "code-500": lambda request, good: (500, "went wrong"),
    "code-404": lambda request, good: (404, "went wrong"),
    "code-409-status": lambda request, good: (
        409,
        {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "told"},
    ),
}


@contextmanager
def running_webhook(folder: Path) -> Iterator[tuple[str, bytes, list[Document]]]:
    """Give the address, the certificate authority and the reviews asked so far."""
    asked: list[Document] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one packet: two would wait for each other
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            received = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append({"path": self.path, **received})
            request = received["request"]
            good = [converted(one, request["desiredAPIVersion"]) for one in request["objects"]]
            bad = BAD.get(request["objects"][0]["metadata"]["name"])
            broken = bad is not None and request["objects"][0]["kind"] == "Break"
            answer = bad(request, good) if broken else _review(request["uid"], good)
            if not broken:
                answer["apiVersion"] = received["apiVersion"]
            code, answer = answer if isinstance(answer, tuple) else (200, answer)
            data = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Type", "text/plain" if isinstance(answer, str) else "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    made = pki.ensure(folder / "conversion", now=datetime.now(UTC))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.server_cert_path, made.server_key_path)

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            pass

    with Server(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_address[1]}", made.ca_pem, asked
        finally:
            server.shutdown()
            thread.join(10)


def _versions() -> tuple[Document, Document]:
    more = {"replicas": INTEGER, "mode": {"type": "string"}}
    first = objects(
        spec=objects(address=STRING, **{**more, "mode": {"type": "string", "default": "First"}}),
        status=objects(replicas=INTEGER),
    )
    second = objects(
        spec=objects(
            host={"type": "string", "maxLength": 20},
            port={"type": "integer", "maximum": 65535},
            late={"type": "string", "default": "Late"},
            **more,
        ),
        status=objects(replicas=INTEGER),
    )
    parts = {
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        }
    }
    columns = [{"name": "Host", "type": "string", "jsonPath": ".spec.host"}]
    chosen = [{"jsonPath": ".spec.host"}]
    return (
        version(first, "v1", **parts),
        version(
            second,
            "v2",
            storage=False,
            additionalPrinterColumns=columns,
            selectableFields=chosen,
            **parts,
        ),
    )


def definition(plural: str, client: Document, reviews: tuple[str, ...] = ("v1",)) -> Document:
    webhook = {"clientConfig": client, "conversionReviewVersions": list(reviews)}
    return crd(plural, *_versions(), group=GROUP, conversion={"strategy": "Webhook", "webhook": webhook})


def client_config(base: str, authority: bytes) -> Document:
    return {"url": f"{base}/convert", "caBundle": base64.b64encode(authority).decode()}
