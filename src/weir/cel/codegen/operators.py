"""Code of `&&`, `||`, `==`, `in` with constants and `or`/`orValue`.

Spec: cel.md 3.1, 6, 8, 12. Equality is Python's own where both types are known and simple, or both values turn out to
be texts.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Final

from weir.cel import costs, runtime
from weir.cel.codegen.paths import PathWriter
from weir.cel.codegen.writer import SCALARS, Atom
from weir.cel.cost_model import RuntimeCost
from weir.cel.env import Overload
from weir.cel.steps import Equal, InSet, Logic, OrElse
from weir.cel.types import Kind
from weir.cel.values import Optional

_TEXTS: Final = frozenset((Kind.STRING, Kind.BYTES))
#: Kinds of values that may turn out to be texts.
_MAYBE_TEXT: Final = frozenset((Kind.STRING, Kind.DYN, Kind.ANY, Kind.ERROR))
#: Kinds whose Python `==` is CEL's when both sides have the same static type.
PLAIN_EQUALITY: Final = SCALARS | _TEXTS


class OperatorWriter(PathWriter):
    """Writes operators the evaluator knows itself."""

    def gen_logic(self, step: Logic) -> Atom:
        left = self.gen(step.left)
        sure = not left.error and step.left.type.kind is Kind.BOOL
        target = self.fresh()
        self.emit(f"{target} = {left.text}")
        if sure:
            head = f"if not {target}:" if step.decisive else f"if {target}:"
        else:
            head = f"if {target} is not {step.decisive}:"
        with self.alternative(head):
            right = self.gen(step.right)
            right_sure = not right.error and step.right.type.kind is Kind.BOOL
            if sure and (right_sure or step.right.type.kind is Kind.BOOL):
                self.emit(f"{target} = {right.text}")
                error = right.error
            else:
                other, both = self.name(right), self.constant(runtime.both)
                test = f"{target} is {not step.decisive} and {other}.__class__ is bool"
                self.emit(f"{target} = {other} if {test} else {both}({target}, {other}, {step.decisive})")
                error = True
        return Atom(target, simple=True, error=error)

    def gen_equal(self, step: Equal) -> Atom:
        left, right = self.gen(step.left), self.gen(step.right)
        kind = step.left.type.kind
        alike = kind is step.right.type.kind and step.left.type == step.right.type
        plain = alike and kind in PLAIN_EQUALITY
        if left.error or right.error or not plain:
            return self.gen_equal_slow(step, left, right)
        if kind in _TEXTS:
            self.effort(8)
            self.text_comparison_cost(left, right)
        else:
            self.cost(1)
        operator = "!=" if step.negated else "=="
        return Atom(f"({left.text} {operator} {right.text})")

    def gen_equal_slow(self, step: Equal, left: Atom, right: Atom) -> Atom:
        target = self.fresh()
        a, b = self.name(left), self.name(right)
        equals = f"{target} = {self.constant(runtime.equals)}({a}, {b}, {step.negated})"
        kinds = (step.left.type.kind, step.right.type.kind)
        if kinds[0] in SCALARS and kinds[1] in SCALARS:
            self.effort(60)
            self.cost(1)
            self.emit(equals)
            return Atom(target, simple=True, error=True)
        self.walks = True
        self.flush()
        head = ""
        if _MAYBE_TEXT.issuperset(kinds):
            self.effort(5)
            with self.branch(f"if {a}.__class__ is str and {b}.__class__ is str:"):
                clean = [Atom(atom.text, simple=True, known=atom.known) for atom in (left, right)]
                self.text_comparison_cost(*clean)
                self.emit(f"{target} = {a} {'!=' if step.negated else '=='} {b}")
            head = "else:"
        with self.alternative(head) if head else nullcontext():
            self.effort(110)
            self.dynamic_cost(self.rule_call(_cost_of(step.overload), [left, right], "None"))
            self.emit(equals)
        self.check_budget()
        return Atom(target, simple=True, error=True)

    def text_comparison_cost(self, left: Atom, right: Atom) -> None:
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

    def gen_in_set(self, step: InSet) -> Atom:
        element = self.gen(step.element)
        kinds = {member.__class__ for member in step.members}
        exact = (step.element.type.kind is Kind.STRING and kinds == {str}) or (
            step.element.type.kind is Kind.INT and kinds == {int}
        )
        if exact and not element.error:
            return Atom(f"({element.text} in {self.constant(frozenset(step.members))})")
        target, name = self.fresh(), self.name(element)
        self.walks = True
        member_of = f"{target} = {self.constant(runtime.member)}({name}, {self.constant(step.members)})"
        if kinds != {str}:
            self.effort(100)
            self.emit(member_of)
        else:
            texts = self.constant(frozenset(step.members))
            self.emit(f"if {name}.__class__ is str: {target} = {name} in {texts}")
            with self.alternative("else:"):
                self.effort(100)
                self.emit(member_of)
        return Atom(target, simple=True, error=element.error)

    def gen_or_else(self, step: OrElse) -> Atom:
        left = self.gen(step.left)
        name = self.name(left)
        target = self.fresh()
        choose = f"{self.constant(runtime.or_else)}({name}, {step.unwrap})"
        if step.unwrap:  # an empty optional holds ELSE
            choose = f"{name}._value if {name}.__class__ is {self.constant(Optional)} else {choose}"
        self.emit(f"{target} = {choose}")
        with self.alternative(f"if {target} is {self.constant(runtime.ELSE)}:"):
            right = self.gen(step.right)
            self.emit(f"{target} = {right.text}")
        error = left.error or right.error or step.left.type.kind is not Kind.OPTIONAL
        return Atom(target, simple=True, error=error)


def _cost_of(overload: Overload | None) -> RuntimeCost | None:
    return overload.cost if overload else None
