"""A real controller manager warns of the same expressions of policies as weir's does, in the same words.

Also where a policy is about custom kinds: their types come from the schemas that the real server publishes.
"""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest

from tests.kubernetes.policy_requests import POLICIES, RULE, policy
from tests.kubernetes.programs import controller_manager
from tests.kubernetes.requests import Asked, Document, document
from tests.kubernetes.test_same_requests import CONNECTIONS, PATIENCE_SECONDS, TOKEN, both_servers, call
from weir.compat.policies.type_checking import expression_warnings

DEPLOYMENTS = {**RULE, "apiGroups": ["apps"], "resources": ["deployments"]}
TWO = {**RULE, "apiGroups": ["apps"], "resources": ["deployments", "statefulsets/scale", "statefulsets"]}
REVISIONS = {**RULE, "apiGroups": ["apps"], "resources": ["controllerrevisions"]}
PODS = {**RULE, "resources": ["pods"]}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
#: types of objects are numbered anew in every check
NUMBERED = re.compile(r"\b([A-Z]\w*?)\d+\b(?=[.)',]|$)")


def about(name: str, *validations: Any, rules: list[Document] | None = None, **spec: Any) -> Document:
    checks = [{"expression": one} if isinstance(one, str) else one for one in validations]
    match = {"resourceRules": rules or [DEPLOYMENTS]}
    return policy(name, matchConstraints=match, validations=checks, **spec)


def objects(**properties: Document) -> Document:
    return {"type": "object", "properties": properties}


def lists(of: Document) -> Document:
    return {"type": "array", "items": of}


def maps(of: Document) -> Document:
    return {"type": "object", "additionalProperties": of}


def definition(plural: str, kind: str, *versions: tuple[str, Document], **names: str) -> Document:
    """A definition whose first version is stored."""
    listed = [
        {"name": name, "served": True, "storage": not i, "schema": {"openAPIV3Schema": found}}
        for i, (name, found) in enumerate(versions)
    ]
    group = "types.example.com"
    spec = {
        "group": group,
        "names": {"plural": plural, "kind": kind, **names},
        "scope": "Cluster",
        "versions": listed,
    }
    return document("CustomResourceDefinition", f"{plural}.{group}", "apiextensions.k8s.io/v1", spec=spec)


ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}
EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True}
SPEC = objects(
    text=TEXT, number=NUMBER, ratio={"type": "number"}, flag={"type": "boolean"},
    amount={"x-kubernetes-int-or-string": True},
    when={**TEXT, "format": "date-time"}, day={**TEXT, "format": "date"}, wait={**TEXT, "format": "duration"},
    raw={**TEXT, "format": "byte"}, mail={**TEXT, "format": "email"},
    texts=lists(TEXT), parts=lists(objects(name=TEXT, sizes=lists(NUMBER))), labels=maps(TEXT),
    byname=maps(objects(x=NUMBER)), any=ANYTHING, loose={**objects(x=NUMBER), **ANYTHING},
    loosely=lists(ANYTHING), nothing={"type": "object"}, free={"type": "object", "additionalProperties": True},
    pod={**EMBEDDED, **ANYTHING}, pods=lists({**EMBEDDED, **ANYTHING}),
    template={**EMBEDDED, **objects(spec=objects(x=NUMBER))},
    choice={**TEXT, "enum": ["a", "b"]}, maybe={**TEXT, "nullable": True},
    **{"a-b": objects(c=TEXT), "namespace": TEXT, "while": objects(x=NUMBER), "1st": TEXT, "a__b": NUMBER},
)  # fmt: skip
CUSTOM = [
    definition(
        "widgets", "Widget", ("v1", objects(spec=SPEC, metadata=objects(name={**TEXT, "maxLength": 9})))
    ),
    definition(
        "gadgets", "Gadget", ("v1beta1", objects(old=NUMBER)), ("v1", objects(new=NUMBER)), singular="gizmo"
    ),
    definition("anythings", "Anything", ("v1", {"type": "object", **ANYTHING})),
    definition("deployments", "Deployment", ("v1", objects(spec=objects(custom=NUMBER)))),
    *(definition(f"things{i:02}", f"Thing{i:02}", ("v1", objects(x=TEXT))) for i in range(11)),
]
WIDGETS = {**RULE, "apiGroups": ["types.example.com"], "resources": ["widgets"]}
GADGETS = {**WIDGETS, "apiVersions": ["v1beta1", "v1", "v2"], "resources": ["gadgets"]}
THINGS = {**WIDGETS, "resources": [f"things{i:02}" for i in range(11)]}
SETS = {**RULE, "apiGroups": ["apps"], "resources": ["replicasets", "daemonsets"]}
PARAMS = {"apiVersion": "types.example.com/v1", "kind": "Widget"}


