"""Tolerated taints of a cluster: which of its distinct taints a list of tolerations tolerates.

Every distinct toleration meets every distinct taint it can be about once; the answers are kept as one flag a taint
and only extended when new taints appear. Numeric comparisons of one key are made all at once, on integers.
A fast twin of weir.taints.toleration.tolerates, which remains the definition; tests/property/test_scheduler.py holds
them together; the figure that pays for it is "50 classes mixed, 5,000 nodes" of `python -m bench scheduler`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from time import perf_counter
from typing import Final

import numpy as np
import numpy.typing as npt

from weir.gates import Gates
from weir.objects.core import Taint, Toleration
from weir.taints.operators import INTEGERS, UNREADABLE, Comparison, Outcome, find_comparison
from weir.taints.toleration import Evaluate, tolerates
from weir.values.integer import IntegerError, parse_integer

Bools = npt.NDArray[np.bool_]
#: So many distinct tolerations keep their answers; beyond, all are judged again when asked about.
MOST_TOLERATIONS: Final = 4096
#: So many comparisons that failed are kept until somebody looks at them.
MOST_UNREADABLE: Final = 64


_Columns = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], dict[str, Bools], dict[str, Bools]]


class _Key:
    """The distinct taints of one key: their numbers, effects, and values where they are integers."""

    __slots__ = ("_columns", "effects", "integers", "numbers", "readable")

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.effects: list[str] = []
        self.integers: list[int] = []
        self.readable: list[bool] = []
        self._columns: _Columns | None = None

    def add(self, number: int, taint: Taint) -> None:
        try:
            value, readable = parse_integer(taint.value), True
        except IntegerError:
            value, readable = 0, False
        self.numbers.append(number)
        self.effects.append(taint.effect)
        self.integers.append(value)
        self.readable.append(readable)
        self._columns = None

    def columns(self) -> _Columns:
        """Return numbers, integer values, and by effect (all effects under "") where values are integers, and all."""
        if self._columns is None:
            readable = np.asarray(self.readable, np.bool_)
            there = {
                effect: np.asarray([found == effect for found in self.effects], np.bool_)
                for effect in set(self.effects)
            }
            there[""] = np.ones(len(self.numbers), np.bool_)
            numbers, integers = np.asarray(self.numbers, np.int64), np.asarray(self.integers, np.int64)
            self._columns = (numbers, integers, {e: readable & mask for e, mask in there.items()}, there)
        return self._columns


class TaintJudge:
    """Numbers distinct taints and says which of them tolerations tolerate.

    >>> judge = TaintJudge(Gates({"TaintTolerationComparisonOperators": True}))
    >>> numbers = [judge.number(Taint("sla", value, "NoSchedule")) for value in ("800", "950", "high")]
    >>> judge.tolerated([Toleration("sla", "Gt", "900")]).tolist()
    [False, True, False]
    """

    def __init__(self, gates: Gates, evaluate: Evaluate | None = None) -> None:
        self.taints: list[Taint] = []
        self.comparisons = 0  #: how many times a toleration was held against a taint
        #: numeric comparisons made, by operator and result: match, no_match, parse_error
        self.numeric: Counter[tuple[str, str]] = Counter()
        #: comparisons with a value that could not be read, until somebody takes them out
        self.unreadable: deque[tuple[Toleration, Taint, Outcome]] = deque(maxlen=MOST_UNREADABLE)
        self._gates, self._evaluate = gates, evaluate
        self._numbers: dict[tuple[str, str, str], int] = {}
        self._by_key: dict[str, _Key] = {}
        self._known: dict[tuple[str, str, str, str, str], Bools] = {}

    def number(self, taint: Taint) -> int:
        """Return the number of *taint*; equal taints have one number, whenever they were added."""
        identity = (taint.key, taint.value, taint.effect)
        found = self._numbers.get(identity)
        if found is None:
            found = self._numbers[identity] = len(self.taints)
            self.taints.append(taint)
            self._by_key.setdefault(taint.key, _Key()).add(found, taint)
        return found

    def forget(self) -> None:
        """Forget every taint and every answer, but not what was counted: numbers start again from 0."""
        self.taints.clear()
        self._numbers.clear()
        self._by_key.clear()
        self._known.clear()

    def tolerated(self, tolerations: Sequence[Toleration]) -> Bools:
        """Return one flag for each numbered taint: whether some entry tolerates it."""
        flags = np.zeros(len(self.taints), np.bool_)
        for entry in tolerations:
            flags |= self._one(entry)
        return flags

    def advance(self, tolerations: Sequence[Toleration], seconds: float) -> bool:
        """Evaluate expressions of *tolerations* for about *seconds*; return whether `tolerated` has none left to do."""
        until = perf_counter() + seconds
        for entry in tolerations:
            if not entry.expression:
                continue
            known = self._known.get(entry.identity)
            start = 0 if known is None else len(known)
            if start == len(self.taints):
                continue
            flags = np.zeros(len(self.taints), np.bool_)
            if known is not None:
                flags[:start] = known
            end = start
            while end < len(self.taints) and perf_counter() < until:
                self._each(entry, (end,), flags)
                end += 1
            self._keep(entry, known, flags[:end].copy())
            if end < len(self.taints):
                return False
        return True

    def _keep(self, entry: Toleration, known: Bools | None, flags: Bools) -> None:
        if known is None and len(self._known) >= MOST_TOLERATIONS:
            self._known.clear()
        self._known[entry.identity] = flags

    def _one(self, entry: Toleration) -> Bools:
        known = self._known.get(entry.identity)
        if known is not None and len(known) == len(self.taints):
            return known
        start = 0 if known is None else len(known)
        flags = np.zeros(len(self.taints), np.bool_)
        if known is not None:
            flags[:start] = known
        if entry.expression or not entry.key:
            self._each(entry, range(start, len(self.taints)), flags)
        elif (key := self._by_key.get(entry.key)) is not None:
            comparison = find_comparison(entry.operator)
            if comparison and comparison.scale is INTEGERS and self._gates.enabled(comparison.gate):
                self._all_at_once(entry, comparison, key, flags, start)
            else:
                self._each(entry, (number for number in key.numbers if number >= start), flags)
        self._keep(entry, known, flags)
        return flags

    def _each(self, entry: Toleration, numbers: Iterable[int], flags: Bools) -> None:
        for number in numbers:
            self.comparisons += 1
            outcome = tolerates(entry, self.taints[number], self._gates, self._evaluate)
            if outcome is Outcome.TOLERATED:
                flags[number] = True
            elif outcome in UNREADABLE:
                self.unreadable.append((entry, self.taints[number], outcome))

    def _all_at_once(
        self, entry: Toleration, comparison: Comparison, key: _Key, flags: Bools, start: int
    ) -> None:
        self.comparisons += len(key.numbers)
        numbers, values, readable, there = key.columns()
        if entry.effect not in there:
            return
        new = numbers >= start
        asked = int(np.count_nonzero(there[entry.effect] & new))
        try:
            limit = parse_integer(entry.value)
        except IntegerError:
            self.numeric[entry.operator, "parse_error"] += asked
            if asked:
                taint = self.taints[int(numbers[there[entry.effect] & new][0])]
                self.unreadable.append((entry, taint, Outcome.TOLERATION_NOT_AN_INTEGER))
            return
        compared = readable[entry.effect]
        holds = compared & comparison.holds(values, limit)
        flags[numbers[holds]] = True
        made, matched = int(np.count_nonzero(compared & new)), int(np.count_nonzero(holds & new))
        self.numeric[entry.operator, "match"] += matched
        self.numeric[entry.operator, "no_match"] += made - matched
        self.numeric[entry.operator, "parse_error"] += asked - made
        if asked != made:
            lost = numbers[there[entry.effect] & new & ~compared][:MOST_UNREADABLE]
            self.unreadable.extend((entry, self.taints[n], Outcome.NOT_AN_INTEGER) for n in lost.tolist())
