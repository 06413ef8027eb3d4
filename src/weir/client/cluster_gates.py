"""Detects the feature gates of a running cluster.

In this order: the API server's `/metrics` (`kubernetes_feature_enabled`); its version, for features it cannot have;
server-side dry runs of probe objects. Metrics of the scheduler, the controller manager and the kubelets are read
through the API server's proxy. Anything else is "not known", which the results must state. A cluster with weir's
operator has the features of the operator's gates although the components have them off. A gate unknown to the API
server is off in every component, because none may be newer (version skew policy).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from weir.client.api import Client, Reply, Unreachable
from weir.client.known_gates import OPERATOR, KnownGates, Learned, is_set
from weir.gates import (
    DEVICE_TAINT_RULES,
    DEVICE_TAINTS,
    EXTENDED,
    FEATURES,
    SEMVER_COMPARISON,
    TOLERATION_CEL,
    TOLERATION_COMPARISON,
)
from weir.lowering.webhooks import MUTATING_CONFIGURATION

API_SERVER: Final = "API server"
SCHEDULER: Final = "scheduler"
CONTROLLERS: Final = "controller manager"
KUBELET: Final = "kubelet"
COMPONENTS: Final = (API_SERVER, SCHEDULER, CONTROLLERS, KUBELET)

#: The minor version of Kubernetes 1 that first had the gate; of the other gates no release is known.
SINCE: Final = {TOLERATION_COMPARISON: 35, DEVICE_TAINTS: 33, DEVICE_TAINT_RULES: 35}
_ENABLED: Final = re.compile(rb"^kubernetes_feature_enabled\{([^}]*)\} ([01])", re.MULTILINE)
_COMPONENT_ENABLED: Final = re.compile(rb"^weir_component_feature_enabled\{([^}]*)\} ([01])", re.MULTILINE)
_LABEL: Final = re.compile(rb'(\w+)="([^"]*)"')
#: Names of the components in weir's own metric.
_WEIR_NAMES: Final = {"scheduler": SCHEDULER, "controllers": CONTROLLERS, "kubelet": KUBELET}
#: How control-plane pods of a real cluster are found, and the port of their metrics.
_STATIC_PODS: Final = ((SCHEDULER, "kube-scheduler", 10259), (CONTROLLERS, "kube-controller-manager", 10257))
#: Kubelets may differ; this many are queried.
_MOST_KUBELETS: Final = 3
_PATIENCE_SECONDS: Final = 5.0


@dataclass(frozen=True)
class ClusterGates:
    """What was learned of each component's gates."""

    by_component: Mapping[str, Mapping[str, Learned]]
    operator: bool = False  #: weir's operator lowers what the components do not know

    def known(self, needs: Iterable[str], settings: Mapping[str, bool]) -> KnownGates:
        """Return the gates for components *needs*; *settings* override.

        A gate is on when it is on in all of them, and off when it is off in any component that could be asked.
        """
        given = KnownGates.default(settings)
        features = {
            name: given.features[name] if is_set(name, settings) else self._joined(name, tuple(needs))
            for name in FEATURES
        }
        return KnownGates(features, settings)

    def _joined(self, name: str, needs: Sequence[str]) -> Learned:
        learned = {component: gates[name] for component, gates in self.by_component.items()}
        if self.operator and name in EXTENDED and not all(learned[each].on for each in needs):
            return Learned(True, OPERATOR)
        for component, one in learned.items():
            if one.on is False:
                return Learned(False, f"{component}: {one.how}")
        unknown = {component: learned[component] for component in needs if learned[component].on is None}
        if unknown:
            return Learned(None, "; ".join(f"{component}: {one.how}" for component, one in unknown.items()))
        hows: dict[str, list[str]] = {}
        for component in needs:
            hows.setdefault(learned[component].how, []).append(component)
        return Learned(True, "; ".join(f"{', '.join(names)}: {how}" for how, names in hows.items()))


async def detect_gates(client: Client, namespaces: Iterable[str] = ("default",)) -> ClusterGates:
    """Return the gates of the cluster that *client* reaches; dry runs use the first of *namespaces* that takes them.

    Raises Unreachable when the API server does not answer; whatever else cannot be read is "not known".
    """
    server = await client.exchange("GET", "/metrics")
    named = _features(server.body) if server.code == 200 else {}
    if named:
        own = {
            name: Learned(
                named.get(name, False), "its /metrics" if name in named else "it does not have the gate"
            )
            for name in FEATURES
        }
    else:
        own = await _by_dry_run(client, tuple(dict.fromkeys(namespaces)), server)
    told = _component_features(server.body) if server.code == 200 else {}
    others = await asyncio.gather(
        *(_of_static_pod(client, *row) for row in _STATIC_PODS if row[0] not in told),
        *(() if KUBELET in told else (_of_kubelets(client),)),
    )
    learned = {API_SERVER: own, **told, **dict(others)}
    for name, one in own.items():
        if one.on is False and one.how.startswith(_NOT_THERE):  # nor can any other component have it
            for component in COMPONENTS[1:]:
                learned[component] = {**learned[component], name: one}
    return ClusterGates(
        {component: learned[component] for component in COMPONENTS}, await _has_operator(client)
    )


