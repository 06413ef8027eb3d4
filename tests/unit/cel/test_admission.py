"""The first check that fails speaks, and a cost is refused only beyond the limit."""

from __future__ import annotations

import pytest

from weir.cel.env import Env
from weir.cel.program import FORBIDDEN, INTERNAL, INVALID, TOO_COMPLEX, Refusal, refuse
from weir.cel.types import BOOL
from weir.taints.expression import ENV, estimate

FINE = "taint.key.startsWith('a')"


def limited(cost: int) -> Env:
    return Env(ENV.libraries, ENV.variables, ENV.objects, ENV.sizes, cost_limit=cost)


def test_what_costs_exactly_the_limit_is_taken():
    most = estimate(FINE).max
    assert refuse(FINE, limited(most), (BOOL,)) is None
    assert refuse(FINE, limited(most - 1), (BOOL,)) == Refusal(FORBIDDEN, TOO_COMPLEX)


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("taint.", INVALID),
        ("taint.value.matches('[')", INVALID),  # a literal that the validators read
        ("taint.value", INVALID),
        ("int('x') == 1", INTERNAL),
    ],
)
def test_a_text_that_is_wrong_is_refused_before_its_cost_is_asked(expression, kind):
    assert refuse(expression, limited(-1), (BOOL,)).kind == kind
    assert refuse(expression, ENV, (BOOL,)).kind == kind
