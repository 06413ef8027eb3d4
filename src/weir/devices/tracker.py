"""ResourceSlice tracker: devices with their own taints and those of DeviceTaintRules.

Spec: KEP-5055 "ResourceSlice tracker", dra.md 3 "ResourceSlice tracker"; D-01, D-05, D-06, D-20.
A device's taints are its own, then those of taint slices of the same pool generation, then those of the rules that
select it (by rule name). Every `put_` and `remove_` costs what it touches: rules are found by driver, pool and device
name, a rule that only changes its taint evaluates no device again, and an edit without effect notifies no consumer. A
rule whose stored expression no longer compiles stops updates of its slices; they keep their last tracked state, and
the problem is reported.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final

from weir.devices.expression import Selectors
from weir.devices.origin import RuleOrigin, SliceOrigin, TaintNumbers, TrackedTaint
from weir.devices.published import Published, TrackedDevice
from weir.devices.selector import SELECTED, Candidate, Question, RuleOutcome, Selection
from weir.gates import DEVICE_TAINT_RULES, DEVICE_TAINTS, Gates
from weir.objects.resource import (
    DeviceClass,
    DeviceID,
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintSelector,
    ResourceSlice,
)

#: Compiled selectors a tracker keeps: as many rules as a large cluster may have.
PROGRAMS: Final = 10_000
RUNTIME_ERROR: Final = "CELRuntimeError"

_Triple = tuple[str | None, str | None, str | None]


@dataclass(frozen=True, slots=True)
class Problem:
    """A rule that could not be applied; *reason* is that of the event on the rule, "" when it is only logged."""

    rule: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Update:
    """The result of a change: slices whose devices or taints changed, and errors."""

    slices: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


class _Rule:
    """A rule with its taint as devices carry it and the devices that do."""

    __slots__ = ("ask", "rule", "selected", "tracked")

    def __init__(self, rule: DeviceTaintRule, tracked: TrackedTaint, ask: Question) -> None:
        self.rule, self.tracked, self.ask = rule, tracked, ask
        self.selected: dict[TrackedDevice, None] = {}


class _Broken(Exception):
    """A rule that may select the device does not compile."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem


def _rule_name(tracked: TrackedTaint) -> str:
    assert isinstance(tracked.origin, RuleOrigin)
    return tracked.origin.name


def _triple(selector: DeviceTaintSelector) -> _Triple:
    return selector.driver, selector.pool, selector.device


