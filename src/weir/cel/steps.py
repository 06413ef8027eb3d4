"""Steps: the tree that a program evaluates, and which of them can end in an error.

Spec: cel.md 6 "Evaluation", 12 "Runtime cost". The program is a tree of steps: constants are folded, chains of
selections and indices are one `Path`, calls know their overloads. Runtime cost is defined on this tree, which is why it
exists: a path costs one per qualifier and one for its root, whatever the syntax looked like.

Generated code (weir.cel.codegen) checks for errors only where `Fallibility` says there can be one. It errs on the safe
side: a step that it says cannot fail never does. Computed once for a whole program, from the leaves up.
"""

from __future__ import annotations

from collections.abc import Iterator

from weir.cel import ast
from weir.cel.env import Overload, Specialized
from weir.cel.types import DYN, Kind, Type
from weir.cel.values import Value


class Step:
    """Something that yields a value; `type` is its static type."""

    __slots__ = ("type",)

    def __init__(self, type: Type = DYN) -> None:
        self.type = type


class Const(Step):
    """A value known when the program is built; free."""

    __slots__ = ("value",)

    def __init__(self, value: Value, type: Type = DYN) -> None:
        super().__init__(type)
        self.value = value


class Variable(Step):
    """The root of a path: a variable of the environment."""

    __slots__ = ("name",)

    def __init__(self, name: str, type: Type) -> None:
        super().__init__(type)
        self.name = name


class Local(Step):
    """The root of a path: a variable bound by a comprehension, numbered because names may be shadowed."""

    __slots__ = ("name", "slot")

    def __init__(self, name: str, slot: int, type: Type) -> None:
        super().__init__(type)
        self.name = name
        self.slot = slot


class Unresolved(Step):
    """The root of a path in an unchecked expression: which variable it is depends on what is bound.

    `candidates`: full names, best first, with how many of the path's qualifiers each one swallows.
    """

    __slots__ = ("candidates", "name")

    def __init__(self, name: str, candidates: list[tuple[str, int]]) -> None:
        super().__init__()
        self.name = name
        self.candidates = candidates


class Choice(Step):
    """`condition ? yes : no`, always the root of a path; bare paths as branches cost only their qualifiers."""

    __slots__ = ("condition", "no", "yes")

    def __init__(self, condition: Step, yes: Step, no: Step, type: Type) -> None:
        super().__init__(type)
        self.condition = condition
        self.yes = yes
        self.no = no


class Qualifier:
    """One step of a path: a constant key, a field of an object, or a computed key.

    `key` is the constant, or the Step that computes it; `field`: the operand is an object and
    `key` one of its declared fields.
    """

    __slots__ = ("computed", "field", "key", "operand_type", "optional", "test")

    def __init__(
        self, key: Value, operand_type: Type, *, computed: bool = False, field: bool = False,
        optional: bool = False, test: bool = False,
    ) -> None:  # fmt: skip
        self.key = key
        self.operand_type = operand_type
        self.computed = computed
        self.field = field
        self.optional = optional
        self.test = test


class Path(Step):
    """A root followed by qualifiers: `a.b[c].d`, `f(x).a`, `has(a.b)`.

    Costs 1 for the root (nothing for a `Choice` and nothing in `has`), and 1 for each qualifier that was applied.
    With a root whose name a comprehension's variable has, too (`shadowed`), qualifiers cost nothing.
    """

    __slots__ = ("qualifiers", "root", "shadowed", "test")

    def __init__(self, root: Step, qualifiers: list[Qualifier], type: Type, test: bool = False) -> None:
        super().__init__(type)
        self.root = root
        self.qualifiers = qualifiers
        self.test = test
        self.shadowed = False

    @property
    def lead(self) -> int:
        """What the root costs when the path stands by itself."""
        return 0 if self.test or isinstance(self.root, Choice) else 1


class Logic(Step):
    """`&&` or `||` of two terms."""

    __slots__ = ("decisive", "left", "right")

    def __init__(self, decisive: bool, left: Step, right: Step) -> None:
        super().__init__()
        self.decisive = decisive  # the value that ends evaluation: False for &&, True for ||
        self.left = left
        self.right = right


class Equal(Step):
    """`==` or `!=`."""

    __slots__ = ("left", "negated", "overload", "right")

    def __init__(self, left: Step, right: Step, negated: bool, overload: Overload | None) -> None:
        super().__init__()
        self.left = left
        self.right = right
        self.negated = negated
        self.overload = overload


