"""Detects the features stories need, by server-side dry runs.

Rejected as invalid, not served, or returned without a field that was sent: not offered, with the server's message.
Forbidden: unknown. Weir's operator answers with its own tolerations and keeps the original in an annotation; that
counts as offered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from weir import errors
from weir.client.api import Client
from weir.conformance.renaming import stock_spelling
from weir.conformance.results import Offer
from weir.lowering.names import REQUIREMENTS, TOLERATIONS
from weir.objects.kind import Document, Kind
from weir.objects.kinds import by_kind
from weir.objects.templates import never_runs
from weir.simulation.demo.story import NEEDS

DEVICE_API: Final = "resource.k8s.io"
_DRIVER: Final = "probe.weir.dev"
_CLASS: Final = "probe.weir.dev"
_TAINT: Final = {"key": "probe.weir.dev/a", "value": "1", "effect": "NoSchedule"}


def _pod(**spec: Any) -> Document:
    return {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [never_runs()], **spec}}


def _tolerating(operator: str, value: str) -> Document:
    return _pod(
        tolerations=[{"key": "weir.dev/probe", "operator": operator, "value": value, "effect": "NoSchedule"}]
    )


def _claim(*tolerations: Document) -> Document:
    exactly: Document = {"deviceClassName": _CLASS}
    if tolerations:
        exactly["tolerations"] = list(tolerations)
    requests = [{"name": "one", "exactly": exactly}]
    return {
        "apiVersion": f"{DEVICE_API}/v1",
        "kind": "ResourceClaim",
        "spec": {"devices": {"requests": requests}},
    }


def _slice(**content: Any) -> Document:
    pool = {"name": "probe", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": _DRIVER, "pool": pool, "allNodes": True, **content}
    return {"apiVersion": f"{DEVICE_API}/v1", "kind": "ResourceSlice", "spec": spec}


def _rule(selector: Document | None = None, **taint: Any) -> Document:
    spec = {"deviceSelector": selector or {"driver": _DRIVER}, "taint": {**_TAINT, **taint}}
    return {"apiVersion": f"{DEVICE_API}/v1", "kind": "DeviceTaintRule", "spec": spec}


_VERSION_TERM: Final = {"key": "weir.dev/probe", "operator": "SemverGt", "values": ["1.0.0"]}
_AFFINITY: Final = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [_VERSION_TERM]}]
        }
    }
}
_BUDGET: Final = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "probe"}}}
_SCALER: Final = {
    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "probe"},
    "maxReplicas": 2,
}
#: What is sent for each need.
PROBES: Final[Mapping[str, Document]] = {
    "numeric": _tolerating("Gt", "1"),
    "semver": _tolerating("SemverGt", "1.0.0"),
    "semver-affinity": _pod(affinity=_AFFINITY),
    "cel": _pod(tolerations=[{"expression": "taint.key == 'weir.dev/probe'"}]),
    "devices": _claim(),
    "device-taints": _slice(devices=[{"name": "one", "taints": [_TAINT]}]),
    "separate-taints": _slice(taints=[{"device": "one", "taint": _TAINT}]),
    "numeric-claims": _claim({"key": "a", "operator": "Gt", "value": "1", "effect": "NoSchedule"}),
    "semver-claims": _claim({"key": "a", "operator": "SemverGt", "value": "1.0.0", "effect": "NoSchedule"}),
    "rules": _rule(),
    "rates": _rule(effect="NoExecute", evictionsPerSecond=1),
    "rule-expressions": _rule(
        {"driver": _DRIVER, "selectors": [{"cel": {"expression": f"device.driver == '{_DRIVER}'"}}]}
    ),
    "v1alpha4": {
        "apiVersion": f"{DEVICE_API}/v1alpha4",
        "kind": "ResourceClaim",
        "spec": {"devices": {"requests": [{"name": "one", "deviceClassName": _CLASS}]}},
    },
    "autoscaler": {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": _SCALER},
    "budgets": {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": _BUDGET},
}


async def offers(
    client: Client,
    namespace: str,
    needs: Iterable[str],
    versions: Mapping[str, str],
    *,
    stock: bool,
    weir: bool,
) -> dict[str, Offer]:
    """Return what the cluster offers of *needs*, asked in *namespace*."""
    wanted = set(needs)
    by_need: dict[str, Offer] = {}
    for need in NEEDS:
        if need in wanted:
            by_need[need] = await _ask(client, namespace, need, versions, stock=stock)
    if by_need.get("autoscaler") and by_need["autoscaler"].offered and not weir:
        by_need["autoscaler"] = Offer("autoscaler", False, "this cluster measures no simulated pods")
    return by_need


async def _ask(
    client: Client, namespace: str, need: str, versions: Mapping[str, str], *, stock: bool
) -> Offer:
    sent = PROBES[need]
    kind = by_kind(versions.get(sent["kind"], sent["apiVersion"]), sent["kind"])
    if need == "v1alpha4":
        kind = by_kind(sent["apiVersion"], sent["kind"])
    if stock and sent["spec"].get("tolerations"):
        spelled = [stock_spelling(each) for each in sent["spec"]["tolerations"]]
        sent = {**sent, "spec": {**sent["spec"], "tolerations": spelled}}
    document = {**sent, "apiVersion": kind.api_version, "metadata": {"name": "weir-probe"}}
    if kind.namespaced:
        document["metadata"]["namespace"] = namespace
    try:
        answer = await client.create(kind, document, dry_run=True)
    except errors.Forbidden as error:
        return Offer(need, None, error.message)
    except errors.NotFound:
        return Offer(need, False, f"{kind.api_version} {kind.kind} is not served")
    except errors.ApiError as error:
        return Offer(need, False, error.message)
    dropped = _dropped(sent["spec"], answer.get("spec") or {}, "spec")
    if dropped and not _lowered(answer) and need != "v1alpha4":  # the KEP's form is answered in another
        return Offer(need, False, f"the server drops {dropped}")
    return Offer(need, True)


def _lowered(answer: Document) -> bool:
    annotations = answer.get("metadata", {}).get("annotations") or {}
    return TOLERATIONS in annotations or REQUIREMENTS in annotations


def _dropped(sent: Any, answer: Any, path: str) -> str:
    """Return the first field of *sent* that *answer* does not have, or nothing.

    >>> _dropped({"a": [{"b": 1, "c": 2}]}, {"a": [{"b": 1}], "d": 3}, "spec")
    'spec.a[0].c'
    """
    if isinstance(sent, dict):
        if not isinstance(answer, dict):
            return path
        for name, value in sent.items():
            if name not in answer:
                return f"{path}.{name}"
            if dropped := _dropped(value, answer[name], f"{path}.{name}"):
                return dropped
    if isinstance(sent, list):
        if not isinstance(answer, list) or len(answer) < len(sent):
            return path
        for number, value in enumerate(sent):
            if dropped := _dropped(value, answer[number], f"{path}[{number}]"):
                return dropped
    return ""


async def served_versions(client: Client, kinds: Iterable[Kind]) -> dict[str, str]:
    """Return for each of *kinds* that is not served as written the newest version in which it is."""
    newest: dict[str, str] = {}
    wanted = {(kind.group, kind.kind): kind for kind in kinds}
    for group in sorted({group for group, _ in wanted if group}):
        served = await _served(client, group)
        for (own, name), kind in wanted.items():
            versions = served.get(name, ())
            if own == group and versions and kind.version not in versions:
                newest[name] = f"{group}/{versions[0]}"
    return newest


async def _served(client: Client, group: str) -> dict[str, list[str]]:
    """Return the versions of each kind of a group, the preferred one first."""
    try:
        listed = msgspec.json.decode(await client.call("GET", f"/apis/{group}"))
    except errors.NotFound:
        return {}
    versions_of: dict[str, list[str]] = {}
    for version in listed.get("versions") or ():
        resources = msgspec.json.decode(await client.call("GET", f"/apis/{version['groupVersion']}"))
        for each in resources.get("resources") or ():
            if "/" not in each["name"]:
                versions_of.setdefault(each["kind"], []).append(version["version"])
    return versions_of
