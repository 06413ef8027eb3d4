"""`weir what-if` on a dump: words, exit codes, and mistakes told in one line."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema_rs
import pytest
import yaml

from tests.unit.whatif.test_run import node, pod
from weir.cli.main import run
from weir.exit_codes import CANNOT_SAY, FINDINGS, FINE, USAGE


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
    assert (code, "1 pod is evicted and rescheduled; 0 pods" in out) == (FINE, True)


@pytest.mark.parametrize(
    "words",
    [
        ["taint", "nodes", "spot-1", "sla=800:NoExecute", "--overwrite"],
        ["label", "nodes", "spot-1", "pool=steady", "--overwrite"],
        ["drain", "spot-1", "--ignore-daemonsets", "--delete-emptydir-data"],
    ],
)
def test_options_of_kubectls_command_are_taken_and_change_nothing(dump, capsys, words):
    def answer(words):
        code = run(["what-if", *words, "-c", dump, "-o", "json"])
        return code, json.loads(capsys.readouterr().out)["leaving"]

    assert answer(words) == answer([word for word in words if not word.startswith("--")])


def test_somebody_finds_no_place(dump, capsys):
    code = run(["what-if", "taint", "--all-nodes", "sla=800:NoExecute", "-c", dump, "-o", "json"])
    answer = json.loads(capsys.readouterr().out)
    assert (code, answer["schema"], answer["leaving"][0]["goesTo"]) == (FINDINGS, "weir.what-if/v2", "")


def test_pods_of_one_owner_are_one_row_unless_all_are_asked_for(tmp_path, capsys):
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    pods = [pod(f"web-{number}", "spot") for number in range(3)]
    for each in pods:
        each["metadata"] |= {"ownerReferences": [owner], "labels": {"a": "b"}}
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "default", "uid": "u"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": pods[0]["spec"]["containers"]},
            },
        },
    }
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"kind": "List", "items": [node("spot"), node("steady"), replica_set, *pods]}))
    asked = ["what-if", "taint", "spot", "sla=800:NoExecute", "-c", str(file)]
    run(asked)
    grouped = capsys.readouterr().out
    assert "web-0" not in grouped and grouped.count("replicaset default/web") == 1
    run([*asked, "--all"])
    assert "web-0" in capsys.readouterr().out


def test_nodes_are_chosen_by_label(dump, capsys):
    run(["what-if", "taint", "-l", "pool=spot", "sla=800:NoExecute", "-c", dump, "-o", "json"])
    assert json.loads(capsys.readouterr().out)["changed"] == ["node/spot-1", "node/spot-2"]


def test_a_manifest_is_laid_over_what_is_there(dump, tmp_path, capsys):
    file = tmp_path / "node.yaml"
    file.write_text(
        "{apiVersion: v1, kind: Node, metadata: {name: steady}, spec: {taints: [{key: k, effect: NoSchedule}]}}"
    )
    run(["what-if", "apply", "-f", str(file), "-c", dump])
    assert "If you apply node/steady:" in capsys.readouterr().out


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
        (["spot-1", "bad=1:NoExecute", "-f", "x"], "A cluster's objects are given with --cluster FILE. (see"),
        (["spot-1", "a b=1:NoExecute"], "taints[0].key: Invalid value"),
    ],
)
def test_mistakes_are_one_line(dump, capsys, words, said):
    assert run(["what-if", "taint", *words, "-c", dump]) == USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_a_new_workload_is_placed_too(dump, tmp_path, capsys):
    file = tmp_path / "d.yaml"
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 4, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    file.write_text(
        json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec})
    )
    code = run(["what-if", "apply", "-f", str(file), "-c", dump, "-o", "json"])
    (workload,) = json.loads(capsys.readouterr().out)["workloads"]
    assert (code, workload["after"], workload["waiting"]) == (FINDINGS, 3, 1)


def test_what_the_server_would_refuse_is_one_line(dump, tmp_path, capsys):
    file = tmp_path / "d.yaml"
    file.write_text("{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}}")
    assert run(["what-if", "apply", "-f", str(file), "-c", dump]) == USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert "the server would refuse it" in line


@pytest.mark.parametrize("columns", ["60", "80", "200"])
def test_tables_fit_the_terminal_and_break_between_words(dump, capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    run(
        [
            "what-if",
            "taint",
            "--all-nodes",
            "example.com/maintenance-window=tonight:NoExecute",
            "-c",
            dump,
            "--all",
        ]
    )
    lines = capsys.readouterr().out.splitlines()
    words = {word for line in lines for word in line.split()}
    assert (
        max(map(len, lines)) <= int(columns),
        "example.com/maintenance-window=tonight:NoExecute" in words,
    ) == (
        True,
        True,
    )


def test_changes_come_from_a_file_one_on_each_line(dump, tmp_path, capsys):
    file = tmp_path / "changes"
    file.write_text(
        "# an evening's work\ncordon spot-2 steady\nwait 30s\nweir what-if taint spot-1 hot:NoExecute\n"
    )
    code = run(["what-if", "changes", str(file), "-c", dump, "-o", "json"])
    answer = json.loads(capsys.readouterr().out)
    assert (code, answer["changes"], answer["leaving"][0]["afterSeconds"]) == (
        FINDINGS,
        ["cordon spot-2 steady", "wait 30s", "taint spot-1 hot:NoExecute"],
        30.0,
    )


@pytest.mark.parametrize(
    "line, said",
    [
        ("frobnicate x", "'frobnicate' is no change: there are taint, "),
        ("taint spot-1", "which taint?"),
        ("cordon 'spot-1", "No closing quotation"),
        ("", "nothing was read: the file is empty"),
        ("# later", "no change in this file"),
    ],
)
def test_a_bad_line_is_named_by_its_place(dump, tmp_path, capsys, line, said):
    file = tmp_path / "changes"
    file.write_text(line)
    assert run(["what-if", "changes", str(file), "-c", dump]) == USAGE
    (told,) = capsys.readouterr().err.splitlines()
    assert (said in told, "changes" in told) == (True, True)


def test_a_plan_is_held_against_what_happened(dump, tmp_path, capsys):
    run(["what-if", "taint", "spot-1", "sla=800:NoExecute", "-c", dump, "-o", "plan"])
    plan = tmp_path / "plan.yaml"
    plan.write_text(capsys.readouterr().out)
    (wave,) = yaml.safe_load(plan.read_text())["waves"]
    assert (wave["changes"], wave["undo"]) == (
        ["taint spot-1 sla=800:NoExecute"],
        ["untaint spot-1 sla:NoExecute"],
    )
    goes_to = wave["evictions"][0]["goesTo"]
    before = run(["what-if", "verify", str(plan), "-c", dump])
    said = capsys.readouterr().out
    later = tmp_path / "later.yaml"
    nodes = [node("spot-1", "sla=800:NoExecute"), node("spot-2"), node("steady")]
    later.write_text(yaml.safe_dump({"kind": "List", "items": [*nodes, pod("web-x", goes_to)]}))
    after = run(["what-if", "verify", str(plan), "-c", str(later)])
    assert (before, "pod default/web: foreseen: gone; found: still there" in said, after) == (
        FINDINGS,
        True,
        FINE,
    )


def test_what_is_no_plan_is_one_line(dump, capsys):
    assert run(["what-if", "verify", dump, "-c", dump]) == USAGE
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("words", [["--all-nodes", "sla=8:NoExecute"], ["spot-1", "sla=8:NoSchedule"]])
def test_every_answer_fits_the_published_schema(dump, capsys, words):
    run(["what-if", "taint", *words, "-c", dump, "-o", "json"])
    schema = json.loads(
        (Path(__file__).parents[3] / "docs" / "reference" / "what-if.schema.json").read_text()
    )
    answer = json.loads(capsys.readouterr().out)
    assert list(jsonschema_rs.validator_for(schema).iter_errors(answer)) == []


def test_a_cluster_that_says_otherwise_is_quoted_first(tmp_path, capsys):
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    documents = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"},
         "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "9"}}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop"},
         "spec": {"containers": [{"name": "c", "image": "i"}]},
         "status": {"phase": "Pending", "conditions": [condition]}},
    ]  # fmt: skip
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": documents}))
    run(["what-if", "cordon", "a", "--cluster", str(file)])
    says = "The cluster says otherwise: condition PodScheduled (Unschedulable): 0/1 nodes. Likely: "
    begins = f"The copy places 1 pending pod before any change: shop/p (on a). {says}"
    assert " ".join(capsys.readouterr().out.split()).startswith(begins)
    run(["what-if", "cordon", "a", "--cluster", str(file), "-o", "json"])
    ((found),) = json.loads(capsys.readouterr().out)["differs"]
    assert (found["pod"], found["node"], found["why"].startswith(says)) == ("shop/p", "a", True)


def many_workloads(tmp_path: Path, number: int) -> str:
    """A dump with *number* workloads of one pod on one node; those with an odd number may stay a while."""
    items: list[dict] = [node("full", cpu="400"), node("free", cpu="400")]
    for each in items:
        each["status"]["allocatable"]["pods"] = "400"
    for which in range(number):
        patient = (
            [{"key": "hot", "operator": "Exists", "tolerationSeconds": 100 - which}] if which % 2 else []
        )
        one = pod(f"w{which}-0", "full", tolerations=patient)
        one["metadata"]["ownerReferences"][0]["name"] = f"w{which}"
        items.append(one)
    file = tmp_path / "many.json"
    file.write_text(json.dumps({"kind": "List", "items": items}))
    return str(file)


def test_rows_come_in_the_order_of_time_and_what_is_folded_is_counted(tmp_path, capsys):
    asked = ["what-if", "taint", "full", "hot:NoExecute", "-c", many_workloads(tmp_path, 31)]
    run(asked)
    out = capsys.readouterr().out
    rows = [line for line in out.splitlines() if " replicaset default/w" in line]
    moments = [
        0 if line.split()[0] == "at" else 60 * ("min" in line[:14]) + int(line.split("min")[-1].split()[0])
        for line in rows
    ]
    assert moments == sorted(moments)
    assert (len(rows), "31 pods are evicted" in out) == (20, True)
    assert "… and 11 more workloads with 11 pods: --all shows them" in out
    run([*asked, "--all"])
    shown = capsys.readouterr().out.partition("  POD  ")[0]
    assert {f"default/w{which}" for which in range(31)} <= set(shown.split())


def test_what_has_nowhere_to_go_is_never_folded_below_what_has(tmp_path, capsys):
    file = Path(many_workloads(tmp_path, 30))
    dump = json.loads(file.read_text())
    dump["items"].append(
        pod(
            "alone",
            "full",
            owner="",
            tolerations=[{"key": "hot", "operator": "Exists", "tolerationSeconds": 200}],
        )
    )
    file.write_text(json.dumps(dump))
    code = run(["what-if", "taint", "full", "hot:NoExecute", "-c", str(file)])
    out = capsys.readouterr().out
    assert (code, "pod default/alone" in out) == (FINDINGS, True)


GATE = "TaintTolerationComparisonOperators"


@pytest.fixture
def waiting(tmp_path):
    """A dump whose pod `waits` needs the gate of numeric comparisons, as does `runs`, which has its node."""
    tolerations = [{"key": "sla", "operator": "Gt", "value": "900"}]
    pods = [pod("waits", tolerations=tolerations), pod("runs", "a", owner="", tolerations=tolerations)]
    file = tmp_path / "waiting.json"
    file.write_text(json.dumps({"kind": "List", "items": [node("a", "sla=950:NoSchedule"), *pods]}))
    return str(file)


def test_gates_say_who_is_helped(waiting, capsys, monkeypatch):
    asked = ["what-if", "gates", f"{GATE}=true", "--feature-gates", f"{GATE}=false", "-c", waiting]
    monkeypatch.setenv("COLUMNS", "200")
    assert run(asked) == FINE  # all find a place: in which order to restart is no finding
    out = capsys.readouterr().out
    assert out.startswith(f"If you change gates {GATE}=true:") and "order: kubelets" in out
    assert "1 pending pod is scheduled" in out
    assert "Nothing would change" not in out
    (row,) = [line for line in out.splitlines() if "replicaset default/web" in line]
    assert row.split()[2] == "1" and "untolerated taint {sla: 950}" in row and row.endswith("→ a")
    assert "Run on a copy of the whole control plane" in out
    run([*asked, "-o", "json"])
    answer = json.loads(capsys.readouterr().out)
    assert answer["helped"] == [
        {
            "pod": "default/waits",
            "node": "a",
            "workload": "default/ReplicaSet/web",
            "waitedFor": answer["helped"][0]["waitedFor"],
        }
    ]
    assert "untolerated taint" in answer["helped"][0]["waitedFor"]
    assert (answer["changed"], answer["numbers"]["helped"]) == ([f"gate/{GATE}"], 1)


def test_gates_say_who_could_not_come_back(waiting, capsys):
    run(["what-if", "gates", f"{GATE}=false", "-c", waiting])
    out = capsys.readouterr().out
    assert "2 pods stay, but would not be scheduled there again:" in out
    assert "pod default/runs" in out and "nothing tolerates sla=950:NoSchedule" in out
    run(["what-if", "gates", f"{GATE}=true", "-c", waiting])
    assert capsys.readouterr().out.startswith("Nothing would change")


def test_a_gate_that_templates_need_is_a_finding(tmp_path, capsys):
    spec = pod("p", tolerations=[{"key": "sla", "operator": "Gt", "value": "900"}])["spec"]
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {k: spec[k] for k in ("tolerations", "containers")},
    }
    web = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }
    file = tmp_path / "held.json"
    file.write_text(json.dumps({"kind": "List", "items": [node("a"), web]}))
    assert run(["what-if", "gates", f"{GATE}=false", "-c", str(file)]) == FINDINGS
    assert "deployment/default/web: would be refused" in capsys.readouterr().out


@pytest.mark.parametrize("measured, code", [(True, FINE), (False, CANNOT_SAY)])
def test_a_place_on_a_node_that_does_not_say_what_it_has_is_not_certain(tmp_path, capsys, measured, code):
    nodes = [node("a"), node("b")]
    if not measured:
        del nodes[1]["status"]["allocatable"]
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"kind": "List", "items": [*nodes, pod("web", "a")]}))
    asked = ["what-if", "taint", "a", "hot:NoExecute", "-c", str(file)]
    assert run(asked) == code
    assert ("Not certain: it is not known how much room 1 node" in capsys.readouterr().out) is not measured
    assert run([*asked, "-o", "json"]) == code
    assert ("uncertain" in json.loads(capsys.readouterr().out)) is not measured


@pytest.mark.parametrize("suffix", ["json", "yaml"])
@pytest.mark.parametrize(
    "words, said",
    [
        (["what-if", "cordon", "a"], "cannot say what would change"),
        (
            ["explain", "-f", "PODS"],
            "cannot say where Pod default/p, Pod default/q, Pod default/r and 2 more fit",
        ),
        (["advise", "--all"], "cannot advise"),
    ],
)
def test_pods_without_nodes_are_a_dump_that_lacks_them(tmp_path, capsys, suffix, words, said):
    file = tmp_path / f"pods.{suffix}"
    items = [pod(name, "a", owner="") for name in "pqrst"]
    file.write_text((json.dumps if suffix == "json" else yaml.safe_dump)({"kind": "List", "items": items}))
    code = run([*(str(file) if word == "PODS" else word for word in words), "-c", str(file)])
    why = "nodes could not be read: the dump has none of them (`weir snapshot` writes all that is needed)"
    assert (code, capsys.readouterr().err) == (CANNOT_SAY, f"weir: {said}: {why}\n")