class InSet(Step):
    """`x in [constants]`, decided by hashing; free apart from x."""

    __slots__ = ("element", "members")

    def __init__(self, element: Step, members: list[Value]) -> None:
        super().__init__()
        self.element = element
        self.members = members


#: Python classes of the arguments of a call.
_Classes = tuple[type, ...]


class Invoke(Step):
    """A call. One candidate: the call is resolved and priced by its overload.

    `guards`: for each argument the parameter type to check at run time, or None where the checker proved it.
    """

    __slots__ = ("args", "by_classes", "candidates", "function", "guards", "overloads", "resolved", "special")

    def __init__(
        self,
        function: str,
        args: list[Step],
        candidates: tuple[Overload, ...],
        overloads: tuple[Overload, ...],
        type: Type,
    ) -> None:
        super().__init__(type)
        self.function = function
        self.args = args
        self.candidates = candidates
        self.overloads = overloads
        self.resolved = candidates[0] if len(candidates) == 1 else None
        self.guards: tuple[Type | None, ...] = ()
        self.special: Specialized | None = None
        #: the overloads that take, and that price, arguments of these Python classes (weir.cel.dispatch)
        self.by_classes: dict[_Classes, tuple[Overload | None, Overload | None]] = {}

    @property
    def stops_early(self) -> bool:
        """Whether the first failed argument ends the call at once, the rest neither evaluated nor charged.

        Upstream does so where it passes arguments as one list: three of them, a literal pattern, `format`, and
        every function (not operator) that it must choose at run time.
        """
        if len(self.args) != 2:
            return len(self.args) > 2
        if self.function in ("matches", "find", "findAll"):
            return isinstance(self.args[1], Const)
        return self.function == "format" or (len(self.candidates) > 1 and self.function[0] not in "_@")

    @property
    def fails(self) -> bool:
        """Whether the resolved call can fail when its arguments are fine."""
        if self.special is not None:
            return self.special.fails
        return self.resolved is None or self.resolved.fails


class OrElse(Step):
    """`o.or(p)` (both optional) or `o.orValue(x)`; free apart from what it evaluates."""

    __slots__ = ("left", "right", "unwrap")

    def __init__(self, left: Step, right: Step, unwrap: bool, type: Type) -> None:
        super().__init__(type)
        self.left = left
        self.right = right
        self.unwrap = unwrap


class NewList(Step):
    """A list literal that is not constant."""

    __slots__ = ("elements", "optional")

    def __init__(self, elements: list[Step], optional: frozenset[int], type: Type) -> None:
        super().__init__(type)
        self.elements = elements
        self.optional = optional


class NewMap(Step):
    """A map literal that is not constant: (key, value, optional)."""

    __slots__ = ("entries",)

    def __init__(self, entries: list[tuple[Step, Step, bool]], type: Type) -> None:
        super().__init__(type)
        self.entries = entries


class NewStruct(Step):
    """A message literal: (field, value, optional)."""

    __slots__ = ("entries", "name")

    def __init__(self, name: str, entries: list[tuple[str, Step, bool]], type: Type) -> None:
        super().__init__(type)
        self.name = name
        self.entries = entries


class Fold(Step):
    """A comprehension. `slots`: local numbers of the first and second variable and of the accumulator.

    `bind`: no loop at all; init is evaluated when the result first asks for it.
    """

    __slots__ = ("accu", "bind", "condition", "init", "over", "result", "slot", "slot2", "step")

    def __init__(
        self,
        over: Step,
        slot: int,
        slot2: int | None,
        accu: int,
        init: Step,
        condition: Step,
        step: Step,
        result: Step,
        bind: bool,
        type: Type,
    ) -> None:
        super().__init__(type)
        self.over = over
        self.slot = slot
        self.slot2 = slot2
        self.accu = accu
        self.init = init
        self.condition = condition
        self.step = step
        self.result = result
        self.bind = bind

    @property
    def slots(self) -> tuple[int, ...]:
        """The local variables the comprehension binds."""
        return (self.slot, self.accu) if self.slot2 is None else (self.slot, self.slot2, self.accu)


#: Comparing these can fail, or is done by a helper that may say so.
_UNSURE_EQUALITY = frozenset(
    (Kind.DYN, Kind.ANY, Kind.OPAQUE, Kind.LIST, Kind.MAP, Kind.OPTIONAL, Kind.OBJECT)
)


