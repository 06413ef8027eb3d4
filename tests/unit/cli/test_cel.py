"""`weir cel`: what is printed and which exit code follows."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from weir.cli.main import run
from weir.exit_codes import USAGE

NODES = """
kind: List
items:
- {kind: Node, metadata: {name: a}, spec: {taints: [{key: gpu, value: a100, effect: NoSchedule}]}}
- {kind: Node, metadata: {name: b}, spec: {taints: [{key: gpu, value: a100, effect: NoSchedule}, {key: x}]}}
- {kind: Node, metadata: {name: c}, spec: {}}
"""
SLICE = """
kind: ResourceSlice
spec:
  driver: gpu.example.com
  pool: {name: p}
  devices:
  - {name: d0, attributes: {model: {string: a100}}, capacity: {memory: {value: 80Gi}}}
  - {name: d1, attributes: {version: {version: abc}}}
"""


def answer(args: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = run(["cel", *args])
    out, err = capsys.readouterr()
    return code, out, err


def test_an_accepted_expression_shows_type_and_cost(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answer(["check", "taint.key.startsWith('env.example.com/')"], capsys)
    assert (code, out) == (0, "type bool, cost 4 of 1,000,000\n")


def test_a_refused_expression_shows_the_caret_and_exits_1(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answer(["check", "taint.keyy == 1"], capsys)
    assert (code, out) == (
        1,
        "refused (invalid): compilation failed: ERROR: <input>:1:6: undefined field 'keyy'\n"
        " | taint.keyy == 1\n | .....^\ndid you mean key?\n",
    )


def test_a_costly_expression_is_refused_but_can_be_tried(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answer(["eval", "semver(taint.value) != semver('6.1.0')", "k=6.2.0:NoSchedule"], capsys)
    assert code == 1 and "too complex" in out and "true" in out


def test_each_taint_gets_a_result_a_cost_and_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    expression = "semver(taint.value).major() >= 6 && taint.key == 'kernel'"
    code, out, _ = answer(
        ["eval", expression, "kernel=6.1.0:NoSchedule", "kernel=5.0.0", "kernel=abc"], capsys
    )
    assert code == 1
    assert [line.split() for line in out.splitlines()[1:]] == [
        ["true", "kernel=6.1.0:NoSchedule", "cost", "8"],
        ["false", "kernel=5.0.0", "cost", "5", "because", "of", "semver(taint.value).major()", ">=", "6"],
        ["error", "kernel=abc", "cost", "8", "No", "Major.Minor.Patch", "elements", "found"],
    ]


def test_true_for_every_taint_exits_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(["eval", "taint.key == 'a'", "a", "a=b:NoExecute"], capsys)[0] == 0


def test_the_taints_of_a_node_dump_are_counted_once_each(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    dump = tmp_path / "nodes.yaml"
    dump.write_text(NODES)
    _, out, _ = answer(["eval", "taint.key == 'gpu'", "-f", str(dump), "-o", "json"], capsys)
    results = json.loads(out)["results"]
    assert [(r["taint"]["key"], r["nodes"], r["result"]) for r in results] == [
        ("gpu", 2, True),
        ("x", 1, False),
    ]


def test_device_selectors_are_tried_on_the_devices_of_slices(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    slices = tmp_path / "slices.yaml"
    slices.write_text(SLICE)
    expression = "device.capacity['gpu.example.com'].memory.compareTo(quantity('40Gi')) >= 0"
    _, out, _ = answer(["eval", "--env", "device", expression, "-f", str(slices), "-o", "json"], capsys)
    assert [(r["device"], r["result"], r["error"]) for r in json.loads(out)["results"]] == [
        ("gpu.example.com/p/d0", True, ""),
        (
            "gpu.example.com/p/d1",
            None,
            "attribute version: parse semantic version: No Major.Minor.Patch elements found",
        ),
    ]


def test_cost_is_shown_part_by_part(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = answer(["cost", "taint.key == 'a' && !taint.value.matches('b')", "-o", "json"], capsys)
    parts = json.loads(out)["parts"]
    assert [(p["text"], p["estimate"]["max"]) for p in parts] == [
        ("taint.key == 'a'", 3),
        ("taint.value.matches('b')", 9),
    ]


def test_json_says_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = answer(["check", "true", "-o", "json"], capsys)
    assert json.loads(out)["schema"] == "weir.cel/v1"


@pytest.mark.parametrize(
    "args", [["eval", "true", "a:Nope"], ["eval", "true", "=b:NoSchedule"], ["eval", "true"]]
)
def test_input_that_cannot_be_read_is_one_line_and_exits_2(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = answer(args, capsys)
    assert code == 2 and err.startswith("weir: ") and err.count("\n") == 1


def test_text_beyond_the_limit_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answer(["check", "true" + " " * 10_240], capsys)
    assert code == 1 and "may not be more than 10240 bytes" in out


def test_functions_lists_signatures_with_costs(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = answer(["functions", "-o", "json"], capsys)
    rows = {row["overload"]: row for row in json.loads(out)["functions"]}
    row = rows["starts_with_string"]
    assert (row["signature"], row["cost"]) == ("string.startsWith(string) → bool", "0.1·len(argument)")


@pytest.mark.parametrize("words", ["check -", "cost -", "eval - a=b:NoSchedule"])
def test_empty_standard_input_is_no_expression(words, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO(" \n"))
    code, out, err = answer(words.split(), capsys)
    assert (code, out, len(err.splitlines())) == (
        USAGE,
        "",
        1,
    ) and "nothing was read: the input is empty" in err
