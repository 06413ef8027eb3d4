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
