"""Fast check that a custom resource needs no pruning, null dropping or validation error.

A schema is compiled to functions that return True only where pruning, dropping nulls and validation all have nothing
to do, which holds for most objects.

Optimized form of weir.compat.customresources.pruning, .values and .unknown_fields; tests/property/test_fitting.py
compares them on random objects; bench: bench/custom_resources.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from weir.cel.errors import CostLimitExceeded
from weir.cel.library.regex import Regex, RegexError
from weir.cel.work import MOST_PATTERN_WORK, begin
from weir.compat.customresources.formats import CHECKS
from weir.compat.customresources.schema import Schema

Fits = Callable[[Any], bool]
_META: Final = ("apiVersion", "kind", "metadata")
_INT32, _INT64 = (-(2**31), 2**31 - 1), (-(2**63), 2**63 - 1)


def _never(value: Any) -> bool:
    return False


def fitting(schema: Schema, *, root: bool = False) -> Fits:
    """Return what says whether a value is plainly as *schema* wants it.

    >>> fits = fitting(Schema(("object",), properties={"n": Schema(("integer",), bounds={"maximum": 5})}))
    >>> fits({"n": 5}), fits({"n": 6}), fits({"m": 1}), fits({"n": None})
    (True, False, False, False)
    """
    if schema.all_of or schema.any_of or schema.one_of or schema.negated is not None or schema.embedded:
        return _never
    kind = schema.types[0] if len(schema.types) == 1 else ""
    made: Fits = _never
    if kind == "object":
        made = _object(schema, root)
    elif kind == "array":
        made = _list(schema)
    elif kind == "string":
        made = _string(schema)
    elif kind in ("integer", "number"):
        made = _number(schema, kind)
    elif kind == "boolean":
        made = _boolean if not schema.bounds else _never
    if schema.enum:
        made = _enumerated(schema, made, kind)
    return _within_budget(made) if root else made


def _within_budget(made: Fits) -> Fits:
    """Return *made* with a budget of its own for patterns; what is beyond it does not fit plainly."""

    def fits(value: Any) -> bool:
        begin(MOST_PATTERN_WORK)
        try:
            return made(value)
        except CostLimitExceeded:
            return False

    return fits


def _boolean(value: Any) -> bool:
    return value is True or value is False


def _enumerated(schema: Schema, made: Fits, kind: str) -> Fits:
    if kind != "string" or not all(isinstance(one, str) for one in schema.enum):
        return _never
    allowed = frozenset(schema.enum)
    return lambda value: made(value) and value in allowed


def _string(schema: Schema) -> Fits:
    bounds = schema.bounds
    if bounds.keys() - {"maxLength", "minLength", "pattern"}:
        return _never
    most, least = bounds.get("maxLength"), bounds.get("minLength") or 0
    check: Fits | None = None
    if schema.format:
        check = CHECKS.get(schema.format)
    regex: Any = None
    if bounds.get("pattern"):
        try:
            regex = Regex(bounds["pattern"])
        except RegexError:
            return _never

    def fits(value: Any) -> bool:
        if type(value) is not str or len(value) < least or (most is not None and len(value) > most):
            return False
        if regex is not None and not regex.test(value):
            return False
        return check is None or check(value)

    return fits


def _number(schema: Schema, kind: str) -> Fits:
    bounds = schema.bounds
    if bounds.keys() - {"maximum", "minimum"} or schema.format == "float":
        return _never
    low, high = _INT32 if schema.format == "int32" else _INT64
    least, most = bounds.get("minimum"), bounds.get("maximum")
    if kind == "integer":
        low = low if least is None else max(low, least)
        high = high if most is None else min(high, most)
        return lambda value: type(value) is int and low <= value <= high

    def fits(value: Any) -> bool:
        if type(value) is not float and type(value) is not int:
            return False
        return (least is None or value >= least) and (most is None or value <= most)

    return fits


def _list(schema: Schema) -> Fits:
    bounds = schema.bounds
    if schema.items is None or bounds.keys() - {"maxItems", "minItems"}:
        return _never
    each, keys = fitting(schema.items), schema.map_keys
    most, least = bounds.get("maxItems"), bounds.get("minItems") or 0
    if schema.list_type == "set" and schema.items.types != ("string",):
        return _never

    def fits(value: Any) -> bool:
        if type(value) is not list or len(value) < least or (most is not None and len(value) > most):
            return False
        for item in value:
            if not each(item):
                return False
        if schema.list_type == "set":
            return len(set(value)) == len(value)
        if schema.list_type == "map":
            keys_of_items = {tuple(repr(item.get(key)) for key in keys) for item in value}
            return len(keys_of_items) == len(value)
        return True

    return fits


def _object(schema: Schema, root: bool) -> Fits:
    bounds = schema.bounds
    if bounds.keys() - {"maxProperties", "minProperties"} or schema.additional is False:
        return _never
    properties: Mapping[str, Schema] = schema.properties
    if root:
        if any(name in properties and not _is_plain(properties[name]) for name in _META):
            return _never
        properties = {name: one for name, one in properties.items() if name not in _META}
    checks = {name: fitting(one) for name, one in properties.items()}
    skipped = frozenset(_META) if root else frozenset()
    nullable = frozenset(name for name, one in properties.items() if one.nullable and not one.enum)
    more: Fits | None = fitting(schema.additional) if isinstance(schema.additional, Schema) else None
    if schema.additional is True or schema.preserves_unknown:
        return _never
    required = [name for name in schema.required if name not in skipped]
    if len(required) < len(schema.required):
        return _never
    most, least = bounds.get("maxProperties"), bounds.get("minProperties") or 0

    def fits(value: Any) -> bool:
        if type(value) is not dict or len(value) < least or (most is not None and len(value) > most):
            return False
        for key, item in value.items():
            check = checks.get(key)
            if check is None:
                if key in skipped:
                    continue
                if more is None or not more(item):
                    return False
            elif not check(item) and not (item is None and key in nullable):
                return False
        return all(name in value for name in required)

    return fits


def _is_plain(schema: Schema) -> bool:
    """Whether a schema of type or metadata says nothing but their types."""
    return not (
        schema.properties
        or schema.bounds
        or schema.required
        or schema.enum
        or schema.format
        or schema.nullable
    )
