"""`weir advise` from files: what it says, its exit codes, and what it does with input it cannot use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.unit.advise.clusters import entry, node, workload
from weir.cli.main import run
from weir.exit_codes import CANNOT_SAY, FINDINGS, FINE, USAGE

RATED = [node("n1", "a", sla="951"), node("n2", "b", sla="951"), node("n3", "b", sla="940")]
WEB = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      tolerations:
      - key: sla  # how good the spot node is
        operator: Gt
        value: "950"
      containers: [{name: c, image: web}]
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "web.yaml").write_text(WEB)
    (tmp_path / "nodes.yaml").write_text(yaml.safe_dump_all(RATED))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_change_is_a_diff_of_the_users_own_file(here, capsys):
    assert run(["advise", "-f", "web.yaml", "--cluster", "nodes.yaml"]) == FINDINGS
    said = capsys.readouterr().out
    assert said.startswith("Deployment shop/web: one value away from nowhere, all its 2 nodes have sla=951\n")
    assert '    -        value: "950"\n    +        value: "939"\n' in said
    assert "       - key: sla  # how good the spot node is\n" in said
    assert (
        "--- web.yaml" in said
        and "Taints that nobody tolerates:\n  sla=940:NoSchedule: 1 node (n3)\n" in said
    )


def test_a_workload_with_all_it_wants_is_fine(here, capsys):
    (here / "web.yaml").write_text(WEB.replace("950", "900"))
    assert run(["advise", "-f", "web.yaml", "--cluster", "nodes.yaml"]) == FINE
    assert run(["advise", "-f", "web.yaml", "--cluster", "nodes.yaml", "--keep", "4"]) == FINDINGS
    assert "no value gives it 4 nodes" in capsys.readouterr().out


def test_all_workloads_of_the_cluster_fragile_ones_first(here, capsys):
    owned = {"kind": "ReplicaSet", "metadata": {"name": "web-1", "ownerReferences": [{"controller": True}]}}
    workloads = [
        workload(entry("sla", "Exists"), name="calm"),
        workload(entry("sla", "Gt", "950"), name="edgy"),
        workload(name="stuck"),
        {**workload(name="x"), **owned},
    ]
    (here / "nodes.yaml").write_text(yaml.safe_dump_all([*RATED, *workloads]))
    assert run(["advise", "--all", "--cluster", "nodes.yaml", "-o", "json"]) == FINDINGS
    found = json.loads(capsys.readouterr().out)
    assert [(each["name"], each["fragile"]) for each in found["workloads"]] == [
        ("stuck", False), ("edgy", True), ("calm", False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "words, said",
    [
        ([], "say which workloads: -f FILE, or --all"),
        (["-f", "web.yaml", "--all"], "say which workloads: -f FILE, or --all"),
        (["-f", "nodes.yaml"], "no pod or workload in nodes.yaml"),
        (["-f", "-", "--cluster", "-"], "stdin (-) can be read only once"),
        (["-f", "web.yaml", "--keep", "0"], "0 is not in the range x>=1"),
        (["-f", "bad.yaml"], "spec.template.spec.tolerations"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line(here, capsys, words, said):
    (here / "bad.yaml").write_text(WEB.replace('"950"', "950"))
    more = [] if "--cluster" in words else ["--cluster", "nodes.yaml"]
    assert run(["advise", *words, *more]) == USAGE
    errors = capsys.readouterr().err.strip()
    assert said in errors and len(errors.splitlines()) == 1


def test_a_dump_that_lacks_what_a_pod_needs_cannot_say(here, capsys):
    claims = WEB.replace(
        "      containers", "      resourceClaims: [{name: gpu, resourceClaimName: gpu}]\n      containers"
    )
    (here / "web.yaml").write_text(claims)
    assert run(["advise", "-f", "web.yaml", "--cluster", "nodes.yaml"]) == CANNOT_SAY
    assert "cannot advise: " in capsys.readouterr().err


def test_a_gate_that_is_off_is_said(here, capsys):
    off = ["--feature-gates", "TaintTolerationComparisonOperators=false"]
    assert run(["advise", "-f", "web.yaml", "--cluster", "nodes.yaml", *off]) == FINDINGS
    assert "refused by the API server" in capsys.readouterr().out


def test_nodes_that_do_not_say_what_they_have_make_it_uncertain(here, capsys):
    (here / "bare.yaml").write_text("{apiVersion: v1, kind: Node, metadata: {name: bare}}")
    pod = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i, resources: %s}]}}"
    for resources, code, doubt in (("{requests: {cpu: 1}}", CANNOT_SAY, True), ("{}", FINE, False)):
        (here / "pod.yaml").write_text(pod % resources)
        assert run(["advise", "-f", "pod.yaml", "--cluster", "bare.yaml"]) == code
        message = capsys.readouterr().err
        assert ("Not certain: it is not known how much room 1 node has" in message) is doubt, message
