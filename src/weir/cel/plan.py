"""How does an expression run fast? Its steps become one Python function.

Spec: cel.md 6 "Evaluation", 12 "Runtime cost". The generated source contains names of our own making and numbers
only: every constant of the user, even a field name, is handed over as an object, so no text can escape into code.
Values need no wrapping, errors are values too (an `EvaluationError` where a value would be), and only steps that can
fail are checked. Costs known beforehand are summed per branch and added at once; the budget is checked in loops, after
results that can grow, and at the end.
What surprises: functions of the same shape share their code, because constants are not part of it; what Python's
compiler would refuse (very deep nesting) runs in weir.cel.reference instead, which also says the exact
cost of an evaluation that was cut off.
Not here: what steps mean (weir.cel.reference is the truth), where they come from (weir.cel.lowering).
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, Final

from weir.cel import ast, costs, runtime
from weir.cel.env import Env, Overload, RuntimeCost
from weir.cel.fallible import Fallibility, below, reads, surely_reads
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
from weir.cel.types import Kind
from weir.cel.values import CelError, DefaultMap, EvaluationError

#: Takes the variables, returns the value, or, asked for the cost too, (value, cost); raises with `.cost` set.
Runner = Callable[..., Any]

#: Python allows 20 nested loops and `try`s and 100 levels of indentation.
_MOST_BLOCKS: Final = 15
_MOST_INDENTS: Final = 80
_MOST_LINES: Final = 12_000
_LONGEST: Final = 160
#: Loops nested deeper than this are written as functions of their own.
_OUTLINED: Final = 8
_OUTER_NAME: Final = re.compile(r"\b[vx]\d+\b")

_SCALARS: Final = frozenset(
    (Kind.BOOL, Kind.INT, Kind.UINT, Kind.DOUBLE, Kind.TIMESTAMP, Kind.DURATION, Kind.TYPE)
)
_TEXTS: Final = frozenset((Kind.STRING, Kind.BYTES))
#: Kinds whose Python `==` is CEL's when both sides have the same static type.
_PLAIN_EQUALITY: Final = _SCALARS | _TEXTS
_MAYBE_OPTIONAL: Final = frozenset((Kind.OPTIONAL, Kind.DYN, Kind.ANY, Kind.ERROR, Kind.NULL))
_GROWING: Final = frozenset((Kind.STRING, Kind.BYTES, Kind.LIST, Kind.MAP, Kind.DYN, Kind.ANY))
#: Functions that must know the objects bound to variables.
_BY_VALUE: Final = frozenset(("type", "dyn"))
#: Results of constant calls worth keeping: small ones.
_FOLDED: Final = _SCALARS | {Kind.OPAQUE}
_PLACEHOLDER: Final = re.compile(r"\{(n?)(\d+|f)\}")


class Unsupported(Exception):
    """Python could not compile this; the plain evaluator must run it."""


def plan(root: Step, env: Env, plainly: Runner) -> Runner:
    """The function that runs *root*; raises Unsupported when it must be run by the plain evaluator.

    *plainly* takes over when a variable is not bound.
    """
    emitter = _Emitter(root, env)
    source = emitter.function(root)
    try:
        codes = _compiled(source)
    except (SyntaxError, RecursionError, MemoryError):  # a limit of Python's compiler
        raise Unsupported from None
    namespace: dict[str, Any] = emitter.constants
    namespace["__builtins__"] = _BUILTINS
    namespace["plainly"] = plainly
    for code in codes[1:]:
        namespace[code.co_name] = FunctionType(code, namespace)
    return FunctionType(codes[0], namespace, None, (False,))


def generated_source(root: Step, env: Env) -> str:
    """The source *plan* would compile, for people and tests."""
    return _Emitter(root, env).function(root)


_BUILTINS: Final[dict[str, Any]] = {
    "len": len, "min": min, "max": max, "str": str, "int": int, "bool": bool, "list": list, "iter": iter,
    "next": next, "KeyError": KeyError, "True": True, "False": False, "None": None,
}  # fmt: skip


@lru_cache(maxsize=2048)
def _compiled(source: str) -> tuple[CodeType, ...]:
    """The code of the functions in *source*, the main one first."""
    module = compile(source, "<cel>", "exec", dont_inherit=True, optimize=2)
    return tuple(c for c in module.co_consts if isinstance(c, CodeType))


class _Atom:
    """A Python expression for a value.

    simple: a name, free to repeat. error: may be an EvaluationError. known: the Const it stands for.
    """

    __slots__ = ("error", "known", "simple", "text")

    def __init__(
        self, text: str, *, simple: bool = False, error: bool = False, known: Const | None = None
    ) -> None:
        self.text = text
        self.simple = simple
        self.error = error
        self.known = known


class _Emitter:
    """Writes the function for one expression."""

    def __init__(self, root: Step, env: Env) -> None:
        self.env = env
        self.lines: list[str] = []
        self.level = 1
        self.blocks = 0
        self.names = 0
        self.pending = [0]  # cost to add, per open branch
        self.counts = False  # whether the function counts at all
        self.constants: dict[str, Any] = {"E": EvaluationError}
        self.known: dict[int, str] = {}
        self.keep: list[Any] = []
        self.variables: dict[str, str] = {}
        self.fails = Fallibility(root)
        self.error_locals = self.fails.locals
        self.lazy: dict[int, Step] = {}
        self.outlined = 0
        self.functions: list[str] = []

    # --- writing -------------------------------------------------------------------------------------

    def emit(self, line: str) -> None:
        if len(self.lines) > _MOST_LINES:
            raise Unsupported
        self.counts = self.counts or "c += " in line
        self.lines.append(" " * self.level + line)

    def fresh(self) -> str:
        self.names += 1
        return f"t{self.names}"

    def constant(self, value: Any) -> str:
        """A name for an object handed to the function."""
        name = self.known.get(id(value))
        if name is None:
            name = f"k{len(self.known)}"
            self.known[id(value)] = name
            self.keep.append(value)
            self.constants[name] = value
        return name

    def cost(self, amount: int) -> None:
        self.pending[-1] += amount

    def flush(self) -> None:
        if self.pending[-1]:
            self.emit(f"c += {self.pending[-1]}")
            self.pending[-1] = 0

    def dynamic_cost(self, expression: str) -> None:
        """Add a cost that depends on values, with what is pending."""
        if self.pending[-1]:
            expression = f"{expression} + {self.pending[-1]}"
            self.pending[-1] = 0
        self.emit(f"c += {expression}")

    def check_budget(self) -> None:
        self.flush()
        self.emit(f"if c > {self.env.cost_limit}: raise {self.constant(runtime.over)}(c)")

    @contextmanager
    def branch(self, head: str, block: bool = False) -> Iterator[None]:
        """An indented block with costs of its own; *block*: one that Python counts."""
        self.emit(head)
        self.level += 1
        self.blocks += block
        if self.level > _MOST_INDENTS or self.blocks > _MOST_BLOCKS:
            raise Unsupported
        self.pending.append(0)
        before = len(self.lines)
        yield
        self.flush()
        self.pending.pop()
        if len(self.lines) == before:
            self.emit("pass")
        self.blocks -= block
        self.level -= 1

    def name(self, atom: _Atom) -> str:
        """A name for the value of *atom*."""
        if atom.simple:
            return atom.text
        name = self.fresh()
        self.emit(f"{name} = {atom.text}")
        atom.text, atom.simple = name, True
        return name

    def guarded(self, target: str, expression: str) -> None:
        """`target = expression`, or the error it raises."""
        self.emit("try:")
        self.emit(f" {target} = {expression}")
        self.emit(f"except E as e: {target} = e.with_traceback(None)")

    # --- the function --------------------------------------------------------------------------------

    def function(self, root: Step) -> str:
        result = self.gen(root)
        limit, over = self.env.cost_limit, self.constant(runtime.over)
        if result.error or self.counts:
            self.name(result)
        if self.counts:
            self.flush()
            self.emit(f"if c > {limit}: raise {over}(c)")
        elif self.pending[0] > limit:
            self.emit(f"raise {over}({self.pending[0]})")
        total = "c" if self.counts else str(self.pending[0])
        if result.error:
            failed = self.constant(runtime.failed)
            self.emit(f"if {result.text}.__class__ is E: raise {failed}({result.text}, {total})")
        self.emit(f"return ({result.text}, {total}) if priced else {result.text}")
        head = ["def run(V, priced):"]
        for variable, local in self.variables.items():
            head += [
                " try:",
                f"  {local} = V[{self.constant(variable)}]",
                " except KeyError: return plainly(V, priced)",
            ]
        if self.counts:
            head.append(" c = 0")
        return "\n".join([*head, *self.lines, *self.functions])

    def gen(self, step: Step) -> _Atom:
        """Write the code of *step*; what comes back is its value."""
        atom = _GENERATORS[step.__class__](self, step)
        if len(atom.text) > _LONGEST:  # Python allows 200 nested parentheses
            self.name(atom)
        return atom

    def gen_const(self, step: Const) -> _Atom:
        value = step.value
        if value is True or value is False or value is None:
            return _Atom(repr(value), simple=True, known=step)
        return _Atom(self.constant(value), simple=True, known=step)

    # --- paths ---------------------------------------------------------------------------------------

    def gen_path(self, step: Path) -> _Atom:
        self.cost(step.lead)
        return self.gen_bare(step)

    def gen_bare(self, step: Step) -> _Atom:
        """A path without the price of its root; anything else as usual."""
        if not isinstance(step, Path):
            return self.gen(step)
        root = step.root
        value = self.gen_root(root)
        if not step.qualifiers:
            return value
        qualifiers = step.qualifiers
        direct = 0
        may_be_optional = root.type.kind in _MAYBE_OPTIONAL
        while (
            not may_be_optional
            and direct < len(qualifiers)
            and not qualifiers[direct].optional
            and not qualifiers[direct].test
        ):
            value = self.gen_qualifier(value, qualifiers[direct])
            direct += 1
        rest = qualifiers[direct:]
        if not rest:
            return value
        return self.gen_rest(value, rest, step.test, may_be_optional)

    def gen_root(self, root: Step) -> _Atom:
        if isinstance(root, Variable):
            local = self.variables.get(root.name)
            if local is None:
                local = self.variables[root.name] = f"v{len(self.variables)}"
            return _Atom(local, simple=True)
        if isinstance(root, Local):
            pending = self.lazy.get(root.slot)
            if pending is not None:
                return self.gen_lazy(root, pending)
            return _Atom(f"x{root.slot}", simple=True, error=root.slot in self.error_locals)
        if isinstance(root, Choice):
            return self.gen_choice(root)
        if isinstance(root, Unresolved):
            raise Unsupported
        return self.gen(root)

    def gen_qualifier(self, value: _Atom, qualifier: Qualifier) -> _Atom:
        """One plain access; after one that can fail the next is only tried on success."""
        target = self.fresh()
        if value.error:
            container = self.name(value)
            with self.branch(
                f"if {container}.__class__ is E: {target} = {container}\n{' ' * self.level}else:"
            ):
                self.access(target, container, qualifier)
            return _Atom(target, simple=True, error=True)
        if qualifier.field and not qualifier.computed and _is_name(qualifier.key):
            self.cost(1)
            return _Atom(f"{value.text}.{qualifier.key}")
        self.access(target, self.name(value), qualifier)
        return _Atom(target, simple=True, error=not qualifier.field)

    def access(self, target: str, container: str, qualifier: Qualifier) -> None:
        if qualifier.computed:
            key = self.gen_bare(qualifier.key)
            charge = qualifier.key.lead if isinstance(qualifier.key, Path) else 1
            self.cost(charge)
            name = self.name(key)
            if key.error:
                head = f"if {name}.__class__ is E: {target} = {name}\n{' ' * self.level}else:"
                with self.branch(head):
                    self.lookup(target, container, name, qualifier)
            else:
                self.lookup(target, container, name, qualifier)
            return
        self.cost(1)
        self.lookup(target, container, self.constant(qualifier.key), qualifier)

    def lookup(self, target: str, container: str, key: str, qualifier: Qualifier) -> None:
        operand = qualifier.operand_type
        constant_text = not qualifier.computed and qualifier.key.__class__ is str
        by_text = qualifier.computed and operand.kind is Kind.MAP and qualifier.key.type.kind is Kind.STRING
        if operand.kind is Kind.MAP and (constant_text or by_text):
            self.emit("try:")
            self.emit(f" {target} = {container}[{key}]")
            self.emit(f"except KeyError: {target} = {self.constant(runtime.missing)}({key})")
            return
        self.guarded(target, f"{self.constant(runtime.get)}({container}, {key}, {self.objects()})")

    def objects(self) -> str:
        return self.constant(self.env.python_classes)

    def gen_rest(self, value: _Atom, rest: list[Qualifier], test: bool, root_optional: bool) -> _Atom:
        """Optional access, `has`, and everything whose root may be an optional: done by a helper."""
        first = rest[0]
        if test and len(rest) == 1 and not value.error and not root_optional:
            if first.field:
                self.cost(1)
                return _Atom("True", simple=True)
            if first.operand_type.kind is Kind.MAP and first.key.__class__ is str:
                self.cost(1)
                container, defaults = self.name(value), self.constant(DefaultMap)
                return _Atom(
                    f"({self.constant(first.key)} in {container} or {container}.__class__ is {defaults})"
                )
        if len(rest) > 1 and any(qualifier.computed for qualifier in rest):
            raise Unsupported
        keys = tuple((qualifier.key, qualifier.optional, qualifier.test) for qualifier in rest)
        container = self.name(value)
        target = self.fresh()
        if rest[0].computed:
            return self.gen_optional_index(container, value.error, rest[0], root_optional, target)
        walk = self.constant(runtime.walk)
        shape = self.constant(keys)
        self.flush()
        call = f"{walk}({container}, {shape}, {test}, {root_optional}, {self.objects()})"
        if value.error:
            self.emit(f"if {container}.__class__ is E: {target} = {container}")
            self.emit(f"else: {target}, n = {call}; c += n")
        else:
            self.emit(f"{target}, n = {call}")
            self.emit("c += n")
        return _Atom(target, simple=True, error=True)

    def gen_optional_index(
        self, container: str, error: bool, qualifier: Qualifier, root_optional: bool, target: str
    ) -> _Atom:
        """`container[?key]` or an index into what may be an optional, with a computed key."""
        index = self.constant(runtime.index)
        charge = qualifier.key.lead if isinstance(qualifier.key, Path) else 1
        head = f"if {container}.__class__ is E: {target} = {container}\n{' ' * self.level}else:"
        empty = self.constant(runtime.is_none)
        if not error:
            head = "if True:"
        with self.branch(head):
            if root_optional:
                inner = f"if {empty}({container}): {target} = {container}\n{' ' * self.level}else:"
            else:
                inner = "if True:"
            with self.branch(inner):
                key = self.name(self.gen_bare(qualifier.key))
                self.flush()
                self.emit(
                    f"{target}, n = {index}({container}, {key}, {qualifier.optional}, {root_optional}, "
                    f"{charge}, {self.objects()})"
                )
                self.emit("c += n")
        return _Atom(target, simple=True, error=True)

    def gen_choice(self, root: Choice) -> _Atom:
        condition = self.gen(root.condition)
        target = self.fresh()
        sure = not condition.error and root.condition.type.kind is Kind.BOOL
        test = condition.text if sure else f"{self.name(condition)} is True"
        with self.branch(f"if {test}:"):
            yes = self.gen_bare(root.yes)
            self.emit(f"{target} = {yes.text}")
        with self.branch("else:" if sure else f"elif {condition.text} is False:"):
            no = self.gen_bare(root.no)
            self.emit(f"{target} = {no.text}")
        if not sure:
            self.emit(f"else: {target} = {self.constant(runtime.as_error)}({condition.text})")
        return _Atom(target, simple=True, error=yes.error or no.error or not sure)

    # --- operators -----------------------------------------------------------------------------------

    def gen_logic(self, step: Logic) -> _Atom:
        left = self.gen(step.left)
        sure = not left.error and step.left.type.kind is Kind.BOOL
        target = self.fresh()
        self.emit(f"{target} = {left.text}")
        if sure:
            head = f"if not {target}:" if step.decisive else f"if {target}:"
        else:
            head = f"if {target} is not {step.decisive}:"
        with self.branch(head):
            right = self.gen(step.right)
            right_sure = not right.error and step.right.type.kind is Kind.BOOL
            if sure and (right_sure or step.right.type.kind is Kind.BOOL):
                self.emit(f"{target} = {right.text}")
                error = right.error
            else:
                both = self.constant(runtime.both)
                self.emit(f"{target} = {both}({target}, {right.text}, {step.decisive})")
                error = True
        return _Atom(target, simple=True, error=error)

    def gen_equal(self, step: Equal) -> _Atom:
        left, right = self.gen(step.left), self.gen(step.right)
        kind = step.left.type.kind
        alike = kind is step.right.type.kind and step.left.type == step.right.type
        plain = alike and kind in _PLAIN_EQUALITY
        if left.error or right.error or not plain:
            return self.gen_equal_slow(step, left, right)
        if kind in _TEXTS:
            self.text_comparison_cost(left, right)
        else:
            self.cost(1)
        operator = "!=" if step.negated else "=="
        return _Atom(f"({left.text} {operator} {right.text})")

    def gen_equal_slow(self, step: Equal, left: _Atom, right: _Atom) -> _Atom:
        target = self.fresh()
        a, b = self.name(left), self.name(right)
        both_scalar = step.left.type.kind in _SCALARS and step.right.type.kind in _SCALARS
        if both_scalar:
            self.cost(1)
        else:
            self.dynamic_cost(self.rule_call(_cost_of(step.overload), [left, right], "None"))
            self.check_budget()
        self.emit(f"{target} = {self.constant(runtime.equals)}({a}, {b}, {step.negated})")
        return _Atom(target, simple=True, error=True)

    def text_comparison_cost(self, left: _Atom, right: _Atom) -> None:
        """A tenth of the shorter text."""
        sizes = [len(atom.known.value) for atom in (left, right) if atom.known is not None]
        unknown = [atom for atom in (left, right) if atom.known is None]
        if not unknown:
            self.cost(costs.tenth(min(sizes)))
        elif sizes and sizes[0] == 0:
            self.name(unknown[0])
        elif sizes and sizes[0] <= 10:
            self.dynamic_cost(f"(1 if {self.name(unknown[0])} else 0)")
        elif sizes:
            length = self.fresh()
            self.emit(f"{length} = len({self.name(unknown[0])})")
            self.dynamic_cost(f"(({length} if {length} < {sizes[0]} else {sizes[0]}) + 9) // 10")
        else:
            a, b = self.fresh(), self.fresh()
            self.emit(f"{a} = len({self.name(unknown[0])}); {b} = len({self.name(unknown[1])})")
            self.dynamic_cost(f"(({a} if {a} < {b} else {b}) + 9) // 10")

    def rule_call(self, cost: RuntimeCost | None, args: list[_Atom], result: str) -> str:
        """The price of a call by the full rule."""
        if cost is None:
            return "1"
        given = ", ".join(arg.text for arg in args)
        return f"{self.constant(cost.rule)}(({given}{',' if len(args) == 1 else ''}), {result})"

    def gen_in_set(self, step: InSet) -> _Atom:
        element = self.gen(step.element)
        kinds = {member.__class__ for member in step.members}
        exact = (step.element.type.kind is Kind.STRING and kinds == {str}) or (
            step.element.type.kind is Kind.INT and kinds == {int}
        )
        if exact and not element.error:
            return _Atom(f"({element.text} in {self.constant(frozenset(step.members))})")
        target = self.fresh()
        member_of = self.constant(runtime.member)
        self.emit(f"{target} = {member_of}({element.text}, {self.constant(step.members)})")
        return _Atom(target, simple=True, error=element.error)

    def gen_or_else(self, step: OrElse) -> _Atom:
        left = self.gen(step.left)
        name = self.name(left)
        target = self.fresh()
        choose = self.constant(runtime.or_else)
        self.emit(f"{target} = {choose}({name}, {step.unwrap})")
        with self.branch(f"if {target} is {self.constant(runtime.ELSE)}:"):
            right = self.gen(step.right)
            self.emit(f"{target} = {right.text}")
        error = left.error or right.error or step.left.type.kind is not Kind.OPTIONAL
        return _Atom(target, simple=True, error=error)

    # --- calls ---------------------------------------------------------------------------------------

    def gen_invoke(self, step: Invoke) -> _Atom:
        if step.function == ast.NOT_STRICTLY_FALSE:
            value = self.gen(step.args[0])
            self.cost(1)
            return _Atom(f"({value.text} is not False)")
        if len(step.args) > 2:
            return self.gen_many(step)
        return self.gen_call(step, [self.gen(arg) for arg in step.args])

    def gen_call(self, step: Invoke, args: list[_Atom]) -> _Atom:
        overload = step.resolved
        failing = [arg for arg in args if arg.error]
        if step.function == ast.IN and overload is not None and not failing:
            contained = self.gen_in(step, args)
            if contained is not None:
                return contained
        if overload is None or any(step.guards) or overload.impl is None or step.function in _BY_VALUE:
            return self.gen_dispatch(step, args)
        if failing:
            return self.gen_call_checked(step, args, failing)
        if all(arg.known is not None for arg in args) and step.type.kind in _FOLDED:
            folded = self.gen_folded(step, args)
            if folded is not None:
                return folded
        if overload.inline is not None and not overload.fails and step.special is None:
            self.call_cost(step, args, "None")
            return _Atom(f"({self.filled(overload.inline, args)})")
        if overload.cost is not None and overload.cost.needs_result:
            for arg in args:
                self.name(arg)
            target = self.fresh()
            self.call_into(target, step, self.call_text(step, args))
            self.call_cost(step, args, target)
            return _Atom(target, simple=True, error=step.fails)
        # Priced before it runs, so that what is beyond the budget never starts.
        self.call_cost(step, args, "None")
        text = self.call_text(step, args)
        if step.fails:
            target = self.fresh()
            self.guarded(target, text)
            return _Atom(target, simple=True, error=True)
        return _Atom(text)

    def gen_folded(self, step: Invoke, args: list[_Atom]) -> _Atom | None:
        """A call of constants is computed now, but still charged; one that fails is left to fail later."""
        overload = step.resolved
        assert overload is not None and overload.impl is not None
        values = [arg.known.value for arg in args if arg.known is not None]
        try:
            value = overload.impl(*values)
        except CelError:
            return None
        cost = overload.cost
        if cost is None:
            self.cost(1)
        else:
            self.cost(cost.rule(values, value) if cost.constant is None else cost.constant)
        return self.gen_const(Const(value, step.type))

    def call_into(self, target: str, step: Invoke, text: str) -> None:
        if step.fails:
            self.guarded(target, text)
        else:
            self.emit(f"{target} = {text}")

    def gen_call_checked(self, step: Invoke, args: list[_Atom], failing: list[_Atom]) -> _Atom:
        """A call some of whose arguments may be errors: the first of them is the result."""
        overload = step.resolved
        assert overload is not None
        names = [self.name(arg) for arg in args]
        target = self.fresh()
        static = self.static_cost(step, args)
        if static is not None:
            self.cost(static)
        word = "if"
        for arg in failing:
            with self.branch(f"{word} {arg.text}.__class__ is E:"):
                self.emit(f"{target} = {arg.text}")
                if static is None:
                    self.dynamic_cost(self.rule_call(overload.cost, args, target))
            word = "elif"
        clean = [_Atom(name, simple=True, known=arg.known) for name, arg in zip(names, args, strict=True)]
        with self.branch("else:"):
            late = overload.cost is not None and overload.cost.needs_result
            if static is None and not late:
                self.call_cost(step, clean, "None")
            if overload.inline is not None and not overload.fails and step.special is None:
                self.emit(f"{target} = {self.filled(overload.inline, clean)}")
            else:
                self.call_into(target, step, self.call_text(step, clean))
            if static is None and late:
                self.call_cost(step, clean, target)
        return _Atom(target, simple=True, error=True)

    def gen_dispatch(self, step: Invoke, args: list[_Atom]) -> _Atom:
        """A call whose overload is chosen by the values."""
        names = [self.name(arg) for arg in args]
        target = self.fresh()
        given = ", ".join(names) + ("," if len(names) == 1 else "")
        apply = self.constant(runtime.apply)
        self.emit(f"{target}, n = {apply}({self.constant(step)}, ({given}), {self.objects()})")
        self.dynamic_cost("n")
        if step.type.kind in _GROWING:
            self.check_budget()
        return _Atom(target, simple=True, error=True)

    def gen_in(self, step: Invoke, args: list[_Atom]) -> _Atom | None:
        """`text in container` where both types are known; other elements need CEL's equality."""
        element, container = step.args[0].type, step.args[1].type
        if element.kind is not Kind.STRING or container.kind not in (Kind.LIST, Kind.MAP):
            return None
        if container.params[0].kind is not Kind.STRING:
            return None
        self.call_cost(step, args, "None")
        return _Atom(f"({args[0].text} in {args[1].text})")

    def gen_many(self, step: Invoke) -> _Atom:
        """Three arguments and more: the first error ends the evaluation of arguments, and nothing is charged."""
        args: list[_Atom] = []
        target = self.fresh()
        with self.sequence() as stop:
            for index, arg in enumerate(step.args):
                atom = self.gen(arg)
                args.append(atom)
                if atom.error and index < len(step.args) - 1:
                    stop(target, atom)
                    atom.error = False
            result = self.gen_call(step, args)
            self.emit(f"{target} = {result.text}")
        return _Atom(target, simple=True, error=True)

    @contextmanager
    def sequence(self) -> Iterator[Callable[[str, _Atom], None]]:
        """Code that can be left early: `stop(target, atom)` leaves with the error if *atom* is one."""

        def stop(target: str, atom: _Atom) -> None:
            name = self.name(atom)
            self.flush()
            self.emit(f"if {name}.__class__ is E: {target} = {name}; break")

        with self.branch("while True:", block=True):
            yield stop
            self.flush()
            self.emit("break")

    def call_text(self, step: Invoke, args: list[_Atom]) -> str:
        overload = step.resolved
        assert overload is not None
        special = step.special
        if special is not None:
            rest = [arg for index, arg in enumerate(args) if index not in special.baked]
            if special.inline is not None:
                return f"({self.filled(special.inline, rest, special.function)})"
            return f"{self.constant(special.function)}({', '.join(arg.text for arg in rest)})"
        return f"{self.constant(overload.impl)}({', '.join(arg.text for arg in args)})"

    def filled(self, template: str, args: list[_Atom], function: object = None) -> str:
        """*template* with the arguments in place; one that is used twice gets a name."""
        uses = [m.group(2) for m in _PLACEHOLDER.finditer(template)]
        for index, arg in enumerate(args):
            if uses.count(str(index)) > 1:
                self.name(arg)

        def fill(found: re.Match[str]) -> str:
            length, which = found.groups()
            if which == "f":
                return self.constant(function)
            arg = args[int(which)]
            if length:
                return str(len(arg.known.value)) if arg.known is not None else f"len({self.name(arg)})"
            return arg.text

        return _PLACEHOLDER.sub(fill, template)

    def static_cost(self, step: Invoke, args: list[_Atom]) -> int | None:
        """The price of a resolved call when it does not depend on values."""
        cost = step.resolved.cost if step.resolved else None
        if cost is None:
            return 1
        if cost.constant is not None:
            return cost.constant
        if cost.inline is None or cost.needs_result:
            return None
        used = {int(m.group(2)) for m in _PLACEHOLDER.finditer(cost.inline)}
        if any(args[index].known is None for index in used):
            return None
        values = [arg.known.value if arg.known is not None else None for arg in args]
        return cost.rule(values, None)

    def call_cost(self, step: Invoke, args: list[_Atom], result: str) -> None:
        static = self.static_cost(step, args)
        if static is not None:
            self.cost(static)
            return
        assert step.resolved is not None
        cost = step.resolved.cost
        assert cost is not None
        if cost.inline is not None and not cost.needs_result:
            for index in {int(m.group(2)) for m in _PLACEHOLDER.finditer(cost.inline)}:
                self.name(args[index])
            self.dynamic_cost(f"({self.filled(cost.inline, args)})")
        else:
            for arg in args:
                self.name(arg)
            self.dynamic_cost(self.rule_call(cost, args, result))
            self.check_budget()
        if step.type.kind in _GROWING:
            self.check_budget()

    # --- literals ------------------------------------------------------------------------------------

    def gen_list(self, step: NewList) -> _Atom:
        self.cost(costs.LIST)
        return self.built(
            list(step.elements),
            lambda names: (
                f"[{', '.join(names)}]"
                if not step.optional
                else f"{self.constant(runtime.new_list)}(({', '.join(names)},), {self.constant(step.optional)})"
            ),
            bool(step.optional),
        )

    def gen_map(self, step: NewMap) -> _Atom:
        self.cost(costs.MAP)
        parts = [part for key, value, _ in step.entries for part in (key, value)]
        simple = all(key.type.kind is Kind.STRING and not optional for key, _, optional in step.entries)
        marks = self.constant(tuple(optional for _, _, optional in step.entries))

        def text(names: list[str]) -> str:
            if simple:
                pairs = zip(names[::2], names[1::2], strict=True)
                return "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}"
            return f"{self.constant(runtime.new_map_of)}(({', '.join(names)},), {marks})"

        return self.built(parts, text, not simple)

    def gen_struct(self, step: NewStruct) -> _Atom:
        self.cost(costs.STRUCT)
        fields = self.constant(tuple((name, optional) for name, _, optional in step.entries))
        name = self.constant(step.name)
        return self.built(
            [value for _, value, _ in step.entries],
            lambda names: (
                f"{self.constant(runtime.new_struct)}({name}, {fields}, ({''.join(n + ', ' for n in names)}))"
            ),
            True,
        )

    def built(self, parts: list[Step], text: Callable[[list[str]], str], fails: bool) -> _Atom:
        """A literal: parts are evaluated until one fails."""
        target = self.fresh()
        if not any(self.fails(part) for part in parts):
            atoms = [self.gen(part) for part in parts]
            self.emit(f"{target} = {text([atom.text for atom in atoms])}")
            return _Atom(target, simple=True, error=fails)
        with self.sequence() as stop:
            atoms = []
            for part in parts:
                atom = self.gen(part)
                atoms.append(atom)
                if atom.error:
                    stop(target, atom)
                else:
                    self.name(atom)
            self.emit(f"{target} = {text([atom.text for atom in atoms])}")
        return _Atom(target, simple=True, error=True)

    # --- comprehensions ------------------------------------------------------------------------------

    def gen_fold(self, step: Fold) -> _Atom:
        if step.bind:
            return self.gen_bind(step)
        if self.blocks > _OUTLINED or self.level > 4 * _OUTLINED:
            return self.gen_outlined(step)
        return _Loop(self, step).write()

    def gen_outlined(self, step: Fold) -> _Atom:
        """A loop too deep inside others gets a function of its own; the counter goes in and comes back."""
        if self.lazy and any(isinstance(s, Local) and s.slot in self.lazy for s in below(step)):
            raise Unsupported
        self.outlined += 1
        name, target = f"g{self.outlined}", self.fresh()
        self.flush()
        outer = self.lines, self.level, self.blocks, self.pending
        self.lines, self.level, self.blocks, self.pending = [], 1, 0, [0]
        result = _Loop(self, step).write()
        self.flush()
        self.emit(f"return {result.text}, c")
        body = self.lines
        self.lines, self.level, self.blocks, self.pending = outer
        made = {f"x{slot}" for inner in below(step) if isinstance(inner, Fold) for slot in inner.slots}
        used = {found for line in body for found in _OUTER_NAME.findall(line)}
        given = ", ".join([*sorted(used - made), "c"])
        self.functions.append("\n".join([f"def {name}({given}):", *body]))
        self.emit(f"{target}, c = {name}({given})")
        self.counts = True
        return _Atom(target, simple=True, error=result.error)

    def gen_bind(self, step: Fold) -> _Atom:
        """A binding: evaluated at once if the result surely asks for it, else where it first does."""
        if surely_reads(step.result, step.accu):
            value = self.gen(step.init)
            self.emit(f"x{step.accu} = {value.text}")
            return self.gen(step.result)
        places = reads(step.result, step.accu)
        if places > 3:
            raise Unsupported
        if places:
            self.emit(f"x{step.accu} = {self.constant(runtime.ELSE)}")
            self.lazy[step.accu] = step.init
        result = self.gen(step.result)
        self.lazy.pop(step.accu, None)
        return result

    def gen_lazy(self, root: Local, init: Step) -> _Atom:
        with self.branch(f"if x{root.slot} is {self.constant(runtime.ELSE)}:"):
            value = self.gen(init)
            self.emit(f"x{root.slot} = {value.text}")
        return _Atom(f"x{root.slot}", simple=True, error=value.error)


