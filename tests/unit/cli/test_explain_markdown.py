"""An answer for a pull request: headings, tables and a diff, and nothing of the cluster's becomes markup."""

from __future__ import annotations

import json
from typing import Any

import pytest

from weir.cli._explain_markdown import block, plain
from weir.cli.main import run

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: c, image: i}]
  tolerations:
  - {key: sla, operator: Gt, value: "950", effect: NoSchedule}
"""


def node(name: str, sla: str) -> dict[str, Any]:
    taints = [{"key": "sla", "value": sla, "effect": "NoSchedule"}]
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"taints": taints}}


@pytest.fixture
def told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pod.yaml").write_text(POD)

    def tell(*nodes: dict[str, Any], more: tuple[str, ...] = ()) -> list[str]:
        (tmp_path / "nodes.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))
        run(["explain", "-f", "pod.yaml", "--cluster", "nodes.json", "-o", "markdown", *more])
        return capsys.readouterr().out.splitlines()

    return tell


def test_a_refusal_has_its_reasons_as_tables_and_its_change_as_a_diff(told):
    lines = told(node("a", "700"), node("b", "800"))
    assert lines[0] == "### ❌ Pod default/web fits on none of 2 nodes"
    assert "| nodes | why |" in lines
    assert "| ×2 | b, a | ✗ sla 700–800, needs \\> 950: refused |" in lines
    start = lines.index("```diff")
    change = lines[start + 1 : lines.index("```", start)]
    assert [line for line in change if line.startswith(("-  ", "+  "))] == [
        '+  - {key: sla, operator: Equal, value: "800", effect: NoSchedule}'
    ]
    assert any(line.startswith("> The scheduler would say: 0/2 nodes are available") for line in lines)


def test_a_pod_that_fits_has_no_change(told):
    lines = told(node("a", "990"))
    assert lines[0].startswith("### ✅ Pod default/web fits on") and "```diff" not in lines


def test_the_patch_is_a_block_too(told):
    lines = told(node("a", "700"), more=("--patch",))
    assert "```yaml" in lines and "```diff" not in lines


def test_names_and_messages_are_no_markup():
    assert plain("a|b `c` <img src=x>\nd") == r"a\|b \`c\` \<img src=x\> d"
    assert next(block("diff", ["+ ```", "+ x"])) == "````diff"
