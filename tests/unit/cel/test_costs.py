"""Prices: saturating arithmetic, inline forms, what the table promises."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cel.operands import operand
from weir.cel import ast, costs, types
from weir.cel.cost_model import MAX, UNKNOWN_SIZE, Charge, Operand, Range, Rule, fixed, scaled
from weir.cel.costs import fifth, literal_count, quarter, tenth, walk_cost
from weir.cel.errors import CostLimitExceeded, EvaluationError, InternalError
from weir.cel.library import ip
from weir.cel.library.named_formats import NamedFormat
from weir.cel.types import Node, Type
from weir.cel.values import Duration
from weir.cel.work import begin
from weir.devices.expression import environment, read_device
from weir.objects.core import Taint
from weir.taints.expression import ENV

sizes = st.integers(min_value=0, max_value=MAX)
small = st.integers(min_value=0, max_value=100_000_000)


TEXT = types.STRING
FORMAT = NamedFormat("short", lambda text: [], 42)
#: What a call is asked with where it matters which operand is read; one more than most calls have.
OPERANDS = (Range(19, 101), Range(21, 201), Range(31, 301))
ARGUMENTS = ("a" * 11, "b" * 21, "c" * 31)


def charged(rule: Rule, *sizes: Range) -> Charge:
    """Return the static price of a call with texts of these sizes."""
    return rule.static_rule([operand(size) for size in sizes])


def test_constants_are_those_of_upstream() -> None:
    assert (costs.LITERAL, costs.NAME, costs.SELECT, costs.CALL) == (0, 1, 1, 1)
    assert (costs.LIST, costs.MAP, costs.STRUCT) == (10, 30, 40)


@pytest.mark.parametrize(
    ("rule", "cost", "size"),
    [
        (costs.FLAT, (1, 1), None),
        (costs.NAMED_FLAT, (1, 1), None),
        (costs.READ, (2, 11), None),
        (costs.REWRITE, (2, 11), (19, 101)),
        (costs.TRAVERSE_ARGUMENT, (3, 21), None),
        (costs.TRAVERSE_RECEIVER, (2, 11), None),
        (costs.STRING_TO_BYTES, (2, 11), (19, 404)),
        (costs.BYTES_TO_STRING, (2, 11), (4, 101)),
        (costs.QUOTE, (2, 11), (21, 204)),
        (costs.READ_TWICE, (4, 21), None),
        (costs.CONCATENATE, (4, 31), (40, 302)),
        (costs.CONTAINS, (6, 231), None),
        (costs.REGEX, (12, 561), None),
        (costs.REGEX_FIND, (12, 561), (0, 101)),
        (costs.COMPARE, (1, 11), None),
        (costs.EQUALS, (1, 11), None),
        (costs.NOT_EQUALS, (1, 11), None),
        (costs.CONTAINS_IP, (1, 4), None),
        (costs.CONTAINS_IP_TEXT, (4, 25), None),
        (costs.CONTAINS_CIDR, (3, 7), None),
        (costs.CONTAINS_CIDR_TEXT, (6, 28), None),
        (costs.VALIDATE, (96, 672), None),
    ],
)
def test_before_evaluation_a_price_is_of_sizes(
    rule: Rule, cost: tuple[int, int], size: tuple[int, int] | None
) -> None:
    assert charged(rule, *OPERANDS) == (cost, size)


def test_sizes_of_results_wrap_around_at_64_bits() -> None:
    assert charged(costs.STRING_TO_BYTES, UNKNOWN_SIZE).size == (0, 2**64 - 4)
    assert charged(costs.QUOTE, UNKNOWN_SIZE).size == (2, 0)
    assert charged(costs.QUOTE, Range(MAX, MAX)).size == (1, 0)


@pytest.mark.parametrize(
    ("rule", "cost"),
    [
        (costs.FLAT, 1),
        (costs.NAMED_FLAT, 1),
        (costs.READ, 2),
        (costs.REWRITE, 2),
        (costs.TRAVERSE_ARGUMENT, 3),
        (costs.TRAVERSE_RECEIVER, 2),
        (costs.STRING_TO_BYTES, 2),
        (costs.BYTES_TO_STRING, 2),
        (costs.QUOTE, 2),
        (costs.READ_TWICE, 3),
        (costs.REPLACE, 3),
        (costs.SPLIT, 3),
        (costs.CONCATENATE, 4),
        (costs.CONTAINS, 6),
        (costs.REGEX, 12),
        (costs.REGEX_FIND, 12),
        (costs.COMPARE, 2),
        (costs.EQUALS, 2),
        (costs.NOT_EQUALS, 2),
        (costs.JOIN, 5),
        (costs.VALIDATE, 1),
    ],
)
def test_during_evaluation_a_price_is_of_values(rule: Rule, cost: int) -> None:
    assert rule.runtime.rule(ARGUMENTS, "r" * 22) == cost
    assert rule.runtime.constant in (None, cost)


@pytest.mark.parametrize(("length", "cost"), [(8, 1), (9, 1), (10, 2), (11, 2)])
def test_a_search_costs_as_if_the_text_were_one_longer(length: int, cost: int) -> None:
    for rule in (costs.REGEX, costs.REGEX_FIND):
        assert rule.runtime.rule(["a" * length, "a+"], True) == cost


def test_words_say_what_looking_up_an_address_costs() -> None:
    rules = (costs.CONTAINS_IP, costs.CONTAINS_IP_TEXT, costs.CONTAINS_CIDR, costs.CONTAINS_CIDR_TEXT)
    assert [rule.words.partition(";")[0] for rule in rules] == [
        "(1, 4)",
        "(1, 4) + 0.1·len(x)",
        "(1, 4) + (1, 2) + 1",
        "(1, 4) + (1, 2) + 1 + 0.1·len(x)",
    ]


def test_what_a_price_is_keyed_by_and_when_it_is_asked() -> None:
    rules = {name: rule for name, rule in vars(costs).items() if isinstance(rule, Rule)}
    assert {name for name, rule in rules.items() if rule.runtime.by_name} == {
        "NAMED_FLAT", "READ", "REWRITE", "READ_TWICE", "REGEX_FIND", "REPLACE", "SPLIT", "JOIN", "EQUALS",
        "CONTAINS_IP", "CONTAINS_CIDR", "VALIDATE", "SCAN", "INCLUDES",
    }  # fmt: skip
    needs_result = {name for name, rule in rules.items() if rule.runtime.needs_result}
    assert needs_result == {"JOIN", "SLICE", "RANGE", "REVERSE"}
    constant = {name for name, rule in rules.items() if rule.runtime.constant is not None}
    assert constant == {"FLAT", "NAMED_FLAT", "ADD_LIST"}


def test_a_flat_price_says_its_number_everywhere() -> None:
    rule = costs.flat(7)
    assert (rule.words, rule.runtime.inline, rule.runtime.constant) == ("7", "7", 7)
    assert (rule.static_rule([]), rule.runtime.rule([], None)) == (((7, 7), None), 7)


@pytest.mark.parametrize(
    ("text", "old", "new", "size"),
    [
        ((10, 100), (0, 0), (2, 3), (32, 403)),  # around every character
        ((10, MAX), (0, 0), (0, 1), (10, MAX)),
        ((MAX, MAX), (0, 0), (1, 1), (MAX, MAX)),
        ((10, 100), (0, 5), (0, 1), (0, 201)),
        ((10, 100), (0, 2), (3, 4), (10, 504)),
        ((10, 100), (3, 3), (3, 3), (10, 100)),  # as long as before
        ((10, 100), (3, 3), (4, 4), (10, 136)),  # longer
        ((10, 100), (3, 3), (2, 2), (8, 100)),  # shorter
        ((10, 100), (3, 4), (1, 2), (3, 100)),
        ((10, 100), (1, 4), (0, 9), (0, 900)),
        ((10, MAX), (1, 1), (1, 2), (10, MAX)),
        ((10, 100), (1, 1), (0, 1), (0, 100)),
        ((0, 0), (1, 1), (1, 1), (0, 0)),
    ],
)
def test_what_is_replaced_is_as_long_as_the_replacements_make_it(
    text: tuple[int, int], old: tuple[int, int], new: tuple[int, int], size: tuple[int, int]
) -> None:
    charge = charged(costs.REPLACE, Range(*text), Range(*old), Range(*new), Range(5, 6))
    assert charge == (Range(*text).scaled(0.2), size)


@pytest.mark.parametrize(("limit", "most"), [(None, 101), (0, 0), (7, 7), (-1, MAX), (-3, 2**64 - 3)])
def test_a_split_text_has_at_most_as_many_parts_as_a_literal_says(limit: int | None, most: int) -> None:
    given = [operand(OPERANDS[0]), operand(OPERANDS[1]), operand(fixed(1), types.INT, literal=limit)]
    assert costs.SPLIT.static_rule(given) == ((4, 21), (0, most))
    assert costs.SPLIT.static_rule(given[:2]) == ((4, 21), (0, 101))


TEXTS = types.list_of(TEXT)


@pytest.mark.parametrize(
    ("of", "count", "separator", "size"),
    [
        (TEXTS, (3, 20), None, (12, 140)),
        (TEXTS, (3, 20), (2, 5), (16, 235)),
        (TEXTS, (0, 0), (2, 5), (0, 0)),
        (TEXTS, (1, 1), (2, 5), (4, 7)),
        (types.DYN, (3, 20), (2, 5), (4, 95)),
        (types.DYN, (3, 20), None, (0, 0)),
    ],
)
def test_joined_texts_are_as_long_as_the_elements_and_what_is_between_them(
    of: Type, count: tuple[int, int], separator: tuple[int, int] | None, size: tuple[int, int]
) -> None:
    given = [operand(Range(*count), of, Range(4, 7))]
    if separator is not None:
        given.append(operand(Range(*separator), element=Range(50, 60)))
    assert costs.JOIN.static_rule(given) == (Range(*size).scaled(0.1), size)


@pytest.mark.parametrize(
    ("left", "right", "cost"),
    [
        ((0, 0), (5, 50), (0, 0)),
        ((5, 50), (0, 0), (0, 0)),
        ((0, 1), (5, 50), (1, 1)),
        ((11, 90), (5, 50), (1, 5)),
        ((0, MAX), (0, MAX), (1, 1844674407370955264)),
    ],
)
def test_comparing_costs_as_much_as_the_shorter_side_can(
    left: tuple[int, int], right: tuple[int, int], cost: tuple[int, int]
) -> None:
    for rule in (costs.COMPARE, costs.EQUALS, costs.NOT_EQUALS):
        assert charged(rule, Range(*left), Range(*right)) == (cost, None)


@pytest.mark.parametrize(
    ("left", "right", "cost"),
    [
        *[((name, 90), (name, 50), (1, 1)) for name in ("net.IP", "net.CIDR")],
        *[((name, None), (name, None), (1, 1)) for name in ("kubernetes.Quantity", "kubernetes.Semver")],
        (("kubernetes.NamedFormat", 900), ("kubernetes.NamedFormat", 900), (1, 7)),
        (("kubernetes.URL", 900), ("kubernetes.URL", 50), (1, 5)),
        (("kubernetes.URL", 50), ("kubernetes.URL", 900), (1, 90)),
        (("kubernetes.URL", 900), ("kubernetes.URL", None), (1, 1)),
        (("kubernetes.URL", 900), ("net.IP", 700), (1, 70)),
        (("net.IP", 900), ("kubernetes.URL", 700), (1, 70)),
        (("example.com.Other", 900), ("example.com.Other", 700), (1, 70)),
    ],
)
def test_equality_of_library_types_has_a_price_of_its_own(
    left: tuple[str, int | None], right: tuple[str, int | None], cost: tuple[int, int]
) -> None:
    given = [
        operand(None if size is None else Range(2, size), types.opaque(name)) for name, size in (left, right)
    ]
    assert costs.EQUALS.static_rule(given) == (cost, None)


def test_only_what_is_opaque_has_a_price_by_its_name() -> None:
    named = types.object_named("net.IP")
    given = [operand(Range(2, 900), named), operand(Range(2, 700), named)]
    assert costs.EQUALS.static_rule(given) == ((1, 70), None)


def test_equality_of_library_values_costs_one_if_the_first_is_one() -> None:
    long, network = "a" * 100, ip.parse_cidr("fd00::/120")
    price = costs.EQUALS.runtime.rule
    assert price([network, long], False) == 1
    assert price([long, network], False) == 2
    assert price([FORMAT, long, long], True) == 1
    assert price([long, long, FORMAT], True) == 10
    assert price([long, long[:50], FORMAT], True) == 5


def test_validating_costs_by_the_regular_expression_of_the_format() -> None:
    price = costs.VALIDATE.runtime.rule
    assert [price([FORMAT, "a" * length, "b" * 99], None) for length in (8, 9, 10, 100)] == [11, 11, 22, 121]


@pytest.mark.parametrize(
    ("rule", "short", "long"),
    [
        (costs.CONTAINS_IP, 1, 4),
        (costs.CONTAINS_IP_TEXT, 4, 7),
        (costs.CONTAINS_CIDR, 3, 7),
        (costs.CONTAINS_CIDR_TEXT, 6, 10),
    ],
)
def test_looking_up_an_address_costs_by_the_bytes_of_the_prefix(rule: Rule, short: int, long: int) -> None:
    price = rule.runtime.rule
    assert (price([b"1234", "a" * 21, ""], True), price([b"1" * 16, "a" * 21, ""], True)) == (short, long)


@given(small)
def test_integer_forms_are_the_rounded_products(size: int) -> None:
    assert (tenth(size), fifth(size), quarter(size)) == (
        math.ceil(size * 0.1),
        math.ceil(size * 2 * 0.1),
        math.ceil(size * 0.25),
    )


@given(sizes, sizes, sizes, sizes)
def test_nothing_leaves_64_bits(a: int, b: int, c: int, d: int) -> None:
    one, other = Range(a, b), Range(c, d)
    for result in (one.plus(other), one.times(other), one.scaled(0.1), one.scaled(2.1), one.union(other)):
        assert 0 <= result.min <= MAX and 0 <= result.max <= MAX


@given(sizes, sizes)
def test_sums_and_products_are_exact_until_they_saturate(a: int, b: int) -> None:
    assert Range(a, a).plus(Range(b, b)).max == min(a + b, MAX)
    assert Range(a, a).times(Range(b, b)).max == min(a * b, MAX)


def test_a_tenth_of_the_largest_number_is_the_documented_one() -> None:
    assert scaled(MAX, 0.1) == 1844674407370955264


def test_every_runtime_price_has_an_inline_form_that_says_the_same() -> None:
    wrong = []
    for function in ENV.functions.values():
        for overload in function.overloads:
            price = overload.cost
            if price is None or price.inline is None or price.constant is not None:
                continue
            args = ["abcdefghijk"[: 3 + i] * (i + 1) for i in range(len(overload.params))]
            names = {f"n{i}": len(arg) for i, arg in enumerate(args)}
            inline = eval(price.inline.format(**names), {"min": min})
            if inline != price.rule(args, None):
                wrong.append(overload.id)
    assert wrong == []


def test_prices_keyed_by_name_are_asked_for_unresolved_calls_too() -> None:
    by_name = {
        function.name
        for function in ENV.functions.values()
        for overload in function.overloads
        if overload.cost is not None and overload.cost.by_name
    }
    assert {
        "lowerAscii",
        "split",
        "quantity",
        "semver",
        "isIP",
        "find",
        "indexOf",
        "join",
        "validate",
    } <= by_name
    assert not {"startsWith", "contains", "_+_", "sort", "matches", "size"} & by_name


def test_a_rule_gives_both_fields_of_an_overload() -> None:
    assert set(costs.READ.prices) == {"cost", "static"}


NUMBERS, TEXTS_LIST_COSTS = types.list_of(types.INT), types.list_of(types.STRING)
LISTS = (Range(3, 20), Range(4, 30), Range(5, 40))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a" * 19, 1), ("é" * 10, 2), (b"x" * 9, 0), ([1, 2.0, True, None], 4), (["a" * 10, "b"], 1),
        ({"k" * 10: 1}, 2), ([[1], [2, 3]], 3), (Duration(1), 1), ((1, "a" * 20), 3),
        (Taint("a" * 20, "b" * 9, "NoSchedule"), 3), ([Taint("k" * 30, "", "NoExecute")], 3),
    ],
)  # fmt: skip
def test_walking_a_value_costs_one_for_each_leaf_and_a_tenth_of_texts(value: object, expected: int) -> None:
    assert walk_cost(value) == expected


def test_an_environment_with_fewer_fields_changes_no_price_of_another() -> None:
    device = read_device("gpu.example.com", {"attributes": {"model": {"string": "a100"}}})
    build = environment.__wrapped__  # anew, whatever other tests have built
    build(list_attributes=True, multiple_allocations=True)
    before = walk_cost(device)
    build(list_attributes=False, multiple_allocations=False)
    assert walk_cost(device) == before


@pytest.mark.parametrize("wrap", [lambda value: [value, value], lambda value: {1: value, 2: value}])
def test_walking_ends_when_it_has_seen_too_much(wrap: Callable[[object], object]) -> None:
    value: object = "a"
    for _ in range(16):
        value = wrap(value)
    begin()
    with pytest.raises(CostLimitExceeded):
        walk_cost(value)
    begin()


@pytest.mark.parametrize(
    ("node", "count"),
    [
        (ast.Literal(1, 0, 7), 7),
        (ast.Literal(1, 0, 0), 0),
        (ast.Literal(1, 0, -7), 0),
        (ast.Literal(1, 0, "7"), 99),
        (ast.Literal(1, 0, True), 99),
        (ast.Ident(1, 0, "n"), 99),
    ],
)
def test_a_count_is_an_int_literal_of_at_least_nothing(node: Node, count: int) -> None:
    assert literal_count(node, 99) == count


@pytest.mark.parametrize(
    ("rule", "cost", "size"),
    [
        (costs.IN_LIST, (4, 30), None),
        (costs.ADD_LIST, (1, 1), (7, 50)),
        (costs.REVERSE, (14, 31), (3, 20)),
        (costs.SORT, (29, 811), (9, 400)),
        (costs.SORT_TEXT, (30, 851), (9, 400)),
        (costs.SORT_BY, (43, 1811), (16, 900)),
        (costs.SORT_BY_TEXT, (45, 1901), (16, 900)),
        (costs.DISTINCT, (29, 811), (9, 400)),
        (costs.SETS, (13, 601), None),
        (costs.SETS_BOTH_WAYS, (25, 1201), None),
    ],
)
def test_before_evaluation_a_price_is_of_sizes_list_costs(
    rule: Rule, cost: tuple[int, int], size: tuple[int, int] | None
) -> None:
    assert rule.static_rule([operand(one, NUMBERS) for one in LISTS]) == (cost, size)


@pytest.mark.parametrize(
    ("of", "scan", "includes"),
    [
        (NUMBERS, (3, 20), (3, 20)),
        (TEXTS_LIST_COSTS, (6, 60), (6, 60)),
        (types.list_of(types.BYTES), (6, 60), (6, 60)),
        (types.map_of(types.INT, types.STRING), (3, 20), (3, 20)),
        (types.STRING, (1, 2), (3, 20)),
        (types.DYN, (1, 2), (3, 20)),
    ],
)
def test_looking_at_every_element_costs_more_where_they_are_texts(
    of: Type, scan: tuple[int, int], includes: tuple[int, int]
) -> None:
    given = [operand(LISTS[0], of, Range(5, 15)), operand(LISTS[1], TEXTS_LIST_COSTS, Range(500, 900))]
    assert costs.SCAN.static_rule(given) == (scan, None)
    assert costs.INCLUDES.static_rule(given) == (includes, None)


def number(value: int | None) -> Operand:
    """Return an int operand: a literal, or None for a variable."""
    return operand(fixed(1), types.INT, literal=value)


@pytest.mark.parametrize(
    ("start", "end", "size"),
    [(1, 3, 2), (None, 3, 3), (1, None, 19), (None, None, 20), (0, 0, 0), (3, 1, MAX - 1), (-4, 6, 6)],
)
def test_a_slice_is_as_long_as_its_literals_say(start: int | None, end: int | None, size: int) -> None:
    given = [operand(LISTS[0], NUMBERS), number(start), number(end)]
    cost = fixed(size).scaled(1.0).plus(fixed(11))
    assert costs.SLICE.static_rule(given) == (cost, fixed(size))


def test_a_range_is_as_long_as_its_literal_says() -> None:
    assert costs.RANGE.static_rule([number(5), number(50)]) == ((16, 16), (5, 5))
    assert costs.RANGE.static_rule([number(None), number(50)]) == ((MAX, MAX), (MAX, MAX))


@pytest.mark.parametrize(
    ("depth", "cost"), [((), (14, 31)), ((0,), (11, 11)), ((3,), (20, 71)), ((None,), (MAX, MAX))]
)
def test_flattening_costs_by_its_depth(depth: tuple[int | None, ...], cost: tuple[int, int]) -> None:
    given = [operand(LISTS[0], NUMBERS), *map(number, depth)]
    assert costs.FLATTEN.static_rule(given) == (cost, LISTS[0])


LIST, OTHER, THIRD = [1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("rule", "cost"),
    [
        (costs.IN_LIST, 4),
        (costs.ADD_LIST, 1),
        (costs.SCAN, 3),
        (costs.INCLUDES, 3),
        (costs.SLICE, 17),
        (costs.RANGE, 17),
        (costs.REVERSE, 17),
        (costs.SORT, 29),
        (costs.SORT_TEXT, 29),
        (costs.SORT_BY, 43),
        (costs.SORT_BY_TEXT, 43),
        (costs.DISTINCT, 29),
        (costs.SETS, 13),
        (costs.SETS_BOTH_WAYS, 25),
    ],
)
def test_during_evaluation_a_price_is_of_values_list_costs(rule: Rule, cost: int) -> None:
    assert rule.runtime.rule([LIST, OTHER, THIRD], [1, 2, 3, 4, 5, 6]) == cost


def test_words_say_of_which_list_and_how_often() -> None:
    assert costs.SORT.words == "11 + 2·len(L)²; result len(L)²"
    assert costs.SORT_BY_TEXT.words == "11 + 2.1·len(keys)²; result len(keys)²"
    assert costs.SETS.words == "1 + len(a)·len(b)"
    assert costs.SETS_BOTH_WAYS.words == "1 + 2·len(a)·len(b)"


@pytest.mark.parametrize(
    ("value", "cost"),
    [
        ([], 11),
        (["a", 1, 2], 29),  # 9 × 2.1, rounded down
        ([b"a", 1, 2], 29),
        ([1, 2, "a"], 29),
        (["a"] * 10, 221),
        ([1] * 10, 211),
        ([1] * 9 + ["a"], 211),
        (("a",) * 10, 221),
    ],
)
def test_comparing_each_with_each_costs_more_if_the_first_is_a_text(value: object, cost: int) -> None:
    assert costs.SORT.runtime.rule([value], None) == cost


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (EvaluationError("no"), "*types.Err is not traits.Lister: missing method Add"),
        (5, "types.Int is not traits.Lister: missing method Contains"),
        ("a", "types.String is not traits.Lister: missing method Contains"),
        (True, "types.Bool is not traits.Lister: missing method Add"),
    ],
)
def test_what_is_no_list_cannot_be_compared_each_with_each(value: object, said: str) -> None:
    with pytest.raises(InternalError) as raised:
        costs.SORT.runtime.rule([value], None)
    assert str(raised.value) == f"internal error: interface conversion: {said}"


@pytest.mark.parametrize(("depth", "cost"), [((), 14), ((0,), 11), ((1,), 14), ((4,), 23), ((-4,), 14)])
def test_flattening_a_value_costs_by_its_depth(depth: tuple[int, ...], cost: int) -> None:
    assert costs.FLATTEN.runtime.rule([LIST, *depth], None) == cost


@pytest.mark.parametrize(
    ("depth", "found"), [("1", "types.String"), (True, "types.Bool"), (EvaluationError("no"), "*types.Err")]
)
def test_a_depth_that_is_no_int_ends_as_upstreams_own_tracker_does(depth: object, found: str) -> None:
    with pytest.raises(InternalError) as raised:
        costs.FLATTEN.runtime.rule([LIST, depth], None)
    assert str(raised.value) == f"internal error: interface conversion: ref.Val is {found}, not types.Int"
