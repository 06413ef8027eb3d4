"""Admission policies to write, asked of a real API server and of weir: what is stored, defaulted and refused."""

# ruff: noqa: E501  (tables read better on long lines)

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.kubernetes.more_requests import Questions
from tests.kubernetes.requests import APPLY, MERGE, TABLE, Asked, Document, document

GROUP = "/apis/admissionregistration.k8s.io/v1"
VERSION = "admissionregistration.k8s.io/v1"
POLICIES = f"{GROUP}/validatingadmissionpolicies"
BINDINGS = f"{GROUP}/validatingadmissionpolicybindings"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
MATCH = {"resourceRules": [RULE]}
VALID = [{"expression": "true"}]


def policy(name: str, **spec: Any) -> Document:
    """A ValidatingAdmissionPolicy about configmaps."""
    whole = {"matchConstraints": MATCH, "validations": VALID, **spec}
    kept = {field: value for field, value in whole.items() if value is not ...}
    return document("ValidatingAdmissionPolicy", name, VERSION, spec=kept)


def binding(name: str, **spec: Any) -> Document:
    whole = {"policyName": name, "validationActions": ["Deny"], **spec}
    kept = {field: value for field, value in whole.items() if value is not ...}
    return document("ValidatingAdmissionPolicyBinding", name, VERSION, spec=kept)


