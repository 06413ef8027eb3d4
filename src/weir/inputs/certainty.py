"""Unknown gates and unreadable kinds of a cluster, and their effect on a result.

Unknowns are stated, never assumed: an unknown gate makes two results, an unreadable kind none. Either exits with 3.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from weir.client.known_gates import OPERATOR, KnownGates
from weir.client.snapshot import Missing
from weir.client.snapshot_record import Record
from weir.explain.phrases import listed
from weir.explain.subject import Subject
from weir.gates import FEATURES, Gates
from weir.inputs.cluster import ClusterObjects
from weir.inputs.live import ClusterSource
from weir.lowering.originals import extended_entries
from weir.lowering.tolerations import read_entry
from weir.taints.toleration import gate_of

T = TypeVar("T")

_DEVICE_KINDS: Final = (
    "DeviceClass",
    "ResourceSlice",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "DeviceTaintRule",
)
_VOLUME_KINDS: Final = ("PersistentVolumeClaim", "PersistentVolume", "StorageClass")


# ── gates ────────────────────────────────────────────────────────────────────────────────────────


def known_gates(
    where: ClusterSource | None,
    given: Mapping[str, bool],
    needs: Iterable[str],
    namespaces: Iterable[str] = ("default",),
    record: Record | None = None,
) -> KnownGates:
    """Return the gates an answer may use that depends on the components *needs*.

    Of a snapshot what its *record* says; of other files (None), the default.
    """
    from weir.client.cluster_gates import detect_gates

    if where is not None and where.dump and record is not None and record.gates is not None:
        return record.gates.known(needs, given)
    if where is None or where.dump or given.keys() >= set(FEATURES):
        return KnownGates.default(given)
    return where.live.run("weir", lambda client: detect_gates(client, namespaces)).known(needs, given)


def distinct(
    known: KnownGates, used: Collection[str], answer: Callable[[Gates], T], same: Callable[[T, T], bool]
) -> list[tuple[Gates, T]]:
    """Return the answers with the gates they hold for: one, or two where an unknown gate in *used* decides."""
    answers = [(gates, answer(gates)) for gates in known.possible(used)]
    if len(answers) == 2 and same(answers[0][1], answers[1][1]):
        return answers[:1]
    return answers


def doubt(known: KnownGates, used: Collection[str], gates: Gates) -> str:
    """Return the heading of one of two answers."""
    names = [name for name in known.unknown if name in used]
    state = "on" if gates.enabled(names[0]) else "off"
    return f"If {' and '.join(names)} {'are' if len(names) > 1 else 'is'} {state} in the cluster (not known):"


# ── kinds ────────────────────────────────────────────────────────────────────────────────────────


def needed_kinds(pod_spec: Any) -> frozenset[str]:
    """Return the kinds that decide where a pod may run.

    >>> sorted(needed_kinds({"resourceClaims": [{"name": "gpu"}]}) - needed_kinds({}))[:2]
    ['DeviceClass', 'DeviceTaintRule']
    """
    spec = pod_spec if isinstance(pod_spec, dict) else {}
    needed = ["Node", "Pod"]
    if spec.get("resourceClaims"):
        needed += _DEVICE_KINDS
    volumes = spec.get("volumes")
    if any(isinstance(v, dict) and {"persistentVolumeClaim", "ephemeral"} & v.keys() for v in volumes or ()):
        needed += _VOLUME_KINDS
    if "namespaceSelector" in str(spec.get("affinity") or ""):
        needed.append("Namespace")
    return frozenset(needed)


def because(missing: Sequence[Missing]) -> str:
    """Return what could not be read, and why.

    >>> from weir.client.snapshot import MAY_NOT_LIST, Missing
    >>> because([Missing("Node", "nodes", MAY_NOT_LIST), Missing("Pod", "pods", MAY_NOT_LIST)])
    'nodes and pods could not be read: you may not list them'
    """
    by_reason: dict[str, list[str]] = {}
    for each in missing:
        by_reason.setdefault(each.why, []).append(each.plural)
    return "; ".join(f"{listed(names, 10)} could not be read: {why}" for why, names in by_reason.items())


def through_operator(subject: Subject, known: KnownGates, held: ClusterObjects) -> list[dict[str, Any]]:
    """Return the tolerations that a pod has only through weir's operator, as they were written."""
    return [
        each
        for each in extended_entries(subject.document)
        if held.lowered or known.features[gate_of(read_entry(each))].how == OPERATOR
    ]


def deciding(held: ClusterObjects) -> Iterator[tuple[str, Any]]:
    """Yield what the cluster holds that may need gates to be judged: volumes, devices and rules, not other pods."""
    for file, document in held.documents:
        kind = document.get("kind") if isinstance(document, dict) else None
        if kind in ("PersistentVolume", "ResourceSlice", "DeviceTaintRule", "List"):
            yield file, document
