"""What the API server says about flow schemas and priority levels; the texts are a real server's (tests/kubernetes)."""

from __future__ import annotations

from typing import Any

import pytest

from weir.validate import validate

EVERYTHING = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True}
JANE = {"kind": "User", "user": {"name": "jane"}}
QUEUING = {"queues": 16, "handSize": 4, "queueLengthLimit": 10}


def schema(name: str = "s", **spec: Any) -> list[str]:
    rules = [{"subjects": [JANE], "resourceRules": [EVERYTHING]}]
    whole = {
        "priorityLevelConfiguration": {"name": "l"},
        "matchingPrecedence": 500,
        "rules": rules,
        **spec,
    }
    return problems("FlowSchema", name, whole)


def level(name: str = "l", **spec: Any) -> list[str]:
    return problems("PriorityLevelConfiguration", name, spec)


def problems(kind: str, name: str, spec: dict[str, Any]) -> list[str]:
    document = {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec,
    }  # fmt: skip
    return [str(error) for error in validate(document)]


def queuing(**changed: int) -> list[str]:
    response = {"type": "Queue", "queuing": {**QUEUING, **changed}}
    limited = {"limitResponse": response, "nominalConcurrencyShares": 1, "lendablePercent": 0}
    return level(type="Limited", limited=limited)


def test_sound_ones_pass():
    assert schema() == [] and queuing() == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"matchingPrecedence": -1}, "spec.matchingPrecedence: Invalid value: -1: must be a positive value"),
        (
            {"matchingPrecedence": 1},
            "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1",
        ),
        (
            {"distinguisherMethod": {"type": "X"}},
            'spec.distinguisherMethod.type: Unsupported value: {"Type":"X"}: supported values: "ByNamespace", "ByUser"',
        ),
        (
            {"rules": [{"subjects": [JANE]}]},
            "spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty",
        ),
        (
            {"rules": [{"subjects": [{**JANE, "group": {"name": "a"}}], "resourceRules": [EVERYTHING]}]},
            "spec.rules[0].subjects[0].group: Forbidden: group is forbidden when subject kind is not 'Group'",
        ),
        (
            {"rules": [{"subjects": [JANE], "resourceRules": [{**EVERYTHING, "clusterScope": False}]}]},
            "spec.rules[0].resourceRules[0].namespaces: Required value: resource rules that are not cluster scoped "
            "must supply at least one namespace",
        ),
        (
            {
                "rules": [
                    {
                        "subjects": [JANE],
                        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/a*"]}],
                    }
                ]
            },
            'spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: "/a*": wildcard can only do suffix '
            "matching",
        ),
    ],
)
def test_a_schema_is_refused(spec, expected):
    assert schema(**spec) == [expected]


def test_the_specs_of_mandatory_objects_are_fixed():
    (found,) = schema("catch-all")
    assert found.endswith("spec of 'catch-all' must equal the fixed value")
    assert level("exempt", type="Exempt", exempt={"nominalConcurrencyShares": 9, "lendablePercent": 0}) == []
    assert level("other", type="Exempt") == [
        "spec.type: Invalid value: \"Exempt\": must be 'Exempt' if and only if `name` is 'exempt'"
    ]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (
            {"queues": 0},
            [
                "queues: Invalid value: 0: must be positive",
                "handSize: Invalid value: 4: should not be greater than queues (0)",
            ],
        ),
        ({"handSize": 17}, ["handSize: Invalid value: 17: should not be greater than queues (16)"]),
        (
            {"queues": 512, "handSize": 7},
            [
                "handSize: Invalid value: 7: required entropy bits of deckSize 512 and handSize 7 should not be "
                "greater than 60"
            ],
        ),
        ({"queues": 512, "handSize": 6}, []),
    ],
)
def test_queues_are_refused(changed, expected):
    assert queuing(**changed) == [f"spec.limited.limitResponse.queuing.{each}" for each in expected]


def test_the_members_of_a_union_are_checked_once():
    assert level(type="Limited") == ["spec.limited: Required value"]
    limited = {"limitResponse": {"type": "Reject", "queuing": QUEUING}, "nominalConcurrencyShares": 1}
    assert level(type="Limited", limited=limited, exempt={}) == [
        "spec.exempt: Forbidden",
        "spec.limited.limitResponse.queuing: Forbidden",
    ]
    assert level() == ["spec.type: Required value"]
