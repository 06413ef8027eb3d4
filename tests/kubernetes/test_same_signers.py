"""Kubernetes' own controller manager and weir's approve, fail and sign the same requests in the same way.

Both act on a server of weir's: what a request says then is compared whole, and certificates by everything that they say
but their serial number, their times of day and their signature.
"""

from __future__ import annotations

import base64
import subprocess
from contextlib import ExitStack
from ipaddress import ip_address
from typing import Any

import pytest
from cryptography import x509

from tests.certificate_documents import CLIENT as API_CLIENT
from tests.certificate_documents import b64, pkcs10, request
from tests.e2e.server import running_server
from tests.kubernetes.playground import Playground
from tests.kubernetes.programs import controller_manager
from tests.kubernetes.test_living import weir

KUBELET = "kubernetes.io/kube-apiserver-client-kubelet"
SERVING = "kubernetes.io/kubelet-serving"
CLIENT_USAGES = ["digital signature", "client auth"]
SERVING_USAGES = ["digital signature", "key encipherment", "server auth"]
DNS, IP = x509.DNSName("n0"), x509.IPAddress(ip_address("10.0.0.1"))
MAIL, URI = x509.RFC822Name("a@b.c"), x509.UniformResourceIdentifier("spiffe://a")
NODE = ("system:node:n0", "system:nodes")


def asked(
    name: str, signer: str, subject: tuple[str, ...], usages: list[str], *names: Any, **spec: Any
) -> Any:
    return request(name, signer, request=b64(pkcs10(*subject, names=names)), usages=usages, **spec)


#: approved by hand, unless the controller did it before
REQUESTS = [
    asked("client", API_CLIENT, ("jane", "dev", "ops"), ["client auth"]),
    asked(
        "client-all", API_CLIENT, ("jane",), ["digital signature", "key encipherment", "client auth"], DNS, IP
    ),
    asked("client-hour", API_CLIENT, ("jane",), ["client auth"], expirationSeconds=3600),
    asked("client-day", API_CLIENT, ("jane",), ["client auth"], expirationSeconds=86400),
    asked("client-decade", API_CLIENT, ("jane",), ["client auth"], expirationSeconds=315360000),
    asked("client-serves", API_CLIENT, ("jane",), ["client auth", "server auth"]),
    asked("client-not", API_CLIENT, ("jane",), ["digital signature"]),
    asked("kubelet", KUBELET, NODE, CLIENT_USAGES),
    asked("kubelet-rsa", KUBELET, NODE, [*CLIENT_USAGES, "key encipherment"]),
    asked("kubelet-name", KUBELET, ("n0", "system:nodes"), CLIENT_USAGES),
    asked("kubelet-group", KUBELET, ("system:node:n0", "system:nodes", "dev"), CLIENT_USAGES),
    asked("kubelet-dns", KUBELET, NODE, CLIENT_USAGES, DNS),
    asked("kubelet-ip", KUBELET, NODE, CLIENT_USAGES, IP),
    asked("kubelet-mail", KUBELET, NODE, CLIENT_USAGES, MAIL),
    asked("kubelet-uri", KUBELET, NODE, CLIENT_USAGES, URI),
    asked("kubelet-usages", KUBELET, NODE, SERVING_USAGES),
    asked("serving", SERVING, NODE, SERVING_USAGES, DNS, IP),
    asked("serving-ec", SERVING, NODE, ["digital signature", "server auth"], IP),
    asked("serving-nameless", SERVING, NODE, SERVING_USAGES),
    asked("serving-mail", SERVING, NODE, SERVING_USAGES, DNS, MAIL),
    asked("serving-uri", SERVING, NODE, SERVING_USAGES, DNS, URI),
    asked("serving-usages", SERVING, NODE, CLIENT_USAGES, DNS),
    asked("serving-name", SERVING, ("n0", "system:nodes"), SERVING_USAGES, DNS),
    asked("serving-group", SERVING, ("system:node:n0", "dev"), SERVING_USAGES, DNS),
]
#: no controller touches these
UNTOUCHED = [
    asked("foreign", "example.com/s", ("jane",), ["client auth"]),
    asked("denied", API_CLIENT, ("jane",), ["client auth"]),
]


