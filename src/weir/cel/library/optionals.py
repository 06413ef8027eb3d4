"""Optional values: `optional.of(x)`, `m.?k`, `o.orValue(d)`.

Spec: cel.md 8. `optional.ofNonZeroValue(timestamp(0))` has a value, because the zero time is the
year 1; `or` and `orValue` look at their argument only when needed, so the evaluator does them itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from weir.cel import types
from weir.cel.ast import INDEX, OPT_INDEX, OPT_SELECT
from weir.cel.env import Library
from weir.cel.errors import NO_SUCH_OVERLOAD, EvaluationError
from weir.cel.library.declare import functions, method, plain
from weir.cel.packed import Empty
from weir.cel.types import BOOL, DYN, INT, STRING, K, V, list_of, map_of, optional_of
from weir.cel.values import NONE, Duration, Optional, Timestamp, Value
from weir.cel.work import spend
from weir.values.timestamp import MIN_SECONDS, NANOSECONDS

_OPTIONAL: Final = optional_of(V)
_LIST: Final = list_of(V)
_MAP: Final = map_of(K, V)


def is_zero(value: Value) -> bool:
    """Return whether *value* is what its type holds when nothing was said."""
    if value is None:
        return True
    if isinstance(value, bool | int | float | str | bytes | list | tuple | dict):
        return not value
    if isinstance(value, Duration):
        return value.ns == 0
    if isinstance(value, Empty):
        return not value.unknown
    return isinstance(value, Timestamp) and value.ns == MIN_SECONDS * NANOSECONDS


def _unwrap(optionals: Sequence[Optional]) -> list[Value]:
    spend(len(optionals) * 2)
    if any(element.__class__ is not Optional for element in optionals):  # a list from dyn
        raise EvaluationError(NO_SUCH_OVERLOAD)
    return [element.value for element in optionals if element.has_value]


LIBRARY: Final = Library(
    "optionals",
    functions(
        plain("optional.of", "optional_of", (V,), _OPTIONAL, Optional),
        plain("optional.ofNonZeroValue", "optional_ofNonZeroValue", (V,), _OPTIONAL,
              lambda value: NONE if is_zero(value) else Optional(value)),
        plain("optional.none", "optional_none", (), _OPTIONAL, lambda: NONE),
        method("value", "optional_value", (_OPTIONAL,), V, lambda o: o.value, fails=True),
        method("hasValue", "optional_hasValue", (_OPTIONAL,), BOOL, lambda o: o.has_value),
        method("or", "optional_or_optional", (_OPTIONAL, _OPTIONAL), _OPTIONAL, None, fails=True),
        method("orValue", "optional_orValue_value", (_OPTIONAL, V), V, None, fails=True),
        plain(OPT_SELECT, "select_optional_field", (DYN, STRING), _OPTIONAL, None, fails=True),
        plain(OPT_INDEX, "list_optindex_optional_int", (_LIST, INT), _OPTIONAL, None, fails=True),
        plain(OPT_INDEX, "optional_list_optindex_optional_int", (optional_of(_LIST), INT), _OPTIONAL, None,
              fails=True),
        plain(OPT_INDEX, "map_optindex_optional_value", (_MAP, K), _OPTIONAL, None, fails=True),
        plain(OPT_INDEX, "optional_map_optindex_optional_value", (optional_of(_MAP), K), _OPTIONAL, None, fails=True),
        plain(INDEX, "optional_list_index_int", (optional_of(_LIST), INT), _OPTIONAL, None, fails=True),
        plain(INDEX, "optional_map_index_value", (optional_of(_MAP), K), _OPTIONAL, None, fails=True),
        method("first", "list_first", (_LIST,), _OPTIONAL, lambda x: Optional(x[0]) if x else NONE),
        method("last", "list_last", (_LIST,), _OPTIONAL, lambda x: Optional(x[-1]) if x else NONE),
        plain("optional.unwrap", "optional_unwrap", (list_of(_OPTIONAL),), _LIST, _unwrap, fails=True),
        method("unwrapOpt", "optional_unwrapOpt", (list_of(_OPTIONAL),), _LIST, _unwrap, fails=True),
    ),
    types=(types.optional_of(DYN),),
    macros=frozenset({"optional"}),
)  # fmt: skip
