"""Policies and the writes they judge: each case's policies are about objects that carry its label."""

# ruff: noqa: E501  (tables read better on long lines)

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.kubernetes.policy_requests import RULE, binding, policy
from tests.kubernetes.requests import MERGE, NS, Asked, Document, document, pod

MAPS = f"{NS}/configmaps"


@dataclass(frozen=True)
class Judged:
    """Policies, bindings, what must be there before, and the writes."""

    name: str
    policies: list[Document]
    bindings: list[Document]
    asked: list[Asked]
    before: list[Asked] = field(default_factory=list)


CASES: dict[str, Judged] = {}


def constraints(name: str, rules: list[Document], **rest: Any) -> Document:
    return {"resourceRules": rules, "objectSelector": {"matchLabels": {"case": name}}, **rest}


def config(name: str, data: Document | None = None, number: int = 0, **metadata: Any) -> Document:
    metadata = {"labels": {"case": name}, **metadata}
    return document("ConfigMap", f"{name}-{number}", metadata=metadata, data=data or {"a": "1"})


def create(body: Document, path: str = MAPS, query: str = "?dryRun=All", **headers: str) -> Asked:
    return Asked("create", "POST", f"{path}{query}", body, headers=headers)


def case(
    name: str,
    *validations: Any,
    data: list[Document] | None = None,
    asked: list[Asked] | None = None,
    before: list[Asked] | None = None,
    bound: Document | list[Document] | None = None,
    rules: list[Document] | None = None,
    match: Document | None = None,
    **spec: Any,
) -> None:
    """Add a case: one policy with *validations* (text, or whole ones), judged on configmaps with *data* unless *asked*."""
    checks = [{"expression": one} if isinstance(one, str) else one for one in validations]
    made = policy(
        name,
        validations=checks,
        matchConstraints=constraints(name, rules or [RULE], **(match or {})),
        **spec,
    )
    given = bound if isinstance(bound, list) else [bound or {}]
    bindings = [
        binding(name if not i else f"{name}-{i}", policyName=name, **one) for i, one in enumerate(given)
    ]
    writes = asked or [create(config(name, one, i)) for i, one in enumerate(data or [{"a": "1"}])]
    CASES[name] = Judged(name, [made], bindings, writes, before or [])


CM = {"apiVersion": "v1", "kind": "ConfigMap"}
A = "object.data.a == '1'"
TWO = [{"a": "1"}, {"a": "2"}]

case("plain", A, data=TWO)
case("message", {"expression": A, "message": " told "}, data=TWO)
case(
    "message-expression",
    {"expression": A, "messageExpression": "'got ' + object.data.a", "message": "m"},
    data=TWO,
)
case("message-empty", {"expression": A, "messageExpression": "' '", "message": "m"}, data=TWO)
case("message-lines", {"expression": A, "messageExpression": "'a\\nb'"}, data=TWO)
case(
    "message-fails",
    {"expression": A, "messageExpression": "string(object.data.zzz)", "message": "m"},
    data=TWO,
)
case("message-long", {"expression": A, "messageExpression": "string(object.data.b)", "message": "m"},
     data=[{"a": "2", "b": "x" * 5121}, {"a": "2", "b": "x" * 5120}])  # fmt: skip
case("long-expression", "object.data.a ==\n  '1'", data=TWO)
case("forbidden", {"expression": A, "reason": "Forbidden"}, data=TWO)
case("too-large", {"expression": A, "reason": "RequestEntityTooLarge"}, data=TWO)
case("two", {"expression": A, "message": "first"}, {"expression": "object.data.b == '1'", "message": "second"},
     data=[{"a": "1", "b": "1"}, {"a": "1", "b": "2"}, {"a": "2", "b": "2"}])  # fmt: skip
case("error", "object.data.missing == '1'", data=TWO)
case("error-absorbed", "object.data.missing == '1' || true", data=TWO)
case("error-ignored", "object.data.missing == '1'", failurePolicy="Ignore", data=TWO)
case("error-and-denial", "object.data.missing == '1'", A, failurePolicy="Ignore", data=TWO)
case("warn", A, data=TWO, bound={"validationActions": ["Warn"]})
case("audit", A, data=TWO, bound={"validationActions": ["Audit"]})
case("warn-and-audit", A, {"expression": "false", "message": 'with "quotes"'}, data=TWO,
     bound={"validationActions": ["Warn", "Audit"]})  # fmt: skip