def told(certificate: x509.Certificate, issuer: x509.Certificate) -> dict[str, Any]:
    """Return what a certificate says."""
    certificate.verify_directly_issued_by(issuer)
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    of_the_issuer = x509.AuthorityKeyIdentifier
    shown = [
        f"{one.critical} {one.value}"
        for one in certificate.extensions
        if not isinstance(one.value, of_the_issuer)
    ]
    return {
        "subject": certificate.subject.rfc4514_string(),
        "life": life.total_seconds(),
        "extensions": shown,
        "knows its issuer": len(shown) < len(list(certificate.extensions)),
    }


def live(folder: Any, own: bool) -> dict[str, Any]:
    """Return what becomes of every request, with weir's controllers or Kubernetes' own."""
    with ExitStack() as stack:
        server = stack.enter_context(running_server(folder))
        keys = folder / "pki"
        files = (
            f"--cluster-signing-cert-file={keys / 'ca.crt'}",
            f"--cluster-signing-key-file={keys / 'ca.key'}",
        )
        if own:
            common = ("--kubeconfig", str(server.kubeconfig), "--no-leader-elect")
            stack.enter_context(weir(folder, "controller-manager", *common, *files))
        else:
            root = f"--root-ca-file={keys / 'ca.crt'}"
            stack.enter_context(controller_manager(folder, server.kubeconfig, *files, root))
        issuer = x509.load_pem_x509_certificate((keys / "ca.crt").read_bytes())
        cluster = Playground(server.kubeconfig)
        for one in (*REQUESTS, *UNTOUCHED):
            cluster.create(one)
        found = {}
        for one in (*REQUESTS, UNTOUCHED[0]):
            name = one["metadata"]["name"]
            if name not in ("kubelet", "kubelet-rsa"):
                decide(server.kubeconfig, "approve", name)
        decide(server.kubeconfig, "deny", "denied")
        for one in REQUESTS:
            name = one["metadata"]["name"]
            found[name] = cluster.wait(
                f"what becomes of {name}", lambda name=name: ended(cluster, name, issuer)
            )
        for one in UNTOUCHED:
            name = one["metadata"]["name"]
            found[name] = outcome(cluster.get("CertificateSigningRequest", name, None), issuer)
        bundles = cluster.wait(
            "the API server's authority", lambda: cluster.list("ClusterTrustBundle", namespace=None)
        )
        found["bundles"] = [one["spec"]["trustBundle"] == (keys / "ca.crt").read_text() for one in bundles]
        return found


def decide(kubeconfig: Any, how: str, name: str) -> None:
    command = ["kubectl", f"--kubeconfig={kubeconfig}", "certificate", how, name]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def ended(cluster: Playground, name: str, issuer: x509.Certificate) -> dict[str, Any] | None:
    """Return the outcome of a request that is signed or failed."""
    found = outcome(cluster.get("CertificateSigningRequest", name, None), issuer)
    types = [one["type"] for one in found["conditions"]]
    return found if found["certificate"] or "Failed" in types else None


def outcome(document: dict[str, Any], issuer: x509.Certificate) -> dict[str, Any]:
    status = document.get("status") or {}
    times = ("lastUpdateTime", "lastTransitionTime")
    shown = [
        {
            **{key: value for key, value in one.items() if key not in times},
            "times": sum(key in one for key in times),
        }
        for one in status.get("conditions") or ()
    ]
    certificate = status.get("certificate")
    if certificate:
        certificate = told(x509.load_pem_x509_certificate(base64.b64decode(certificate)), issuer)
    return {"conditions": shown, "certificate": certificate}


@pytest.fixture(scope="module")
def endings(tmp_path_factory):
    return live(tmp_path_factory.mktemp("ours"), True), live(tmp_path_factory.mktemp("theirs"), False)


@pytest.mark.parametrize("name", [*(one["metadata"]["name"] for one in (*REQUESTS, *UNTOUCHED)), "bundles"])
def test_both_do_the_same_with_a_request(endings, name):
    ours, theirs = endings
    assert ours[name] == theirs[name]