class Tracker(Published):
    """Devices with their taints, kept up to date with slices, rules and classes one change at a time.

    >>> from weir.objects.core import read
    >>> tracker = Tracker(Gates())
    >>> spec = {"driver": "d", "pool": {"name": "p"}, "devices": [{"name": "gpu-0"}]}
    >>> tracker.put_slice(read(ResourceSlice, {"metadata": {"name": "s"}, "spec": spec})).slices
    ('s',)
    >>> rule = {"deviceSelector": {"device": "gpu-0"}, "taint": {"key": "hot", "effect": "NoSchedule"}}
    >>> tracker.put_rule(read(DeviceTaintRule, {"metadata": {"name": "r", "uid": "1"}, "spec": rule})).slices
    ('s',)
    >>> [str(taint.taint) for taint in tracker.devices("s")[0].taints]
    ['hot:NoSchedule']
    """

    def __init__(self, gates: Gates, expressions: Selectors | None = None) -> None:
        super().__init__()
        self._taints_on = gates.enabled(DEVICE_TAINTS)
        self._rules_on = gates.enabled(DEVICE_TAINT_RULES)
        self.expressions = expressions or Selectors(
            multiple_allocations=gates.enabled("DRAConsumableCapacity"), capacity=PROGRAMS
        )
        self._numbers = TaintNumbers()
        self._failed: set[str] = set()  # slices that could not be tracked because of a broken rule
        self._broken: set[str] = set()  # rules that do not compile
        self._rules: dict[str, _Rule] = {}
        self._rule_index: dict[_Triple, dict[str, _Rule]] = {}
        self._classes: dict[str, DeviceClass] = {}

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def rule_taint(self, name: str) -> TrackedTaint:
        """Return the taint of a rule that is known, as devices carry it."""
        return self._rules[name].tracked

    def selected_by(self, name: str) -> list[TrackedDevice]:
        """Return the devices of all generations that a rule selects."""
        entry = self._rules.get(name)
        return list(entry.selected) if entry else []

    def selects_unpublished(self, name: str, device: DeviceID) -> bool:
        """Return whether a rule selects a device that no slice publishes."""
        entry = self._rules.get(name)
        return entry is not None and bool(entry.ask(Candidate(device)))

    def taints_on(self, name: DeviceID) -> list[TrackedTaint]:
        """Return the taints of an allocated device: of rules by name, then of its driver.

        Rules go on selecting a device whose slice is gone, by its names; its driver's taints are gone with it.
        """
        found = self.find_device(name)
        if found is not None:
            return [*found.rule_taints, *found.driver_taints]
        unpublished = Candidate(name)
        return sorted(
            (entry.tracked for entry in self._rules_about(name) if entry.ask(unpublished)),
            key=_rule_name,
        )

    # ── slices ───────────────────────────────────────────────────────────────────────────────────

    def put_slice(self, new: ResourceSlice) -> Update:
        """Take in a slice that was added or changed."""
        old = self._slices.get(new.name)
        if old is not None:
            self._file(old, add=False)
        self._slices[new.name] = new
        self._file(new, add=True)
        changed = {new.name}
        problems = self._track(new)
        changed |= self._spread_taints(old, new)
        return Update(tuple(sorted(changed)), tuple(problems))

    def remove_slice(self, name: str) -> Update:
        """Forget a slice that was deleted."""
        old = self._slices.pop(name, None)
        if old is None:
            return Update()
        self._file(old, add=False)
        self._failed.discard(name)
        for device in self._tracked.pop(name, ()):
            self._drop(device)
        return Update(tuple(sorted({name} | self._spread_taints(old, None))))

    def _track(self, found: ResourceSlice) -> list[Problem]:
        """Replace the tracked devices of one slice, unless a rule about them does not compile."""
        driver, pool = found.pool_key
        devices: list[TrackedDevice] = []
        entries: list[list[_Rule]] = []
        problems: dict[str, Problem] = {}
        unsure = self._broken or found.name in self._failed
        before = {} if unsure else {one.id: one for one in self._tracked.get(found.name, ())}
        try:
            for device in found.spec.devices or ():
                tracked = TrackedDevice(DeviceID(driver, pool, device.name), device, found.name)
                devices.append(tracked)
                known = before.get(tracked.id)
                if known is not None and tracked.same_attributes(known):
                    # Only its taints changed, as often happens: what selected it selects it still.
                    entries.append([self._rules[_rule_name(taint)] for taint in known.rule_taints])
                else:
                    entries.append(self._selecting(tracked, problems))
        except _Broken as broken:
            self._failed.add(found.name)
            return [broken.problem]
        self._failed.discard(found.name)
        old = self._tracked.get(found.name, ())
        published = self._published(found)
        for tracked, rules in zip(devices, entries, strict=True):
            self._file_device(tracked)
            tracked.rule_taints = tuple(entry.tracked for entry in rules)
            for entry in rules:
                entry.selected[tracked] = None
            self._set_driver_taints(tracked, published)
        for gone in old:  # after the new ones have taken their numbers, so that equal taints keep theirs
            self._drop(gone)
        self._tracked[found.name] = tuple(devices)
        return list(problems.values())

    def _drop(self, device: TrackedDevice) -> None:
        for identity in device.numbered:
            self._numbers.give_back(identity)
        for tracked in device.rule_taints:
            self._rules[_rule_name(tracked)].selected.pop(device, None)
        self._unfile_device(device)

    # ── driver taints ────────────────────────────────────────────────────────────────────────────

    def _published(self, found: ResourceSlice) -> dict[str, list[tuple[str, int, DeviceTaint]]]:
        """Return by device what the taint slices of the same pool and generation say, by slice name, then index."""
        group = self._pools[found.pool_key][found.spec.pool.generation]
        by_device: dict[str, list[tuple[str, int, DeviceTaint]]] = {}
        if self._taints_on:
            for name in sorted(name for name, other in group.items() if other.spec.taints):
                for index, entry in enumerate(group[name].spec.taints or ()):
                    by_device.setdefault(entry.device, []).append((name, index, entry.taint))
        return by_device

    def _set_driver_taints(
        self, device: TrackedDevice, published: dict[str, list[tuple[str, int, DeviceTaint]]]
    ) -> bool:
        """Give *device* its driver's taints; return whether that made a difference."""
        assert device.device is not None
        inline = (device.device.taints or ()) if self._taints_on else ()
        separate = published.get(device.id.device, ())
        if not inline and not separate and not device.driver_taints:
            return False
        taints: list[TrackedTaint] = []
        identities: list[tuple[object, ...]] = []
        seen: Counter[tuple[str, str, str]] = Counter()

        def add(taint: DeviceTaint, slice_name: str, form: str, index: int) -> None:
            same = (taint.key, taint.value, taint.effect)
            identity = (*device.id, *same, seen[same])
            seen[same] += 1
            identities.append(identity)
            origin = SliceOrigin(slice_name, device.id, form, index)
            taints.append(TrackedTaint(taint, origin, self._numbers.take(identity)))

        for index, taint in enumerate(inline):
            add(taint, device.slice, "devices", index)
        for slice_name, index, taint in separate:
            add(taint, slice_name, "taints", index)
        before, given = device.driver_taints, device.numbered
        device.driver_taints, device.numbered = tuple(taints), identities
        for past in given:
            self._numbers.give_back(past)
        return [taint.content for taint in before] != [taint.content for taint in taints]

    def _spread_taints(self, old: ResourceSlice | None, new: ResourceSlice | None) -> set[str]:
        """Bring a changed taint slice to the devices of its pool; return the slices that differ now."""
        changed: set[str] = set()
        groups = {
            (*found.pool_key, found.spec.pool.generation)
            for found in (old, new)
            if found and found.spec.taints
        }
        for driver, pool, generation in groups:
            members = self._pools.get((driver, pool), {}).get(generation, {})
            for name, member in members.items():
                devices = self._tracked.get(name, ())
                if devices:
                    published = self._published(member)
                    different = [self._set_driver_taints(device, published) for device in devices]
                    if any(different):
                        changed.add(name)
        return changed

    # ── rules and classes ────────────────────────────────────────────────────────────────────────

    def put_rule(self, new: DeviceTaintRule) -> Update:
        """Take in a rule that was added or changed."""
        if not self._rules_on:
            return Update()
        return self._replace_rule(new, again=False)

    def remove_rule(self, name: str) -> Update:
        """Forget a rule that was deleted."""
        entry = self._rules.pop(name, None)
        self._broken.discard(name)
        if entry is None:
            return Update()
        self._index(entry.rule, None)
        self._numbers.give_back(_identity(entry.rule))
        changed = self._retaint(entry, {}, None)
        return self._retry(changed)

    def put_class(self, new: DeviceClass) -> Update:
        """Take in a class that was added or changed; only rules that name it are evaluated again."""
        self._classes[new.name] = new
        return self._class_changed(new.name)

    def remove_class(self, name: str) -> Update:
        """Forget a class that was deleted."""
        self._classes.pop(name, None)
        return self._class_changed(name)

    def _class_changed(self, name: str) -> Update:
        slices: set[str] = set()
        problems: list[Problem] = []
        for entry in list(self._rules.values()):
            selector = entry.rule.spec.device_selector
            if selector is not None and selector.device_class_name == name:
                update = self._replace_rule(entry.rule, again=True)
                slices.update(update.slices)
                problems += update.problems
        return Update(tuple(sorted(slices)), tuple(problems))

    def _replace_rule(self, new: DeviceTaintRule, *, again: bool) -> Update:
        old = self._rules.get(new.name)
        origin = RuleOrigin(new.name, new.metadata.uid)
        tracked = TrackedTaint(new.spec.taint, origin, self._numbers.take(_identity(new)))
        entry = _Rule(new, tracked, Question(new, self._classes, self.expressions))
        problems: dict[str, Problem] = {}
        if old is not None and not again and old.rule.spec.device_selector == new.spec.device_selector:
            entry.selected = dict(old.selected)
        else:
            self._broken.discard(new.name)
            try:
                selector = new.spec.device_selector
                candidates = self._named(selector) if selector is not None else ()
                entry.ask.among(
                    candidates, entry.selected, lambda answer: self._note(entry, answer, problems)
                )
            except _Broken as broken:
                problems[new.name] = broken.problem
                if old is not None:  # what was tracked stays
                    entry.selected, entry.tracked = dict(old.selected), old.tracked
        self._rules[new.name] = entry
        self._index(old.rule if old else None, entry)
        if old is not None:
            self._numbers.give_back(_identity(old.rule))
        changed = self._retaint(old, entry.selected, entry)
        return self._retry(changed, problems)

    def _rules_about(self, name: DeviceID) -> Iterator[_Rule]:
        """Return the rules whose names match the device."""
        if not self._rules_on:
            return
        for triple in product((name.driver, None), (name.pool, None), (name.device, None)):
            found = self._rule_index.get(triple)
            if found:
                yield from found.values()

    def _selecting(self, device: TrackedDevice, problems: dict[str, Problem]) -> list[_Rule]:
        found = [entry for entry in self._rules_about(device.id) if self._judge(entry, device, problems)]
        if len(found) > 1:
            found.sort(key=lambda entry: entry.rule.name)
        return found

    def _judge(self, entry: _Rule, device: TrackedDevice, problems: dict[str, Problem]) -> bool:
        answer = entry.ask(device)
        if answer.problem:
            self._note(entry, answer, problems)
        return answer is SELECTED

    def _note(self, entry: _Rule, answer: Selection, problems: dict[str, Problem]) -> None:
        """Remember the first problem of a rule; raises when it means that nothing may be updated."""
        name = entry.rule.name
        if answer.outcome is RuleOutcome.BROKEN:
            self._broken.add(name)
            raise _Broken(Problem(name, "", f"DeviceTaintRule {name}: {answer.problem}"))
        problems.setdefault(name, Problem(name, RUNTIME_ERROR, answer.problem))

    def _index(self, old: DeviceTaintRule | None, new: _Rule | None) -> None:
        if old is not None and old.spec.device_selector is not None:
            named = self._rule_index[_triple(old.spec.device_selector)]
            del named[old.name]
            if not named:
                del self._rule_index[_triple(old.spec.device_selector)]
        if new is not None and new.rule.spec.device_selector is not None:
            triple = _triple(new.rule.spec.device_selector)
            self._rule_index.setdefault(triple, {})[new.rule.name] = new

    def _retaint(self, old: _Rule | None, selected: dict[TrackedDevice, None], new: _Rule | None) -> set[str]:
        """Swap the rule's taint on the devices that had it or get it; return the slices that differ now."""
        before = old.selected if old else {}
        same = bool(old and new and old.tracked.content == new.tracked.content)
        changed: set[str] = set()
        swapped: dict[tuple[TrackedTaint, ...], tuple[TrackedTaint, ...]] = {}
        for device in before:
            if device not in selected:
                assert old is not None
                device.rule_taints = tuple(t for t in device.rule_taints if t is not old.tracked)
                changed.add(device.slice)
        if new is None:
            return changed
        for device in selected:
            taints = device.rule_taints
            after = swapped.get(taints)
            if after is None:
                kept = [taint for taint in taints if old is None or taint is not old.tracked]
                insort(kept, new.tracked, key=_rule_name)
                after = swapped[taints] = tuple(kept)
            device.rule_taints = after
            if not same or device not in before:
                changed.add(device.slice)
        return changed

    def _retry(self, changed: set[str], problems: dict[str, Problem] | None = None) -> Update:
        """Track slices again that could not be tracked before the rules changed."""
        found = dict(problems or {})
        for name in sorted(self._failed):
            for problem in self._track(self._slices[name]):
                found[problem.rule] = problem
            if name not in self._failed:
                changed.add(name)
                changed |= self._spread_taints(None, self._slices[name])
        return Update(tuple(sorted(changed)), tuple(found.values()))


def _identity(rule: DeviceTaintRule) -> tuple[object, ...]:
    return "rule", rule.metadata.uid or rule.name
