"""The subresources binding and eviction of a pod, and the conditions they set.

Spec: apiserver.md 12 "Subresources".
"""

from __future__ import annotations

from typing import Any

from weir import errors
from weir.apiserver.admission.attributes import CREATE
from weir.apiserver.registry import codec
from weir.apiserver.registry.deletion import Deletion, success
from weir.apiserver.registry.object_write import check_namespace, uid_text
from weir.apiserver.registry.storage import ATTEMPTS
from weir.apiserver.registry.verbs import Verbs
from weir.apiserver.registry.write_path import body_of
from weir.apiserver.registry.write_request import WriteRequest, WriteResult
from weir.apiserver.transport.http import Request
from weir.apiserver.transport.options import DeleteOptions, WriteOptions
from weir.objects.kinds import POD_DISRUPTION_BUDGETS, PODS, by_kind
from weir.selectors import labels
from weir.values.quoting import quote

# ── pod conditions that the API server itself sets: on binding and on eviction ──
# Spec: apiserver.md 12 "Subresources". The time of a condition is that of its last change of status.


Document = dict[str, Any]


def set_condition(pod: Document, condition: Document, now: str) -> bool:
    """Set a condition of the pod's status; return whether that changed anything."""
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    before = next((c for c in conditions if c.get("type") == condition["type"]), None)
    changed_at = now
    if before is not None and before.get("status") == condition["status"]:
        changed_at = before.get("lastTransitionTime") or now
    new: Document = {
        "type": condition["type"],
        "status": condition["status"],
        "lastProbeTime": None,
        "lastTransitionTime": changed_at,
        **{key: condition[key] for key in ("reason", "message") if key in condition},
    }
    if before is None:
        conditions.append(new)
        return True
    if before == new:
        return False
    conditions[conditions.index(before)] = new
    return True


# ── the subresource binding: a pod gets its node, and the condition that it was scheduled ──
# Spec: apiserver.md 12 "Subresources", core.md 3.1 (binding errors). An invalid Binding comes back as 500, as upstream
# returns it without a Status.


BINDING = by_kind("v1", "Binding")
SCHEDULED = {"type": "PodScheduled", "status": "True"}
CREATED = WriteResult(201, body_of(success(code=201)))  #: the answer to a binding and to an eviction


async def bind(verbs: Verbs, request: Request, namespace: str, name: str, warnings: list[str]) -> WriteResult:
    """Assign a pod to a node; without a name in the URL the body names the pod."""
    options = WriteOptions.parse(request.params, "CreateOptions")
    binding = await verbs.decode(request, BINDING, options.field_validation, warnings)
    metadata = binding.setdefault("metadata", {})
    check_namespace(BINDING, metadata, namespace)
    if name and metadata.get("name", "") != name:
        raise errors.BadRequest("name in URL does not match name in Binding object")
    name = name or metadata.get("name", "")
    write = WriteRequest.of(request, PODS, namespace, name, "binding", options, warnings)
    await verbs.admit(write.attributes(CREATE, object=binding))
    validate(binding)
    await verbs.edit(
        PODS,
        namespace,
        name,
        lambda pod, stored: assign(pod, binding, stored.key, verbs.now),
        dry_run=write.dry_run,
    )
    return CREATED


def validate(binding: Document) -> None:
    """Raise what is wrong with a binding."""
    target, problems = binding.get("target") or {}, []
    if target.get("kind") not in (None, "", "Node"):
        shown = quote(str(target["kind"]))
        problems.append(f'target.kind: Unsupported value: {shown}: supported values: "Node", "<empty>"')
    if not target.get("name"):
        problems.append("target.name: Required value")
    if problems:
        raise errors.InternalError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")


