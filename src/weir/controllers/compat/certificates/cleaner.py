"""Deletes CertificateSigningRequests and PodCertificateRequests that are expired, decided long ago, or never decided.

Spec: upstream's cleaners, which run once an hour (CertificateSigningRequests) and every five minutes
(PodCertificateRequests). Here each request is deleted at its own deadline.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from weir.controllers.compat.certificates import RequestKey, conditions_of, is_issued
from weir.controllers.compat.certificates.signers import expires
from weir.controllers.runtime.actions import Action, Delete, Document, WakeAt
from weir.controllers.runtime.controller import Controller
from weir.controllers.runtime.listers import Listers
from weir.objects.kind import Kind
from weir.objects.kinds import CERTIFICATE_SIGNING_REQUESTS, POD_CERTIFICATE_REQUESTS

DECIDED: Final = timedelta(hours=1)
PENDING: Final = timedelta(hours=24)
POD_REQUEST: Final = timedelta(minutes=15)


class CertificateCleaner(Controller):
    """The controller that deletes old CertificateSigningRequests."""

    name = "certificatesigningrequest-cleaner-controller"
    kinds: Sequence[Kind] = (CERTIFICATE_SIGNING_REQUESTS,)

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[RequestKey]:
        """Yield every request."""
        if new is not None:
            yield RequestKey(new["metadata"]["name"])

    def reconcile(self, key: RequestKey, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield the deletion, or when it is due."""
        request = listers.get(CERTIFICATE_SIGNING_REQUESTS, key.name)
        due = None if request is None else due_at(request)
        if request is None or due is None:
            return
        if now > due:
            yield Delete(CERTIFICATE_SIGNING_REQUESTS, key.name, uid=request["metadata"]["uid"])
        else:
            yield WakeAt(key, due + timedelta(seconds=1))


def due_at(request: Document) -> datetime | None:
    """Return after which time a request is not needed any more, None while it is."""
    conditions, found = conditions_of(request), []
    if not conditions:
        found.append(datetime.fromisoformat(request["metadata"]["creationTimestamp"]) + PENDING)
    for one in conditions:
        if not one.get("lastUpdateTime"):
            continue
        updated = datetime.fromisoformat(one["lastUpdateTime"])
        if one.get("type") in ("Denied", "Failed"):
            found.append(updated + DECIDED)
        elif one.get("type") == "Approved":
            found.append(updated + (DECIDED if is_issued(request) else PENDING))
            end = expires(base64.b64decode((request.get("status") or {}).get("certificate") or ""))
            found += [end] if end is not None else []
    return min(found, default=None)


class PodRequestKey(msgspec.Struct, frozen=True):
    """One PodCertificateRequest."""

    namespace: str
    name: str


class PodCertificateCleaner(Controller):
    """The controller that deletes old PodCertificateRequests."""

    name = "podcertificaterequest-cleaner-controller"
    kinds: Sequence[Kind] = (POD_CERTIFICATE_REQUESTS,)

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[PodRequestKey]:
        """Yield new requests."""
        if new is not None and old is None:
            yield PodRequestKey(new["metadata"]["namespace"], new["metadata"]["name"])

    def reconcile(self, key: PodRequestKey, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield the deletion, or when it is due."""
        request = listers.get(POD_CERTIFICATE_REQUESTS, key.name, key.namespace)
        if request is None:
            return
        due = datetime.fromisoformat(request["metadata"]["creationTimestamp"]) + POD_REQUEST
        if now < due:
            yield WakeAt(key, due)
        else:
            yield Delete(POD_CERTIFICATE_REQUESTS, key.name, key.namespace, request["metadata"]["uid"])
