"""A real API server and weir's give the same answers about who may come in and what admission says."""

from __future__ import annotations

import json
import re
import ssl
import time
import urllib.error
import urllib.request
from typing import Any

import pytest
import yaml

from tests.contract.etcd_server import free_port, running_etcd
from tests.e2e.server import running_server
from tests.kubernetes.caches import both_answers
from tests.kubernetes.doors import ADMIN, CASES, TOKENS, Case
from tests.kubernetes.map_order import settled
from tests.kubernetes.programs import running

PLUGINS = "PodTolerationRestriction,ExtendedResourceToleration"
PATIENCE_SECONDS = 90
UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
VOLUME = re.compile(r"kube-api-access-[a-z0-9]{5}")
UNVERIFIED = ssl._create_unverified_context()


def call(server: str, case: Case) -> tuple[int, bytes, list[str]]:
    headers = {"Content-Type": case.content, "User-Agent": "same-answers/1", **case.headers}
    if case.who:
        headers["Authorization"] = f"Bearer {case.who}"
    data = json.dumps(case.body).encode() if case.body is not None else None
    request = urllib.request.Request(server + case.path, data, headers, method=case.method)
    try:
        with urllib.request.urlopen(request, context=UNVERIFIED, timeout=40) as answer:
            return answer.status, answer.read(), answer.headers.get_all("Warning") or []
    except urllib.error.HTTPError as error:
        return error.code, error.read(), error.headers.get_all("Warning") or []


def compared(case: Case, code: int, body: bytes, warnings: list[str]) -> str:
    """Return what of an answer both servers must agree on, as text with what changes from run to run masked."""
    try:
        document: Any = json.loads(body)
    except ValueError:
        document = body.decode(errors="replace")
    if isinstance(document, dict) and document.get("kind") != "Status":
        document = {path: _at(document, path) for path in case.shown}
    elif isinstance(document, dict):
        document = {part: settled(document).get(part) for part in ("message", "reason", "details", "code")}
    text = json.dumps([code, document, warnings], indent=1, sort_keys=True)
    return VOLUME.sub("kube-api-access-X", UID.sub("UID", text))


def answer(server: str, case: Case) -> str:
    return compared(case, *call(server, case))


def _at(document: Any, path: str) -> Any:
    for part in path.split("."):
        document = document.get(part) if isinstance(document, dict) else None
    return document


def ready(server: str) -> bool:
    try:
        return call(server, Case("ready", ADMIN, "GET", "/readyz"))[0] == 200
    except OSError:
        return False


@pytest.fixture(scope="module")
def answers(tmp_path_factory) -> dict[str, tuple[str, str]]:
    """What both servers say to every case, in order."""
    folder = tmp_path_factory.mktemp("same")
    (folder / "tokens.csv").write_text(TOKENS)
    keys = running_keys(folder)
    port = free_port()
    with (
        running_etcd() as etcd,
        running(
            folder, "kube-apiserver", f"--etcd-servers=http://{etcd.endpoint}", f"--secure-port={port}",
            "--bind-address=127.0.0.1", f"--cert-dir={folder / 'certs'}", "--anonymous-auth=false",
            "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={keys}",
            f"--service-account-signing-key-file={keys}", f"--token-auth-file={folder / 'tokens.csv'}",
            "--authorization-mode=Node,RBAC", f"--enable-admission-plugins=NodeRestriction,{PLUGINS}",
            "--service-cluster-ip-range=10.0.0.0/24",
        ),
        running_server(
            folder, "--store", "memory", "--token-auth-file", str(folder / "tokens.csv"),
            "--enable-admission-plugins", PLUGINS,
        ) as weir,
    ):  # fmt: skip
        real = f"https://127.0.0.1:{port}"
        own = yaml.safe_load(weir.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (ready(real) and ready(own)):
            assert time.monotonic() < deadline, (folder / "kube-apiserver.log").read_text()[-2000:]
            time.sleep(0.2)
        found = {}
        for case in CASES:
            if case.compared:
                found[case.name] = both_answers((real, own), case, answer)
            else:
                for server in (real, own):
                    call(server, case)
        return found


def running_keys(folder):
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    path = folder / "sa.key"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    return path


@pytest.mark.parametrize("name", [case.name for case in CASES if case.compared])
def test_both_servers_answer_the_same(answers, name):
    real, weir = answers[name]
    assert weir == real
