"""Warnings about accepted pods and pod templates.

Spec: apiserver.md 3.2 (`Warning` headers); upstream's list of warnings for pods. Pods warn on creation, templates
also when a change makes a new generation. Overlapping paths inside projected volumes are not warned about.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from typing import Any, Final

from weir.values.names import check_dns1123_label
from weir.values.quantity import find_quantity
from weir.values.quoting import quote

Document = dict[str, Any]

OLD_LABELS: Final = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
OLD_VOLUMES: Final = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
HOSTNAME_OF_POD: Final = "the Pod's hostname"
NO_POD: Final = "a null labelSelector results in matching no pod"
SECCOMP: Final = "seccomp.security.alpha.kubernetes.io/pod"
FRACTION: Final = "is invalid, must be an integer"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def name_warnings(name: str, used: str) -> tuple[str, ...]:
    """Return what a name that is no label means for the host names of pods; *used* says in what it is used.

    >>> [text[:60] for text in name_warnings("a.b", "the Pod's hostname")]
    ["metadata.name: this is used in the Pod's hostname, which can"]
    """
    problems = check_dns1123_label(name) if name else ()
    if not problems:
        return ()
    return (
        f"metadata.name: this is used in {used}, which can result in surprising behavior; a DNS label is "
        f"recommended: [{' '.join(problems)}]",
    )


def pod_warnings(spec: Document, metadata: Document, at: str = "") -> Iterator[str]:
    """Yield the warnings about a pod's spec; *at* is where the pod or template stands, with a dot at its end.

    >>> list(pod_warnings({"nodeSelector": {"beta.kubernetes.io/os": "linux"}}, {}))
    ['spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead']
    """
    for key in spec.get("nodeSelector") or ():
        if key in OLD_LABELS:
            yield f"{at}spec.nodeSelector[{key}]: {OLD_LABELS[key]}"
    affinity = spec.get("affinity") or {}
    if affinity:
        yield from _node_affinity(affinity.get("nodeAffinity") or {}, f"{at}spec.affinity.nodeAffinity")
    for i, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        where, key = f"{at}spec.topologySpreadConstraints[{i}]", constraint.get("topologyKey") or ""
        if key in OLD_LABELS:
            yield f"{where}.topologyKey: {key} is {OLD_LABELS[key]}"
        if constraint.get("labelSelector") is None:
            yield f"{where}.labelSelector: {NO_POD}"
    for i, volume in enumerate(spec.get("volumes") or ()):
        for name in volume:
            if name in OLD_VOLUMES:
                yield f"{at}spec.volumes[{i}].{name}: {OLD_VOLUMES[name]}"
    yield from _doubled(spec.get("hostAliases") or (), "ip", f"{at}spec.hostAliases")
    secrets = spec.get("imagePullSecrets") or ()
    yield from _doubled(secrets, "name", f"{at}spec.imagePullSecrets")
    for i, secret in enumerate(secrets):
        if not secret.get("name"):
            yield f'{at}spec.imagePullSecrets[{i}].name: invalid empty name ""'
    yield from _fractions(spec.get("overhead") or {}, f"{at}spec.overhead")
    if SECCOMP in (metadata.get("annotations") or ()) and not (spec.get("securityContext") or {}).get(
        "seccompProfile"
    ):
        where = f"{at}metadata.annotations[{SECCOMP}]"
        yield f'{where}: non-functional in v1.27+; use the "seccompProfile" field instead'
    for kind in ("initContainers", "containers"):
        for i, container in enumerate(spec.get(kind) or ()):
            yield from _container(container, f"{at}spec.{kind}[{i}]")
    for name in ("podAffinity", "podAntiAffinity") if affinity else ():
        yield from _pod_affinity(affinity.get(name) or {}, f"{at}spec.affinity.{name}")


def _container(container: Document, at: str) -> Iterator[str]:
    resources = container.get("resources") or {}
    for kind in ("limits", "requests"):
        yield from _fractions(resources.get(kind) or {}, f"{at}.resources.{kind}")
    seen: set[str] = set()
    for i, variable in enumerate(container.get("env") or ()):
        name, value = variable.get("name") or "", variable.get("value") or ""
        reference = f"$({name})"
        if name in seen and ("valueFrom" in variable or value == reference or reference not in value):
            yield f"{at}.env[{i}]: hides previous definition of {quote(name)}, which may be dropped when using apply"
        seen.add(name)
    yield from _ports(container.get("ports") or (), at)


def _ports(ports: Any, at: str) -> Iterator[str]:
    """Yield what is odd between two ports. Only those are held against each other that have to do with each other."""
    by_port: dict[Any, dict[Any, list[tuple[int, Any]]]] = {}
    for i, port in enumerate(ports):
        where = f"{at}.ports[{i}]"
        host, ip = port.get("hostPort") or 0, port.get("hostIP") or ""
        known = by_port.setdefault((port.get("containerPort"), port.get("protocol")), {})
        if not host:
            related = [known.get("all", [])]
        else:
            related = [known.get(key, []) for key in ((0,), (host, ip), (host, not ip))]
        for j, (theirs, their_ip) in merge(*related):
            place = f"{at}.ports[{j}]"
            if (host, ip) == (theirs, their_ip):
                yield f"{where}: duplicate port definition with {place}"
            elif not host or not theirs:
                yield f"{where}: overlapping port definition with {place}"
            else:
                yield f"{where}: dangerously ambiguous port definition with {place}"
        # The same port again, without a host's, and whether it names an address: by these it is looked for.
        for key in ("all", (host, ip), (host, bool(ip))) if host else ("all", (0,)):
            known.setdefault(key, []).append((i, (host, ip)))


def _fractions(amounts: Document, at: str) -> Iterator[str]:
    for name in ("memory", "ephemeral-storage"):
        text = amounts.get(name)
        if not isinstance(text, str) or not text.endswith(("m", "u", "n")):
            continue
        amount = find_quantity(text)
        if amount is not None and amount.milli_value % 1000:
            yield f"{at}[{name}]: fractional byte value {quote(str(amount))} {FRACTION}"


def _doubled(items: Any, name: str, at: str) -> Iterator[str]:
    seen: set[str] = set()
    for i, item in enumerate(items):
        value = item.get(name) or ""
        if value in seen:
            yield f"{at}[{i}].{name}: duplicate {name} {quote(value)}"
        seen.add(value)


def _node_affinity(affinity: Document, at: str) -> Iterator[str]:
    required = (affinity.get(REQUIRED) or {}).get("nodeSelectorTerms") or ()
    preferred = [entry.get("preference") or {} for entry in affinity.get(PREFERRED) or ()]
    for i, term in enumerate(required):
        yield from _term(term, f"{at}.{REQUIRED}.nodeSelectorTerms[{i}]")
    for i, term in enumerate(preferred):
        yield from _term(term, f"{at}.{PREFERRED}[{i}].preference")


def _term(term: Document, at: str) -> Iterator[str]:
    for i, expression in enumerate(term.get("matchExpressions") or ()):
        key = expression.get("key") or ""
        if key in OLD_LABELS:
            yield f"{at}.matchExpressions[{i}].key: {key} is {OLD_LABELS[key]}"


def _pod_affinity(affinity: Document, at: str) -> Iterator[str]:
    for i, term in enumerate(affinity.get(REQUIRED) or ()):
        if term.get("labelSelector") is None:
            yield f"{at}.{REQUIRED}[{i}].labelSelector: {NO_POD}"
    for i, entry in enumerate(affinity.get(PREFERRED) or ()):
        if (entry.get("podAffinityTerm") or {}).get("labelSelector") is None:
            yield f"{at}.{PREFERRED}[{i}].podAffinityTerm.labelSelector: {NO_POD}"
