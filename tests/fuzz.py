"""Send random hostile requests to a server in this process: none ends in a 5xx the API does not define, or a traceback.

`python -m tests.fuzz 100000 [seed]` (make fuzz) sends many; tests/property/test_hostile_requests.py a few. Requests are
bytes and go through the HTTP parser. What is random: query parameters, headers, bearer tokens, continue tokens, JSON
patches, quantities and the answers of webhooks.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.fake_transport import FakeTransport
from tests.property.test_api_fuzz import DEFINED, EXISTING, operations
from weir.apiserver.build import Running, build
from weir.apiserver.compat.webhooks.review import CallFailed, read_answer
from weir.apiserver.options import Options, open_store
from weir.apiserver.patches.json import patch_of_webhook
from weir.apiserver.transport.connections import Connections
from weir.apiserver.transport.protocol import HttpProtocol
from weir.clock import RealClock
from weir.errors import ApiError

DIGITS = "9" * 5000
NASTY = [
    *(
        "",
        "0",
        "1",
        "-1",
        "-0",
        "1.5",
        "1e9",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551616",
    ),
    *(
        DIGITS,
        "-" + DIGITS,
        "0x10",
        "１",
        "٣",
        "true",
        "True",
        "TRUE",
        "tRuE",
        "null",
        "NaN",
        "Infinity",
        " ",
        "\x00",
    ),
    *(
        "%",
        "%zz",
        "é",
        "🦦",
        "\ud7ff",
        "a,b",
        "a=b",
        "a==b",
        "a!=b",
        "!a",
        "a in (b)",
        "a in (",
        "a notin ()",
        "x" * 3000,
    ),
    *(
        ",".join(f"k{n}=v" for n in range(500)),
        "metadata.name=x",
        "spec.nodeName!=",
        "..",
        "../..",
        "/",
        "[]",
        "{}",
    ),
    *(
        "All",
        "Strict",
        "Ignore",
        "Exact",
        "NotOlderThan",
        "Background",
        "Orphan",
        "Foreground",
        "Object",
        "None",
    ),
    *("1h", "1s", "{{", "$(x)", "\r\nX: y", "'", '"', "\\", "*", "<script>"),
]
PARAMETERS = [
    *(
        "limit",
        "timeoutSeconds",
        "resourceVersion",
        "gracePeriodSeconds",
        "continue",
        "labelSelector",
        "fieldSelector",
    ),
    *(
        "resourceVersionMatch",
        "sendInitialEvents",
        "allowWatchBookmarks",
        "watch",
        "dryRun",
        "fieldManager",
        "force",
    ),
    *(
        "fieldValidation",
        "propagationPolicy",
        "orphanDependents",
        "pretty",
        "includeObject",
        "timeout",
        "shardSelector",
    ),
]
QUANTITIES = [
    *(
        "1e999999999",
        "1e-999999999",
        "1e308",
        "-1",
        "0",
        "1Ki",
        "1EiB",
        "1.5Gi",
        "0.0000000001n",
        "１",
        "",
        " 1",
        "1 ",
    ),
    *(
        DIGITS,
        DIGITS + "Ei",
        "." + DIGITS,
        "1.",
        ".5",
        "+1",
        "--1",
        "1e",
        "1e+",
        "0x1",
        "1m",
        "1u",
        "1E",
        "1e3Ki",
        "∞",
    ),
    *(1, -1, 1.5, 1e300, 10**40, True, None, [], {}),
]
TYPES = [
    *("application/json", "application/yaml", "application/json-patch+json", "application/merge-patch+json"),
    *(
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
        "application/vnd.kubernetes.protobuf",
    ),
    *("text/plain", "", "application/json; charset=utf-8", ";", "\xff"),
]
POINTERS = [
    *(
        "",
        "/",
        "/metadata",
        "/metadata/labels",
        "/metadata/labels/a",
        "/spec/containers/0",
        "/spec/containers/-",
    ),
    *(
        f"/spec/containers/{DIGITS}",
        "/spec/containers/-1",
        "/spec/containers/00",
        "/spec/containers/1e2",
        "/~",
        "/~2",
    ),
    *(
        "/~0~1",
        "/metadata/name",
        "/kind",
        "/apiVersion",
        "/metadata/managedFields",
        "/metadata/managedFields/0/fieldsV1",
    ),
    *(
        "/spec",
        "/status",
        "/metadata/finalizers/0",
        "no-slash",
        "/é",
        "/a" * 500,
        "/data/a",
        "/spec/replicas",
    ),
]


FORMS = [
    *("*/*", "application/yaml", "image/png", ";;", "application/json;as=;v", "x" * 2000),
    "application/json;as=Table;v=v1;g=meta.k8s.io",
]


class Seen(logging.Handler):
    """Keeps what is logged with a traceback."""

    def __init__(self) -> None:
        super().__init__()
        self.tracebacks: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.tracebacks.append(logging.Formatter().formatException(record.exc_info))


class Fuzz:
    """Random requests from one seed."""

    def __init__(self, running: Running, seed: int) -> None:
        self.random = random.Random(seed)
        self.running = running
        self.admin = running.admin_token

    # ── parts ──

    def value(self, depth: int = 0) -> Any:
        choice = self.random.random()
        if depth > 3 or choice < 0.5:
            return self.random.choice([*NASTY, *QUANTITIES, 0, 1, 2**70, 1.5, True, None])
        if choice < 0.75:
            return [self.value(depth + 1) for _ in range(self.random.randrange(4))]
        names = ["name", "key", "value", "operator", "effect", "cpu", "labels", "$patch", "a", ""]
        return {self.random.choice(names): self.value(depth + 1) for _ in range(self.random.randrange(4))}

    def token(self) -> str:
        kind = self.random.randrange(8)
        if kind < 3:
            return self.admin
        if kind == 3:
            return str(self.random.choice(NASTY))
        header = self.random.choice(
            [
                {"alg": "ES256", "kid": []},
                {"alg": "none"},
                {"alg": self.value()},
                {},
                [],
                {"alg": "RS256", "kid": "x"},
                None,
            ]
        )
        claims = self.random.choice(
            [{"iss": self.value(), "sub": self.value(), "exp": self.value()}, {}, [], self.value()]
        )
        parts = [json.dumps(header).encode(), json.dumps(claims).encode(), b"signature"]
        if kind == 4:
            parts[self.random.randrange(2)] = b"[" * 20_000
        if kind == 5:
            parts[self.random.randrange(3)] = bytes(self.random.randrange(256) for _ in range(20))
        text = ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)
        return text[::-1] if kind == 6 else text

    def continue_token(self) -> str:
        fields = {"v": "meta.k8s.io/v1", "rv": self.random.randrange(50), "start": "/golden/web\x00"}
        for name in self.random.sample(list(fields), self.random.randrange(3)):
            fields[name] = self.value()
        text = json.dumps(fields).encode()
        if self.random.random() < 0.3:
            text = text[: self.random.randrange(len(text))] + bytes([self.random.randrange(256)])
        token = base64.urlsafe_b64encode(text).decode()
        return token if self.random.random() < 0.5 else token.rstrip("=")

    def query(self) -> str:
        parts = []
        for _ in range(self.random.choice([0, 1, 1, 2, 3])):
            name = self.random.choice(PARAMETERS)
            text = self.continue_token() if name == "continue" else str(self.random.choice(NASTY))
            if name == "watch" and self.random.random() < 0.8:
                text = "false"
            parts.append(
                f"{name}={quote(text.encode('utf-8', 'replace')) if self.random.random() < 0.9 else text}"
            )
        return "&".join(
            part.replace(" ", "+").replace("\r", "").replace("\n", "").replace("\x00", "") for part in parts
        )

    def json_patch(self) -> Any:
        operations = ["add", "remove", "replace", "move", "copy", "test", "bogus", None, 1]
        return [
            {
                "op": self.random.choice(operations),
                "path": self.random.choice(POINTERS),
                **({"from": self.random.choice(POINTERS)} if self.random.random() < 0.5 else {}),
                **({"value": self.value()} if self.random.random() < 0.7 else {}),
            }
            for _ in range(self.random.randrange(1, 6))
        ]

    def document(self, path: str) -> Any:
        """An object that is nearly right, one value of it odd."""
        _, _, found = self.random.choice(EXISTING)
        whole = {
            "metadata": {"name": self.random.choice(["web", "x", self.value()])},
            **json.loads(json.dumps(found)),
        }
        spot: Any = whole
        for _ in range(self.random.randrange(1, 6)):
            inner = list(spot.values()) if isinstance(spot, dict) else spot
            deeper = [each for each in inner if isinstance(each, dict | list) and each]
            if not deeper:
                break
            spot = self.random.choice(deeper)
        if isinstance(spot, dict):
            spot[self.random.choice([*spot, "labels", "resources", "tolerations"])] = self.value()
        elif isinstance(spot, list):
            spot[self.random.randrange(len(spot))] = self.value()
        if self.random.random() < 0.3:
            amount = self.random.choice(QUANTITIES)
            whole["spec"] = {
                **({"hard": {"cpu": amount, "pods": amount}} if "quota" in path else {}),
                "containers": [
                    {
                        "name": "c",
                        "image": "i",
                        "resources": {"requests": {"cpu": amount, "example.com/x": amount}},
                    }
                ],
                "limits": [{"type": "Container", "max": {"cpu": amount}}],
                "capacity": {"storage": amount},
            }
        return whole

    def body(self, method: str, path: str) -> bytes:
        if method in ("GET", "HEAD", "OPTIONS"):
            return b""
        value = self.json_patch() if method == "PATCH" and self.random.random() < 0.5 else self.document(path)
        text = json.dumps(value).encode()
        if self.random.random() < 0.1:
            cut = self.random.randrange(len(text))
            text = text[:cut] + bytes([self.random.randrange(256)]) + text[cut + self.random.randrange(3) :]
        return text

    def request(self) -> bytes:
        method, path = self.random.choice(operations())
        if self.random.random() < 0.03:
            method = self.random.choice(["HEAD", "OPTIONS", "TRACE", "CONNECT", "PUT", "DELETE"])
        names = ["golden", "web", "default", "x", "UPPER", "%2F", "%00", "..", "a%20b", "x" * 300, "%F0%9F"]
        while "{" in path:
            head, _, rest = path.partition("{")
            path = head + self.random.choice(names) + rest.partition("}")[2]
        if self.random.random() < 0.05:
            path = self.random.choice(
                ["/", "//", "/apis/", "/api/v1/" + "a/" * 20, "/metrics", "/readyz?verbose", "/%"]
            )
        query = self.query()
        patching = method == "PATCH"
        media = self.random.choice(TYPES[2:6] if patching and self.random.random() < 0.9 else TYPES)
        headers = [
            f"Authorization: Bearer {self.token()}"
            if self.random.random() < 0.97
            else "Authorization: Basic x"
        ]
        headers.append(f"Content-Type: {media}")
        more = [
            f"Accept: {self.random.choice(FORMS)}",
            f"Impersonate-User: {self.random.choice(['bob', 'system:serviceaccount:a:b', 'system:', 'x' * 500])}",
            "Impersonate-Group: a",
            f"Impersonate-Extra-{self.random.choice(['a', '%zz', '%2F', ''])}: b",
            f"Impersonate-Uid: {self.random.choice(['1', ''])}",
            f"User-Agent: {self.random.choice(['', 'x' * 3000, 'é/1', chr(1)])}",
            "Accept-Encoding: gzip",
            "If-None-Match: x",
            "Expect: 100-continue",
            "Connection: Upgrade",
            "Upgrade: SPDY/3.1",
            f"X-Remote-User: {'a' * 100}",
        ]
        headers += self.random.sample(more, self.random.choice([0, 0, 0, 1, 2]))
        body = self.body(method, path)
        separator = "&" if "?" in path else "?"
        head = f"{method} {path}{separator if query else ''}{query} HTTP/1.1\r\nHost: x\r\n"
        if self.random.random() < 0.05:
            framing, body = "Transfer-Encoding: chunked", b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        else:
            framing = f"Content-Length: {len(body)}"
        return (head + "\r\n".join([*headers, framing]) + "\r\n\r\n").encode("utf-8", "replace") + body

    def webhook_answer(self) -> None:
        """Read a random answer of a webhook and apply its patch: a failed call or an error of the API, nothing else."""
        response: Any = {"uid": "u", "allowed": self.random.choice([True, True, False, self.value()])}
        if self.random.random() < 0.6:
            patch = json.dumps(self.json_patch()).encode()
            response |= {"patchType": "JSONPatch", "patch": base64.b64encode(patch).decode()}
        for name in self.random.sample(
            ["uid", "status", "patch", "patchType", "warnings", "auditAnnotations"], 2
        ):
            if self.random.random() < 0.4:
                response[name] = self.value()
        review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}
        if self.random.random() < 0.2:
            review[self.random.choice(list(review))] = self.value()
        body = json.dumps(review).encode()
        if self.random.random() < 0.2:
            cut = self.random.randrange(len(body))
            body = self.random.choice(
                [body[:cut], b"[" * 5000, body[:cut] + b"\xff" + body[cut:], b"a: [b", b"", b"- x"]
            )
        try:
            answer = read_answer(body, "u", "v1", mutating=True)
            if answer.patch:
                patch_of_webhook(
                    {"metadata": {"name": "a", "labels": {}}, "spec": {"containers": [{}]}}, answer.patch
                )
        except (CallFailed, ApiError):
            pass


async def start(folder: Path) -> Running:
    options, clock = Options(folder, store="memory", insecure=True), RealClock()
    return await build(options, await open_store(options, clock), clock)


async def fuzz(count: int, seed: int, folder: Path) -> list[str]:
    """Send *count* requests; return what went wrong, each with its request."""
    running = await start(folder)
    seen = Seen()
    logging.getLogger("weir").addHandler(seen)
    loop = asyncio.get_running_loop()
    loop_failures: list[str] = []
    loop.set_exception_handler(lambda _, context: loop_failures.append(str(context)))
    wrong: list[str] = []
    maker = Fuzz(running, seed)
    connections = Connections(running.server.handle, running.server.prove, allows=running.server.allows)
    for kind, path, found in EXISTING:
        whole = json.dumps({"metadata": {"name": "web"}, **found}).encode()
        path = path.replace("/golden/", "/default/")
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {running.admin_token}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(whole)}\r\n\r\n"
        answer = await ask(connections, head.encode() + whole)
        assert b" 201 " in answer[:20], (kind, answer)
    for number in range(count):
        if number % 10 == 9:
            maker.webhook_answer()
            continue
        sent = maker.request()
        answer = await ask(connections, sent)
        code = int(answer[9:12] or b"0")
        if code >= 500 and not any(text.encode() in answer.replace(b'\\"', b'"') for text in DEFINED):
            wrong.append(f"{code} {bytes(answer[-300:])!r} for {sent[:1500]!r}")
        if seen.tracebacks or loop_failures:
            wrong.append(f"{(seen.tracebacks + loop_failures)[-1]} for {sent[:1500]!r}")
            seen.tracebacks.clear()
            loop_failures.clear()
    logging.getLogger("weir").removeHandler(seen)
    await running.stop()
    return wrong


async def ask(connections: Connections, sent: bytes) -> bytearray:
    """Return what the server wrote to one connection; a watch is left when it begins."""
    protocol, wire = HttpProtocol(connections), FakeTransport()
    protocol.connection_made(wire)
    protocol.data_received(sent)
    for turn in range(200):
        if wire.closed or (wire.sent and protocol._task is None) or b"chunked\r\n\r\n" in wire.sent[:1500]:
            break
        await (
            asyncio.sleep(0)
            if turn < 100
            else asyncio.wait({protocol._task}, timeout=0.1)
            if protocol._task
            else asyncio.sleep(0)
        )
    task = protocol._task
    protocol.connection_lost(None)
    if task is not None:
        await asyncio.gather(task, return_exceptions=True)
    return wire.sent


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
    print(f"{count} requests; these again: python -m tests.fuzz {count} {seed}", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        wrong = asyncio.run(fuzz(count, seed, Path(folder)))
    for each in wrong[:20]:
        print(each, "\n")
    print(f"{len(wrong)} of {count} went wrong, {time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
