"""Actions: a controller's decisions as values.

Every action is idempotent: deleting an absent object, patching to the present state or recording an event twice does
no harm. Unit tests check these values without a server.
"""

from __future__ import annotations

import abc
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from weir.client.api import MERGE_PATCH, Client
from weir.client.cache import ObjectKey
from weir.client.events import ObjectReference, Recorder
from weir.clock import Clock
from weir.controllers.runtime.metrics import ControllerMetrics
from weir.controllers.runtime.pod_eviction import PodEviction
from weir.objects.kind import Kind

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
