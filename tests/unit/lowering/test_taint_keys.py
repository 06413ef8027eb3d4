"""Which keys extended tolerations may tolerate: never too few, and every key where it cannot be told."""

from __future__ import annotations

import pytest

from weir.lowering.taint_keys import NONE, keys_of, union
from weir.objects.core import Taint
from weir.taints.expression import Expressions
from weir.taints.operators import Outcome

EXPRESSIONS = {
    "taint.key == 'a'": {"a"},
    "'a' == taint.key && int(taint.value) > 3": {"a"},
    "taint.value == 'x' && taint.key in ['a', 'b']": {"a", "b"},
    "taint.key == 'a' || taint.key == 'b'": {"a", "b"},
    "taint.key == 'a' && taint.key == 'b'": set(),
    "(taint.key == 'a' || taint.key == 'b') && taint.key != 'b'": {"a", "b"},
    "taint.key == 'a' || taint.value == 'x'": None,
    "taint.key != 'a'": None,
    "!(taint.key == 'a')": None,
    "taint.key.startsWith('a')": None,
    "taint.key == taint.value": None,
    "taint.value in ['a']": None,
    "taint.key == 'a' ? true : true": None,
    "[taint].exists(taint, taint.key == 'a')": None,
    "true": None,
}


@pytest.mark.parametrize("expression, keys", EXPRESSIONS.items())
def test_the_keys_of_an_expression(expression, keys):
    found = keys_of([{"operator": "CEL", "value": expression}])
    assert found == (None if keys is None else frozenset(keys))
    if found is not None:
        seen = Expressions()
        for key in ("a", "b", "c"):
            tolerates = seen.evaluate(expression, Taint(key, "x", "NoExecute")) is Outcome.TOLERATED
            assert not tolerates or key in found


def test_the_keys_of_a_list_are_those_of_its_extended_entries():
    gt, plain = {"key": "sla", "operator": "Gt", "value": "9"}, {"key": "plain", "operator": "Exists"}
    assert keys_of([gt, plain, {"key": "v", "operator": "SemverGt", "value": "1.2.3"}]) == {"sla", "v"}
    assert keys_of([plain]) == NONE == keys_of([{"operator": "CEL", "value": "not an expression"}])
    assert union(frozenset({"a"}), None) is None
