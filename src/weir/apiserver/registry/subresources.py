"""Paths below an object that are not the object itself: binding, eviction, token.

Spec: apiserver.md 12 "Subresources", core.md 3.1 (binding errors). Exec and the other streams of a real kubelet answer
that simulated nodes do not support them.
What surprises: only binding validation comes back as 500, as upstream returns it without a Status.
Not here: what a binding makes of a pod (.binding), scale (.scale); status, ephemeralcontainers, resize and finalize,
which are updates of the object (.verbs).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from weir import errors
from weir.apiserver.admission.attributes import CREATE, Attributes
from weir.apiserver.auth.tokens import Signer, token_request
from weir.apiserver.registry import codec
from weir.apiserver.registry.binding import assign, assigned, read
from weir.apiserver.registry.container_logs import ContainerLogs, LogOptions
from weir.apiserver.registry.deletion import Deletion, success
from weir.apiserver.registry.identity import check_namespace
from weir.apiserver.registry.pod_conditions import set_condition
from weir.apiserver.registry.verbs import Verbs, WriteResult, body_of
from weir.apiserver.transport.bodies import JSON_TYPES, manager_of, media_type
from weir.apiserver.transport.http import TEXT, Request, Response
from weir.apiserver.transport.options import DeleteOptions, WriteOptions
from weir.objects.kind import Kind
from weir.objects.kinds import by_kind
from weir.selectors import labels
from weir.store import KeyValue, Write
from weir.values.quoting import quote

__all__ = ["Subresources"]

Document = dict[str, Any]
POD = by_kind("v1", "Pod")
BUDGET = by_kind("policy/v1", "PodDisruptionBudget")
_CREATED = body_of(success(code=201))
STREAMS = frozenset({"exec", "attach", "portforward", "proxy"})
BLOCKED = "Cannot evict pod as it would violate the pod's disruption budget."
EVICTED: Document = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}
_ATTEMPTS = 8
MAX_DISRUPTED = 2000


class Subresources:
    """The verbs of subresources."""

    def __init__(self, verbs: Verbs, deletion: Deletion, signer: Signer | None) -> None:
        self._verbs, self._deletion, self._signer = verbs, deletion, signer
        self._store = verbs.store
        self._logs = ContainerLogs()

    async def create(
        self, request: Request, kind: Kind, namespace: str, name: str, subresource: str, warnings: list[str]
    ) -> WriteResult:
        """POST to a subresource."""
        if subresource == "binding":
            return await self.bind(request, namespace, name, warnings)
        if subresource == "eviction":
            return await self._evict(request, namespace, name, warnings)
        if subresource == "token":
            return await self._token(request, kind, namespace, name, warnings)
        return self.stream(kind, namespace, name, subresource)

    def stream(self, kind: Kind, namespace: str, name: str, subresource: str) -> WriteResult:
        """Refuse what only a real kubelet could do."""
        self._verbs.find(kind, namespace, name)
        raise errors.NotImplementedHere(f"{kind.plural}/{subresource} is not supported by simulated nodes")

    def log(self, request: Request, kind: Kind, namespace: str, name: str, verb: str) -> Response:
        """Return what a simulated container has printed, or take it in from its kubelet."""
        pod = codec.decode(kind, self._verbs.find(kind, namespace, name).value)
        if verb == "create":
            self._logs.write(request.body)
            return Response(201, _CREATED)
        now = self._verbs.clock.time()
        return Response(200, self._logs.read(pod, LogOptions.parse(request.params, now), now), TEXT)

    # ------------------------------------------------------------------------------------------ binding

    async def bind(self, request: Request, namespace: str, name: str, warnings: list[str]) -> WriteResult:
        """Assign a pod to a node; without a name in the URL the body names the pod."""
        options = WriteOptions.parse(request.params, "CreateOptions")
        kind = by_kind("v1", "Binding")
        is_small = request.turn is None  # a large body is read beside the loop
        usual = read(request.body) if is_small and media_type(request) in JSON_TYPES else None
        if usual is not None:
            binding = usual
        else:
            binding, found = await self._verbs.decode(request, kind, options.field_validation)
            warnings.extend(found)
        metadata = binding.setdefault("metadata", {})
        check_namespace(kind, metadata, namespace)
        if name and metadata.get("name", "") != name:
            raise errors.BadRequest("name in URL does not match name in Binding object")
        name = name or metadata.get("name", "")
        await self._admit(request, binding, namespace, name, "binding", options.dry_run, warnings)
        target = binding.get("target") or {}
        problems = []
        if target.get("kind") not in (None, "", "Node"):
            shown = quote(str(target["kind"]))
            problems.append(f'target.kind: Unsupported value: {shown}: supported values: "Node", "<empty>"')
        if not target.get("name"):
            problems.append("target.name: Required value")
        if problems:
            text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
            raise errors.InternalError(text)
        for _ in range(_ATTEMPTS):
            stored_pod = self._verbs.find(POD, namespace, name)
            value = assigned(stored_pod.value, binding, self._verbs.now)
            if value is None:
                pod = codec.decode(POD, stored_pod.value)
                assign(pod, binding, stored_pod.key, self._verbs.now)
                value = codec.encode(pod, POD)
            if options.dry_run or await self._write(stored_pod, value):
                return WriteResult(201, _CREATED)
        raise errors.Conflict.object(POD, name)

    async def _admit(
        self,
        request: Request,
        body: Document,
        namespace: str,
        name: str,
        subresource: str,
        dry_run: bool,
        warnings: list[str],
        kind: Kind = POD,
    ) -> None:
        attributes = Attributes(
            CREATE,
            kind,
            subresource=subresource,
            namespace=namespace,
            name=name,
            object=body,
            dry_run=dry_run,
            user=request.user,
            warnings=warnings,
        )
        for step in (self._verbs.admission.mutate, self._verbs.admission.validate):
            pending = step(attributes)
            if pending is not None:
                await pending

    async def _write(self, found: KeyValue, value: bytes) -> bool:
        write = Write(found.key, value, found.mod_revision, codec.STAMP)
        (result,) = await self._store.commit((write,))
        return result.error is None

    # ----------------------------------------------------------------------------------------- eviction

    async def _evict(self, request: Request, namespace: str, name: str, warnings: list[str]) -> WriteResult:
        """Delete a pod unless a disruption budget forbids it."""
        options = WriteOptions.parse(request.params, "CreateOptions")
        kind = by_kind("policy/v1", "Eviction")
        eviction, found = await self._verbs.decode(request, kind, options.field_validation)
        warnings.extend(found)
        given = (eviction.get("metadata") or {}).get("name")
        if given and given != name:
            raise errors.BadRequest("name in URL does not match name in Eviction object")
        delete = DeleteOptions.from_document(eviction.get("deleteOptions") or {})
        dry_run = delete.dry_run or options.dry_run
        await self._admit(request, eviction, namespace, name, "eviction", dry_run, warnings)
        pod = codec.decode(POD, self._verbs.find(POD, namespace, name).value)
        if not ignores_budgets(pod):
            await self._spend_budget(pod, namespace, dry_run=dry_run)
        final = DeleteOptions(
            dry_run,
            delete.grace_period_seconds,
            delete.propagation_policy,
            delete.orphan_dependents,
            delete.uid,
            None,
        )

        def note(pod: Document) -> bool:
            """Set the condition by which the pod's owner learns why it goes."""
            if delete.resource_version not in (None, pod["metadata"]["resourceVersion"]):
                raise errors.Conflict.object(POD, name)
            return set_condition(pod, EVICTED, self._verbs.now)

        await self._deletion.noted(POD, namespace, name, final, request.user, note)
        return WriteResult(201, _CREATED)

    async def _spend_budget(self, pod: Document, namespace: str, *, dry_run: bool) -> None:
        """Take one disruption from the pod's budget; raises 429 when none is left."""
        have = pod["metadata"].get("labels") or {}
        for _ in range(_ATTEMPTS):
            budgets = [
                (found, document)
                for found in self._store.range(f"{BUDGET.prefix}{namespace}/").items
                if selects(document := codec.decode(BUDGET, found.value), have)
            ]
            if not budgets:
                return
            if len(budgets) > 1:
                raise errors.InternalError(
                    "This pod has more than one PodDisruptionBudget, "
                    "which the eviction subresource does not support.",
                    reason="InternalError",
                )
            found, budget = budgets[0]
            if unhealthy_may_go(pod, budget):
                return
            check_budget(budget)
            status = budget["status"]
            status["disruptionsAllowed"] -= 1
            status.setdefault("disruptedPods", {})[pod["metadata"]["name"]] = self._verbs.now
            if dry_run or await self._write(found, codec.encode(budget, BUDGET)):
                return
        raise errors.TooManyRequests(BLOCKED, details={"retryAfterSeconds": 10}, retry_after_seconds=10)

    # ------------------------------------------------------------------------------------------- token

    async def _token(
        self, request: Request, kind: Kind, namespace: str, name: str, warnings: list[str]
    ) -> WriteResult:
        """Issue a token for a service account."""
        options = WriteOptions.parse(request.params, "CreateOptions")
        row = by_kind("authentication.k8s.io/v1", "TokenRequest")
        asked, found = await self._verbs.decode(request, row, options.field_validation)
        warnings.extend(found)
        sent = asked.get("spec") or {}
        account = codec.decode(kind, self._verbs.find(kind, namespace, name).value)
        await self._admit(request, asked, namespace, name, "token", options.dry_run, warnings, kind)
        if self._signer is None:
            raise errors.ServiceUnavailable("this server has no key to sign service account tokens with")
        reference = (asked.get("spec") or {}).get("boundObjectRef") or {}
        bound = None
        if reference.get("kind") in ("Pod", "Secret", "Node"):
            other = by_kind("v1", reference["kind"])
            bound = self._verbs.reader.get_now(
                other, namespace if other.namespaced else "", reference.get("name", "")
            )
        now = datetime.fromtimestamp(int(self._verbs.clock.time()), UTC)
        node_name = ((bound or {}).get("spec") or {}).get("nodeName")
        node = self._verbs.reader.get_now(by_kind("v1", "Node"), "", node_name) if node_name else None
        answer = token_request(self._signer, account, asked, bound, now, node)
        metadata = answer["metadata"]
        metadata["managedFields"] = [
            {
                "manager": options.field_manager or manager_of(request),
                "operation": "Update",
                "apiVersion": row.api_version,
                "time": self._verbs.now,
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:spec": {f"f:{name}": {} for name, value in sorted(sent.items()) if value}},
                "subresource": "token",
            }
        ]
        return WriteResult(201, body_of(answer))


