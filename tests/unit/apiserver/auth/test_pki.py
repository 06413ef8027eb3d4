"""Claims about weir.apiserver.auth.pki: made once, kept, renewed in time, readable by nobody else."""

import base64
import ssl
import stat
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from cryptography import x509

from weir.apiserver.auth import pki
from weir.apiserver.auth.authn import read_certificate
from weir.apiserver.auth.pki import Access, KubeconfigError
from weir.apiserver.auth.pki import kubeconfig_document as document
from weir.apiserver.auth.pki import merge_kubeconfig as merge
from weir.apiserver.auth.pki import write_kubeconfig as write

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def der(pem):
    return ssl.PEM_cert_to_DER_cert(pem.decode())


def test_every_file_is_readable_by_its_owner_only(tmp_path):
    pki.ensure(tmp_path / "pki", now=NOW)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "pki").iterdir()}
    assert modes and set(modes.values()) == {0o600}


def test_a_second_start_keeps_every_file(tmp_path):
    pki.ensure(tmp_path, now=NOW)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    pki.ensure(tmp_path, now=NOW + timedelta(days=1))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_leaf_near_its_end_is_renewed_by_the_same_authority(tmp_path):
    first = pki.ensure(tmp_path, now=NOW)
    second = pki.ensure(tmp_path, now=NOW + pki.LEAF_LIFETIME - timedelta(days=29))
    assert (second.authority == first.authority, second.admin == first.admin) == (True, False)


def test_a_renewed_authority_still_vouches_for_leaves_it_signed_before(tmp_path):
    first = pki.ensure(tmp_path, now=NOW)
    later = NOW + pki.AUTHORITY_LIFETIME - timedelta(days=1)
    renewed = pki.ensure(tmp_path, now=later)
    old_leaf = x509.load_pem_x509_certificate(first.admin.certificate)
    assert renewed.ca_pem != first.ca_pem
    old_leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(renewed.ca_pem))


def test_a_new_host_name_makes_a_new_serving_certificate(tmp_path):
    pki.ensure(tmp_path, now=NOW)
    credentials = pki.ensure(tmp_path, ["api.example", "10.0.0.7"], now=NOW)
    certificate = x509.load_pem_x509_certificate(credentials.server_cert_path.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "api.example" in names.get_values_for_type(x509.DNSName)


def test_a_damaged_certificate_is_named_in_one_line(tmp_path):
    pki.ensure(tmp_path, now=NOW)
    (tmp_path / "ca.crt").write_text("not a certificate")
    with pytest.raises(pki.PkiError, match=r"ca\.crt or ca\.key is damaged"):
        pki.ensure(tmp_path, now=NOW)


def test_a_key_of_another_certificate_is_refused(tmp_path):
    pki.ensure(tmp_path, now=NOW)
    (tmp_path / "ca.key").write_bytes((tmp_path / "admin.key").read_bytes())
    with pytest.raises(pki.PkiError, match=r"ca\.key is not the key of"):
        pki.ensure(tmp_path, now=NOW)


def test_a_leaf_of_another_authority_is_replaced(tmp_path):
    first = pki.ensure(tmp_path, now=NOW)
    (tmp_path / "ca.crt").unlink()
    (tmp_path / "ca.key").unlink()
    assert pki.ensure(tmp_path, now=NOW).admin != first.admin


@pytest.mark.parametrize("identity", [pki.ADMIN, pki.SCHEDULER, pki.node_identity("n1")])
def test_a_client_certificate_speaks_for_its_identity(tmp_path, identity):
    pair = pki.ensure(tmp_path, now=NOW).issue_client(identity, NOW)
    user = read_certificate(der(pair.certificate)).user
    assert (user.name, user.groups) == (identity.user, (*identity.groups, "system:authenticated"))


def handshake(server_context, client_context):
    """Run a TLS handshake in memory; return the server's side."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    client = client_context.wrap_bio(to_client, to_server, server_hostname="localhost")
    done = set()
    for _ in range(20):
        for side in (client, server):
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                pass
        if len(done) == 2:
            return server
    raise AssertionError("no handshake")


def test_a_real_handshake_shows_the_client_certificate_to_the_server(tmp_path):
    now = datetime.now(UTC)
    credentials = pki.ensure(tmp_path, now=now)
    client = ssl.create_default_context(cafile=str(credentials.ca_path))
    client.load_cert_chain(tmp_path / "admin.crt", tmp_path / "admin.key")
    server = handshake(pki.serving_context(credentials), client)
    assert read_certificate(server.getpeercert(binary_form=True)).user.name == "kubernetes-admin"


def test_a_client_without_certificate_is_let_in_to_show_a_token(tmp_path):
    credentials = pki.ensure(tmp_path, now=datetime.now(UTC))
    client = ssl.create_default_context(cafile=str(credentials.ca_path))
    assert handshake(pki.serving_context(credentials), client).getpeercert(binary_form=True) is None


def test_a_certificate_of_another_authority_fails_the_handshake(tmp_path):
    now = datetime.now(UTC)
    credentials, foreign = pki.ensure(tmp_path / "a", now=now), pki.ensure(tmp_path / "b", now=now)
    client = ssl.create_default_context(cafile=str(credentials.ca_path))
    client.load_cert_chain(foreign.directory / "admin.crt", foreign.directory / "admin.key")
    with pytest.raises(ssl.SSLError):
        handshake(pki.serving_context(credentials), client)


# ── claims about weir.apiserver.auth.pki: embedded, private, and nobody else's entries are touched ──


HERE = document(Access("https://127.0.0.1:6443", b"CA", b"CERT", b"KEY"))


def test_certificates_are_embedded():
    user = HERE["users"][0]["user"]
    assert base64.b64decode(user["client-key-data"]) == b"KEY"


def test_the_file_is_private(tmp_path):
    write(tmp_path / "config", HERE)
    assert stat.S_IMODE((tmp_path / "config").stat().st_mode) == 0o600


def test_an_existing_file_becomes_private_too(tmp_path):
    (tmp_path / "config").write_text("kind: Config\n")
    (tmp_path / "config").chmod(0o644)
    write(tmp_path / "config", HERE)
    assert stat.S_IMODE((tmp_path / "config").stat().st_mode) == 0o600


def test_other_clusters_stay_and_the_same_name_is_replaced():
    other = document(Access("https://other", token="t"), "other", "them")
    stale = document(Access("https://old", token="t"))
    merged = merge(merge(other, stale), HERE)
    assert {c["name"]: c["cluster"]["server"] for c in merged["clusters"]} == {
        "other": "https://other",
        "weir": "https://127.0.0.1:6443",
    }


def test_the_current_context_can_be_left_alone(tmp_path):
    path = tmp_path / "config"
    write(path, document(Access("https://other"), "other", "them"))
    write(path, HERE, take_current=False)
    assert yaml.safe_load(path.read_text())["current-context"] == "other"


def test_a_file_that_is_no_kubeconfig_is_not_overwritten(tmp_path):
    path = tmp_path / "config"
    path.write_text("just: [broken")
    with pytest.raises(KubeconfigError, match="not overwritten"):
        write(path, HERE)
    assert path.read_text() == "just: [broken"
