"""The subresource binding: a pod gets its node, and the condition that it was scheduled.

Spec: apiserver.md 12 "Subresources", core.md 3.1 (binding errors). An invalid Binding comes back as 500, as upstream
returns it without a Status.
"""

from __future__ import annotations

from typing import Any

from weir import errors
from weir.apiserver.admission.attributes import CREATE
from weir.apiserver.registry.deletion import success
from weir.apiserver.registry.identity import check_namespace, uid_text
from weir.apiserver.registry.pod_conditions import set_condition
from weir.apiserver.registry.verbs import Verbs
from weir.apiserver.registry.write_path import body_of
from weir.apiserver.registry.write_request import WriteRequest, WriteResult
from weir.apiserver.transport.http import Request
from weir.apiserver.transport.options import WriteOptions
from weir.objects.kinds import by_kind
from weir.values.quoting import quote

__all__ = ["CREATED", "bind"]

Document = dict[str, Any]
POD, BINDING = by_kind("v1", "Pod"), by_kind("v1", "Binding")
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
    write = WriteRequest.of(request, POD, namespace, name, "binding", options, warnings)
    await verbs.admit(write.attributes(CREATE, object=binding))
    validate(binding)
    await verbs.edit(
        POD,
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
        raise errors.Conflict.object(POD, name, uid_text(key, wanted["uid"], metadata["uid"]))
    if wanted.get("resourceVersion") and wanted["resourceVersion"] != metadata["resourceVersion"]:
        raise errors.Conflict.object(POD, name)
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
