"""CEL vectors: `python -m tests.cel_vectors DIR|FILE…` prints every mismatch, then `N passed, M failed`.

Three JSON formats are understood, told apart by their content: conformance files (`tests`), run in Kubernetes
mode against what `kubernetes` records and, where the rejection is only Kubernetes' own, also in CEL mode
against `expect`; `cases` with `outcome` (the toleration environment) and `cases` with `env` (cost vectors).
Texts, types, static estimates and runtime costs are compared exactly.
"""

from __future__ import annotations

import base64
import json
import math
import re
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.cel_environments import (
    conformance_env,
    device_env,
    device_value,
    object_fields,
    parse_type,
    taint_value,
    toleration_env,
)
from weir.cel.env import Env
from weir.cel.errors import CelError, CompileError, EvaluationError
from weir.cel.lowering import ProgramError
from weir.cel.program import build, check_expression
from weir.cel.types import Kind, Type
from weir.cel.values import Duration, Optional, Timestamp, TypeValue, UInt, Value, type_of

#: Vectors that cannot hold, by (mode, file, section, name): the reason. None in Kubernetes mode.
EXCEPTIONS: dict[tuple[str, str, str, str], str] = {
    ("cel", "fields", "qualified_identifier_resolution", "map_value_repeat_key_heterogeneous"): (
        "the suite wants repeated keys refused; Kubernetes lets the last one win, and weir has only that behaviour"
    ),
}

Outcome = dict[str, Any]


# --- values and types as the vectors write them ----------------------------------------------------------


def to_json(value: Value) -> Any:
    """A CEL value as vectors write it."""
    kind = value.__class__
    if value is None:
        return {"type": "null", "value": None}
    if kind is bool or kind is str:
        return {"type": "bool" if kind is bool else "string", "value": value}
    if kind is int or kind is UInt:
        return {"type": "int" if kind is int else "uint", "value": int(value)}
    if kind is float:
        return {"type": "double", "value": _double(value)}
    if kind is bytes:
        return {"type": "bytes", "value": base64.b64encode(value).decode()}
    if isinstance(value, list | tuple):
        return {"type": "list", "value": [to_json(v) for v in value]}
    if isinstance(value, dict):
        return {"type": "map", "value": [[to_json(k), to_json(v)] for k, v in value.items()]}
    if isinstance(value, Timestamp):
        return {"type": "timestamp", "value": _timestamp(value.ns)}
    if isinstance(value, Duration):
        return {"type": "duration", "value": f"{value.ns}ns"}
    if isinstance(value, TypeValue):
        return {"type": "type", "value": value.name}
    if isinstance(value, Optional):
        return {"type": "optional", "value": to_json(value.value) if value.has_value else None}
    if (fields := object_fields(value)) is not None:
        return to_json(fields)
    declared = type_of(value).name if hasattr(value, "cel_type") else type(value).__name__
    return {"type": declared, "value": str(value)}


def _double(value: float) -> Any:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return "-0.0" if value == 0 and math.copysign(1, value) < 0 else value


def _timestamp(ns: int) -> str:
    seconds, fraction = divmod(ns, 10**9)
    days, rest = divmod(seconds, 86400)
    day = datetime.fromordinal(719163 + days).replace(tzinfo=UTC)
    text = f"{day.year:04}-{day.month:02}-{day.day:02}T{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return text + (f".{fraction:09}".rstrip("0") if fraction else "") + "Z"


_RFC3339 = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?Z")


def from_json(vector: Any) -> Value:
    """The CEL value a vector writes."""
    kind, value = vector["type"], vector["value"]
    if kind == "uint":
        return UInt(value)
    if kind == "double":
        return float(value)
    if kind == "bytes":
        return base64.b64decode(value)
    if kind == "list":
        return [from_json(v) for v in value]
    if kind == "map":
        return {from_json(k): from_json(v) for k, v in value}
    if kind == "timestamp":
        found = _RFC3339.fullmatch(value)
        assert found is not None, value
        *parts, fraction = found.groups()
        year, month, day, hour, minute, second = map(int, parts)
        seconds = (
            (datetime(year, month, day).toordinal() - 719163) * 86400 + hour * 3600 + minute * 60 + second
        )
        return Timestamp(seconds * 10**9 + int((fraction or "").ljust(9, "0")))
    if kind == "duration":
        return Duration(int(value.removesuffix("ns")))
    if kind == "type":
        return TypeValue(value)
    if kind == "optional":
        return Optional() if value is None else Optional(from_json(value))
    return value


