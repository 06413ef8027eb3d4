"""Origins and IDs of device taints.

Spec: dra.md 3.1 (tracked taints), 3.5 "Taint IDs", 7.3 (how reasons are written); D-20. A rule's taint has one ID on
all its devices, whatever is edited in the rule. A driver's taint keeps its ID while key, value and effect stay, even
when it moves between slices, forms or generations. IDs of removed taints are kept for a while, because moving a taint
between slices takes two writes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

from weir.objects.core import Taint
from weir.objects.resource import DeviceID, DeviceTaint

#: How many numbers of taints that are gone are remembered.
REMEMBERED: Final = 10_000


class RuleOrigin:
    """The taint was put on the device by a DeviceTaintRule."""

    __slots__ = ("name", "uid")

    def __init__(self, name: str, uid: str = "") -> None:
        self.name, self.uid = name, uid

    def __str__(self) -> str:
        return f"DeviceTaintRule {self.name}"


class SliceOrigin:
    """The taint was published by the driver: entry *index* of a device's `taints`, or of the slice's own."""

    __slots__ = ("device", "form", "index", "slice")

    def __init__(self, slice_name: str, device: DeviceID, form: str, index: int) -> None:
        self.slice, self.device, self.form, self.index = slice_name, device, form, index

    def __str__(self) -> str:
        return f"ResourceSlice {self.slice} {self.device} taint #{self.index}"


Origin = RuleOrigin | SliceOrigin


class TrackedTaint:
    """A taint of a device with its origin and its number."""

    __slots__ = ("id", "origin", "plain", "taint")

    def __init__(self, taint: DeviceTaint, origin: Origin, number: int) -> None:
        self.taint, self.origin, self.id = taint, origin, number
        self.plain: Taint = taint.plain  #: what tolerations are compared with

    @property
    def content(self) -> tuple[str, str, str, str | None, int | None]:
        """What consumers are notified of when it changes."""
        taint = self.taint
        return (taint.key, taint.value, taint.effect, taint.time_added, taint.evictions_per_second)

    def __repr__(self) -> str:
        return f"TrackedTaint({self.taint} #{self.id} from {self.origin})"


class TaintNumbers:
    """Reference-counted numbers; recently released ones are remembered.

    >>> numbers = TaintNumbers()
    >>> [numbers.take("a"), numbers.take("b"), numbers.take("a")]
    [1, 2, 1]
    """

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._next = 1
        self._used: dict[Hashable, tuple[int, int]] = {}  # identity → number, uses
        self._past: OrderedDict[Hashable, int] = OrderedDict()
        self._remembered = remembered

    def take(self, identity: Hashable) -> int:
        """Return the number of *identity*, the one it had before if it is known."""
        found = self._used.get(identity)
        if found is not None:
            self._used[identity] = (found[0], found[1] + 1)
            return found[0]
        number = self._past.pop(identity, 0)
        if not number:
            number, self._next = self._next, self._next + 1
        self._used[identity] = (number, 1)
        return number

    def give_back(self, identity: Hashable) -> None:
        """Say that one user of *identity* is gone."""
        number, uses = self._used[identity]
        if uses > 1:
            self._used[identity] = (number, uses - 1)
            return
        del self._used[identity]
        self._past[identity] = number
        if len(self._past) > self._remembered:
            self._past.popitem(last=False)
