"""Validation of pods, on create and update, and of their subresources.

Spec: core.md 2.6 "Pod update", 2.10 "Scheduling fields of gated pods", 2.13; apiserver.md 13; recorded answers for
pods/status and pods/resize. An update also runs the create rules, so an error may be found twice (the server
deduplicates); the container count and the deadline stop later checks; permitted changes are reverted before the rest is
compared, so they never show in the diff. Fields a subresource does not own were copied from the stored pod before.
"""

from __future__ import annotations

from typing import Final

from weir.fields import field
from weir.fields.addresses import IP_MESSAGE, find_ip
from weir.fields.field import Context, Document, Enum, Errors, FieldError, forbidden, invalid
from weir.fields.meta import IMMUTABLE, validate_object_meta, validate_object_meta_update
from weir.objects.pod_resources import QOS_RESOURCES, qos_class
from weir.validate.core.containers import PodContext, validate_ephemeral_containers
from weir.validate.core.pod_spec import validate_pod_spec
from weir.validate.core.tolerations import validate_tolerations_update
from weir.validate.gonames import diff, equal, go_list, go_struct
from weir.validate.ratchet import Options, pod_options
from weir.values.names import check_dns1123_subdomain, check_label_key


def validate_target(binding: Document) -> Errors:
    """Yield what is wrong with sending a pod to a node."""
    target = binding.get("target") or {}
    if target.get("kind") not in (None, "", "Node"):
        yield field.not_supported("target.kind", target["kind"], ("Node", "<empty>"))
    yield from field.present("target.name", target.get("name"))


