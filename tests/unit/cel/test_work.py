"""How much text of expressions is compiled for one purpose."""

from __future__ import annotations

import threading

import pytest

from weir.cel.work import TooMuchText, allowance
from weir.taints.expression import check_expression

EXPRESSION = "taint.key == 'a'"


def test_every_expression_that_is_compiled_counts():
    with allowance(3 * len(EXPRESSION)):
        assert [check_expression(EXPRESSION) for _ in range(3)] == [None] * 3
        with pytest.raises(TooMuchText):
            check_expression(EXPRESSION)


def test_one_that_cannot_be_compiled_counts_too():
    with allowance(5), pytest.raises(TooMuchText):
        check_expression("1 +")
        check_expression("1 +")


def test_an_allowance_ends_with_its_block_and_is_of_one_thread():
    found: list[object] = []
    with allowance(0):
        other = threading.Thread(target=lambda: found.append(check_expression(EXPRESSION)))
        other.start()
        other.join()
        with allowance(100):
            found.append(check_expression(EXPRESSION))
        with pytest.raises(TooMuchText):
            check_expression(EXPRESSION)
    found.append(check_expression(EXPRESSION))
    assert found == [None] * 3
