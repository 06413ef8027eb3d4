"""Compilation and evaluation of an expression, and the reasons for which the API rejects one.

Spec: cel.md 1 "Pipeline", 14.3 "Validation errors of the API field". `compile` goes from text to a `Program`; a program
is immutable and may be evaluated by many threads at once. The static estimate is computed when first asked for, because
evaluation never needs it. Programs are kept by weir.cel.cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from weir.cel import reference
from weir.cel.checker import check
from weir.cel.codegen.compile import Runner, Unsupported, plan
from weir.cel.env import Env
from weir.cel.errors import CompileError, CostLimitExceeded, InternalError, Source
from weir.cel.estimate import Estimate, estimate
from weir.cel.lowering import ProgramError, lower
from weir.cel.macros import Macros
from weir.cel.parser import parse
from weir.cel.steps import Step
from weir.cel.types import DYN, Kind, Node, Type
from weir.cel.validators import validate
from weir.cel.values import Value
from weir.cel.work import EXACT_WORK, MOST_WORK, begin, charge_text

#: Memory of a program, measured on programs of many short calls, which take the most for their text.
_PROGRAM_BYTES: Final = 2_048
_BYTES_PER_CHARACTER: Final = 64


class Checked:
    """An expression that passed all checks of its text: its tree, its type and its static cost."""

    __slots__ = ("_estimate", "checked", "env", "expression", "root")

    def __init__(self, expression: str, env: Env, root: Node, checked: bool) -> None:
        self.expression: Final = expression
        self.env: Final = env
        self.root: Final = root
        self.checked: Final = checked
        self._estimate: Estimate | None = None

    @property
    def type(self) -> Type:
        """The type of the result."""
        return self.root.type if self.checked else DYN

    @property
    def estimate(self) -> Estimate:
        """The least and the most an evaluation can cost."""
        if self._estimate is None:
            self._estimate = estimate(self.root, self.env)
        return self._estimate


class Program:
    """A compiled expression; immutable, safe to share between threads.

    `evaluate(variables)` returns the value or raises EvaluationError or CostLimitExceeded. It is the generated
    function itself, not a method around it: a call less on the path every taint takes.

    >>> from weir.cel import types
    >>> from weir.cel.library import KUBERNETES
    >>> compile("size(x) > 2", Env(KUBERNETES, {"x": types.STRING})).evaluate({"x": "abc"})
    True
    """

    __slots__ = ("_env", "_plainly", "bytes", "evaluate", "expression", "type")

    evaluate: Callable[[Mapping[str, Value]], Value]

    def __init__(self, checked: Checked) -> None:
        # The tree is not kept: it is large, and what needs it (estimate, plain evaluation) is rare.
        self._env: Final = checked.env
        self._plainly: Final = partial(_run_plainly, checked.expression, checked.env, checked.checked)
        self.expression: Final = checked.expression
        self.type: Final = checked.type
        meter = begin()  # patterns and calls of constants are worked off now
        steps = lower(checked.root, checked.env, checked.checked)
        try:
            self.evaluate = plan(steps, checked.env, self._plainly)
        except Unsupported:
            self.evaluate = partial(_run_steps, steps, checked.env)
        patterns = sum(regex.bytes for regex in meter.patterns.values())
        #: memory it takes at most, about: code, constants, and the automata of its patterns
        self.bytes: Final = _PROGRAM_BYTES + _BYTES_PER_CHARACTER * len(checked.expression) + patterns

    @property
    def estimate(self) -> Estimate:
        """The least and the most an evaluation can cost."""
        return check_expression(self.expression, self._env).estimate

    def run(self, variables: Mapping[str, Value]) -> tuple[Value, int]:
        """The value and the runtime cost; errors carry the cost as `.cost`, at least the limit if it was exceeded."""
        evaluate: Runner = self.evaluate
        try:
            result: tuple[Value, int] = evaluate(variables, True)
        except CostLimitExceeded as error:
            error.cost = max(error.cost, self._env.cost_limit)
            raise
        except InternalError:  # upstream counts up to it
            result = self._plainly(variables, True)
        return result

    def run_exactly(self, variables: Mapping[str, Value]) -> tuple[Value, int]:
        """The same with the exact cost of an evaluation that ran out of budget: repeated plainly, for people."""
        try:
            return self.run(variables)
        except CostLimitExceeded:
            result: tuple[Value, int] = self._plainly(variables, True, EXACT_WORK)
            return result


def _run_plainly(
    expression: str,
    env: Env,
    checked: bool,
    variables: Mapping[str, Value],
    priced: bool,
    work: int = MOST_WORK,
) -> Value:
    """Evaluate without generated code; the value, or (value, cost)."""
    root = check_expression(expression, env, checked).root
    return _run_steps(lower(root, env, checked), env, variables, priced, work)


def _run_steps(
    steps: Step, env: Env, variables: Mapping[str, Value], priced: bool = False, work: int = MOST_WORK
) -> Value:
    outcome = reference.run(steps, env, variables, work)
    return outcome if priced else outcome[0]


def check_expression(expression: str, env: Env, checked: bool = True) -> Checked:
    """Parse, type-check and validate; raises CompileError, TooMuchText."""
    charge_text(len(expression))
    begin()  # what validates literals works as it does when it is evaluated
    source = Source(expression)
    root = parse(source, Macros(env.macro_groups, env.macros_enabled))
    if checked:
        root = check(source, root, env)
        validate(source, root, env)
    return Checked(expression, env, root, checked)


def build(checked: Checked) -> Program:
    """The program of a checked expression; raises ProgramError."""
    return Program(checked)


def compile(expression: str, env: Env) -> Program:
    """Compile *expression*; raises CompileError or ProgramError, whose text is what Kubernetes prints."""
    return build(check_expression(expression, env))


INVALID: Final = "invalid"
INTERNAL: Final = "internal"
FORBIDDEN: Final = "forbidden"
TOO_COMPLEX: Final = "too complex, exceeds cost limit"


class Refusal(NamedTuple):
    """The sort of error (`invalid`, `internal` or `forbidden`) and its message."""

    kind: str
    message: str


def refuse(expression: str, env: Env, results: Sequence[Type]) -> Refusal | None:
    """Return why *expression* is refused, or None; its type must be one of *results*."""
    try:
        checked = check_expression(expression, env)
    except CompileError as error:
        return Refusal(INVALID, f"compilation failed: {error}")
    if checked.type not in results:
        return Refusal(INVALID, f"must evaluate to bool or the unknown type, not {long_name(checked.type)}")
    try:
        build(checked)
    except ProgramError as error:
        return Refusal(INTERNAL, f"program instantiation failed: {error}")
    if checked.estimate.max > env.cost_limit:
        return Refusal(FORBIDDEN, TOO_COMPLEX)
    return None


def long_name(of: Type) -> str:
    """Return a type as this message writes it: `google.protobuf.Timestamp`, `list(string)`.

    >>> from weir.cel import types
    >>> long_name(types.list_of(types.TIMESTAMP))
    'list(google.protobuf.Timestamp)'
    >>> long_name(types.wrapper(types.INT)), long_name(types.ANY)
    ('wrapper(int)', 'google.protobuf.Any')
    """
    if of.kind is Kind.WRAPPER:
        return str(of)
    if of.kind is Kind.ANY:
        return "google.protobuf.Any"
    if not of.params:
        return of.name
    return f"{of.name}({', '.join(map(long_name, of.params))})"
