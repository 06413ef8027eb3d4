"""`weir lint` in a project: levels, settings, fixes, annotations; and one bad file among good ones."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import jsonschema_rs
import pytest

from tests.work import count_calls
from weir.cli.main import run
from weir.exit_codes import FINDINGS, FINE, USAGE

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers: [{name: c, image: i}]
  tolerations:
  - {key: sla, operator: Gt, value: "900", effect: NoExecute}
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      containers: [{name: c, image: i}]
      tolerations: [{key: sla, operator: Gt, value: "900", effect: NoSchedule}]
"""
CUSTOM = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: h}\n"
SCHEMA = Path(__file__).parents[3] / "docs" / "reference" / "lint.schema.json"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)


# ── files that cannot be read ────────────────────────────────────────────────────────────────────

BROKEN = "a: [1"
HELM = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Values.name }}\n"
TABS = "apiVersion: v1\nkind: Pod\nmetadata:\n\tname: p\n"


def test_one_unreadable_file_is_a_finding_and_the_others_are_checked_in_every_format(here, capsys):
    write(here, a=BROKEN, b=POD.replace("Gt", "gt"))
    seen = {}
    for output in ("text", "json", "sarif", "junit", "github"):
        assert run(["lint", ".", "-o", output]) == FINDINGS
        seen[output] = capsys.readouterr().out
    assert all("W000" in text and "W001" in text for text in seen.values())
    assert [each["file"] for each in json.loads(seen["json"])["findings"]] == ["a.yaml", "b.yaml"]
    suite = ElementTree.fromstring(seen["junit"]).find("testsuite")
    assert suite is not None and (suite.get("tests"), suite.get("failures")) == ("2", "2")


def test_choosing_rules_does_not_hide_a_file_that_was_not_read(here, capsys):
    write(here, a=BROKEN)
    assert run(["lint", ".", "--rules", "W011"]) == FINDINGS


@pytest.mark.parametrize(
    ("text", "cause", "fix"),
    [
        (
            HELM,
            "an unrendered template stands on line 4",
            "fix: render it first: helm template . | weir lint -",
        ),
        (
            "{{- if .Values.on }}\n" + POD + "{{- end }}\n",
            "an unrendered template stands on line 1",
            "render",
        ),
        (TABS, "line 4 is indented with a tab, which YAML does not allow", "fix: indent with spaces"),
    ],
)
def test_templates_and_tabs_are_named_as_the_cause(here, capsys, text, cause, fix):
    write(here, a=text)
    assert run(["lint", "a.yaml"]) == FINDINGS
    out = capsys.readouterr().out
    assert cause in out and fix in out


# ── what is not checked ──────────────────────────────────────────────────────────────────────────


def test_objects_that_were_not_checked_are_counted_in_every_format(here, capsys):
    write(here, a=POD + "---\n" + CUSTOM)
    seen = {}
    for output in ("text", "json", "sarif", "junit", "github"):
        run(["lint", ".", "-o", output])
        seen[output] = capsys.readouterr().out
    assert "2 objects in 1 file, 1 not checked: unknown kinds" in seen["text"]
    assert json.loads(seen["json"])["summary"]["notChecked"] == 1
    assert json.loads(seen["sarif"])["runs"][0]["properties"]["notChecked"] == 1
    assert 'name="notChecked" value="1"' in seen["junit"]
    assert "1 object not checked" in seen["github"]


def test_strict_refuses_what_was_not_checked(here, capsys):
    write(here, a=CUSTOM)
    assert run(["lint", "a.yaml"]) == FINE
    assert run(["lint", "a.yaml", "--strict"]) == FINDINGS
    assert "not checked: weir does not know kind Widget of example.com/v1" in capsys.readouterr().out


# ── how much is shown ────────────────────────────────────────────────────────────────────────────


def test_notes_are_counted_and_shown_on_request(here, capsys):
    write(here, **{f"d{number}": DEPLOYMENT for number in range(30)})
    assert run(["lint", "."]) == FINE
    out = capsys.readouterr().out
    assert out.count("\n") == 1 and "not shown: --level note" in out
    assert run(["lint", ".", "--level", "note", "-q"]) == FINE
    assert capsys.readouterr().out.count("note W014") == 30


def test_level_error_hides_warnings_but_not_from_the_exit_code(here, capsys):
    write(
        here, a=POD.replace('{key: sla, operator: Gt, value: "900", effect: NoExecute}', "{operator: Exists}")
    )
    assert run(["lint", "a.yaml", "--level", "error"]) == FINDINGS
    out = capsys.readouterr().out
    assert "W011" not in out and "1 warning" in out


def test_quiet_is_one_line_a_finding_and_statistics_one_a_rule(here, capsys):
    write(here, a=POD.replace("Gt", "gt"), b=POD.replace("Gt", "gt"))
    run(["lint", ".", "-q"])
    captured = capsys.readouterr()
    assert (captured.out.count("\n"), captured.err) == (2, "")
    run(["lint", ".", "--statistics"])
    assert "     2  W001  error    api-server-refuses" in capsys.readouterr().out


# ── settings of a project ────────────────────────────────────────────────────────────────────────

