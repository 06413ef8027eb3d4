"""`weir what-if` on a dump: words, exit codes, and mistakes told in one line."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema_rs
import pytest
import yaml

from tests.unit.explain.test_whatif import node, pod
from weir.cli.main import FINDINGS, FINE, USAGE, run


@pytest.fixture
def dump(tmp_path):
    file = tmp_path / "dump.yaml"
    nodes = [node("spot-1"), node("spot-2"), node("steady")]
    nodes[0]["metadata"]["labels"] = nodes[1]["metadata"]["labels"] = {"pool": "spot"}
    file.write_text(yaml.safe_dump({"kind": "List", "items": [*nodes, pod("web", "spot-1")]}))
    return str(file)


def test_everybody_finds_a_place(dump, capsys):
    code = run(["what-if", "taint", "nodes", "spot-1", "sla=800:NoExecute", "-c", dump])
    out = capsys.readouterr().out
    assert (code, "1 pod leaves, none of them with nowhere to go" in out) == (FINE, True)


def test_somebody_finds_no_place(dump, capsys):
    code = run(["what-if", "taint", "--all-nodes", "sla=800:NoExecute", "-c", dump, "-o", "json"])
    answer = json.loads(capsys.readouterr().out)
    assert (code, answer["schema"], answer["leaving"][0]["goesTo"]) == (FINDINGS, "weir.what-if/v1", "")


def test_nodes_are_chosen_by_label(dump, capsys):
    run(["what-if", "taint", "-l", "pool=spot", "sla=800:NoExecute", "-c", dump, "-o", "json"])
    assert json.loads(capsys.readouterr().out)["changed"] == ["node/spot-1", "node/spot-2"]


def test_a_manifest_is_laid_over_what_is_there(dump, tmp_path, capsys):
    file = tmp_path / "node.yaml"
    file.write_text(
        "{apiVersion: v1, kind: Node, metadata: {name: steady}, spec: {taints: [{key: k, effect: NoSchedule}]}}"
    )
    run(["what-if", "apply", "-f", str(file), "-c", dump])
    assert "If node/steady changes so:" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words, said",
    [
        (["spot-1"], "which taint?"),
        (["sla=1:NoExecute"], "name nodes, or give --selector"),
        (["spot-1", "sla=1:Never"], "is no taint"),
        (["spot-9", "sla=1:NoExecute"], "no node spot-9 in the cluster"),
        (["spot-1", "sla-"], "node spot-1 has no taint sla"),
        (["-l", "pool=none", "sla=1:NoExecute"], "no node has the labels pool=none"),
        (["spot-1", "-bad=1:NoExecute"], "No such option"),
        (["spot-1", "a b=1:NoExecute"], "taints[0].key: Invalid value"),
    ],
)
def test_mistakes_are_one_line(dump, capsys, words, said):
    assert run(["what-if", "taint", *words, "-c", dump]) == USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_new_workloads_are_explains_question(dump, tmp_path, capsys):
    file = tmp_path / "d.yaml"
    file.write_text("{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}}")
    assert run(["what-if", "apply", "-f", str(file), "-c", dump]) == USAGE
    assert "weir explain -f" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--all-nodes", "sla=8:NoExecute"], ["spot-1", "sla=8:NoSchedule"]])
def test_every_answer_fits_the_published_schema(dump, capsys, words):
    run(["what-if", "taint", *words, "-c", dump, "-o", "json"])
    schema = json.loads(
        (Path(__file__).parents[3] / "docs" / "reference" / "what-if.schema.json").read_text()
    )
    answer = json.loads(capsys.readouterr().out)
    assert list(jsonschema_rs.validator_for(schema).iter_errors(answer)) == []
