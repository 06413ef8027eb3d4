"""Weir's CEL against Kubernetes' own, on random well-typed expressions and on expressions spoilt in one place.

The program of `tools/cel` answers with Kubernetes' libraries. Type, estimate, value, error text and runtime cost must
be the same. Left out: the words of syntax errors after the first, where a generated parser recovers in its own way.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
from dataclasses import replace
from typing import Any

import pytest

from tests.cel_vectors import to_json
from tests.kubernetes.oracles import oracle
from tests.unit.cel.random_expressions import Grower
from weir.cel import types
from weir.cel.errors import CelError, CompileError
from weir.cel.lowering import ProgramError
from weir.cel.program import build, check_expression, long_name, refuse
from weir.devices.expression import environment, read_device
from weir.objects.core import Taint
from weir.taints.expression import ENV

pytestmark = pytest.mark.proves(
    "5500-4", "5500-7", "5500-18", "5500-20", "5500-31", "5500-36", "5500-39", "5500-62", "5500-119"
)

TAINT = {"key": "example.com/a", "value": "5.4.0", "effect": "NoSchedule"}
PATHS = {"taint.key": types.STRING, "taint.value": types.STRING, "taint.effect": types.STRING}
DEVICE = {
    "driver": "gpu.example.com",
    "allowMultipleAllocations": True,
    "attributes": {
        "model": {"string": "a100"},
        "gpu.example.com/memGen": {"int": 3},
        "ready": {"bool": True},
        "driverVersion": {"version": "1.2.3"},
        "ports": {"ints": [1, 2]},
        "tags": {"strings": ["x", "y"]},
    },
    "capacity": {"memory": {"value": "80Gi"}, "gpu.example.com/cores": {"value": "128"}},
}
OF_DEVICE = "device.attributes['gpu.example.com']"
SELECTORS = [
    f"{OF_DEVICE}.model == 'a100'", f"{OF_DEVICE}.memGen >= 3 && {OF_DEVICE}.ready", f"{OF_DEVICE}.nope == 1",
    f"{OF_DEVICE}.driverVersion.isGreaterThan(semver('1.0.0'))", f"{OF_DEVICE}.driverVersion == '1.2.3'",
    f"has({OF_DEVICE}.model) && {OF_DEVICE}.model.startsWith('a')", f"{OF_DEVICE}.?nope.orValue('') == ''",
    "device.capacity['gpu.example.com'].memory.compareTo(quantity('40Gi')) >= 0",
    "device.attributes['nope'].size() == 0",
    "'nope' in device.attributes", "device.attributes[device.driver].model.matches('^a[0-9]+$')", f"{OF_DEVICE}.ports",
    "cel.bind(d, device.attributes['gpu.example.com'], d.model in ['a100', 'h100'])", "device.allowMultipleAllocations",
    f"{OF_DEVICE}.ports.exists(p, p > 1) && {OF_DEVICE}.tags.includes('x')", f"{OF_DEVICE}.ports.sum() == 3",
]  # fmt: skip
_TOKEN = re.compile(r"'[^']*'|\w+|\S")


@pytest.fixture(scope="module")
def program() -> str:
    return oracle("cel")


def _ask(program: str, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    text = "".join(json.dumps(question) + "\n" for question in questions)
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=True, timeout=600)
    return [json.loads(line) for line in done.stdout.splitlines()]


def _about_taint(expression: str) -> dict[str, Any]:
    try:
        checked = check_expression(expression, ENV)
    except CompileError as error:
        return {"outcome": "compile_error", "error": str(error)}
    known = {"type": long_name(checked.type), "cost_estimate": list(checked.estimate)}
    try:
        value, cost = build(checked).run({"taint": Taint(**TAINT)})
    except ProgramError as error:
        return {**known, "outcome": "program_error", "error": str(error)}
    except CelError as error:
        return {
            **known,
            "outcome": "eval_error",
            "error": str(error),
            "actual_cost": getattr(error, "cost", 0),
        }
    return {**known, "outcome": "value", "value": to_json(value), "actual_cost": cost}


#: Device selectors of any estimated cost.
UNLIMITED = replace(environment(list_attributes=True, multiple_allocations=True), cost_limit=2**64)


def _about_device(expression: str) -> dict[str, Any]:
    env = environment(list_attributes=True, multiple_allocations=True)
    refusal = refuse(expression, UNLIMITED, (types.BOOL, types.DYN))
    if refusal is not None:
        return {"outcome": "refused", "error": refusal.message}
    checked = check_expression(expression, env)
    known = {"type": long_name(checked.type), "max_cost": checked.estimate.max}
    try:
        value, cost = build(checked).run({"device": read_device(str(DEVICE["driver"]), DEVICE)})
    except CelError as error:
        return {
            **known,
            "outcome": "eval_error",
            "error": str(error),
            "actual_cost": getattr(error, "cost", 0),
        }
    return {**known, "outcome": "value", "value": to_json(value), "actual_cost": cost}


def _differences(theirs: dict[str, Any], ours: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return what is not the same, field by field."""
    if theirs["outcome"] in ("panic", "unprintable"):
        return []
    first = [answer.get("error", "").partition("\n")[0] for answer in (theirs, ours)]
    if "Syntax error" in first[0] and first[0] == first[1]:
        return []
    fields = ("outcome", "error", "type", "cost_estimate", "max_cost", "actual_cost")
    found = [
        (name, theirs.get(name), ours.get(name)) for name in fields if theirs.get(name) != ours.get(name)
    ]
    if _plain(theirs.get("value")) != _plain(ours.get("value")):
        found.append(("value", theirs.get("value"), ours.get("value")))
    return found


