"""Tolerated taints of a cluster: which of its distinct taints a list of tolerations tolerates.

Every distinct toleration meets every distinct taint that a node carries once; the answers are kept as one flag a taint
and only extended when more taints are carried. Numeric comparisons of one key are made all at once, on integers.
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
    """The distinct taints of one key: their numbers, effects, and values, read as integers when first compared."""

    __slots__ = ("_columns", "effects", "integers", "numbers", "readable", "values")

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.effects: list[str] = []
        self.values: list[str] = []
        self.integers: list[int] = []
        self.readable: list[bool] = []
        self._columns: _Columns | None = None

    def add(self, number: int, taint: Taint) -> None:
        self.numbers.append(number)
        self.effects.append(taint.effect)
        self.values.append(taint.value)
        self._columns = None

    def columns(self) -> _Columns:
        """Return numbers, integer values, and by effect (all effects under "") where values are integers, and all."""
        if self._columns is None:
            for text in self.values[len(self.integers) :]:
                try:
                    value, is_integer = parse_integer(text), True
                except IntegerError:
                    value, is_integer = 0, False
                self.integers.append(value)
                self.readable.append(is_integer)
            readable = np.asarray(self.readable, np.bool_)
            there = {
                effect: np.asarray([found == effect for found in self.effects], np.bool_)
                for effect in set(self.effects)
            }
            there[""] = np.ones(len(self.numbers), np.bool_)
            numbers, integers = np.asarray(self.numbers, np.int64), np.asarray(self.integers, np.int64)
            self._columns = (numbers, integers, {e: readable & mask for e, mask in there.items()}, there)
        return self._columns


class _Answers:
    """Which numbered taints one toleration tolerates, and which of them it was held against so far."""

    __slots__ = ("judged", "tolerated")

    def __init__(self) -> None:
        self.tolerated = self.judged = np.zeros(0, np.bool_)

    def extend(self, count: int) -> None:
        """Make room for *count* taints."""
        if more := count - len(self.judged):
            self.judged = np.concatenate([self.judged, np.zeros(more, np.bool_)])
            self.tolerated = np.concatenate([self.tolerated, np.zeros(more, np.bool_)])


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
        self._carried: Bools = np.zeros(0, np.bool_)
        self._answers: dict[tuple[str, str, str, str, str], _Answers] = {}

    def number(self, taint: Taint) -> int:
        """Return the number of *taint*; equal taints have one number, whenever they were added."""
        identity = (taint.key, taint.value, taint.effect)
        number = self._numbers.get(identity)
        if number is None:
            number = self._numbers[identity] = len(self.taints)
            self.taints.append(taint)
            self._by_key.setdefault(taint.key, _Key()).add(number, taint)
        return number

    def carry(self, numbers: npt.NDArray[np.int64]) -> None:
        """Judge, count and report no taints but *numbers*, those that nodes carry, and those numbered later."""
        self._carried = np.zeros(len(self.taints), np.bool_)
        self._carried[numbers] = True

    def forget(self) -> None:
        """Forget every taint and every answer, but not what was counted: numbers start again from 0."""
        self.taints.clear()
        self._numbers.clear()
        self._by_key.clear()
        self._answers.clear()
        self._carried = np.zeros(0, np.bool_)

    def tolerated(self, tolerations: Sequence[Toleration]) -> Bools:
        """Return one flag for each numbered taint: whether some entry tolerates it; no flag for one not carried."""
        flags = np.zeros(len(self.taints), np.bool_)
        for entry in tolerations:
            flags |= self._tolerated_by(entry)
        return flags

    def advance(self, tolerations: Sequence[Toleration], seconds: float) -> bool:
        """Evaluate expressions of *tolerations* for about *seconds*; return whether `tolerated` has none left to do."""
        until = perf_counter() + seconds
        for entry in tolerations:
            if entry.expression:
                answers = self._answers_of(entry)
                for number in np.flatnonzero(self._pending(answers)).tolist():
                    if perf_counter() >= until:
                        return False
                    self._judge_each(entry, (number,), answers)
        return True

    def _answers_of(self, entry: Toleration) -> _Answers:
        answers = self._answers.get(entry.identity)
        if answers is None:
            if len(self._answers) >= MOST_TOLERATIONS:
                self._answers.clear()
            answers = self._answers[entry.identity] = _Answers()
        answers.extend(len(self.taints))
        return answers

    def _pending(self, answers: _Answers) -> Bools:
        """Return which carried taints have no answer yet."""
        pending = ~answers.judged
        pending[: len(self._carried)] &= self._carried
        return pending

    def _tolerated_by(self, entry: Toleration) -> Bools:
        answers = self._answers_of(entry)
        pending = self._pending(answers)
        if not pending.any():
            return answers.tolerated
        if entry.expression or not entry.key:
            self._judge_each(entry, np.flatnonzero(pending).tolist(), answers)
        elif (key := self._by_key.get(entry.key)) is not None:
            comparison = find_comparison(entry.operator)
            if comparison and comparison.scale is INTEGERS and self._gates.enabled(comparison.gate):
                self._judge_integers(entry, comparison, key, pending, answers)
            else:
                self._judge_each(entry, (number for number in key.numbers if pending[number]), answers)
        answers.judged = answers.judged | pending
        return answers.tolerated

    def _judge_each(self, entry: Toleration, numbers: Iterable[int], answers: _Answers) -> None:
        for number in numbers:
            self.comparisons += 1
            outcome = tolerates(entry, self.taints[number], self._gates, self._evaluate)
            answers.judged[number] = True
            if outcome is Outcome.TOLERATED:
                answers.tolerated[number] = True
            elif outcome in UNREADABLE:
                self.unreadable.append((entry, self.taints[number], outcome))

    def _judge_integers(
        self, entry: Toleration, comparison: Comparison, key: _Key, pending: Bools, answers: _Answers
    ) -> None:
        numbers, values, readable, there = key.columns()
        if entry.effect not in there:
            return
        of_effect = there[entry.effect] & pending[numbers]
        asked = int(np.count_nonzero(of_effect))
        self.comparisons += asked
        try:
            limit = parse_integer(entry.value)
        except IntegerError:
            self.numeric[entry.operator, "parse_error"] += asked
            if asked:
                taint = self.taints[int(numbers[of_effect][0])]
                self.unreadable.append((entry, taint, Outcome.TOLERATION_NOT_AN_INTEGER))
            return
        compared = of_effect & readable[entry.effect]
        holds = compared & comparison.holds(values, limit)
        answers.tolerated[numbers[holds]] = True
        made, matched = int(np.count_nonzero(compared)), int(np.count_nonzero(holds))
        self.numeric[entry.operator, "match"] += matched
        self.numeric[entry.operator, "no_match"] += made - matched
        self.numeric[entry.operator, "parse_error"] += asked - made
        if asked != made:
            unread = numbers[of_effect & ~compared][:MOST_UNREADABLE].tolist()
            self.unreadable.extend((entry, self.taints[n], Outcome.NOT_AN_INTEGER) for n in unread)