class _Loop:
    """Writes one loop."""

    def __init__(self, emitter: _Emitter, step: Fold) -> None:
        self.emitter = emitter
        self.step = step
        self.accu = f"x{step.accu}"

    def write(self) -> _Atom:
        emitter, step = self.emitter, self.step
        if not isinstance(step.init, Const):
            raise Unsupported
        over = emitter.gen(step.over)
        over_name = emitter.name(over)
        known = step.over.type.kind in (Kind.LIST, Kind.MAP)
        if known and not over.error:
            return self.loop(over_name)
        target = emitter.fresh()
        source = emitter.fresh()
        iterable = emitter.constant(runtime.iterable)
        emitter.emit(f"{source} = {iterable}({over_name}, {step.slot2 is not None})")
        with emitter.branch(f"if {source}.__class__ is E: {target} = {source}\n{' ' * emitter.level}else:"):
            result = self.loop(source)
            emitter.emit(f"{target} = {result.text}")
        return _Atom(target, simple=True, error=True)

    def loop(self, over: str) -> _Atom:
        emitter, step = self.emitter, self.step
        self.body(over)
        return emitter.gen(step.result)

    def passes(self, over: str) -> str:
        """What the loop runs over, as Python."""
        step, emitter = self.step, self.emitter
        if step.slot2 is None:
            return over
        if step.over.type.kind is Kind.LIST:
            return f"{emitter.constant(enumerate)}({over})"
        if step.over.type.kind is Kind.MAP:
            return f"{over}.items()"
        return f"{emitter.constant(runtime.pairs)}({over})"

    @property
    def names(self) -> str:
        step = self.step
        return f"x{step.slot}" if step.slot2 is None else f"x{step.slot}, x{step.slot2}"

    @property
    def may_fail(self) -> bool:
        """Whether the accumulator can hold an error."""
        return self.step.accu in self.emitter.error_locals

    def body(self, over: str) -> None:
        emitter, step = self.emitter, self.step
        quantifier = _quantifier(step)
        if quantifier is not None:
            self.quantified(over, *quantifier)
            return
        if not (isinstance(step.condition, Const) and step.condition.value is True):
            raise Unsupported
        assert isinstance(step.init, Const)
        init = step.init.value
        empty = "[]" if init == [] else "{}" if init == {} else None
        emitter.emit(f"{self.accu} = {empty or emitter.gen_const(step.init).text}")
        with emitter.branch(f"for {self.names} in {self.passes(over)}:", block=True):
            self.advance(step.step)
            emitter.check_budget()

    def quantified(self, over: str, decisive: bool, predicate: Step) -> None:
        """`all` and `exists`: stop once the answer is sure; the condition is paid before each pass."""
        emitter = self.emitter
        condition = 3 if decisive else 2
        iterator, end = emitter.fresh(), emitter.constant(runtime.ELSE)
        emitter.emit(f"{iterator} = iter({self.passes(over)})")
        emitter.emit(f"{self.accu} = {not decisive}")
        with emitter.branch(f"for {self.names} in {iterator}:", block=True):
            emitter.cost(condition + 1)
            value = emitter.gen(predicate)
            sure = not value.error and predicate.type.kind is Kind.BOOL
            text = value.text if sure else emitter.name(value)
            emitter.check_budget()
            test = (f"if {text}:" if decisive else f"if not {text}:") if sure else f"if {text} is {decisive}:"
            with emitter.branch(test):
                emitter.emit(f"{self.accu} = {decisive}")
                emitter.emit(f"if next({iterator}, {end}) is not {end}: c += {condition}")
                emitter.emit("break")
            if not sure:
                with emitter.branch(f"if {text} is not {not decisive} and {self.accu} is {not decisive}:"):
                    emitter.emit(f"{self.accu} = {emitter.constant(runtime.as_error)}({text})")

    def advance(self, step: Step) -> None:
        """One pass of a loop that always runs to the end."""
        emitter = self.emitter
        filtered = isinstance(step, Path) and isinstance(step.root, Choice) and not step.qualifiers
        if not filtered:
            self.accumulate(step)
            return
        assert isinstance(step, Path) and isinstance(step.root, Choice)
        if not self.is_accumulator(step.root.no):
            self.assign(step)
            return
        condition = emitter.gen(step.root.condition)
        sure = not condition.error and step.root.condition.type.kind is Kind.BOOL
        test = condition.text if sure else f"{emitter.name(condition)} is True"
        with emitter.branch(f"if {test}:"):
            self.accumulate(step.root.yes)
        if not sure:
            with emitter.branch(f"elif {condition.text} is not False:"):
                emitter.emit(f"{self.accu} = {emitter.constant(runtime.as_error)}({condition.text})")

    def accumulate(self, step: Step) -> None:
        """What the macros do to the accumulator, in place: nobody else has seen it."""
        emitter = self.emitter
        if isinstance(step, Invoke) and step.args and self.is_accumulator(step.args[0]):
            ids = {overload.id for overload in step.candidates}
            added = step.args[1]
            if ids == {"add_list"} and isinstance(added, NewList):
                if len(added.elements) == 1 and not added.optional:
                    self.append(added.elements[0])
                    return
            elif ids == {"add_int64"} and isinstance(added, Const):
                emitter.cost(2)
                guard = f"if {self.accu}.__class__ is int: " if self.may_fail else ""
                emitter.emit(f"{guard}{self.accu} += 1")
                return
            elif step.function == ast.MAP_INSERT and step.resolved is not None and not any(step.guards):
                self.insert(step)
                return
        self.assign(step)

    def is_accumulator(self, step: Step) -> bool:
        return (
            isinstance(step, Path)
            and isinstance(step.root, Local)
            and step.root.slot == self.step.accu
            and not step.qualifiers
        )

    def assign(self, step: Step) -> None:
        # A list grown by copying could cost more than it is charged for.
        if self.step.type.kind in (Kind.LIST, Kind.MAP) and isinstance(step, Invoke):
            self.emitter.check_budget()
        value = self.emitter.gen(step)
        self.emitter.emit(f"{self.accu} = {value.text}")

    def append(self, element: Step) -> None:
        """`accumulator + [element]`."""
        emitter = self.emitter
        emitter.cost(1 + costs.LIST + 1)
        value = emitter.gen(element)
        if not self.may_fail:
            emitter.emit(f"{self.accu}.append({value.text})")
            return
        name = emitter.name(value)
        with emitter.branch(f"if {self.accu}.__class__ is list:"):
            if value.error:
                emitter.emit(f"if {name}.__class__ is E: {self.accu} = {name}")
                emitter.emit(f"else: {self.accu}.append({name})")
            else:
                emitter.emit(f"{self.accu}.append({name})")

    def insert(self, step: Invoke) -> None:
        """`cel.@mapInsert(accumulator, …)`."""
        emitter = self.emitter
        emitter.cost(1)
        if len(step.args) == 2:
            entries = emitter.gen(step.args[1])
            emitter.cost(1)
            put = emitter.constant(runtime.insert_all)
            emitter.emit(f"{self.accu} = {put}({self.accu}, {entries.text})")
            return
        with emitter.branch(f"if {self.accu}.__class__ is not E:"):
            target = emitter.fresh()
            emitter.emit(f"{target} = None")
            with emitter.sequence() as stop:
                key = emitter.gen(step.args[1])
                name = emitter.name(key)
                if key.error:
                    stop(target, key)
                value = emitter.gen(step.args[2])
                emitter.cost(1)
                put = emitter.constant(runtime.insert)
                emitter.emit(f"{self.accu} = {put}({self.accu}, {name}, {value.text})")
            emitter.emit(f"if {target} is not None: {self.accu} = {target}")


