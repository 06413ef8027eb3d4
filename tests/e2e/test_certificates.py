"""A certificate from request to use, with the real kubectl, in a whole cluster."""

from __future__ import annotations

import base64
import json
import subprocess

import yaml
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.certificate_documents import CLIENT, KEY, b64, pkcs10, request
from tests.e2e.test_up import kubectl, until, up

__all__ = ["kubectl"]


def asked(name, subject=("jane", "dev"), usages=("client auth",)):
    return json.dumps(request(name, CLIENT, request=b64(pkcs10(*subject)), usages=list(usages)))


def row(kubectl, name):
    return kubectl("get", "csr", name, "--no-headers").split()[-1]


def test_a_person_asks_is_approved_and_comes_in(kubectl, tmp_path):
    with up(tmp_path, "--nodes", "0", "--store", "memory"):
        kubectl("create", "-f", "-", stdin=asked("jane"))
        kubectl("create", "-f", "-", stdin=asked("denied"))
        kubectl("create", "-f", "-", stdin=asked("server", usages=("server auth",)))
        before = row(kubectl, "jane")
        kubectl("certificate", "approve", "jane", "server")
        kubectl("certificate", "deny", "denied")
        states = [
            until(lambda name=name, state=state: row(kubectl, name) == state and state)
            for name, state in (
                ("jane", "Approved,Issued"),
                ("denied", "Denied"),
                ("server", "Approved,Failed"),
            )
        ]
        certificate = base64.b64decode(kubectl("get", "csr", "jane", "-o", "jsonpath={.status.certificate}"))
        said = comes_in(kubectl, tmp_path, certificate)
        services = [line.split() for line in kubectl("get", "apiservices").splitlines()]
    assert before == "Pending" and states == ["Approved,Issued", "Denied", "Approved,Failed"]
    assert 'User "jane" cannot list resource "pods"' in said
    assert ["v1.apps", "Local", "True"] in [words[:3] for words in services]


def comes_in(kubectl, folder, certificate):
    """Return what a client with the certificate is told."""
    config = yaml.safe_load(kubectl.kubeconfig.read_text())
    key = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    config["users"][0]["user"] = {"client-certificate-data": b64(certificate), "client-key-data": b64(key)}
    (folder / "jane").write_text(yaml.safe_dump(config))
    command = [kubectl.program.path, "--kubeconfig", str(folder / "jane"), "get", "pods"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60).stderr
