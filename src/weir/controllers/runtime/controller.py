"""The Controller interface, and the actions that a controller decides on, as values.

A controller holds no client and never awaits: `changed` maps an event to keys, `reconcile` maps a key to actions. Every
action is idempotent: deleting an absent object, patching to the present state or recording an event twice does no harm.
Unit tests check these values without a server.
"""

from __future__ import annotations

import abc
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from weir.client.api import MERGE_PATCH, Client
from weir.client.cache import ObjectKey
from weir.client.events import ObjectReference, Recorder
from weir.clock import Clock
from weir.controllers.runtime.custom_kinds import CustomKinds
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.metrics import ControllerMetrics
from weir.controllers.runtime.pod_eviction import PodEviction
from weir.gates import Gates
from weir.objects.kind import Kind
from weir.observe.logs import Log

Document = Mapping[str, Any]


class Record(msgspec.Struct, frozen=True):
    """Record an event."""

    about: ObjectReference
    type: str  #: Normal or Warning
    reason: str
    message: str


class WakeAt(msgspec.Struct, frozen=True):
    """Reconcile *key* again at this time, if nothing did before."""

    key: Hashable
    at: datetime


class Evict(msgspec.Struct, frozen=True):
    """Write on the pod why it goes (condition DisruptionTarget), then delete it."""

    eviction: PodEviction
    due: datetime  #: when it should have happened, for the lateness metric


class Create(msgspec.Struct, frozen=True):
    """Create an object; the answer may be a refusal, which is recorded as an event about *about* (its owner)."""

    kind: Kind
    document: Document
    namespace: str = ""
    about: ObjectReference | None = None
    generation: int = 0  #: the owner's: what was refused of one generation may be accepted of another
    event_message: str = ""  #: the event's message, where it is not "Created pod: NAME"
    failed: str = "Error creating:"  #: what the event says of a refusal, before the server's own words


class Delete(msgspec.Struct, frozen=True):
    """Delete an object, if it is still the one meant."""

    kind: Kind
    name: str
    namespace: str = ""
    uid: str = ""
    grace_period_seconds: int | None = None
    propagation_policy: str = ""
    about: ObjectReference | None = None  #: whose event reports it (SuccessfulDelete)
    event_message: str = ""  #: the event's message, where it is not "Deleted pod: NAME"
    #: only if a live read finds none of these (kind, name, uid)
    unless_present: tuple[tuple[Kind, str, str], ...] = ()


class Patch(msgspec.Struct, frozen=True):
    """Change an object, or its status or another subresource."""

    kind: Kind
    name: str
    namespace: str
    patch: Document
    patch_type: str = MERGE_PATCH
    subresource: str = ""
    #: only if a live read finds all of these (kind, name, uid), none being deleted
    while_present: tuple[tuple[Kind, str, str], ...] = ()
    field_manager: str = ""
    force: bool = False  #: take fields over from other managers (server-side apply)
    unless_refused: bool = False  #: it reports creations of this round: not when one was refused
    #: the key is held back until the copy shows the change: the next decision builds on it
    held: bool = False


class Count(msgspec.Struct, frozen=True):
    """Add to a metric; comes after the action whose success it counts."""

    metric: str  #: the name of a counter in ControllerMetrics
    labels: tuple[str, ...] = ()
    by: int = 1


class Observe(msgspec.Struct, frozen=True):
    """Note a time in a metric; comes after the action it is about."""

    metric: str  #: the name of a histogram in ControllerMetrics
    seconds: float


class Retry(msgspec.Struct, frozen=True):
    """Come back to this key after a pause that doubles each time."""

    why: str


@dataclass(frozen=True)
class ActionContext:
    """What an action that carries itself out works with."""

    client: Client
    clock: Clock
    recorder: Recorder
    metrics: ControllerMetrics
    #: what was created: the key is held back until the copy shows it
    made: list[tuple[Kind, ObjectKey]] = field(default_factory=list)


class Steps(abc.ABC):
    """Several calls of which a later one needs the answer to an earlier one. What follows waits for its success."""

    __slots__ = ()

    @abc.abstractmethod
    async def carry_out(self, context: ActionContext) -> object:
        """Do it and return what came of it, for the controller's `carried_out`; raises what the server answers."""


Action = Record | WakeAt | Evict | Create | Delete | Patch | Count | Observe | Retry | Steps


WORKERS: Final = 8


class Controller(abc.ABC):
    """One controller; a subclass sets `name` and `kinds` and implements `changed` and `reconcile`."""

    name: str  #: in metrics and logs, and as the source of events unless `event_source` is set
    kinds: Sequence[Kind]  #: the collections it reads, in the order in which they are first delivered
    #: of a kind, the parts of a view (metadata, spec, status) that `changed` reads of a write to an object that was
    #: there before; it need not be called where they stay the same objects
    reads: Mapping[Kind, Sequence[str]] = {}
    custom: bool = False  #: whether it also reads every collection that custom resource definitions make
    event_source: str = ""
    first_keys: Sequence[Hashable] = ()  #: reconciled once when the controller starts
    workers: int = WORKERS  #: how many keys are reconciled at the same time
    log: Log = Log("weir.controllers")  #: for why something is done; the runner logs what is done

    def __init__(self, gates: Gates) -> None:
        """Most controllers behave the same whatever the gates are."""
        return

    @abc.abstractmethod
    def changed(self, kind: Kind, old: Any, new: Any) -> Iterable[Hashable]:
        """Return the keys to reconcile because an object was added (no *old*), changed or deleted (no *new*)."""

    @abc.abstractmethod
    def reconcile(self, key: Any, listers: Listers, now: datetime) -> Iterable[Action]:
        """Return what must happen; safe to repeat."""

    def set_custom_kinds(self, kinds: CustomKinds) -> None:
        """Set the custom kinds; called before the controller starts."""
        return

    # ── optional ─────────────────────────────────────────────────────────────────────────────────

    def register_metrics(self, metrics: ControllerMetrics) -> None:
        """Connect gauges that read the controller's state; called once before it starts."""
        return

    def create_refused(self, key: Any, message: str, listers: Listers, now: datetime) -> Iterable[Action]:
        """Return what follows from the server's refusal of a Create of this key."""
        return ()

    def carried_out(self, action: Steps, outcome: object, now: datetime) -> Iterable[Action]:
        """Return what follows from the success of *action*."""
        return ()

    def eviction_ended(self, action: Evict) -> None:
        """Called when an eviction has ended, successful or given up."""
        return
