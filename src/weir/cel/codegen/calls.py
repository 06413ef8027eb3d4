"""Code of calls, and what is charged for them.

Spec: cel.md 6 "strict calls", 12. A resolved call of known types is one Python call or less; calls of constants with
small results are made now and charged later; what depends on the values at run time goes through a helper.
"""

from __future__ import annotations

import re
from typing import Final

from weir.cel import ast, operations
from weir.cel.codegen.expressions import OperatorWriter
from weir.cel.codegen.writer import GROWING, SCALARS, Atom
from weir.cel.errors import CelError
from weir.cel.steps import Const, Invoke
from weir.cel.types import Kind
from weir.cel.work import CALL, DISPATCH

#: Functions that must know the objects bound to variables.
_BY_VALUE: Final = frozenset(("type", "dyn"))
#: Results of constant calls worth keeping: small ones.
_FOLDED: Final = SCALARS | {Kind.OPAQUE}
_PLACEHOLDER: Final = re.compile(r"\{(n?)(\d+|f)\}")


class CallWriter(OperatorWriter):
    """Writes calls."""

    def gen_invoke(self, step: Invoke) -> Atom:
        if step.function == ast.NOT_STRICTLY_FALSE:
            value = self.gen(step.args[0])
            self.cost(1)
            return Atom(f"({value.text} is not False)")
        if step.stops_early:
            first = self.gen(step.args[0])
            if len(step.args) > 2 or first.error:
                return self.gen_many(step, first)
            return self.gen_call(step, [first, *map(self.gen, step.args[1:])])
        return self.gen_call(step, [self.gen(arg) for arg in step.args])

    def gen_call(self, step: Invoke, args: list[Atom]) -> Atom:
        overload = step.resolved
        failing = [arg for arg in args if arg.error]
        if step.function == ast.IN and overload is not None and not failing:
            contained = self.gen_in(step, args)
            if contained is not None:
                return contained
        if overload is not None:
            self.effort(overload.effort)
        charges = overload is None or overload.inline is None or "search" in overload.inline
        self.walks = self.walks or (charges and any(arg.type.kind not in SCALARS for arg in step.args))
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
            return Atom(f"({self.filled(overload.inline, args)})")
        if overload.cost is not None and overload.cost.needs_result:
            for arg in args:
                self.name(arg)
            target = self.fresh()
            self.call_into(target, step, self.call_text(step, args))
            self.call_cost(step, args, target)
            return Atom(target, simple=True, error=step.fails)
        # Priced before it runs, so that what is beyond the budget never starts.
        self.call_cost(step, args, "None")
        text = self.call_text(step, args)
        if step.fails:
            target = self.fresh()
            self.guarded(target, text)
            return Atom(target, simple=True, error=True)
        return Atom(text)

    def gen_folded(self, step: Invoke, args: list[Atom]) -> Atom | None:
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

    def gen_call_checked(self, step: Invoke, args: list[Atom], failing: list[Atom]) -> Atom:
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
        clean = [Atom(name, simple=True, known=arg.known) for name, arg in zip(names, args, strict=True)]
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
        return Atom(target, simple=True, error=True)

    def gen_dispatch(self, step: Invoke, args: list[Atom]) -> Atom:
        """A call whose overload is chosen by the values."""
        # a resolved call has noted its own effort
        self.effort(DISPATCH - (0 if step.resolved is None else min(CALL, step.resolved.effort)))
        names = [self.name(arg) for arg in args]
        target = self.fresh()
        given = ", ".join(names) + ("," if len(names) == 1 else "")
        apply = self.constant(operations.priced_apply)
        self.emit(f"{target}, n = {apply}({self.constant(step)}, ({given}), {self.objects()})")
        self.dynamic_cost("n")
        if step.type.kind in GROWING:
            self.check_budget()
        return Atom(target, simple=True, error=True)

    def gen_in(self, step: Invoke, args: list[Atom]) -> Atom | None:
        """`text in container` where both types are known; other elements need CEL's equality."""
        element, container = step.args[0].type, step.args[1].type
        if element.kind is not Kind.STRING or container.kind not in (Kind.LIST, Kind.MAP):
            return None
        if container.params[0].kind is not Kind.STRING:
            return None
        self.call_cost(step, args, "None")
        text, within = self.name(args[0]), self.name(args[1])
        self.walks = True
        self.effort(20)
        if container.kind is Kind.LIST:
            self.emit(f"spend(len({within}) * (4 + (len({text}) >> 5)) >> 4)")
        else:
            self.emit(f"if len({text}) > 256: spend(len({text}) >> 8)")
        return Atom(f"({text} in {within})")

    def gen_many(self, step: Invoke, first: Atom) -> Atom:
        """The first error ends the evaluation of arguments, and nothing is charged."""
        args: list[Atom] = []
        target = self.fresh()
        with self.sequence() as stop:
            for index, arg in enumerate(step.args):
                atom = self.gen(arg) if index else first
                args.append(atom)
                if atom.error and index < len(step.args) - 1:
                    stop(target, atom)
                    atom.error = False
            result = self.gen_call(step, args)
            self.emit(f"{target} = {result.text}")
        return Atom(target, simple=True, error=True)

    def call_text(self, step: Invoke, args: list[Atom]) -> str:
        overload = step.resolved
        assert overload is not None
        special = step.special
        if special is not None:
            rest = [arg for index, arg in enumerate(args) if index not in special.baked]
            if special.inline is not None:
                return f"({self.filled(special.inline, rest, special.function)})"
            return f"{self.constant(special.function)}({', '.join(arg.text for arg in rest)})"
        return f"{self.constant(overload.impl)}({', '.join(arg.text for arg in args)})"

    def filled(self, template: str, args: list[Atom], function: object = None) -> str:
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

    def static_cost(self, step: Invoke, args: list[Atom]) -> int | None:
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

    def call_cost(self, step: Invoke, args: list[Atom], result: str) -> None:
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
        if step.type.kind in GROWING:
            self.check_budget()