def stored() -> Iterator[Asked]:
    q = Questions("policies")
    everything = policy(
        "whole",
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        variables=[{"name": "a", "expression": "object.metadata.name"}],
        matchConditions=[{"name": "c", "expression": "params != null"}],
        validations=[
            {
                "expression": "variables.a != ''",
                "message": " m ",
                "messageExpression": "'no ' + params.data.x",
            },
            {
                "expression": "authorizer.group('').resource('pods').check('get').allowed()",
                "reason": "Forbidden",
            },
        ],
        auditAnnotations=[{"key": "k", "valueExpression": "null"}],
        failurePolicy="Ignore",
    )
    q.ask("create", "POST", POLICIES, everything)
    q.ask("plain", "POST", POLICIES, policy("plain"))
    q.ask("get", "GET", f"{POLICIES}/whole")
    q.ask("table", "GET", f"{POLICIES}/whole", accept=TABLE)
    q.ask("list", "GET", POLICIES, accept=TABLE)
    q.ask("change", "PATCH", f"{POLICIES}/plain", {"spec": {"failurePolicy": "Ignore"}}, MERGE)
    q.ask("label", "PATCH", f"{POLICIES}/plain", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    q.ask("status dropped", "PATCH", f"{POLICIES}/plain", {"status": {"observedGeneration": 7}}, MERGE)
    q.ask("status", "PATCH", f"{POLICIES}/plain/status", {"status": {"observedGeneration": 7}}, MERGE)
    q.ask(
        "status warnings",
        "PATCH",
        f"{POLICIES}/plain/status",
        {"status": {"typeChecking": {"expressionWarnings": [{"fieldRef": "", "warning": ""}]}}},
        MERGE,
    )
    q.ask(
        "status conditions",
        "PATCH",
        f"{POLICIES}/plain/status",
        {"status": {"conditions": [{"type": "Ready", "status": "Perhaps", "reason": "", "message": ""}]}},
        MERGE,
    )
    q.ask("unconditional", "PUT", f"{POLICIES}/plain", policy("plain"))
    q.ask("apply", "PATCH", f"{POLICIES}/applied?fieldManager=m", policy("applied"), APPLY)
    q.ask("apply again", "PATCH", f"{POLICIES}/applied?fieldManager=n", policy("applied"), APPLY)
    q.ask(
        "binding",
        "POST",
        BINDINGS,
        binding("whole", paramRef={"name": "p", "parameterNotFoundAction": "Deny"}),
    )
    selecting = {
        "namespace": "default",
        "selector": {
            "matchLabels": {"b": "c", "a": "b"},
            "matchExpressions": [{"key": "k", "operator": "In", "values": ["x", "y"]}],
        },
        "parameterNotFoundAction": "Allow",
    }
    q.ask("binding selecting", "POST", BINDINGS, binding("selecting", policyName="plain", paramRef=selecting))
    q.ask(
        "binding matching",
        "POST",
        BINDINGS,
        binding("matching", policyName="plain", matchResources={"excludeResourceRules": [RULE]}),
    )
    q.ask("bindings table", "GET", BINDINGS, accept=TABLE)
    q.ask(
        "binding change", "PATCH", f"{BINDINGS}/matching", {"spec": {"validationActions": ["Audit"]}}, MERGE
    )
    q.ask("unknown field", "POST", f"{POLICIES}?fieldValidation=Strict", policy("f", bogus=1))
    for name in ("whole", "plain", "applied"):
        q.ask(f"delete {name}", "DELETE", f"{POLICIES}/{name}")
    for name in ("whole", "selecting", "matching"):
        q.ask(f"delete binding {name}", "DELETE", f"{BINDINGS}/{name}")
    yield from q.asked


def refused() -> Iterator[Asked]:
    q = Questions("refused policies")

    def p(name: str, **spec: Any) -> None:
        q.ask(name, "POST", f"{POLICIES}?dryRun=All", policy(name.replace(" ", "-"), **spec))

    def v(name: str, expression: str, **rest: Any) -> None:
        p(name, validations=[{"expression": expression, **rest}])

    p("no match", matchConstraints=...)
    p("no rules", matchConstraints={"resourceRules": []})
    p("failure policy", failurePolicy="Maybe")
    p("match policy", matchConstraints={**MATCH, "matchPolicy": "Near"})
    p("selectors", matchConstraints={**MATCH, "namespaceSelector": {"matchLabels": {"a b": "c d"}},
      "objectSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}})  # fmt: skip
    p("empty rule", matchConstraints={"resourceRules": [{}]})
    p("rule", matchConstraints={"resourceRules": [
        {**RULE, "operations": ["*", "READ"], "apiGroups": ["*", "apps"], "apiVersions": ["*", ""],
         "resources": ["*", "pods", "*/*", "pods/status"], "scope": "Some"}]})  # fmt: skip
    p("names", matchConstraints={"resourceRules": [{**RULE, "resourceNames": ["a", "a", "b/c", ".."]}]})
    p("excluded", matchConstraints={**MATCH, "excludeResourceRules": [{**RULE, "operations": ["X"]}]})
    p("nothing", validations=[])
    p("empty expression", validations=[{"expression": " "}])
    v("number", "1")
    v("dyn", "object.spec")
    v("undeclared", "nope == 1")
    v("no params", "params.data.a == '1'")
    v("no variables", "variables.a == '1'")
    v("request field", "request.bogus == 'a'")
    v("request object", "request.object == null")
    v("namespace field", "namespaceObject.metadata.bogus == 'a'")
    v(
        "namespace fine",
        "namespaceObject.metadata.labels['a'] == 'b' && namespaceObject.status.phase == 'Active'",
    )
    v("syntax", "object.")
    v("two lines", "object.\nmetadata.name == 'a' +\n 1")
    v("authorizer", "authorizer.path('/healthz').check('get').allowed() && "
      "authorizer.requestResource.check('x').allowed()")  # fmt: skip
    v("authorizer typed", "authorizer.group('').check('get').allowed()")
    v("regex", "object.metadata.name.matches('[')")
    v("message", "true", message=" ")
    v("message lines", "true", message="a\nb")
    v("message fine", "true", message="a\n")
    v("reason", "true", reason="Unauthorized")
    v("message expression", "true", messageExpression="1")
    v("message expression empty", "true", messageExpression=" ")
    v("message expression rights", "true", messageExpression="authorizer.path('/x').check('get').reason()")
    v("message expression params", "true", messageExpression="params.data.a")
    v("quantity", "quantity('1Gi').isGreaterThan(quantity('1Mi')) && ip('1.2.3.4').family() == 4")
    v("format", "'%d'.format([1]) == '1' && '%q'.format(['x']) == 'x'")
    v("expensive", "object.items.all(a, object.items.all(b, object.items.all(c, a == b && b == c)))")
    v("optional", "object.?spec.?replicas.orValue(1) > 0 && optional.of(1).hasValue()")
    v("semver", "semver('1.2.3').isGreaterThan(semver('1.0.0'))")
    v("list of mixed", "[1, 'a'].size() == 2")
    v("type", "type(object) == map && type(request) == map")
    v("struct", "Object{}.a == 1")
    p("variables", variables=[
        {"name": "", "expression": ""}, {"name": "1a", "expression": "1"}, {"name": "in", "expression": "1"},
        {"name": "b", "expression": "variables.c + 1"}, {"name": "c", "expression": "1"},
        {"name": "d", "expression": "variables.c + 'x'"}, {"name": "e", "expression": "nope"},
    ])  # fmt: skip
    p("variable types", variables=[
        {"name": "i", "expression": "1"}, {"name": "s", "expression": "'a'"}, {"name": "l", "expression": "[1]"},
        {"name": "m", "expression": "{'a': 1}"}, {"name": "d", "expression": "object.metadata"},
        {"name": "t", "expression": "timestamp('2020-01-01T00:00:00Z')"}, {"name": "r", "expression": "request"},
        {"name": "o", "expression": "optional.of(1)"}, {"name": "q", "expression": "quantity('1')"},
    ], validations=[{"expression": f"variables.{name} == {other}"} for name, other in (
        ("i", "'a'"), ("s", "1"), ("l", "['a']"), ("m", "{'a': 'b'}"), ("d", "1"), ("t", "1"), ("r", "1"),
        ("o", "1"), ("q", "1"), ("z", "1"))])  # fmt: skip
    p("variables with params", paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
      variables=[{"name": "a", "expression": "params.data.x"}],
      validations=[{"expression": "variables.a == 'b'", "messageExpression": "variables.a + params.data.y"}])  # fmt: skip
    p("message variables", variables=[{"name": "a", "expression": "1"}],
      validations=[{"expression": "true", "messageExpression": "variables.a"}])  # fmt: skip
    p("conditions", matchConditions=[
        {"name": "", "expression": ""}, {"name": "a b", "expression": "1"}, {"name": "x", "expression": "true"},
        {"name": "x", "expression": "params == null"}, {"name": "y", "expression": "variables.a"},
    ])  # fmt: skip
    p("many conditions", matchConditions=[{"name": f"n{i}", "expression": "true"} for i in range(65)])
    for kind in ({}, {"apiVersion": "a/b/c", "kind": "K"}, {"apiVersion": "A_/v1", "kind": "K"},
                 {"apiVersion": "/", "kind": "1a"}, {"apiVersion": "a.b/1v", "kind": "Ab_c"}):  # fmt: skip
        p("param kind", paramKind=kind)
    p("annotations", auditAnnotations=[
        {"key": "", "valueExpression": ""}, {"key": "a/b", "valueExpression": "1"},
        {"key": "x", "valueExpression": "object.spec"}, {"key": "x", "valueExpression": " 'a' "},
        {"key": "y", "valueExpression": "null"}, {"key": "z", "valueExpression": "'" + "a" * 5200 + "'"},
        {"key": "w", "valueExpression": " nope "},
    ])  # fmt: skip
    p("annotations only", validations=..., auditAnnotations=[{"key": "x", "valueExpression": "'a'"}])
    p("many annotations", auditAnnotations=[{"key": f"k{i}", "valueExpression": "'a'"} for i in range(21)])
    q.ask("generated", "POST", f"{POLICIES}?dryRun=All", {
        **policy("x", auditAnnotations=[{"key": "a", "valueExpression": "'a'"}]), "metadata": {"generateName": "g-"},
    })  # fmt: skip
    q.ask("bad name", "POST", f"{POLICIES}?dryRun=All", policy("A_b"))
    q.ask("static name", "POST", f"{POLICIES}?dryRun=All", policy("a.static.k8s.io"))

    def b(name: str, **spec: Any) -> None:
        q.ask(f"binding {name}", "POST", f"{BINDINGS}?dryRun=All", binding(name.replace(" ", "-"), **spec))

    b("no policy", policyName="")
    b("policy name", policyName="A_b")
    b("no actions", validationActions=[])
    b("no spec actions", validationActions=...)
    b("actions", validationActions=["Deny", "Deny", "Shout"])
    b("deny and warn", validationActions=["Deny", "Warn"])
    b("empty ref", paramRef={})
    b(
        "both",
        paramRef={"name": "a/b", "selector": {"matchLabels": {"a b": "c"}}, "parameterNotFoundAction": "X"},
    )
    b("match", matchResources={"resourceRules": [{**RULE, "resourceNames": ["%"]}], "matchPolicy": "x"})
    b("everything", matchResources={})
    yield from q.asked


def rights() -> Iterator[Asked]:
    """Policies of somebody who may write policies and read few parameters."""
    q = Questions("rights of policies")
    group = "rbac.authorization.k8s.io"
    rules = [
        {"apiGroups": [VERSION.partition("/")[0]], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"], "verbs": ["get"]},
    ]
    role = document("ClusterRole", "policy-writer", f"{group}/v1", rules=rules)
    subjects = [{"kind": "Group", "name": "policy-writers", "apiGroup": group}]
    bound = document("ClusterRoleBinding", "policy-writers", f"{group}/v1", subjects=subjects,
                     roleRef={"apiGroup": group, "kind": "ClusterRole", "name": "policy-writer"})  # fmt: skip
    q.ask("role", "POST", f"/apis/{group}/v1/clusterroles", role)
    q.ask("role binding", "POST", f"/apis/{group}/v1/clusterrolebindings", bound)
    secrets, maps = ({"apiVersion": "v1", "kind": kind} for kind in ("Secret", "ConfigMap"))
    q.ask("of maps", "POST", POLICIES, policy("of-maps", paramKind=maps))
    yield from q.asked
    who = {"Impersonate-User": "jane", "Impersonate-Group": "policy-writers"}
    ref = {"parameterNotFoundAction": "Deny"}
    for number, (path, one) in enumerate((
        (POLICIES, policy("r-secrets", paramKind=secrets)),
        (POLICIES, policy("r-maps", paramKind=maps)),
        (POLICIES, policy("r-gone", paramKind={"apiVersion": "a.example/v1", "kind": "Gone"})),
        (POLICIES, policy("r-none")),
        (BINDINGS, binding("of-maps", paramRef={**ref, "name": "mine"})),
        (BINDINGS, binding("of-maps", paramRef={**ref, "name": "other"})),
        (BINDINGS, binding("of-maps", paramRef={**ref, "selector": {}})),
        (BINDINGS, binding("of-nobody", paramRef={**ref, "name": "mine"})),
        (BINDINGS, binding("of-maps")),
    )):  # fmt: skip
        yield Asked(f"rights of policies as jane {number}", "POST", f"{path}?dryRun=All", one, headers=who)
    yield Asked("rights of policies: clean", "DELETE", f"{POLICIES}/of-maps")


POLICY_REQUESTS: list[Asked] = [*stored(), *refused(), *rights()]
