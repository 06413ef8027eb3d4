"""Names of the markers, annotations, gates and labels that lowering writes.

Spec: stock.md 4. A marker stands where an extended entry of the user's was, an annotation holds that entry, the gate
holds a pod until its entries are complete, and a synthetic label stands for a requirement that the scheduler cannot
evaluate. A name ends in a hash of the original: equal originals share it. `tolerationSeconds` is no part of a
toleration's hash. Kubernetes lets it be changed on a living pod, and then the marker must stay the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

DOMAIN: Final = "lowered.weir.dev"

#: Stands where an extended toleration stood.
MARKER_PREFIX: Final = f"{DOMAIN}/x-"
#: The original tolerations by hash, on pods and templates.
TOLERATIONS: Final = f"{DOMAIN}/tolerations"
#: Tolerations that an author writes where the API server stores them as they are: a list, on pods and pod templates.
ANNOTATED: Final = "weir.dev/tolerations"
#: Node affinity that an author writes in the same way.
ANNOTATED_AFFINITY: Final = "weir.dev/node-affinity"
#: The original node selector requirements by hash, on pods, templates and PersistentVolumes.
REQUIREMENTS: Final = f"{DOMAIN}/requirements"
#: The scheduling gate of a pod whose entries are not yet known to be complete.
GATE: Final = f"{DOMAIN}/pending"
#: Stands before the entries that give a bound pod time (weir.lowering.grace).
GRACE: Final = f"{DOMAIN}/grace"
#: Stands before entries for whole keys, and names the annotation with their rule (weir.lowering.key_entries).
KEY_ENTRIES: Final = f"{DOMAIN}/keys"
#: A synthetic node label: tolerations with key entries tolerate the node's taints.
TOLERATED_PREFIX: Final = f"{DOMAIN}/t-"
#: A synthetic node label: the node satisfies what the hash stands for.
LABEL_PREFIX: Final = f"{DOMAIN}/a-"
LABEL_VALUE: Final = "true"

# ── what the installation is made of ─────────────────────────────────────────────────────────────

NAMESPACE: Final = "weir-system"
OPERATOR: Final = (
    "weir-operator"  #: Deployment, Service, ServiceAccount, Lease, field manager, source of events
)
SENTINEL: Final = "weir-sentinel"  #: the pod and the headless Service of the confirm step
SENTINEL_GATE: Final = f"{DOMAIN}/sentinel"  #: keeps the sentinel from ever being scheduled
KNOWN_TRIPLES: Final = "weir-triples"  #: the ConfigMap with every taint that pods have entries for
PARTS: Final = f"{DOMAIN}/parts"  #: on that ConfigMap: how many there are, where one is not enough

_HASH_LENGTH: Final = 20


def part_name(number: int) -> str:
    """Return the name of one ConfigMap of the table of taints; the first is number 0."""
    return f"{KNOWN_TRIPLES}-{number + 1}" if number else KNOWN_TRIPLES


def toleration_hash(entry: Mapping[str, Any]) -> str:
    """Return the hash of an original toleration; an empty field is an absent one.

    >>> toleration_hash({"key": "sla", "operator": "Gt", "value": "900"})
    'fdcc9d2b737318a9a2b8'
    """
    return _hash({name: entry.get(name) or "" for name in ("key", "operator", "value", "effect")})


def requirement_hash(requirement: Mapping[str, Any]) -> str:
    """Return the hash of an original node selector requirement."""
    return _hash(
        {
            "key": requirement.get("key") or "",
            "operator": requirement.get("operator") or "",
            "values": list(requirement.get("values") or ()),
        }
    )


def daemonset_hash(namespace: str, name: str, tolerations: list[Any]) -> str:
    """Return the hash for the nodes that a DaemonSet with these original *tolerations* may use."""
    return _hash({"namespace": namespace, "name": name, "tolerations": tolerations})


def marker_key(hash_: str) -> str:
    """Return the key of the marker for the toleration with this hash."""
    return MARKER_PREFIX + hash_


def marked_hash(key: str) -> str:
    """Return the hash in a marker's key, or "" when *key* is no marker's.

    >>> marked_hash("lowered.weir.dev/x-12ab"), marked_hash("sla")
    ('12ab', '')
    """
    return key.removeprefix(MARKER_PREFIX) if key.startswith(MARKER_PREFIX) else ""


def label_key(hash_: str) -> str:
    """Return the synthetic label for the requirement, or the DaemonSet, with this hash."""
    return LABEL_PREFIX + hash_


def labelled_hash(key: str) -> str:
    """Return the hash in a synthetic label's key, or "" when *key* is none."""
    return key.removeprefix(LABEL_PREFIX) if key.startswith(LABEL_PREFIX) else ""


def tolerations_label(rule: Mapping[str, Any]) -> str:
    """Return the synthetic label of nodes whose taints a pod's tolerations meet as *rule* says."""
    return TOLERATED_PREFIX + _hash(rule)


def is_rule_label(key: str) -> bool:
    """Return whether a label stands for the tolerations of pods with key entries."""
    return key.startswith(TOLERATED_PREFIX)


def is_synthetic(key: str) -> bool:
    """Return whether a node label is one of weir's."""
    return key.startswith(LABEL_PREFIX) or is_rule_label(key)


def _hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]
