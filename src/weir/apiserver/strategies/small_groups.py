"""Strategies of apps, batch, certificates.k8s.io, networking.k8s.io and discovery.k8s.io."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from weir.apiserver.strategies.core.pod_warnings import name_warnings, pod_warnings
from weir.apiserver.strategies.strategy import Context, Strategy, keep
from weir.fields.addresses import address_warnings, network_warnings
from weir.fields.field import FieldError
from weir.objects.defaults.apps import TEMPLATE_GENERATION
from weir.objects.kind import Document, Kind
from weir.validate.certificates.pod_certificate_request import validate_issuance
from weir.validate.networking import CLASS_ANNOTATION, blocks
from weir.values.integer import IntegerError, parse_int64

# ── strategies of Ingress, NetworkPolicy, ServiceCIDR and EndpointSlice ──


class EndpointSliceStrategy(Strategy):
    """EndpointSlices count changed labels too, because labels say which service they belong to."""

    def counts(self, new: Document, old: Document) -> bool:
        """Return whether the addresses or the labels changed."""
        return super().counts(new, old) or (new["metadata"].get("labels") or {}) != (
            old["metadata"].get("labels") or {}
        )


class IngressStrategy(Strategy):
    """A new Ingress has no address yet."""

    def prepare_create(self, kind: Kind, new: Document, context: Context) -> None:
        super().prepare_create(kind, new, context)
        new["status"] = {"loadBalancer": {}}

    def warnings(self, kind: Kind, new: Document, old: Document | None = None) -> Iterator[str]:
        annotations = new["metadata"].get("annotations") or {}
        named = (new.get("spec") or {}).get("ingressClassName") is not None
        if old is None and CLASS_ANNOTATION in annotations and not named:
            yield f"annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"
        status = new.get("status") or {}
        if old is not None and status != old.get("status"):
            for i, entry in enumerate((status.get("loadBalancer") or {}).get("ingress") or ()):
                if entry.get("ip"):
                    yield from address_warnings(entry["ip"], f"status.loadBalancer.ingress[{i}]")


class NetworkPolicyStrategy(Strategy):
    """What the client should know about the networks of a policy."""

    def warnings(self, kind: Kind, new: Document, old: Document | None = None) -> Iterator[str]:
        for at, block in blocks(new.get("spec") or {}):
            yield from network_warnings(block.get("cidr") or "", f"{at}.cidr")
            for i, text in enumerate(block.get("except") or ()):
                yield from network_warnings(text, f"{at}.except[{i}]")


class ServiceCIDRStrategy(Strategy):
    """The status of a new range is the controllers' to write."""

    starts_without_status = True


# ── strategies of workloads: what their generation counts, and warnings about their templates ──
# Spec: apiserver.md 4 (generation), 5.2 (Deployment, DaemonSet).


class TemplateStrategy(Strategy):
    """Whatever makes pods from a template warns as the pods would."""

    path: tuple[str, ...] = ("spec", "template")
    names_pods = True  #: whether pods are called after the object

    def warnings(self, kind: Kind, new: Document, old: Document | None = None) -> Iterable[str]:
        """Return what is odd about the template of a new object, or of one whose change counts."""
        if old is None and self.names_pods:
            yield from name_warnings(new["metadata"].get("name") or "", "Pod names and hostnames")
        if old is None or new["metadata"].get("generation") != old["metadata"].get("generation"):
            template: Document = new
            for name in self.path:
                template = template.get(name) or {}
            at = ".".join(self.path) + "."
            yield from pod_warnings(template.get("spec") or {}, template.get("metadata") or {}, at)


class DeploymentStrategy(TemplateStrategy):
    """Deployments also count changed annotations, because the controller copies them on."""

    def counts(self, new: Document, old: Document) -> bool:
        """Return whether spec or annotations changed."""
        return super().counts(new, old) or (new["metadata"].get("annotations") or {}) != (
            old["metadata"].get("annotations") or {}
        )