def _plain(value: Any) -> Any:
    """Return a written value with maps in one order."""
    if not isinstance(value, dict):
        return value
    if value["type"] == "double":
        return ("double", str(float(value["value"])))
    if value["type"] not in ("list", "map", "optional"):
        return (value["type"], value["value"])
    if value["type"] == "optional":
        return ("optional", _plain(value["value"]))
    if value["type"] == "list":
        return ("list", [_plain(element) for element in value["value"]])
    return ("map", sorted(str((_plain(key), _plain(entry))) for key, entry in value["value"]))


def _different(program: str, expressions: list[str], *, device: bool = False) -> list[Any]:
    """Return the expressions that weir and the real evaluator answer differently, with how."""
    subject = {"device": DEVICE} if device else {"taint": TAINT}
    answers = _ask(program, [{"expr": expression, **subject} for expression in expressions])
    about = _about_device if device else _about_taint
    return [
        (expression, found)
        for expression, answer in zip(expressions, answers, strict=True)
        if (found := _differences(answer, about(expression)))
    ]


def test_random_well_typed_expressions_have_the_same_answer(program: str) -> None:
    """Up to 3 in 1500 may differ: optionals inside conditionals inside paths, which nobody writes."""
    grown = [Grower(ENV, seed, PATHS).expression(depth=2 + seed % 3) for seed in range(1500)]
    wrong = _different(program, [text for text in grown if len(text) < 1500])
    assert len(wrong) <= 3, wrong[:10]


def test_spoilt_expressions_have_the_same_answer(program: str) -> None:
    picked = random.Random(5)
    sources = [Grower(ENV, seed, PATHS).expression(depth=2) for seed in range(400)]
    wrong = _different(program, _spoilt(sources, 1500, picked))
    assert len(wrong) <= 3, wrong[:10]


def test_device_selectors_have_the_same_answer(program: str) -> None:
    """Their answer for what is no bool is an error of another layer: weir.devices.expression words it."""
    picked = random.Random(6)
    expressions = [text for text in _spoilt(SELECTORS, 600, picked) if ".exists(" not in text]
    env = environment(list_attributes=True, multiple_allocations=True)
    boolean = [text for text in expressions if _type_name(text, env) in ("bool", "")]
    wrong = _different(program, boolean, device=True)
    assert len(wrong) <= 3, wrong[:10]


def test_paths_that_share_room_have_the_same_estimate(program: str) -> None:
    """Of maps that are empty: the order of Go's maps would tell in what it costs to look through them."""
    tests = [
        "k.matches('a+')",
        "d.model == 'x' && k.matches('a+')",
        "k != 'a' ? d.model != k : d[k] == d.name",
    ]
    expressions = [
        f"cel.bind(d, device.{of}['nope'], {over}.{macro}({names}, {test}))"
        for of in ("attributes", "capacity")
        for over in ("d", "device.attributes['nope']", "device.capacity['nope']")
        for macro in ("all", "exists")
        for names in ("k", "k, v", "v, k")
        for test in tests
    ]
    assert _different(program, expressions, device=True) == []


def _type_name(text: str, env: Any) -> str:
    try:
        return str(check_expression(text, env).type)
    except CompileError:
        return ""


def _spoilt(sources: list[str], count: int, picked: random.Random) -> list[str]:
    """Return expressions with one or two words replaced by other words of their kind."""
    split = [_TOKEN.findall(source) for source in sources]
    words: dict[str, list[str]] = {}
    for tokens in split:
        for token in tokens:
            words.setdefault(_kind(token), []).append(token)
    made = []
    for _ in range(count):
        tokens = list(picked.choice(split))
        for _ in range(picked.choice((1, 1, 2))):
            index = picked.randrange(len(tokens))
            tokens[index] = picked.choice(words[_kind(tokens[index])])
        made.append(_joined(tokens))
    return list(dict.fromkeys(made))


def _kind(token: str) -> str:
    if token[0] == "'":
        return "text"
    return "number" if token[0].isdigit() else "word" if token[0].isalpha() else token


def _joined(tokens: list[str]) -> str:
    text = ""
    for token in tokens:
        apart = text and (text[-1].isalnum() or text[-1] == "'") and (token[0].isalnum() or token[0] == "'")
        text += f" {token}" if apart else token
    return text
