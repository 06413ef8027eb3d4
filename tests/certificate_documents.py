"""Certificate requests, bundles, issued certificates and migrations as documents, for the tests that write them."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from weir.certificates import issue, make_authority, subject_name
from weir.values.pem import pem_blocks

Document = dict[str, Any]
VERSION = "certificates.k8s.io/v1"


def document(kind: str, name: str, version: str = VERSION, **rest: Any) -> Document:
    return {"kind": kind, "apiVersion": version, "metadata": {"name": name}, **rest}


def encode_pem(type: str, content: bytes) -> bytes:
    return (
        f"-----BEGIN {type}-----\n".encode()
        + base64.encodebytes(content)
        + f"-----END {type}-----\n".encode()
    )


NOW = datetime.now(UTC).replace(microsecond=0)
KEY = ec.generate_private_key(ec.SECP256R1())
AUTHORITY = make_authority("a", NOW, timedelta(days=30))
OTHER = make_authority("b", NOW, timedelta(days=30))
CA, OTHER_CA = AUTHORITY.certificate.decode(), OTHER.certificate.decode()
LEAF = issue(AUTHORITY, subject_name("jane"), NOW, timedelta(days=1), client=True).certificate.decode()
CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET = "kubernetes.io/kube-apiserver-client-kubelet"


def b64(content: bytes | str) -> str:
    return base64.b64encode(content.encode() if isinstance(content, str) else content).decode()


def pkcs10(
    name: str = "jane", *groups: str, key: Any = KEY, names: tuple[x509.GeneralName, ...] = ()
) -> bytes:
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject_name(name, groups))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    hashed = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(key, hashed).public_bytes(Encoding.PEM)


def der(pem: bytes) -> bytes:
    return next(pem_blocks(pem)).content


def unsigned(pem: bytes) -> bytes:
    """Return the request with a signature that is not its own."""
    content = bytearray(der(pem))
    content[-1] ^= 1
    return encode_pem("CERTIFICATE REQUEST", bytes(content))


GOOD = b64(pkcs10())


def request(name: str, signer: str = "example.com/s", **spec: Any) -> Document:
    whole = {"request": GOOD, "signerName": signer, "usages": ["client auth"], **spec}
    return document("CertificateSigningRequest", name, VERSION, spec=whole)


def condition(type: str, status: str = "True", **rest: Any) -> Document:
    return {"type": type, "status": status, "reason": "Test", "message": "by hand", **rest}


def conditions(*found: Document, **rest: Any) -> Document:
    return {"status": {"conditions": list(found), **rest}}


def bundle(name: str, text: str, signer: str | None = None) -> Document:
    spec = {"trustBundle": text, **({"signerName": signer} if signer is not None else {})}
    return document("ClusterTrustBundle", name, VERSION, spec=spec)


def pod_request(name: str, key: Any = KEY, **spec: Any) -> Document:
    whole = {
        "signerName": "example.com/s", "podName": "p", "podUID": "pu", "serviceAccountName": "s",
        "serviceAccountUID": "su", "nodeName": "n", "nodeUID": "nu",
        "stubPKCS10Request": b64(der(pkcs10("pod", key=key))),
        **spec,
    }  # fmt: skip
    return document("PodCertificateRequest", name, VERSION, spec=whole)


def issued(hours: float = 24, key: Any = KEY, begin: datetime = NOW, **more: Any) -> Document:
    """Return a status of a certificate for *key*."""
    ca = x509.load_pem_x509_certificate(AUTHORITY.certificate)
    signer = load_pem_private_key(AUTHORITY.key, None)
    end = begin + timedelta(hours=hours)
    builder = (
        x509.CertificateBuilder().subject_name(subject_name("p")).issuer_name(ca.subject).serial_number(5)
        .public_key(key.public_key()).not_valid_before(begin).not_valid_after(end)
    )  # fmt: skip
    if names := more.pop("names", None):
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    leaf = builder.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM).decode()
    stamp = "%Y-%m-%dT%H:%M:%SZ"
    status = {
        "certificateChain": leaf, "notBefore": begin.strftime(stamp), "notAfter": end.strftime(stamp),
        "beginRefreshAt": (begin + timedelta(hours=hours / 2)).strftime(stamp),
        "conditions": [condition("Issued", lastTransitionTime=NOW.strftime(stamp))],
    }  # fmt: skip
    return {"status": {**status, **more}}


def migration(name: str, resource: str, group: str = "") -> Document:
    spec = {"resource": {"resource": resource, **({"group": group} if group else {})}}
    return document("StorageVersionMigration", name, "storagemigration.k8s.io/v1", spec=spec)