def same(a: Any, b: Any) -> bool:
    """Whether two written values are the same; the order of maps does not count."""
    if not isinstance(a, dict) or not isinstance(b, dict) or a.get("type") != b.get("type"):
        return bool(a == b and type(a) is type(b))
    x, y = a["value"], b["value"]
    kind = a["type"]
    if kind == "list":
        return len(x) == len(y) and all(map(same, x, y))
    if kind == "map":
        return len(x) == len(y) and all(any(same(k, other) and same(v, w) for other, w in y) for k, v in x)
    if kind == "optional":
        return x is y or same(x, y)
    if kind == "double":
        return _double(float(x)) == _double(float(y))
    if kind not in _COMPARABLE:
        return True  # a library value: the vectors write it in a form of their own
    return bool(x == y)


_COMPARABLE = frozenset(["null", "bool", "int", "uint", "string", "bytes", "type", "timestamp", "duration"])


def type_text(t: Type) -> str:
    """A type as vectors write it."""
    if t.kind is Kind.NULL:
        return "null_type"
    if t.kind in (Kind.WRAPPER, Kind.LIST, Kind.MAP, Kind.OPTIONAL, Kind.TYPE, Kind.OPAQUE) and t.params:
        name = "wrapper" if t.kind is Kind.WRAPPER else t.name
        return f"{name}({', '.join(map(type_text, t.params))})"
    return str(t)


# --- running ---------------------------------------------------------------------------------------------


def outcome(expression: str, env: Env, variables: Mapping[str, Value], checked: bool = True) -> Outcome:
    """Everything that happens to *expression*, in the words of the vectors."""
    try:
        compiled = check_expression(expression, env, checked)
    except CompileError as error:
        return {"outcome": "compile_error", "error": str(error)}
    found: Outcome = {}
    if checked:
        found["type"] = type_text(compiled.type)
        found["cost_estimate"] = [compiled.estimate.min, compiled.estimate.max]
    try:
        program = build(compiled)
    except ProgramError as error:
        return found | {"outcome": "program_error", "error": str(error)}
    try:
        value, cost = program.run_exactly(variables)
    except CelError as error:
        cost = getattr(error, "cost", None)
        return found | {"outcome": "eval_error", "error": str(error), "actual_cost": cost}
    return found | {"outcome": "value", "value": to_json(value), "actual_cost": cost}


def compare(found: Outcome, wanted: Outcome) -> list[str]:
    """What differs, field by field, among the fields *wanted* has."""
    wrong = []
    for key, value in wanted.items():
        have = found.get(key)
        fine = same(have, value) if key == "value" else have == value
        if not fine:
            wrong.append(f"{key}: expected {value!r}, found {have!r}")
    return wrong


_OUTCOME_FIELDS = ("outcome", "error", "value", "type", "cost_estimate", "actual_cost")


def kubernetes_case(case: Outcome, document: Outcome) -> list[str]:
    """One expression in the toleration environment."""
    taint = case.get("taint", document.get("taint"))
    found = outcome(case["expr"], toleration_env(), {"taint": taint_value(taint)})
    return compare(found, {k: case[k] for k in _OUTCOME_FIELDS if k in case})


def cost_case(case: Outcome, document: Outcome) -> list[str]:
    """One expression with its costs, in the environment it names."""
    if case["env"] == "toleration":
        env, variables = toleration_env(), {"taint": taint_value(case.get("taint", document.get("taint")))}
    else:
        env, variables = device_env(case["env"]), {"device": device_value(case.get("device"))}
    found = outcome(case["expr"], env, variables)
    wanted: Outcome = {}
    if "estimate" in case:
        wanted["cost_estimate"] = [case["estimate"]["min"], case["estimate"]["max"]]
    if "output_type" in case:
        wanted["type"] = case["output_type"]
    if case.get("actual_cost") is not None:
        wanted["actual_cost"] = case["actual_cost"]
    if "result" in case:
        wanted["value"] = case["result"]
    for key in ("error", "eval_error"):
        if key in case:
            wanted["error"] = case[key]
    wrong = compare(found, wanted)
    if "admitted" in case and "cost_estimate" in found:
        limit = document.get("cost_limit", 1_000_000)
        admitted = found["cost_estimate"][1] <= limit
        if admitted is not case["admitted"]:
            wrong.append(f"admitted: expected {case['admitted']}, found {admitted}")
    return wrong


#: What CEL mode lacks: libraries Kubernetes does not have.
_FOREIGN = frozenset(("ext:math", "ext:encoders"))


