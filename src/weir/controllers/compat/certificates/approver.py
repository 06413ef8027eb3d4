"""Approves kubelet client CertificateSigningRequests whose requester passes a SubjectAccessReview.

Spec: upstream's certificatesigningrequest-approving-controller. A request for the requester's own node name needs
`create certificatesigningrequests/selfnodeclient`, one for another node `…/nodeclient`. A denied review is retried
with backoff, since the right may be granted later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from weir.controllers.compat.certificates import RequestKey, has, is_issued, parsed, with_condition
from weir.controllers.compat.certificates.signers import is_kubelet_client
from weir.controllers.runtime.actions import Action, ActionContext, Document, Retry, Steps
from weir.controllers.runtime.controller import Controller
from weir.controllers.runtime.listers import Listers
from weir.objects.kind import Kind
from weir.objects.kinds import CERTIFICATE_SIGNING_REQUESTS, SUBJECT_ACCESS_REVIEWS
from weir.values.quoting import quote

SELF: Final = ("selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview.")
NODE: Final = ("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.")


class CertificateApprover(Controller):
    """The controller that approves kubelets' client certificates."""

    name = "certificatesigningrequest-approving-controller"
    kinds: Sequence[Kind] = (CERTIFICATE_SIGNING_REQUESTS,)

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[RequestKey]:
        """Yield requests that are neither approved nor denied."""
        if new is not None and _is_open(new):
            yield RequestKey(new["metadata"]["name"])

    def reconcile(self, key: RequestKey, listers: Listers, now: datetime) -> Iterator[Action]:
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
