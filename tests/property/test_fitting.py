"""What plainly fits its schema is left alone by pruning and found right by validation, on random objects."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from weir.compat.customresources.fitting import fitting
from weir.compat.customresources.pruning import drop_nulls, find_unknown_fields, prune
from weir.compat.customresources.resource_rules import validate_embedded
from weir.compat.customresources.schema import read_schema
from weir.compat.customresources.values import validate_lists, validate_value

TRIES = 4000
NAMES = ("a", "b", "c")


def a_schema(chance: random.Random, depth: int = 3) -> dict[str, Any]:
    kinds = ["string", "integer", "number", "boolean"] + (["object", "array", "map"] if depth else [])
    kind = chance.choice(kinds)
    found: dict[str, Any] = {"type": "object" if kind == "map" else kind}
    if chance.random() < 0.15:
        found["nullable"] = True
    if kind == "string":
        found |= chance.choice(
            [
                {},
                {"maxLength": 2},
                {"minLength": 1},
                {"enum": ["x", "yy"]},
                {"pattern": "^x"},
                {"format": "date"},
            ]
        )
    elif kind in ("integer", "number"):
        found |= chance.choice([{}, {"minimum": 0}, {"maximum": 3}, {"multipleOf": 2}, {"format": "int32"}])
    elif kind == "object":
        found["properties"] = {name: a_schema(chance, depth - 1) for name in NAMES[: chance.randint(1, 3)]}
        if chance.random() < 0.3:
            found["required"] = ["a"]
        if chance.random() < 0.1:
            found["x-kubernetes-preserve-unknown-fields"] = True
    elif kind == "map":
        found |= {"additionalProperties": a_schema(chance, depth - 1), "maxProperties": chance.randint(1, 3)}
    elif kind == "array":
        found |= {"items": a_schema(chance, depth - 1), "maxItems": chance.randint(1, 3)}
        if found["items"]["type"] == "string" and chance.random() < 0.5:
            found["x-kubernetes-list-type"] = "set"
        if found["items"].get("properties") and chance.random() < 0.5:
            found |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}
    if chance.random() < 0.05:
        found["anyOf"] = [{"minProperties": 1}]
    return found


def a_value(chance: random.Random, schema: dict[str, Any]) -> Any:
    """Return a value that fits more often than not."""
    odd = chance.random()
    if odd < 0.02:
        return None
    if odd < 0.04:
        return chance.choice(["x", 1, 2.5, True, [], {}, ["x", "x"], {"z": 1}])
    kind = schema["type"]
    if kind == "string":
        return chance.choice(["x", "x", "yy", "", "long", "2026-01-01"])
    if kind == "integer":
        return chance.choice([0, 1, 2, 3, 4, -1, 2**40])
    if kind == "number":
        return chance.choice([0, 1.5, 2, 4, -1])
    if kind == "boolean":
        return chance.choice([True, False])
    if kind == "array":
        return [a_value(chance, schema["items"]) for _ in range(chance.randint(0, 3))]
    if "additionalProperties" in schema:
        names = NAMES[: chance.randint(0, 3)]
        return {name: a_value(chance, schema["additionalProperties"]) for name in names}
    found = {
        name: a_value(chance, one) for name, one in schema["properties"].items() if chance.random() < 0.8
    }
    return {**found, "bogus": 1} if chance.random() < 0.05 else found


def test_what_fits_has_nothing_to_be_dropped_or_told():
    chance = random.Random(5471)
    fitted = 0
    for _ in range(TRIES):
        document = {"type": "object", "properties": {"spec": a_schema(chance)}}
        value = {"metadata": {"name": "a"}, "spec": a_value(chance, document["properties"]["spec"])}
        schema = read_schema(document)
        if not fitting(schema, root=True)(value):
            continue
        fitted += 1
        left = msgspec.to_builtins(value)
        prune(left, schema, root=True)
        drop_nulls(left, schema)
        assert left == value, document
        assert not list(find_unknown_fields(value, schema)), (document, value)
        assert not validate_value(value, schema), (document, value)
        assert not list(validate_lists(value, schema)), (document, value)
        assert not list(validate_embedded(value, schema)), (document, value)
    assert fitted > TRIES // 4