class Fallibility:
    """What can fail in one program: steps, and local variables that may hold an error."""

    def __init__(self, root: Step) -> None:
        self._steps: dict[int, bool] = {}
        self.locals: set[int] = set()
        self._visit(root)

    def __call__(self, step: Step) -> bool:
        """Whether *step* can end in an error."""
        if isinstance(step, Path) and isinstance(step.root, Local) and not step.qualifiers:
            return step.root.slot in self.locals
        return self._steps[id(step)]

    def _visit(self, step: Step) -> bool:
        known = self._steps.get(id(step))
        if known is None:
            known = self._steps[id(step)] = self._judge(step)
        return known

    def _any(self, steps: list[Step]) -> bool:
        judged = [self._visit(step) for step in steps]  # every one must be visited
        return any(judged)

    def _judge(self, step: Step) -> bool:
        if isinstance(step, Const | Variable):
            return False
        if isinstance(step, Local):
            return step.slot in self.locals
        if isinstance(step, Path):
            below = self._any(parts(step))
            return below or any(not q.field or q.computed for q in step.qualifiers)
        if isinstance(step, Choice):
            return self._any(parts(step)) or step.condition.type.kind is not Kind.BOOL
        if isinstance(step, Logic):
            unsure = any(s.type.kind is not Kind.BOOL for s in (step.left, step.right))
            return self._any(parts(step)) or unsure
        if isinstance(step, Equal):
            below = self._any(parts(step))
            kind = step.left.type.kind
            return below or step.left.type != step.right.type or kind in _UNSURE_EQUALITY
        if isinstance(step, OrElse):
            return self._any(parts(step)) or step.left.type.kind is not Kind.OPTIONAL
        if isinstance(step, Invoke):
            below = self._any(parts(step))
            if step.function == ast.NOT_STRICTLY_FALSE:
                return False
            return below or step.resolved is None or any(step.guards) or step.fails
        if isinstance(step, NewList):
            return self._any(parts(step)) or bool(step.optional)
        if isinstance(step, NewMap):
            simple = all(key.type.kind is Kind.STRING and not optional for key, _, optional in step.entries)
            return self._any(parts(step)) or not simple
        if isinstance(step, NewStruct | Unresolved):
            self._any(parts(step))
            return True
        if isinstance(step, Fold):
            return self._fold(step)
        return self._any(parts(step))  # InSet

    def _fold(self, step: Fold) -> bool:
        over = self._visit(step.over)
        if self._visit(step.init):
            self.locals.add(step.accu)
        self._visit(step.condition)
        if self._visit(step.step) or _inserts(step.step):
            self.locals.add(step.accu)
        unsure = step.over.type.kind not in (Kind.LIST, Kind.MAP)
        return self._visit(step.result) or over or unsure or step.accu in self.locals


def _inserts(step: Step) -> bool:
    """Whether a loop's step puts an entry into a map, which fails when the key is there already."""
    if isinstance(step, Path) and isinstance(step.root, Choice):
        step = step.root.yes
    return isinstance(step, Invoke) and step.function == ast.MAP_INSERT


def parts(step: Step) -> list[Step]:
    """The steps directly inside *step*."""
    if isinstance(step, Path):
        return [step.root, *(q.key for q in step.qualifiers if q.computed)]
    if isinstance(step, Choice):
        return [step.condition, step.yes, step.no]
    if isinstance(step, Logic | Equal | OrElse):
        return [step.left, step.right]
    if isinstance(step, InSet):
        return [step.element]
    if isinstance(step, Invoke):
        return list(step.args)
    if isinstance(step, NewList):
        return list(step.elements)
    if isinstance(step, NewMap):
        return [part for key, value, _ in step.entries for part in (key, value)]
    if isinstance(step, NewStruct):
        return [value for _, value, _ in step.entries]
    if isinstance(step, Fold):
        return [step.over, step.init, step.condition, step.step, step.result]
    return []


def below(step: Step) -> Iterator[Step]:
    """*step* and everything inside it."""
    stack: list[Step] = [step]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(parts(current))


def reads(step: Step, slot: int) -> int:
    """How many places in *step* read the local variable *slot*."""
    return sum(isinstance(s, Local) and s.slot == slot for s in below(step))


def surely_reads(step: Step) -> frozenset[int]:
    """Return the slots of the local variables that every evaluation of *step* reads, also one that fails."""
    if isinstance(step, Local):
        return frozenset((step.slot,))
    if isinstance(step, Equal):
        certain = [step.left, step.right]
    elif isinstance(step, Invoke):
        certain = list(step.args if len(step.args) <= 2 else step.args[:1])
    elif isinstance(step, Fold) and step.bind:
        result = surely_reads(step.result)
        return result | surely_reads(step.init) if step.accu in result else result
    else:  # the first part: what is looked into, asked for or looped over
        certain = parts(step)[:1]
    return frozenset().union(*map(surely_reads, certain))
