"""Code of comprehensions and bindings.

Spec: cel.md 7 "Macros", 12. Loops made by the macros are recognised and work on their list, map or counter in place;
the budget is checked in every pass. An error stays in the accumulator while the loop goes on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from weir.cel import ast, costs, operations
from weir.cel.codegen.calls import CallWriter
from weir.cel.codegen.writer import Atom, Unsupported
from weir.cel.steps import (
    Choice,
    Const,
    Fold,
    Invoke,
    Local,
    Logic,
    NewList,
    NewMap,
    NewStruct,
    Path,
    Step,
    below,
    reads,
    surely_reads,
)
from weir.cel.types import Kind

# ── code of list, map and message literals ──
# Spec: cel.md 6, 8, 12. Parts are evaluated until one fails; the literal is charged even then.


class LiteralWriter(CallWriter):
    """Writes literals that are not constant."""

    def gen_list(self, step: NewList) -> Atom:
        self.cost(costs.LIST)
        return self.built(
            list(step.elements),
            lambda names: (
                f"[{', '.join(names)}]"
                if not step.optional
                else f"{self.constant(operations.new_list)}(({', '.join(names)},), {self.constant(step.optional)})"
            ),
            bool(step.optional),
        )

    def gen_map(self, step: NewMap) -> Atom:
        self.cost(costs.MAP)
        parts = [part for key, value, _ in step.entries for part in (key, value)]
        simple = all(key.type.kind is Kind.STRING and not optional for key, _, optional in step.entries)
        marks = self.constant(tuple(optional for _, _, optional in step.entries))

        def text(names: list[str]) -> str:
            if simple:
                pairs = zip(names[::2], names[1::2], strict=True)
                return "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}"
            return f"{self.constant(operations.new_map_of)}(({', '.join(names)},), {marks})"

        return self.built(parts, text, not simple)

    def gen_struct(self, step: NewStruct) -> Atom:
        self.cost(costs.STRUCT)
        fields = self.constant(tuple((name, optional) for name, _, optional in step.entries))
        name = self.constant(step.name)
        return self.built(
            [value for _, value, _ in step.entries],
            lambda names: (
                f"{self.constant(operations.new_struct)}({name}, {fields}, ({''.join(n + ', ' for n in names)}))"
            ),
            True,
        )

    def built(self, parts: list[Step], text: Callable[[list[str]], str], fails: bool) -> Atom:
        """A literal: parts are evaluated until one fails."""
        target = self.fresh()
        if not any(self.fails(part) for part in parts):
            atoms = [self.gen(part) for part in parts]
            self.emit(f"{target} = {text([atom.text for atom in atoms])}")
            return Atom(target, simple=True, error=fails)
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
        return Atom(target, simple=True, error=True)


#: Loops nested deeper than this are written as functions of their own.
_OUTLINED: Final = 8
_OUTER_NAME: Final = re.compile(r"\b[vx]\d+\b")


class LoopWriter(LiteralWriter):
    """Writes comprehensions."""

    def gen_fold(self, step: Fold) -> Atom:
        self.folds += 1
        if step.bind:
            return self.gen_bind(step)
        if self.blocks > _OUTLINED or self.level > 4 * _OUTLINED:
            return self.gen_outlined(step)
        return _Loop(self, step).write()

    def gen_outlined(self, step: Fold) -> Atom:
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
        given = ", ".join([*sorted(used - made), "c", "m"])
        self.functions.append("\n".join([f"def {name}({given}):", *body]))
        self.emit(f"{target}, c = {name}({given})")
        self.counts = True
        return Atom(target, simple=True, error=result.error)

    def gen_bind(self, step: Fold) -> Atom:
        """A binding: evaluated at once if the result surely asks for it, else where it first does."""
        if step.accu in surely_reads(step.result):
            value = self.gen(step.init)
            self.emit(f"x{step.accu} = {value.text}")
            return self.gen(step.result)
        places = reads(step.result, step.accu)
        if places > 3:
            raise Unsupported
        if places:
            self.emit(f"x{step.accu} = {self.constant(operations.ELSE)}")
            self.lazy[step.accu] = step.init
        result = self.gen(step.result)
        self.lazy.pop(step.accu, None)
        return result


class _Loop:
    """Writes one loop."""

    def __init__(self, emitter: LoopWriter, step: Fold) -> None:
        self.emitter = emitter
        self.step = step
        self.accu = f"x{step.accu}"

    def write(self) -> Atom:
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
        iterable = emitter.constant(operations.iterable)
        emitter.emit(f"{source} = {iterable}({over_name}, {step.slot2 is not None})")
        with emitter.branch(f"if {source}.__class__ is E: {target} = {source}\n{' ' * emitter.level}else:"):
            result = self.loop(source)
            emitter.emit(f"{target} = {result.text}")
        return Atom(target, simple=True, error=True)

    def loop(self, over: str) -> Atom:
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
        return f"{emitter.constant(operations.pairs)}({over})"

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
        with (
            emitter.branch(f"for {self.names} in {self.passes(over)}:", block=True),
            emitter.charged_pass(),
        ):
            self.advance(step.step)
            emitter.check_budget()

    def quantified(self, over: str, decisive: bool, predicate: Step) -> None:
        """`all` and `exists`: stop once the answer is sure; the condition is paid before each pass."""
        emitter = self.emitter
        condition = 3 if decisive else 2
        iterator, end = emitter.fresh(), emitter.constant(operations.ELSE)
        emitter.emit(f"{iterator} = iter({self.passes(over)})")
        emitter.emit(f"{self.accu} = {not decisive}")
        with emitter.branch(f"for {self.names} in {iterator}:", block=True), emitter.charged_pass():
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
                    emitter.emit(f"{self.accu} = {emitter.constant(operations.as_error)}({text})")

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
        with emitter.alternative(f"if {test}:"):
            self.accumulate(step.root.yes)
        if not sure:
            with emitter.branch(f"elif {condition.text} is not False:"):
                emitter.emit(f"{self.accu} = {emitter.constant(operations.as_error)}({condition.text})")

    def accumulate(self, step: Step) -> None:
        """What the macros do to the accumulator, in place: no other step has seen it."""
        emitter = self.emitter
        if isinstance(step, Invoke) and step.args and self.is_accumulator(step.args[0]):
            ids = {overload.id for overload in step.candidates}
            added = step.args[1]
            if ids == {"add_list"} and isinstance(added, Const) and added.value.__class__ is list:
                emitter.cost(2)
                emitter.effort(5)
                guard = f"if {self.accu}.__class__ is list: " if self.may_fail else ""
                emitter.emit(f"{guard}{self.accu}.extend({emitter.gen_const(added).text})")
                return
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
        emitter.effort(100)
        emitter.cost(1)
        if len(step.args) == 2:
            entries = emitter.gen(step.args[1])
            emitter.cost(1)
            put = emitter.constant(operations.insert_all)
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
                put = emitter.constant(operations.insert_outcome)
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
