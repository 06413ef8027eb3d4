"""What to do before a feature is removed, and the order in which components change, read from stored objects.

Spec: core.md 8.1 "Required order", each KEP's "Upgrade / Downgrade Strategy" and "Version Skew Strategy".
An API server without a feature refuses what controllers make from templates that use it; controllers without it evict
what runs because of it. An older release drops the fields it does not know with the first write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from weir.gates import DEVICE_TAINT_RULES, DEVICE_TAINTS, TOLERATION_CEL
from weir.objects.templates import TEMPLATE_PATHS, find_template
from weir.taints.features import needed_gates

Document = Mapping[str, Any]
#: In which order components lose a feature, and get one: who accepts and places stops first, who keeps comes last.
DOWN: Final = ("apiserver", "scheduler", "controllers", "kubelet")
UP: Final = tuple(reversed(DOWN))
#: The same for taints of devices, which forbid where the others allow: who evicts comes last and goes first, so that
#: no scheduler places again and again what controllers evict. Kubelets do not judge them.
DEVICES_DOWN: Final = ("controllers", "scheduler", "apiserver")
DEVICES_UP: Final = tuple(reversed(DEVICES_DOWN))
DEVICE_GATES: Final = frozenset({DEVICE_TAINTS, DEVICE_TAINT_RULES})
NAMES: Final = {
    "apiserver": "kube-apiserver",
    "scheduler": "kube-scheduler",
    "controllers": "kube-controller-manager",
    "kubelet": "kubelets",
}
#: How a line begins that only says in which order to go.
ORDER: Final = "order: "
#: How many objects of a kind are named; of more it says how many.
SHOWN: Final = 5


def advice(
    documents: Iterable[Document],
    going: Iterable[str],
    coming: Iterable[str],
    components: Sequence[str],
    to: str = "",
) -> list[str]:
    """Return what to know before gates or releases change, a line each; nothing when nothing stored uses them.

    *going* and *coming* are gates that are switched off and on in *components*; *to* is the older release they go to.
    """
    held = list(documents)
    lost, won = frozenset(going), frozenset(coming)
    lines: list[str] = []
    if not components or "apiserver" in components:
        lines += _listed(
            _refused(held, lost), "would be refused when their controllers make pods (again and again)"
        )
    lines += _listed(_removed_first(held, lost, to), "should be removed or rewritten first")
    if lost and lines:
        if lost <= DEVICE_GATES:
            lines += _ordered(DEVICES_DOWN, components, "delete rules before the first")
        else:
            lines += _ordered(DOWN, components, "rewrite templates and delete pending pods before the first")
    elif won:
        up = DEVICES_UP if won <= DEVICE_GATES else UP
        lines += _ordered(up, components, "use the feature only after the last")
    return lines


def _ordered(order: Sequence[str], components: Sequence[str], when: str) -> Iterator[str]:
    names = [NAMES[name] for name in order if not components or name in components]
    if names:
        yield f"{ORDER}{' → '.join(names)}; {when}"


def _listed(found: Iterable[str], what: str) -> Iterator[str]:
    names = sorted(dict.fromkeys(found))
    if names:
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        yield f"{', '.join(names[:SHOWN])}{more}: {what}"


def name_of(document: Document) -> str:
    """Return `kind/namespace/name` as on a command line.

    >>> name_of({"kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}})
    'deployment/shop/web'
    """
    metadata = document.get("metadata") or {}
    parts = (str(document.get("kind", "")).lower(), metadata.get("namespace", ""), metadata.get("name", ""))
    return "/".join(filter(None, parts))


def _refused(documents: Iterable[Document], lost: frozenset[str]) -> Iterator[str]:
    """Yield the workloads whose template uses a feature that the API server will not accept any more."""
    for document in documents:
        kind = document.get("kind")
        if kind not in TEMPLATE_PATHS or kind in ("Pod", "PodTemplate") or is_owned(document):
            continue
        if needed_gates([document]) & lost:
            yield name_of(document)


def is_owned(document: Document) -> bool:
    """Return whether a controller made it: ReplicaSets of a Deployment and Jobs of a CronJob go with what made them."""
    owners = (document.get("metadata") or {}).get("ownerReferences") or ()
    return any(each.get("controller") for each in owners)


def _removed_first(documents: Iterable[Document], lost: frozenset[str], to: str) -> Iterator[str]:
    """Yield what an API server without the feature, or of an older release, keeps but cannot mean any more."""
    for document in documents:
        kind, spec = document.get("kind"), document.get("spec") or {}
        if kind == "DeviceTaintRule" and (to or lost & DEVICE_GATES):
            taint = spec.get("taint") or {}
            why = []
            if taint.get("effect") == "None":
                why.append("effect None")
            if taint.get("evictionsPerSecond") is not None:
                why.append("a rate, without which all pods leave at once")
            yield f"{name_of(document)} ({', '.join(why)})" if why else name_of(document)
        elif to or TOLERATION_CEL in lost:
            template = find_template(document) if not is_owned(document) else None
            tolerations = ((template or {}).get("spec") or {}).get("tolerations") or ()
            if any(isinstance(each, dict) and each.get("expression") for each in tolerations):
                yield f"{name_of(document)} (expression)"
