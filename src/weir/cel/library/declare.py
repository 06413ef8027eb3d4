"""How a library writes down a function: short forms of the records in weir.cel.env.

A library is a table of rows, each like its row in cel.md 10: function, id, parameters, result, implementation, price.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from weir.cel.cost_model import Rule
from weir.cel.costs import FLAT
from weir.cel.env import Function, Overload, Specialized
from weir.cel.types import Type
from weir.cel.values import Value
from weir.cel.work import CALL, INLINE

# ── efforts of calls with small operands, in tenths of a unit of work (10 ns), where they exceed a short function's ──
# Measured, and held by tests/property/test_cel_work.py; what grows with its operands is charged by the function itself
# (weir.cel.work).


_ACCESSORS: Final = ("year", "month", "day_of_year", "day_of_month", "day_of_month_1_based", "day_of_week", "hours",
                     "minutes", "seconds", "milliseconds")  # fmt: skip
_ORDERINGS: Final = ("less", "less_equals", "greater", "greater_equals")
_ELEMENTS: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes",
                    "google.protobuf.Duration", "google.protobuf.Timestamp")  # fmt: skip


def _families() -> Iterator[tuple[str, int]]:
    for part in _ACCESSORS:
        yield f"timestamp_to_{part}", 600
        yield f"timestamp_to_{part}_with_tz", 1200
    yield "timestamp_to_seconds_tz", 1200
    for ordering in _ORDERINGS:
        for of in ("timestamp", "duration"):
            yield f"{ordering}_{of}", 150
        for of in ("int64_double", "uint64_double", "double", "double_int64", "double_uint64"):
            yield f"{ordering}_{of}", 60
    for of in _ELEMENTS:
        for call in ("is_sorted_bool", f"sum_{of}", f"min_{of}", f"max_{of}", "sort", "sortByAssociatedKeys"):
            yield f"list_{of}_{call}", 300


EFFORTS: Final[dict[str, int]] = {
    **dict(_families()),
    "add_uint64": 70, "subtract_uint64": 70, "multiply_uint64": 70, "divide_uint64": 100, "modulo_uint64": 100,
    "divide_int64": 80, "modulo_int64": 80, "divide_double": 60,
    "add_duration_duration": 80, "add_duration_timestamp": 100, "add_timestamp_duration": 100,
    "subtract_duration_duration": 80, "subtract_timestamp_duration": 100, "subtract_timestamp_timestamp": 80,
    "contains_string": CALL,
    "string_to_double": 200, "string_to_duration": 250, "string_to_timestamp": 600, "string_to_int64": 120,
    "string_to_uint64": 120, "double_to_string": 700, "duration_to_string": 500, "timestamp_to_string": 900,
    "int64_to_timestamp": 100, "int64_to_uint64": 60, "double_to_uint64": 60, "type": 60,
    "string_index_of_string": 60, "string_index_of_string_int": 60, "string_last_index_of_string": 90,
    "string_last_index_of_string_int": 90, "string_replace_string_string": 80, "string_replace_string_string_int": 80,
    "string_split_string": 90, "string_split_string_int": 90, "list_join": 80, "list_join_string": 80,
    "string_lower_ascii": 60, "string_upper_ascii": 60, "strings_quote": 120, "string_format": 300,
    "matches": 250, "matches_string": 250, "string_find_string": 250, "string_find_all_string": 300,
    "string_find_all_string_int": 300,
    "optional_ofNonZeroValue": 100, "list_a_index_of_int": 200, "list_a_last_index_of_int": 100,
    "list_includes_dyn_dyn": 150, "list_flatten": 150,
    "list_flatten_int": 150, "list_distinct": 120, "list_sets_contains_list": 200, "list_sets_intersects_list": 200,
    "list_sets_equivalent_list": 400,
    "string_to_url": 2200, "is_url_string": 900, "url_get_query": 200, "url_get_scheme": 100, "url_get_host": 100,
    "url_get_hostname": 200, "url_get_port": 200, "url_get_escaped_path": 200,
    "string_to_quantity": 350, "is_quantity_string": 350, "quantity_add": 200, "quantity_add_int": 200,
    "quantity_sub": 200, "quantity_sub_int": 200, "quantity_is_greater_than": 120, "quantity_is_less_than": 120,
    "quantity_compare_to": 120, "quantity_get_float": 80, "quantity_get_int": 80,
    "string_to_ip": 400, "is_ip": 400, "ip_is_canonical": 900, "ip_to_string": 700, "ip_is_global_unicast": 150,
    "string_to_cidr": 700, "is_cidr": 700, "cidr_to_string": 800, "cidr_contains_ip_string": 500,
    "cidr_contains_cidr_string": 900, "cidr_contains_ip_ip": 80, "cidr_contains_cidr": 120, "cidr_masked": 150,
    "string_to_semver": 700, "string_bool_to_semver": 900, "is_semver_string": 700, "is_semver_string_bool": 900,
    "semver_is_greater_than": 80, "semver_is_less_than": 80, "semver_compare_to": 90,
    "format-validate": 600, "format-named": 60,
}  # fmt: skip


def effort_of(id: str, inline: str | None) -> int:
    """Return the effort of the overload *id*."""
    return EFFORTS.get(id, CALL if inline is None else INLINE)


Impl = Callable[..., Value] | None


class Row(NamedTuple):
    """One overload, and the function that it belongs to."""

    function: str
    overload: Overload


def method(
    function: str,
    id: str,
    params: tuple[Type, ...],
    result: Type,
    impl: Impl,
    price: Rule = FLAT,
    *,
    member: bool = True,
    fails: bool = False,
    inline: str | None = None,
    specialize: Callable[[Sequence[Value]], Specialized | None] | None = None,
) -> Row:
    """Return the row of a method: `params[0]` is the receiver."""
    effort = effort_of(id, inline)
    overload = Overload(
        id, params, result, member, impl, fails, inline, specialize, **price.prices, effort=effort
    )
    return Row(function, overload)


#: The row of a global function.
plain: Final = partial(method, member=False)


def functions(*rows: Row, fold: bool = False) -> tuple[Function, ...]:
    """Return the functions of *rows*, each with its overloads in declaration order."""
    overloads: dict[str, list[Overload]] = {}
    for name, overload in rows:
        overloads.setdefault(name, []).append(overload)
    return tuple(Function(name, tuple(several), fold) for name, several in overloads.items())
