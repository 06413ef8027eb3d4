"""Questions about a cluster that weir's operator extends are about what people wrote, and say so."""

from __future__ import annotations

import gzip
import io
import json

import pytest

from weir.cli.main import run
from weir.exit_codes import CANNOT_SAY, FINDINGS, USAGE
from weir.lowering import webhooks
from weir.lowering.admission import Cluster, answer
from weir.lowering.triples import Triple
from weir.objects.manifest import ManifestError, read_manifest, read_values

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


def test_objects_in_a_dropped_version_are_named_as_not_read(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    budget = {"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": {"name": "x"}}
    slices = {"apiVersion": "resource.k8s.io/v1alpha2", "kind": "ResourceSlice", "metadata": {"name": "x"}}
    whole = {"kind": "List", "apiVersion": "v1", "items": [node("n", "950"), budget, slices]}
    (tmp_path / "all.json").write_text(json.dumps(whole))
    assert run(["what-if", "drain", "n", "--cluster", "all.json"]) == 0
    assert "poddisruptionbudgets" in " ".join(capsys.readouterr().out.split("Not considered")[1].split())
    claims = {**POD, "spec": {**POD["spec"], "resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}}
    (tmp_path / "pod.json").write_text(json.dumps(claims))
    assert run(["explain", "-f", "pod.json", "--cluster", "all.json"]) == CANNOT_SAY
    answer = "".join(capsys.readouterr())
    assert "the dump has them in resource.k8s.io/v1alpha2, which is no longer served" in answer


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


def in_files(folder, **texts):
    for name, text in texts.items():
        path = folder / name.replace("__", ".")
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


TWO_RUNS = "\n".join(
    json.dumps({"apiVersion": "v1", "kind": "List", "items": [each]}, indent=4)
    for each in (node("n", "950"), {**POD, "metadata": {"name": "other"}})
)
IN_A_ROW = json.dumps(node("n", "950")) + json.dumps(POD)
BY_LINES = json.dumps(node("n", "950")) + "\n" + json.dumps(POD) + "\n"
TABS = json.dumps({"apiVersion": "v1", "kind": "List", "items": [node("n", "950"), POD]}, indent="\t")


@pytest.mark.parametrize(
    "text", [TWO_RUNS, IN_A_ROW, BY_LINES, TABS], ids=["two lists", "in a row", "lines", "tabs"]
)
@pytest.mark.parametrize(
    "command", ["explain -f pod.json", "what-if cordon n", "advise -f pod.json", "lint pod.json"]
)
def test_json_objects_one_after_the_other_are_all_read(text, command, tmp_path, monkeypatch, capsys):
    """As `kubectl get` run twice into one file, and `jq -c`, write them."""
    monkeypatch.chdir(tmp_path)
    in_files(
        tmp_path,
        all__json=text,
        pod__json=json.dumps(POD),
        one__json=json.dumps({"apiVersion": "v1", "kind": "List", "items": [node("n", "950")]}),
    )
    assert run([*command.split(), "--cluster", "all.json"]) in (0, FINDINGS)
    if command.startswith("explain"):
        assert "fits on 1 of 1 node" in capsys.readouterr().out


def test_an_object_of_several_in_a_row_has_its_own_place(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    wrong = json.dumps(POD).replace('"900"', '"x"')
    in_files(tmp_path, row__json=f"{json.dumps(POD)}\n{json.dumps(POD)} {wrong}\n")
    assert run(["lint", "row.json"]) == FINDINGS
    column = len(json.dumps(POD)) + 1 + wrong.index('"x"') + 1
    assert f"row.json:2:{column}: error W001" in capsys.readouterr().out


@pytest.mark.parametrize("read", [read_manifest, read_values])
@pytest.mark.parametrize("value", ["[NaN]", "[1e400]", r'"\ud800"', "[" + "0," * 150_000 + "0]"])
def test_json_in_a_row_is_held_to_what_one_object_is(read, value):
    with pytest.raises(ManifestError):
        read(f'{{}}\n{{"a": {value}}}')


def test_json_that_is_nested_too_deep_is_no_manifest():
    with pytest.raises(ManifestError, match="<stdin>:2:205: nested more than 200 levels deep"):
        read_manifest('{}\n{"a":' + "[" * 300 + "]" * 300 + "}")


def test_a_variable_that_yaml_takes_is_no_cause():
    text = 'data:\n  run: |\n    echo [${HOME}]\n  "x": [\n'
    with pytest.raises(ManifestError) as error:
        read_manifest(text)
    assert "variable" not in str(error.value)


def test_lint_reads_what_the_others_read(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    in_files(tmp_path, pod__json__gz=gzip.compress(json.dumps(POD).encode()))
    assert run(["lint", "pod.json.gz"]) == 0
    (tmp_path / "pod.json.gz").write_bytes(gzip.compress(json.dumps(POD).encode())[:-9])
    assert run(["lint", "pod.json.gz"]) == FINDINGS
    assert "cannot be decompressed: it ends too early" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"kind": "node"}, "did you mean Node?"),
        ({"kind": "Nodes"}, "did you mean Node?"),
        ({"kind": "ReplicationControler"}, "did you mean ReplicationController?"),
        ({"kind": "PodDisruptionBudget", "apiVersion": "policy/v2"}, "did you mean policy/v1?"),
        ({"kind": "ResourceSlice", "apiVersion": "resource.k8s.io/v9"}, "did you mean resource.k8s.io/v1"),
        ({"kind": "PersistentVolume", "apiVersion": "v2"}, "did you mean v1?"),
        ({"kind": "CSINode"}, "did you mean storage.k8s.io/v1?"),
        (
            {"kind": "NodeList", "apiVersion": "v2", "items": [{"metadata": {"name": "n"}}]},
            "did you mean v1?",
        ),
        ({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "rows": []}, "dump with -o json or -o yaml"),
        ({"kind": "Status", "status": "Failure", "code": 403}, "dump with -o json or -o yaml"),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
@pytest.mark.parametrize("form", ["json", "list", "yaml"])
@pytest.mark.parametrize("command", ["explain -f pod.json", "what-if drain n", "lint pod.json"])
def test_an_object_that_no_server_writes_is_not_passed_over(
    wrong, said, form, command, tmp_path, monkeypatch, capsys
):
    """A budget of policy/v2 holds no eviction back, and a "node" takes no pod: nothing else would tell."""
    monkeypatch.chdir(tmp_path)
    wrong = {"apiVersion": "v1", "metadata": {"name": "x"}, **wrong}
    whole = {"apiVersion": "v1", "kind": "List", "items": [node("n", "950"), wrong]}
    texts = {
        "json": f"{json.dumps(node('n', '950'))}\n{json.dumps(wrong)}",
        "list": json.dumps(whole, indent=4),
        "yaml": f"# a comment\n{json.dumps(whole)}",
    }
    in_files(tmp_path, all=texts[form], pod__json=json.dumps(POD))
    assert run([*command.split(), "--cluster", "all"]) == CANNOT_SAY
    (line,) = [each for each in capsys.readouterr().err.splitlines() if each.startswith("weir:")]
    assert "the cluster's dump cannot be read: all: " in line and said in line


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("apiVersion: apps/v1\nkind: deployment\nmetadata: {name: x}\n", "in.yaml:1:1: deployment: kind: "),
        ("apiVersion: v1\nkind: Pods\nmetadata: {name: x}\n", "did you mean Pod?"),
        ("apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: x}\n", "argoproj.io/v1alpha1 Rollout"),
        ("NAME  STATUS\nn1  Ready\n", "in.yaml:1:1: an object must be a mapping"),
        (f"[{json.dumps(POD)}]", "in.yaml:1:1: an object must be a mapping"),
        ("kind: Status\napiVersion: v1\nstatus: Failure\n", "dump with -o json or -o yaml"),
        ("{% if a %}\nkind: Pod\n", "in.yaml:1:2: an unrendered template stands on line 1"),
        ("kind: Pod\nmetadata: {name: ${NAME}}\n", "a variable that is to be replaced stands on line 2"),
        ("<<<<<<< HEAD\nkind: Pod\n=======\nkind: Job\n>>>>>>> x\n", "a merge conflict stands on line 1"),
        ("<!DOCTYPE html>\n<body>404: Not Found</body>\n", "a page of HTML stands on line 1"),
        ("kind: Pod\nmetadata:\n  name: {{ .Values.name }}\n", "; render it first\n"),
        ("kind: Pod\nmetadata: {name: café}\n".encode("latin-1"), "not in UTF-8: save it in that encoding"),
        ("kind: Pod\nmetadata: {name: x}\n".encode("utf-16-le"), "not in UTF-8: save it in that encoding"),
        ("kind: Pod\n".encode("utf-32"), "not in UTF-8: save it in that encoding"),
        (b"\x28\xb5\x2f\xfd\x04\x88", "zstd: unpack it first"),
        (b"PK\x03\x04\x00\x00", "zip: unpack it first"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["explain -f in.yaml", "advise -f in.yaml", "what-if apply -f in.yaml"])
def test_what_holds_no_workload_is_named_with_its_place_and_what_to_do(
    text, said, command, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    in_files(tmp_path, in__yaml=text, nodes__json=json.dumps(node("n", "950")))
    assert run([*command.split(), "--cluster", "nodes.json"]) == USAGE
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


@pytest.mark.parametrize(
    "command", ["explain -f", "lint", "what-if apply -f", "advise -f", "explain -f pod.json -c"]
)
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "the name of a file is empty"),
        ("ftp://x/pod.yaml", "ftp is not read"),
        ("oci://x/y", "oci is not read"),
    ],
)
def test_a_name_that_is_no_file_is_told(command, name, said, tmp_path, monkeypatch, capsys):
    """An empty one would be the whole folder: `weir lint "$FILE"` without the variable."""
    monkeypatch.chdir(tmp_path)
    in_files(tmp_path, pod__json=json.dumps(POD), nodes__json=json.dumps(node("n", "950")))
    cluster = [] if command.endswith("-c") or command == "lint" else ["-c", "nodes.json"]
    assert run([*command.split(), name, *cluster]) == USAGE
    assert said in capsys.readouterr().err


def test_files_that_say_how_manifests_are_made_are_no_manifests_of_a_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("kustomization.yaml", "Chart.yaml", "values.yaml"):
        in_files(tmp_path / "base", **{name.replace(".", "__"): "a: 1\n"}, pod__json=json.dumps(POD))
        in_files(tmp_path / "over", kustomization__yml="resources: [../base]\n")
    assert run(["lint", "base"]) == 0
    assert "1 object in 1 file" in capsys.readouterr().out
    assert run(["lint", "over"]) == USAGE
    assert "over: only kustomization.yml: render it first, as kustomize build does" in capsys.readouterr().err
    (tmp_path / "base" / "Chart.yaml").unlink()
    assert run(["lint", "base"]) == FINDINGS  # values.yaml of no chart is a manifest


@pytest.mark.parametrize("command", ["explain -k over", "lint -k over", "what-if apply -k over"])
def test_an_overlay_is_to_be_rendered_first(command, capsys):
    assert run(command.split()) == USAGE
    assert "Render it first: kustomize build DIR" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", ["lint - -", "lint - --cluster -", "what-if apply -f - --cluster -", "advise -f - -c -"]
)
def test_standard_input_is_read_once(command, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(POD).encode())))
    assert run(command.split()) in (FINDINGS, USAGE)
    assert "stdin (-) can be read only once" in "".join(capsys.readouterr())


def test_standard_input_may_be_closed(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", None)
    assert run(["explain", "-f", "-"]) == USAGE
    assert "stdin (-) is closed" in capsys.readouterr().err


def test_fixes_leave_a_compressed_file_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    packed = gzip.compress(json.dumps(POD).replace('"Gt"', '"gt"').encode())
    in_files(tmp_path, pod__json__gz=packed)
    assert run(["lint", "--fix", "pod.json.gz"]) == FINDINGS
    assert (tmp_path / "pod.json.gz").read_bytes() == packed
    assert "fixed 0 findings" in capsys.readouterr().err
