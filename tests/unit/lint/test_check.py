"""lint and `weir.validate` say what the server would say: fields, kinds and types nobody knows, with what was meant."""

from __future__ import annotations

import pytest

import weir
from weir.gates import ALL_FEATURES, Gates
from weir.lint.check import lint
from weir.objects.manifest import read_manifest
from weir.validate import validate

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - {name: c, image: i}
  tolerations:
  - {key: sla, operator: Gt, value: "900", effect: NoExecute}
"""


def found(text, gates=ALL_FEATURES, **more):
    return [
        (each.rule.code, each.field, each.message, each.fix)
        for each in lint(read_manifest(text, "f.yaml"), gates, **more)
        if each.severity.fails or each.rule.code == "W015"
    ]


@pytest.mark.parametrize(
    ("old", "new", "path", "meant"),
    [
        ("effect:", "efect:", "spec.tolerations[0].efect", "effect"),
        ("image: i}", "imagee: x, image: i}", "spec.containers[0].imagee", "image"),
        ("metadata: {name: p}", "metadata: {name: p, lables: {a: b}}", "metadata.lables", "labels"),
        ("spec:", "sepc: {}\nspec:", "sepc", "spec"),
        ("  tolerations:", "  tolerationz: 5\n  tolerations:", "spec.tolerationz", "tolerations"),
    ],
)
def test_an_unknown_field_is_an_error_with_the_one_that_was_meant(old, new, path, meant):
    text = POD.replace(old, new, 1)
    said = [each for each in found(text) if "unknown field" in each[2]]
    assert said == [
        ("W001", path, f'strict decoding error: unknown field "{path}"', f"did you mean {meant}?")
    ]
    (document,) = read_manifest(text)
    assert f'{path}: strict decoding error: unknown field: did you mean "{meant}"?' in map(
        str, weir.validate(document.value)
    )


def test_the_place_of_an_unknown_field_is_its_key():
    (finding,) = [
        each
        for each in lint(read_manifest(POD.replace("effect:", "efect:"), "f.yaml"), ALL_FEATURES)
        if "unknown field" in each.message
    ]
    assert (finding.line, finding.source[finding.column - 1 :][: finding.width]) == (8, "efect")


def test_fields_that_may_hold_anything_are_left_alone():
    config = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, annotations: {x.y/z: q}}\ndata: {efect: x}\n"
    )
    claim = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c}
spec:
  devices:
    requests: [{name: r, exactly: {deviceClassName: gpu}}]
    config: [{opaque: {driver: gpu.example.com, parameters: {anything: {goes: here}}}}]
"""
    assert found(config) == found(claim) == []


def test_every_object_that_weir_itself_accepts_has_only_known_fields():
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "d",
            "labels": {"a.b/c": "d"},
            "finalizers": ["a.b/c"],
        },
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
        "status": {"replicas": 1, "conditions": [{"type": "Available", "status": "True"}]},
    }
    assert weir.validate(deployment) == []


@pytest.mark.parametrize(
    ("version", "kind", "field", "meant"),
    [
        ("apps/v1", "Deploymnet", "kind", "Deployment"),
        ("v1", "pod", "kind", "Pod"),
        ("v1", "Deployment", "apiVersion", "apps/v1"),
        ("extensions/v1beta1", "Deployment", "apiVersion", "apps/v1"),
        ("app/v1", "Deployment", "apiVersion", "apps/v1"),
        ("batch/v1beta1", "CronJob", "apiVersion", "batch/v1"),
    ],
)
def test_a_misspelt_kind_is_refused_as_the_server_does(version, kind, field, meant):
    text = f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\n"
    ((code, path, message, _),) = found(text)
    assert (code, path) == ("W001", field)
    assert f'no matches for kind "{kind}" in version "{version}": did you mean {meant}?' in message
    (document,) = read_manifest(text)
    assert [error.field for error in weir.validate(document.value)] == [field]


HPA = (
    "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: h}\nspec: {maxReplicas: a}\n"
)
CUSTOM = "apiVersion: example.com/v1\nkind: Deployment\nmetadata: {name: h}\nspec: {size: 3}\n"


@pytest.mark.parametrize("text", [HPA.replace("autoscaling/v2", "example.com/v2"), CUSTOM])
def test_a_kind_nobody_knows_is_said_to_be_unchecked_and_refused_when_strict(text):
    ((code, path, message, _),) = found(text)
    assert (code, path) == ("W015", "kind") and message.startswith("not checked: weir does not know kind ")
    assert [each.severity.value for each in lint(read_manifest(text), ALL_FEATURES, strict=True)] == ["error"]


@pytest.mark.parametrize(
    ("old", "new", "fix"),
    [
        ("name: p}", "name: y}", 'y is a boolean in YAML, not text: quote it: "y"'),
        ("name: p}", "name: 7}", '7 is a number in YAML, not text: quote it: "7"'),
        ('value: "900"', "value: 900", '900 is a number in YAML, not text: quote it: "900"'),
        ("name: p}", "name: off}", 'off is a boolean in YAML, not text: quote it: "off"'),
    ],
)
def test_a_value_that_yaml_takes_for_something_else_is_named_as_such(old, new, fix):
    assert [each[3] for each in found(POD.replace(old, new, 1)) if each[0] == "W001"] == [fix]


def test_an_object_called_y_is_not_called_true():
    first, *_ = lint(read_manifest(POD.replace("name: p}", "name: y}")), ALL_FEATURES)
    assert first.object == "Pod y"


def test_a_misspelt_operator_is_shown_all_that_the_gates_allow():
    """The server itself lists two only, with any gates (upstream 1.37); weir's answer stays the server's."""
    text = POD.replace("Gt", "gt")
    (document,) = read_manifest(text)
    said = 'spec.tolerations[0].operator: Unsupported value: "gt": supported values: "Equal", "Exists"'
    assert [str(error) for error in validate(document.value)] == [said]
    every = "Equal, Exists, Lt, Gt, SemverLt, SemverGt, SemverEq"
    assert [each[2:] for each in found(text)] == [(said, f"did you mean Gt? (one of {every})")]
    numeric = Gates.parse("AllAlpha=false,TaintTolerationComparisonOperators=true")
    assert found(text, numeric)[0][3] == "did you mean Gt? (one of Equal, Exists, Lt, Gt)"
    assert found(POD.replace("NoExecute", "Noexecute"))[0][3].startswith("did you mean NoExecute?")


def test_a_field_written_twice_is_an_error():
    ((_, _, message, _),) = [
        each for each in found(POD.replace("image: i}", "image: i, image: j}")) if each[0] == "W002"
    ]
    assert 'duplicate field "spec.containers[0].image"' in message
