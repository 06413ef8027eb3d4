"""Code of chains of selections and indices, of `has`, optional access and `?:`, and of the operators.

Spec: cel.md 3.1, 6, 8, 12. What cannot fail is plain Python attribute access; a map is tried and its KeyError caught;
everything whose root may be an optional is left to a helper, unless it turns out to be maps all the way. Equality is
Python's own where both types are known and simple, or both values turn out to be texts.
"""

from __future__ import annotations

import keyword
from contextlib import nullcontext
from typing import Final

from weir.cel import costs, operations
from weir.cel.codegen.writer import SCALARS, Atom, Unsupported, Writer
from weir.cel.cost_model import RuntimeCost
from weir.cel.env import Overload
from weir.cel.steps import (
    Choice,
    Equal,
    InSet,
    Local,
    Logic,
    OrElse,
    Path,
    Qualifier,
    Step,
    Unresolved,
    Variable,
)
from weir.cel.types import Kind
from weir.cel.values import ABSENT, NONE, DefaultMap, Optional

_MAYBE_OPTIONAL: Final = frozenset((Kind.OPTIONAL, Kind.DYN, Kind.ANY, Kind.ERROR, Kind.NULL))


class PathWriter(Writer):
    """Writes paths."""

    def gen_path(self, step: Path) -> Atom:
        self.cost(step.lead)
        return self.gen_bare(step)

    def gen_bare(self, step: Step) -> Atom:
        """A path without the price of its root; anything else as usual."""
        if not isinstance(step, Path):
            return self.gen(step)
        if step.shadowed:
            raise Unsupported
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

    def gen_root(self, root: Step) -> Atom:
        if isinstance(root, Variable):
            local = self.variables.get(root.name)
            if local is None:
                local = self.variables[root.name] = f"v{len(self.variables)}"
            return Atom(local, simple=True)
        if isinstance(root, Local):
            pending = self.lazy.get(root.slot)
            if pending is not None:
                return self.gen_lazy(root, pending)
            return Atom(f"x{root.slot}", simple=True, error=root.slot in self.error_locals)
        if isinstance(root, Choice):
            return self.gen_choice(root)
        if isinstance(root, Unresolved):
            raise Unsupported
        return self.gen(root)

    def gen_qualifier(self, value: Atom, qualifier: Qualifier) -> Atom:
        """One plain access; after one that can fail the next is only tried on success."""
        target = self.fresh()
        if value.error:
            container = self.name(value)
            with self.branch(
                f"if {container}.__class__ is E: {target} = {container}\n{' ' * self.level}else:"
            ):
                self.access(target, container, qualifier)
            return Atom(target, simple=True, error=True)
        if qualifier.field and not qualifier.computed and _is_name(qualifier.key):
            self.cost(1)
            return Atom(f"{value.text}.{qualifier.key}")
        self.access(target, self.name(value), qualifier)
        return Atom(target, simple=True, error=not qualifier.field)

    def access(self, target: str, container: str, qualifier: Qualifier) -> None:
        if qualifier.computed:
            key = self.gen_bare(qualifier.key)
            charge = (qualifier.key.lead or 1) if isinstance(qualifier.key, Path) else 1
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
        self.effort(10 if qualifier.field else 40)
        operand = qualifier.operand_type
        constant_text = not qualifier.computed and qualifier.key.__class__ is str
        by_text = qualifier.computed and operand.kind is Kind.MAP and qualifier.key.type.kind is Kind.STRING
        if by_text:
            self.walks = True
            self.emit(f"if len({key}) > 256: spend(len({key}) >> 8)")
        if operand.kind is Kind.MAP and (constant_text or by_text):
            self.emit("try:")
            self.emit(f" {target} = {container}[{key}]")
            self.emit(f"except KeyError: {target} = {self.constant(operations.missing)}({key})")
            return
        self.guarded(target, f"{self.constant(operations.get)}({container}, {key}, {self.objects()})")

    def gen_rest(self, value: Atom, rest: list[Qualifier], test: bool, root_optional: bool) -> Atom:
        """Optional access, `has`, and everything whose root may be an optional: done by a helper."""
        first = rest[0]
        if test and len(rest) == 1 and not value.error and not root_optional:
            if first.field:
                self.cost(1)
                return Atom("True", simple=True)
            if first.operand_type.kind is Kind.MAP and first.key.__class__ is str:
                self.cost(1)
                container, defaults = self.name(value), self.constant(DefaultMap)
                return Atom(
                    f"({self.constant(first.key)} in {container} or {container}.__class__ is {defaults})"
                )
        if any(qualifier.computed for qualifier in rest):
            return self.gen_rest_computed(value, rest, test, root_optional)
        keys = tuple((qualifier.key, qualifier.optional, qualifier.test) for qualifier in rest)
        container = self.name(value)
        target = self.fresh()
        walk = self.constant(operations.walk)
        shape = self.constant(keys)
        self.flush()
        call = f"{walk}({container}, {shape}, {test}, {root_optional}, {self.objects()})"
        self.counts = True
        direct = self.through_maps(container, target, rest)
        word = "if"
        if direct:
            self.effort(3 * len(rest))
            self.emit(f"if {direct}")
            word = "elif"
        if value.error:
            self.emit(f"{word} {container}.__class__ is E: {target} = {container}")
            word = "elif"
        with self.alternative("else:") if word == "elif" else nullcontext():
            self.effort(100 + 50 * len(rest))
            self.emit(f"{target}, n = {call}; c += n")
        return Atom(target, simple=True, error=True)

    def through_maps(self, container: str, target: str, rest: list[Qualifier]) -> str:
        """The condition and assignment of *rest* where all are texts in plain maps; empty where they cannot be.

        The last may be asked for by `has` or be optional.
        """
        last = rest[-1]
        if any(qualifier.key.__class__ is not str or len(qualifier.key) > 256 for qualifier in rest):
            return ""
        if any(qualifier.optional or qualifier.test for qualifier in rest[:-1]) or (
            last.optional and last.test
        ):
            return ""
        tests, current = [f"{container}.__class__ is dict"], container
        for qualifier in rest[:-1]:
            key = self.constant(qualifier.key)
            tests.append(f"{key} in {current} and ({target} := {current}[{key}]).__class__ is dict")
            current = target
        key = self.constant(last.key)
        if last.test:
            return f"{' and '.join(tests)}: {target} = {key} in {current}; c += {len(rest)}"
        tests.append(f"{key} in {current}")
        if last.optional:
            self.effort(20)
            return f"{' and '.join(tests)}: {target} = {self.constant(Optional)}({current}[{key}]); c += {len(rest)}"
        return f"{' and '.join(tests)}: {target} = {current}[{key}]; c += {len(rest)}"

    def gen_rest_computed(self, value: Atom, rest: list[Qualifier], test: bool, root_optional: bool) -> Atom:
        """The same with computed keys: each is evaluated only when the path gets there."""
        target, current, optional = self.fresh(), self.fresh(), self.fresh()
        nothing = "False" if test else self.constant(NONE)
        find, absent = self.constant(operations.step), self.constant(ABSENT)
        with self.sequence() as stop:
            if value.error:
                stop(target, value)
            self.emit(f"{current} = {value.text}; {optional} = False")
            if root_optional:
                with self.branch(f"if {current}.__class__ is {self.constant(Optional)}:"):
                    empty = "False" if test else current
                    self.emit(f"if not {current}.has_value: {target} = {empty}; break")
                    self.emit(f"{current} = {current}.value; {optional} = True")
            for qualifier in rest:
                self.effort(100)
                if qualifier.computed:
                    key = self.name(self.gen_bare(qualifier.key))
                    charge = (qualifier.key.lead or 1) if isinstance(qualifier.key, Path) else 1
                else:
                    key, charge = self.constant(qualifier.key), 1
                self.flush()
                if qualifier.optional:
                    self.emit(f"{optional} = True")
                self.emit(
                    f"{current}, n = {find}({current}, {key}, {optional}, {qualifier.test}, {charge}, "
                    f"{self.objects()})"
                )
                self.emit("c += n")
                self.emit(f"if {current}.__class__ is E: {target} = {current}; break")
                self.emit(f"if {current} is {absent}: {target} = {nothing}; break")
            wrapped = f"{self.constant(Optional)}({current}) if {optional} else {current}"
            self.emit(f"{target} = {'True' if test else wrapped}")
        return Atom(target, simple=True, error=True)

    def gen_choice(self, root: Choice) -> Atom:
        condition = self.gen(root.condition)
        target = self.fresh()
        sure = not condition.error and root.condition.type.kind is Kind.BOOL
        test = condition.text if sure else f"{self.name(condition)} is True"
        with self.alternative(f"if {test}:"):
            yes = self.gen_bare(root.yes)
            self.emit(f"{target} = {yes.text}")
        with self.alternative("else:" if sure else f"elif {condition.text} is False:"):
            no = self.gen_bare(root.no)
            self.emit(f"{target} = {no.text}")
        if not sure:
            self.emit(f"else: {target} = {self.constant(operations.as_error)}({condition.text})")
        return Atom(target, simple=True, error=yes.error or no.error or not sure)

    def gen_lazy(self, root: Local, init: Step) -> Atom:
        with self.branch(f"if x{root.slot} is {self.constant(operations.ELSE)}:"):
            value = self.gen(init)
            self.emit(f"x{root.slot} = {value.text}")
        return Atom(f"x{root.slot}", simple=True, error=value.error)


def _is_name(field: object) -> bool:
    return (
        isinstance(field, str) and field.isidentifier() and not keyword.iskeyword(field) and field.isascii()
    )


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
                other, both = self.name(right), self.constant(operations.both)
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
        equals = f"{target} = {self.constant(operations.equals)}({a}, {b}, {step.negated})"
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
        member_of = f"{target} = {self.constant(operations.member)}({name}, {self.constant(step.members)})"
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
        choose = f"{self.constant(operations.or_else)}({name}, {step.unwrap})"
        if step.unwrap:  # an empty optional holds ELSE
            choose = f"{name}._value if {name}.__class__ is {self.constant(Optional)} else {choose}"
        self.emit(f"{target} = {choose}")
        with self.alternative(f"if {target} is {self.constant(operations.ELSE)}:"):
            right = self.gen(step.right)
            self.emit(f"{target} = {right.text}")
        error = left.error or right.error or step.left.type.kind is not Kind.OPTIONAL
        return Atom(target, simple=True, error=error)


def _cost_of(overload: Overload | None) -> RuntimeCost | None:
    return overload.cost if overload else None