case("warn-error", "object.data.missing == '1'", bound={"validationActions": ["Warn"]})
case("no-old", "oldObject == null && object != null")
case(
    "has", "has(object.data) && !has(object.binaryData) && has(object.metadata.labels) && !has(object.status)"
)
case("kind", "object.kind == 'ConfigMap' && object.apiVersion == 'v1'")
case("metadata", "has(object.metadata.creationTimestamp) && has(object.metadata.uid) && "
     "has(object.metadata.managedFields) && object.metadata.namespace == 'default'")  # fmt: skip
case("request", "request.operation == 'CREATE' && request.kind.kind == 'ConfigMap' && request.kind.version == 'v1' && "
     "request.resource.resource == 'configmaps' && request.requestResource.resource == 'configmaps' && "
     "request.dryRun && request.namespace == 'default' && request.userInfo.username == 'admin' && "
     "'system:masters' in request.userInfo.groups && request.name.startsWith('request-') && "
     "!has(request.subResource) && request.options.kind == 'CreateOptions' && request.options.dryRun == ['All']")  # fmt: skip
case("request-name", "request.name == 'x'", asked=[create({**config("request-name"), "metadata": {
    "generateName": "g-", "labels": {"case": "request-name"}}})])  # fmt: skip
case("user", "request.userInfo.username == 'jane' && request.userInfo.uid == '7' && "
     "request.userInfo.extra['example.com/node'] == ['n1']",
     asked=[create(config("user"), **{"Impersonate-User": "jane", "Impersonate-Group": "system:masters",
                                      "Impersonate-Uid": "7", "Impersonate-Extra-Example.com%2fnode": "n1"}),
            create(config("user", number=1))])  # fmt: skip
case("namespace", "namespaceObject.metadata.name == 'default' && namespaceObject.status.phase == 'Active' && "
     "namespaceObject.metadata.labels['kubernetes.io/metadata.name'] == 'default' && "
     "namespaceObject.spec.finalizers == ['kubernetes']")  # fmt: skip
case("namespace-time", "namespaceObject.metadata.creationTimestamp.getFullYear() > 2000")
case("namespace-missing", "namespaceObject.metadata.annotations['a'] == 'b'")
case("variables", {"expression": "variables.good", "messageExpression": "variables.shown"},
     variables=[{"name": "a", "expression": "object.data.a"}, {"name": "good", "expression": "variables.a == '1'"},
                {"name": "shown", "expression": "'a is ' + variables.a"}], data=TWO)  # fmt: skip
case("variable-fails", "variables.a == '1'", variables=[{"name": "a", "expression": "object.data.missing"}])
case(
    "variable-absorbed",
    "variables.a == '1' || true",
    variables=[{"name": "a", "expression": "object.data.missing"}],
)
case("variable-unused", "true", variables=[{"name": "a", "expression": "object.data.missing"}])
case("variable-nested-fails", "variables.b", variables=[
    {"name": "a", "expression": "object.data.missing"}, {"name": "b", "expression": "variables.a == '1'"}])  # fmt: skip
case("variable-map", "variables.all.all(k, variables.all[k] == '1') && size(variables.keys) == 1",
     variables=[{"name": "all", "expression": "object.data"}, {"name": "keys", "expression": "object.data.map(k, k)"}],
     data=TWO)  # fmt: skip
case("conditions", "false", data=TWO, matchConditions=[{"name": "a", "expression": "object.data.a == '2'"}])
case("condition-fails", "false", data=TWO, matchConditions=[
    {"name": "a", "expression": "object.data.missing == '2'"}, {"name": "b", "expression": A}])  # fmt: skip
case("conditions-fail", "false", matchConditions=[
    {"name": "a", "expression": "object.data.missing == '2'"}, {"name": "b", "expression": "object.x.y == 1"}])  # fmt: skip
case("condition-ignored", "false", failurePolicy="Ignore",
     matchConditions=[{"name": "a", "expression": "object.data.missing == '2'"}])  # fmt: skip