YAML = """\
lint:
  paths: [manifests]
  exclude: ["*/skip.yaml"]
  ignore: [W011]
  level: note
  levels: {kind-not-known: warning}
  kubernetes-version: "1.34"
"""
TOML = """\
[tool.weir.lint]
paths = ["manifests"]
exclude = ["*/skip.yaml"]
ignore = ["W011"]
level = "note"
levels = {kind-not-known = "warning"}
kubernetes-version = "1.34"
"""


@pytest.mark.parametrize(("name", "text"), [(".weir.yaml", YAML), ("pyproject.toml", TOML)])
def test_a_project_says_what_is_checked_and_how(here, capsys, monkeypatch, name, text):
    (here / name).write_text(text)
    folder = here / "manifests"
    folder.mkdir()
    write(folder, a=POD, b=CUSTOM, c=POD.replace("Gt", "gt"), skip=BROKEN)
    (here / "deep").mkdir()
    monkeypatch.chdir(here / "deep")  # the nearest settings above count
    assert run(["lint", "-o", "json"]) == FINDINGS
    found = json.loads(capsys.readouterr().out)
    by_file = {Path(each["file"]).name: (each["code"], each["severity"]) for each in found["findings"]}
    assert by_file.keys() == {"a.yaml", "b.yaml", "c.yaml"}  # 1.34 does not have Gt
    assert by_file["b.yaml"] == ("W015", "warning")
    assert found["gates"]["TaintTolerationComparisonOperators"]["on"] is False


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lint: {ignroe: [W011]}", "ignroe: unknown setting; did you mean ignore?"),
        ("lint: {ignore: [W999]}", "unknown rule 'W999'"),
        ("lint: {level: loud}", "level: must be one of error, warning, note"),
        ("lint: {kubernetes-version: 1.34}", 'write it in quotes, like "1.35"'),
        ("lint: {feature-gates: Nope=true}", "unrecognized feature gate: Nope"),
        ("lint: [1]", "must be a mapping"),
        ("lint: {levels: {W012: loud}}", "must give a rule one of"),
        ("lint: {", "cannot be read"),
    ],
)
def test_settings_that_cannot_be_used_are_one_line_with_the_file(here, capsys, text, words):
    (here / ".weir.yaml").write_text(text)
    write(here, a=POD)
    assert run(["lint", "a.yaml"]) == USAGE
    err = capsys.readouterr().err
    assert words in err and ".weir.yaml" in err and err.count("\n") == 1


# ── fixes ────────────────────────────────────────────────────────────────────────────────────────


def test_fix_changes_only_what_is_certain_and_keeps_the_rest(here, capsys):
    before = (
        "# keep me\napiVersion: v1\nkind: Pod\nmetadata: {name: y}  # quoted\nspec:\n"
        "  containers: [{name: c, image: i}]\n  tolerations:\n"
        '  - {key: sla, operator: gt, value: "0950", tolerationseconds: 5, effect: NoExecute}\n'
        "  - {key: a, operator: Lt, value: 7, efect: NoExecute}\n"
    )
    (here / "a.yaml").write_text(before)
    assert run(["lint", "a.yaml", "--fix"]) == FINDINGS  # efect is for a person to decide
    assert (here / "a.yaml").read_text() == before.replace("name: y}", 'name: "y"}').replace(
        'gt, value: "0950", tolerationseconds', 'Gt, value: "950", tolerationSeconds'
    ).replace("value: 7", 'value: "7"')
    out = capsys.readouterr().out
    assert 'unknown field "spec.tolerations[1].efect"' in out and "1 error" in out


def test_fix_needs_files():
    assert run(["lint", "-", "--fix"]) == USAGE


# ── for machines ─────────────────────────────────────────────────────────────────────────────────


def test_annotations_point_at_the_line_of_a_pull_request(here, capsys):
    write(here, a=POD.replace("Gt", "gt"))
    run(["lint", "a.yaml", "-o", "github"])
    line = capsys.readouterr().out.splitlines()[0]
    assert line.startswith(
        "::error file=a.yaml,line=7,col=26,title=W001 api-server-refuses::spec.tolerations[0]"
    )


def test_sarif_carries_the_page_of_every_rule(here, capsys):
    write(here, a=POD.replace("Gt", "gt"))
    run(["lint", "a.yaml", "-o", "sarif"])
    (rule,) = json.loads(capsys.readouterr().out)["runs"][0]["tool"]["driver"]["rules"]
    assert rule["help"]["markdown"] and rule["helpUri"].startswith("https://kubernetes.io/docs/concepts/")


def test_the_json_fits_its_published_schema(here, capsys):
    write(here, a=POD.replace("Gt", "gt"), b=BROKEN, c=CUSTOM)
    validator = jsonschema_rs.validator_for(json.loads(SCHEMA.read_text()))
    run(["lint", ".", "-o", "json", "--level", "note"])
    found = json.loads(capsys.readouterr().out)
    validator.validate(found)
    assert not validator.is_valid({**found, "findings": [{}]})


def test_work_grows_with_the_number_of_objects(here):
    def calls(count):
        write(
            here, a="".join("---\n" + DEPLOYMENT.replace("name: web", f"name: web-{n}") for n in range(count))
        )
        codes = []
        number = count_calls(lambda: codes.append(run(["lint", "a.yaml"])))
        assert codes == [FINE]
        return number

    calls(1)  # what is done once
    assert calls(160) < calls(20) * 12, "8 times as many objects; each with each would be 64"
