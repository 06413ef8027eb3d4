"""Removes other stories' nodes from scheduler messages.

A message that a pod fits nowhere counts every node of the cluster. Nodes of other stories are rejected for their
isolating taint, other nodes for a taint or the label that the pod selects; these counts are removed.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from weir.conformance.renaming import LABEL

_AVAILABLE: Final = re.compile(r"0/(\d+) nodes are available: (.*)\.", re.DOTALL)
_REASON: Final = re.compile(r"(\d+) (.*)", re.DOTALL)
_UNNAMED: Final = "node(s) had untolerated taint(s)"
#: What the plugin for claims says of its own try to help, in 1.35.
_OF_CLAIMS: Final = re.compile(r" (?:no new claims to deallocate|still not schedulable),")
_PREEMPTION: Final = " preemption: "
_SELECTOR: Final = "node(s) didn't match Pod's node affinity/selector"
#: Nodes of other stories come and go while the scheduler looks at them.
_OF_NODES: Final = ("node.kubernetes.io/not-ready: ", "node.kubernetes.io/unreachable: ")
_NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"


def own_part(message: str, own: int, foreign_taints: Collection[str] = ()) -> str:
    """Return *message* as it would be with the story's *own* nodes only.

    *foreign_taints* are those of the cluster's own nodes, as the scheduler writes them: `key: value`.

    >>> said = "2 node(s) had untolerated taint {weir.dev/conformance: x-01}"
    >>> own_part(f"0/3 nodes are available: 1 Too many pods, {said}.", 1)
    '0/1 nodes are available: 1 Too many pods.'
    """
    first, between, second = _OF_CLAIMS.sub("", message).partition(_PREEMPTION)
    foreign = {f"node(s) had untolerated taint {{{taint}}}" for taint in (*foreign_taints, *_OF_NODES)}
    said = _own(first, own, foreign, _SELECTOR)
    return f"{said}{between}{_own(second, own, set(), _NOT_HELPFUL)}" if between else said


def _own(text: str, own: int, foreign: set[str], default: str) -> str:
    found = _AVAILABLE.fullmatch(text)
    if found is None:
        return text
    others = int(found[1]) - own
    reasons = []
    for part in re.split(r", (?=\d+ )", found[2]):
        counted = _REASON.fullmatch(part)
        if counted is None:
            return text
        reasons.append((int(counted[1]), counted[2]))
    for applies in (
        lambda reason: f"{{{LABEL}: " in reason,
        lambda reason: reason in foreign,
        lambda reason: reason == default,
        lambda reason: reason == _UNNAMED,
    ):
        left = []
        for number, reason in reasons:
            taken = min(number, others) if applies(reason) else 0
            others -= taken
            left.append((number - taken, reason))
        reasons = left
    shown = sorted(f"{number} {reason}" for number, reason in reasons if number)
    return f"0/{own} nodes are available: {', '.join(shown)}."
