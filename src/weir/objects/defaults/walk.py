"""Where in a document does which rule apply? Compiles one defaulter per struct from the schema.

A struct is visited when it, or anything below it, has a rule; fields without rules below them cost nothing.
Not here: the rules (the other modules of this package).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from weir.objects import schema
from weir.objects.defaults import apps, batch, core, others
from weir.objects.document import KindRow, root_of
from weir.values.quantity import parse_quantity

Rule = Callable[[dict[str, Any]], None]
Walker = Callable[[Any], None]

RULES: dict[str, Rule] = {**core.RULES, **apps.RULES, **batch.RULES, **others.RULES}


def default(document: dict[str, Any], kind: KindRow) -> None:
    """Fill in the defaults of *document* in place.

    >>> from weir.objects.kinds import by_kind
    >>> secret = {"data": {}}
    >>> default(secret, by_kind("v1", "Secret"))
    >>> secret["type"]
    'Opaque'
    """
    walk = walker(root_of(kind).name)
    if walk is not None:
        walk(document)


@cache
def walker(name: str) -> Walker | None:
    """Return the defaulter of the struct *name*, or None when nothing below it has a default."""
    of = schema.struct(name)
    rule = RULES.get(name)
    constants = tuple(
        (f.name, f.default, f.shape.pointer)
        for f in of.fields.values()
        if f.default is not None and (f.default or f.shape.pointer)
    )
    children = tuple(
        (field.name, walk) for field in of.fields.values() if (walk := _shape_walker(field.shape)) is not None
    )
    if rule is None and not constants and not children:
        return None

    def walk_struct(value: dict[str, Any]) -> None:
        if rule is not None:
            rule(value)
        for key, constant, pointer in constants:
            if (value.get(key) is None) if pointer else (not value.get(key)):
                value[key] = constant
        for key, walk in children:
            child = value.get(key)
            if child is not None:
                walk(child)

    return walk_struct


def _shape_walker(shape: schema.Shape) -> Walker | None:
    if shape.kind == "struct":
        return walker(shape.struct_name)
    if shape.go == "v1.ResourceList":
        return _round_up_resources
    if shape.item is None or (inner := _shape_walker(shape.item)) is None:
        return None
    each = inner
    if shape.kind == "list":

        def walk_list(items: list[Any]) -> None:
            for item in items:
                if item is not None:
                    each(item)

        return walk_list

    def walk_map(items: dict[str, Any]) -> None:
        for item in items.values():
            if item is not None:
                each(item)

    return walk_map


def _round_up_resources(resources: dict[str, str]) -> None:
    """Amounts of resources are kept in thousandths; smaller parts round up."""
    for name, text in resources.items():
        if text[-1:] in "nu" or "e-" in text:
            resources[name] = str(parse_quantity(f"{parse_quantity(text).scaled(-3)}m"))
