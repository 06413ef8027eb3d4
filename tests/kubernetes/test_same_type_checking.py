"""A real controller manager warns of the same expressions of policies as weir's does, in the same words."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest

from tests.kubernetes.policy_requests import POLICIES, RULE, policy
from tests.kubernetes.programs import controller_manager
from tests.kubernetes.requests import Asked, Document
from tests.kubernetes.test_same_requests import CONNECTIONS, PATIENCE_SECONDS, TOKEN, both_servers, call
from weir.policies.type_checking import expression_warnings

DEPLOYMENTS = {**RULE, "apiGroups": ["apps"], "resources": ["deployments"]}
TWO = {**RULE, "apiGroups": ["apps"], "resources": ["deployments", "statefulsets/scale", "statefulsets"]}
REVISIONS = {**RULE, "apiGroups": ["apps"], "resources": ["controllerrevisions"]}
PODS = {**RULE, "resources": ["pods"]}
#: types of objects are numbered anew in every check
NUMBERED = re.compile(r"\b([A-Z]\w*?)\d+\b(?=[.)',]|$)")


def about(name: str, *validations: Any, rules: list[Document] | None = None, **spec: Any) -> Document:
    checks = [{"expression": one} if isinstance(one, str) else one for one in validations]
    match = {"resourceRules": rules or [DEPLOYMENTS]}
    return policy(name, matchConstraints=match, validations=checks, **spec)


CASES = {
    one["metadata"]["name"]: one
    for one in (
        about("fine", "object.spec.replicas > 1"),
        about("type", "object.spec.replicas > '1'"),
        about("field", "object.spec.bogus == 1", "object.metadata.labels.app == 'x'"),
        about("old", "oldObject.spec.bogus == 1 || oldObject.spec.replicas == 2"),
        about("two", "object.spec.serviceName == 'a'", rules=[TWO]),
        about("message", {"expression": "true", "messageExpression": "string(object.metadata.nme)"}),
        about("reserved", "object.metadata.namespace == 'x'"),
        about("escaped", "object.metadata.__namespace__ == 'x'"),
        about("wildcard", "object.spec.bogus == 1", rules=[{**RULE, "apiGroups": ["*"]}]),
        about("unknown", "object.spec.bogus == 1", rules=[{**RULE, "apiGroups": ["a.example"]}]),
        about("params", "params.data.a == 1", paramKind={"apiVersion": "v1", "kind": "ConfigMap"}),
        about("params-unknown", "params.x.y == 1", paramKind={"apiVersion": "a.example/v1", "kind": "Gone"}),
        about("variables", "variables.r == 'a'", "variables.s == 1", variables=[
            {"name": "r", "expression": "object.spec.replicas"}, {"name": "s", "expression": "object.spec.bogus"}]),
        about("list", "object.spec.template.spec.containers.all(c, c.imag == 'x')"),
        about("quantity", "object.spec.containers.all(c, c.resources.limits['cpu'] == 1)", rules=[PODS]),
        about("time", "object.metadata.creationTimestamp == 'x'", "object.metadata.creationTimestamp.getHours() == 1"),
        about("int-or-string", "object.spec.strategy.rollingUpdate.maxSurge == 1"),
        about("int-or-string-text", "object.spec.strategy.rollingUpdate.maxSurge == 'a'"),
        about("bytes", "object.data.a == 'x'", rules=[{**RULE, "resources": ["secrets"]}]),
        about("whole", "object.spec == 1", "object.metadata.labels == 1"),
        about("request", "request.userInfo.groups == object.metadata.name"),
        about("rights", "authorizer.group('').resource('pods').check('get').allowed()"),
        about("rights-request", "authorizer.requestResource.check('get').allowed()"),
        about("fields", "object.metadata.managedFields.all(f, f.fieldsV1.x == 1)"),
        about("dyn", "object.data.bogus == 1", rules=[REVISIONS]),
        about("optional", "object.spec.?replicas.orValue('a') == 'a'", "has(object.spec.bogus)"),
    )
}  # fmt: skip


@pytest.fixture(scope="module")
def checked(tmp_path_factory) -> dict[str, Document]:
    """Every policy with the status that a real controller gave it."""
    folder = tmp_path_factory.mktemp("types")
    found = {}
    with both_servers(folder) as (real, _):
        kubeconfig = folder / "admin.kubeconfig"
        kubeconfig.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": real, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "u", "user": {"token": TOKEN}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }))  # fmt: skip
        for one in CASES.values():
            code, said, _ = call(real, Asked("create", "POST", POLICIES, one))
            assert code == 201, said
        named = "--controllers=validatingadmissionpolicy-status-controller"
        with controller_manager(folder, kubeconfig, named):
            deadline = time.monotonic() + PATIENCE_SECONDS
            for name in CASES:
                while True:
                    found[name] = call(real, Asked("get", "GET", f"{POLICIES}/{name}"))[1]
                    if (found[name].get("status") or {}).get("observedGeneration") == 1:
                        break
                    assert time.monotonic() < deadline
                    time.sleep(0.1)
        CONNECTIONS.pop(real).close()  # a server that stops waits for it
    return found


def plain(warnings: list[Document]) -> list[tuple[str, str]]:
    return [(one["fieldRef"], NUMBERED.sub(r"\1", one["warning"])) for one in warnings]


@pytest.mark.parametrize("name", list(CASES))
def test_both_warn_of_the_same_expressions(checked, name):
    status = checked[name]["status"]
    real = (status.get("typeChecking") or {}).get("expressionWarnings") or []
    assert plain(expression_warnings(checked[name])) == plain(real)


def test_some_expressions_are_warned_of(checked):
    assert sum("expressionWarnings" in one["status"].get("typeChecking", {}) for one in checked.values()) > 5