async def _has_operator(client: Client) -> bool:
    """Return whether weir's operator extends the cluster: its hooks are configured, as far as one may see."""
    place = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{MUTATING_CONFIGURATION}"
    answer = await _ask(client, place)
    return answer is not None and answer.code == 200


_NOT_THERE: Final = ("it does not have the gate", "Kubernetes v")


# ── metrics ──────────────────────────────────────────────────────────────────────────────────────


def _features(metrics: bytes) -> dict[str, bool]:
    gates = {}
    for labels, value in _ENABLED.findall(metrics):
        gates[_labels(labels).get("name", "")] = value == b"1"
    return gates


def _component_features(metrics: bytes) -> dict[str, dict[str, Learned]]:
    features: dict[str, dict[str, bool]] = {}
    for text, value in _COMPONENT_ENABLED.findall(metrics):
        labels = _labels(text)
        if component := _WEIR_NAMES.get(labels.get("component", "")):
            features.setdefault(component, {})[labels.get("name", "")] = value == b"1"
    return {component: _detected(named, "the API server's /metrics") for component, named in features.items()}


def _labels(text: bytes) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in _LABEL.findall(text)}


def _detected(named: Mapping[str, bool], how: str) -> dict[str, Learned]:
    return {name: Learned(named.get(name, False), how) for name in FEATURES}


def _not_known(why: str) -> dict[str, Learned]:
    return dict.fromkeys(FEATURES, Learned(None, why))


async def _of_static_pod(
    client: Client, component: str, label: str, port: int
) -> tuple[str, dict[str, Learned]]:
    """Return what a control-plane component that runs as a pod says of itself."""
    place = "/api/v1/namespaces/kube-system/pods"
    listed = await _ask(client, place, {"labelSelector": f"component={label}", "limit": 1})
    if listed is None or listed.code != 200:
        return component, _not_known("its metrics cannot be reached")
    items = msgspec.json.decode(listed.body).get("items") or []
    if not items:
        return component, _not_known(
            "it does not run as a pod of kube-system, where its metrics could be read"
        )
    name = items[0]["metadata"]["name"]
    answer = await _ask(client, f"{place}/https:{name}:{port}/proxy/metrics")
    if answer is not None and answer.code == 200 and (named := _features(answer.body)):
        return component, _detected(named, "its /metrics")
    return component, _not_known("its metrics cannot be reached")


async def _of_kubelets(client: Client) -> tuple[str, dict[str, Learned]]:
    """Return what kubelets say of themselves: a gate that one of them has off is off."""
    listed = await _ask(client, "/api/v1/nodes", {"limit": _MOST_KUBELETS})
    items = (
        msgspec.json.decode(listed.body).get("items") or []
        if listed is not None and listed.code == 200
        else []
    )
    pages = await asyncio.gather(
        *(_ask(client, f"/api/v1/nodes/{item['metadata']['name']}/proxy/metrics") for item in items)
    )
    features = [_features(page.body) for page in pages if page is not None and page.code == 200]
    features = [each for each in features if each]
    if not features:
        return KUBELET, _not_known("its metrics cannot be reached")
    named = {name: all(each.get(name, False) for each in features) for name in FEATURES}
    asked = "1 node" if len(features) == 1 else f"{len(features)} nodes"
    return KUBELET, _detected(named, f"/metrics of {asked}")


async def _ask(client: Client, path: str, query: Mapping[str, object] | None = None) -> Reply | None:
    """Return an answer that may be missing: a component behind a proxy that does not answer is not an error."""
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            return await client.exchange("GET", path, query)
    except (Unreachable, TimeoutError):
        return None


# ── the server's version, and dry runs ───────────────────────────────────────────────────────────


async def _by_dry_run(client: Client, namespaces: Sequence[str], metrics: Reply) -> dict[str, Learned]:
    """Return the API server's gates without its metrics: by its version, and else by dry runs."""
    minor, version = await _version(client)
    why = "you may not read its /metrics" if metrics.code in (401, 403) else "its /metrics do not say"
    gates = {}
    for name in FEATURES:
        since = SINCE.get(name)
        if since is not None and minor is not None and minor < since:
            gates[name] = Learned(False, f"Kubernetes {version} does not have it")
        else:
            gates[name] = await _probe(client, name, namespaces, why)
    return gates


