"""Steps: the tree that a program evaluates.

Spec: cel.md 6 "Evaluation", 12 "Runtime cost". The program is a tree of steps: constants are folded, chains of
selections and indices are one `Path`, calls know their overloads. Runtime cost is defined on this tree, which is why it
exists: a path costs one per qualifier and one for its root, whatever the syntax looked like.
"""

from __future__ import annotations

from weir.cel.env import Overload, Specialized
from weir.cel.types import DYN, Type
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
