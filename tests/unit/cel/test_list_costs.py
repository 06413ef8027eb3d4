"""What operations on lists and sets cost: by sizes before evaluation, by values during it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.cel.operands import operand
from weir.cel import ast, costs, types
from weir.cel.cost_model import MAX, Operand, Range, Rule, fixed
from weir.cel.costs import literal_count, walk_cost
from weir.cel.errors import CostLimitExceeded, EvaluationError, InternalError
from weir.cel.types import Node, Type
from weir.cel.values import Duration
from weir.cel.work import begin
from weir.devices.expression import environment, read_device
from weir.objects.core import Taint

NUMBERS, TEXTS = types.list_of(types.INT), types.list_of(types.STRING)
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
def test_before_evaluation_a_price_is_of_sizes(
    rule: Rule, cost: tuple[int, int], size: tuple[int, int] | None
) -> None:
    assert rule.static_rule([operand(one, NUMBERS) for one in LISTS]) == (cost, size)


@pytest.mark.parametrize(
    ("of", "scan", "includes"),
    [
        (NUMBERS, (3, 20), (3, 20)),
        (TEXTS, (6, 60), (6, 60)),
        (types.list_of(types.BYTES), (6, 60), (6, 60)),
        (types.map_of(types.INT, types.STRING), (3, 20), (3, 20)),
        (types.STRING, (1, 2), (3, 20)),
        (types.DYN, (1, 2), (3, 20)),
    ],
)
def test_looking_at_every_element_costs_more_where_they_are_texts(
    of: Type, scan: tuple[int, int], includes: tuple[int, int]
) -> None:
    given = [operand(LISTS[0], of, Range(5, 15)), operand(LISTS[1], TEXTS, Range(500, 900))]
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
def test_during_evaluation_a_price_is_of_values(rule: Rule, cost: int) -> None:
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
