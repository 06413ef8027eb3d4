"""Whom does the client trust? Clusters whose certificates are as Go accepts them, and nobody else."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509

from tests.contract.certificates import certificates
from tests.unit.client.test_http import serving
from weir.client.api import Unreachable
from weir.client.http import HttpTransport
from weir.client.kubeconfig import Access
from weir.client.tls import trusting

STRICT = ssl.VERIFY_X509_STRICT
default_context = ssl.create_default_context


def as_python_3_13(*args, **kwargs):
    context = default_context(*args, **kwargs)
    context.verify_flags |= STRICT
    return context


@pytest.fixture(autouse=True)
def strict_defaults(monkeypatch):
    """Whatever Python runs the tests, the defaults are those of 3.13 and later."""
    monkeypatch.setattr(ssl, "create_default_context", as_python_3_13)


async def answer(request: web.Request) -> web.StreamResponse:
    return web.json_response({})


def server_side(pem):
    context = default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pem["both"], pem["both-key"])
    return context


async def test_a_certificate_without_authority_key_identifier_is_good_enough(tmp_path: Path):
    pem = certificates(tmp_path)
    shown = x509.load_pem_x509_certificate(pem["both"].read_bytes())
    with pytest.raises(x509.ExtensionNotFound):
        shown.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier)
    async with serving(answer, server_side(pem)) as url:
        transport = HttpTransport(Access(url.replace("http:", "https:"), authority=pem["ca"].read_bytes()))
        assert (await transport.request("GET", "/api")).code == 200
        await transport.close()


async def test_a_foreign_authority_is_still_refused(tmp_path: Path):
    (tmp_path / "other").mkdir()
    pem, other = certificates(tmp_path), certificates(tmp_path / "other")
    async with serving(answer, server_side(pem)) as url:
        transport = HttpTransport(Access(url.replace("http:", "https:"), authority=other["ca"].read_bytes()))
        with pytest.raises(Unreachable, match="certificate"):
            await transport.request("GET", "/api")
        await transport.close()


def test_chain_and_name_are_verified():
    context = trusting(b"")
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert not context.verify_flags & STRICT