def widgets(name: str, *validations: Any, **spec: Any) -> Document:
    return about(f"widgets-{name}", *validations, rules=[WIDGETS], **spec)


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
        about("core-is-any", "object.spec.bogus == 1", rules=[{**RULE, "resources": ["deployments"]}]),
        about("events", "object.bogus == 1", rules=[{**RULE, "resources": ["events"]}]),
        about("singular", "object.spec.bogus == 1", rules=[{**TWO, "resources": ["deployment", "StatefulSets"]}]),
        about("circular", "object.spec.versions.all(v, v.schema.openAPIV3Schema.not.not.bogus == 1)", rules=[
            {**RULE, "apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"]}]),
        about("json", "object.spec.versions.all(v, v.schema.openAPIV3Schema.default.bogus == 1)",
              "object.spec.versions.all(v, v.schema.openAPIV3Schema.items.bogus == 1)", rules=[
            {**RULE, "apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"]}]),
        widgets("fine", "object.spec.number > 1 && object.spec.text == 'a' && object.spec.ratio < 0.5",
                "object.spec.flag == true"),
        widgets("field", "object.spec.bogus == 1", "object.bogus == 1", "oldObject.spec.bogus == 1"),
        widgets("type", "object.spec.number > '1'", "object.spec.ratio == 1", "object.spec.flag == 'a'"),
        widgets("int-or-string", "object.spec.amount == 1", "object.spec.amount == 'a'", "object.spec.amount.x == 1"),
        widgets("formats", "object.spec.when == 1", "object.spec.day == 1", "object.spec.wait == 1",
                "object.spec.raw == 1", "object.spec.mail == 1"),
        widgets("lists", "object.spec.texts == 1", "object.spec.texts[0] == 1", "object.spec.parts[0].bogus == 1",
                "object.spec.parts.all(p, p.sizes.exists(s, s == 'a'))", "object.spec.parts == 1"),
        widgets("maps", "object.spec.labels == 1", "object.spec.labels.a == 1", "object.spec.labels['a'] == 'b'",
                "object.spec.byname.all(k, object.spec.byname[k].y == 1)", "object.spec.byname == 1"),
        widgets("unknown-fields", "object.spec.any == 1", "object.spec.any.x == 1", "object.spec.loose.x == 1",
                "object.spec.loose.y == 1", "object.spec.loosely == 1", "object.spec.nothing.x == 1",
                "object.spec.free.x == 1", "object.spec.nothing == 1"),
        widgets("embedded", "object.spec.pod.kind == 'Pod' && object.spec.pod.metadata.labels['a'] == 'b'",
                "object.spec.pod.spec == 1", "object.spec.template.spec.x == 'a'", "object.spec.template.metadata == 1",
                "object.spec.template.metadata.ownerReferences[0].uid == 1", "object.spec.pods[0].metadata.bogus == 1"),
        widgets("metadata", "object.metadata.labels['a'] == 'b' && object.metadata.generation == 1",
                "object.metadata.creationTimestamp == 'x'", "object.metadata.bogus == 1", "object.apiVersion == 1",
                "object.metadata == 1", "object.metadata.ownerReferences.all(o, o.controller == 'x')"),
        widgets("names", "object.spec.a__dash__b.c == 1", "object.spec.a__dash__b == 1", "object.spec.namespace == 1",
                "object.spec.__namespace__ == 1", "object.spec.while == 1", "object.spec.__while__ == 1",
                "object.spec.a__underscores__b == 'a'", "object.spec.a__b == 1", "object.spec.__1st == 'a'"),
        widgets("choice", "object.spec.choice == 1", "object.spec.maybe == null", "object.spec.maybe == 1"),
        widgets("params", "params.spec.number == 'a'", "params.metadata.bogus == 1", paramKind=PARAMS),
        widgets("params-version", "params.spec.x == 1", paramKind={**PARAMS, "apiVersion": "types.example.com/v9"}),
        widgets("params-unnamed", "params.spec.number == 'a'", paramKind={**PARAMS, "kind": "widget"}),
        widgets("variables", "variables.n == 'a'", "variables.p.bogus == 1", variables=[
            {"name": "n", "expression": "object.spec.number"}, {"name": "p", "expression": "object.spec.parts[0]"}]),
        widgets("whole", "object == 1", "object.spec == params", paramKind=PARAMS),
        about("versions", "object.new == 1", "object.old == 1", "object.metadata.name == 1", rules=[GADGETS]),
        about("custom-singular", "object.old == 1", rules=[{**GADGETS, "resources": ["gizmo", "gadget"]}]),
        about("custom-wildcard", "object.bogus == 1", rules=[{**WIDGETS, "resources": ["*"]}]),
        about("custom-some-wildcard", "object.bogus == 1", rules=[{**WIDGETS, "resources": ["widgets/*", "widgets"]}]),
        about("custom-status", "object.bogus == 1", rules=[{**WIDGETS, "resources": ["widgets/status"]}]),
        about("custom-versions-wildcard", "object.bogus == 1", rules=[{**WIDGETS, "apiVersions": ["*"]}]),
        about("custom-anything", "object.bogus == 1", "object.metadata.labels.a == 1",
              rules=[{**WIDGETS, "resources": ["anythings"]}]),
        about("custom-core", "object.spec.custom == 1", rules=[{**RULE, "resources": ["deployments"]}]),
        about("custom-and-not", "object.spec.replicas == 'a'", rules=[DEPLOYMENTS, WIDGETS]),
        about("most", "object.x == 1", rules=[THINGS, SETS]),
        about("most-of-each", "object.x == 1", rules=[{**THINGS, "resources": THINGS["resources"][:9]}, SETS]),
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
        for one in CUSTOM:
            code, said, _ = call(real, Asked("create", "POST", DEFINITIONS, one))
            assert code == 201, said
        published(real)
        for one in CASES.values():
            code, said, _ = call(real, Asked("create", "POST", POLICIES, one))
            assert code == 201, said["message"]
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
        found[""] = call(real, Asked("list", "GET", DEFINITIONS))[1]
        CONNECTIONS.pop(real).close()  # a server that stops waits for it
    return found


