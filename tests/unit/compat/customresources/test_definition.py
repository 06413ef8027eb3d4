"""Which kinds definitions make, and what lint says of objects of them."""

from __future__ import annotations

import yaml

from weir.compat.customresources.definition import find_custom_kinds
from weir.fields.field import context_for
from weir.gates import ALL_FEATURES
from weir.lint.check import lint
from weir.objects.manifest import read_manifest

DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [size]
            properties: {size: {type: integer}, mode: {type: string, enum: [Fast, Slow]}}
  - {name: v0, served: false, storage: false, schema: {openAPIV3Schema: {type: object}}}
"""
WIDGET = """\
apiVersion: example.com/v1
kind: Widget
metadata: {name: a}
spec:
  sise: 3
  mode: fast
"""


def test_only_served_versions_make_kinds():
    assert list(find_custom_kinds([yaml.safe_load(DEFINITION)])) == [("example.com/v1", "Widget")]


def test_what_cannot_be_read_makes_none():
    broken = yaml.safe_load(DEFINITION.replace("type: object", "type: [object]", 1))
    assert find_custom_kinds([broken, {"kind": "CustomResourceDefinition"}, None, "text"]) == {}


def test_lint_checks_custom_resources_by_the_definition_among_the_files():
    found = lint(read_manifest(f"{DEFINITION}---\n{WIDGET}"), ALL_FEATURES)
    above = DEFINITION.count("\n") + 1
    told = [(each.line - above, each.message, each.fix) for each in found if each.line > above]
    assert sorted(told) == [
        (5, "spec.size: Required value", ""),
        (5, 'strict decoding error: unknown field "spec.sise"', "did you mean size?"),
        (
            6,
            'spec.mode: Unsupported value: "fast": supported values: "Fast", "Slow"',
            "did you mean Fast? (one of Fast, Slow)",
        ),
    ]


def test_without_a_definition_nothing_is_checked():
    assert {finding.rule.code for finding in lint(read_manifest(WIDGET), ALL_FEATURES)} == {"W015"}


def test_a_rule_that_a_file_breaks_is_told():
    spec = {"type": "object", "properties": {"size": {"type": "integer", "default": 9}}}
    spec["x-kubernetes-validations"] = [{"rule": "self.size < 5"}]
    version = {
        "name": "v1",
        "served": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    }
    definition = {
        "kind": "CustomResourceDefinition",
        "spec": {
            "group": "example.com",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version],
        },
    }
    kind = find_custom_kinds([definition])["example.com/v1", "Widget"]
    context = context_for(ALL_FEATURES, "", True, True)
    found = [str(error) for error in kind.validate({"metadata": {"name": "a"}, "spec": {}}, context)]
    assert found == ["spec: Invalid value: failed rule: self.size < 5"]
    assert not list(kind.validate({"metadata": {"name": "a"}, "spec": {"size": 1}}, context))
