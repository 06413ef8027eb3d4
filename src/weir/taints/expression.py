"""CEL expressions of tolerations: what the API accepts, and whether one is true for a taint.

Spec: KEP-5500 "Semantics For CEL Toleration Matching"; cel.md 9.2 (the `taint` variable and its sizes), 14.3
(what the API refuses) and 15 (matching). An expression matches only when it evaluates to true: an error, an
exhausted budget or a text that does not compile is no match, and the reason says which. One that was stopped, or that
takes long again and again, is not evaluated any more by the component it held up (decision 106).
The estimate decides admission only, never matching; an absent taint value is "" to CEL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from time import monotonic, perf_counter
from typing import Final

from weir.cel import ast, types, work
from weir.cel import decide as reasons
from weir.cel.cache import ProgramCache
from weir.cel.env import Env, ObjectType
from weir.cel.errors import CelError, CostLimitExceeded
from weir.cel.estimate import Estimate
from weir.cel.library import KUBERNETES
from weir.cel.program import Refusal, refuse
from weir.cel.program import check_expression as check_text
from weir.cel.types import BOOL, Node
from weir.cel.values import Value, type_of
from weir.objects.core import Taint, Toleration
from weir.taints.operators import Outcome
from weir.values.quoting import quote

MAX_BYTES: Final = 10_240
#: Programs one component keeps; a program is a few KiB.
CACHE_CAPACITY: Final = 10_000
#: Expressions one component remembers as stopped; beyond, the oldest are forgotten and may be tried again.
MOST_STOPPED: Final = 4_096
#: Units of work (weir.cel.work) that no component notices, about 100 µs; expressions people write take a tenth of it.
UNNOTICED: Final = 1_000
#: Units beyond that an expression may use of one component in `WINDOW_SECONDS`: twice an evaluation's.
ALLOWANCE: Final = 2 * work.MOST_WORK
WINDOW_SECONDS: Final = 60.0
#: Reason of the event about a stopped expression.
STOPPED_REASON: Final = "TolerationExpressionStopped"
#: Characters of an expression that a warning shows.
_SHOWN: Final = 200
_TOO_MUCH: Final = "used too much time over all taints"

_TAINT: Final = ObjectType("kubernetes.Taint", dict.fromkeys(("key", "value", "effect"), types.STRING), Taint)

#: The toleration environment: one variable, its fields with the longest texts the API accepts.
ENV: Final = Env(
    KUBERNETES,
    {"taint": _TAINT.type},
    (_TAINT,),
    {("taint",): 0, ("taint", "key"): 317, ("taint", "value"): 63, ("taint", "effect"): 16},
)


def check_expression(expression: str) -> Refusal | None:
    """Return why the API refuses *expression*, as (kind, message), or None.

    The kind is `invalid`, `internal` or `forbidden`, the sort of field error it becomes. Length is the
    caller's to check first.

    >>> check_expression("taint.key.startsWith('env.example.com/')")
    >>> check_expression("size(taint.key)")
    Refusal(kind='invalid', message='must evaluate to bool or the unknown type, not int')
    """
    return refuse(expression, ENV, (BOOL,))


def estimate(expression: str) -> Estimate:
    """Return the least and the most an evaluation can cost; raises CompileError."""
    return check_text(expression, ENV).estimate


def fields_read(expression: str) -> frozenset[str]:
    """Return which fields of the taint *expression* looks at; raises CompileError.

    >>> sorted(fields_read("taint.key == 'a' && has(taint.value)"))
    ['key', 'value']
    """
    return frozenset(
        node.field
        for node in ast.walk(check_text(expression, ENV).root)
        if isinstance(node, ast.Select)
        and isinstance(node.operand, ast.Ident)
        and node.operand.name == "taint"
    )


def keys_named(expression: str) -> frozenset[str] | None:
    """Return the keys of the taints for which *expression* can be true, None where it names none; raises CompileError.

    >>> keys_named("taint.key == 'a' && int(taint.value) > 3 || taint.key in ['b']") == {"a", "b"}
    True
    >>> keys_named("taint.value == 'x'")
    """
    return _keys_named(check_text(expression, ENV).root)


def _keys_named(node: Node) -> frozenset[str] | None:
    if not isinstance(node, ast.Call) or len(node.args) != 2:
        return None
    left, right = node.args
    if node.function in (ast.AND, ast.OR):
        one, other = _keys_named(left), _keys_named(right)
        if node.function == ast.OR:
            return None if one is None or other is None else one | other
        return one if other is None else other if one is None else one & other
    if node.function == ast.EQUALS:
        if _is_key(right):
            left, right = right, left
        return _texts([right]) if _is_key(left) else None
    if node.function == ast.IN and _is_key(left) and isinstance(right, ast.ListExpr):
        return _texts(right.elements) if not right.optional else None
    return None


def _is_key(node: Node) -> bool:
    return (
        isinstance(node, ast.Select)
        and node.field == "key"
        and not node.test_only
        and isinstance(node.operand, ast.Ident)
        and node.operand.name == "taint"
    )


def _texts(nodes: Iterable[Node]) -> frozenset[str] | None:
    found: set[str] = set()
    for node in nodes:
        if not isinstance(node, ast.Literal) or not isinstance(node.value, str):
            return None
        found.add(node.value)
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class Judgement:
    """How an expression met a taint, which part of it decided, what it cost, and the error if it failed."""

    outcome: Outcome
    deciding: str
    position: int
    cost: int
    error: str = ""


class Expressions:
    """The compiled expressions of one component; safe to share between threads.

    >>> seen = Expressions()
    >>> seen.evaluate("taint.value == 'b'", Taint("a", "b", "NoSchedule"))
    <Outcome.TOLERATED: 'tolerates it'>
    """

    def __init__(self, capacity: int = CACHE_CAPACITY) -> None:
        self.programs: Final = ProgramCache(capacity)
        self._true = self._false = self._failed = 0
        self.timed: Callable[[float], None] | None = None  #: told how many seconds each evaluation took
        #: expressions that tolerate nothing any more in this component, and why
        self.stopped: Final[dict[str, str]] = {}
        self._warned: dict[str, None] = {}  #: uids of the objects that were warned of
        self._used: dict[str, int] = {}  #: units beyond `UNNOTICED` in this window
        self._window_end = 0.0

    def evaluate(self, expression: str, taint: Taint) -> Outcome:
        """Return whether *expression* is true for *taint*; anything but true is no match."""
        if expression in self.stopped:
            self._failed += 1
            return Outcome.EXPRESSION_FAILED
        began = perf_counter()
        meter = work.begin()
        value: Value = None
        try:
            value = self.programs.compile(expression, ENV).evaluate({"taint": taint})
        except CostLimitExceeded as error:
            self._stop(expression, str(error))
        except CelError:
            pass
        except Exception as error:  # a fault of ours: it must not stop the component, now or after a restart
            self._stop(expression, f"{type(error).__name__}: {error}"[:200])
        if meter.left < work.MOST_WORK - UNNOTICED:
            self._note(expression, work.MOST_WORK - meter.left)
        # Three numbers instead of a table: an evaluation takes less time than looking up its outcome there.
        if value is True:
            self._true += 1
            outcome = Outcome.TOLERATED
        elif value is False:
            self._false += 1
            outcome = Outcome.EXPRESSION_FALSE
        else:
            self._failed += 1
            outcome = Outcome.EXPRESSION_FAILED
        if self.timed is not None:
            self.timed(perf_counter() - began)
        return outcome

    def _note(self, expression: str, units: int) -> None:
        """Count the work of an evaluation that takes long, and stop an expression that takes long too often."""
        now = monotonic()
        if now >= self._window_end:
            self._window_end = now + WINDOW_SECONDS
            self._used.clear()
        used = self._used.get(expression, 0) + units - UNNOTICED
        if used > ALLOWANCE and expression not in self.stopped:
            self._stop(expression, _TOO_MUCH)
        elif len(self._used) < MOST_STOPPED:
            self._used[expression] = used

    def _stop(self, expression: str, why: str) -> None:
        while len(self.stopped) >= MOST_STOPPED:
            self.stopped.pop(next(iter(self.stopped)), None)
        self.stopped[expression] = why

    def warning(self, uid: str, tolerations: Iterable[Toleration]) -> str:
        """Return the warning about the first of *tolerations* whose expression is stopped, once for each *uid*."""
        if not self.stopped or uid in self._warned:
            return ""
        for toleration in tolerations:
            why = self.stopped.get(toleration.expression) if toleration.expression else None
            if why is not None:
                text = toleration.expression
                shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
                while len(self._warned) >= MOST_STOPPED:
                    self._warned.pop(next(iter(self._warned)), None)
                self._warned[uid] = None
                return f"toleration expression {quote(shown)} is not evaluated any more and tolerates nothing: {why}"
        return ""

    @property
    def counts(self) -> dict[Outcome, int]:
        """How many evaluations there were, by what came of them."""
        return {
            Outcome.TOLERATED: self._true,
            Outcome.EXPRESSION_FALSE: self._false,
            Outcome.EXPRESSION_FAILED: self._failed,
        }

    def failure(self, expression: str, taint: Taint) -> str:
        """Return why *expression* fails for *taint*, empty if it does not; in one evaluation, and none once stopped."""
        if expression not in self.stopped:
            try:
                value = self.programs.compile(expression, ENV).evaluate({"taint": taint})
            except CostLimitExceeded as error:
                self._stop(expression, str(error))
            except CelError as error:
                return str(error)
            else:
                return "" if value.__class__ is bool else _not_a_bool(value)
        return self.stopped.get(expression, "")

    def judge(self, expression: str, taint: Taint) -> Judgement:
        """Return the same answer with its reasons."""
        variables = {"taint": taint}
        if (why := self.stopped.get(expression)) is not None:
            return Judgement(Outcome.EXPRESSION_FAILED, expression, 0, 0, why)
        try:
            program = self.programs.compile(expression, ENV)
        except CelError as refusal:
            return Judgement(Outcome.EXPRESSION_FAILED, expression, 0, 0, str(refusal))
        try:
            value, cost = program.run(variables)
            outcome, error = _outcome(value), ""
            if outcome is Outcome.EXPRESSION_FAILED:
                error = _not_a_bool(value)
        except CostLimitExceeded as failure:  # its parts would be evaluated again, one by one
            return Judgement(Outcome.EXPRESSION_FAILED, expression, 0, failure.cost, str(failure))
        except CelError as failure:
            outcome, cost, error = Outcome.EXPRESSION_FAILED, getattr(failure, "cost", 0), str(failure)
        part = reasons.decide(expression, ENV, variables, self.programs.compile)
        return Judgement(outcome, part.text, part.position, cost, error)


def _not_a_bool(value: Value) -> str:
    return f"the result is of type {type_of(value)}, not bool"


def _outcome(value: Value) -> Outcome:
    if value is True:
        return Outcome.TOLERATED
    return Outcome.EXPRESSION_FALSE if value is False else Outcome.EXPRESSION_FAILED


@cache
def shared() -> Expressions:
    """Return the expressions used where no component brings its own."""
    return Expressions()


def evaluate(expression: str, taint: Taint) -> Outcome:
    """Return whether *expression* is true for *taint*.

    >>> evaluate("semver(taint.value).major() >= 5", Taint("kernel", "abc", "NoSchedule"))
    <Outcome.EXPRESSION_FAILED: 'has an expression that fails for it'>
    """
    return shared().evaluate(expression, taint)


def failure(expression: str, taint: Taint) -> str:
    """Return why *expression* fails for *taint*; empty if it does not.

    >>> failure("taint.value.size()", Taint("a", "b"))
    'the result is of type int, not bool'
    """
    return shared().failure(expression, taint)


def decide(expression: str, taint: Taint) -> Judgement:
    """Return how *expression* meets *taint* and which part of it decided.

    >>> decide("taint.key == 'a' && taint.value == 'c'", Taint("a", "b")).deciding
    "taint.value == 'c'"
    """
    return shared().judge(expression, taint)