def published(real: str) -> None:
    """Wait until the server publishes the schemas of every custom kind."""
    wanted = {
        (version["name"], one["spec"]["names"]["kind"])
        for one in CUSTOM
        for version in one["spec"]["versions"]
    }
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        there = set()
        for name in ("v1", "v1beta1"):
            code, said, _ = call(real, Asked("openapi", "GET", f"/openapi/v3/apis/types.example.com/{name}"))
            schemas = said["components"]["schemas"].values() if code == 200 else ()
            there |= {
                (name, of["kind"]) for one in schemas for of in one.get("x-kubernetes-group-version-kind", ())
            }
        if wanted <= there:
            return
        assert time.monotonic() < deadline, wanted - there
        time.sleep(0.1)


def plain(warnings: list[Document]) -> list[tuple[str, str]]:
    return [(one["fieldRef"], NUMBERED.sub(r"\1", one["warning"])) for one in warnings]


@pytest.mark.parametrize("name", list(CASES))
def test_both_warn_of_the_same_expressions(checked, name):
    status = checked[name]["status"]
    real = (status.get("typeChecking") or {}).get("expressionWarnings") or []
    assert plain(expression_warnings(checked[name], checked[""]["items"])) == plain(real)


def test_some_expressions_are_warned_of(checked):
    assert (
        sum(
            "expressionWarnings" in one["status"].get("typeChecking", {})
            for name, one in checked.items()
            if name
        )
        > 30
    )
