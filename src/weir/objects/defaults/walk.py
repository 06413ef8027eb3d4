"""Applies defaulting functions: compiles one visitor per struct from the schema.

A struct is visited only when it, or anything below it, has a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from weir.objects import schema
from weir.objects.defaults import apps, core, resource, small_groups
from weir.objects.defaults.constants import CONSTANTS
from weir.objects.document import KindRow, root_of
from weir.values.quantity import parse_quantity

Rule = Callable[[dict[str, Any]], None]
Visitor = Callable[[Any], None]


class Visitors:
    """Visitors for one set of rules, created on first use."""

    def __init__(
        self, rule_of: Callable[[schema.Struct], Rule | None], on_shape: Mapping[str, Visitor]
    ) -> None:
        self._rule_of = rule_of
        self._on_shape = on_shape  #: visitors of lists and maps by their Go type
        self._known: dict[str, Visitor | None] = {}

    def of(self, name: str) -> Visitor | None:
        """Return the visitor of the struct *name*, or None when nothing in it has a rule."""
        if name not in self._known:
            self._known[name] = None  # of a struct within itself; no such struct has rules
            self._known[name] = self._struct(schema.struct(name))
        return self._known[name]

    def _struct(self, of: schema.Struct) -> Visitor | None:
        rule = self._rule_of(of)
        children = tuple(
            (field.name, visit)
            for field in of.fields.values()
            if (visit := self._shape(field.shape)) is not None
        )
        if not children:
            return rule

        def visit_struct(value: dict[str, Any]) -> None:
            if rule is not None:
                rule(value)
            for key, visit in children:
                child = value.get(key)
                if child is not None:
                    visit(child)

        return visit_struct

    def _shape(self, shape: schema.Shape) -> Visitor | None:
        if shape.kind == "struct":
            return self.of(shape.struct_name)
        if shape.go in self._on_shape:
            return self._on_shape[shape.go]
        if shape.item is None or (each := self._shape(shape.item)) is None:
            return None
        visit_item = each
        if shape.kind == "list":

            def visit_list(items: list[Any]) -> None:
                for item in items:
                    if item is not None:
                        visit_item(item)

            return visit_list

        def visit_map(items: dict[str, Any]) -> None:
            for item in items.values():
                if item is not None:
                    visit_item(item)

        return visit_map


# ── defaults ─────────────────────────────────────────────────────────────────────────────────────

RULES: dict[str, Rule] = {**core.RULES, **apps.RULES, **resource.RULES, **small_groups.RULES}


def default_rule(of: schema.Struct) -> Rule | None:
    """Return the rule of a struct together with its constants, declared here and in the field table."""
    paths = CONSTANTS.get(of.name, {}) | {
        field.name: field.default
        for field in of.fields.values()
        if field.default is not None
        and (field.default or field.shape.pointer)
        and (of.go, field.name) not in resource.CONDITIONAL
    }
    rules = [rule for rule in (RULES.get(of.name), _constants(of, paths)) if rule is not None]
    if len(rules) < 2:
        return rules[0] if rules else None
    first, then = rules

    def run_both(value: dict[str, Any]) -> None:
        first(value)
        then(value)

    return run_both


def _constants(of: schema.Struct, paths: Mapping[str, Any]) -> Rule | None:
    """Return the rule that sets the fields at *paths* of a struct."""
    if not paths:
        return None
    below: dict[str, dict[str, Any]] = {}
    plain: list[tuple[str, Any, bool, bool]] = []
    for path, constant in paths.items():
        name, _, rest = path.partition(".")
        if rest:
            below.setdefault(name, {})[rest] = constant
        else:
            plain.append((name, constant, of.fields[name].shape.pointer, isinstance(constant, dict | list)))
    parts = [(name, _constants(_struct_of(of, name), rest)) for name, rest in below.items()]

    def set_constants(value: dict[str, Any]) -> None:
        for name, constant, pointer, copied in plain:
            if (value.get(name) is None) if pointer else (not value.get(name)):
                value[name] = constant.copy() if copied else constant
        for name, rule in parts:
            if rule is not None:
                rule(value.setdefault(name, {}))

    return set_constants


def _struct_of(of: schema.Struct, name: str) -> schema.Struct:
    return schema.struct(of.fields[name].shape.struct_name)


def _round_up_resources(resources: dict[str, str]) -> None:
    """Amounts of resources are kept in thousandths; smaller parts round up."""
    for name, text in resources.items():
        if text[-1:] in "nu" or "e-" in text:
            resources[name] = str(parse_quantity(f"{parse_quantity(text).scaled(-3)}m"))


_DEFAULTS = Visitors(default_rule, {"v1.ResourceList": _round_up_resources})


def default(document: dict[str, Any], kind: KindRow, now: str = "") -> None:
    """Fill in the defaults of *document* in place; those that are a time only when *now* is given.

    >>> from weir.objects.kinds import by_kind
    >>> secret = {"data": {}}
    >>> default(secret, by_kind("v1", "Secret"))
    >>> secret["type"]
    'Opaque'
    """
    visit = _DEFAULTS.of(root_of(kind).name)
    if visit is not None:
        visit(document)
    if now and kind.group == resource.RESOURCE_GROUP:
        for taint in resource.device_taints(document):
            core.fill(taint, "timeAdded", now)


# ── what storing leaves ──────────────────────────────────────────────────────────────────────────


def _settle_rule(of: schema.Struct) -> Rule | None:
    names = tuple(
        f.name
        for f in of.fields.values()
        if f.shape.kind in ("list", "map") and not f.omit_empty and not f.shape.pointer
    )
    if not names:
        return None

    def empty_is_null(value: dict[str, Any]) -> None:
        for name in names:
            if name in value and not value[name]:
                value[name] = None

    return empty_is_null


_SETTLED = Visitors(_settle_rule, {})


def settle(document: dict[str, Any], kind: KindRow) -> None:
    """Make of *document* what storing leaves of it: an empty list that is always printed reads back as null.

    >>> from weir.objects.kinds import by_kind
    >>> role = {"rules": []}
    >>> settle(role, by_kind("rbac.authorization.k8s.io/v1", "Role"))
    >>> role
    {'rules': None}
    """
    visit = _SETTLED.of(root_of(kind).name)
    if visit is not None:
        visit(document)
