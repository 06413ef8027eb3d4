"""Ordered keys are a sorted list that is cheap to change."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import tries
from weir.store import order
from weir.store.order import OrderedKeys, after_prefix

keys = st.text(alphabet="/abé\U0001f600\U0010ffff", max_size=6)


@given(st.lists(st.tuples(st.booleans(), keys), max_size=80), keys, keys)
@settings(max_examples=tries(120, 300))
def test_it_holds_what_a_sorted_set_holds(steps: list[tuple[bool, str]], start: str, stop: str) -> None:
    plain: set[str] = set()
    ordered = OrderedKeys()
    for add, key in steps:
        if add and key not in plain:
            plain.add(key)
            ordered.add(key)
        elif not add:
            plain.discard(key)
            ordered.discard(key)
    expected = sorted(key for key in plain if key >= start and (not stop or key < stop))
    assert list(ordered.between(start, stop)) == expected
    assert (ordered.count(start, stop), len(ordered)) == (len(expected), len(plain))


@given(st.lists(keys, unique=True))
def test_short_runs_split_and_join_without_losing_order(some: list[str]) -> None:
    whole, order._SPLIT = order._SPLIT, 4
    try:
        ordered = OrderedKeys()
        for key in some:
            ordered.add(key)
        assert list(ordered.between("", "")) == sorted(some)
        for key in some[::2]:
            ordered.discard(key)
        assert list(ordered.between("", "")) == sorted(some[1::2])
    finally:
        order._SPLIT = whole


@given(keys, keys)
def test_the_end_of_a_prefix_lies_after_exactly_the_keys_that_have_it(prefix: str, key: str) -> None:
    end = after_prefix(prefix)
    assert key.startswith(prefix) == (key >= prefix and (not end or key < end))


def test_the_end_of_a_prefix_can_be_encoded() -> None:
    assert after_prefix("/\ud7ff").encode() == "/\ue000".encode()