# ------------------------------------------------------------------------------------------------- rules


def ignores_budgets(pod: Document) -> bool:
    """Return whether evicting the pod disrupts nothing: it does not run, or goes already."""
    phase = (pod.get("status") or {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or bool(pod["metadata"].get("deletionTimestamp"))


def selects(budget: Document, have: dict[str, str]) -> bool:
    """Return whether the budget counts pods with these labels."""
    try:
        selector = labels.from_object((budget.get("spec") or {}).get("selector"))
    except labels.SelectorError:
        return False
    return selector is not None and selector.matches(have)


def unhealthy_may_go(pod: Document, budget: Document) -> bool:
    """Return whether the pod is not ready and its budget lets such pods go."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    if any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions):
        return False
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    return bool(status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0) > 0)


def check_budget(budget: Document) -> None:
    """Raise unless the budget has a disruption left."""
    name, status = budget["metadata"]["name"], budget.setdefault("status", {})
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        text = f"The disruption budget {name} is still being processed by the server."
        cause = {"reason": "DisruptionBudget", "message": text}
        raise errors.TooManyRequests(
            BLOCKED, details={"causes": [cause], "retryAfterSeconds": 10}, retry_after_seconds=10
        )
    if status.get("disruptionsAllowed", 0) < 0:
        raise errors.Forbidden.admission(BUDGET, name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or ()) > MAX_DISRUPTED:
        raise errors.Forbidden.admission(
            BUDGET,
            name,
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        )
    if status.get("disruptionsAllowed", 0) == 0:
        text = (
            f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy pods "
            f"and has {status.get('currentHealthy', 0)} currently"
        )
        cause = {"reason": "DisruptionBudget", "message": text}
        raise errors.TooManyRequests(BLOCKED, details={"causes": [cause]})
