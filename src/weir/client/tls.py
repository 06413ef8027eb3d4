"""TLS client contexts: trusted CAs and the client certificate.

Spec: RFC 5280; verification follows Go's crypto/tls, because clusters are built for it.
"""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from weir.client.kubeconfig import Access, Identity
from weir.errors import WeirError


def trusting(authority: bytes) -> ssl.SSLContext:
    """Return a client's side of TLS that trusts *authority* (PEM; empty: what the machine trusts), as Go's does.

    Chain, dates and name are verified. From 3.13 on Python also demands what RFC 5280 asks of those who issue
    certificates, such as an authority key identifier: kubeadm and many others leave it out and Go never asks for it,
    so with that flag existing clusters could not be reached. Raises ssl.SSLError and ValueError.
    """
    context = ssl.create_default_context(cadata=authority.decode("ascii") if authority else None)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def tls_context(access: Access, identity: Identity) -> ssl.SSLContext:
    """Return the TLS client context with trusted CAs and the client certificate."""
    try:
        context = trusting(access.authority)
        if access.insecure_skip_tls_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if identity.certificate is not None:
            # ssl reads certificates from files only
            with tempfile.TemporaryDirectory(prefix="weir-") as directory:  # mode 0700
                certificate, key = Path(directory) / "cert.pem", Path(directory) / "key.pem"
                certificate.write_bytes(identity.certificate[0])
                key.write_bytes(identity.certificate[1])
                context.load_cert_chain(certificate, key)
    except (ssl.SSLError, ValueError) as error:
        raise WeirError(f"the kubeconfig's certificates cannot be used: {error}") from None
    return context