def assign(pod: Document, binding: Document, key: str, now: str) -> None:
    """Put the pod on the binding's node, or raise why it may not go there."""
    metadata, spec = pod["metadata"], pod["spec"]
    name, wanted = metadata["name"], binding["metadata"]

    def refuse(text: str) -> errors.Conflict:
        return errors.Conflict(
            f'Operation cannot be fulfilled on pods/binding "{name}": {text}',
            details={"name": name, "kind": "pods/binding"},
        )

    if wanted.get("uid") and wanted["uid"] != metadata["uid"]:
        raise errors.Conflict.object(PODS, name, uid_text(key, wanted["uid"], metadata["uid"]))
    if wanted.get("resourceVersion") and wanted["resourceVersion"] != metadata["resourceVersion"]:
        raise errors.Conflict.object(PODS, name)
    if metadata.get("deletionTimestamp"):
        raise refuse(f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise refuse(f"pod {name} is already assigned to node {quote(spec['nodeName'])}")
    if spec.get("schedulingGates"):
        raise refuse(f"pod {name} has non-empty .spec.schedulingGates")
    spec["nodeName"] = binding["target"]["name"]
    for part in ("annotations", "labels"):
        if wanted.get(part):
            metadata[part] = {**(metadata.get(part) or {}), **wanted[part]}
    pod["status"].pop("nominatedNodeName", None)
    set_condition(pod, SCHEDULED, now)


# ── the subresource eviction: a pod is deleted unless a disruption budget forbids it ──
# Spec: apiserver.md 12 "Subresources".


EVICTION = by_kind("policy/v1", "Eviction")
BLOCKED = "Cannot evict pod as it would violate the pod's disruption budget."
EVICTED: Document = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}
MAX_DISRUPTED = 2000


async def evict(
    verbs: Verbs, deletion: Deletion, request: Request, namespace: str, name: str, warnings: list[str]
) -> WriteResult:
    """Delete a pod unless a disruption budget forbids it."""
    options = WriteOptions.parse(request.params, "CreateOptions")
    eviction = await verbs.decode(request, EVICTION, options.field_validation, warnings)
    named = (eviction.get("metadata") or {}).get("name")
    if named and named != name:
        raise errors.BadRequest("name in URL does not match name in Eviction object")
    delete = DeleteOptions.from_document(eviction.get("deleteOptions") or {})
    write = WriteRequest.of(request, PODS, namespace, name, "eviction", options, warnings)
    write.dry_run = delete.dry_run or options.dry_run
    await verbs.admit(write.attributes(CREATE, object=eviction))
    pod = codec.decode(PODS, verbs.find(PODS, namespace, name).value)
    if not ignores_budgets(pod):
        await _spend_budget(verbs, pod, namespace, dry_run=write.dry_run)
    final = DeleteOptions(
        write.dry_run,
        delete.grace_period_seconds,
        delete.propagation_policy,
        delete.orphan_dependents,
        delete.uid,
        None,
    )

    def note(pod: Document) -> bool:
        """Set the condition by which the pod's owner learns why it goes."""
        if delete.resource_version not in (None, pod["metadata"]["resourceVersion"]):
            raise errors.Conflict.object(PODS, name)
        return set_condition(pod, EVICTED, verbs.now)

    await deletion.noted(PODS, namespace, name, final, request.user, note)
    return CREATED


async def _spend_budget(verbs: Verbs, pod: Document, namespace: str, *, dry_run: bool) -> None:
    """Take one disruption from the pod's budget; raises 429 when none is left."""
    have = pod["metadata"].get("labels") or {}
    for _ in range(ATTEMPTS):
        budgets = [
            (found, document)
            for found in verbs.store.range(f"{POD_DISRUPTION_BUDGETS.prefix}{namespace}/").items
            if selects(document := codec.decode(POD_DISRUPTION_BUDGETS, found.value), have)
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
        status.setdefault("disruptedPods", {})[pod["metadata"]["name"]] = verbs.now
        if dry_run or await verbs.replace(found, codec.encode(budget, POD_DISRUPTION_BUDGETS)):
            return
    raise errors.TooManyRequests(BLOCKED, details={"retryAfterSeconds": 10}, retry_after_seconds=10)


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
        raise errors.Forbidden.admission(POD_DISRUPTION_BUDGETS, name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or ()) > MAX_DISRUPTED:
        raise errors.Forbidden.admission(
            POD_DISRUPTION_BUDGETS,
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
