"""Mutating admission policies, written, refused and at work, asked of a real API server and of weir."""

# ruff: noqa: E501  (tables read better on long lines)

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.kubernetes.more_requests import Questions
from tests.kubernetes.policy_cases import CM, MAPS, Judged, config, constraints, create
from tests.kubernetes.policy_requests import GROUP, MATCH, RULE, VERSION
from tests.kubernetes.requests import MERGE, NS, TABLE, Asked, Document, document, pod

POLICIES = f"{GROUP}/mutatingadmissionpolicies"
BINDINGS = f"{GROUP}/mutatingadmissionpolicybindings"


def apply(expression: str) -> Document:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patch(expression: str) -> Document:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def policy(name: str, *mutations: Document, **spec: Any) -> Document:
    whole = {"matchConstraints": MATCH, "mutations": list(mutations), "reinvocationPolicy": "Never", **spec}
    kept = {field: value for field, value in whole.items() if value is not ...}
    return document("MutatingAdmissionPolicy", name, VERSION, spec=kept)


def binding(name: str, **spec: Any) -> Document:
    return document("MutatingAdmissionPolicyBinding", name, VERSION, spec={"policyName": name, **spec})


LABEL = apply("Object{metadata: Object.metadata{labels: {'a': 'b'}}}")


def written() -> Iterator[Asked]:
    q = Questions("mutating policies")
    q.ask(
        "create",
        "POST",
        POLICIES,
        policy("whole", LABEL, patch("[JSONPatch{op: 'add', path: '/data/x', value: 'y'}]")),
    )
    q.ask("table", "GET", POLICIES, accept=TABLE)
    q.ask("change", "PATCH", f"{POLICIES}/whole", {"spec": {"reinvocationPolicy": "IfNeeded"}}, MERGE)
    q.ask("binding", "POST", BINDINGS, binding("whole"))
    q.ask("bindings", "GET", BINDINGS, accept=TABLE)
    q.ask("delete", "DELETE", f"{POLICIES}/whole")
    q.ask("delete binding", "DELETE", f"{BINDINGS}/whole")

    def p(name: str, *mutations: Document, **spec: Any) -> None:
        q.ask(name, "POST", f"{POLICIES}?dryRun=All", policy(name.replace(" ", "-"), *mutations, **spec))

    p("none")
    p("no reinvocation", LABEL, reinvocationPolicy=...)
    p("reinvocation", LABEL, reinvocationPolicy="Always")
    p("no match", LABEL, matchConstraints=...)
    p(
        "delete operation",
        LABEL,
        matchConstraints={"resourceRules": [{**RULE, "operations": ["DELETE", "CREATE"]}]},
    )
    p("no type", {})
    p("type", {"patchType": "Strategic"})
    p("no configuration", {"patchType": "ApplyConfiguration"})
    p("no patch", {"patchType": "JSONPatch"})
    p("both", {**LABEL, "jsonPatch": {"expression": "[]"}})
    p("both patches", {**patch("[]"), "applyConfiguration": {"expression": "Object{}"}})
    p("empty", apply(" "), patch(""))
    for expression in ("Object{}", "{'a': 1}", "Object.spec{}", "Object{spec: Object.spec{replicas: 1}}", "object",
                       "Object{a: nope}", "true ? Object{a: 1} : Object{}", "variables.a", "Objects{}", "Object",
                       "Object{metadata: Object.metadata{?labels: optional.none()}}"):  # fmt: skip
        p("configuration", apply(expression))
    for expression in ("[]", "[JSONPatch{op: 'add'}]", "JSONPatch{}", "[JSONPatch{op: 1}]", "[JSONPatch{path: object.a}]",
                       "[JSONPatch{op: 'add', value: {'a': 1}}, JSONPatch{value: [1]}]", "[1]",
                       "has(object.x) ? [JSONPatch{op: 'add', path: '/x', value: 1}] : []",
                       "[JSONPatch{op: 'add', path: '/' + jsonpatch.escapeKey('a/b~c'), value: Object.spec{a: 1}}]",
                       "[JSONPatch{op: 'add', path: '/' + jsonpatch.escapeKey(1)}]", "object.items.map(i, JSONPatch{})"):  # fmt: skip
        p("patch", patch(expression))
    p("variables", apply("Object{metadata: Object.metadata{labels: variables.l}}"), variables=[
        {"name": "l", "expression": "{'a': 'b'}"}, {"name": "m", "expression": "Object{}"}])  # fmt: skip
    p("condition", LABEL, matchConditions=[{"name": "c", "expression": "Object{} == Object{}"}])
    q.ask("binding operations", "POST", f"{BINDINGS}?dryRun=All", binding(
        "x", matchResources={"resourceRules": [{**RULE, "operations": ["DELETE"]}]}))  # fmt: skip
    q.ask("binding nothing", "POST", f"{BINDINGS}?dryRun=All", binding("x", policyName=""))
    yield from q.asked