class DaemonSetStrategy(TemplateStrategy):
    """DaemonSets number their templates in an annotation."""

    names_pods = False

    def prepare_create(self, kind: Kind, new: Document, context: Context) -> None:
        """The first template is number one."""
        super().prepare_create(kind, new, context)
        annotations = new["metadata"].setdefault("annotations", {})
        given = annotations.get(TEMPLATE_GENERATION, "")
        annotations[TEMPLATE_GENERATION] = given if _generation(given) else "1"

    def prepare_update(self, kind: Kind, new: Document, old: Document, context: Context) -> None:
        """A changed template gets the next number; an annotation left out is put back."""
        super().prepare_update(kind, new, old, context)
        before = (old["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, "1")
        number = _generation(before) or 1
        if (new.get("spec") or {}).get("template") != (old.get("spec") or {}).get("template"):
            number += 1
        new["metadata"].setdefault("annotations", {})[TEMPLATE_GENERATION] = str(number)


class StatefulSetStrategy(TemplateStrategy):
    """StatefulSets need a name that is a label, so there is nothing to warn of."""

    names_pods = False


class PodTemplateStrategy(TemplateStrategy):
    """A template by itself."""

    path = ("template",)
    names_pods = False


def _generation(text: str) -> int:
    """Return the number of a template that an annotation holds, 0 when it holds none."""
    try:
        return max(parse_int64(text), 0)
    except IntegerError:
        return 0


# ── strategies of Job and CronJob: generated labels and selectors ──
# Spec: Job selectors as `batch/v1` documents them.


class JobStrategy(TemplateStrategy):
    """Jobs select their pods by the job's own uid unless `manualSelector` is set."""

    def prepare_create(self, kind: Kind, new: Document, context: Context) -> None:
        """Generate the selector and the labels that satisfy it."""
        super().prepare_create(kind, new, context)
        spec = new["spec"]
        if spec.get("manualSelector"):
            return
        uid, name = new["metadata"]["uid"], new["metadata"].get("name", "")
        labels = spec.setdefault("template", {}).setdefault("metadata", {}).setdefault("labels", {})
        labels["batch.kubernetes.io/controller-uid"] = uid
        labels["batch.kubernetes.io/job-name"] = name
        labels["controller-uid"] = uid
        labels["job-name"] = name
        selector = spec.setdefault("selector", {}).setdefault("matchLabels", {})
        selector["batch.kubernetes.io/controller-uid"] = uid


class CronJobStrategy(TemplateStrategy):
    """The template of the jobs of a schedule."""

    path = ("spec", "jobTemplate", "spec", "template")


# ── strategies of certificates.k8s.io: requester fields, and the status parts of each endpoint ──
# Spec: upstream's strategies of certificates.k8s.io. A request's spec is immutable; `/approval` writes conditions,
# `/status` the certificate and all conditions but Approved and Denied. Condition times are set here.


class CertificateSigningRequestStrategy(Strategy):
    """Requests for a certificate, approved by one and signed by another."""

    starts_without_status = True

    def set_requester(self, new: Document, user: dict[str, Any]) -> None:
        """Set the requester's fields, overriding the client's."""
        spec = new.setdefault("spec", {})
        for name in ("username", "uid", "groups", "extra"):
            spec.pop(name, None)
        spec.update(user)

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


class StatusApartStrategy(Strategy):
    """Kinds that begin without a status, whose status takes nothing from metadata."""

    starts_without_status = status_keeps_metadata = True


class PodCertificateRequestStrategy(StatusApartStrategy):
    """Requests of kubelets: a status is written once, and held against the server's clock."""

    def problems(
        self, kind: Kind, new: Document, old: Document | None, context: Context, *, dry_run: bool = False
    ) -> Iterable[FieldError]:
        if old is None or new.get("status") == old.get("status"):
            return ()
        return [*validate_issuance(new, old, datetime.fromisoformat(context.now))]


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