async def _version(client: Client) -> tuple[int | None, str]:
    answer = await client.exchange("GET", "/version")
    if answer.code != 200:
        return None, ""
    version = msgspec.json.decode(answer.body)
    digits = re.match(r"\d+", str(version.get("minor", "")))
    return (int(digits.group()) if digits and version.get("major") == "1" else None), str(
        version.get("gitVersion", "")
    )


async def _probe(client: Client, gate: str, namespaces: Sequence[str], why: str) -> Learned:
    """Return whether the server takes an object that needs *gate*, in a dry run."""
    probe = _PROBES[gate]
    query = {"dryRun": "All", "fieldValidation": "Strict", "fieldManager": "weir"}
    served, answer = False, None
    for version, path in probe.places(namespaces):
        answer = await client.exchange("POST", path, query, {**probe.document, "apiVersion": version})
        if answer.code == 404:
            continue
        served = True
        if answer.code == 201:
            kept = probe.kept(msgspec.json.decode(answer.body))
            return Learned(kept, f"a dry run {'was accepted' if kept else 'lost the field'}")
        if answer.code in (400, 422) and probe.field in answer.body.decode(errors="replace"):
            return Learned(False, "a dry run was refused")
    if not served and not probe.namespaced:
        return Learned(False, "it does not serve the kind")
    code = answer.code if answer is not None else 0
    right = (
        "and you may not create objects in a dry run"
        if code in (401, 403)
        else "and a dry run was not judged"
    )
    return Learned(None, f"{why}, {right}")


@dataclass(frozen=True)
class _Probe:
    """An object that needs one gate, the field that does, and whether an answer still has it."""

    plural: str
    versions: tuple[str, ...]
    document: dict[str, Any]
    field: str
    kept: Callable[[Any], bool]

    @property
    def namespaced(self) -> bool:
        return self.plural == "pods"

    def places(self, namespaces: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield the version and the path to try, newest first."""
        for version in self.versions:
            root = f"/apis/{version}" if "/" in version else f"/api/{version}"
            for within in [f"namespaces/{name}/" for name in namespaces] if self.namespaced else [""]:
                yield version, f"{root}/{within}{self.plural}"


def _pod_probe(spec: dict[str, Any], field: str) -> _Probe:
    container = {
        "name": "probe",
        "image": "registry.k8s.io/pause",
        "resources": {amount: {"cpu": "1m", "memory": "1Mi"} for amount in ("requests", "limits")},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    document = {
        "kind": "Pod",
        "metadata": {"generateName": "weir-gate-probe-"},
        "spec": {"containers": [container], **spec},
    }
    return _Probe("pods", ("v1",), document, field, _keeps_toleration)


def _keeps_toleration(answer: Any) -> bool:
    tolerations = answer["spec"].get("tolerations") or []
    return any(each.get("expression") or each.get("key") == _KEY for each in tolerations)


def _keeps_taint(answer: Any) -> bool:
    return any(device.get("taints") for device in answer["spec"].get("devices") or [])


_RESOURCE_VERSIONS: Final = tuple(f"resource.k8s.io/{version}" for version in ("v1", "v1beta2", "v1alpha3"))
_KEY: Final = "weir.example.com/gate-probe"
_DRIVER: Final = "probe.weir.example.com"
_TAINT: Final = {"key": _KEY, "effect": "NoSchedule"}
_SLICE: Final = {
    "kind": "ResourceSlice",
    "metadata": {"generateName": "weir-gate-probe-"},
    "spec": {
        "driver": _DRIVER,
        "nodeName": "weir-gate-probe",
        "pool": {"name": "weir-gate-probe", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "probe", "taints": [_TAINT]}],
    },
}
_RULE: Final = {
    "kind": "DeviceTaintRule",
    "metadata": {"generateName": "weir-gate-probe-"},
    "spec": {"deviceSelector": {"driver": _DRIVER}, "taint": _TAINT},
}
_PROBES: Final = {
    TOLERATION_COMPARISON: _pod_probe(
        {"tolerations": [{"key": _KEY, "operator": "Gt", "value": "1"}]}, "tolerations"
    ),
    SEMVER_COMPARISON: _pod_probe(
        {"tolerations": [{"key": _KEY, "operator": "SemverGt", "value": "1.0.0"}]}, "tolerations"
    ),
    TOLERATION_CEL: _pod_probe({"tolerations": [{"expression": "false"}]}, "tolerations"),
    DEVICE_TAINTS: _Probe("resourceslices", _RESOURCE_VERSIONS, _SLICE, "taints", _keeps_taint),
    DEVICE_TAINT_RULES: _Probe(
        "devicetaintrules", _RESOURCE_VERSIONS, _RULE, "spec", lambda answer: bool(answer["spec"])
    ),
}
