"""Device tolerations against device taints.

Spec: KEP-5055 "Semantics", dra.md 2 "Toleration matching", D-15. A device toleration matches exactly as a pod's
(weir.taints.toleration): same operators, gates and expressions. Every taint needs its own toleration, also next to
another of the same key; an effect this version does not know, like `None`, rejects nothing; tolerationSeconds is
ignored here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weir.devices.origin import TrackedTaint
from weir.gates import Gates
from weir.objects.resource import DeviceToleration
from weir.taints.toleration import BLOCKING, Evaluate, find_tolerating, tolerates

__all__ = ["tolerates", "untolerated"]


def untolerated(
    taints: Iterable[TrackedTaint],
    tolerations: Sequence[DeviceToleration],
    gates: Gates,
    evaluate: Evaluate | None = None,
) -> list[TrackedTaint]:
    """Return the taints that keep a request away from a device, in their own order, each with its origin.

    >>> from weir.devices.origin import RuleOrigin
    >>> from weir.objects.resource import DeviceTaint
    >>> hot = TrackedTaint(DeviceTaint("hot", "", "NoSchedule"), RuleOrigin("cool-down"), 1)
    >>> [str(taint.origin) for taint in untolerated([hot], [], Gates())]
    ['DeviceTaintRule cool-down']
    >>> untolerated([hot], [DeviceToleration("hot", "Exists")], Gates())
    []
    """
    return [
        taint
        for taint in taints
        if taint.plain.effect in BLOCKING
        and find_tolerating(tolerations, taint.plain, gates, evaluate) is None
    ]
