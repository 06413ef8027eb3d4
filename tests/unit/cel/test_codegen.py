"""Generated code does what the plain evaluator does, and nothing the user wrote becomes code."""

from __future__ import annotations

import contextlib
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cel_environments import BoundTaint, toleration_env
from tests.cel_vectors import from_json, to_json
from weir.cel import (
    CompileError,
    CostLimitExceeded,
    Env,
    EvaluationError,
    ProgramError,
    compile,
    reference,
)
from weir.cel.codegen.compile import generated_source
from weir.cel.errors import InternalError
from weir.cel.library import KUBERNETES
from weir.cel.lowering import lower
from weir.cel.program import Program, build, check_expression
from weir.cel.types import INT

_ENV = toleration_env()
_TAINT = BoundTaint("zone.example.org/rack-b2", "6.8.0", "NoExecute")
_OWN = Path(__file__).resolve().parents[2] / "vectors" / "cel" / "toleration.json"


def _outcome(run: Any) -> tuple[str, Any, int]:
    try:
        value, cost = run()
    except (EvaluationError, CostLimitExceeded, InternalError) as error:
        return "error", str(error), error.cost
    return "value", to_json(value), cost


def _both_ways(expression: str, taint: BoundTaint) -> tuple[Any, Any]:
    """Return value or error, and cost, of running an expression as generated code and step by step."""
    (answers,) = _all_both_ways(expression, taint)
    return answers


def _all_both_ways(expression: str, *taints: BoundTaint) -> list[tuple[Any, Any]]:
    """Return the same for each of *taints*, of an expression that is compiled once."""
    checked = check_expression(expression, _ENV)
    program, steps = build(checked), lower(checked.root, _ENV)
    return [
        (
            _outcome(lambda v={"taint": taint}: program.run_exactly(v)),
            _outcome(lambda v={"taint": taint}: reference.run(steps, _ENV, v)),
        )
        for taint in taints
    ]


def _compiling_expressions() -> list[str]:
    cases = json.loads(_OWN.read_text())["cases"]
    return [c["expr"] for c in cases if c["outcome"] in ("value", "eval_error") and "200000" not in c["expr"]]


_WRAPPERS = [
    "{}",
    "[{}]",
    "[1, 2].map(zz, {})",
    "[2, 0, 1].map(zz, 1 / zz > 0, {})",
    "1 / 0 == 1 ? {0} : {0}",
    "(1 / 0 == 1) || dyn({0}) == dyn({0})",
    "[1, 2].transformMap(ii, vv, {})",
    "{{'a': {0}, 'b': {0}}}",
    "optional.of(1).optMap(qq, {})",
    "[1, 2].exists(zz, zz == 2 && dyn({0}) != dyn(1 / 0))",
]


@pytest.mark.parametrize("wrapper", _WRAPPERS)
def test_value_error_and_cost_are_those_of_the_plain_evaluator(wrapper: str) -> None:
    other = BoundTaint("é/ü", "not a version", "")
    for expression in _compiling_expressions():
        with contextlib.suppress(CompileError, ProgramError):
            for generated, plain in _all_both_ways(wrapper.format(expression), _TAINT, other):
                assert generated == plain, expression


#: The checker gives what passes through dyn the type its use suggests; the values may be of any other.
_THROUGH_DYN = [
    "dyn({'a': 1})['a'] + 'x'",
    "dyn({'a': 1}).a + 'x'",
    "string(dyn(optional.of(1.5)).value())",
    "dyn([1, 2]).map(x, x + 'a')",
    "[dyn(1), dyn('a')].map(x, x + 1)",
    "[dyn(1), dyn('a')].sum()",
    "dyn([dyn(1), dyn('a')]).max() == 1",
    "dyn(optional.of(1)).orValue('a') + 'b'",
    "dyn({'a': 'b'}).transformMap(k, v, v + 1)",
    "[[], ['a']].map(x, x[0] + 'b')",
    "(true ? dyn(1) : dyn('a')) + 'x'",
    "[1, 2].exists(x, dyn(x) == 'a' || dyn(x).size() > 1)",
    "dyn([1,2,3]).exists(x, x.startsWith('a'))",
    "dyn(5).all(x, true)",
    "dyn(5).all(i, v, true)",
    "dyn('abc')['a'].startsWith('x')",
    "optional.of(dyn(1)).value() + 'a'",
    "{'a': dyn(1)}.a.startsWith('b')",
    "[dyn(1)][0].size()",
    "type(dyn(1)) == string",
    "dyn(taint).key.size() > 3",
    "'key' in dyn(taint)",
    "dyn(taint).exists(k, k == 'key')",
    "dyn(taint) == taint",
    "[taint][0].key",
    "optional.of(taint).key",
    "{'t': taint}.t.value",
    "dyn([taint])[0].key",
    "[taint].map(x, x.key)",
    "[taint].exists(x, dyn(x).value == '5.4.0')",
    "dyn(1) in dyn([1.0])",
    "dyn('a') in dyn(5)",
    "[1,2,3].map(x, dyn(x)).filter(y, y > 1).map(z, z + 1)",
    "dyn([[1],[2]]).flatten()",
    "dyn([3,1,2]).sort()",
    "dyn('b').split(',').join('-') + 'x'",
    "dyn({'a':[1,2]}).a[?1].orValue(0)",
    "dyn({'a':[1,2]}).?a[taint.key.size() - 12].orValue(9)",
    "{'a': {'example.com/a': {'z': 1}}}.?a[taint.key].z.hasValue()",
    "has(dyn({'a': {'b': 1}}).a.b)",
    "-dyn('a')",
    "dyn(1.5) % 2",
    "dyn(timestamp('2020-01-01T00:00:00Z')).getFullYear() == dyn(2020)",
    "dyn(1).getFullYear()",
    "google.protobuf.Int64Value{value: 1} + 1",
    "google.protobuf.StringValue{}.size()",
    "google.protobuf.Any{type_url: 'google.protobuf.Struct', value: b'\\x0a\\x03\\x0a\\x01a'}.a",
    "google.protobuf.Any{type_url: taint.key, value: bytes(taint.value)}.?a",
    "has(dyn(google.protobuf.Empty{}).a) || dyn(google.protobuf.Empty{}).?a.hasValue()",
    "dyn(google.protobuf.Empty{}).a",
    "google.protobuf.Int32Value{value: dyn(taint.key)} + 1",
]


