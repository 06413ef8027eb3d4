"""`weir lint` as a user meets it: formats, exit codes, and bad input in one line."""

import io
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from docs.lint import pages
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weir.cli.main import run
from weir.gates import ALL_FEATURES
from weir.lint.check import lint
from weir.objects.manifest import Document, ManifestError, read_manifest

BAD = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers: [{name: c, image: i}]
  tolerations:
  - {operator: Exists}
  - key: sla
    operator: Gt
    value: "0950"
"""
CLEAN = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n"


@pytest.fixture
def manifest(tmp_path):
    def write(text, name="pod.yaml"):
        path = tmp_path / name
        path.write_bytes(text) if isinstance(text, bytes) else path.write_text(text)
        return str(path)

    return write


def test_a_clean_file_is_fine(manifest, capsys):
    assert run(["lint", manifest(CLEAN)]) == 0
    assert "no findings (1 object in 1 file)" in capsys.readouterr().out


def test_files_may_be_given_as_kubectl_has_it(manifest, capsys):
    assert run(["lint", manifest(CLEAN, "a.yaml"), "-f", manifest(BAD, "b.yaml"), "--rules", "W001"]) == 1
    assert "(2 objects in 2 files)" in capsys.readouterr().out


def test_a_finding_shows_its_line_and_a_caret_under_the_value(manifest, capsys):
    assert run(["lint", manifest(BAD), "--rules", "W001"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[0].endswith(
        'pod.yaml:10:12: error W001: spec.tolerations[1].value: Invalid value: "0950": '
        "must be a valid decimal integer in canonical form"
    )
    assert out[1:3] == [' 10 |     value: "0950"', "    |            ^^^^^^"]


def test_the_gates_are_said_in_one_line(manifest, capsys):
    run(["lint", manifest(CLEAN)])
    assert "all features of the four KEPs on (weir's default" in capsys.readouterr().err


def test_json_has_a_versioned_schema(manifest, capsys):
    run(["lint", manifest(BAD), "-o", "json"])
    report = json.loads(capsys.readouterr().out)
    assert report["schema"] == "weir.lint/v1" and {f["code"] for f in report["findings"]} >= {
        "W001",
        "W011",
        "W012",
    }


def test_sarif_points_at_the_place(manifest, capsys):
    run(["lint", manifest(BAD), "-o", "sarif", "--rules", "W001"])
    (result,) = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    region = result["locations"][0]["physicalLocation"]["region"]
    assert (region["startLine"], region["startColumn"], result["level"]) == (10, 12, "error")


def test_junit_fails_the_file(manifest, capsys):
    run(["lint", manifest(BAD), "-o", "junit"])
    suite = ElementTree.fromstring(capsys.readouterr().out).find("testsuite")
    assert suite is not None and suite.get("failures") == "1"


def test_a_folder_means_the_manifests_in_it(manifest, tmp_path, capsys):
    manifest(BAD, "a.yaml"), manifest(CLEAN, "b.yml"), manifest("not yaml: [", "notes.txt")
    assert run(["lint", str(tmp_path), "--rules", "W011"]) == 1
    assert "(2 objects in 2 files)" in capsys.readouterr().out


def test_lists_are_opened(manifest, capsys):
    items = "".join("- " + BAD.replace("\n", "\n  ").rstrip() + "\n" for _ in range(2))
    run(["lint", manifest(f"kind: List\nitems:\n{items}"), "--rules", "W011"])
    assert capsys.readouterr().out.count("W011") == 2


BAD_INPUT = [
    ("a: [1", 1), (b"\x00\x01", 1), ("[" * 5000, 1), ("kind: Pod\nspec: {tolerations: 7}", 1),
    ("kind: Pod\nspec: 7", 1), ("- 1\n- 2", 1), ("just text", 1), ("kind: 7", 1), ("kind: Pod\nmetadata: []", 1),
    ("kind: Pod\nspec: {tolerations: [1, null, {key: {a: b}}]}", 1),
    ("kind: Deployment\nspec: {template: {spec: {tolerations: x}}}", 1),
    ("kind: Node\nspec: {taints: {a: b}}", 1), ("kind: List\nitems: 7", 1),
]  # fmt: skip


@pytest.mark.parametrize("text, code", BAD_INPUT, ids=range(len(BAD_INPUT)))
def test_bad_input_is_a_finding_or_one_line_never_a_traceback(manifest, capsys, text, code):
    assert run(["lint", manifest(text)]) == code
    captured = capsys.readouterr()
    assert "Traceback" not in captured.out + captured.err and "internal error" not in captured.err
    assert "pod.yaml:1:" in captured.out or "pod.yaml:2:" in captured.out


def test_a_value_of_ten_megabytes_gives_a_short_report(manifest, capsys):
    huge = BAD.replace("0950", "9" * 10_000_000)
    assert run(["lint", manifest(huge), "--rules", "W001"]) == 1
    assert len(capsys.readouterr().out) < 20_000


@pytest.mark.parametrize("arguments", [[], ["nowhere.yaml"], ["-o", "xml", "x"], ["--rules", "W999", "x"],
                                       ["--feature-gates", "Nope=true", "x"]])  # fmt: skip
def test_wrong_use_is_two_and_one_line(arguments, capsys):
    assert run(["lint", *arguments]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


@pytest.mark.proves("5471-58")
def test_a_rule_explains_itself(capsys):
    assert run(["lint", "--explain", "w012"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("# W012: integer-spelling")
    assert "accept only canonical decimal integers" in text and "`0950`,\n`+5` and `-0` are refused" in text


@pytest.mark.parametrize("name", sorted(pages()))
def test_the_documentation_pages_are_current(name):
    checked_in = Path(__file__).parents[3] / "docs" / "reference" / "lint" / name
    assert checked_in.read_text() == pages()[name], "run `make docs`"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ["kind", "apiVersion", "metadata", "spec", "template", "tolerations", "taints", "key", "operator", "value",
          "effect", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms",
          "matchExpressions", "values", "containers", "items", "expression", "name", "labels"]  # fmt: skip
objects = st.recursive(
    json_values | st.sampled_from(["Pod", "Node", "Deployment", "List", "Gt", "NoExecute", "v1", "apps/v1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=6),
    max_leaves=25,
)


@given(
    kind=st.sampled_from(["Pod", "Node", "Deployment", "CronJob", "PersistentVolume", "DaemonSet"]),
    rest=objects,
)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_any_document_is_checked_without_a_crash(kind, rest):
    document = {"kind": kind, **rest} if isinstance(rest, dict) else rest
    findings = lint([Document(document, "f", [""])], ALL_FEATURES)
    assert all(finding.message and finding.file == "f" for finding in findings)


@given(st.text() | st.binary())
def test_any_text_is_checked_or_refused(text):
    try:
        lint(read_manifest(text), ALL_FEATURES)
    except ManifestError as error:
        assert str(error)


def test_the_compilers_message_keeps_its_lines_and_quiet_has_one(tmp_path, capsys):
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "tolerations": [{"expression": "taint.kex == 'a'"}],
        },
    }
    file = tmp_path / "pod.json"
    file.write_text(json.dumps(pod))
    run(["lint", str(file)])
    whole = capsys.readouterr().out
    assert "undefined field 'kex'\n    | taint.kex == 'a'\n    | .....^\n" in whole
    run(["lint", "--quiet", str(file)])
    assert len(capsys.readouterr().out.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "what"),
    [("", "is empty"), ("\n \n", "is empty"), ("---\n# Source: a.yaml\n", "has only comments")],
)
def test_standard_input_without_objects_is_an_error(text, what, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    code = run(["lint", "-"])
    assert (code, f"nothing was read: the input {what}" in capsys.readouterr().out) == (1, True)


def test_the_line_of_a_binary_file_is_not_shown(tmp_path, capsys):
    (tmp_path / "x.yaml").write_bytes(b"\x7fELF\x00\x01\x02" * 9)
    assert run(["lint", str(tmp_path / "x.yaml")]) == 1
    assert "ELF" not in capsys.readouterr().out
