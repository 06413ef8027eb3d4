"""Definitions as people write them: what the server fills in need not be there. Whole answers: tests/kubernetes."""

from __future__ import annotations

import pytest

from weir.validate import validate


def definition(**changes):
    schema = {"openAPIV3Schema": {"type": "object"}}
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {**spec, **changes},
    }


def test_a_file_without_what_the_server_fills_in_is_fine():
    assert validate(definition()) == []


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"group": "example"}, "spec.group"),
        ({"scope": "Galaxy"}, "spec.scope"),
        ({"versions": []}, "spec.versions"),
        ({"names": {"plural": "widgets"}}, "spec.names.kind"),
    ],
)
def test_what_is_wrong_is_told_at_its_field(changes, said):
    assert said in [error.field for error in validate(definition(**changes))]


@pytest.mark.parametrize(
    "rule, dear",
    [
        ("self.l.all(x, x.name != 'a' && x.items.all(y, y != 'b'))", False),
        ("self.l.all(x, x.items.all(y, y != x.name))", True),
    ],
)
def test_a_rule_costs_what_the_field_asked_for_last_makes_it_cost(rule, dear):
    item = {
        "type": "object",
        "properties": {
            "items": {"type": "array", "maxItems": 3, "items": {"type": "string", "maxLength": 20}},
            "name": {"type": "string", "maxLength": 100_000},
        },
    }
    schema = {
        "type": "object",
        "properties": {"l": {"type": "array", "maxItems": 100, "items": item}},
        "x-kubernetes-validations": [{"rule": rule}],
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    said = [str(error) for error in validate(definition(versions=[version]))]
    assert any("estimated rule cost exceeds budget" in one for one in said) is dear
    assert bool(said) is dear
