"""Rules about custom resources: which are asked, of what, and what is said. Whole answers: tests/kubernetes."""

from __future__ import annotations

import pytest

from weir.compat.customresources.expressions import compile_rules, evaluate_rules
from weir.compat.customresources.schema import read_schema


def judged(spec, new, old=None, *, ratchets=False, budget=10_000_000):
    tree = compile_rules(read_schema({"type": "object", "properties": {"spec": spec}}))
    whole = {"metadata": {"name": "a"}, "spec": new}
    before = None if old is None else {"metadata": {"name": "a"}, "spec": old}
    found, tolerated = evaluate_rules(tree, whole, before, ratchets=ratchets, budget=budget)
    return [str(one) for one in found], [str(one) for one in tolerated]


def ruled(schema, *rules):
    return {
        **schema,
        "x-kubernetes-validations": [{"rule": one} if isinstance(one, str) else one for one in rules],
    }


INTEGER, STRING = {"type": "integer"}, {"type": "string"}


def objects(**properties):
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    "schema, value, said",
    [
        (ruled(objects(n=INTEGER), "self.n < 5"), {"n": 5}, ["spec: Invalid value: failed rule: self.n < 5"]),
        (
            objects(n=ruled(INTEGER, "self < 5")),
            {"n": 5},
            ["spec.n: Invalid value: 5: failed rule: self < 5"],
        ),
        (objects(n=ruled(INTEGER, "self < 5")), {}, []),
        (objects(**{"a-b": INTEGER}) | ruled({}, "self.a__dash__b < 5"), {"a-b": 4}, []),
        (ruled(objects(r={"type": "number"}), "self.r < 1.5"), {"r": 1}, []),
        (
            ruled(objects(t={**STRING, "format": "date-time"}), "self.t.getFullYear() == 2026"),
            {"t": "2026-01-02T03:04:05Z"},
            [],
        ),
        (
            ruled(objects(l={"type": "array", "items": STRING}), "self.l[1] == 'a'"),
            {"l": ["b"]},
            ["spec: Invalid value: \"object\": index out of bounds: 1 evaluating rule: self.l[1] == 'a'"],
        ),
        (
            objects(m={"type": "object", "additionalProperties": ruled(STRING, "self != 'x'")}),
            {"m": {"k": "x"}},
            ["spec.m[k]: Invalid value: \"x\": failed rule: self != 'x'"],
        ),
        (
            ruled(
                objects(a=INTEGER), {"rule": "has(self.a)", "reason": "FieldValueRequired", "fieldPath": ".a"}
            ),
            {},
            ["spec.a: Required value: failed rule: has(self.a)"],
        ),
        (
            ruled(objects(a=INTEGER), {"rule": "self.a < 5", "messageExpression": "'not ' + string(self.a)"}),
            {"a": 7},
            ["spec: Invalid value: not 7"],
        ),
        (
            ruled(
                objects(a=INTEGER, n=STRING),
                {"rule": "self.a < 5", "message": "plain", "messageExpression": "self.n"},
            ),
            {"a": 7},
            ["spec: Invalid value: plain"],
        ),
    ],
)
def test_a_rule_is_asked_where_its_value_is(schema, value, said):
    assert judged(schema, value) == (said, [])


def test_a_transition_is_asked_when_there_is_something_to_compare():
    schema = objects(n=ruled(INTEGER, "self >= oldSelf"))
    assert judged(schema, {"n": 1}) == ([], [])
    assert judged(schema, {"n": 1}, {}, ratchets=True) == ([], [])
    assert judged(schema, {"n": 1}, {"n": 2}, ratchets=True) == (
        ["spec.n: Invalid value: 1: failed rule: self >= oldSelf"],
        [],
    )


def test_items_of_a_map_are_compared_by_their_keys():
    items = ruled(objects(k=STRING, v=INTEGER), "self.v >= oldSelf.v")
    schema = objects(
        l={
            "type": "array",
            "items": items,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
        }
    )
    old = {"l": [{"k": "a", "v": 5}, {"k": "b", "v": 1}]}
    assert judged(schema, {"l": [{"k": "b", "v": 1}, {"k": "a", "v": 6}]}, old, ratchets=True) == ([], [])
    found, _ = judged(schema, {"l": [{"k": "b", "v": 1}, {"k": "a", "v": 4}]}, old, ratchets=True)
    assert found == ["spec.l[1]: Invalid value: failed rule: self.v >= oldSelf.v"]


def test_what_was_broken_before_is_a_warning():
    schema = objects(a=ruled(INTEGER, "self < 5"), b=ruled(INTEGER, "self < 5"))
    found = judged(schema, {"a": 7, "b": 8}, {"a": 7, "b": 1}, ratchets=True)
    assert found == (
        ["spec.b: Invalid value: 8: failed rule: self < 5"],
        ["spec.a: Invalid value: 7: failed rule: self < 5"],
    )


def test_the_rules_of_an_object_share_a_budget():
    schema = ruled(objects(l={"type": "array", "items": INTEGER}), *["self.l.all(x, x < 100)"] * 3)
    found, _ = judged(schema, {"l": list(range(50))}, budget=500)
    assert found == [
        'spec: Invalid value: "object": validation failed due to running out of cost budget, no further '
        "validation rules will be run"
    ]
