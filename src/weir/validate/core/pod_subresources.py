"""Validation of pods/status, pods/ephemeralcontainers and pods/resize.

Spec: apiserver.md 13; recorded answers for `pods/status` and `pods/resize`. Fields the subresource does not own were
copied from the stored pod before these checks.
"""

from __future__ import annotations

from typing import Any, Final

from weir.validate import field
from weir.validate.addresses import IP_MESSAGE, find_ip
from weir.validate.core.containers import PodContext, validate_ephemeral_containers
from weir.validate.core.resources import amount
from weir.validate.field import Document, Enum, Errors
from weir.validate.gonames import diff, equal
from weir.validate.meta import IMMUTABLE, validate_object_meta_update
from weir.values.names import check_dns1123_subdomain, check_label_key

_QOS_RESOURCES: Final = ("cpu", "memory")
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
        if generation < 0:
            detail = "must be a non-negative integer"
            yield field.invalid(f"status.conditions[{i}].observedGeneration", generation, detail)


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
        if name in seen:
            yield field.duplicate(f"{at}.name", name)
        seen.add(name)
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
        kept = {name: value for name, value in (now.get(part) or {}).items() if name not in _QOS_RESOURCES}
        kept |= {name: value for name, value in (was.get(part) or {}).items() if name in _QOS_RESOURCES}
        now.pop(part, None)
        if kept:
            now[part] = kept
    return {**new, "resources": now}


def qos_class(spec: Document) -> str:
    """Return how the kubelet ranks a pod when memory is short.

    >>> qos_class({"containers": [{"resources": {"requests": {"cpu": "1"}}}]})
    'Burstable'
    """
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    asked, guaranteed = False, True
    for container in containers:
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        sizes = {name: _positive(limits.get(name)) for name in _QOS_RESOURCES}
        needs = {name: _positive(requests.get(name)) or sizes[name] for name in _QOS_RESOURCES}
        asked = asked or any(sizes.values()) or any(needs.values())
        guaranteed = guaranteed and all(sizes.values()) and needs == sizes
    if not asked:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _positive(value: Any) -> Any:
    if value is None:
        return None
    quantity = amount(value)
    return quantity if quantity.sign > 0 else None
