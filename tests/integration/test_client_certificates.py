"""Certificates that are no client's credential, shown to a listening server over TLS: never a user."""

import asyncio
import json
import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from weir.apiserver.build import build
from weir.apiserver.options import Options, open_store
from weir.apiserver.run import serve
from weir.certificates import KeyPair, make_authority, subject_name
from weir.clock import RealClock

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
ADMIN = subject_name("kubernetes-admin", ["system:masters"])
CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH
OTHERS = [ExtendedKeyUsageOID.CODE_SIGNING, ExtendedKeyUsageOID.EMAIL_PROTECTION]


def leaf(issuer, *, usages=(CLIENT,), begin=NOW - DAY, end=NOW + DAY, ca=False, subject=ADMIN, own=False):
    """Return an administrator's certificate signed by *issuer*'s key (by its *own* key instead)."""
    key = ec.generate_private_key(ec.SECP256R1())
    signer = serialization.load_pem_private_key(issuer.key, None)
    name = x509.load_pem_x509_certificate(issuer.certificate).subject
    builder = (
        x509.CertificateBuilder().subject_name(subject).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(begin).not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )  # fmt: skip
    if usages:
        builder = builder.add_extension(x509.ExtendedKeyUsage(list(usages)), critical=False)
    signed = builder.sign(key if own else signer, hashes.SHA256())
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return KeyPair(signed.public_bytes(serialization.Encoding.PEM), pem)


def below_a_leaf(authority):
    """Return a certificate that an ordinary client signed, with the client's own certificate behind it."""
    between = leaf(authority, subject=subject_name("jane"))
    last = leaf(between)
    return KeyPair(last.certificate + between.certificate, last.key)


def namesake(authority):
    name = x509.load_pem_x509_certificate(authority.certificate).subject
    common_name = name.get_attributes_for_oid(x509.NameOID.COMMON_NAME)[0].value
    return make_authority(common_name, NOW - DAY, 3 * DAY)


NO_CREDENTIALS = {
    "expired": lambda ca, server: leaf(ca, begin=NOW - 2 * DAY, end=NOW - timedelta(seconds=5)),
    "not yet valid": lambda ca, server: leaf(ca, begin=NOW + timedelta(hours=1), end=NOW + DAY),
    "the server's own": lambda ca, server: server,
    "the authority's own": lambda ca, server: ca,
    "for servers": lambda ca, server: leaf(ca, usages=[SERVER]),
    "for code and mail": lambda ca, server: leaf(ca, usages=OTHERS),
    "of another authority of that name": lambda ca, server: leaf(namesake(ca)),
    "another authority of that name": lambda ca, server: namesake(ca),
    "signed by itself": lambda ca, server: leaf(ca, own=True),
    "an authority of its own": lambda ca, server: make_authority("kubernetes-admin", NOW - DAY, 3 * DAY),
    "signed by a client": lambda ca, server: below_a_leaf(ca),
    "without a name": lambda ca, server: leaf(ca, subject=x509.Name([])),
}


@pytest.fixture
async def running(tmp_path):
    clock = RealClock()
    options = Options(tmp_path, store="memory", secure_port=0)
    server = await build(options, await open_store(options, clock), clock)
    await serve(server, clock)
    yield server
    await server.stop()


async def who(running, pair, path, version):
    """Return the code of the answer and who the server says asks; (0, None) when TLS already refuses."""
    (path / "client.pem").write_bytes(pair.certificate + pair.key)
    context = ssl.create_default_context(cadata=running.credentials.ca_pem.decode())
    context.maximum_version = version
    context.load_cert_chain(path / "client.pem")
    body = b'{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}'
    head = (
        b"POST /apis/authentication.k8s.io/v1/selfsubjectreviews HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    )
    head += b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    try:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", running.port, ssl=context, server_hostname="localhost"
        )
        writer.write(head + body)
        answer = await asyncio.wait_for(reader.read(), 60)
        writer.close()
    except (ssl.SSLError, ConnectionError):
        return 0, None
    if not answer:
        return 0, None
    top, _, content = answer.partition(b"\r\n\r\n")
    user = json.loads(content).get("status", {})
    return int(top.split()[1]), user["userInfo"]["username"] if isinstance(user, dict) else None


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
async def test_what_is_no_clients_certificate_is_no_user(running, tmp_path, version):
    credentials = running.credentials
    server = KeyPair(credentials.server_cert_path.read_bytes(), credentials.server_key_path.read_bytes())
    answers = {
        name: await who(running, make(credentials.authority, server), tmp_path, version)
        for name, make in NO_CREDENTIALS.items()
    }
    assert {name: answer for name, answer in answers.items() if answer not in [(0, None), (401, None)]} == {}
    # what Kubernetes takes: for clients, for clients and servers, and without a purpose at all
    for usages in [[CLIENT], [SERVER, CLIENT], []]:
        pair = leaf(credentials.authority, usages=usages)
        assert await who(running, pair, tmp_path, version) == (201, "kubernetes-admin"), usages
