"""Ratcheting validation: drops errors about values that an update did not change.

Values are correlated by field name, and by keys in lists of type map; other lists are compared as a whole.
"""

from __future__ import annotations

import re
from typing import Any, Final

from weir.customresources.schema import Schema
from weir.validate.field import FieldError

_STEP: Final = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
_NOTHING: Final = object()


def without_unchanged(wrong: list[FieldError], new: Any, old: Any, schema: Schema) -> list[FieldError]:
    """Return the errors about values that *old* does not have as they are.

    >>> from weir.validate.field import invalid
    >>> schema = Schema(properties={"a": Schema(), "b": Schema()})
    >>> without_unchanged([invalid("a", 1, ""), invalid("b", 2, "")], {"a": 1, "b": 2}, {"a": 1, "b": 1}, schema)
    [FieldError('b: Invalid value: 2')]
    """
    return [error for error in wrong if not _unchanged(error.field, new, old, schema)]


def _unchanged(path: str, new: Any, old: Any, schema: Schema | None) -> bool:
    """Whether the value at *path*, or the last one on the way that can be compared, is as it was."""
    for found in () if path == "<nil>" else _STEP.finditer(path):
        name, position = found[1], found[2]
        if new is _NOTHING or old is _NOTHING:
            return False
        if name is not None:
            if not isinstance(new, dict) or not isinstance(old, dict):
                break
            if name not in new:  # a field that is required: judged by the object it is missing in
                break
            new, old = new[name], old.get(name, _NOTHING)
            schema = _child(schema, name)
        else:
            index = int(position)
            if not isinstance(new, list) or not isinstance(old, list) or schema is None:
                break
            if schema.list_type != "map" or index >= len(new):
                break
            new, old = new[index], _same_item(new[index], old, schema)
            schema = schema.items
    return old is not _NOTHING and bool(new == old)


def _child(schema: Schema | None, name: str) -> Schema | None:
    if schema is None:
        return None
    found = schema.properties.get(name)
    if found is None and isinstance(schema.additional, Schema):
        return schema.additional
    return found


def _same_item(item: Any, old: list[Any], schema: Schema) -> Any:
    def key_of(one: Any) -> tuple[Any, ...]:
        return tuple(one.get(key) for key in schema.map_keys) if isinstance(one, dict) else (one,)

    wanted = key_of(item)
    return next((one for one in old if key_of(one) == wanted), _NOTHING)
