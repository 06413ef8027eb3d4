"""cert-manager, installed by its own chart: webhook, CA injector and controller, each with its own account's rights.

The chart's Deployments have no replicas: the three programs run beside the cluster, with the flags that the chart gives
them, tokens of the chart's service accounts, and the webhook at a port of this machine (the chart's webhook.url.host).
"""

from __future__ import annotations

import base64
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from tests.ecosystem.cluster import Cluster, Document, Refused, condition, program, wait_for
from tests.ecosystem.conftest import built

NAMESPACE = "cert-manager"
GROUP = "cert-manager.io/v1"
PATIENCE_SECONDS = 240.0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as door:
        return door.getsockname()[1]


def chart(folder: Path) -> Path:
    """Put the chart together as cert-manager's release does: its version, and the definitions as a template."""
    source = built("cert-manager").source / "deploy"
    target = folder / "chart"
    shutil.copytree(source / "charts" / "cert-manager", target)
    for path in (target, *target.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)  # files of a Go module cannot be written to
    meta = yaml.safe_load((target / "Chart.template.yaml").read_text())
    version = built("cert-manager").source.name.partition("@")[2]
    meta |= {"version": version, "appVersion": version, "annotations": {}}
    (target / "Chart.yaml").write_text(yaml.safe_dump(meta))
    definitions = "\n---\n".join(path.read_text() for path in sorted((source / "crds").glob("crd-*.yaml")))
    (target / "templates" / "crds.yaml").write_text(
        "{{- if .Values.installCRDs }}\n" + definitions + "\n{{- end }}\n"
    )
    return target


def as_account(cluster: Cluster, account: str) -> Path:
    """Return a kubeconfig that has the rights of a service account and no others."""
    where = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
    made = cluster.ask(
        "POST", where, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    )
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": made["status"]["token"]}
    path = cluster.folder / f"{account}.kubeconfig"
    path.touch(0o600)
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture(scope="module")
def managed(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster with cert-manager at work."""
    port, folder = free_port(), built("cert-manager").programs
    values = (
        "installCRDs=true,startupapicheck.enabled=false,replicaCount=0,webhook.replicaCount=0,"
        f"cainjector.replicaCount=0,webhook.url.host=localhost:{port}"
    )
    done = subprocess.run(
        [
            *(built("helm3").programs / "helm", "install", "cert-manager", chart(cluster.folder)),
            *("--namespace", NAMESPACE, "--create-namespace", "--set", values),
        ],
        env=cluster.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    flags = {
        "webhook": [
            *(
                f"--secure-port={port}",
                f"--healthz-port={free_port()}",
                "--dynamic-serving-dns-names=localhost",
            ),
            f"--dynamic-serving-ca-secret-namespace={NAMESPACE}",
            "--dynamic-serving-ca-secret-name=cert-manager-webhook-ca",
        ],
        "cainjector": ["--leader-election-namespace=kube-system"],
        "controller": [
            *(f"--cluster-resource-namespace={NAMESPACE}", "--leader-election-namespace=kube-system"),
            "--metrics-listen-address=127.0.0.1:0",
        ],
    }
    accounts = {name: f"cert-manager-{name}" for name in flags} | {"controller": "cert-manager"}
    with ExitStack() as stack:
        for name, words in flags.items():
            kubeconfig = as_account(cluster, accounts[name])
            environment = {**cluster.environment, "POD_NAMESPACE": NAMESPACE, "KUBECONFIG": str(kubeconfig)}
            command = [folder / name, "--v=2", f"--kubeconfig={kubeconfig}", *words]
            stack.enter_context(program(cluster.folder / f"{name}.log", *command, environment=environment))
        hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/cert-manager-webhook"
        wait_for(
            lambda: cluster.get(hooks)["webhooks"][0]["clientConfig"].get("caBundle"),
            "the injector has written the webhook's authority",
            PATIENCE_SECONDS,
        )
        wait_for(lambda: answers(cluster), "the webhook answers", PATIENCE_SECONDS)
        yield cluster


def answers(cluster: Cluster) -> bool:
    """Whether the webhook is asked and answers; until it listens, writes fail."""
    try:
        cluster.ask(
            "POST", f"/apis/{GROUP}/namespaces/default/issuers?dryRun=All", issuer("probe", selfSigned={})
        )
    except Refused as refused:
        assert refused.code == 500 and "failed calling webhook" in refused.message, str(refused)
        return False
    return True


def issuer(name: str, **spec: Document) -> Document:
    return {
        "apiVersion": GROUP,
        "kind": "Issuer",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def certificate(name: str, issued_by: str, **spec: object) -> Document:
    return {
        "apiVersion": GROUP,
        "kind": "Certificate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"secretName": f"{name}-tls", "issuerRef": {"name": issued_by, "kind": "Issuer"}, **spec},
    }


def issued(cluster: Cluster, name: str) -> x509.Certificate:
    """Wait until a Certificate is ready and nothing is under way; return what its Secret holds.

    It is ready as soon as the Secret is there. Until the issuance itself has ended, a Secret that is lost comes back
    with the same certificate.
    """
    where = f"/apis/{GROUP}/namespaces/default/certificates/{name}"

    def done() -> bool:
        found = cluster.get(where)
        return condition(found, "Ready") and not condition(found, "Issuing")

    wait_for(done, f"Certificate {name} is ready", PATIENCE_SECONDS)
    secret = cluster.get(f"/api/v1/namespaces/default/secrets/{name}-tls")
    assert secret["type"] == "kubernetes.io/tls" and set(secret["data"]) >= {"tls.crt", "tls.key", "ca.crt"}
    return x509.load_pem_x509_certificate(base64.b64decode(secret["data"]["tls.crt"]))


def test_a_self_signed_issuer_fills_a_secret_and_its_authority_signs_for_others(managed: Cluster):
    managed.create(issuer("self", selfSigned={}))
    managed.create(certificate("root", "self", isCA=True, commonName="weir root"))
    root = issued(managed, "root")
    assert root.subject == root.issuer
    root.verify_directly_issued_by(root)

    managed.create(issuer("ours", ca={"secretName": "root-tls"}))
    managed.create(
        certificate("web", "ours", dnsNames=["web.example.com"], duration="2160h", renewBefore="360h")
    )
    web = issued(managed, "web")
    names = web.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["web.example.com"]
    web.verify_directly_issued_by(root)


def test_a_secret_that_is_lost_is_issued_again(managed: Cluster):
    managed.apply(issuer("self", selfSigned={}))
    managed.apply(certificate("again", "self", commonName="again"))
    before = issued(managed, "again")
    managed.delete("/api/v1/namespaces/default/secrets/again-tls")
    where = "/api/v1/namespaces/default/secrets/again-tls"
    wait_for(lambda: managed.find(where), "the Secret is there again", PATIENCE_SECONDS)
    assert issued(managed, "again").serial_number != before.serial_number


def test_its_webhooks_judge_and_fill_in(managed: Cluster):
    with pytest.raises(Refused) as refused:
        managed.create(certificate("nameless", "self"))
    assert 'admission webhook "webhook.cert-manager.io" denied the request' in refused.value.message
    assert "at least one of commonName" in refused.value.message
    managed.apply(issuer("self", selfSigned={}))
    managed.apply(certificate("asked", "self", commonName="asked"))
    issued(managed, "asked")
    requests = managed.items(f"/apis/{GROUP}/namespaces/default/certificaterequests")
    # who asked is written by the mutating webhook, from what the server says of the user
    assert {each["spec"]["username"] for each in requests} == {
        f"system:serviceaccount:{NAMESPACE}:cert-manager"
    }
