"""The Controller interface: the members that the runner reads or calls, with defaults for optional ones.

A controller holds no client and never awaits: `changed` maps an event to keys, `reconcile` maps a key to actions.
"""

from __future__ import annotations

import abc
from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from weir.controllers.runtime.actions import Action, Evict, Steps
from weir.controllers.runtime.custom_kinds import CustomKinds
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.metrics import ControllerMetrics
from weir.gates import Gates
from weir.objects.kind import Kind
from weir.observe.logs import Log

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