case("condition-user", "false", matchConditions=[
    {"name": "a", "expression": "!('system:masters' in request.userInfo.groups)"}])  # fmt: skip
case("rights", "authorizer.group('').resource('pods').namespace('default').check('create').allowed()", asked=[
    create(config("rights")),
    create(config("rights"), **{"Impersonate-User": "jane", "Impersonate-Group": "writers"})],
    before=[Asked("role", "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", document(
        "ClusterRole", "map-writer", "rbac.authorization.k8s.io/v1",
        rules=[{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}])),
        Asked("role", "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", document(
            "ClusterRoleBinding", "map-writers", "rbac.authorization.k8s.io/v1",
            roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "map-writer"},
            subjects=[{"kind": "Group", "name": "writers", "apiGroup": "rbac.authorization.k8s.io"}]))])  # fmt: skip
case("rights-request", {"expression": "authorizer.requestResource.check('own').allowed()",
                        "messageExpression": "'no: ' + request.userInfo.username"}, asked=[
    create(config("rights-request")),
    create(config("rights-request"), **{"Impersonate-User": "jane", "Impersonate-Group": "writers"})])  # fmt: skip
case("params", "object.data.a == params.data.a", data=TWO, paramKind=CM,
     before=[Asked("p", "POST", MAPS, document("ConfigMap", "params-p", data={"a": "1"}))],
     bound={"paramRef": {"name": "params-p", "parameterNotFoundAction": "Deny"}})  # fmt: skip
case("params-kind", "params.kind == 'ConfigMap' && params.apiVersion == 'v1' && params.metadata.name == 'kind-p'",
     paramKind=CM, before=[Asked("p", "POST", MAPS, document("ConfigMap", "kind-p", data={"a": "1"}))],
     bound={"paramRef": {"name": "kind-p", "namespace": "default", "parameterNotFoundAction": "Deny"}})  # fmt: skip
case(
    "params-missing", A, paramKind=CM, bound={"paramRef": {"name": "gone", "parameterNotFoundAction": "Deny"}}
)
case("params-missing-fine", "false", paramKind=CM,
     bound={"paramRef": {"name": "gone", "parameterNotFoundAction": "Allow"}})  # fmt: skip
case("params-missing-ignored", "false", paramKind=CM, failurePolicy="Ignore",
     bound={"paramRef": {"name": "gone", "parameterNotFoundAction": "Deny"}})  # fmt: skip
case("params-none", "params == null", paramKind=CM)
case("params-unset", "params.data.a == '1'", paramKind=CM)
case("params-selected", {"expression": "object.data.a == params.data.a", "messageExpression": "'not ' + params.data.a"},
     data=[{"a": "1"}, {"a": "3"}], paramKind=CM, before=[
         Asked("p", "POST", MAPS, document("ConfigMap", f"sel-{i}", metadata={"labels": {"sel": "yes"}}, data={"a": i}))
         for i in ("1", "3")],
     bound={"paramRef": {"selector": {"matchLabels": {"sel": "yes"}}, "parameterNotFoundAction": "Deny"}})  # fmt: skip
case("params-unselected", "false", paramKind=CM,
     bound={"paramRef": {"selector": {"matchLabels": {"sel": "no"}}, "parameterNotFoundAction": "Deny"}})  # fmt: skip
case("params-cluster", "params.metadata.name == 'default'", paramKind={"apiVersion": "v1", "kind": "Namespace"},
     bound=[{"paramRef": {"name": "default", "parameterNotFoundAction": "Deny"}}])  # fmt: skip
case("params-cluster-namespace", "true", paramKind={"apiVersion": "v1", "kind": "Namespace"},
     bound=[{"paramRef": {"name": "default", "namespace": "x", "parameterNotFoundAction": "Deny"}}])  # fmt: skip
case("params-unknown-kind", "true", paramKind={"apiVersion": "a.example/v1", "kind": "Gone"},
     bound={"paramRef": {"name": "x", "parameterNotFoundAction": "Deny"}})  # fmt: skip
CLUSTER = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["namespaces"], "operations": ["*"]}
case("params-of-cluster-write", "true", paramKind=CM, rules=[CLUSTER], asked=[create(
    document("Namespace", "of-cluster", metadata={"labels": {"case": "params-of-cluster-write"}}), "/api/v1/namespaces")],
    bound={"paramRef": {"name": "x", "parameterNotFoundAction": "Deny"}})  # fmt: skip
