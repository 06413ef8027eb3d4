"""Questions about a cluster that weir's operator extends are about what people wrote, and say so."""

from __future__ import annotations

import io
import json

import pytest

from weir.cli.main import run
from weir.exit_codes import CANNOT_SAY, FINDINGS, USAGE
from weir.lowering import webhooks
from weir.lowering.admission import Cluster, answer
from weir.lowering.triples import Triple

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "containers": [{"name": "c", "image": "i"}],
        "tolerations": [{"key": "sla", "operator": "Gt", "value": "900", "effect": "NoExecute"}],
    },
}


def node(name, value):
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"lowered.weir.dev/a-1f": "true"}},
        "spec": {"taints": [{"key": "sla", "value": value, "effect": "NoExecute"}]},
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def lowered(document, path=webhooks.POD_PATH):
    given = answer(
        path,
        {"object": document, "kind": {"kind": document["kind"]}},
        Cluster([Triple("sla", "950", "NoExecute")]),
    )
    assert given.allowed
    return given.document


@pytest.fixture
def dump(tmp_path):
    def write(*documents):
        place = tmp_path / "dump.json"
        place.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(documents)}))
        return str(place)

    return write


def test_explain_shows_the_original_and_says_through_whom_it_holds(dump, capsys):
    stored = lowered(POD)
    stored["spec"].pop("schedulingGates")
    assert run(["explain", "web", "--cluster", dump(stored, node("low", "800"), node("high", "1000"))]) == 0
    said = capsys.readouterr().out
    assert "fits on 1 of 2 nodes" in said, (
        "1000 has no entry yet: the operator writes it before a node gets it"
    )
    assert "needs > 900" in said and "Tolerated through weir's operator: sla > 900" in said
    assert "lowered.weir.dev" not in said


def test_explain_says_to_programs_what_holds_through_the_operator(dump, capsys):
    stored = lowered(POD)
    stored["spec"].pop("schedulingGates")
    words = ["explain", "web", "-o", "json", "--cluster"]
    run([*words, dump(stored, node("high", "1000"))])
    (pod,) = json.loads(capsys.readouterr().out)["pods"]
    assert pod["throughOperator"] == POD["spec"]["tolerations"]
    plain = node("high", "1000")
    plain["metadata"].pop("labels")
    run([*words, dump(POD, plain)])
    (pod,) = json.loads(capsys.readouterr().out)["pods"]
    assert "throughOperator" not in pod, "nothing was lowered in this cluster"


def test_a_pod_that_the_operator_still_holds_is_said_to_be_held(dump, capsys):
    assert run(["explain", "web", "--cluster", dump(lowered(POD), node("high", "950"))]) == 1
    assert "lowered.weir.dev/pending" in capsys.readouterr().out


def test_what_if_lives_on_with_the_original(dump, capsys):
    stored = lowered(POD)
    stored["spec"] |= {"nodeName": "high", "schedulingGates": []}
    stored["status"] = {"phase": "Running"}
    words = ["what-if", "taint", "high", "sla=2000:NoExecute", "--cluster"]
    assert run([*words, dump(stored, node("high", "950"), node("low", "800"))]) in (0, 1)
    said = capsys.readouterr().out
    assert "No pod is evicted; 1 pod on the changed nodes stays." in said, said


def test_in_a_cluster_without_the_operator_nothing_is_said_of_it(dump, tmp_path, capsys):
    plain = node("high", "950")
    del plain["metadata"]["labels"]
    manifest = tmp_path / "pod.json"
    manifest.write_text(json.dumps(POD))
    assert run(["explain", "-f", str(manifest), "--cluster", dump(plain)]) == 0
    assert "operator" not in capsys.readouterr().out.replace("operators", "")


@pytest.mark.parametrize(
    "words",
    [
        "explain -f - --cluster nodes.json",
        "explain -f pod.json --cluster -",
        "advise -f - --cluster nodes.json",
        "advise --all --cluster -",
        "skew -f -",
        "what-if apply -f - --cluster nodes.json",
        "what-if drain n --cluster -",
        "cel eval true -f -",
        "lint pod.json --cluster -",
    ],
)
def test_empty_standard_input_is_unreadable(words, tmp_path, monkeypatch, capsys):
    """The command before it in the pipe failed: no answer is made of nothing."""
    (tmp_path / "pod.json").write_text(json.dumps(POD))
    (tmp_path / "nodes.json").write_text(json.dumps(node("n", "950")))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\n")))
    assert run(words.split()) == USAGE
    assert capsys.readouterr().err == "weir: <stdin>:1:1: nothing was read: the input is empty\n"


