"""ResourceClaim controller: creates claims from templates, and releases those of finished pods.

Spec: KEP-4381 "Resource claims of pods", dra.md 6 "ResourceClaim controller", 4.1; D-18.
Each template reference of a pod gets a claim owned by the pod, and the pod's status records its name. A pod that has
finished, or was deleted before it was scheduled, is removed from `reservedFor`; a claim that loses its last
reservation is deallocated. A claim that was never reserved is not deallocated. A deleted generated claim is created
again. A pod with only a deletionTimestamp still runs and keeps its claims. A pod missing from the informer cache may
be new, so it is read live.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from weir.client.events import ObjectReference
from weir.controllers.devices.resource_claim_steps import (
    FAILED,
    FINALIZER,
    POD_CLAIM,
    MakeClaims,
    MissingClaim,
    ReleaseClaim,
    claim_document,
    claim_made_before,
    lacks_claim,
    missing_reservations,
    needs_work,
    owning_pod,
    recorded_claims,
    requests_admin_access,
)
from weir.controllers.runtime.controller import Action, Controller, Delete, Record, Retry, Steps, WakeAt
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.metrics import ControllerMetrics
from weir.controllers.runtime.views import Pod
from weir.devices.claims import claim_names
from weir.gates import Gates
from weir.objects.kind import Document, Kind
from weir.objects.kinds import PODS, RESOURCE_CLAIMS, by_kind

TEMPLATES: Final = by_kind("resource.k8s.io/v1", "ResourceClaimTemplate")
EXTENDED: Final = "resource.kubernetes.io/extended-resource-claim"
REMEMBERED: Final = 10_000  # pods known to be gone
WORKERS: Final = 64  # each waits for the server most of the time


@dataclass(frozen=True, slots=True)
class PodKey:
    """A pod that may lack a claim, or a reservation."""

    namespace: str
    pod: str


@dataclass(frozen=True, slots=True)
class ClaimKey:
    """A claim that may have lost a consumer."""

    namespace: str
    claim: str


@dataclass(frozen=True, slots=True)
class TemplateKey:
    """A template that pods may have waited for."""

    namespace: str
    template: str


Key = PodKey | ClaimKey | TemplateKey


class ResourceClaims(Controller):
    """The ResourceClaim controller."""

    name = "resourceclaim-controller"
    event_source = "resource_claim"

    def __init__(self, gates: Gates) -> None:
        self._gates, self.workers = gates, WORKERS
        on = gates.enabled("DynamicResourceAllocation")
        self.kinds = (TEMPLATES, RESOURCE_CLAIMS, PODS) if on else ()
        self._gone: OrderedDict[str, None] = OrderedDict()
        self._releasing: set[str] = set()  # claims whose release has begun
        self.counts: Counter[tuple[str, str, str]] = Counter()  # claims by the labels of their metric

    def register_metrics(self, metrics: ControllerMetrics) -> None:
        """Let *metrics* show how many claims there are."""
        for allocated in ("false", "true"):
            for admin in ("false", "true"):
                for source in ("", "extended_resource", "resource_claim_template"):
                    labels = (allocated, admin, source)
                    metrics.claims.child(*labels).look = lambda labels=labels: self.counts[labels]

    # ── which changes matter ─────────────────────────────────────────────────────────────────────

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[Key]:
        """Yield what a change of an object makes worth looking at."""
        if kind is RESOURCE_CLAIMS:
            for claim, by in ((old, -1), (new, 1)):
                if claim is not None:
                    self.counts[_labels(claim)] += by
            if new is None:
                self._releasing.discard(old["metadata"]["uid"])
            if old is None or new is None or _matters(old, new):
                metadata = (new if new is not None else old)["metadata"]
                yield ClaimKey(metadata["namespace"], metadata["name"])
        elif kind is TEMPLATES:
            if new is not None:
                yield TemplateKey(new["metadata"]["namespace"], new["metadata"]["name"])
        else:
            yield from self._pod_changed(old, new)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> Iterator[Key]:
        pod = new if new is not None else old
        assert pod is not None
        if not pod.spec.resource_claims and pod.status.extended_resource_claim_status is None:
            return
        namespace = pod.metadata.namespace
        if new is None:
            self._remember_gone(pod.metadata.uid)
        if new is None or done(new):
            if new is None or old is None or not done(old):
                yield from (ClaimKey(namespace, name) for name in claim_names(pod))
            return
        if new.deleting:
            return
        if (
            old is None
            or old.spec.node_name != new.spec.node_name
            or old.status.resource_claim_statuses != new.status.resource_claim_statuses
        ):
            yield PodKey(namespace, new.metadata.name)

    def _remember_gone(self, uid: str) -> None:
        self._gone[uid] = None
        if len(self._gone) > REMEMBERED:
            self._gone.popitem(last=False)

    # ── what is to be done ───────────────────────────────────────────────────────────────────────

    def reconcile(self, key: Key, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield what must happen at *now*; safe to repeat."""
        if not {RESOURCE_CLAIMS, TEMPLATES} <= listers.caches.keys():
            return  # a server without these kinds
        if isinstance(key, PodKey):
            yield from self._pod(key, listers)
        elif isinstance(key, ClaimKey):
            yield from self._claim(key, listers)
            yield from _look_at(listers.pods_with_claim(key.namespace, key.claim), listers, now)
        else:
            yield from _look_at(listers.pods_with_template(key.namespace, key.template), listers, now)

    def carried_out(self, action: Steps, outcome: object, now: datetime) -> Iterator[Action]:
        """A step succeeded: forget what was waiting for it."""
        if isinstance(action, ReleaseClaim):
            self._releasing.discard(action.claim["metadata"]["uid"])
        return iter(())

    # ── pods ─────────────────────────────────────────────────────────────────────────────────────

    def _pod(self, key: PodKey, listers: Listers) -> Iterator[Action]:
        pod = listers.pod(key.namespace, key.pod)
        if pod is None or not needs_work(pod, listers):
            return
        recorded = recorded_claims(pod)
        names = {name: claim for name, claim in recorded.items() if claim is not None}
        wanted: list[MissingClaim] = []
        adopted = False
        for entry in pod.spec.resource_claims or ():
            if not lacks_claim(pod, entry.name, entry.resource_claim_template_name, recorded, listers):
                continue
            found = claim_made_before(pod, entry.name, listers)
            if found is not None:
                names[entry.name], adopted = found, True
                continue
            assert entry.resource_claim_template_name is not None
            template = listers.get(TEMPLATES, entry.resource_claim_template_name, key.namespace)
            problem = self._problem(template, entry.resource_claim_template_name)
            if problem:
                message = f"PodResourceClaim {entry.name}: {problem}"
                yield Record(ObjectReference.of_pod(pod), "Warning", FAILED, message)
                yield Retry(message)
                return
            document = claim_document(pod, entry.name, template)
            wanted.append(MissingClaim(entry.name, document, recorded.get(entry.name) or ""))
        if wanted or adopted:
            yield MakeClaims(ObjectReference.of_pod(pod), tuple(wanted), names)
        elif pod.spec.node_name:
            yield from missing_reservations(pod, listers)

    def _problem(self, template: Document | None, name: str) -> str:
        """Return why no claim can be made from the template."""
        if template is None:
            missing = f'resourceclaimtemplate.resource.k8s.io "{name}" not found'
            return f'resource claim template "{name}": {missing}'
        spec = template["spec"]
        if not self._gates.enabled("DRAAdminAccess") and requests_admin_access(spec):
            return "admin access is requested, but the feature is disabled"
        requests = ((spec.get("spec") or {}).get("devices") or {}).get("requests") or ()
        if not self._gates.enabled("DRAPrioritizedList") and any(r.get("firstAvailable") for r in requests):
            return "template includes a prioritized list of subrequests, but the feature is disabled"
        return ""

    # ── claims ───────────────────────────────────────────────────────────────────────────────────

    def _claim(self, key: ClaimKey, listers: Listers) -> Iterator[Action]:
        claim: Document | None = listers.get(RESOURCE_CLAIMS, key.claim, key.namespace)
        if claim is None:
            return
        metadata = claim["metadata"]
        reserved = (claim.get("status") or {}).get("reservedFor") or ()
        kept: list[Mapping[str, Any]] = []
        doubted: list[Mapping[str, Any]] = []
        for entry in reserved:
            verdict = self._still_uses(entry, key.namespace, listers)
            if verdict is not False:
                kept.append(entry)
            if verdict is None:
                doubted.append(entry)
        protected = FINALIZER in (metadata.get("finalizers") or ())
        half_done = protected and metadata["uid"] in self._releasing and not claim.get("status")
        going = protected and not kept and bool(metadata.get("deletionTimestamp"))
        if len(kept) < len(reserved) or doubted or half_done or going:
            self._releasing.add(metadata["uid"])  # until it is known to have gone well
            yield ReleaseClaim(claim, tuple(kept), tuple(doubted), half_done)
        if not kept and not metadata.get("deletionTimestamp"):
            owner = owning_pod(claim)
            pod = listers.pod(key.namespace, owner["name"]) if owner else None
            if owner and pod is not None and (pod.metadata.uid != owner["uid"] or done(pod)):
                yield Delete(RESOURCE_CLAIMS, key.claim, key.namespace, metadata["uid"])

    def _still_uses(self, entry: Mapping[str, Any], namespace: str, listers: Listers) -> bool | None:
        """Return whether a reservation still holds; None: the pod is unknown here."""
        if entry.get("apiGroup") or entry.get("resource") != "pods":
            return True  # of a kind that others look after
        if entry["uid"] in self._gone:
            return False
        pod = listers.pod(namespace, entry["name"])
        if pod is None:
            return None
        return pod.metadata.uid == entry["uid"] and not done(pod)


