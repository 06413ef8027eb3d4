"""Which expressions of policies are warned of, before they meet an object."""

from __future__ import annotations

import pytest

from weir.policies.type_checking import expression_warnings, kinds_to_check

RULE = {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}


def warned(*validations, rules=(RULE,), **spec):
    checks = [{"expression": one} if isinstance(one, str) else one for one in validations]
    whole = {"matchConstraints": {"resourceRules": list(rules)}, "validations": checks, **spec}
    return [(one["fieldRef"], one["warning"]) for one in expression_warnings({"spec": whole})]


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("object.spec.replicas > 1", ""),
        ("object.metadata.namespace == 'x' && object.metadata.__namespace__ == 'x'", ""),
        ("object.spec.strategy.rollingUpdate.maxSurge == 1", ""),
        ("object.spec.replicas > '1'", "found no matching overload for '_>_' applied to '(int, string)'"),
        ("oldObject.spec.bogus == 1", "undefined field 'bogus'"),
        ("object.spec.template.spec.containers.all(c, c.imag == 'x')", "undefined field 'imag'"),
        ("object.metadata.creationTimestamp == 'x'", "(timestamp, string)"),
    ],
)
def test_expressions_are_checked_with_the_types_of_the_kind(expression, said):
    found = warned(expression)
    assert bool(found) == bool(said)
    if said:
        ((field, warning),) = found
        assert field == "spec.validations[0].expression"
        assert warning.startswith("apps/v1, Kind=Deployment: ERROR: <input>:1:") and said in warning


def test_every_kind_that_a_rule_names_is_checked():
    rule = {**RULE, "resources": ["deployments", "statefulsets", "statefulsets/scale"]}
    ((_, warning),) = warned("object.spec.serviceName == 'a'", rules=[rule])
    assert "Kind=Deployment" in warning and "Kind=StatefulSet" not in warning
    assert [kind.kind for kind in kinds_to_check({"matchConstraints": {"resourceRules": [rule]}})] == [
        "Deployment",
        "StatefulSet",
    ]


def test_what_is_not_known_is_not_warned_of():
    for rule in (
        {**RULE, "apiGroups": ["*"]},
        {**RULE, "apiGroups": ["a.example"]},
        {**RULE, "resources": ["*"]},
    ):
        assert warned("object.spec.bogus == 1", rules=[rule]) == []
    assert warned("params.x.y == 1", paramKind={"apiVersion": "a.example/v1", "kind": "Gone"}) == []


def test_parameters_variables_and_messages_are_checked_too():
    maps = {"apiVersion": "v1", "kind": "ConfigMap"}
    assert "(string, int)" in warned("params.data.a == 1", paramKind=maps)[0][1]
    variables = [{"name": "r", "expression": "object.spec.replicas"}]
    assert "(int, string)" in warned("variables.r == 'a'", variables=variables)[0][1]
    message = {"expression": "true", "messageExpression": "object.metadata.nme"}
    assert warned(message)[0][0] == "spec.validations[0].messageExpression"
