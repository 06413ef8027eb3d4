"""Which match conditions of webhooks are refused when they are written."""

from __future__ import annotations

import pytest

from weir.validate.admissionregistration.webhook_configuration import validate_expression


@pytest.mark.parametrize(
    "expression",
    [
        "object.metadata.name == 'a'",
        "request.userInfo.groups.exists(g, g == 'x')",
        "authorizer.group('').resource('pods').check('get').allowed()",
        "authorizer.requestResource.check('create').allowed()",
        "namespaceObject.metadata.labels['a'] == 'b'",
    ],
)
def test_a_condition_that_compiles_is_taken(expression):
    assert list(validate_expression(expression, "at")) == []


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("1", "must evaluate to bool but got int"),
        ("object.x", "must evaluate to bool but got dyn"),
        ("nope", "compilation failed: ERROR: <input>:1:1: undeclared reference to 'nope' (in container '')"),
        ("request.nope == 1", "compilation failed: ERROR: <input>:1:8: undefined field 'nope'"),
    ],
)
def test_a_condition_that_is_none_is_refused_with_the_compilers_words(expression, text):
    (problem,) = validate_expression(expression, "at")
    assert problem.detail.startswith(text)