MUTATING_REQUESTS: list[Asked] = list(written())
MUTATING: dict[str, Judged] = {}


def case(
    name: str,
    *mutations: Document,
    asked: list[Asked] | None = None,
    rules: list[Document] | None = None,
    bound: Document | None = None,
    before: list[Asked] | None = None,
    **spec: Any,
) -> None:
    made = policy(name, *mutations, matchConstraints=constraints(name, rules or [RULE]), **spec)
    MUTATING[name] = Judged(
        name, [made], [binding(name, **(bound or {}))], asked or [create(config(name))], before or []
    )


PODS = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}]


def pods(name: str, **spec: Any) -> list[Asked]:
    return [create(pod(f"{name}-p", metadata={"labels": {"case": name}}, **spec), f"{NS}/pods")]


case("m-label", LABEL)
case("m-data", apply("Object{data: {'x': object.data.a + '!'}}"))
case(
    "m-patch",
    patch("[JSONPatch{op: 'add', path: '/data/x', value: 'y'}, JSONPatch{op: 'remove', path: '/data/a'}]"),
)
case("m-patch-object", patch("[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'k': 'v'}}]"))
case(
    "m-patch-test",
    patch("[JSONPatch{op: 'test', path: '/data/a', value: '2'}, JSONPatch{op: 'remove', path: '/data/a'}]"),
)
case(
    "m-patch-test-holds",
    patch("[JSONPatch{op: 'test', path: '/data/a', value: '1'}, JSONPatch{op: 'remove', path: '/data/a'}]"),
)
case("m-patch-fails", patch("[JSONPatch{op: 'remove', path: '/data/zzz'}]"))
case("m-patch-op", patch("[JSONPatch{op: 'bend', path: '/data/zzz'}]"))
case("m-patch-fails-ignored", patch("[JSONPatch{op: 'remove', path: '/data/zzz'}]"), failurePolicy="Ignore")
case(
    "m-patch-escape",
    patch(
        "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('example.com/a~b'.replace('~', '-')), value: 'v'}]"
    ),
)
case(
    "m-patch-copy",
    patch(
        "[JSONPatch{op: 'copy', from: '/data/a', path: '/data/b'}, JSONPatch{op: 'move', from: '/data/a', path: '/data/c'}]"
    ),
)
case("m-patch-unknown", patch("[JSONPatch{op: 'add', path: '/bogus', value: 1}]"))
case("m-patch-type", patch("[JSONPatch{op: 'add', path: '/data', value: 1}]"))
case("m-unknown", apply("Object{bogus: 'x'}"))
case("m-wrong-type", apply("Object{data: 'x'}"))
case("m-misnamed", apply("Object{metadata: Object.spec{labels: {'a': 'b'}}}"))
case("m-error", apply("Object{data: {'x': string(object.data.zzz)}}"))
case("m-error-ignored", apply("Object{data: {'x': string(object.data.zzz)}}"), failurePolicy="Ignore")
case("m-in-order", apply("Object{data: {'x': '1'}}"), apply("Object{data: {'y': object.data.x + '2'}}"))
case(
    "m-half",
    apply("Object{data: {'x': '1'}}"),
    apply("Object{data: {'y': string(object.data.zzz)}}"),
    failurePolicy="Ignore",
)
case("m-condition", LABEL, matchConditions=[{"name": "c", "expression": "object.data.a == '2'"}],
     asked=[create(config("m-condition", {"a": a}, i)) for i, a in enumerate("12")])  # fmt: skip
