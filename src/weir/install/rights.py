"""RBAC rules of the operator, each with its reason; the roles are made from this list.

Least privilege: rules name objects where they have a fixed name, so the operator can change only its own Secret and its
own two webhook configurations. It reads no other Secret, deletes nothing, and creates nothing outside of its own
namespace but events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from weir.lowering.names import OPERATOR, SENTINEL, part_name
from weir.lowering.triples import MOST_PARTS
from weir.lowering.webhooks import MUTATING_CONFIGURATION, VALIDATING_CONFIGURATION
from weir.operator.control_plane import API_SERVERS

#: The Secret with the certificate and the path secrets of the hooks.
CERTIFICATES: Final = "weir-operator-certificates"


@dataclass(frozen=True, slots=True)
class Right:
    """Something the operator may do: in the whole cluster, or only in its own namespace."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    names: tuple[str, ...] = ()  #: only these objects
    own: bool = False  #: only in the operator's namespace

    def rule(self) -> dict[str, Any]:
        """Return the rule of a role that gives it."""
        rule: dict[str, Any] = {
            "apiGroups": [self.group],
            "resources": list(self.resources),
            "verbs": list(self.verbs),
        }
        if self.names:
            rule["resourceNames"] = list(self.names)
        return rule


_WATCH: Final = ("list", "watch")

RIGHTS: Final = (
    Right(
        "",
        ("pods",),
        ("get", "list", "watch", "patch"),
        "knows every extended pod before a node gets a taint; appends entries to it and lifts its own gate",
    ),
    Right(
        "",
        ("nodes",),
        ("get", "list", "watch", "patch"),
        "knows the taints that exist; keeps the labels that stand for SemVer requirements and DaemonSets",
    ),
    Right(
        "apps",
        ("daemonsets",),
        ("get", *_WATCH),
        "keeps the label of the nodes that each lowered DaemonSet may use",
    ),
    Right(
        "apps",
        ("replicasets", "statefulsets"),
        ("list",),
        "finds, at its start, extended workloads whose pods were refused while no operator answered",
    ),
    Right(
        "apps",
        ("daemonsets/status", "replicasets/status", "statefulsets/status"),
        ("patch",),
        "lets their controllers look again at once: sets `observedGeneration` back by one",
    ),
    Right(
        "",
        ("persistentvolumes",),
        _WATCH,
        "keeps the labels that lowered volumes ask for, as long as the volume lives",
    ),
    Right(
        "discovery.k8s.io",
        ("endpointslices",),
        ("get",),
        "counts the API servers: with several, bound pods get grace entries",
        names=(API_SERVERS,),
    ),
    Right(
        "",
        ("events",),
        ("create", "patch"),
        "says on nodes, workloads and their pods what was lowered, refused or capped",
    ),
    Right(
        "admissionregistration.k8s.io",
        ("mutatingwebhookconfigurations",),
        ("get", *_WATCH, "patch"),
        "lets the API server trust a renewed certificate, call a rotated path, and know the keys in use",
        names=(MUTATING_CONFIGURATION,),
    ),
    Right(
        "admissionregistration.k8s.io",
        ("validatingwebhookconfigurations",),
        ("get", *_WATCH, "patch"),
        "the same for the barrier before nodes",
        names=(VALIDATING_CONFIGURATION,),
    ),
    Right(
        "",
        ("secrets",),
        ("get", *_WATCH, "update"),
        "makes and renews the certificate and the path secrets of the hooks",
        names=(CERTIFICATES,),
        own=True,
    ),
    Right(
        "",
        ("configmaps",),
        ("get", "patch"),
        "remembers every taint that pods have entries for",
        names=tuple(map(part_name, range(MOST_PARTS))),
        own=True,
    ),
    Right(
        "",
        ("pods/status",),
        ("patch",),
        "counts up the sentinel's address, which kube-controller-manager answers (the confirm step)",
        names=(SENTINEL,),
        own=True,
    ),
    Right("discovery.k8s.io", ("endpointslices",), _WATCH, "reads that answer", own=True),
    Right("", ("services",), ("get",), "reads the sentinel's address family", names=(SENTINEL,), own=True),
    Right(
        "",
        ("pods", "services", "configmaps"),
        ("create",),
        "makes the sentinel and its table again if somebody deleted them (create cannot be given by name)",
        own=True,
    ),
    Right(
        "",
        ("podtemplates",),
        ("create",),
        "asks in a dry run, which stores nothing, whether the cluster has Gt and Lt itself",
        own=True,
    ),
    Right("coordination.k8s.io", ("leases",), ("create",), "elects a leader", own=True),
    Right(
        "coordination.k8s.io",
        ("leases",),
        ("get", "update"),
        "renews the leader's lease",
        names=(OPERATOR,),
        own=True,
    ),
)


def table() -> str:
    """Return the rights as the table of the documentation."""
    rows = [
        f"| {', '.join(f'`{each}`' for each in right.resources)}"
        f"{' ' + ', '.join(f'`{name}`' for name in right.names) if right.names else ''} "
        f"| {', '.join(right.verbs)} | {'its namespace' if right.own else 'the cluster'} | {right.why} |"
        for right in RIGHTS
    ]
    return "\n".join(("| what | may | where | why |", "|---|---|---|---|", *rows))
