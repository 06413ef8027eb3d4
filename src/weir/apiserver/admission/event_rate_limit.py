"""EventRateLimit: limits event writes per server, namespace, user, or source and object.

Spec: decision 16. Off by default; its limits come from a file (weir.apiserver.admission.configuration). Every limit
is charged for every event, also when another rejected it. Unlike upstream, events.k8s.io counts, too. `weir up` sets
a limit for users outside `system:masters` (`OF_WEIR_UP`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final, NamedTuple

from weir import errors
from weir.apiserver.admission.attributes import CREATE, UPDATE, Attributes
from weir.apiserver.auth.authn import MASTERS
from weir.objects.kind import Kind

CACHE_SIZE: Final = 4096
SERVER, NAMESPACE, USER, SOURCE = TYPES = ("Server", "Namespace", "User", "SourceAndObject")


class Limit(NamedTuple):
    """One limit: *qps* events a second for each key, and *burst* at once."""

    type: str
    qps: int
    burst: int
    cache_size: int = CACHE_SIZE  #: how many keys are remembered


OF_WEIR_UP: Final = (Limit(USER, 50, 5000),)


def key_of(limit: str, a: Attributes) -> str:
    """Return what a limit of this type counts by."""
    if limit == NAMESPACE:
        return a.namespace
    if limit == USER:
        return a.user.name
    if limit == SERVER or a.object is None:
        return ""
    source = a.object.get("source") or a.object.get("deprecatedSource") or {}
    about = a.object.get("involvedObject") or a.object.get("regarding") or {}
    parts = [source.get(name) for name in ("component", "host")]
    parts += [about.get(name) for name in ("kind", "namespace", "name", "uid", "apiVersion")]
    return "".join(str(part or "") for part in parts)


class _Buckets:
    """Token buckets by key, least recently used first out."""

    def __init__(self, limit: Limit) -> None:
        self.limit = limit
        self._held: OrderedDict[str, tuple[float, float]] = (
            OrderedDict()
        )  # tokens, and when they were counted

    def take(self, key: str, now: float) -> bool:
        """Take a token; False when there is none."""
        tokens, then = self._held.pop(key, (float(self.limit.burst), now))
        tokens = min(float(self.limit.burst), tokens + (now - then) * self.limit.qps)
        found = tokens >= 1.0
        self._held[key] = (tokens - 1.0 if found else tokens, now)
        if len(self._held) > self.limit.cache_size:
            self._held.popitem(last=False)
        return found


class EventRateLimit:
    name = "EventRateLimit"

    def __init__(
        self, limits: Sequence[Limit], *, spare_masters: bool = False, now: Callable[[], float] = monotonic
    ) -> None:
        """Set the limits; with *spare_masters*, system:masters is exempt."""
        self._buckets = [_Buckets(limit) for limit in limits]
        self._spare_masters, self._now = spare_masters, now

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        return kind.kind == "Event" and operation in (CREATE, UPDATE)

    def validate(self, a: Attributes) -> None:
        if a.dry_run or (self._spare_masters and MASTERS in a.user.groups):
            return
        now, reached = self._now(), []
        for buckets in self._buckets:
            key = key_of(buckets.limit.type, a)
            if not buckets.take(key, now):
                reached.append(f"limit reached on type {buckets.limit.type} for key {key}")
        if reached:
            text = reached[0] if len(reached) == 1 else f"[{', '.join(reached)}]"
            raise errors.TooManyRequests(f"Too many requests: {text}", details=None)