def _matters(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Return whether the change of a claim can mean work: everything but its users and its end is others' business."""
    before, after = old.get("status") or {}, new.get("status") or {}
    return (
        before.get("reservedFor") != after.get("reservedFor")
        or ("allocation" in before) != ("allocation" in after)
        or old["metadata"].get("ownerReferences") != new["metadata"].get("ownerReferences")
        or old["metadata"]["uid"] != new["metadata"]["uid"]
        or bool(new["metadata"].get("deletionTimestamp"))
    )


def done(pod: Pod) -> bool:
    """Return whether nothing of the pod runs or will ever run."""
    return pod.terminated or (pod.deleting and not pod.spec.node_name)


def _look_at(pods: list[Pod], listers: Listers, now: datetime) -> Iterator[Action]:
    """Yield the pods that have something to be done for."""
    for pod in pods:
        if needs_work(pod, listers):
            yield WakeAt(PodKey(pod.metadata.namespace, pod.metadata.name), now)


def _labels(claim: Mapping[str, Any]) -> tuple[str, str, str]:
    annotations = claim["metadata"].get("annotations") or {}
    source = ""
    if annotations.get(EXTENDED) == "true":
        source = "extended_resource"
    elif annotations.get(POD_CLAIM):
        source = "resource_claim_template"
    allocated = (claim.get("status") or {}).get("allocation") is not None
    return str(allocated).lower(), str(requests_admin_access(claim)).lower(), source
