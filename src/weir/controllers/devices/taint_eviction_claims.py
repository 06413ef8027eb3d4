"""Eviction times of allocated claims, kept current as slices, rules, classes and claims change.

Spec: dra.md 7.1 "State", 7.2, 7.3, 3.6; D-05. A change re-evaluates only claims that hold a device whose taints may
have changed, and reports only those whose eviction differs. Rules match allocated devices by name even when no slice
publishes them any more; drivers' taints disappear with their slice. A new pool generation replaces all devices of the
pool. One claim's eviction is computed in weir.devices.eviction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

import msgspec

from weir.devices.eviction import Eviction, claim_eviction
from weir.devices.origin import TrackedTaint
from weir.devices.published import PoolKey
from weir.devices.tracker import Problem, Tracker, Update
from weir.gates import Gates
from weir.objects.resource import DeviceClass, DeviceID, DeviceTaintRule, ResourceClaim, ResourceSlice
from weir.objects.times import format_time
from weir.observe.logs import Log, ObjectRef
from weir.observe.unreadable import UnreadableValues
from weir.taints.expression import Expressions
from weir.taints.toleration import EVICTING, compares


@dataclass(frozen=True, slots=True)
class Change:
    """The result of a change: claims whose eviction changed (`namespace/name`), and errors."""

    claims: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


class ClaimEvictions:
    """Allocated claims with their evictions."""

    def __init__(self, gates: Gates, expressions: Expressions | None = None) -> None:
        self.tracker = Tracker(gates)
        self.claims: dict[str, ResourceClaim] = {}
        self.evictions: dict[str, Eviction] = {}
        self._gates, self._evaluate = gates, None if expressions is None else expressions.evaluate
        self._expressions = expressions
        self._warnings: dict[str, str] = {}  # of claims whose expressions are not evaluated any more
        self._unreadable = UnreadableValues(Log("weir.controllers"), expressions)
        self._holding: dict[DeviceID, dict[str, None]] = {}  # claims that hold a device
        self._held_of: dict[PoolKey, dict[DeviceID, None]] = {}
        self._pool_of: dict[str, PoolKey] = {}  # of slices, also those without devices
        self._unpublished: dict[DeviceID, None] = {}  # held, and in no current slice
        self._by_taint: dict[int, dict[str, None]] = {}  # claims by the taints that end their use
        self._first_seen: dict[int, datetime] = {}  # taints without a time

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def because_of(self, taint: int) -> list[str]:
        """Return the claims that a taint evicts."""
        return list(self._by_taint.get(taint, ()))

    def selected_by(self, rule: str) -> tuple[int, list[DeviceID]]:
        """Return how many published devices a rule selects, and which of all allocated devices."""
        published = [
            device.id for device in self.tracker.selected_by(rule) if self.tracker.is_current(device)
        ]
        held = [name for name in published if name in self._holding]
        held += [name for name in self._unpublished if self.tracker.selects_unpublished(rule, name)]
        return len(published), held

    def holders(self, device: DeviceID) -> list[str]:
        """Return the claims that hold a device: several when it is shared."""
        return list(self._holding.get(device, ()))

    def take_warnings(self) -> dict[str, str]:
        """Return the claims with expressions that were stopped since the last call, and the texts that say so."""
        warnings, self._warnings = self._warnings, {}
        return warnings

    def note_stopped(self, key: str) -> None:
        """Note a claim whose expressions were just evaluated, if one of them is stopped."""
        if self._expressions is None or not self._expressions.stopped:
            return
        claim = self.claims[key]
        tolerations = (each for result in claim.results for each in result.tolerations or ())
        if warning := self._expressions.warning(claim.metadata.uid, tolerations):
            self._warnings[key] = warning

    # ── changing ─────────────────────────────────────────────────────────────────────────────────

    def put_claim(self, key: str, claim: ResourceClaim | None, now: datetime) -> Change:
        """Take in a claim; one that is not allocated, or None, is forgotten."""
        if claim is not None and claim.status.allocation is None:
            claim = None
        old = self.claims.pop(key, None)
        before = {result.id for result in old.results} if old is not None else set()
        after = {result.id for result in claim.results} if claim is not None else set()
        for device in before - after:
            self._let_go(device, key)
        for device in after - before:
            self._hold(device, key)
        if claim is None:
            return Change((key,) if self._set(key, None) else ())
        self.claims[key] = claim
        return Change(tuple(self._judge([key], now)))

    def put_slice(self, name: str, found: ResourceSlice | None, now: datetime) -> Change:
        """Take in a slice, or that it is gone."""
        before = self.tracker.devices(name)
        pools = {self._pool_of.pop(name)} if name in self._pool_of else set()
        if found is not None:
            pools.add(found.pool_key)
            self._pool_of[name] = found.pool_key
        generations = {pool: self.tracker.generation(pool) for pool in pools}
        update = self.tracker.remove_slice(name) if found is None else self.tracker.put_slice(found)
        touched = {device.id: None for device in before}
        for pool, generation in generations.items():
            if self.tracker.generation(pool) != generation:
                touched.update(self._held_of.get(pool, {}))
        return self._changed(update, touched, now)

    def put_rule(self, name: str, rule: DeviceTaintRule | None, now: datetime) -> Change:
        """Take in a rule, or that it is gone."""
        touched = dict.fromkeys(self._touched_by(name))
        update = self.tracker.remove_rule(name) if rule is None else self.tracker.put_rule(rule)
        touched.update(dict.fromkeys(self._touched_by(name)))
        return self._changed(update, touched, now)

    def put_class(self, name: str, found: DeviceClass | None, now: datetime) -> Change:
        """Take in a class, or that it is gone; it matters to rules that name it."""
        update = self.tracker.remove_class(name) if found is None else self.tracker.put_class(found)
        return self._changed(update, {}, now)

    # ── what a change touches ────────────────────────────────────────────────────────────────────

    def _touched_by(self, rule: str) -> Iterator[DeviceID]:
        for device in self.tracker.selected_by(rule):
            if device.id in self._holding:
                yield device.id
        for name in self._unpublished:
            if self.tracker.selects_unpublished(rule, name):
                yield name

    def _changed(self, update: Update, touched: dict[DeviceID, None], now: datetime) -> Change:
        for name in update.slices:
            touched.update((device.id, None) for device in self.tracker.devices(name))
        claims: dict[str, None] = {}
        for device in touched:
            holders = self._holding.get(device)
            if holders:
                self._note_published(device)
                claims.update(holders)
        return Change(tuple(self._judge(claims, now)), update.problems)

    def _hold(self, device: DeviceID, key: str) -> None:
        holders = self._holding.setdefault(device, {})
        holders[key] = None
        self._held_of.setdefault((device.driver, device.pool), {})[device] = None
        self._note_published(device)

    def _let_go(self, device: DeviceID, key: str) -> None:
        holders = self._holding[device]
        del holders[key]
        if holders:
            return
        del self._holding[device]
        self._unpublished.pop(device, None)
        pool = (device.driver, device.pool)
        del self._held_of[pool][device]
        if not self._held_of[pool]:
            del self._held_of[pool]

    def _note_published(self, device: DeviceID) -> None:
        if self.tracker.find_device(device) is None:
            self._unpublished[device] = None
        else:
            self._unpublished.pop(device, None)

    # ── judging ──────────────────────────────────────────────────────────────────────────────────

    def _judge(self, keys: Iterable[str], now: datetime) -> Iterator[str]:
        for key in keys:
            taints_on = self._timed(now)
            self._log_unreadable(self.claims[key], taints_on, now)
            found = claim_eviction(self.claims[key], taints_on, self._gates, now, self._evaluate)
            self.note_stopped(key)
            if self._set(key, found):
                yield key

    def _log_unreadable(
        self, claim: ResourceClaim, taints_on: Callable[[DeviceID], Iterable[TrackedTaint]], now: datetime
    ) -> None:
        about = ObjectRef(claim.metadata.namespace, claim.metadata.name)
        for result in claim.results:
            if any(map(compares, result.tolerations or ())):
                self._unreadable.look(
                    result.tolerations or (),
                    [taint.plain for taint in taints_on(result.id)],
                    self._gates,
                    self._evaluate,
                    now=now.timestamp(),
                    claim=about,
                    device=result.id,
                )

    def _timed(self, now: datetime) -> Callable[[DeviceID], Iterable[TrackedTaint]]:
        """Return how to look up taints; one without a time counts from when it was first looked at here."""

        def taints_on(device: DeviceID) -> Iterator[TrackedTaint]:
            for tracked in self.tracker.taints_on(device):
                if tracked.taint.effect not in EVICTING:
                    continue
                if tracked.taint.time_added:
                    yield tracked
                    continue
                since = self._first_seen.setdefault(tracked.id, now)
                taint = msgspec.structs.replace(tracked.taint, time_added=format_time(since))
                yield TrackedTaint(taint, tracked.origin, tracked.id)

        return taints_on

    def _set(self, key: str, found: Eviction | None) -> bool:
        """Remember a claim's eviction; return whether it is another one than before."""
        old = self.evictions.get(key)
        if old is None and found is None:
            return False
        for reason in old.reasons if old is not None else ():
            claims = self._by_taint[reason.taint.id]
            del claims[key]
            if not claims:
                del self._by_taint[reason.taint.id]
                self._first_seen.pop(reason.taint.id, None)
        for reason in found.reasons if found is not None else ():
            self._by_taint.setdefault(reason.taint.id, {})[key] = None
        if found is None:
            del self.evictions[key]
        else:
            self.evictions[key] = found
        return _content(old) != _content(found)


def _content(eviction: Eviction | None) -> object:
    if eviction is None:
        return None
    return [(reason.taint.id, reason.due, reason.taint.content) for reason in eviction.reasons]
