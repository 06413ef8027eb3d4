"""Lines, branches, costs and efforts of a generated function.

The source holds names of our own making and numbers only: `kN` an object handed over, `vN` a variable, `xN` a local
variable of a comprehension, `tN` anything else, `c` the cost so far, `m` the meter of work, `E` the class of errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from weir.cel import operations
from weir.cel.cost_model import RuntimeCost
from weir.cel.env import Env
from weir.cel.errors import EvaluationError
from weir.cel.steps import Const, Fallibility, Step
from weir.cel.types import Kind
from weir.cel.work import RAISING

#: Python allows 20 nested loops and `try`s and 100 levels of indentation.
_MOST_BLOCKS: Final = 15
_MOST_INDENTS: Final = 80
_MOST_LINES: Final = 12_000
#: Effort of one pass of an empty loop.
_PASS: Final = 10
#: Effort of an alternative that is charged by itself; smaller ones are part of what surrounds them.
_ALTERNATIVE: Final = 30

SCALARS: Final = frozenset(
    (Kind.BOOL, Kind.INT, Kind.UINT, Kind.DOUBLE, Kind.TIMESTAMP, Kind.DURATION, Kind.TYPE)
)
#: Kinds of results that can be large.
GROWING: Final = frozenset((Kind.STRING, Kind.BYTES, Kind.LIST, Kind.MAP, Kind.DYN, Kind.ANY))


class Unsupported(Exception):
    """Python could not compile this; the plain evaluator must run it."""


class Atom:
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


class Writer:
    """The function under construction."""

    def __init__(self, root: Step, env: Env) -> None:
        self.env = env
        self.lines: list[str] = []
        self.level = 1
        self.blocks = 0
        self.names = 0
        self.pending = [0]  # cost to add, per open branch
        self.counts = False  # whether the function counts at all
        self.walks = False  # whether it calls what charges for its work
        self.efforts = [0]  # of the code outside loops and in each open loop
        self.folds = 0  # how many loops and bindings it has: each can make a value hold another one twice
        self.constants: dict[str, Any] = {"E": EvaluationError}
        self.known: dict[int, str] = {}
        self.keep: list[Any] = []
        self.variables: dict[str, str] = {}
        self.fails = Fallibility(root)
        self.error_locals = self.fails.locals
        self.lazy: dict[int, Step] = {}
        self.outlined = 0
        self.functions: list[str] = []

    def gen(self, step: Step) -> Atom:
        """Write the code of *step*; what comes back is its value."""
        raise NotImplementedError

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

    def effort(self, tenths: int) -> None:
        """Note the work of the code that is being written, in tenths of a unit."""
        self.efforts[-1] += tenths

    @property
    def in_loop(self) -> bool:
        """Whether what is written now is charged by a pass of a loop."""
        return len(self.efforts) > 1

    @contextmanager
    def alternative(self, head: str) -> Iterator[None]:
        """A branch that is charged, inside loops, only when it is taken."""
        with self.branch(head):
            if not self.in_loop:
                yield
                return
            place, indent = len(self.lines), " " * self.level
            self.efforts.append(0)
            yield
            effort = self.efforts.pop()
            if effort < _ALTERNATIVE:
                self.effort(effort)
            else:  # no check: the next pass has one
                self.lines.insert(place, f"{indent}m.left -= {-(-effort // 10)}")

    @contextmanager
    def charged_pass(self) -> Iterator[None]:
        """The body of a loop: each pass is charged, before it begins, with the effort of all that surely runs."""
        self.walks = True
        self.emit("")
        place, level = len(self.lines) - 1, self.level
        self.efforts.append(_PASS)
        yield
        indent, units = " " * level, -(-self.efforts.pop() // 10)
        check = f"if m.left < 0: raise {self.constant(operations.over)}(c)"
        self.lines[place] = f"{indent}m.left -= {units}\n{indent}{check}"

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
        self.emit(f"if c > {self.env.cost_limit}: raise {self.constant(operations.over)}(c)")

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

    def name(self, atom: Atom) -> str:
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
        charge = f"; m.left -= {RAISING}" if self.in_loop else ""
        self.emit(f"except E as e: {target} = e.with_traceback(None){charge}")

    # --- the function --------------------------------------------------------------------------------

    @contextmanager
    def sequence(self) -> Iterator[Callable[[str, Atom], None]]:
        """Code that can be left early: `stop(target, atom)` leaves with the error if *atom* is one."""

        def stop(target: str, atom: Atom) -> None:
            name = self.name(atom)
            self.flush()
            self.emit(f"if {name}.__class__ is E: {target} = {name}; break")

        with self.branch("while True:", block=True):
            yield stop
            self.flush()
            self.emit("break")

    def objects(self) -> str:
        return self.constant(self.env.python_classes)

    def rule_call(self, cost: RuntimeCost | None, args: list[Atom], result: str) -> str:
        """The price of a call by the full rule."""
        if cost is None:
            return "1"
        given = ", ".join(arg.text for arg in args)
        return f"{self.constant(cost.rule)}(({given}{',' if len(args) == 1 else ''}), {result})"

    def gen_const(self, step: Const) -> Atom:
        value = step.value
        if value is True or value is False or value is None:
            return Atom(repr(value), simple=True, known=step)
        return Atom(self.constant(value), simple=True, known=step)
