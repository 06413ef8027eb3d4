"""Controllers of certificates.k8s.io: approval, signing and cleaning of requests, and the API server's trust bundle.

Spec: upstream's certificatesigningrequest-approving-controller, certificatesigningrequest-signing-controller and
kube-apiserver-serving-clustertrustbundle-publisher-controller.

A kubelet's request for its own node name needs `create certificatesigningrequests/selfnodeclient`, one for another node
`…/nodeclient`; a denied review is retried with backoff, since the right may be granted later. A request that the signer
rejects gets the condition Failed; without a CA (`--cluster-signing-cert-file`, `--cluster-signing-key-file`) nothing is
signed. Upstream's cleaners run once an hour (CertificateSigningRequests) and every five minutes
(PodCertificateRequests); here each request is deleted at its own deadline. There is one bundle of the signer
`kubernetes.io/kube-apiserver-serving`, named by its content; other bundles of this signer are deleted.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from weir.certificates import KeyPair
from weir.client.cache import ObjectKey
from weir.controllers.cluster.service_account import BUNDLE, SOURCE
from weir.controllers.compat.certificate_signers import (
    DURATION,
    SIGNERS,
    expires,
    is_kubelet_client,
    problem_with,
    signed,
)
from weir.controllers.runtime.controller import (
    Action,
    ActionContext,
    Controller,
    Create,
    Delete,
    Document,
    Patch,
    Retry,
    Steps,
    WakeAt,
)
from weir.controllers.runtime.expectations import key_of
from weir.controllers.runtime.listers import Listers
from weir.gates import Gates
from weir.objects.kind import Kind
from weir.objects.kinds import (
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_TRUST_BUNDLES,
    CONFIG_MAPS,
    POD_CERTIFICATE_REQUESTS,
    SUBJECT_ACCESS_REVIEWS,
)
from weir.objects.times import format_time
from weir.validate.certificates.pkcs10 import RequestError, SigningRequest, read_request
from weir.values.quoting import quote


def conditions_of(request: Document) -> list[Document]:
    """Return the conditions of a request."""
    return list((request.get("status") or {}).get("conditions") or ())


def has(request: Document, type: str) -> bool:
    """Return whether a request has a condition of *type*."""
    return any(one.get("type") == type for one in conditions_of(request))


def is_issued(request: Document) -> bool:
    """Return whether the certificate is there."""
    return bool((request.get("status") or {}).get("certificate"))


def is_approved(request: Document) -> bool:
    """Return whether a request is approved, and not denied."""
    return has(request, "Approved") and not has(request, "Denied")


def parsed(request: Document) -> SigningRequest | None:
    """Return the parsed certificate request; None when it cannot be parsed."""
    try:
        return read_request(base64.b64decode((request.get("spec") or {}).get("request") or ""))
    except (RequestError, ValueError):
        return None


def with_condition(request: Document, condition: Document) -> dict[str, Any]:
    """Return the patch that adds *condition* to the request as it was read."""
    return {
        "metadata": {"resourceVersion": request["metadata"]["resourceVersion"]},
        "status": {"conditions": [*conditions_of(request), condition]},
    }


SELF: Final = ("selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview.")
NODE: Final = ("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.")


class CertificateApprover(Controller):
    """The controller that approves kubelets' client certificates."""

    name = "certificatesigningrequest-approving-controller"
    kinds: Sequence[Kind] = (CERTIFICATE_SIGNING_REQUESTS,)

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[ObjectKey]:
        """Yield requests that are neither approved nor denied."""
        if new is not None and _is_open(new):
            yield key_of(new)

    def reconcile(self, key: ObjectKey, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield the review of a kubelet's request."""
        request = listers.get(CERTIFICATE_SIGNING_REQUESTS, key.name)
        if request is None or not _is_open(request):
            return
        spec, read = request["spec"], parsed(request)
        if read is None or not is_kubelet_client(read, spec.get("usages") or (), spec["signerName"]):
            return
        own = spec.get("username") == read.common_name
        yield ApproveAfterReview(request, (SELF, NODE) if own else (NODE,))

    def carried_out(self, action: Steps, outcome: object, now: datetime) -> Iterator[Action]:
        """Yield that a request which may not be approved is looked at again."""
        if isinstance(action, ApproveAfterReview) and not outcome:
            tried = " ".join(subresource for subresource, _ in action.permissions)
            name = quote(action.request["metadata"]["name"])
            yield Retry(f"recognized csr {name} as [{tried}] but subject access review was not approved")


def _is_open(request: Document) -> bool:
    return not is_issued(request) and not has(request, "Approved") and not has(request, "Denied")


@dataclass(frozen=True)
class ApproveAfterReview(Steps):
    """Ask whether the requester may have it, by one permission after the other; approve it if so."""

    request: Document
    permissions: tuple[tuple[str, str], ...]  #: the subresource of each, and what the condition then says

    async def carry_out(self, context: ActionContext) -> bool:
        spec = self.request["spec"]
        who = {
            "user": spec.get("username") or "",
            **{name: spec[name] for name in ("uid", "groups", "extra") if spec.get(name)},
        }
        for subresource, message in self.permissions:
            attributes = {
                "group": CERTIFICATE_SIGNING_REQUESTS.group,
                "resource": CERTIFICATE_SIGNING_REQUESTS.plural,
                "verb": "create",
                "subresource": subresource,
                "version": "*",
            }
            review = {"spec": {**who, "resourceAttributes": attributes}}
            answer = await context.client.create(SUBJECT_ACCESS_REVIEWS, review)
            if (answer.get("status") or {}).get("allowed"):
                condition = {
                    "type": "Approved",
                    "status": "True",
                    "reason": "AutoApproved",
                    "message": message,
                }
                patch = with_condition(self.request, condition)
                await context.client.patch(
                    CERTIFICATE_SIGNING_REQUESTS,
                    self.request["metadata"]["name"],
                    patch,
                    subresource="approval",
                )
                return True
        return False


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

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[ObjectKey]:
        """Yield requests to sign."""
        if self._authority is not None and new is not None and _is_to_sign(new):
            yield key_of(new)

    def reconcile(self, key: ObjectKey, listers: Listers, now: datetime) -> Iterator[Action]:
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


DECIDED: Final = timedelta(hours=1)
PENDING: Final = timedelta(hours=24)
POD_REQUEST: Final = timedelta(minutes=15)


class CertificateCleaner(Controller):
    """The controller that deletes old CertificateSigningRequests."""

    name = "certificatesigningrequest-cleaner-controller"
    kinds: Sequence[Kind] = (CERTIFICATE_SIGNING_REQUESTS,)

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[ObjectKey]:
        """Yield every request."""
        if new is not None:
            yield key_of(new)

    def reconcile(self, key: ObjectKey, listers: Listers, now: datetime) -> Iterator[Action]:
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


class PodCertificateCleaner(Controller):
    """The controller that deletes old PodCertificateRequests."""

    name = "podcertificaterequest-cleaner-controller"
    kinds: Sequence[Kind] = (POD_CERTIFICATE_REQUESTS,)

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[ObjectKey]:
        """Yield new requests."""
        if new is not None and old is None:
            yield key_of(new)

    def reconcile(self, key: ObjectKey, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield the deletion, or when it is due."""
        request = listers.get(POD_CERTIFICATE_REQUESTS, key.name, key.namespace)
        if request is None:
            return
        due = datetime.fromisoformat(request["metadata"]["creationTimestamp"]) + POD_REQUEST
        if now < due:
            yield WakeAt(key, due)
        else:
            yield Delete(POD_CERTIFICATE_REQUESTS, key.name, key.namespace, request["metadata"]["uid"])


SIGNER: Final = "kubernetes.io/kube-apiserver-serving"


class AuthorityKey(msgspec.Struct, frozen=True):
    """The authorities of the API server."""


class TrustBundlePublisher(Controller):
    """The controller that publishes the API server's authorities."""

    name = "kube-apiserver-serving-clustertrustbundle-publisher-controller"
    kinds: Sequence[Kind] = (CONFIG_MAPS, CLUSTER_TRUST_BUNDLES)

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[AuthorityKey]:
        """Yield that the CA or a bundle of this signer changed."""
        found = new or old
        if kind is CLUSTER_TRUST_BUNDLES:
            if (found.get("spec") or {}).get("signerName") == SIGNER:
                yield AuthorityKey()
        elif (found["metadata"]["namespace"], found["metadata"]["name"]) == (SOURCE, BUNDLE):
            yield AuthorityKey()

    def reconcile(self, key: AuthorityKey, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield what makes the one bundle, and the end of all others."""
        source = listers.get(CONFIG_MAPS, BUNDLE, SOURCE)
        text = ((source or {}).get("data") or {}).get("ca.crt") or ""
        if not text:
            return
        name = bundle_name(text)
        there = listers.get(CLUSTER_TRUST_BUNDLES, name)
        if there is None:
            spec = {"signerName": SIGNER, "trustBundle": text}
            yield Create(CLUSTER_TRUST_BUNDLES, {"metadata": {"name": name}, "spec": spec})
        elif there["spec"].get("trustBundle") != text:
            yield Patch(CLUSTER_TRUST_BUNDLES, name, "", {"spec": {"trustBundle": text}})
        for one in listers.all(CLUSTER_TRUST_BUNDLES):
            other = one["metadata"]["name"]
            if one["spec"].get("signerName") == SIGNER and other != name:
                yield Delete(CLUSTER_TRUST_BUNDLES, other)


def bundle_name(text: str) -> str:
    """Return what the bundle of these authorities is called.

    >>> bundle_name("x")
    'kubernetes.io:kube-apiserver-serving:2d711642b726b04401627ca9'
    """
    return f"{SIGNER.replace('/', ':')}:{hashlib.sha256(text.encode()).hexdigest()[:24]}"
