"""Libraries are tested as users meet them: an expression in, a value, an error or a cost out."""

from __future__ import annotations

from typing import Any

import pytest

from weir.cel.errors import CelError
from weir.cel.program import check_expression, compile
from weir.objects.core import Taint
from weir.taints.expression import ENV

TAINT = Taint("example.com/a", "5.4.0", "NoSchedule")


def value(expression: str) -> Any:
    """Return what *expression* gives for TAINT."""
    return compile(expression, ENV).evaluate({"taint": TAINT})


def error(expression: str) -> str:
    """Return the message *expression* fails with, whether it is compiled, built or evaluated."""
    with pytest.raises(CelError) as failure:
        value(expression)
    return str(failure.value)


def costs(expression: str) -> tuple[int, int, int]:
    """Return the estimate (min, max) and the metered cost."""
    estimate = check_expression(expression, ENV).estimate
    try:
        metered = compile(expression, ENV).run({"taint": TAINT})[1]
    except CelError as failure:
        metered = getattr(failure, "cost", 0)
    return estimate.min, estimate.max, metered
