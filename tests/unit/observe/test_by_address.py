"""Who makes room when there are too many connections."""

from __future__ import annotations

from weir.observe.by_address import ByAddress


def test_the_address_that_has_most_loses_its_oldest():
    few = ByAddress[int](5)
    assert [few.add("a", number) for number in range(4)] == [None] * 4
    assert few.add("b", 10) is None
    assert [few.add("b", 11), few.add("a", 4), few.add("c", 20)] == [0, 1, 2]
    assert (len(few), sorted(few)) == (5, [3, 4, 10, 11, 20])


def test_what_is_gone_is_forgotten_once():
    few = ByAddress[int](5)
    few.add("a", 1)
    few.add("a", 2)
    for _ in range(2):
        few.discard("a", 1)
        few.discard("b", 7)
    assert (len(few), list(few)) == (1, [2])
    few.discard("a", 2)
    assert (len(few), few._of) == (0, {})