def _quantifier(step: Fold) -> tuple[bool, Step] | None:
    """(decisive value, predicate) when *step* is what `all` or `exists` makes."""
    condition, body = step.condition, step.step
    if not isinstance(condition, Invoke) or condition.function != ast.NOT_STRICTLY_FALSE:
        return None
    if not isinstance(body, Logic) or not isinstance(step.init, Const):
        return None
    inner = condition.args[0]
    if body.decisive:
        if not isinstance(inner, Invoke) or inner.function != ast.NOT:
            return None
        inner = inner.args[0]
    for read in (inner, body.left):
        if not isinstance(read, Path) or not isinstance(read.root, Local) or read.root.slot != step.accu:
            return None
    if step.init.value is not (not body.decisive):
        return None
    return body.decisive, body.right


def _cost_of(overload: Overload | None) -> RuntimeCost | None:
    return overload.cost if overload else None


def _is_name(field: object) -> bool:
    return (
        isinstance(field, str) and field.isidentifier() and not keyword.iskeyword(field) and field.isascii()
    )


_Generator = Callable[[_Emitter, Any], _Atom]
_GENERATORS: Final[dict[type, _Generator]] = {
    Const: _Emitter.gen_const,
    Path: _Emitter.gen_path,
    Logic: _Emitter.gen_logic,
    Equal: _Emitter.gen_equal,
    InSet: _Emitter.gen_in_set,
    OrElse: _Emitter.gen_or_else,
    Invoke: _Emitter.gen_invoke,
    NewList: _Emitter.gen_list,
    NewMap: _Emitter.gen_map,
    NewStruct: _Emitter.gen_struct,
    Fold: _Emitter.gen_fold,
}
