"""Which admission policies and bindings are refused when they are written."""

from __future__ import annotations

import pytest

from weir.fields.field import Context
from weir.gates import Gates
from weir.validate.registry import find_rule

GROUP = "admissionregistration.k8s.io"
RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
MATCH = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}, "resourceRules": [RULE]}


def problems(kind, spec, old=None, subresource="", **rest):
    context = Context(Gates(), subresource, namespaced=False)
    document = {"metadata": {"name": "p"}, "spec": spec, **rest}
    before = None if old is None else {"metadata": {"name": "p"}, "spec": old}
    return [str(one) for one in find_rule(GROUP, kind)(document, before, context)]


def policy(old=None, **spec):
    whole = {
        "failurePolicy": "Fail",
        "matchConstraints": MATCH,
        "validations": [{"expression": "true"}],
        **spec,
    }
    return problems("ValidatingAdmissionPolicy", whole, old)


def binding(**spec):
    whole = {"policyName": "p", "validationActions": ["Deny"], **spec}
    return problems("ValidatingAdmissionPolicyBinding", whole)


def test_what_people_write_is_taken():
    assert policy() == [] and binding() == []
    assert policy(
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        variables=[{"name": "a", "expression": "params.data"}, {"name": "b", "expression": "variables.a.x"}],
        validations=[{"expression": "variables.b == '1'", "messageExpression": "'b is ' + string(variables.b)"}],
        matchConditions=[{"name": "c", "expression": "params != null"}],
        auditAnnotations=[{"key": "k", "valueExpression": "request.name"}],
    ) == []  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"matchConstraints": None}, "spec.matchConstraints: Required value"),
        ({"matchConstraints": {**MATCH, "resourceRules": []}}, "spec.matchConstraints.resourceRules: Required value"),
        ({"failurePolicy": "X"}, 'spec.failurePolicy: Unsupported value: "X": supported values: "Fail", "Ignore"'),
        (
            {"validations": [{"expression": "1"}]},
            'spec.validations[0].expression: Invalid value: "1": must evaluate to bool but got int',
        ),
        (
            {"validations": [{"expression": "true", "messageExpression": "authorizer"}]},
            "undeclared reference to 'authorizer'",
        ),
        (
            {"variables": [{"name": "a", "expression": "variables.b"}, {"name": "b", "expression": "1"}]},
            "spec.variables[0].expression: Invalid value: \"variables.b\": compilation failed",
        ),
        ({"variables": [{"name": "in", "expression": "1"}]}, "must be a valid CEL identifier"),
        (
            {"auditAnnotations": [{"key": "k", "valueExpression": "1"}]},
            "must evaluate to one of [string null_type] but got int",
        ),
        ({"matchConditions": [{"name": "a", "expression": "params == null"}]}, "undeclared reference to 'params'"),
    ],
)  # fmt: skip
def test_a_policy_is_refused_with_upstreams_words(spec, said):
    (problem,) = policy(**spec)
    assert said in problem


def test_conditions_that_were_accepted_once_are_not_looked_at_again():
    spec = {"matchConditions": [{"name": "a", "expression": "nope"}]}
    assert policy(**spec) != []
    assert policy(spec, **spec) == []
    assert policy({**spec, "paramKind": {"apiVersion": "v1", "kind": "Secret"}}, **spec) != []


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"policyName": ""}, "spec.policyName: Required value"),
        ({"validationActions": []}, "spec.validationActions: Required value"),
        ({"validationActions": ["Deny", "Warn"]}, "must not contain both Deny and Warn"),
        ({"paramRef": {"parameterNotFoundAction": "Deny"}}, "one of name or selector must be specified"),
        ({"paramRef": {"name": "a", "parameterNotFoundAction": "X"}}, 'supported values: "Deny", "Allow"'),
    ],
)
def test_a_binding_is_refused_with_upstreams_words(spec, said):
    (problem,) = binding(**spec)
    assert said in problem


def test_the_status_is_checked_apart():
    status = {"typeChecking": {"expressionWarnings": [{"fieldRef": "", "warning": "w"}]}}
    said = problems("ValidatingAdmissionPolicy", {}, subresource="status", status=status)
    assert said == ["status.typeChecking.expressionWarnings[0].fieldRef: Required value"]