def validate_binding(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a Binding posted by itself; it is never stored."""
    yield from validate_target(new)


_INT32_MAX: Final = 2**31 - 1
MAY_CHANGE: Final = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
    )
)
MIRROR: Final = "kubernetes.io/config.mirror"
GATED_WITH_NODE: Final = "cannot be set until all schedulingGates have been cleared"
ONLY_SELECTOR_ADDITIONS: Final = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
SAME_TERM_COUNT: Final = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
ONLY_TERM_ADDITIONS: Final = "only additions are allowed (no mutations or deletions)"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def validate_pod(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a write of a pod or one of its subresources."""
    if context.subresource == "binding":
        yield from validate_target(new)
    elif old is None:
        yield from _validate_create(new, context)
    elif context.subresource == "status":
        yield from validate_status(new, old)
    elif context.subresource == "ephemeralcontainers":
        yield from validate_ephemeral_update(new, old)
    else:
        options = pod_options(context.gates, old.get("spec"), context.raw)
        yield from validate_object_meta_update(new.get("metadata") or {}, old.get("metadata") or {})
        yield from _validate_metadata_and_spec(new, context, options)
        if context.subresource == "resize":
            yield from validate_resize(new, old)
        else:
            yield from _validate_update(new.get("spec") or {}, old.get("spec") or {}, options)


def _validate_create(pod: Document, context: Context) -> Errors:
    spec = pod.get("spec") or {}
    yield from _validate_metadata_and_spec(pod, context, pod_options(context.gates, None, context.raw))
    if spec.get("ephemeralContainers"):
        yield forbidden("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("schedulingGates") and spec.get("nodeName"):
        yield forbidden("spec.nodeName", GATED_WITH_NODE)


def _validate_metadata_and_spec(pod: Document, context: Context, options: Options) -> Errors:
    meta, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    yield from validate_object_meta(meta, context)
    mirrored = (meta.get("annotations") or {}).get(MIRROR)
    if mirrored is not None and not spec.get("nodeName") and not context.raw:
        at = f"metadata.annotations[{MIRROR}]"
        yield invalid(at, mirrored, "must set spec.nodeName if mirror pod annotation is set")
    yield from validate_pod_spec(spec, "spec", options, meta.get("name") or "")
    if not context.raw and not spec.get("serviceAccountName"):
        yield from _validate_tokens(spec.get("volumes") or [])
    for name in ("containers", "initContainers"):
        for i, container in enumerate(spec.get(name) or ()):
            image = container.get("image") or ""
            if image != image.strip():
                yield invalid(
                    f"spec.{name}[{i}].image", image, "must not have leading or trailing whitespace"
                )


def _validate_tokens(volumes: list[Document]) -> Errors:
    for v, volume in enumerate(volumes):
        for s, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if source.get("serviceAccountToken") is not None:
                at = f"spec.volumes[{v}].projected.sources[{s}].serviceAccountToken"
                yield forbidden(at, "must not be specified when serviceAccountName is not set")


def _validate_update(new: Document, old: Document, options: Options) -> Errors:
    """Yield what an update may not change; see the list in MAY_CHANGE."""
    for name in ("containers", "initContainers"):
        before, after = old.get(name) or [], new.get(name) or []
        if len(before) != len(after):
            yield forbidden(f"spec.{name}", "pod updates may not add or remove containers")
            return
        for i, container in enumerate(after):
            yield from field.present(f"spec.{name}[{i}].image", container.get("image"))
    stop = list(_validate_deadline(new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")))
    yield from stop
    if stop and new.get("activeDeadlineSeconds") is not None:
        return
    yield from validate_tolerations_update(
        new.get("tolerations") or [], old.get("tolerations") or [], "spec.tolerations", options
    )
    yield from _validate_gates_update(new, old)
    munged = _with_permitted_changes_undone(new, old)
    if old.get("schedulingGates"):
        yield from _validate_gated_selector(new, old)
        yield from _validate_gated_affinity(new, old)
        munged = _with_gated_changes_undone(munged, old)
    if not equal("PodSpec", old, munged):
        yield _changed(old, munged)


def _changed(old: Document, munged: Document) -> FieldError:
    return forbidden(
        "spec", f"pod updates may not change fields other than {MAY_CHANGE}\n{diff('PodSpec', old, munged)}"
    )


def _validate_deadline(new: int | None, old: int | None) -> Errors:
    at = "spec.activeDeadlineSeconds"
    if new is None:
        if old is not None:
            yield invalid(at, None, "must not update from a positive integer to nil value")
    elif not 0 <= new <= _INT32_MAX:
        yield invalid(at, new, f"must be between 0 and {_INT32_MAX}, inclusive")
    elif old is not None and old < new:
        yield invalid(at, new, "must be less than or equal to previous value")


def _validate_gates_update(new: Document, old: Document) -> Errors:
    known = {gate.get("name") for gate in old.get("schedulingGates") or ()}
    for i, gate in enumerate(new.get("schedulingGates") or ()):
        if gate.get("name") not in known:
            yield forbidden(
                f"spec.schedulingGates[{i}].name",
                f"only deletion is allowed, but found new scheduling gate '{gate.get('name') or ''}'",
            )


def _with_permitted_changes_undone(new: Document, old: Document) -> Document:
    """Return the new spec with every field that may change set back to its old value."""
    munged = dict(new)
    for name in ("containers", "initContainers"):
        if new.get(name):
            munged[name] = [
                {**after, "image": before.get("image")}
                for after, before in zip(new[name], old[name], strict=True)
            ]
    for name in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        munged.pop(name, None)
        if name in old:
            munged[name] = old[name]
    grace = old.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0 and new.get("terminationGracePeriodSeconds") == 1:
        munged["terminationGracePeriodSeconds"] = grace
    return munged


# ── pods that scheduling gates still hold back ───────────────────────────────────────────────────


def _validate_gated_selector(new: Document, old: Document) -> Errors:
    before, after = old.get("nodeSelector") or {}, new.get("nodeSelector")
    if any((after or {}).get(key) != value for key, value in before.items()):
        shown = dict(sorted(after.items())) if after else None
        yield invalid("spec.nodeSelector", shown, ONLY_SELECTOR_ADDITIONS)


def _required_terms(spec: Document) -> list[Document]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms: list[Document] = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    return terms


def _validate_gated_affinity(new: Document, old: Document) -> Errors:
    before, after = _required_terms(old), _required_terms(new)
    if not before:
        return
    at = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    if len(before) != len(after):
        yield invalid(at, go_list("NodeSelectorTerm", after), SAME_TERM_COUNT)
        return
    for i, (was, now) in enumerate(zip(before, after, strict=True)):
        if not _only_adds(was, now):
            yield invalid(f"{at}[{i}]", go_struct("NodeSelectorTerm", now), ONLY_TERM_ADDITIONS)


def _only_adds(old: Document, new: Document) -> bool:
    """Return whether a term only became narrower; a term that matches nothing must stay so."""
    was = [old.get(name) or [] for name in ("matchExpressions", "matchFields")]
    now = [new.get(name) or [] for name in ("matchExpressions", "matchFields")]
    if not any(was):
        return not any(now)
    return all(after[: len(before)] == before for before, after in zip(was, now, strict=True))


def _with_gated_changes_undone(munged: Document, old: Document) -> Document:
    """Return *munged* with the node selector and node affinity of the old spec; their changes were judged."""
    munged = dict(munged)
    munged.pop("nodeSelector", None)
    if "nodeSelector" in old:
        munged["nodeSelector"] = old["nodeSelector"]
    before, after = old.get("affinity"), munged.get("affinity")
    if before is None:
        if after is not None and not (after.get("podAffinity") or after.get("podAntiAffinity")):
            munged.pop("affinity")
        elif after is not None:
            munged["affinity"] = {name: value for name, value in after.items() if name != "nodeAffinity"}
        return munged
    restored = {name: value for name, value in (after or {}).items() if name != "nodeAffinity"}
    if "nodeAffinity" in before:
        restored["nodeAffinity"] = before["nodeAffinity"]
    munged["affinity"] = restored
    return munged


# ── pods/status, pods/ephemeralcontainers and pods/resize ─────────────────────────────────────────────


QOS_CHANGED: Final = "Pod QOS Class may not change as a result of resizing"
ONLY_RESOURCES: Final = "only cpu and memory resources are mutable"


def validate_status(new: Document, old: Document) -> Errors:
    """Yield what is wrong with a status the kubelet or a controller reports."""
    yield from validate_object_meta_update(new.get("metadata") or {}, old.get("metadata") or {})
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    status = new.get("status") or {}
    if (spec.get("nodeName") or "") != (before.get("nodeName") or ""):
        yield field.forbidden("status.nodeName", "may not be changed directly")
    if nominated := status.get("nominatedNodeName"):
        yield from field.each_invalid(
            "status.nominatedNodeName", nominated, check_dns1123_subdomain(nominated)
        )
        if before.get("nodeName") and nominated != (old.get("status") or {}).get("nominatedNodeName"):
            yield field.forbidden(
                "status.nominatedNodeName", "may not be set on pods that are already bound to a node"
            )
    restart = spec.get("restartPolicy")
    for name in ("containerStatuses", "initContainerStatuses"):
        yield from _validate_transitions(status, old.get("status") or {}, name, restart)
    was, now = (old.get("status") or {}).get("qosClass"), status.get("qosClass")
    if was and now and was != now:
        yield field.invalid("status.qosClass", Enum(now), IMMUTABLE)
    yield from _validate_ips(_addresses(status, "podIPs", "podIP"), "status.podIPs")
    yield from _validate_host_ips(status)
    yield from _validate_claim_statuses(status, spec)
    for i, condition in enumerate(status.get("conditions") or ()):
        kind = condition.get("type") or ""
        yield from field.each_invalid(f"status.conditions[{i}].Type", kind, check_label_key(kind))
        generation = condition.get("observedGeneration") or 0
        yield from field.at_least(
            f"status.conditions[{i}].observedGeneration", generation, 0, "must be a non-negative integer"
        )


def _addresses(status: Document, plural: str, singular: str) -> list[str]:
    """Return the addresses of a status; where the single field and the list disagree, the single one wins."""
    listed = [entry.get("ip") or "" for entry in status.get(plural) or ()]
    single = status.get(singular)
    return [single] if single and single != (listed or [""])[0] else listed


def _validate_host_ips(status: Document) -> Errors:
    listed = [entry.get("ip") or "" for entry in status.get("hostIPs") or ()]
    if listed and listed[0] != (status.get("hostIP") or ""):
        yield field.invalid("status.hostIPs[0].ip", listed[0], "must be equal to `hostIP`")
    yield from _validate_ips(listed, "status.hostIPs")


def _validate_ips(addresses: list[str], at: str) -> Errors:
    families: set[int] = set()
    for i, text in enumerate(addresses):
        found = find_ip(text)
        if found is None:
            yield field.invalid(f"{at}[{i}]", text, IP_MESSAGE)
        elif found.version in families:
            yield field.invalid(
                at, [{"IP": each} for each in addresses], "may specify no more than one IP for each IP family"
            )
        if found:
            families.add(found.version)


def _validate_transitions(new: Document, old: Document, name: str, restart_policy: str | None) -> Errors:
    """Yield containers that came back to life although the pod never restarts them."""
    if restart_policy not in ("Never", "OnFailure"):
        return
    after = {each.get("name"): each for each in new.get(name) or ()}
    for i, before in enumerate(old.get(name) or ()):
        ended = (before.get("state") or {}).get("terminated")
        if ended is None or (restart_policy == "OnFailure" and ended.get("exitCode")):
            continue
        now = after.get(before.get("name"))
        if now is not None and (now.get("state") or {}).get("terminated") is None:
            yield field.forbidden(
                f"status.{name}[{i}].state", "may not be transitioned to non-terminated state"
            )


def _validate_claim_statuses(status: Document, spec: Document) -> Errors:
    names = {claim.get("name") for claim in spec.get("resourceClaims") or ()}
    seen: set[str] = set()
    for i, entry in enumerate(status.get("resourceClaimStatuses") or ()):
        at, name = f"status.resourceClaimStatuses[{i}]", entry.get("name") or ""
        if name not in names:
            yield field.invalid(
                f"{at}.name", name, "must match the name of an entry in `spec.resourceClaims`"
            )
        yield from field.unique(name, seen, f"{at}.name")
        if claim := entry.get("resourceClaimName"):
            yield from field.each_invalid(f"{at}.resourceClaimName", claim, check_dns1123_subdomain(claim))


def validate_ephemeral_update(new: Document, old: Document) -> Errors:
    """Yield what is wrong with adding ephemeral containers: those that are there stay as they are."""
    at = "spec.ephemeralContainers"
    spec = new.get("spec") or {}
    containers = spec.get("ephemeralContainers") or []
    others = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    volumes = {volume.get("name"): volume for volume in spec.get("volumes") or ()}
    yield from validate_object_meta_update(new.get("metadata") or {}, old.get("metadata") or {})
    yield from validate_ephemeral_containers(containers, others, at, PodContext(volumes))
    now = {container.get("name"): container for container in containers}
    for before in (old.get("spec") or {}).get("ephemeralContainers") or ():
        name = before.get("name") or ""
        after = now.get(name)
        if after is None:
            yield field.forbidden(at, f'existing ephemeral containers "{name}" may not be removed\n')
        elif not equal("EphemeralContainer", before, after):
            changed = diff("EphemeralContainer", before, after)
            yield field.forbidden(at, f'existing ephemeral containers "{name}" may not be changed\n{changed}')


def validate_resize(new: Document, old: Document) -> Errors:
    """Yield what is wrong with changing the size of a pod in place: only CPU and memory, never the QoS class."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    if qos_class(before) != qos_class(after):
        shown = (new.get("status") or {}).get("qosClass") or ""
        yield field.invalid("spec", Enum(shown), QOS_CHANGED)
    munged = _with_sizes_undone(after, before)
    if not equal("PodSpec", before, munged):
        yield field.forbidden("spec", ONLY_RESOURCES)


def _with_sizes_undone(new: Document, old: Document) -> Document:
    munged = dict(new)
    for name in ("containers", "initContainers"):
        before = {container.get("name"): container for container in old.get(name) or ()}
        if new.get(name):
            munged[name] = [_size_of(before.get(c.get("name"), {}), c) for c in new[name]]
    return munged


def _size_of(old: Document, new: Document) -> Document:
    was, now = old.get("resources") or {}, dict(new.get("resources") or {})
    for part in ("limits", "requests"):
        kept = {name: value for name, value in (now.get(part) or {}).items() if name not in QOS_RESOURCES}
        kept |= {name: value for name, value in (was.get(part) or {}).items() if name in QOS_RESOURCES}
        now.pop(part, None)
        if kept:
            now[part] = kept
    return {**new, "resources": now}