@pytest.mark.parametrize("expression", _THROUGH_DYN)
def test_what_passes_through_dyn_is_judged_by_its_value(expression: str) -> None:
    generated, plain = _both_ways(expression, _TAINT)
    assert generated == plain


@given(key=st.text(max_size=30), value=st.text(max_size=30))
def test_any_taint_gives_the_same_answer_both_ways(key: str, value: str) -> None:
    generated, plain = _both_ways(
        "taint.key.split('/').exists(p, p == taint.value || int(p) > 3) || semver(taint.value).major() > 1 "
        "|| taint.key.matches('^[a-z]+$') && [taint.key, taint.value].map(s, s.size()).max() > 5",
        BoundTaint(key, value, "NoSchedule"),
    )
    assert generated == plain


def test_nothing_of_the_user_is_part_of_the_generated_source() -> None:
    hostile = '"""\'); import os; os.system("x") #'
    quoted = json.dumps(hostile)
    expression = (
        f"taint.key == {quoted} || taint.value in [{quoted}] || {{'secret_field': 1}}.secret_field == 7777"
    )
    source = generated_source(lower(check_expression(expression, _ENV).root, _ENV), _ENV)
    assert not any(part in source for part in ("import", "secret_field", "7777", "os."))


def test_generated_code_sees_no_dangerous_builtins() -> None:
    namespace = compile("taint.key == 'a'", _ENV).evaluate.__globals__  # type: ignore[attr-defined]
    assert not {"eval", "exec", "open", "__import__", "getattr"} & set(namespace["__builtins__"])


def test_expressions_of_one_shape_share_their_code() -> None:
    first, second = (compile(f"taint.key.startsWith('{p}')", _ENV).evaluate for p in ("ab", "cd"))
    assert first.__code__ is second.__code__  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 100 + "true" + " && taint.key != 'a')" * 100,
        "[1].map(a, " * 60 + "taint.key" + ")" * 60,
        "[1].all(a, " * 200 + "true" + ")" * 200,
        "optional.of(" * 200 + "1" + ")" * 200,
        "taint.key" + ".trim()" * 120,
        "true ? (" * 120 + "1" + ") : 0" * 120,
        " + ".join(["size(taint.key)"] * 200),
    ],
    ids=["and", "maps", "alls", "calls", "methods", "ternaries", "sum"],
)
def test_deep_nesting_runs_like_anything_else(expression: str) -> None:
    generated, plain = _both_ways(expression, _TAINT)
    assert generated == plain


def test_an_unbound_variable_is_an_evaluation_error() -> None:
    program = compile("x > 1 || true", Env(KUBERNETES, {"x": INT}))
    with pytest.raises(EvaluationError, match=r"no such attribute\(s\): x"):
        compile("x > 1", Env(KUBERNETES, {"x": INT})).evaluate({})
    assert program.run({}) == (True, 2)


def test_evaluation_stops_when_the_budget_is_used_up() -> None:
    program = compile("lists.range(n).all(i, lists.range(n).all(j, i + j >= 0))", Env(KUBERNETES, {"n": INT}))
    with pytest.raises(CostLimitExceeded, match="operation cancelled: actual cost limit exceeded"):
        program.evaluate({"n": 1000})


def test_the_budget_is_the_environments() -> None:
    program = compile("1 + 1 + 1 == 3", Env(KUBERNETES, cost_limit=2))
    with pytest.raises(CostLimitExceeded):
        program.evaluate({})


def test_a_program_may_be_evaluated_by_many_threads_at_once() -> None:
    program = compile("taint.key.split('.').map(p, p + '!').join('') == taint.value", _ENV)
    wrong: list[str] = []

    def work(number: int) -> None:
        taint = BoundTaint(f"a.{number}", f"a!{number}!", "NoSchedule")
        wrong.extend(["x"] * sum(program.evaluate({"taint": taint}) is not True for _ in range(200)))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize(
    "written",
    [
        {"type": "uint", "value": 3},
        {"type": "map", "value": [[{"type": "bool", "value": True}, {"type": "int", "value": 1}]]},
        {"type": "optional", "value": None},
        {"type": "timestamp", "value": "2024-02-29T12:00:00.5Z"},
        {"type": "double", "value": "-0.0"},
    ],
)
def test_written_values_survive_reading_and_writing(written: Any) -> None:
    assert to_json(from_json(written)) == written


def test_a_program_forgets_its_tree() -> None:
    assert set(Program.__slots__) == {"_env", "_plainly", "bytes", "evaluate", "expression", "type"}
