"""Reference evaluator: one function per step, errors are values.

Spec: cel.md 6 "Evaluation", 12 "Runtime cost". Slow and literal on purpose: the generated code (weir.cel.codegen) is
held against it, and it runs what cannot be generated (expressions nested deeper than Python's compiler allows).
Both operands of a binary call are evaluated even when the first failed, and paid for; a loop
goes on after a failed pass, because only the accumulator carries the error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from weir.cel import access, ast, messages
from weir.cel.costs import LIST, MAP, STRUCT
from weir.cel.env import Env
from weir.cel.errors import NO_SUCH_OVERLOAD, CostLimitExceeded, EvaluationError, InternalError
from weir.cel.operations import (
    Outcome,
    apply,
    call_price,
    early_price,
    insert,
    iteration,
    marked,
    member_of,
    new_message,
    price,
)
from weir.cel.steps import (
    Choice,
    Const,
    Equal,
    Fold,
    InSet,
    Invoke,
    Local,
    Logic,
    NewList,
    NewMap,
    NewStruct,
    OrElse,
    Path,
    Qualifier,
    Step,
    Unresolved,
    Variable,
)
from weir.cel.values import ABSENT, NONE, Optional, Value, equal, new_map
from weir.cel.work import MOST_WORK, PLAIN_STEP, begin, roomy, spend


class _GrowingList(list[Any]):
    """The list a loop builds: no other step holds it yet, so it may grow in place."""


class _GrowingMap(dict[Any, Any]):
    """The map a loop builds."""


class _Lazy:
    """The accumulator before it was first asked for."""

    __slots__ = ("scope", "step")

    def __init__(self, step: Step, scope: dict[int, Any]) -> None:
        self.step = step
        self.scope = scope


def run(root: Step, env: Env, variables: Mapping[str, Value], work: int = MOST_WORK) -> tuple[Value, int]:
    """The value of *root* and what it cost; raises EvaluationError or CostLimitExceeded, both with `.cost`."""
    evaluator = Evaluator(env, variables)
    begin(work)
    try:
        outcome = evaluator.eval(root, {})
    except (InternalError, CostLimitExceeded) as error:
        error.cost = evaluator.cost
        raise
    if isinstance(outcome, EvaluationError):
        failure = EvaluationError(*outcome.args)
        failure.cost = evaluator.cost
        raise failure
    return outcome, evaluator.cost


run.__code__ = roomy(run.__code__)


class Evaluator:
    """One evaluation: the variables and the cost so far."""

    def __init__(self, env: Env, variables: Mapping[str, Value]) -> None:
        self.env = env
        self.variables = variables
        self.objects: access.Objects = env.python_classes
        self.cost = 0
        self.limit = env.cost_limit

    def charge(self, amount: int) -> None:
        self.cost += amount
        if self.cost > self.limit:
            raise CostLimitExceeded(self.cost)

    def eval(self, step: Step, scope: dict[int, Any]) -> Outcome:
        """The value of *step*, or the EvaluationError it ended with."""
        spend(PLAIN_STEP)
        return _EVAL[step.__class__](self, step, scope)

    # --- paths ---------------------------------------------------------------------------------------

    def path(self, step: Path, scope: dict[int, Any]) -> Outcome:
        outcome = self.resolve(step, scope)
        self.charge(step.lead)
        return outcome

    def bare(self, step: Step, scope: dict[int, Any]) -> Outcome:
        """A branch or an index: a path is not charged for its root."""
        return self.resolve(step, scope) if isinstance(step, Path) else self.eval(step, scope)

    def resolve(self, step: Path, scope: dict[int, Any]) -> Outcome:
        root, qualifiers = step.root, step.qualifiers
        if isinstance(root, Variable):
            value = self.variables.get(root.name, ABSENT)
            if value is ABSENT:
                return EvaluationError(f"no such attribute(s): {root.name}")
        elif isinstance(root, Local):
            value = self.local(root.slot, scope)
        elif isinstance(root, Unresolved):
            value, taken = self.unresolved(root)
            qualifiers = qualifiers[taken:]
        elif isinstance(root, Choice):
            value = self.choice(root, scope)
        else:
            value = self.eval(root, scope)
        if isinstance(value, EvaluationError):
            return value
        try:
            return self.qualify(value, qualifiers, scope, step.test, each=0 if step.shadowed else 1)
        except EvaluationError as error:
            return error

    def local(self, slot: int, scope: dict[int, Any]) -> Outcome:
        value = scope[slot]
        if value.__class__ is _Lazy:
            value = scope[slot] = self.eval(value.step, value.scope)
        return value

    def unresolved(self, root: Unresolved) -> tuple[Outcome, int]:
        for name, taken in root.candidates:
            if name in self.variables:
                return self.variables[name], taken
            found = self.env.constants.get(name) or messages.CONSTANTS.get(name)
            if found is not None:
                return found[1], taken
        return EvaluationError(f"no such attribute(s): {root.name}"), 0

    def choice(self, root: Choice, scope: dict[int, Any]) -> Outcome:
        condition = self.eval(root.condition, scope)
        if condition is True:
            return self.bare(root.yes, scope)
        if condition is False:
            return self.bare(root.no, scope)
        return condition if isinstance(condition, EvaluationError) else EvaluationError(NO_SUCH_OVERLOAD)

    def qualify(
        self, value: Value, qualifiers: list[Qualifier], scope: dict[int, Any], test: bool, each: int
    ) -> Outcome:
        """Apply *qualifiers* at the price of *each*; once one is optional, or the root was, the rest is too."""
        if not qualifiers:
            return value
        optional = value.__class__ is Optional
        if optional:
            if not value.has_value:
                return False if test else value
            value = value.value
        for qualifier in qualifiers:
            optional = optional or qualifier.optional
            key = qualifier.key
            charge = each
            if qualifier.computed:
                key = self.bare(qualifier.key, scope)
                if isinstance(qualifier.key, Path) and each:
                    charge = qualifier.key.lead or 1
                if isinstance(key, EvaluationError):
                    self.charge(0 if optional else charge)
                    raise key
            if optional or qualifier.test:
                try:
                    found = access.find(value, key, self.objects)
                except EvaluationError:
                    self.charge(0 if optional else charge)
                    raise
                if found is ABSENT:
                    if qualifier.test and not optional:
                        self.charge(charge)
                    return False if test else NONE
                self.charge(charge)
                value = found
            else:
                self.charge(charge)
                value = access.get(value, key, self.objects)
        if test:
            return True
        return Optional(value) if optional else value

    # --- operators -----------------------------------------------------------------------------------

    def logic(self, step: Logic, scope: dict[int, Any]) -> Outcome:
        failure: EvaluationError | None = None
        for term in (step.left, step.right):
            outcome = self.eval(term, scope)
            if outcome is step.decisive:
                return outcome
            if outcome.__class__ is not bool and failure is None:
                failure = (
                    outcome if isinstance(outcome, EvaluationError) else EvaluationError(NO_SUCH_OVERLOAD)
                )
        return not step.decisive if failure is None else failure

    def equal(self, step: Equal, scope: dict[int, Any]) -> Outcome:
        left = self.eval(step.left, scope)
        right = self.eval(step.right, scope)
        self.charge(price(step.overload, [left, right], None))
        outcome: Outcome
        if isinstance(left, EvaluationError):
            outcome = left
        elif isinstance(right, EvaluationError):
            outcome = right
        else:
            try:
                outcome = equal(left, right) is not step.negated
            except EvaluationError as error:
                # `!=` only asks whether the answer was true.
                outcome = True if step.negated else error
        return outcome

    def in_set(self, step: InSet, scope: dict[int, Any]) -> Outcome:
        element = self.eval(step.element, scope)
        if isinstance(element, EvaluationError):
            return element
        return member_of(element, step.members)

    def or_else(self, step: OrElse, scope: dict[int, Any]) -> Outcome:
        left = self.eval(step.left, scope)
        if isinstance(left, EvaluationError):
            return left
        if not isinstance(left, Optional):
            return EvaluationError(NO_SUCH_OVERLOAD)
        if left.has_value:
            return left.value if step.unwrap else left
        return self.eval(step.right, scope)

    def invoke(self, step: Invoke, scope: dict[int, Any]) -> Outcome:
        args: list[Outcome] = []
        failure: EvaluationError | None = None
        for arg in step.args:
            value = self.eval(arg, scope)
            args.append(value)
            if failure is None and isinstance(value, EvaluationError):
                failure = value
                if step.stops_early:
                    break
        if step.function == "@not_strictly_false":
            self.charge(1)
            return args[0] is not False
        if failure is not None and len(args) < len(step.args):
            return failure
        if step.resolved is not None:
            spend(step.resolved.effort // 10)
        early = early_price(step, args)
        if early is not None:
            self.charge(early)
        outcome = failure if failure is not None else self.apply(step, args)
        if early is None:
            self.charge(call_price(step, args, outcome))
        return outcome

    def apply(self, step: Invoke, args: list[Value]) -> Outcome:
        try:
            if args and args[0].__class__ is _GrowingList and step.function == ast.ADD:
                spend(len(args[1]) >> 3)
                args[0].extend(args[1])
                return args[0]
            if args and args[0].__class__ is _GrowingMap and step.function == ast.MAP_INSERT:
                for key, value in [args[1:]] if len(args) == 3 else args[1].items():
                    insert(args[0], key, value)
                return args[0]
            return apply(step, args, self.objects)
        except EvaluationError as error:
            return error.with_traceback(None)

    # --- literals ------------------------------------------------------------------------------------

    def new_list(self, step: NewList, scope: dict[int, Any]) -> Outcome:
        outcome = self.elements(step, scope)
        self.charge(LIST)
        return outcome

    def elements(self, step: NewList, scope: dict[int, Any]) -> Outcome:
        built: list[Value] = []
        for index, element in enumerate(step.elements):
            value = self.eval(element, scope)
            if index in step.optional:
                value = marked(value)
            if isinstance(value, EvaluationError):
                return value
            if value is not ABSENT:
                built.append(value)
        return built

    def new_map(self, step: NewMap, scope: dict[int, Any]) -> Outcome:
        outcome = self.entries(step, scope)
        self.charge(MAP)
        return outcome

    def entries(self, step: NewMap, scope: dict[int, Any]) -> Outcome:
        built: list[tuple[Value, Value]] = []
        for key_step, value_step, optional in step.entries:
            key = self.eval(key_step, scope)
            if isinstance(key, EvaluationError):
                return key
            value = self.eval(value_step, scope)
            if optional:
                value = marked(value)
            if isinstance(value, EvaluationError):
                return value
            if value is not ABSENT:
                built.append((key, value))
        try:
            return new_map(built)
        except TypeError:
            return EvaluationError("unsupported key type")

    def new_struct(self, step: NewStruct, scope: dict[int, Any]) -> Outcome:
        outcome = self.fields(step, scope)
        self.charge(STRUCT)
        return outcome

    def fields(self, step: NewStruct, scope: dict[int, Any]) -> Outcome:
        built: dict[str, Value] = {}
        for name, value_step, optional in step.entries:
            value = self.eval(value_step, scope)
            if optional:
                value = marked(value)
            if isinstance(value, EvaluationError):
                return value
            if value is not ABSENT:
                built[name] = value
        try:
            return new_message(step.name, built)
        except EvaluationError as error:
            return error

    # --- comprehensions ------------------------------------------------------------------------------

    def fold(self, step: Fold, scope: dict[int, Any]) -> Outcome:
        inner = dict(scope)
        if step.bind:
            inner[step.accu] = _Lazy(step.init, scope)
            return self.eval(step.result, inner)
        over = self.eval(step.over, scope)
        if isinstance(over, EvaluationError):
            return over
        passes = iteration(over, step.slot2 is not None)
        if isinstance(passes, EvaluationError):
            return passes
        growing = _growing(step.init)
        inner[step.accu] = _Lazy(step.init, scope) if growing is None else growing
        for first, second in passes:
            inner[step.slot] = first
            if step.slot2 is not None:
                inner[step.slot2] = second
            if self.eval(step.condition, inner) is False:
                break
            inner[step.accu] = self.eval(step.step, inner)
        grown = inner[step.accu]
        if grown.__class__ is _GrowingList or grown.__class__ is _GrowingMap:
            inner[step.accu] = (list if grown.__class__ is _GrowingList else dict)(grown)
        return self.eval(step.result, inner)


def _growing(init: Step) -> _GrowingList | _GrowingMap | None:
    """A fresh container for a loop that starts from an empty literal."""
    if not isinstance(init, Const) or init.value or init.value.__class__ not in (list, dict):
        return None
    return _GrowingList() if init.value.__class__ is list else _GrowingMap()


_Handler = Callable[[Evaluator, Any, dict[int, Any]], Outcome]
_EVAL: Final[dict[type, _Handler]] = {
    Const: lambda _, step, __: step.value,
    Path: Evaluator.path,
    Logic: Evaluator.logic,
    Equal: Evaluator.equal,
    InSet: Evaluator.in_set,
    OrElse: Evaluator.or_else,
    Invoke: Evaluator.invoke,
    NewList: Evaluator.new_list,
    NewMap: Evaluator.new_map,
    NewStruct: Evaluator.new_struct,
    Fold: Evaluator.fold,
}