case("two-bindings", "object.data.a == params.data.a", paramKind=CM, data=[{"a": "1"}, {"a": "3"}, {"a": "4"}],
     bound=[{"paramRef": {"name": "sel-1", "parameterNotFoundAction": "Deny"}, "validationActions": ["Audit"]},
            {"paramRef": {"name": "sel-3", "parameterNotFoundAction": "Deny"}}])  # fmt: skip
case("binding-match", "false", bound={"matchResources": {"objectSelector": {"matchLabels": {"more": "yes"}}}}, asked=[
    create(config("binding-match")),
    create(config("binding-match", number=1, labels={"case": "binding-match", "more": "yes"}))])  # fmt: skip
case("binding-names", "false", bound={"matchResources": {"resourceRules": [{**RULE, "resourceNames": ["binding-names-1"]}]}},
     data=TWO)  # fmt: skip
case("binding-exclude", "false", bound={"matchResources": {
    "excludeResourceRules": [{**RULE, "resourceNames": ["binding-exclude-1"]}]}}, data=TWO)  # fmt: skip
case("names", "false", rules=[{**RULE, "resourceNames": ["names-1"]}], data=TWO)
case("exclude", "false", match={"excludeResourceRules": [{**RULE, "resourceNames": ["exclude-1"]}]}, data=TWO)
case(
    "namespace-selector",
    "false",
    match={"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "x"}}},
)
case(
    "namespace-selected",
    "false",
    match={"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}},
)
case("scope", "false", rules=[{**RULE, "scope": "Cluster"}])
WRITES = [{**RULE, "operations": ["UPDATE", "DELETE"]}]
case("update", "object.data.a == oldObject.data.a && request.operation == 'UPDATE'", rules=WRITES, asked=[
    create(config("update"), query=""),
    Asked("x", "PATCH", f"{MAPS}/update-0", {"data": {"a": "2"}}, MERGE),
    Asked("x", "PATCH", f"{MAPS}/update-0", {"metadata": {"annotations": {"a": "b"}}}, MERGE),
    Asked("x", "DELETE", f"{MAPS}/update-0"),
    Asked("x", "GET", f"{MAPS}/update-0")])  # fmt: skip
case("delete", "object == null && oldObject.data.a == '2' && request.options.kind == 'DeleteOptions'", rules=WRITES, asked=[
    create(config("delete"), query=""), Asked("x", "DELETE", f"{MAPS}/delete-0")])  # fmt: skip
ANY = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]}
case("status", "!has(request.subResource) || request.subResource != 'status'", rules=[ANY], asked=[
    create(pod("status-p", metadata={"labels": {"case": "status"}}), f"{NS}/pods", query=""),
    Asked("x", "PATCH", f"{NS}/pods/status-p/status", {"status": {"message": "m"}}, MERGE),
    Asked("x", "DELETE", f"{NS}/pods/status-p?gracePeriodSeconds=0")])  # fmt: skip
case("pod-shape", "has(object.status) && object.spec.containers.all(c, has(c.resources)) && "
     "!has(object.spec.volumes) && object.spec.restartPolicy == 'Always'", rules=[ANY],
     asked=[create(pod("shape-p", metadata={"labels": {"case": "pod-shape"}}), f"{NS}/pods")])  # fmt: skip
