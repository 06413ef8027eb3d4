"""Answers that are joined while they are sent are what they would be joined at once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import tries
from weir.apiserver.transport.http import ListResponse, Response

item = st.integers(0, 40).map(lambda size: b"x" * size) | st.binary(max_size=12)


@settings(max_examples=tries(100, 1000), deadline=None)
@given(st.lists(item, min_size=1, max_size=30), st.integers(1, 30))
def test_slices_of_a_list_are_its_body(items: list[bytes], size: int) -> None:
    answer = ListResponse(200, items)
    slices = [bytes(part) for part in answer.slices(size)]
    assert b"".join(slices) == answer.body == b",".join(items)
    assert answer.size == len(answer.body)
    assert max(map(len, slices)) <= 2 * size


def test_a_list_of_even_items_goes_in_slices_of_the_size_asked_for():
    answer = ListResponse(200, [b"x" * 99] * 1000)
    assert [len(part) for part in answer.slices(10_000)] == [10_000] * 9 + [9_999]


def test_a_list_whose_body_was_replaced_is_that_body():
    answer = ListResponse(200, [b"[a", b"b]"])
    answer.body = b"compressed"
    assert (answer.body, answer.size, b"".join(answer.slices(4))) == (b"compressed", 10, b"compressed")


@pytest.mark.parametrize("size", [1, 3, 10, 11])
def test_slices_of_an_ordinary_answer_are_no_copies(size: int) -> None:
    answer = Response(200, b"0123456789")
    slices = list(answer.slices(size))
    assert b"".join(slices) == answer.body
    assert all(isinstance(part, memoryview) and part.obj is answer.body for part in slices)
    assert max(map(len, slices)) <= size