@pytest.mark.parametrize(
    "words",
    [
        "explain -f none.yaml --cluster nodes.json",
        "explain -f pod.json --cluster none.yaml",
        "explain -f pod.json --cluster nodes.json --cluster none.yaml",
        "advise -f none.yaml --cluster nodes.json",
        "advise --all --cluster none.yaml",
        "skew -f none.yaml",
        "what-if apply -f none.yaml --cluster nodes.json",
        "what-if drain n --cluster none.yaml",
        "what-if verify none.yaml --cluster nodes.json",
        "device list --cluster none.yaml",
        "cel eval true -f none.yaml",
        "lint pod.json --cluster none.yaml",
        "plan taint a=b:NoExecute n --cluster none.yaml",
        "ui --cluster none.yaml",
    ],
)
def test_an_empty_file_is_unreadable(words, tmp_path, monkeypatch, capsys):
    """The command that should have written it failed: `helm template > none.yaml`."""
    (tmp_path / "none.yaml").write_text("\n")
    (tmp_path / "pod.json").write_text(json.dumps(POD))
    (tmp_path / "nodes.json").write_text(json.dumps(node("n", "950")))
    monkeypatch.chdir(tmp_path)
    assert run(words.split()) == USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("weir: none.yaml:1:1: nothing was read: the file is empty")


def test_lint_finds_an_empty_file_that_is_named_and_none_in_a_folder(tmp_path, monkeypatch, capsys):
    (tmp_path / "none.yaml").write_text("")
    (tmp_path / "pod.json").write_text(json.dumps({**POD, "apiVersion": "v1", "kind": "Pod"}))
    monkeypatch.chdir(tmp_path)
    assert run(["lint", "none.yaml"]) == FINDINGS
    assert "none.yaml:1:1: error W000: nothing was read: the file is empty" in capsys.readouterr().out
    assert run(["lint", "."]) == 0


WRONG_VERSIONS = {
    "Node": ("v2", "v1beta1", "core/v1", "apps/v1"),
    "Pod": ("v2", "apps/v1"),
    "Deployment": ("v1", "apps/v2"),
    "CronJob": ("batch/v2", "apps/v1"),
}


@pytest.mark.parametrize("form", ["yaml", "json", "list", "typed"])
@pytest.mark.parametrize(
    "words", ["explain -f pod.json", "what-if cordon n", "advise -f pod.json", "lint pod.json", "ui"]
)
def test_a_cluster_with_an_api_version_that_there_is_not_is_refused(
    words, form, tmp_path, monkeypatch, capsys
):
    (tmp_path / "pod.json").write_text(json.dumps(POD))
    monkeypatch.chdir(tmp_path)
    for kind, versions in WRONG_VERSIONS.items():
        for version in versions:
            wrong = {"apiVersion": version, "kind": kind, "metadata": {"name": "n"}}
            found = {
                "yaml": wrong,
                "json": wrong,
                "list": {"kind": "List", "apiVersion": "v1", "items": [node("m", "1"), wrong]},
                "typed": {"kind": f"{kind}List", "apiVersion": "v1", "items": [wrong]},
            }[form]
            text = json.dumps(found, indent=4 if form == "list" else None)
            (tmp_path / "all").write_text(f"# a comment\n{text}" if form == "yaml" else text)
            assert run([*words.split(), "--cluster", "all"]) == CANNOT_SAY
            said = capsys.readouterr().err
            assert f'{kind}: apiVersion: Invalid value: "{version}"' in said and "did you mean" in said, said


def test_objects_of_other_kinds_may_be_of_any_version(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    others = [("policy/v1beta1", "PodDisruptionBudget"), ("autoscaling/v2beta2", "HorizontalPodAutoscaler")]
    others += [("acme.io/v2", "Node"), ("extensions/v1beta1", "Ingress")]
    items = [{"apiVersion": version, "kind": kind, "metadata": {"name": "x"}} for version, kind in others]
    whole = {"kind": "List", "apiVersion": "v1", "items": [node("n", "950"), *items]}
    (tmp_path / "all.json").write_text(json.dumps(whole))
    (tmp_path / "pod.json").write_text(json.dumps(POD))
    assert run(["explain", "-f", "pod.json", "--cluster", "all.json"]) in (0, FINDINGS)


def test_nothing_is_not_applied(tmp_path, monkeypatch, capsys):
    (tmp_path / "none.yaml").write_text("# later\n")
    (tmp_path / "nodes.json").write_text(json.dumps(node("n", "950")))
    monkeypatch.chdir(tmp_path)
    assert run(["what-if", "apply", "-f", "none.yaml", "--cluster", "nodes.json"]) == USAGE
    assert "no objects to apply in none.yaml" in capsys.readouterr().err


@pytest.mark.parametrize(("version", "hint"), [("v2", "did you mean v1?"), ("apps/v1", "did you mean v1?")])
def test_skew_refuses_an_api_version_without_the_kind(version, hint, tmp_path, capsys):
    (tmp_path / "pod.json").write_text(json.dumps({**POD, "apiVersion": version}))
    assert run(["skew", "-f", str(tmp_path / "pod.json")]) == USAGE
    assert hint in capsys.readouterr().err
