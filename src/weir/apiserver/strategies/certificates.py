"""Strategies of certificates.k8s.io: requester fields, and the status parts of each endpoint.

Spec: upstream's strategies of certificates.k8s.io. A request's spec is immutable; `/approval` writes conditions,
`/status` the certificate and all conditions but Approved and Denied. Condition times are set here.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from weir.apiserver.strategies.strategy import Context, Document, Strategy, keep, status_keeps_metadata
from weir.objects.kind import Kind
from weir.validate.certificates.pod_certificate_request import validate_issuance
from weir.validate.field import FieldError


class CertificateSigningRequestStrategy(Strategy):
    """Requests for a certificate, approved by one and signed by another."""

    def set_requester(self, new: Document, user: dict[str, Any]) -> None:
        """Set the requester's fields, overriding the client's."""
        spec = new.setdefault("spec", {})
        for name in ("username", "uid", "groups", "extra"):
            spec.pop(name, None)
        spec.update(user)

    def prepare_create(self, kind: Kind, new: Document, context: Context) -> None:
        super().prepare_create(kind, new, context)
        new["status"] = {}

    def restrict(self, kind: Kind, new: Document, old: Document, subresource: str) -> None:
        keep(new, old, "spec")
        if subresource == "":
            keep(new, old, "status")
        elif subresource == "approval":
            conditions = (new.get("status") or {}).get("conditions")
            new["status"] = {**(old.get("status") or {})}
            new["status"].pop("conditions", None)
            if conditions:
                new["status"]["conditions"] = conditions
        else:
            for approval in ("Approved", "Denied"):
                _keep_conditions(new, old, approval)

    def prepare_update(self, kind: Kind, new: Document, old: Document, context: Context) -> None:
        super().prepare_update(kind, new, old, context)
        for condition in _conditions(new):
            if not condition.get("lastUpdateTime"):
                condition["lastUpdateTime"] = context.now
            if not condition.get("lastTransitionTime"):
                condition["lastTransitionTime"] = next(
                    (
                        before["lastTransitionTime"]
                        for before in _conditions(old)
                        if before.get("lastTransitionTime")
                        and all(before.get(name) == condition.get(name) for name in ("type", "status"))
                    ),
                    context.now,
                )


def _conditions(document: Document) -> list[Document]:
    return (document.get("status") or {}).get("conditions") or []


def _keep_conditions(new: Document, old: Document, type: str) -> None:
    """Put the old conditions of *type* in place of the new ones; added or missing ones are left to validation."""
    places = [i for i, one in enumerate(_conditions(new)) if one.get("type") == type]
    before = [one for one in _conditions(old) if one.get("type") == type]
    if len(places) == len(before):
        for i, one in zip(places, before, strict=True):
            _conditions(new)[i] = one


class PodCertificateRequestStrategy(Strategy):
    """Requests of kubelets: a status is written once, and held against the server's clock."""

    def prepare_create(self, kind: Kind, new: Document, context: Context) -> None:
        super().prepare_create(kind, new, context)
        new["status"] = {}

    def restrict(self, kind: Kind, new: Document, old: Document, subresource: str) -> None:
        super().restrict(kind, new, old, subresource)
        if subresource == "status":
            status_keeps_metadata(new, old)

    def problems(
        self, kind: Kind, new: Document, old: Document | None, context: Context, *, dry_run: bool = False
    ) -> Iterable[FieldError]:
        if old is None or new.get("status") == old.get("status"):
            return ()
        return [*validate_issuance(new, old, datetime.fromisoformat(context.now))]


class StatusApartStrategy(Strategy):
    """Kinds that begin without a status, whose status takes nothing from metadata."""

    def prepare_create(self, kind: Kind, new: Document, context: Context) -> None:
        super().prepare_create(kind, new, context)
        new["status"] = {}

    def restrict(self, kind: Kind, new: Document, old: Document, subresource: str) -> None:
        super().restrict(kind, new, old, subresource)
        if subresource == "status":
            status_keeps_metadata(new, old)


class APIServiceStrategy(StatusApartStrategy):
    """Registered groups: one that is served here is available as soon as it is made."""

    def prepare_create(self, kind: Kind, new: Document, context: Context) -> None:
        super().prepare_create(kind, new, context)
        if (new.get("spec") or {}).get("service") is None:
            new["status"] = {
                "conditions": [
                    {
                        "type": "Available",
                        "status": "True",
                        "lastTransitionTime": context.now,
                        "reason": "Local",
                        "message": "Local APIServices are always available",
                    }
                ]
            }
