"""Ordinary loops over objects: evaluated exactly where Kubernetes' runtime cost allows them (decisions 105, 121).

The plain evaluator with as much work as it likes says what Kubernetes would: the value and the cost, or that the cost
is beyond the limit. Generated code must say the same, within the work of one evaluation.
"""

from __future__ import annotations

from typing import Any

import pytest

from weir.cel.env import COST_LIMIT, Env
from weir.cel.errors import CelError, CostLimitExceeded
from weir.cel.library import KUBERNETES
from weir.cel.program import Program, compile
from weir.cel.types import DYN
from weir.cel.work import EXACT_WORK

ENVS = {
    limit: Env(KUBERNETES, {"object": DYN, "oldObject": DYN}, cost_limit=limit)
    for limit in (50_000, COST_LIMIT)
}

_SAME = "o.key == t.key && o.effect == t.effect && o.value == t.value"
_SAME_OR_NONE = (
    "o.key == t.key && o.effect == t.effect && (has(o.value) ? o.value : '') == (has(t.value) ? t.value : '')"
)
EXPRESSIONS = [
    f"object.spec.taints.all(t, oldObject.spec.taints.exists(o, {_SAME}))",
    f"object.spec.taints.exists(t, !oldObject.spec.taints.exists(o, {_SAME}))",
    f"object.spec.taints.all(t, oldObject.spec.taints.exists(o, {_SAME_OR_NONE}))",
    "object.spec.taints.all(t, oldObject.spec.taints.exists(o, o.?key.orValue('') == t.?key.orValue('') && "
    "o.?value.orValue('') == t.?value.orValue('') && o.effect == t.effect))",
    f"oldObject.spec.taints.filter(o, !object.spec.taints.exists(t, {_SAME})).size() == 0",
    "object.spec.taints.filter(t, oldObject.spec.taints.filter(o, o.value == t.value && o.effect == t.effect)"
    ".size() > 1).size() > 0",
    "object.spec.taints.map(t, oldObject.spec.taints.filter(o, o.key == t.key).map(o, o.value)).size() > 1",
    "object.spec.taints.map(t, oldObject.spec.taints.map(o, o.key + '=' + t.value)).size() > 1",
    "object.spec.taints.all(t, oldObject.spec.taints.exists_one(o, o.key == t.key))",
    "object.spec.taints.all(t, oldObject.spec.taints.all(o, o.number < t.number || o.key >= t.key || o.value == '1'))",
    "object.spec.taints.all(t, oldObject.spec.taints.exists(o, t.key.startsWith(o.key) || o.value in ['2', '3', '4']))",
    "object.spec.taints.exists(t, oldObject.spec.taints.exists(o, "
    "t.number > o.number ? t.value == 'no' : o.value == 'no'))",
    "object.spec.taints.all(t, t.key.matches('^k[0-9]+$') && oldObject.spec.taints.exists(o, t.key.contains(o.key)))",
    "object.spec.taints.all(t, oldObject.spec.taints.all(o, !(t.key == o.key) || (t.number == o.number && "
    "size(t.key) > 1 && has(t.effect) && t.effect in ['NoSchedule', 'NoExecute'])))",
]


def document(elements: int) -> dict[str, Any]:
    entries = [
        {"key": f"k{n:03}", "value": "1", "effect": "NoSchedule", "number": n}
        | ({"value": "2"} if n % 7 else {})
        for n in range(elements)
    ]
    return {"spec": {"taints": entries}}


def outcome(program: Program, variables: dict[str, Any], **work: int) -> Any:
    try:
        return program._plainly(variables, True, **work) if work else program.run(variables)
    except CostLimitExceeded:
        return "beyond the limit"
    except CelError as error:
        return str(error)


@pytest.mark.parametrize("limit", ENVS)
@pytest.mark.parametrize("elements", [60, 100])
@pytest.mark.parametrize("text", EXPRESSIONS)
def test_loops_are_evaluated_where_kubernetes_cost_allows_them(text: str, elements: int, limit: int) -> None:
    program = compile(text, ENVS[limit])
    variables = {"object": document(elements), "oldObject": document(elements)}
    assert outcome(program, variables) == outcome(program, variables, work=EXACT_WORK)


def test_both_sides_of_the_limit_are_asked() -> None:
    """Some of the expressions above are beyond a limit of 50,000, and none is beyond Kubernetes' own."""
    variables = {"object": document(100), "oldObject": document(100)}
    refused = {
        limit: [text for text in EXPRESSIONS if outcome(compile(text, env), variables) == "beyond the limit"]
        for limit, env in ENVS.items()
    }
    assert 4 <= len(refused[50_000]) < len(EXPRESSIONS) and refused[COST_LIMIT] == []
