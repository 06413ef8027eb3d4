"""Rows that differ in one number are one row with its range; diffs show no secrets."""

from __future__ import annotations

import json
from typing import Any

from weir.explain.diff import diff, masked
from weir.explain.pod import explain
from weir.explain.ranges import merged, range_sentence
from weir.gates import ALL_FEATURES
from weir.world import World


def node(name: str, sla: str, **more: Any) -> dict[str, Any]:
    taints = [{"key": "sla", "value": sla, "effect": "NoSchedule"}]
    return {"kind": "Node", "metadata": {"name": name}, "spec": {"taints": taints, **more}}


def rows(*nodes: dict[str, Any]) -> list[tuple[int, str]]:
    above = [{"key": "sla", "operator": "Gt", "value": "950", "effect": "NoSchedule"}]
    answer = explain({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"tolerations": above}},
                     World.of(nodes), ALL_FEATURES)  # fmt: skip
    return [(len(group.nodes), range_sentence(group)) for group in merged(answer.groups)]


def test_many_values_of_one_taint_are_one_row():
    found = rows(*(node(f"n{value}", str(value)) for value in range(700, 951)))
    assert found == [(251, "sla 700–950, needs > 950: refused")]


def test_a_value_that_is_no_number_and_a_node_with_more_reasons_stay_apart():
    found = rows(node("a", "700"), node("b", "high"), node("c", "800", unschedulable=True))
    assert len(found) == 3


def test_a_diff_shows_what_changes_and_no_secret():
    before = {"env": [{"name": "PASSWORD", "value": "s3cret"}], "cpu": "1"}
    lines = list(diff(before, {**before, "cpu": "2"}, "pod.yaml", lambda value: json.dumps(value, indent=1)))
    assert [line for line in lines if line[0] in "+-"][2:] == ['- "cpu": "1"', '+ "cpu": "2"']
    assert "s3cret" not in "\n".join(lines)


def test_nothing_else_is_masked():
    tolerations = {"tolerations": [{"key": "sla", "value": "950"}]}
    assert masked(tolerations) == tolerations