def conformance_case(test: Outcome) -> Iterator[tuple[str, list[str]]]:
    """One conformance test: (mode, what is wrong) for each mode it is run in."""
    recorded = test.get("kubernetes") or {"status": "not_run"}
    variables = {name: from_json(value) for name, value in test.get("bindings", {}).items()}
    checked = not test.get("disable_check")
    status = recorded["status"]
    if status != "not_run":
        env = conformance_env(test, kubernetes=True)
        found = outcome(test["expr"], env, variables, checked)
        wanted = {k: recorded[k] for k in ("type", "cost_estimate") if k in recorded}
        if status == "rejected":
            wanted = {"outcome": "compile_error", "error": recorded["error"]}
        elif status == "program_error":
            wanted |= {"outcome": "program_error", "error": recorded["error"]}
        elif not test.get("check_only") or "actual_cost" in recorded:
            wanted |= {k: recorded[k] for k in ("actual_cost", "value") if k in recorded}
            if "eval_error" in recorded:
                wanted |= {"outcome": "eval_error", "error": recorded["eval_error"]}
        wrong = compare(found, wanted)
        if status == "same":
            wrong += satisfies(found, test, checked)
        yield "kubernetes", wrong
    wants_cel_mode = status in ("rejected", "not_run") and not _FOREIGN.intersection(test.get("requires", ()))
    if wants_cel_mode and not _only_in_newer_libraries(test):
        env = conformance_env(test, kubernetes=False)
        if test.get("check_only"):
            try:
                compiled = check_expression(test["expr"], env, checked)
                found = {"type": type_text(compiled.type)}
            except CompileError as error:
                found = {"outcome": "compile_error", "error": str(error)}
        else:
            found = outcome(test["expr"], env, variables, checked)
        yield "cel", satisfies(found, test, checked)


def _only_in_newer_libraries(test: Outcome) -> bool:
    """Tests of string functions in a version Kubernetes does not use (cel.md 16)."""
    return "ext:strings" in test.get("requires", ())


def satisfies(found: Outcome, test: Outcome, checked: bool) -> list[str]:
    """Whether *found* is what the suite expects."""
    expect = test.get("expect", {})
    wrong = []
    if "eval_error" in expect and "error" not in found:
        wrong.append(f"expected an error, found {found.get('value')!r}")
    if "value" in expect and not test.get("check_only"):
        wrong += compare(found, {"value": expect["value"]})
    if "type" in expect and checked:
        want = type_text(parse_type(expect["type"]))
        wrong += compare(found, {"type": want})
    return wrong


# --- files -----------------------------------------------------------------------------------------------


def run_file(path: Path) -> Iterator[tuple[str, list[str]]]:
    """(which vector, what is wrong with it) for every vector in *path*."""
    document = json.loads(path.read_text(encoding="utf-8"))
    if "tests" in document:
        for test in document["tests"]:
            place = (document.get("file", path.stem), test.get("section", ""), test.get("name", ""))
            for mode, wrong in guarded(lambda test=test: list(conformance_case(test))):
                if (mode, *place) not in EXCEPTIONS:
                    yield f"{path.name} {'/'.join(place[1:])} [{mode}] {test['expr']!r}", wrong
        return
    for number, case in enumerate(document.get("cases", ())):
        label = f"{path.name} #{number} {case['expr']!r}"
        judge = cost_case if "env" in case else kubernetes_case
        for _, wrong in guarded(lambda judge=judge, case=case: [("", judge(case, document))]):
            yield label, wrong


def guarded(judge: Any) -> list[tuple[str, list[str]]]:
    """The verdicts, or the exception that prevented them: one bad vector must not hide the rest."""
    try:
        result: list[tuple[str, list[str]]] = judge()
    except Exception as error:
        return [("crash", [f"{type(error).__name__}: {error}"])]
    return result


def vector_files(arguments: list[str]) -> list[Path]:
    """The JSON files named, and those in the folders named."""
    files: list[Path] = []
    for argument in arguments:
        path = Path(argument)
        files += sorted(path.rglob("*.json")) if path.is_dir() else [path]
    return files


def is_cel_vectors(path: Path) -> bool:
    """Whether the file holds vectors of one of the formats (a folder may hold other data)."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    if not isinstance(document, dict):
        return False
    cases = document.get("tests", document.get("cases"))
    return isinstance(cases, list) and all(isinstance(c, dict) and "expr" in c for c in cases)


def main(arguments: list[str]) -> int:
    """Run the vectors named on the command line; the exit code says whether all held."""
    if not arguments:
        print("usage: python -m tests.cel_vectors DIR|FILE...", file=sys.stderr)
        return 2
    passed = failed = 0
    named = {Path(argument) for argument in arguments}
    for path in vector_files(arguments):
        if not is_cel_vectors(path):
            if path in named:
                print(f"{path}: holds no CEL vectors", file=sys.stderr)
                return 2
            continue  # a folder may hold other data
        for label, wrong in run_file(path):
            if wrong:
                failed += 1
                print(f"FAIL {label}")
                for line in wrong:
                    print(f"     {line}")
            else:
                passed += 1
    if not passed and not failed:
        print(f"no CEL vectors in {', '.join(arguments)}", file=sys.stderr)
        return 2
    for key, reason in EXCEPTIONS.items():
        print(f"exception {key}: {reason}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


__all__ = ["EvaluationError", "main", "outcome", "run_file"]

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