case("m-condition-fails", LABEL, matchConditions=[{"name": "c", "expression": "object.data.zzz == '2'"}])
case("m-params", apply("Object{data: {'p': params.data.a}}"), paramKind=CM,
     before=[Asked("p", "POST", MAPS, document("ConfigMap", "m-params-p", data={"a": "7"}))],
     bound={"paramRef": {"name": "m-params-p", "parameterNotFoundAction": "Deny"}})  # fmt: skip
case(
    "m-params-missing",
    LABEL,
    paramKind=CM,
    bound={"paramRef": {"name": "gone", "parameterNotFoundAction": "Deny"}},
)
case("m-params-unknown", LABEL, paramKind={"apiVersion": "a.example/v1", "kind": "Gone"},
     bound={"paramRef": {"name": "gone", "parameterNotFoundAction": "Deny"}})  # fmt: skip
case(
    "m-variables",
    apply("Object{data: {'v': variables.v}}"),
    variables=[{"name": "v", "expression": "object.data.a + '?'"}],
)
case("m-sidecar", apply("Object{spec: Object.spec{initContainers: [Object.spec.initContainers{name: 'side', image: 'proxy:1', restartPolicy: 'Always'}]}}"),
     rules=PODS, asked=pods("m-sidecar"))  # fmt: skip
case("m-container", apply("Object{spec: Object.spec{containers: object.spec.containers.map(c, Object.spec.containers{name: c.name, imagePullPolicy: 'Always'})}}"),
     rules=PODS, asked=pods("m-container", containers=[{"name": "a", "image": "x:1"}, {"name": "b", "image": "y:1"}]))  # fmt: skip
case("m-atomic", apply("Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', args: ['x']}]}}"),
     rules=PODS, asked=pods("m-atomic"))  # fmt: skip
case(
    "m-atomic-map",
    apply("Object{spec: Object.spec{nodeSelector: {'a': 'b'}}}"),
    rules=PODS,
    asked=pods("m-atomic-map"),
)
case("m-toleration", patch("[JSONPatch{op: 'add', path: '/spec/tolerations/-', value: Object.spec.tolerations{key: 'gpu', operator: 'Exists'}}]"),
     rules=PODS, asked=pods("m-toleration", tolerations=[{"key": "a", "operator": "Exists"}]))  # fmt: skip
case(
    "m-invalid",
    apply("Object{spec: Object.spec{restartPolicy: 'Perhaps'}}"),
    rules=PODS,
    asked=pods("m-invalid"),
)
case("m-env", apply("Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', env: [Object.spec.containers.env{name: 'A', value: 'b'}]}]}}"),
     rules=PODS, asked=pods("m-env"))  # fmt: skip
case("m-ports", apply("Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', ports: [Object.spec.containers.ports{containerPort: 80}]}]}}"),
     rules=PODS, asked=pods("m-ports"))  # fmt: skip
case("m-deployment", apply("Object{spec: Object.spec{replicas: 3}}"), rules=[
    {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"], "operations": ["CREATE"]}], asked=[create(
        document("Deployment", "m-d", "apps/v1", metadata={"labels": {"case": "m-deployment"}}, spec={
            "selector": {"matchLabels": {"app": "a"}}, "template": {
                "metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "app"}]}}}),
        "/apis/apps/v1/namespaces/default/deployments")])  # fmt: skip
case("m-update", apply("Object{data: {'was': oldObject == null ? 'new' : oldObject.data.a}}"),
     rules=[{**RULE, "operations": ["CREATE", "UPDATE"]}], asked=[
         create(config("m-update"), query=""), Asked("x", "PATCH", f"{MAPS}/m-update-0", {"data": {"a": "2"}}, MERGE),
         Asked("x", "DELETE", f"{MAPS}/m-update-0")])  # fmt: skip
case(
    "m-user",
    apply(
        "Object{metadata: Object.metadata{annotations: {'by': request.userInfo.username, 'may': string(authorizer.requestResource.check('create').allowed())}}}"
    ),
)
case("m-status", apply("Object{status: Object.status{message: 'x'}}"), rules=PODS, asked=pods("m-status"))
case("m-name", apply("Object{metadata: Object.metadata{name: 'other'}}"))
case("m-remove", apply("Object{metadata: Object.metadata{?labels: optional.none()}}"))
case("m-null", apply("Object{data: {'a': null}}"))
case("m-number", apply("Object{data: {'a': 5}}"))
