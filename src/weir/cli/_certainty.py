"""Unknown gates and unreadable kinds of a cluster, and their effect on a result.

Unknowns are stated, never assumed: an unknown gate makes two results, an unreadable kind none. Either exits with 3.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from weir.cli._options import ClusterSource, Option
from weir.gates import FEATURES, GateError, Gates, parse_settings

if TYPE_CHECKING:
    from weir.client.known_gates import KnownGates
    from weir.client.snapshot import Missing
    from weir.client.snapshot_record import Record

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


def asked_gates_option() -> Option:
    """Return `--feature-gates` of a command that asks about a cluster, as the argument `given`: gate → on."""

    def read(ctx: click.Context, parameter: click.Parameter, text: str | None) -> Mapping[str, bool]:
        try:
            settings = parse_settings(text or "")
            Gates(settings)
        except GateError as error:
            raise click.BadParameter(str(error), param_hint="--feature-gates") from None
        return settings

    return click.option(
        "--feature-gates",
        "given",
        metavar="A=true,B=false",
        callback=read,
        help="What you know of the cluster's gates, in Kubernetes' form; the others are learned from a live cluster. "
        "[default for files: the features of the four KEPs are on]",
    )


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
    from weir.client.known_gates import KnownGates

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
    from weir.explain.phrases import listed

    by_reason: dict[str, list[str]] = {}
    for each in missing:
        by_reason.setdefault(each.why, []).append(each.plural)
    return "; ".join(f"{listed(names, 10)} could not be read: {why}" for why, names in by_reason.items())
