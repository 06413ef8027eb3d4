"""Analysis of the steps that can end in an error.

Generated code (weir.cel.codegen) checks for errors only where there can be one. The answer errs on the safe side:
what is said not to fail never does. Computed once for a whole program, from the leaves up.
"""

from __future__ import annotations

from collections.abc import Iterator

from weir.cel import ast
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
    Step,
    Unresolved,
    Variable,
)
from weir.cel.types import Kind

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
