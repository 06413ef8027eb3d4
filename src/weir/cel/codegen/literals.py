"""Code of list, map and message literals.

Spec: cel.md 6, 8, 12. Parts are evaluated until one fails; the literal is charged even then.
"""

from __future__ import annotations

from collections.abc import Callable

from weir.cel import costs, runtime
from weir.cel.codegen.calls import CallWriter
from weir.cel.codegen.writer import Atom
from weir.cel.steps import NewList, NewMap, NewStruct, Step
from weir.cel.types import Kind


class LiteralWriter(CallWriter):
    """Writes literals that are not constant."""

    def gen_list(self, step: NewList) -> Atom:
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

    def gen_map(self, step: NewMap) -> Atom:
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

    def gen_struct(self, step: NewStruct) -> Atom:
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
