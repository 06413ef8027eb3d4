"""Requests about certificates, registered groups and storage migrations, asked of a real API server and of weir."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from tests.certificate_documents import (
    AUTHORITY,
    CA,
    CLIENT,
    LEAF,
    NOW,
    OTHER_CA,
    VERSION,
    b64,
    bundle,
    condition,
    conditions,
    der,
    encode_pem,
    issued,
    migration,
    pkcs10,
    pod_request,
    request,
    unsigned,
)
from tests.kubernetes.more_requests import Questions
from tests.kubernetes.requests import APPLY, MERGE, STRATEGIC, TABLE, Asked, Document, document
from tests.kubernetes.rights_requests import GROUP as RBAC_GROUP
from tests.kubernetes.rights_requests import RBAC, bound, rule, user
from weir.objects.kinds import groups

GROUP = "/apis/certificates.k8s.io/v1"
REQUESTS = f"{GROUP}/certificatesigningrequests"
BUNDLES = f"{GROUP}/clustertrustbundles"
POD_REQUESTS = f"{GROUP}/namespaces/default/podcertificaterequests"
MIGRATIONS = "/apis/storagemigration.k8s.io/v1/storageversionmigrations"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


def allowed(name: str, *signers: Document) -> Iterator[Asked]:
    """Yield the requests that let the user called *name* write requests, and act for signers as the rules say."""
    whole = rule("*", "certificates.k8s.io", "*")
    whole["resources"] = ["certificatesigningrequests", "certificatesigningrequests/approval",
                          "certificatesigningrequests/status", "clustertrustbundles",
                          "podcertificaterequests", "podcertificaterequests/status"]  # fmt: skip
    role = document("ClusterRole", f"c-{name}", f"{RBAC_GROUP}/v1", rules=[whole, *signers])
    yield Asked(f"certificates: role of {name}", "POST", f"{RBAC}/clusterroles", role)
    binding = bound("ClusterRoleBinding", f"c-{name}", "ClusterRole", f"c-{name}", user(name))
    yield Asked(f"certificates: binding of {name}", "POST", f"{RBAC}/clusterrolebindings", binding)


def setup() -> Iterator[Asked]:
    """Yield what is written first: a real server notices roles a moment later."""
    yield from allowed("nobody")
    yield from allowed("one", rule("approve,sign,attest", "certificates.k8s.io", "signers", "example.com/s"))
    yield from allowed("wide", rule("approve,sign,attest", "certificates.k8s.io", "signers", "example.com/*"))


def acting(name: str) -> Document:
    return {"Impersonate-User": name}


def signing_requests() -> Iterator[Asked]:
    q = Questions("csr")
    q.ask("plain", "POST", REQUESTS, request("plain"))
    q.ask("any name", "POST", REQUESTS, request("Any_Name:x"))
    q.ask("whole", "POST", REQUESTS, request("whole", username="x", uid="y", groups=["z"], extra={"a": ["b"]},
          expirationSeconds=3600, usages=["digital signature", "key encipherment", "client auth"]))  # fmt: skip
    sent = {**request("with-status"), **conditions(condition("Approved"), certificate=b64(LEAF))}
    q.ask("status is dropped", "POST", REQUESTS, sent)
    extra = {
        **acting("jane"),
        "Impersonate-Group": "dev",
        "Impersonate-Extra-scopes": "view",
        "Impersonate-Uid": "u",
    }
    q.ask(
        "of another",
        "POST",
        REQUESTS,
        request("of-jane"),
        headers={**extra, "Impersonate-Group": "system:masters"},
    )
    wrong: dict[str, Document] = {
        "no request": request("bad", request=None),
        "empty request": request("bad", request=""),
        "no PEM": request("bad", request=b64("nothing")),
        "other block": request("bad", request=b64(CA)),
        "not base64": request("bad", request="%%"),
        "damaged": request("bad", request=b64(encode_pem("CERTIFICATE REQUEST", b"garbage"))),
        "empty block": request("bad", request=b64(encode_pem("CERTIFICATE REQUEST", b""))),
        "truncated": request("bad", request=b64(encode_pem("CERTIFICATE REQUEST", der(pkcs10())[:-3]))),
        "trailing": request("bad", request=b64(encode_pem("CERTIFICATE REQUEST", der(pkcs10()) + b"x"))),
        "bad signature": request("bad", request=b64(unsigned(pkcs10()))),
        "no usages": request("bad", usages=[]),
        "unknown usage": request("bad", usages=["client auth", "fun", "client auth"]),
        "no signer": request("bad", ""),
        "legacy signer": request("bad", "kubernetes.io/legacy-unknown"),
        "signer without path": request("bad", "example.com"),
        "signer without domain": request("bad", "example/x"),
        "signer in capitals": request("bad", "Example.com/X_y"),
        "signer too long": request("bad", "a" * 260 + ".com/" + "b" * 330),
        "short": request("bad", expirationSeconds=599),
        "masters": request("bad", CLIENT, request=b64(pkcs10("jane", "system:masters"))),
        "nothing": document("CertificateSigningRequest", "bad", VERSION),
        "unknown field": request("bad", colour="red"),
        "name with slash": request("a/b"),
    }
    for title, body in wrong.items():
        q.ask(title, "POST", REQUESTS, body)
    for title, key in (
        ("RSA", rsa.generate_private_key(65537, 2048)),
        ("Ed25519", ed25519.Ed25519PrivateKey.generate()),
    ):
        q.ask(f"{title}", "POST", REQUESTS, request(title.lower(), request=b64(pkcs10(key=key))))
        q.ask(
            f"{title} bad signature", "POST", REQUESTS, request("bad", request=b64(unsigned(pkcs10(key=key))))
        )
    q.ask(
        "masters of another signer",
        "POST",
        REQUESTS,
        request("masters", request=b64(pkcs10("jane", "system:masters"))),
    )
    q.ask(
        "spec stays",
        "PATCH",
        f"{REQUESTS}/plain",
        {"spec": {"usages": ["any"]}, "metadata": {"labels": {"a": "b"}}},
        MERGE,
    )
    q.ask("status stays", "PATCH", f"{REQUESTS}/plain", conditions(condition("Approved")), MERGE)
    q.ask("get", "GET", f"{REQUESTS}/plain")
    q.ask("applied", "PATCH", f"{REQUESTS}/applied?fieldManager=m", request("applied"), APPLY)
    q.ask(
        "applied again",
        "PATCH",
        f"{REQUESTS}/applied?fieldManager=n",
        {**request("applied", usages=["any"]), **conditions(condition("Approved"))},
        APPLY,
    )
    q.ask("status: approve", "PATCH", f"{REQUESTS}/plain/status", conditions(condition("Approved")), MERGE)
    q.ask(
        "status: other condition",
        "PATCH",
        f"{REQUESTS}/plain/status",
        conditions(condition("Odd", "Unknown")),
        MERGE,
    )
    q.ask(
        "status: bad certificate",
        "PATCH",
        f"{REQUESTS}/plain/status",
        {"status": {"certificate": b64("x")}},
        MERGE,
    )
    q.ask(
        "status: key as certificate",
        "PATCH",
        f"{REQUESTS}/plain/status",
        {"status": {"certificate": b64(AUTHORITY.key)}},
        MERGE,
    )
    q.ask(
        "status: headers",
        "PATCH",
        f"{REQUESTS}/plain/status",
        {"status": {"certificate": b64(LEAF.replace("CERTIFICATE-----\n", "CERTIFICATE-----\na: b\n\n", 1))}},
        MERGE,
    )
    for who in ("nobody", "one", "wide"):
        q.ask(
            f"status: sign by {who}",
            "PATCH",
            f"{REQUESTS}/Any_Name:x/status",
            {"metadata": {"annotations": {"by": who}}, "status": {"certificate": b64(LEAF)}},
            MERGE,
            headers=acting(who),
        )
        q.ask(
            f"approval by {who}",
            "PATCH",
            f"{REQUESTS}/whole/approval",
            conditions(condition("Approved")),
            MERGE,
            headers=acting(who),
        )
    q.ask(
        "status: nothing new",
        "PATCH",
        f"{REQUESTS}/Any_Name:x/status",
        {"metadata": {"labels": {"a": "b"}}},
        MERGE,
        headers=acting("nobody"),
    )
    q.ask(
        "status: another certificate",
        "PATCH",
        f"{REQUESTS}/Any_Name:x/status",
        {"status": {"certificate": b64(CA)}},
        MERGE,
    )
    q.ask("status: failed", "PATCH", f"{REQUESTS}/Any_Name:x/status", conditions(condition("Failed")), MERGE)
    q.ask("status: failed goes", "PATCH", f"{REQUESTS}/Any_Name:x/status", conditions(), MERGE)
    q.ask(
        "status: failed is false",
        "PATCH",
        f"{REQUESTS}/Any_Name:x/status",
        conditions(condition("Failed", "False")),
        MERGE,
    )
    q.ask(
        "approval: certificate",
        "PATCH",
        f"{REQUESTS}/of-jane/approval",
        {"status": {"certificate": b64(LEAF)}},
        MERGE,
    )
    q.ask(
        "approval: deny",
        "PATCH",
        f"{REQUESTS}/of-jane/approval",
        conditions(condition("Denied", lastUpdateTime="2020-01-01T00:00:00Z")),
        MERGE,
    )
    q.ask(
        "approval: both",
        "PATCH",
        f"{REQUESTS}/of-jane/approval",
        conditions(condition("Denied"), condition("Approved")),
        MERGE,
    )
    q.ask("approval: goes", "PATCH", f"{REQUESTS}/of-jane/approval", conditions(), MERGE)
    q.ask(
        "approval: twice",
        "PATCH",
        f"{REQUESTS}/whole/approval",
        conditions(condition("Approved"), condition("Approved")),
        MERGE,
    )
    q.ask(
        "approval: false",
        "PATCH",
        f"{REQUESTS}/ed25519/approval",
        conditions(condition("Approved", "False")),
        MERGE,
    )
    q.ask(
        "approval: without status",
        "PATCH",
        f"{REQUESTS}/ed25519/approval",
        conditions({"type": "Approved"}),
        MERGE,
    )
    q.ask(
        "approval: without type",
        "PATCH",
        f"{REQUESTS}/ed25519/approval",
        conditions({"status": "True"}),
        MERGE,
    )
    q.ask(
        "approval: odd status",
        "PATCH",
        f"{REQUESTS}/ed25519/approval",
        conditions(condition("Odd", "Perhaps")),
        MERGE,
    )
    q.ask(
        "approval: strategic",
        "PATCH",
        f"{REQUESTS}/ed25519/approval",
        conditions(condition("Approved")),
        STRATEGIC,
    )
    q.ask(
        "approval: applied",
        "PATCH",
        f"{REQUESTS}/rsa/approval?fieldManager=m",
        {
            "apiVersion": VERSION,
            "kind": "CertificateSigningRequest",
            "metadata": {"name": "rsa"},
            **conditions(condition("Approved"), certificate=b64(LEAF)),
        },
        APPLY,
    )
    q.ask(
        "status: approved is changed",
        "PATCH",
        f"{REQUESTS}/rsa/status",
        conditions(condition("Approved", message="other"), condition("Failed")),
        MERGE,
    )
    q.ask("approval: get", "GET", f"{REQUESTS}/rsa/approval")
    q.ask("approval: delete", "DELETE", f"{REQUESTS}/rsa/approval")
    q.ask("table", "GET", REQUESTS, accept=TABLE)
    q.ask("by signer", "GET", f"{REQUESTS}?fieldSelector=spec.signerName%3Dexample.com/s", accept=TABLE)
    q.ask("by what it has not", "GET", f"{REQUESTS}?fieldSelector=spec.username%3Djane")
    q.ask("by namespace", "GET", f"{REQUESTS}?fieldSelector=metadata.namespace%3Djane")
    q.ask("delete", "DELETE", f"{REQUESTS}/plain")
    q.ask("all", "DELETE", REQUESTS)
    yield from q.asked


def trust_bundles() -> Iterator[Asked]:
    q = Questions("bundles")
    headed = CA.replace("CERTIFICATE-----\n", "CERTIFICATE-----\na: b\n\n", 1)
    broken = encode_pem("CERTIFICATE", b"x").decode()
    for title, body in {
        "plain": bundle("plain", CA),
        "two": bundle("two", "a comment\n" + CA + "\nanother\n" + OTHER_CA),
        "of a signer": bundle("example.com:s:a", CA, "example.com/s"),
        "name of a signer": bundle("example.com:s:a", CA),
        "signer in another name": bundle("b", CA, "example.com/s"),
        "signer with bad rest": bundle("example.com:s:A_b", CA, "example.com/s"),
        "bad signer": bundle("b", CA, "example"),
        "bad name": bundle("A_b", CA),
        "nothing": bundle("b", ""),
        "no block": bundle("b", "words"),
        "leaf": bundle("b", LEAF),
        "headers": bundle("b", headed),
        "broken": bundle("b", broken),
        "key": bundle("b", AUTHORITY.key.decode()),
        "several wrong": bundle("b", LEAF + headed + broken + CA),
        "twice": bundle("b", CA + OTHER_CA + CA),
        "too long": bundle("b", "x" * (1024 * 1024 + 1)),
        "no spec": document("ClusterTrustBundle", "b", VERSION),
    }.items():
        q.ask(title, "POST", BUNDLES, body)
    for who in ("nobody", "one", "wide"):
        q.ask(
            f"attested by {who}",
            "POST",
            BUNDLES,
            bundle(f"example.com:s:{who}", CA, "example.com/s"),
            headers=acting(who),
        )
    q.ask(
        "labels by nobody",
        "PATCH",
        f"{BUNDLES}/example.com:s:a",
        {"metadata": {"labels": {"a": "b"}}},
        MERGE,
        headers=acting("nobody"),
    )
    q.ask(
        "finalizer by nobody",
        "PATCH",
        f"{BUNDLES}/example.com:s:a",
        {"metadata": {"finalizers": ["a.com/b"]}},
        MERGE,
        headers=acting("nobody"),
    )
    q.ask("finalizer goes", "PATCH", f"{BUNDLES}/example.com:s:a", {"metadata": {"finalizers": None}}, MERGE)
    q.ask("another signer", "PATCH", f"{BUNDLES}/plain", {"spec": {"signerName": "example.com/s"}}, MERGE)
    q.ask("worse", "PATCH", f"{BUNDLES}/plain", {"spec": {"trustBundle": "x"}}, MERGE)
    q.ask("other", "PATCH", f"{BUNDLES}/plain", {"spec": {"trustBundle": OTHER_CA}}, MERGE)
    q.ask("without version", "PUT", f"{BUNDLES}/plain", bundle("plain", CA))
    q.ask("table", "GET", BUNDLES, accept=TABLE)
    q.ask("by signer", "GET", f"{BUNDLES}?fieldSelector=spec.signerName%3Dexample.com/s", accept=TABLE)
    q.ask("delete", "DELETE", f"{BUNDLES}/plain")
    yield from q.asked


def pod_requests() -> Iterator[Asked]:
    q = Questions("pod certificates")
    small, curve = rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP224R1())
    for title, body in {
        "plain": pod_request("plain"),
        "whole": pod_request("whole", maxExpirationSeconds=3600, unverifiedUserAnnotations={"a.com/B": "c"}),
        "third": pod_request("third"),
        "fourth": pod_request("fourth"),
        "Ed25519": pod_request("ed", ed25519.Ed25519PrivateKey.generate()),
        "small RSA": pod_request("bad", small),
        "small curve": pod_request("bad", curve),
        "bad signature": pod_request("bad", stubPKCS10Request=b64(der(unsigned(pkcs10())))),
        "no request": pod_request("bad", stubPKCS10Request=""),
        "garbage": pod_request("bad", stubPKCS10Request=b64("garbage")),
        "large": pod_request("bad", stubPKCS10Request=b64("g" * 10241)),
        "old fields": pod_request("bad", pkixPublicKey="aa", proofOfPossession="bb"),
        "too short": pod_request("bad", maxExpirationSeconds=3599),
        "too long": pod_request("bad", maxExpirationSeconds=91 * 86400 + 1),
        "too long for Kubernetes": pod_request(
            "bad", signerName="kubernetes.io/x", maxExpirationSeconds=86401
        ),
        "names": pod_request("bad", podName="P", serviceAccountName="S", nodeName="N_"),
        "no uids": pod_request("bad", podUID="", serviceAccountUID="", nodeUID=""),
        "long uids": pod_request("bad", podUID="u" * 129, serviceAccountUID="u" * 129, nodeUID="u" * 129),
        "annotations": pod_request("bad", unverifiedUserAnnotations={"plain": "x"}),
        "bad annotations": pod_request("bad", unverifiedUserAnnotations={"a.com/_": "x"}),
        "nothing": document("PodCertificateRequest", "bad", VERSION),
    }.items():
        q.ask(title, "POST", POD_REQUESTS, body)
    at, merge = f"{POD_REQUESTS}/plain", MERGE
    q.ask("spec changes", "PATCH", at, {"spec": {"podName": "q"}}, merge)
    q.ask("labels", "PATCH", at, {"metadata": {"labels": {"a": "b"}}}, merge)
    moment = NOW.strftime("%Y-%m-%dT%H:%M:%SZ")
    done = lambda type, status="True", **rest: condition(type, status, lastTransitionTime=moment, **rest)  # noqa: E731
    for title, body in {
        "unknown condition": conditions(done("Odd")),
        "false condition": conditions(done("Issued", "False")),
        "two conditions": conditions(done("Issued"), done("Denied")),
        "condition without reason": conditions(done("Denied", reason="")),
        "denied with chain": conditions(done("Denied"), certificateChain=LEAF),
        "chain alone": {"status": {"certificateChain": LEAF}},
        "issued without chain": conditions(done("Issued")),
        "issued with key": conditions(done("Issued"), certificateChain=AUTHORITY.key.decode()),
        "issued with garbage": conditions(
            done("Issued"), certificateChain=encode_pem("CERTIFICATE", b"x").decode()
        ),
        "issued to another": issued(key=ec.generate_private_key(ec.SECP256R1())),
        "issued without times": issued(notBefore=None, notAfter=None, beginRefreshAt=None),
        "other begin": issued(notBefore="2020-01-01T00:00:00Z"),
        "old begin": issued(begin=NOW - timedelta(hours=1)),
        "other end": issued(notAfter="2020-01-01T00:00:00Z"),
        "short life": issued(0.5),
        "long life": issued(25),
        "early refresh": issued(beginRefreshAt=moment),
        "late refresh": issued(beginRefreshAt=(NOW + timedelta(hours=24)).strftime("%Y-%m-%dT%H:%M:%SZ")),
        "odd names": issued(names=[x509.DNSName("a..b"), x509.DNSName(".c"), x509.RFC822Name("x")]),
        "worse chain": issued(
            certificateChain=issued()["status"]["certificateChain"] + AUTHORITY.key.decode()
        ),
    }.items():
        q.ask(f"status: {title}", "PATCH", f"{at}/status", body, merge)
    for who in ("nobody", "one"):
        body = issued()
        body["metadata"] = {"labels": {"by": who}}
        q.ask(f"status: issued by {who}", "PATCH", f"{at}/status", body, merge, headers=acting(who))
    q.ask(
        "status: denied by wide",
        "PATCH",
        f"{POD_REQUESTS}/third/status",
        conditions(done("Denied")),
        merge,
        headers=acting("wide"),
    )
    q.ask("status: after the end", "PATCH", f"{at}/status", {"status": {"certificateChain": None}}, merge)
    q.ask("status: failed", "PATCH", f"{POD_REQUESTS}/fourth/status", conditions(done("Failed")), merge)
    q.ask("table", "GET", POD_REQUESTS, accept=TABLE)
    q.ask(
        "by node",
        "GET",
        f"{POD_REQUESTS}?fieldSelector=spec.nodeName%3Dn,spec.podName%3Dp,spec.signerName%3Dexample.com/s",
        accept=TABLE,
    )
    q.ask("by namespace", "GET", f"{POD_REQUESTS}?fieldSelector=metadata.namespace%3Ddefault")
    q.ask("delete", "DELETE", f"{at}")
    yield from q.asked


def migrations() -> Iterator[Asked]:
    q = Questions("migrations")
    for title, body in {
        "plain": migration("plain", "secrets"),
        "grouped": migration("grouped", "deployments", "apps"),
        "no resource": migration("bad", ""),
        "bad resource": migration("bad", "Pods_"),
        "bad group": migration("bad", "pods", "A_b"),
        "no spec": document("StorageVersionMigration", "bad", "storagemigration.k8s.io/v1"),
    }.items():
        q.ask(title, "POST", MIGRATIONS, body)
    at = f"{MIGRATIONS}/plain"
    moment = NOW.strftime("%Y-%m-%dT%H:%M:%SZ")
    q.ask("spec changes", "PATCH", at, {"spec": {"resource": {"resource": "pods"}}}, MERGE)
    done = lambda type, status="True": condition(type, status, lastTransitionTime=moment)  # noqa: E731
    for title, body in {
        "bad version": {"status": {"resourceVersion": "01"}},
        "version": {"metadata": {"labels": {"a": "b"}}, "status": {"resourceVersion": "5"}},
        "other version": {"status": {"resourceVersion": "6"}},
        "both": conditions(done("Succeeded"), done("Failed")),
        "bad condition": conditions({"type": "Running"}),
        "running": conditions(done("Running")),
        "succeeded": conditions(done("Running", "False"), done("Succeeded")),
        "back": conditions(done("Succeeded", "False")),
    }.items():
        q.ask(f"status: {title}", "PATCH", f"{at}/status", body, MERGE)
    q.ask("status: failed", "PATCH", f"{MIGRATIONS}/grouped/status", conditions(done("Failed")), MERGE)
    q.ask("status: failed goes", "PATCH", f"{MIGRATIONS}/grouped/status", conditions(), MERGE)
    q.ask("table", "GET", MIGRATIONS, accept=TABLE)
    q.ask("delete", "DELETE", at)
    yield from q.asked


def api_service(group: str, version: str = "v1", name: str = "", **spec: Any) -> Document:
    whole = {"groupPriorityMinimum": 100, "versionPriority": 15, **spec}
    whole = {"group": group, "version": version, **whole}
    name = name or f"{version}.{group}"
    return document("APIService", name, "apiregistration.k8s.io/v1", spec=whole)


def api_services() -> Iterator[Asked]:
    q = Questions("api services")
    missing = {"namespace": "default", "name": "missing"}
    q.ask("all", "GET", SERVICES, accept=TABLE)
    for title, body in {
        "local": api_service("local.example.com"),
        "other name": api_service("a.example.com", name="odd"),
        "no group": api_service("", "v2"),
        "bad group": api_service("A_b"),
        "bad version": api_service("a.example.com", "V1"),
        "no priorities": api_service("a.example.com", groupPriorityMinimum=0, versionPriority=0),
        "high priorities": api_service("a.example.com", groupPriorityMinimum=20001, versionPriority=1001),
        "local with bundle": api_service("a.example.com", caBundle=b64(CA), insecureSkipTLSVerify=True),
        "service without name": api_service(
            "a.example.com", service={}, insecureSkipTLSVerify=True, caBundle=b64(CA)
        ),
        "service with odd port": api_service("a.example.com", service={**missing, "port": 0}),
        "nothing": document("APIService", "bad", "apiregistration.k8s.io/v1"),
    }.items():
        q.ask(title, "POST", SERVICES, body)
    at = f"{SERVICES}/v1.local.example.com"
    q.ask("get", "GET", at)
    q.ask(
        "other priority", "PATCH", at, {"spec": {"versionPriority": 20}, "status": {"conditions": []}}, MERGE
    )
    q.ask("other group", "PATCH", at, {"spec": {"group": "b.example.com"}}, MERGE)
    q.ask("odd status", "PATCH", f"{at}/status", conditions(condition("Odd", "Perhaps")), MERGE)
    q.ask(
        "status with labels",
        "PATCH",
        f"{at}/status",
        {"metadata": {"labels": {"a": "b"}}, **conditions(condition("Odd"))},
        STRATEGIC,
    )
    q.ask("table", "GET", at, accept=TABLE)
    q.ask("one of its own", "GET", f"{SERVICES}/v1.apps")
    q.ask("core", "GET", f"{SERVICES}/v1.")
    q.ask("delete", "DELETE", at)
    yield from q.asked


def discovery() -> Iterator[Asked]:
    """Yield what is served, group version by group version, and how the other components are."""
    q = Questions("discovery")
    q.ask("v1", "GET", "/api/v1")
    for group in (name for name in groups() if name not in ("", "metrics.k8s.io")):
        for version in ("v1", "v2") if group == "autoscaling" else ("v1",):
            q.ask(group, "GET", f"/apis/{group}/{version}")
    for name in ("scheduler", "controller-manager", "etcd-0", "nobody"):
        q.ask(name, "GET", f"/api/v1/componentstatuses/{name}")
        q.ask(f"{name} as a table", "GET", f"/api/v1/componentstatuses/{name}", accept=TABLE)
    q.ask("one component", "GET", "/api/v1/componentstatuses?fieldSelector=metadata.name%3Detcd-0")
    q.ask("a verb it has not", "DELETE", "/api/v1/componentstatuses/etcd-0")
    yield from q.asked


CERTIFICATES = [
    *discovery(),
    *signing_requests(),
    *trust_bundles(),
    *pod_requests(),
    *migrations(),
    *api_services(),
]

#: case → why it differs (docs/decisions/0090)
DIFFERENT: dict[str, str] = {
    "more migrations 16: status: failed goes": "an empty list is shown as none",
    "more api services 0: all": "older versions of resource.k8s.io are served, too",
}
