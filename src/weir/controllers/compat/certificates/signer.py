"""Signs approved CertificateSigningRequests of the four built-in signers with the cluster's CA.

Spec: upstream's certificatesigningrequest-signing-controller. A request the signer rejects gets the condition Failed.
Without a CA (`--cluster-signing-cert-file`, `--cluster-signing-key-file`) nothing is signed.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from weir.certificates import KeyPair
from weir.controllers.compat.certificates import (
    RequestKey,
    has,
    is_approved,
    is_issued,
    parsed,
    with_condition,
)
from weir.controllers.compat.certificates.signers import DURATION, SIGNERS, problem_with, signed
from weir.controllers.runtime.actions import Action, Document, Patch, Retry
from weir.controllers.runtime.controller import Controller
from weir.controllers.runtime.listers import Listers
from weir.gates import Gates
from weir.objects.kind import Kind
from weir.objects.kinds import CERTIFICATE_SIGNING_REQUESTS
from weir.objects.times import format_time


def authority_of(certificate: Path, key: Path) -> Callable[[], KeyPair]:
    """Return what reads the authority from its files, each time: it may be renewed."""
    return lambda: KeyPair(certificate.read_bytes(), key.read_bytes())


class CertificateSigner(Controller):
    """The controller that signs certificates."""

    name = "certificatesigningrequest-signing-controller"
    kinds: Sequence[Kind] = (CERTIFICATE_SIGNING_REQUESTS,)

    def __init__(
        self, gates: Gates, authority: Callable[[], KeyPair] | None = None, longest: timedelta = DURATION
    ) -> None:
        self._authority, self._longest = authority, longest

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[RequestKey]:
        """Yield requests to sign."""
        if self._authority is not None and new is not None and _is_to_sign(new):
            yield RequestKey(new["metadata"]["name"])

    def reconcile(self, key: RequestKey, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield the certificate, or why there is none."""
        request = listers.get(CERTIFICATE_SIGNING_REQUESTS, key.name)
        if self._authority is None or request is None or not _is_to_sign(request):
            return
        spec, read = request["spec"], parsed(request)
        if read is None:
            return
        problem = problem_with(read, spec.get("usages") or (), spec["signerName"])
        if problem:
            condition = {
                "type": "Failed",
                "status": "True",
                "reason": "SignerValidationFailure",
                "message": problem,
                "lastUpdateTime": format_time(now),
            }
            yield Patch(
                CERTIFICATE_SIGNING_REQUESTS,
                key.name,
                "",
                with_condition(request, condition),
                subresource="status",
                held=True,
            )
            return
        try:
            certificate = signed(self._authority(), read, spec, now, self._longest)
        except (OSError, ValueError) as error:
            yield Retry(f"error auto signing csr: {error}")
            return
        version = {"resourceVersion": request["metadata"]["resourceVersion"]}
        patch = {
            "metadata": version,
            "status": {"certificate": base64.b64encode(certificate).decode()},
        }
        yield Patch(CERTIFICATE_SIGNING_REQUESTS, key.name, "", patch, subresource="status", held=True)


def _is_to_sign(request: Document) -> bool:
    spec = request.get("spec") or {}
    undone = is_approved(request) and not has(request, "Failed") and not is_issued(request)
    return undone and spec.get("signerName") in SIGNERS
