"""History of a story's cluster: pod lifetimes and events, from watches.

Terminating (deletionTimestamp) and deletion are two moments; the first is the decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from weir.objects.core import ENDED

Document = dict[str, Any]


class Watched(Protocol):
    """A cluster that can be watched, with its clock."""

    @property
    def now(self) -> datetime: ...

    def follow(self, kind: str, listener: Callable[[Document | None, Document | None], None]) -> None: ...


@dataclass
class Life:
    """One pod from the moment it was first seen to the moment it was gone."""

    namespace: str
    name: str
    uid: str
    document: Document  #: as last seen
    created_at: datetime
    node: str = ""
    bound_at: datetime | None = None
    running_at: datetime | None = None
    ended_at: datetime | None = None
    terminating_at: datetime | None = None  #: since when it is being deleted
    gone_at: datetime | None = None

    @property
    def phase(self) -> str:
        return str(self.document.get("status", {}).get("phase") or "Pending")

    @property
    def there(self) -> bool:
        return self.gone_at is None

    @property
    def disrupted(self) -> str | None:
        """Why it had to go, as its condition says."""
        condition = self.condition("DisruptionTarget")
        return condition.get("reason") if condition and condition.get("status") == "True" else None

    def condition(self, type: str) -> Document | None:
        """Return a condition of the pod as last seen."""
        conditions = self.document.get("status", {}).get("conditions") or ()
        return next((each for each in conditions if each.get("type") == type), None)

    def moments(self) -> list[tuple[datetime, str]]:
        """Return what happened to it, in order."""
        found = [
            (self.created_at, "created"),
            (self.bound_at, f"bound to {self.node}"),
            (self.running_at, "running"),
            (self.ended_at, f"ended {self.phase}"),
            (self.terminating_at, f"terminating ({self.disrupted})" if self.disrupted else "terminating"),
            (self.gone_at, "gone"),
        ]
        return sorted(((at, what) for at, what in found if at is not None), key=lambda each: each[0])

    def update(self, document: Document, now: datetime) -> None:
        """Take in what the pod looks like now."""
        self.document = document
        node = document["spec"].get("nodeName") or ""
        if node and self.bound_at is None:
            self.node, self.bound_at = node, now
        if self.phase == "Running" and self.running_at is None:
            self.running_at = now
        if self.phase in ENDED and self.ended_at is None:
            self.ended_at = now
        if document["metadata"].get("deletionTimestamp") and self.terminating_at is None:
            self.terminating_at = now


@dataclass
class History:
    """All pods there ever were, and every event, in order."""

    cluster: Watched
    lives: dict[str, Life] = field(default_factory=dict)  # uid → life, in the order of appearance
    events: list[tuple[datetime, Document]] = field(default_factory=list)

    def begin(self) -> None:
        """Watch from now on."""
        self.cluster.follow("Pod", self._pod)
        self.cluster.follow("Event", self._event)

    def _pod(self, old: Document | None, new: Document | None) -> None:
        now = self.cluster.now
        metadata = (new or old or {})["metadata"]
        uid = metadata["uid"]
        if new is None:
            life = self.lives.get(uid)
            if life is not None:
                life.gone_at = now
                life.terminating_at = life.terminating_at or now
            return
        if (
            old is not None
            and old["metadata"]["uid"] != uid
            and (past := self.lives.get(old["metadata"]["uid"]))
        ):
            past.gone_at = past.gone_at or now
            past.terminating_at = past.terminating_at or now
        if uid not in self.lives:
            self.lives[uid] = Life(metadata["namespace"], metadata["name"], uid, new, now)
        self.lives[uid].update(new, now)

    def _event(self, old: Document | None, new: Document | None) -> None:
        if new is not None:
            self.events.append((self.cluster.now, new))

    def find(self, namespace: str, name: str) -> Life | None:
        """Return the latest pod of a name, gone or not."""
        return next(
            (life for life in self._latest_first() if (life.namespace, life.name) == (namespace, name)), None
        )

    def _latest_first(self) -> Iterator[Life]:
        return reversed(self.lives.values())

    def of_workload(self, namespace: str, name: str) -> list[Life]:
        """Return the pods that a workload (or a ReplicaSet of it) ever had."""
        found = []
        for life in self.lives.values():
            owners = life.document["metadata"].get("ownerReferences") or ()
            names = [owner["name"] for owner in owners if owner.get("controller")]
            if life.namespace == namespace and any(
                owner == name or owner.rpartition("-")[0] == name for owner in names
            ):
                found.append(life)
        return found

    def events_about(self, kind: str, namespace: str, name: str) -> list[str]:
        """Return the events about an object, as "Reason: message", each once, in order.

        Without a kind the object is a workload, and its ReplicaSets count as well.
        """
        found = []
        for _, event in self.events:
            about = event.get("involvedObject") or event.get("regarding") or {}
            called = about.get("name", "")
            meant = called == name or (not kind and called.rpartition("-")[0] == name)
            if meant and kind in ("", about.get("kind")) and about.get("namespace", namespace) == namespace:
                found.append(f"{event.get('reason')}: {event.get('message') or event.get('note') or ''}")
        return list(dict.fromkeys(found))
