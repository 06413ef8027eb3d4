"""Validation of values against a schema, with kube-openapi's messages and order.

Type, then combinations of schemas, strings, formats, numbers, lists, enums and objects. Where one of several schemas
must match, the errors of the closest are reported, by upstream's count of passed checks. Errors of combinations have
no field, so they are reported at `<nil>`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from weir.cel.errors import CostLimitExceeded
from weir.cel.library.regex import RegexError, paid_regex
from weir.cel.work import MOST_PATTERN_WORK, begin
from weir.compat.customresources.formats import CHECKS
from weir.compat.customresources.schema import Schema
from weir.fields.field import (
    INVALID,
    NOT_SUPPORTED,
    TYPE_INVALID,
    FieldError,
    duplicate,
    required,
    too_long,
    too_many,
)
from weir.values.quoting import compact_json, quote

NO_FIELD: Final = "<nil>"
_INT32: Final = range(-(2**31), 2**31)
_INT64: Final = range(-(2**63), 2**63)
_FLOAT_MAX: Final = 3.4028234663852886e38
#: how upstream spells the formats whose dashes were dropped to find them
_SPELT: Final = {"datetime": "date-time", "k8sshortname": "k8s-short-name", "k8slongname": "k8s-long-name"}


def without_nulls(value: Any, schema: Schema) -> Any:
    """Return *value* without the fields that are null and may not be: the server takes them as not given.

    >>> without_nulls({"a": None, "b": None}, Schema(properties={"a": Schema(), "b": Schema(nullable=True)}))
    {'b': None}
    """
    if isinstance(value, Mapping):
        kept = {}
        for key, item in value.items():
            one = schema.properties.get(key)
            if one is None and isinstance(schema.additional, Schema):
                one = schema.additional
            if one is None:
                kept[key] = item
            elif item is not None or one.nullable:
                kept[key] = without_nulls(item, one)
        return kept
    if isinstance(value, list) and schema.items is not None:
        return [without_nulls(item, schema.items) for item in value]
    return value


def validate_value(value: Any, schema: Schema) -> list[FieldError]:
    """Return what is wrong with *value*, a whole object.

    >>> schema = Schema(("object",), properties={"n": Schema(("integer",))}, required=("m",))
    >>> [str(error) for error in validate_value({"n": "1"}, schema)]
    ['n: Invalid value: "string": n in body must be of type integer: "string"', 'm: Required value']
    """
    found = _Result(_Budget())
    begin(
        MOST_PATTERN_WORK
    )  # patterns charge the meter of the thread, which the last evaluation may have used up
    try:
        _validate(value, schema, "", found)
    except _TooMuch:
        most = f"more than {MOST_COMBINATIONS} schemas of allOf, anyOf, oneOf and not"
        return [_error(f"the object is not validated: it would take {most}")]
    except CostLimitExceeded:
        return [_error("the object is not validated: its texts are too long for the patterns of the schema")]
    return found.errors


#: Schemas inside combinations that one object is held against; nested in each other they grow exponentially.
MOST_COMBINATIONS: Final = 150_000


class _TooMuch(Exception):
    """The object would be held against too many schemas."""


class _Budget:
    """Combined schemas that may still be tried for one object."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MOST_COMBINATIONS

    def take(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise _TooMuch


class _Result:
    """Errors, each text once, and how many checks held."""

    __slots__ = ("_texts", "budget", "errors", "matches")

    def __init__(self, budget: _Budget) -> None:
        self.budget = budget
        self.errors: list[FieldError] = []
        self._texts: set[tuple[str, str]] = set()
        self.matches = 0

    def add(self, *errors: FieldError) -> None:
        for error in errors:
            key = error.field, error.detail or error.type
            if key not in self._texts:
                self._texts.add(key)
                self.errors.append(error)

    def merge(self, other: _Result) -> None:
        self.add(*other.errors)
        self.matches += other.matches


def _invalid(at: str, value: Any, text: str) -> FieldError:
    return FieldError(INVALID, at.removeprefix(".") or NO_FIELD, value, f"{at} in body {text}")


def _error(text: str) -> FieldError:
    """What is reported without a field."""
    return FieldError(INVALID, NO_FIELD, "", text)


def _wrong_type(at: str, wanted: str, found: str) -> FieldError:
    detail = f"{at} in body must be of type {wanted}: {quote(found)}"
    return FieldError(TYPE_INVALID, at.removeprefix(".") or NO_FIELD, found, detail)


def _type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    return "array" if isinstance(value, list) else "object"


def _validate(value: Any, schema: Schema, at: str, found: _Result) -> None:
    if value is None:
        found.matches += 1
        if schema.types and not schema.nullable:
            found.matches -= 1
            found.add(_wrong_type(at, ",".join(schema.types), "null"))
        if schema.enum:
            found.add(_not_in_enum(value, schema, at))
        return
    if type(value) is int and value not in _INT64:
        value = float(value)  # what no integer of the server's holds was decoded as a float
    kind = _type_of(value)
    if schema.types or schema.format:
        _validate_type(value, kind, schema, at, found)
    _validate_combinations(value, schema, at, found)
    found.matches += 1
    if kind == "string":
        found.add(*_string_errors(value, schema.bounds, at))
        found.matches += 1
        if schema.format in CHECKS:
            if not CHECKS[schema.format](value):
                name = _SPELT.get(schema.format, schema.format)
                detail = f"{at} in body must be of type {name}: {quote(value)}"
                found.add(FieldError(TYPE_INVALID, at.removeprefix("."), value, detail))
            found.matches += 1
    elif kind in ("integer", "number"):
        found.add(*_number_errors(value, kind, schema, at))
        found.matches += 2
    elif kind == "array":
        _validate_list(value, schema, at, found)
    if schema.enum and not schema.enum.allows(value):
        found.add(_not_in_enum(value, schema, at))
    found.matches += 1
    if kind == "object":
        _validate_object(value, schema, at, found)
        found.matches += 1
    found.matches += 1


def _validate_type(value: Any, kind: str, schema: Schema, at: str, found: _Result) -> None:
    types = schema.types
    whole = kind == "number" and "integer" in types and _is_whole(value)
    fits = kind in types or whole or (kind == "integer" and "number" in types)
    numeric = "number" in types or "integer" in types
    if kind in ("string", "array"):
        if schema.format and not numeric:
            fits = True  # the format speaks for it
    elif schema.format and not fits:
        width = {"integer": "int64", "number": "float64"}.get(kind, "")
        found.add(_wrong_type(at, schema.format, width))
        found.matches += 1
        return
    if fits:
        found.matches += 1
    else:
        found.add(_wrong_type(at, ",".join(types), kind))
    found.matches += 1


def _validate_combinations(value: Any, schema: Schema, at: str, found: _Result) -> None:
    if schema.any_of:
        held, closest = _alternatives(value, schema.any_of, at, found.budget, first_only=True)
        if not held:
            found.add(_error(f"{quote(at)} must validate at least one schema (anyOf)"))
        found.merge(closest)
    if schema.one_of:
        held, closest = _alternatives(value, schema.one_of, at, found.budget, first_only=False)
        if held != 1:
            how = "Found none valid" if not held else f"Found {held} valid alternatives"
            found.add(_error(f"{quote(at)} must validate one and only one schema (oneOf). {how}"))
        if held <= 1:
            found.merge(closest)
    if schema.all_of:
        held = 0
        for one in schema.all_of:
            found.budget.take()
            result = _Result(found.budget)
            _validate(value, one, at, result)
            held += not result.errors
            found.merge(result)
        if held != len(schema.all_of):
            how = "" if held else ". None validated"
            found.add(_error(f"{quote(at)} must validate all the schemas (allOf){how}"))
    if schema.negated is not None:
        found.budget.take()
        result = _Result(found.budget)
        _validate(value, schema.negated, at, result)
        if not result.errors:
            found.add(_error(f"{quote(at)} must not validate the schema (not)"))
    found.matches += 1


def _alternatives(
    value: Any, schemas: Iterable[Schema], at: str, budget: _Budget, *, first_only: bool
) -> tuple[int, _Result]:
    """Return how many of *schemas* match, and the result to report: the first match, else the closest."""
    held, success, closest = 0, None, None
    for one in schemas:
        budget.take()
        result = _Result(budget)
        _validate(value, one, at, result)
        if not result.errors:
            held += 1
            success = success or result
            if first_only:
                break
        elif closest is None or result.matches > closest.matches:
            closest = result
    return held, success or closest or _Result(budget)


def _string_errors(value: str, bounds: Mapping[str, Any], at: str) -> Iterable[FieldError]:
    """Yield the first of what is wrong with a string."""
    field = at.removeprefix(".")
    if (most := bounds.get("maxLength")) is not None and len(value) > most:
        yield too_long(field, most)
    elif (least := bounds.get("minLength")) is not None and len(value) < least:
        yield _invalid(at, value, f"should be at least {least} chars long")
    elif pattern := bounds.get("pattern"):
        try:
            if not paid_regex(pattern).test(value):
                yield _invalid(at, value, f"should match '{pattern}'")
        except RegexError as error:
            yield _invalid(at, value, f"should match '{pattern}, but pattern is invalid: {error}'")


def _number_errors(value: float, kind: str, schema: Schema, at: str) -> Iterable[FieldError]:
    bounds = schema.bounds
    if not _fits(value, schema):
        named = schema.types[0]
        how = f"with format {schema.format}" if schema.format else "(default format)"
        yield _error(f"Checked value must be of type {named} {how} in {at}")
    if (factor := bounds.get("multipleOf")) is not None:
        step = int(factor) if kind == "integer" else factor  # a fraction is cut off for whole numbers
        if step <= 0:
            text = f"factor MultipleOf declared for {at} must be positive: {_number(step, kind)}"
            yield FieldError(INVALID, at.removeprefix("."), step, text)
        elif not _is_multiple(value, step):
            yield _invalid(at, value, f"should be a multiple of {_number(step, kind)}")
    if (least := bounds.get("minimum")) is not None:
        strictly = bounds.get("exclusiveMinimum") is True
        if value < least or (strictly and value == least):
            how = "greater than" if strictly else "greater than or equal to"
            yield _invalid(at, value, f"should be {how} {_number(least, kind)}")
    if (most := bounds.get("maximum")) is not None:
        strictly = bounds.get("exclusiveMaximum") is True
        if value > most or (strictly and value == most):
            how = "less than" if strictly else "less than or equal to"
            yield _invalid(at, value, f"should be {how} {_number(most, kind)}")


def _fits(value: float, schema: Schema) -> bool:
    """Return whether a number has a place in the type and format its schema names."""
    if schema.types == ("integer",):
        if not float(value).is_integer():
            return False  # reported as a wrong type already, and once more here
        return int(value) in (_INT32 if schema.format == "int32" else _INT64)
    return schema.format != "float" or math.isinf(value) or abs(value) <= _FLOAT_MAX


def _is_multiple(value: float, factor: float) -> bool:
    if isinstance(value, int) and isinstance(factor, int):
        return value % factor == 0
    return _is_whole(1 / factor * value if factor < 1 else value / factor)


def _is_whole(value: float) -> bool:
    """Return whether a number is an integer that JSON carries exactly, give or take what computing loses.

    >>> _is_whole(3.0), _is_whole(3.1), _is_whole(1e300)
    (True, False, False)
    """
    return abs(value) < 2**53 and abs(value - round(value)) < 1e-9 * max(1.0, abs(value))


def _number(bound: float, kind: str) -> str:
    """Return a bound as Go prints it beside a value of this type.

    >>> _number(5, "integer"), _number(2.5, "number"), _number(3.0, "number"), _number(1e21, "number")
    ('5', '2.5', '3', '1e+21')
    """
    if kind == "integer" or (float(bound).is_integer() and abs(bound) < 1e21):
        return str(int(bound))
    return repr(float(bound))


def _validate_list(value: list[Any], schema: Schema, at: str, found: _Result) -> None:
    if schema.items is not None:
        for i, item in enumerate(value):
            _validate(item, schema.items, f"{at}[{i}]", found)
    bounds, size = schema.bounds, len(value)
    if (least := bounds.get("minItems")) is not None and size < least:
        found.add(_invalid(at, size, f"should have at least {least} items"))
    if (most := bounds.get("maxItems")) is not None and size > most:
        found.add(too_many(at.removeprefix("."), size, most))
    if bounds.get("uniqueItems") is True and len({compact_json(item) for item in value}) < size:
        found.add(_invalid(at, "", "shouldn't contain duplicates"))
    found.matches += 2


def _validate_object(value: Mapping[str, Any], schema: Schema, at: str, found: _Result) -> None:
    bounds, size = schema.bounds, len(value)
    if (least := bounds.get("minProperties")) is not None and size < least:
        found.add(_invalid(at, size, f"should have at least {least} properties"))
    if (most := bounds.get("maxProperties")) is not None and size > most:
        found.add(too_many(at.removeprefix("."), size, most))
    for key, item in value.items():
        if key in schema.properties:
            continue
        if schema.additional is False:
            found.add(_error(f"{at}.{key} in body is a forbidden property"))
        elif isinstance(schema.additional, Schema):
            _validate(item, schema.additional, f"{at}.{key}", found)
    for name, one in schema.properties.items():
        if name in value:
            _validate(value[name], one, f"{at}.{name}" if at else name, found)
    for name in schema.required:
        if name not in value:
            found.add(required(f"{at}.{name}".removeprefix(".")))


def _not_in_enum(value: Any, schema: Schema, at: str) -> FieldError:
    shown = "null" if value is None else value
    return FieldError(NOT_SUPPORTED, at.removeprefix(".") or NO_FIELD, shown, schema.enum.detail)


def validate_lists(value: Any, schema: Schema, at: str = "") -> Iterable[FieldError]:
    """Yield the entries that stand twice in lists that are sets or maps.

    >>> tags = Schema(("array",), items=Schema(("string",)), list_type="set")
    >>> [str(error) for error in validate_lists(["a", "b", "a"], tags, "tags")]
    ['tags[2]: Duplicate value: "a"']
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            one = schema.properties.get(key)
            if one is None and isinstance(schema.additional, Schema):
                yield from validate_lists(item, schema.additional, f"{at}[{key}]")
            elif one is not None:
                yield from validate_lists(item, one, f"{at}.{key}" if at else key)
    elif isinstance(value, list):
        if schema.list_type in ("set", "map"):
            yield from _doubled(value, schema, at)
        if schema.items is not None:
            for i, item in enumerate(value):
                yield from validate_lists(item, schema.items, f"{at}[{i}]")


def _doubled(value: list[Any], schema: Schema, at: str) -> Iterable[FieldError]:
    told, seen = set(), set()
    for i, item in enumerate(value):
        shown = item
        if schema.list_type == "map":
            if not isinstance(item, Mapping):
                continue
            shown = {key: item[key] for key in schema.map_keys if key in item}
        text = compact_json(shown)
        if text in seen and text not in told:
            told.add(text)
            yield duplicate(f"{at}[{i}]", shown)
        seen.add(text)