case("deployment-shape", "object.spec.template.spec.containers.all(c, c.image.startsWith('app')) && has(object.status) && "
     "has(object.spec.strategy) && object.spec.replicas <= 5", rules=[ANY], asked=[create(document(
         "Deployment", f"d-{n}", "apps/v1", metadata={"labels": {"case": "deployment-shape"}}, spec={
             "replicas": n, "selector": {"matchLabels": {"app": "a"}}, "template": {
                 "metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "app"}]}}}),
         "/apis/apps/v1/namespaces/default/deployments") for n in (5, 6)])  # fmt: skip
case("annotations", A, data=TWO, auditAnnotations=[{"key": "a", "valueExpression": "'a is ' + object.data.a"},
                                                   {"key": "b", "valueExpression": "null"}])  # fmt: skip
case(
    "annotation-fails", "true", auditAnnotations=[{"key": "a", "valueExpression": "object.data.missing + ''"}]
)
case("annotation-ignored", "true", failurePolicy="Ignore",
     auditAnnotations=[{"key": "a", "valueExpression": "object.data.missing + ''"}])  # fmt: skip
case("annotation-rights", "true", auditAnnotations=[
    {"key": "a", "valueExpression": "authorizer.path('/x').check('get').reason()"}])  # fmt: skip
BIG = [{"a": ",".join(str(i) for i in range(size))} for size in (20, 400)]
LIST = {"name": "l", "expression": "object.data.a.split(',')"}
case("cost", "variables.l.all(a, variables.l.all(b, variables.l.all(c, true)))", variables=[LIST], data=BIG)
case("cost-ignored", "variables.l.all(a, variables.l.all(b, variables.l.all(c, true)))", variables=[LIST], data=BIG,
     failurePolicy="Ignore")  # fmt: skip
case("cost-variable", "variables.x", data=BIG, variables=[
    LIST, {"name": "x", "expression": "variables.l.all(a, variables.l.all(b, variables.l.all(c, true)))"}])  # fmt: skip
RIGHT = "authorizer.path('/x').check('get').allowed()"  # dear in the budget, cheap for the processor
RIGHTS = [{"name": f"v{i}", "expression": RIGHT} for i in range(30)]
case("budget", *[f"variables.v{i}" for i in range(30)], variables=RIGHTS)
case(
    "budget-ignored",
    *[f"variables.v{i}" for i in range(30)],
    "false",
    variables=RIGHTS,
    failurePolicy="Ignore",
)
case("budget-enough", *[f"variables.v{i % 28}" for i in range(60)], variables=RIGHTS)
case("budget-rights", *["authorizer.path('/x').check('get').allowed()"] * 30)
case("budget-conditions", "false", matchConditions=[
    {"name": f"c{i}", "expression": "authorizer.path('/x').check('get').allowed()"} for i in range(8)])  # fmt: skip
case("types", "type(object) == map && type(object.data) == map && type(request) == map && "
     "type(object.metadata.labels.case) == string && type(oldObject) == null_type")  # fmt: skip
case("quantities", "object.spec.containers.all(c, !has(c.resources.limits) || "
     "quantity(c.resources.limits['memory']).isLessThan(quantity('1Gi')))", rules=[ANY], asked=[create(pod(
         f"q-{n}", metadata={"labels": {"case": "quantities"}}, containers=[
             {"name": "c", "image": "app", "resources": {"limits": {"memory": size}}}]), f"{NS}/pods")
         for n, size in enumerate(("512Mi", "2Gi"))])  # fmt: skip
case("int-or-string", "object.spec.ports.all(p, type(p.targetPort) == int)", rules=[ANY], asked=[create(document(
    "Service", f"s-{n}", metadata={"labels": {"case": "int-or-string"}},
    spec={"clusterIP": "None", "ports": [{"port": 80, "targetPort": port}]}), f"{NS}/services")
    for n, port in enumerate((80, "web"))])  # fmt: skip
SLICES = {"apiGroups": ["resource.k8s.io"], "apiVersions": ["v1"], "resources": ["resourceslices"],
          "operations": ["CREATE", "UPDATE", "DELETE"]}  # fmt: skip


def slice_of(name: str, node: str, number: int) -> Document:
    return document(
        "ResourceSlice",
        f"{name}-{number}",
        "resource.k8s.io/v1",
        metadata={"labels": {"case": name}},
        spec={"driver": "d.example.com", "nodeName": node, "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
              "devices": [{"name": "g", "attributes": {"x": {"string": "y"}}}]},
    )  # fmt: skip


DRIVER = {
    "Impersonate-User": "system:serviceaccount:default:driver",
    "Impersonate-Group": "system:masters",
    "Impersonate-Extra-Authentication.kubernetes.io%2fnode-Name": "n1",
}
PATH = "/apis/resource.k8s.io/v1/resourceslices"
case("driver", {
    "expression": "variables.userNodeName != ''",
    "message": "no node association found for user, this user must run in a pod on a node",
}, {
    "expression": "variables.userNodeName == variables.objectNodeName",
    "messageExpression": "'this user running on node \\'' + variables.userNodeName + '\\' may not modify ' + "
    "(variables.objectNodeName == '' ? 'cluster resourceslices' : 'resourceslices on node \\'' + "
    "variables.objectNodeName + '\\'')",
}, rules=[SLICES], matchConditions=[{
    "name": "isRestrictedUser", "expression": "request.userInfo.username == 'system:serviceaccount:default:driver'",
}], variables=[{
    "name": "userNodeName",
    "expression": "request.userInfo.extra[?'authentication.kubernetes.io/node-name'][0].orValue('')",
}, {
    "name": "objectNodeName",
    "expression": "(request.operation == 'DELETE' ? oldObject : object).spec.?nodeName.orValue('')",
}], asked=[
    create(slice_of("driver", "n1", 0), PATH),
    create(slice_of("driver", "n1", 1), PATH, **DRIVER),
    create(slice_of("driver", "n2", 2), PATH, **DRIVER),
    create(slice_of("driver", "n2", 3), PATH, **{k: v for k, v in DRIVER.items() if "Extra" not in k}),
])  # fmt: skip
OLD_SCALERS = {"apiGroups": ["autoscaling"], "apiVersions": ["v1"], "resources": ["horizontalpodautoscalers"],
               "operations": ["CREATE"]}  # fmt: skip


def scaler(name: str) -> list[Asked]:
    spec = {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}
    whole = document(
        "HorizontalPodAutoscaler", name, "autoscaling/v2", metadata={"labels": {"case": name}}, spec=spec
    )
    return [create(whole, "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers")]


case("older-version", "object.apiVersion == 'autoscaling/v1' && request.kind.version == 'v1' && "
     "request.requestKind.version == 'v2' && request.resource.version == 'v1' && "
     "request.requestResource.version == 'v2' && object.spec.targetCPUUtilizationPercentage == 81",
     rules=[OLD_SCALERS], asked=scaler("older-version"))  # fmt: skip
case("older-version-fine", "object.apiVersion == 'autoscaling/v1' && request.kind.version == 'v1' && "
     "object.spec.targetCPUUtilizationPercentage == 80",
     rules=[OLD_SCALERS], asked=scaler("older-version-fine"))  # fmt: skip
case("older-exact", "false", rules=[OLD_SCALERS], match={"matchPolicy": "Exact"}, asked=scaler("older-exact"))
case("reviews", "false", rules=[{**ANY, "apiGroups": ["authorization.k8s.io", "authentication.k8s.io"]}],
     match={"objectSelector": {}}, asked=[create(
         {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
          "spec": {"nonResourceAttributes": {"path": "/x", "verb": "get"}}},
         "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", query="")])  # fmt: skip
case("policies-themselves", "false", rules=[ANY], asked=[
    create({**policy("themselves"), "metadata": {"name": "themselves", "labels": {"case": "policies-themselves"}}},
           "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"),
    create(document("MutatingWebhookConfiguration", "themselves", "admissionregistration.k8s.io/v1",
                    metadata={"labels": {"case": "policies-themselves"}}),
           "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations")])  # fmt: skip
case("events", "false", rules=[{"apiGroups": ["events.k8s.io"], "apiVersions": ["v1"], "resources": ["events"],
                               "operations": ["*"]}], asked=[create(document(
    "Event", "e", metadata={"labels": {"case": "events"}, "namespace": "default"},
    involvedObject={"kind": "Pod", "name": "p", "namespace": "default"}, reason="R", message="m",
    source={"component": "c"}), f"{NS}/events")])  # fmt: skip
case("namespaces", "object.metadata.name != 'refused' && namespaceObject == null && !has(request.namespace)",
     rules=[CLUSTER], asked=[create(document("Namespace", name, metadata={"labels": {"case": "namespaces"}}),
                                    "/api/v1/namespaces") for name in ("refused", "taken")])  # fmt: skip

SENTINEL = Judged(
    "zz-sentinel",
    [
        policy(
            "zz-sentinel",
            validations=[{"expression": "false"}],
            matchConstraints=constraints("zz-sentinel", [RULE]),
        )
    ],
    [binding("zz-sentinel")],
    [create(config("zz-sentinel"))],
)
