"""Fields that a definition's schema does not have."""

from __future__ import annotations

import pytest

from weir.compat.customresources.pruning import find_unknown_fields
from weir.compat.customresources.schema import read_schema

OBJECT = {"type": "object", "properties": {"a": {"type": "string"}}}
KEPT = {**OBJECT, "x-kubernetes-preserve-unknown-fields": True}


@pytest.mark.parametrize(
    ("schema", "value", "unknown"),
    [
        (OBJECT, {"a": "x", "b": 1}, [("spec", "b")]),
        (KEPT, {"a": "x", "b": {"c": 1}}, []),
        ({**KEPT, "properties": {"n": OBJECT}}, {"n": {"b": 1}}, [("spec", "n", "b")]),
        ({"type": "object", "additionalProperties": OBJECT}, {"k": {"b": 1}}, [("spec", "k", "b")]),
        ({"type": "object", "additionalProperties": True}, {"k": {"b": 1}}, [("spec", "k", "b")]),
        ({"type": "array", "items": OBJECT}, [{"a": "x"}, {"b": 1}], [("spec", 1, "b")]),
        (
            {**OBJECT, "x-kubernetes-embedded-resource": True},
            {"kind": "Pod", "metadata": {}, "b": 1},
            [("spec", "b")],
        ),
    ],
)
def test_unknown_fields_are_found_where_they_stand(schema, value, unknown):
    whole = read_schema({"type": "object", "properties": {"spec": schema}})
    document = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": value}
    assert [path for path, _ in find_unknown_fields(document, whole)] == unknown
