"""`weir apiserver` and `weir up` on a guarded etcd: the TLS and login flags reach it, a wrong one is one clear line."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.certificates import certificates
from tests.contract.etcd_server import running_etcd
from tests.e2e.server import running_server
from tests.e2e.warm import WARM
from weir.client.http import trusting

SECONDS = 60


class Guarded:
    """An etcd that wants to see a certificate and to hear a password."""

    def __init__(self, endpoint: str, pem: dict[str, Path]) -> None:
        self.endpoint, self.pem = endpoint, pem

    def flags(self, *, user: str = "root:secret", certificate: bool = True) -> list[str]:
        found = ["--store", f"etcd=https://{self.endpoint}", "--etcd-cafile", str(self.pem["ca"])]
        if certificate:
            found += [
                *("--etcd-certfile", str(self.pem["both"])),
                *("--etcd-keyfile", str(self.pem["both-key"])),
            ]
        return [*found, *(("--etcd-user", user) if user else ())]


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    pem = certificates(tmp_path_factory.mktemp("pem"))
    arguments = ["--cert-file", str(pem["both"]), "--key-file", str(pem["both-key"])]
    arguments += ["--client-cert-auth", "--trusted-ca-file", str(pem["ca"])]
    with running_etcd(arguments, scheme="https") as server:
        context = trusting(pem["ca"].read_bytes())
        context.load_cert_chain(pem["both"], pem["both-key"])
        for path, body in (
            ("user/add", {"name": "root", "password": "secret"}),
            ("user/grant", {"user": "root", "role": "root"}),
            ("enable", {}),
        ):
            request = urllib.request.Request(
                f"https://{server.endpoint}/v3/auth/{path}", json.dumps(body).encode(), method="POST"
            )
            with urllib.request.urlopen(request, context=context, timeout=SECONDS) as answer:
                assert answer.status == 200
        yield Guarded(server.endpoint, pem)


def call(kubeconfig: Path, method: str, path: str, body: object = None) -> Any:
    found = yaml.safe_load(kubeconfig.read_text())
    cluster, user = found["clusters"][0]["cluster"], found["users"][0]["user"]
    context = ssl._create_unverified_context()
    holder = kubeconfig.parent / "client.pem"
    holder.write_bytes(
        base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"])
    )
    context.load_cert_chain(holder)
    request = urllib.request.Request(
        cluster["server"] + path,
        None if body is None else json.dumps(body).encode(),
        {"Content-Type": "application/json"},
        method=method,
    )
    with urllib.request.urlopen(request, context=context, timeout=SECONDS) as answer:
        return json.loads(answer.read())


def test_what_a_server_wrote_to_a_guarded_etcd_the_next_one_finds(etcd: Guarded, tmp_path: Path) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    with running_server(tmp_path / "one", *etcd.flags()) as server:
        call(server.kubeconfig, "POST", path, {"metadata": {"name": "kept"}, "data": {"a": "1"}})
    with running_server(tmp_path / "two", *etcd.flags()) as server:
        found = call(server.kubeconfig, "GET", f"{path}/kept")
    assert found["data"] == {"a": "1"}


@pytest.mark.parametrize("command", ["apiserver", "up"])
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"user": "root:guess"}, "authentication failed"),
        ({"user": ""}, "etcd"),
        ({"certificate": False}, "etcd"),
    ],
    ids=["password", "no-login", "no-certificate"],
)
def test_a_wrong_flag_is_one_clear_line(
    etcd: Guarded, tmp_path: Path, command: str, wrong: dict[str, Any], told: str
) -> None:
    asked = [*WARM, command, "--data-dir", str(tmp_path), "--secure-port", "0"]
    ended = subprocess.run(
        [*asked, *etcd.flags(**wrong)], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    said = ended.stderr.strip().splitlines()
    assert ended.returncode != 0 and len(said) == 1 and told in said[0], ended.stderr
