"""Claims about weir.apiserver.file_changes: what an operator replaces is used without a restart."""

import asyncio
import base64
import ssl
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from cryptography import x509

from weir.apiserver import file_changes
from weir.apiserver.auth import pki
from weir.apiserver.build import build
from weir.apiserver.file_changes import FileChanges
from weir.apiserver.options import Options, open_store
from weir.apiserver.run import serve
from weir.apiserver.transport.http import Request
from weir.clock import RealClock
from weir.errors import Unauthorized

JANE = Request("GET", "/api/v1/pods", headers={b"authorization": b"Bearer s3cret"})


@asynccontextmanager
async def started(tmp_path):
    clock = RealClock()
    (tmp_path / "tokens").write_text("s3cret,jane,7\n")
    options = Options(
        tmp_path,
        store="memory",
        secure_port=0,
        kubeconfig=tmp_path / "config",
        token_file=tmp_path / "tokens",
    )
    server = await build(options, await open_store(options, clock), clock)
    await serve(server, clock)
    yield server
    await server.stop()


@pytest.fixture
async def running(tmp_path):
    async with started(tmp_path) as server:
        yield server


async def shown(running) -> x509.Certificate:
    """Return the certificate that a connection begun now is shown."""
    context = ssl.create_default_context(cadata=running.credentials.ca_pem.decode())
    context.check_hostname, context.verify_mode = (
        False,
        ssl.CERT_NONE,
    )  # the tests' time is ahead of the machine's
    _, writer = await asyncio.open_connection(
        "127.0.0.1", running.port, ssl=context, server_hostname="localhost"
    )
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return x509.load_der_x509_certificate(der)


def test_a_change_is_told_once_and_an_absent_file_is_waited_for(tmp_path):
    path, told = tmp_path / "file", []
    path.write_text("a")
    files = FileChanges()
    files.follow([path], lambda: told.append(path.read_text()))
    files.look()
    assert told == []
    path.write_text("another")
    files.look()
    files.look()
    assert told == ["another"]
    path.unlink()
    files.look()
    path.write_text("again")
    files.look()
    assert told == ["another", "again"]


def test_what_cannot_be_used_is_logged_and_tried_again_at_the_next_change(tmp_path, caplog):
    path, told = tmp_path / "file", []
    path.write_text("a")

    def read():
        if path.read_text() == "bad":
            raise ValueError("line 1: bad")
        told.append(path.read_text())

    files = FileChanges()
    files.follow([path], read)
    path.write_text("bad")
    files.look()
    assert not told and "what was read before stays: line 1: bad" in caplog.text
    path.write_text("good")
    files.look()
    assert told == ["good"]


async def test_a_running_server_looks_by_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(file_changes, "LOOK_SECONDS", 0.01)
    async with started(tmp_path) as running:
        authenticator = running.server._security.authenticator
        assert authenticator.authenticate(JANE).name == "jane"
        (tmp_path / "tokens").write_text("another,joe,8\n")
        async with asyncio.timeout(60):
            with pytest.raises(Unauthorized):
                while authenticator.authenticate(JANE):
                    await asyncio.sleep(0.01)


async def test_tokens_are_read_again(running, tmp_path, caplog):
    authenticator = running.server._security.authenticator
    assert authenticator.authenticate(JANE).name == "jane"
    (tmp_path / "tokens").write_text("another,joe,8\n")
    running.files.look()
    with pytest.raises(Unauthorized):
        authenticator.authenticate(JANE)
    (tmp_path / "tokens").write_text("only-one-field\n")
    running.files.look()
    assert "token file line 1" in caplog.text
    (tmp_path / "tokens").write_text("s3cret,jane2,7\n")
    running.files.look()
    assert authenticator.authenticate(JANE).name == "jane2"


async def test_certificates_are_made_anew_before_they_end_and_shown_without_a_restart(running):
    before, admin = await shown(running), running.admin_certificate
    running.renew(datetime.now(UTC))
    assert (await shown(running)).serial_number == before.serial_number
    soon = before.not_valid_after_utc - timedelta(days=29)
    running.renew(soon)
    after = await shown(running)
    assert after.serial_number != before.serial_number
    assert after.not_valid_after_utc > soon + timedelta(days=300)
    assert running.admin_certificate != admin
    user = yaml.safe_load(running.options.kubeconfig.read_text())["users"][0]["user"]
    pem = base64.b64decode(user["client-certificate-data"]).decode()
    assert ssl.PEM_cert_to_DER_cert(pem) == running.admin_certificate


async def test_a_certificate_that_was_replaced_is_shown_and_half_of_one_is_not(running, tmp_path, caplog):
    own, other = running.credentials, pki.ensure(tmp_path / "other", now=datetime.now(UTC))
    before = await shown(running)
    other.server_cert_path.replace(own.server_cert_path)
    running.files.look()
    assert (await shown(running)).serial_number == before.serial_number
    assert "what was read before stays" in caplog.text
    issued = pki._issue(own.authority, datetime.now(UTC), names=pki.LOOPBACK_NAMES)
    pki._write_pair(own.directory, "apiserver", issued)
    running.files.look()
    expected = x509.load_pem_x509_certificate(issued.certificate)
    assert (await shown(running)).serial_number == expected.serial_number
