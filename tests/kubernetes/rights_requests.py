"""Requests about rights and about Scale, asked of a real API server and of weir, whose answers are compared whole.

The roles and bindings (`SETUP`) are written before every other case, so that the real server's caches know them when
the rights are asked for. Users come in by impersonation; what is asked of a user is asked in the namespace `rights`.
"""

# ruff: noqa: E501  (tables read better on long lines)

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.kubernetes.requests import APPLY, JSON_PATCH, MERGE, STRATEGIC, TEMPLATE, Asked, Document, document

GROUP = "rbac.authorization.k8s.io"
RBAC = f"/apis/{GROUP}/v1"
VERSION = f"{GROUP}/v1"
NS = "/api/v1/namespaces/rights"
APPS = "/apis/apps/v1/namespaces/rights"
AUTHORIZATION = "/apis/authorization.k8s.io/v1"
AUTHENTICATION = "/apis/authentication.k8s.io/v1"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/rights/resourceclaims"


def rule(verbs: str, groups: str, resources: str, *names: str) -> Document:
    found: Document = {
        "verbs": verbs.split(","),
        "apiGroups": groups.split(","),
        "resources": resources.split(","),
    }
    return {**found, "resourceNames": list(names)} if names else found


def paths(verbs: str, *urls: str) -> Document:
    return {"verbs": verbs.split(","), "nonResourceURLs": list(urls)}


def user(name: str) -> Document:
    return {"kind": "User", "name": name, "apiGroup": GROUP}


def group(name: str) -> Document:
    return {"kind": "Group", "name": name, "apiGroup": GROUP}


def account(name: str, namespace: str = "rights") -> Document:
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def bound(kind: str, name: str, role_kind: str, role: str, *subjects: Document) -> Document:
    reference = {"apiGroup": GROUP, "kind": role_kind, "name": role}
    return document(kind, name, VERSION, roleRef=reference, subjects=list(subjects))


CLUSTER_ROLES: dict[str, list[Document]] = {
    "r-reader": [rule("get,list,watch", "", "pods,pods/log,configmaps")],
    "r-named": [rule("get,update,patch,delete", "", "configmaps", "only", "other"), rule("list,create", "", "secrets", "one")],
    "r-paths": [paths("get", "/healthz", "/healthz/*", "/metrics"), paths("*", "/version")],
    "r-sub": [rule("get,update", "apps", "deployments/scale"), rule("*", "", "*/status"), rule("create", "", "pods/eviction")],
    "r-wild": [rule("*", "apps", "*"), rule("get", "*", "configmaps")],
    "r-roles": [rule("create,update,patch,get", GROUP, "clusterroles,roles,rolebindings,clusterrolebindings"), rule("get,list", "", "pods,configmaps"), paths("get", "/healthz")],
    "r-bind": [rule("create", GROUP, "rolebindings"), rule("bind", GROUP, "clusterroles", "system:aggregate-to-view"), rule("create", GROUP, "roles"), rule("escalate", GROUP, "roles")],
    "r-speaker": [rule("impersonate", "", "users", "alice"), rule("impersonate", "", "groups", "devs"), rule("impersonate", "", "serviceaccounts"), rule("impersonate", "authentication.k8s.io", "userextras/scopes", "a"), rule("impersonate", "authentication.k8s.io", "uids", "7")],
    "r-limits": [rule("update", "", "limitranges")],
    "r-claims": [rule("get,update,patch", "resource.k8s.io", "resourceclaims,resourceclaims/status")],
    "r-claims-binding": [rule("get,update,patch", "resource.k8s.io", "resourceclaims,resourceclaims/status"), rule("update,patch", "resource.k8s.io", "resourceclaims/binding")],
    "r-claims-driver": [rule("get,update,patch", "resource.k8s.io", "resourceclaims,resourceclaims/status"), rule("arbitrary-node:update", "resource.k8s.io", "resourceclaims/driver", "good.example.com")],
}  # fmt: skip
BOUND: dict[str, tuple[str, Document]] = {
    "b-reader": ("r-reader", user("reader")),
    "b-named": ("r-named", user("named")),
    "b-paths": ("r-paths", user("paths")),
    "b-sub": ("r-sub", user("sub")),
    "b-wild": ("r-wild", group("wilds")),
    "b-roles": ("r-roles", user("roles")),
    "b-bind": ("r-bind", user("binder")),
    "b-speaker": ("r-speaker", user("speaker")),
    "b-limits": ("r-limits", user("limits")),
    "b-claims": ("r-claims", user("claims")),
    "b-claims-binding": ("r-claims-binding", user("claims-binding")),
    "b-claims-driver": ("r-claims-driver", user("claims-driver")),
    "b-account": ("r-reader", account("robot")),
    "b-accounts": ("r-paths", group("system:serviceaccounts:rights")),
    "b-viewer": ("system:aggregate-to-view", user("viewer")),
    "b-editor": ("system:aggregate-to-edit", user("editor")),
    "b-admins": ("system:aggregate-to-admin", user("administrator")),
    "b-missing": ("r-not-there", user("dangling")),
}
LOCAL: dict[str, tuple[str, str, Document]] = {
    "l-reader": ("ClusterRole", "r-reader", user("local")),
    "l-role": ("Role", "l-role", user("local")),
    "l-admin": ("ClusterRole", "system:aggregate-to-edit", user("local-admin")),
    "l-robot": ("Role", "l-role", account("other", "default")),
}


def setup() -> Iterator[Asked]:
    yield Asked("rights: namespace", "POST", "/api/v1/namespaces", document("Namespace", "rights"))
    for name, rules in CLUSTER_ROLES.items():
        yield Asked(
            f"rights: role {name}",
            "POST",
            f"{RBAC}/clusterroles",
            document("ClusterRole", name, VERSION, rules=rules),
        )
    yield Asked(
        "rights: local role",
        "POST",
        f"{RBAC}/namespaces/rights/roles",
        document(
            "Role",
            "l-role",
            VERSION,
            rules=[rule("get,delete", "", "secrets"), rule("update", "apps", "deployments/scale", "d")],
        ),
    )
    for name, (role, subject) in BOUND.items():
        yield Asked(
            f"rights: binding {name}",
            "POST",
            f"{RBAC}/clusterrolebindings",
            bound("ClusterRoleBinding", name, "ClusterRole", role, subject),
        )
    for name, (kind, role, subject) in LOCAL.items():
        yield Asked(
            f"rights: local binding {name}",
            "POST",
            f"{RBAC}/namespaces/rights/rolebindings",
            bound("RoleBinding", name, kind, role, subject),
        )


def speaking(name: str, *groups: str) -> Document:
    """Return the headers that make a request *name*'s."""
    found = {"Impersonate-User": name}
    return {**found, "Impersonate-Group": groups[0]} if groups else found


def attributes(line: str) -> Document:
    """Read `verb group/resource/subresource namespace name`, with - for nothing.

    >>> attributes("get -/pods/log ns -")
    {'verb': 'get', 'resource': 'pods', 'subresource': 'log', 'namespace': 'ns'}
    """
    verb, what, namespace, name = line.split()
    group, resource, subresource = (*what.split("/"), "-")[:3]
    parts = {
        "verb": verb,
        "group": group,
        "resource": resource,
        "subresource": subresource,
        "namespace": namespace,
        "name": name,
    }
    return {key: value for key, value in parts.items() if value != "-"}


#: who (user or user+group) → actions asked about
DECISIONS: dict[str, tuple[str, ...]] = {
    "reader": ("get -/pods - -", "get -/pods rights p", "list -/pods/log rights -", "get -/pods/status rights p", "create -/pods rights -", "get apps/pods rights -", "* -/pods rights -", "get -/* rights -", "watch -/configmaps - -", "get -/secrets default x", "deletecollection -/pods rights -"),
    "named": ("get -/configmaps rights only", "get -/configmaps rights third", "get -/configmaps rights -", "list -/configmaps rights only", "list -/secrets rights one", "create -/secrets rights one", "create -/secrets rights -", "delete -/configmaps - other"),
    "sub": ("get apps/deployments rights d", "get apps/deployments/scale rights d", "patch apps/deployments/scale rights d", "get -/pods/status rights p", "get -/pods rights p", "frobnicate -/nodes/status - n", "create -/pods/eviction rights p"),
    "anyone+wilds": ("get apps/deployments rights -", "frob apps/anything/below - x", "get batch/configmaps rights -", "get batch/jobs rights -", "* apps/* - -", "* */* - -"),
    "local": ("get -/pods rights -", "get -/pods default -", "get -/pods - -", "get -/secrets rights x", "delete -/secrets rights -", "update apps/deployments/scale rights d", "update apps/deployments/scale rights e"),
    "local-admin": ("create rbac.authorization.k8s.io/roles rights -", "create rbac.authorization.k8s.io/clusterroles - -", "delete -/pods rights -", "update -/resourcequotas rights -", "update -/namespaces rights rights", "get -/namespaces rights rights", "create -/serviceaccounts/token rights x", "impersonate -/serviceaccounts rights x"),
    "viewer": ("get -/pods rights -", "get -/secrets rights -", "get -/nodes - -", "get resource.k8s.io/resourceclaims rights c", "get resource.k8s.io/resourceslices - c", "get apps/deployments/scale rights -", "get -/pods/log rights p", "get -/pods/exec rights p", "list -/namespaces - -", "get networking.k8s.io/networkpolicies rights -", "get rbac.authorization.k8s.io/roles rights -", "get scheduling.k8s.io/priorityclasses - -", "get policy/poddisruptionbudgets rights -", "get storage.k8s.io/storageclasses - -"),
    "editor": ("create -/pods rights -", "create -/pods/exec rights -", "create -/pods/eviction rights -", "get -/secrets rights -", "create resource.k8s.io/resourceclaims rights -", "update resource.k8s.io/resourceclaims/status rights -", "patch apps/deployments/scale rights -", "create -/resourcequotas rights -", "create -/serviceaccounts/token rights -", "create rbac.authorization.k8s.io/roles rights -", "create coordination.k8s.io/leases rights -", "create -/events rights -", "create -/pods/binding rights -", "update -/pods/status rights -"),
    "administrator": ("create rbac.authorization.k8s.io/rolebindings rights -", "create authorization.k8s.io/localsubjectaccessreviews rights -", "create -/limitranges rights -", "delete -/nodes - -", "escalate rbac.authorization.k8s.io/roles rights -"),
    "dangling": ("get -/pods rights -",),
    "system:serviceaccount:rights:robot": ("get -/pods rights -", "get -/secrets rights -"),
    "system:serviceaccount:default:other": ("get -/secrets rights -", "get -/secrets default -"),
    "system:kube-scheduler": ("create -/pods/binding rights p", "update resource.k8s.io/resourceclaims/status rights c", "patch resource.k8s.io/resourceclaims/binding rights c", "get -/secrets rights x", "update coordination.k8s.io/leases kube-system kube-scheduler", "update coordination.k8s.io/leases kube-system other", "delete -/pods rights p", "list resource.k8s.io/deviceclasses - -", "list resource.k8s.io/devicetaintrules - -", "create events.k8s.io/events rights -", "patch -/pods/status rights p"),
    "system:kube-controller-manager": ("list apps/deployments - -", "create -/serviceaccounts/token kube-system x", "update -/nodes - -", "list -/secrets - -"),
    "system:serviceaccount:kube-system:node-controller": ("patch -/nodes - n", "delete -/pods rights p", "update -/pods/status rights p", "create -/pods rights -"),
    "system:serviceaccount:kube-system:device-taint-eviction-controller": ("delete -/pods rights p", "list resource.k8s.io/resourceslices - -", "patch resource.k8s.io/devicetaintrules/status - x", "delete -/nodes - x"),
    "system:serviceaccount:kube-system:daemon-set-controller": ("create -/pods rights -", "create -/pods/binding rights -", "delete apps/daemonsets rights -"),
    "system:anonymous+system:unauthenticated": ("get -/pods rights -",),
    "boss+system:masters": ("frob -/anything - -",),
}  # fmt: skip
DECIDED_PATHS: dict[str, tuple[str, ...]] = {
    "paths": ("get /healthz", "get /healthz/etcd", "get /healthzz", "post /version", "get /metrics/", "get /logs", "get /"),
    "system:serviceaccount:rights:whoever": ("get /metrics", "get /livez"),
    "nobody+system:authenticated": ("get /api", "get /apis/apps", "get /openapi/v3", "get /readyz/ping", "post /api"),
    "system:anonymous+system:unauthenticated": ("get /healthz", "get /version/", "get /api", "get /livez", "get /readyz"),
    "watcher+system:monitoring": ("get /metrics", "get /metrics/slis", "get /livez/etcd", "get /readyz"),
}  # fmt: skip


def decisions() -> Iterator[Asked]:
    """What RBAC says of many users and actions, with its reasons."""
    for who, lines in [*DECISIONS.items(), *DECIDED_PATHS.items()]:
        name, _, member = who.partition("+")
        for line in lines:
            spec: Document = {"user": name, "groups": [member] if member else []}
            if who in DECISIONS and line in DECISIONS[who]:
                spec["resourceAttributes"] = attributes(line)
            else:
                verb, path = line.split()
                spec["nonResourceAttributes"] = {"verb": verb, "path": path}
            yield Asked(f"rights: may {who} {line}", "POST", f"{AUTHORIZATION}/subjectaccessreviews",
                        document("SubjectAccessReview", "", "authorization.k8s.io/v1", spec=spec))  # fmt: skip


#: who, method, path: the refusals as they are read
REFUSED: tuple[tuple[str, str, str], ...] = (
    ("reader", "GET", f"{NS}/secrets"), ("reader", "GET", f"{NS}/secrets/x"), ("reader", "DELETE", f"{NS}/pods"), ("reader", "DELETE", f"{NS}/pods/p"),
    ("reader", "GET", "/api/v1/nodes/n"), ("reader", "GET", "/metrics"), ("reader", "GET", "/logs/"), ("reader", "GET", f"{APPS}/deployments/d/scale"),
    ("reader", "GET", "/api/v1/secrets"), ("reader", "GET", "/apis/apps/v1/deployments?watch=true"), ("reader", "GET", f"{NS}/pods/p/status"),
    ("reader", "GET", "/apis/example.com/v1/widgets"), ("reader", "GET", "/apis/resource.k8s.io/v1/resourceslices"), ("reader", "GET", "/api/v1/namespaces/rights"),
    ("named", "GET", f"{NS}/configmaps"), ("named", "GET", f"{NS}/configmaps?fieldSelector=metadata.name%3Donly"), ("named", "GET", f"{NS}/configmaps/third"), ("named", "GET", f"{NS}/configmaps/only"),
    ("named", "GET", f"{NS}/secrets?fieldSelector=metadata.name%3Done"), ("named", "GET", f"{NS}/secrets"), ("named", "GET", f"{NS}/secrets?fieldSelector=metadata.name%3Dtwo"),
    ("system:serviceaccount:rights:robot", "GET", f"{NS}/pods"), ("system:serviceaccount:rights:robot", "GET", f"{NS}/secrets"), ("system:serviceaccount:rights:robot", "GET", "/metrics2"),
    ("local", "GET", "/api/v1/namespaces/default/pods"), ("local", "GET", f"{NS}/pods"), ("local", "GET", "/api/v1/pods"), ("local", "DELETE", f"{NS}/secrets"),
    ("system:anonymous", "GET", f"{NS}/pods"), ("system:anonymous", "GET", "/apis"),
    ("viewer", "GET", f"{NS}/secrets"), ("viewer", "GET", "/api/v1/nodes"), ("dangling", "GET", f"{NS}/pods"),
)  # fmt: skip


def refusals() -> Iterator[Asked]:
    for who, method, path in REFUSED:
        yield Asked(f"rights: {who} {method} {path}", method, path, headers=speaking(who))
    body = document("ConfigMap", "third", data={"a": "b"})
    yield Asked("rights: named creates", "POST", f"{NS}/configmaps", body, headers=speaking("named"))
    yield Asked("rights: named puts", "PUT", f"{NS}/configmaps/third", body, headers=speaking("named"))
    yield Asked(
        "rights: named puts what is not there",
        "PUT",
        f"{NS}/configmaps/only",
        document("ConfigMap", "only"),
        headers=speaking("named"),
    )
    yield Asked(
        "rights: named applies",
        "PATCH",
        f"{NS}/configmaps/only?fieldManager=m",
        json.dumps(document("ConfigMap", "only")),
        APPLY,
        headers=speaking("named"),
    )
    yield Asked(
        "rights: named puts a limit range",
        "PUT",
        f"{NS}/limitranges/l",
        document("LimitRange", "l", spec={"limits": []}),
        headers=speaking("limits"),
    )
    yield Asked("rights: reader patches", "PATCH", f"{NS}/pods/p", {}, MERGE, headers=speaking("reader"))
    yield Asked("rights: reader evicts", "POST", f"{NS}/pods/p/eviction", {}, headers=speaking("reader"))
    yield Asked("rights: reader binds", "POST", f"{NS}/pods/p/binding", {}, headers=speaking("reader"))
    yield Asked(
        "rights: reader asks for a token",
        "POST",
        f"{NS}/serviceaccounts/x/token",
        {},
        headers=speaking("reader"),
    )


ALL = rule("*", "*", "*")
ROLES_WRITTEN: dict[str, Document] = {
    "own": {"rules": [rule("get", "", "pods")]},
    "wider verb": {"rules": [rule("get,delete", "", "pods")]},
    "wider resource": {"rules": [rule("get", "", "pods,secrets,pods/log")]},
    "wider group": {"rules": [rule("get", "apps,", "pods")]},
    "named": {"rules": [rule("get,delete", "", "pods", "a", "b")]},
    "everything": {"rules": [ALL, paths("*", "*")]},
    "paths": {"rules": [paths("get", "/healthz", "/metrics")]},
    "two rules": {"rules": [rule("delete", "", "pods"), rule("delete", "apps", "deployments"), rule("create", "", "pods")]},
    "aggregated": {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}, "rules": []},
    "nothing": {"rules": []},
    "bad rule": {"rules": [{"verbs": ["delete"], "resources": ["pods"]}]},
    "no verbs": {"rules": [{"verbs": [], "apiGroups": [""], "resources": ["pods"]}]},
    "mixed": {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "nonResourceURLs": ["/x"]}]},
}  # fmt: skip


def escalations() -> Iterator[Asked]:
    """Roles and bindings written by those who hold fewer rights."""
    local = f"{RBAC}/namespaces/rights"
    for number, (name, parts) in enumerate(ROLES_WRITTEN.items()):
        yield Asked(
            f"rights: writes a cluster role, {name}",
            "POST",
            f"{RBAC}/clusterroles",
            document("ClusterRole", f"w{number}", VERSION, **parts),
            headers=speaking("roles"),
        )
        if "aggregationRule" not in parts:
            yield Asked(
                f"rights: writes a role, {name}",
                "POST",
                f"{local}/roles",
                document("Role", f"w{number}", VERSION, **parts),
                headers=speaking("roles"),
            )
    yield Asked(
        "rights: widens a role by put",
        "PUT",
        f"{RBAC}/clusterroles/w0",
        document("ClusterRole", "w0", VERSION, rules=[ALL]),
        headers=speaking("roles"),
    )
    yield Asked(
        "rights: widens a role by patch",
        "PATCH",
        f"{RBAC}/clusterroles/r-named",
        {"rules": [rule("get", "", "secrets")]},
        MERGE,
        headers=speaking("roles"),
    )
    yield Asked(
        "rights: labels a wide role",
        "PATCH",
        f"{RBAC}/clusterroles/r-named",
        {"metadata": {"labels": {"x": "y"}}},
        MERGE,
        headers=speaking("roles"),
    )
    yield Asked(
        "rights: finalizes a wide role",
        "PATCH",
        f"{RBAC}/clusterroles/r-named",
        {"metadata": {"finalizers": ["a.b/c"]}},
        MERGE,
        headers=speaking("roles"),
    )
    yield Asked(
        "rights: unfinalizes a wide role",
        "PATCH",
        f"{RBAC}/clusterroles/r-named",
        {"metadata": {"finalizers": None}},
        MERGE,
        headers=speaking("roles"),
    )
    yield Asked(
        "rights: widens the view role",
        "PATCH",
        f"{RBAC}/clusterroles/view",
        {"rules": [ALL]},
        MERGE,
        headers=speaking("roles"),
    )
    yield Asked(
        "rights: applies a wide role",
        "PATCH",
        f"{RBAC}/clusterroles/w90?fieldManager=m",
        json.dumps(document("ClusterRole", "w90", VERSION, rules=[ALL])),
        APPLY,
        headers=speaking("roles"),
    )
    yield Asked(
        "rights: escalates a role",
        "POST",
        f"{local}/roles",
        document("Role", "w91", VERSION, rules=[ALL]),
        headers=speaking("binder"),
    )
    yield Asked(
        "rights: roles in a group",
        "POST",
        f"{RBAC}/clusterroles",
        document("ClusterRole", "w92", VERSION, rules=[ALL]),
        headers=speaking("roles", "a group"),
    )
    for who in ("roles", "binder", "local-admin"):
        for kind, role in (
            ("ClusterRole", "r-reader"),
            ("ClusterRole", "system:aggregate-to-view"),
            ("ClusterRole", "cluster-admin"),
            ("ClusterRole", "r-paths"),
            ("Role", "l-role"),
            ("Role", "ghost"),
            ("ClusterRole", "ghost"),
            ("Frob", "x"),
        ):
            name = f"{who}-{kind.lower()}-{role}"
            yield Asked(
                f"rights: binds {name}",
                "POST",
                f"{local}/rolebindings",
                bound("RoleBinding", name, kind, role, user("mallory")),
                headers=speaking(who),
            )
            if who == "roles" and kind != "Role":
                yield Asked(
                    f"rights: binds everywhere {name}",
                    "POST",
                    f"{RBAC}/clusterrolebindings",
                    bound("ClusterRoleBinding", name, kind, role, user("mallory")),
                    headers=speaking(who),
                )
    yield Asked(
        "rights: adds a subject",
        "PATCH",
        f"{RBAC}/clusterrolebindings/b-named",
        {"subjects": [user("x")]},
        MERGE,
        headers=speaking("roles"),
    )
    yield Asked(
        "rights: changes a role ref",
        "PATCH",
        f"{RBAC}/clusterrolebindings/b-named",
        {"roleRef": {"name": "r-reader"}},
        MERGE,
    )
    yield Asked(
        "rights: adds nothing",
        "PATCH",
        f"{RBAC}/clusterrolebindings/b-named",
        {"metadata": {"labels": {"a": "b"}}},
        MERGE,
        headers=speaking("roles"),
    )
    for name, subject in {"account without namespace": {"kind": "ServiceAccount", "name": "x"}, "account in a group": {**account("x"), "apiGroup": GROUP}, "bad account": account("X_"),
                          "user in no group": {"kind": "User", "name": "x", "apiGroup": ""}, "user of v1": {"kind": "User", "name": "x", "apiGroup": "v1"}, "frob": {"kind": "Frob", "name": "x"}, "nobody": {"kind": "Group"}}.items():  # fmt: skip
        slug = name.replace(" ", "-")
        yield Asked(
            f"rights: subject {name}",
            "POST",
            f"{local}/rolebindings",
            bound("RoleBinding", slug, "ClusterRole", "view", subject),
        )
        yield Asked(
            f"rights: cluster subject {name}",
            "POST",
            f"{RBAC}/clusterrolebindings",
            bound("ClusterRoleBinding", slug, "ClusterRole", "view", subject),
        )


REVIEW = "authorization.k8s.io/v1"
GET_PODS = {"verb": "get", "resource": "pods", "namespace": "rights"}
#: resource → the specs asked, good and spoilt
REVIEWS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "selfsubjectaccessreviews": ("SelfSubjectAccessReview", (
        {}, {"resourceAttributes": {}}, {"resourceAttributes": GET_PODS}, {"nonResourceAttributes": {}}, {"resourceAttributes": GET_PODS, "nonResourceAttributes": {"path": "/x", "verb": "get"}},
        {"resourceAttributes": {**GET_PODS, "version": "v1"}}, {"resourceAttributes": {**GET_PODS, "frob": "x"}}, {"resourceAttributes": "x"}, {"resourceAttributes": {"verb": 7}},
        {"resourceAttributes": {**GET_PODS, "fieldSelector": {"rawSelector": "spec.nodeName=n"}}}, {"resourceAttributes": {**GET_PODS, "fieldSelector": {}}},
        {"resourceAttributes": {**GET_PODS, "fieldSelector": {"requirements": [{"key": "a", "operator": "In", "values": ["b"]}]}}},
        {"resourceAttributes": {**GET_PODS, "fieldSelector": {"rawSelector": "a=b", "requirements": [{"key": "a", "operator": "In", "values": ["b"]}]}}},
        {"resourceAttributes": {**GET_PODS, "fieldSelector": {"requirements": [{"key": "", "operator": "In", "values": []}, {"key": "a", "operator": "Frob"}, {"key": "a", "operator": "Exists", "values": ["x"]}]}}},
        {"resourceAttributes": {**GET_PODS, "labelSelector": {"requirements": [{"key": "", "operator": "In", "values": []}, {"key": "a", "operator": "Frob"}, {"key": "a", "operator": "DoesNotExist", "values": ["x"]}]}}},
        {"resourceAttributes": {**GET_PODS, "labelSelector": {"rawSelector": "a=b"}}}, {"resourceAttributes": {**GET_PODS, "labelSelector": {}}},
        {"resourceAttributes": {**GET_PODS, "fieldSelector": {"rawSelector": "a in ("}}},
    )),
    "subjectaccessreviews": ("SubjectAccessReview", (
        {}, {"user": "reader"}, {"user": "reader", "resourceAttributes": GET_PODS}, {"groups": ["wilds"], "resourceAttributes": {**GET_PODS, "group": "apps"}}, {"user": "", "groups": [], "resourceAttributes": GET_PODS},
        {"user": "reader", "uid": "7", "extra": {"scopes": ["a"]}, "resourceAttributes": GET_PODS}, {"user": "reader", "group": ["x"], "resourceAttributes": GET_PODS}, {"user": "reader", "nonResourceAttributes": {"path": "/healthz", "verb": "get"}},
        {"user": "dangling", "resourceAttributes": GET_PODS}, {"user": "system:serviceaccount:rights:robot", "resourceAttributes": GET_PODS}, {"user": ["x"], "resourceAttributes": GET_PODS},
    )),
    "namespaces/rights/localsubjectaccessreviews": ("LocalSubjectAccessReview", (
        {}, {"user": "local", "resourceAttributes": GET_PODS}, {"user": "local", "resourceAttributes": {**GET_PODS, "namespace": "default"}}, {"user": "local", "resourceAttributes": {"verb": "get", "resource": "pods"}},
        {"user": "local", "nonResourceAttributes": {"path": "/x", "verb": "get"}},
    )),
    "selfsubjectrulesreviews": ("SelfSubjectRulesReview", ({}, {"namespace": "rights"}, {"namespace": "ghost"}, {"namespace": ""}, {"frob": 1})),
}  # fmt: skip


def reviews() -> Iterator[Asked]:
    for resource, (kind, specs) in REVIEWS.items():
        url = f"{AUTHORIZATION}/{resource}"
        for number, spec in enumerate(specs):
            body = {"kind": kind, "apiVersion": REVIEW, "spec": spec}
            yield Asked(
                f"rights: {kind} {number}",
                "POST",
                url,
                body,
                headers=speaking("reader") if kind.startswith("Self") else {},
            )
        head = {"kind": kind, "apiVersion": REVIEW}
        for name, body in {"nothing": {}, "no spec": head, "kind": {**head, "kind": "Frob"}, "other kind": {"kind": "Pod", "apiVersion": "v1"}, "status": {**head, "spec": specs[2 if kind != "SelfSubjectRulesReview" else 1], "status": {"allowed": True}},
                           "named": {**head, "metadata": {"name": "n", "namespace": "other", "labels": {"a": "b"}}, "spec": specs[1]}, "list": [], "text": "x{"}.items():  # fmt: skip
            yield Asked(f"rights: {kind} {name}", "POST", url, body)
        yield Asked(
            f"rights: {kind} strict",
            "POST",
            f"{url}?fieldValidation=Strict",
            {**head, "spec": {**specs[1], "frob": 1}},
        )
        yield Asked(f"rights: {kind} dry", "POST", f"{url}?dryRun=All", {**head, "spec": specs[1]})
        yield Asked(f"rights: {kind} get", "GET", url)
        yield Asked(
            f"rights: {kind} forbidden", "POST", url, {**head, "spec": specs[1]}, headers=speaking("nobody")
        )
    for who in (
        "reader",
        "named",
        "paths",
        "sub",
        "local",
        "local-admin",
        "system:serviceaccount:rights:robot",
        "system:anonymous",
    ):
        yield Asked(
            f"rights: rules of {who}",
            "POST",
            f"{AUTHORIZATION}/selfsubjectrulesreviews",
            {"kind": "SelfSubjectRulesReview", "apiVersion": REVIEW, "spec": {"namespace": "rights"}},
            headers=speaking(who),
        )
    for name, body in {
        "plain": {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"},
        "nothing": {},
        "status": {"status": {"userInfo": {"username": "x"}}},
        "named": {"metadata": {"name": "x"}},
        "wrong": {"kind": "Frob", "apiVersion": "authentication.k8s.io/v1"},
    }.items():
        for who in ("reader", "system:serviceaccount:rights:robot"):
            yield Asked(
                f"rights: SelfSubjectReview {name} {who}",
                "POST",
                f"{AUTHENTICATION}/selfsubjectreviews",
                body,
                headers=speaking(who, "devs"),
            )
    for name, token in {
        "ours": {"token": "admintoken"},
        "wrong": {"token": "x"},
        "empty": {"token": ""},
        "none": {},
        "audience": {"token": "admintoken", "audiences": ["other"]},
        "our audience": {"token": "admintoken", "audiences": ["https://kubernetes.default.svc", "other"]},
        "number": {"token": 7},
        "jwt": {"token": "a.b.c"},
    }.items():
        yield Asked(
            f"rights: TokenReview {name}",
            "POST",
            f"{AUTHENTICATION}/tokenreviews",
            {"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": token},
        )
    yield Asked(
        "rights: TokenReview named",
        "POST",
        f"{AUTHENTICATION}/tokenreviews",
        {"metadata": {"name": "x", "namespace": "y"}, "spec": {"token": "x"}},
    )
    yield Asked(
        "rights: TokenReview forbidden",
        "POST",
        f"{AUTHENTICATION}/tokenreviews",
        {"spec": {"token": "x"}},
        headers=speaking("reader"),
    )


def impersonation() -> Iterator[Asked]:
    """Speaking for others, without the right to and in part."""
    speaker = "speaker"
    for name, headers in {
        "user": {"Impersonate-User": "alice"}, "other user": {"Impersonate-User": "bob"}, "group alone": {"Impersonate-Group": "devs"}, "uid alone": {"Impersonate-Uid": "7"}, "extra alone": {"Impersonate-Extra-Scopes": "a"},
        "group": {"Impersonate-User": "alice", "Impersonate-Group": "devs"}, "masters": {"Impersonate-User": "alice", "Impersonate-Group": "system:masters"}, "empty": {"Impersonate-User": ""},
        "account": {"Impersonate-User": "system:serviceaccount:rights:robot"}, "bad account": {"Impersonate-User": "system:serviceaccount:rights"}, "uid": {"Impersonate-User": "alice", "Impersonate-Uid": "8"},
        "anonymous": {"Impersonate-User": "system:anonymous", "Impersonate-Group": "devs"},
    }.items():  # fmt: skip
        yield Asked(f"rights: {speaker} speaks, {name}", "GET", f"{NS}/secrets", headers=headers)


WORKLOADS = {
    "deployments": ("Deployment", "apps/v1", APPS),
    "replicasets": ("ReplicaSet", "apps/v1", APPS),
    "statefulsets": ("StatefulSet", "apps/v1", APPS),
    "replicationcontrollers": ("ReplicationController", "v1", NS),
}


def scales() -> Iterator[Asked]:
    """The Scale of every workload: read, put, patched, applied; what is refused."""
    for resource, (kind, version, url) in WORKLOADS.items():
        spec: Document = {"replicas": 2, "selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE}
        if kind == "ReplicationController":
            spec["selector"] = {"app": "a"}
        if kind == "StatefulSet":
            spec["serviceName"] = "s"
        whole = f"{url}/{resource}/w"
        at = f"{whole}/scale"

        def asked(
            name: str,
            method: str,
            path: str,
            body: Any = None,
            content: str = "application/json",
            resource: str = resource,
            **rest: Any,
        ) -> Asked:
            return Asked(f"scale: {resource} {name}", method, path, body, content, **rest)

        def scale(replicas: Any, name: str = "w", **rest: Any) -> Document:
            return document("Scale", name, "autoscaling/v1", spec={"replicas": replicas}, **rest)

        yield asked(
            "applied",
            "PATCH",
            f"{whole}?fieldManager=owner",
            json.dumps(document(kind, "w", version, spec=spec)),
            APPLY,
        )
        yield asked("get", "GET", at)
        yield asked(
            "posted", "POST", f"{url}/{resource}?fieldManager=maker", document(kind, "p", version, spec=spec)
        )
        yield asked("put as posted", "PUT", f"{url}/{resource}/p/scale?fieldManager=putter", scale(2, "p"))
        yield asked("posted, put the same", "GET", f"{url}/{resource}/p")
        yield asked("put the maker's", "PUT", f"{url}/{resource}/p/scale?fieldManager=maker", scale(3, "p"))
        yield asked("posted, put by the maker", "GET", f"{url}/{resource}/p")
        yield asked(
            "apply over the maker",
            "PATCH",
            f"{url}/{resource}/p/scale?fieldManager=maker",
            json.dumps(scale(4, "p")),
            APPLY,
        )
        yield asked(
            "apply over the maker forced",
            "PATCH",
            f"{url}/{resource}/p/scale?fieldManager=maker&force=true",
            json.dumps(scale(4, "p")),
            APPLY,
        )
        yield asked("posted, applied", "GET", f"{url}/{resource}/p")
        yield asked("apply conflict", "PATCH", f"{at}?fieldManager=scaler", json.dumps(scale(5)), APPLY)
        yield asked("apply same", "PATCH", f"{at}?fieldManager=scaler", json.dumps(scale(2)), APPLY)
        yield asked("shared", "GET", whole)
        yield asked(
            "apply conflict with itself and owner",
            "PATCH",
            f"{at}?fieldManager=scaler",
            json.dumps(scale(6)),
            APPLY,
        )
        yield asked(
            "apply forced", "PATCH", f"{at}?fieldManager=scaler&force=true", json.dumps(scale(6)), APPLY
        )
        yield asked("forced", "GET", whole)
        yield asked(
            "owner conflicts",
            "PATCH",
            f"{whole}?fieldManager=owner",
            json.dumps(document(kind, "w", version, spec=spec)),
            APPLY,
        )
        yield asked("owner as scale", "PATCH", f"{at}?fieldManager=owner", json.dumps(scale(7)), APPLY)
        yield asked("apply again", "PATCH", f"{at}?fieldManager=scaler", json.dumps(scale(8)), APPLY)
        yield asked(
            "apply nothing",
            "PATCH",
            f"{at}?fieldManager=scaler",
            json.dumps(document("Scale", "w", "autoscaling/v1")),
            APPLY,
        )
        yield asked("after nothing", "GET", whole)
        yield asked("apply empty body", "PATCH", f"{at}?fieldManager=scaler", "", APPLY)
        yield asked("apply no manager", "PATCH", at, json.dumps(scale(8)), APPLY)
        yield asked(
            "apply other kind", "PATCH", f"{at}?fieldManager=s", json.dumps(document("Pod", "w")), APPLY
        )
        yield asked(
            "apply workload",
            "PATCH",
            f"{at}?fieldManager=s",
            json.dumps(document(kind, "w", version, spec={"replicas": 1})),
            APPLY,
        )
        yield asked(
            "apply no kind", "PATCH", f"{at}?fieldManager=s", json.dumps({"spec": {"replicas": 1}}), APPLY
        )
        yield asked("apply other name", "PATCH", f"{at}?fieldManager=s", json.dumps(scale(2, "z")), APPLY)
        yield asked("apply text", "PATCH", f"{at}?fieldManager=s", json.dumps(scale("x")), APPLY)
        yield asked(
            "apply unknown", "PATCH", f"{at}?fieldManager=s", json.dumps({**scale(2), "frob": 1}), APPLY
        )
        yield asked(
            "apply negative", "PATCH", f"{at}?fieldManager=s&force=true", json.dumps(scale(-2)), APPLY
        )
        yield asked(
            "apply status",
            "PATCH",
            f"{at}?fieldManager=s&force=true",
            json.dumps({**scale(3), "status": {"replicas": 9, "selector": "a=b"}}),
            APPLY,
        )
        yield asked(
            "apply managed",
            "PATCH",
            f"{at}?fieldManager=s",
            json.dumps(scale(3, metadata={"managedFields": [{"manager": "x"}]})),
            APPLY,
        )
        yield asked("apply zero", "PATCH", f"{at}?fieldManager=s&force=true", json.dumps(scale(0)), APPLY)
        yield asked("get zero", "GET", at)
        yield asked("put", "PUT", f"{at}?fieldManager=putter", scale(4, metadata={"namespace": "rights"}))
        yield asked("putter conflicts", "PATCH", f"{at}?fieldManager=s", json.dumps(scale(1)), APPLY)
        yield asked("after put", "GET", whole)
        yield asked(
            "put same", "PUT", f"{at}?fieldManager=putter", scale(4, metadata={"namespace": "rights"})
        )
        yield asked("put without namespace", "PUT", at, scale(4))
        yield asked("put in another namespace", "PUT", at, scale(4, metadata={"namespace": "default"}))
        yield asked("put other name", "PUT", at, scale(4, "z", metadata={"namespace": "rights"}))
        yield asked(
            "put no name",
            "PUT",
            at,
            {"kind": "Scale", "apiVersion": "autoscaling/v1", "spec": {"replicas": 4}},
        )
        yield asked("put no kind", "PUT", at, {"metadata": {"name": "w"}, "spec": {"replicas": 4}})
        yield asked(
            "put old version", "PUT", at, scale(5, metadata={"namespace": "rights", "resourceVersion": "1"})
        )
        yield asked(
            "put bad version", "PUT", at, scale(5, metadata={"namespace": "rights", "resourceVersion": "x"})
        )
        yield asked(
            "put other uid",
            "PUT",
            at,
            scale(5, metadata={"namespace": "rights", "uid": "11111111-1111-1111-1111-111111111111"}),
        )
        yield asked("put negative", "PUT", at, scale(-1, metadata={"namespace": "rights"}))
        yield asked("put text", "PUT", at, scale("x"))
        yield asked("put nothing", "PUT", at, {})
        yield asked(
            "put no spec",
            "PUT",
            at,
            document("Scale", "w", "autoscaling/v1", metadata={"namespace": "rights"}),
        )
        yield asked("put other kind", "PUT", at, document("Pod", "w"))
        yield asked("put workload", "PUT", at, document(kind, "w", version, spec=spec))
        yield asked("put unknown", "PUT", at, {**scale(4, metadata={"namespace": "rights"}), "frob": 1})
        yield asked(
            "put strict",
            "PUT",
            f"{at}?fieldValidation=Strict",
            {**scale(4, metadata={"namespace": "rights"}), "frob": 1},
        )
        yield asked("put labels", "PUT", at, scale(4, metadata={"namespace": "rights", "labels": {"a": "b"}}))
        yield asked("put dry", "PUT", f"{at}?dryRun=All", scale(9, metadata={"namespace": "rights"}))
        yield asked(
            "put ghost",
            "PUT",
            f"{url}/{resource}/ghost/scale",
            scale(4, "ghost", metadata={"namespace": "rights"}),
        )
        yield asked("get ghost", "GET", f"{url}/{resource}/ghost/scale")
        yield asked(
            "apply ghost",
            "PATCH",
            f"{url}/{resource}/ghost/scale?fieldManager=m",
            json.dumps(scale(4, "ghost")),
            APPLY,
        )
        yield asked("post", "POST", at, scale(4))
        yield asked("delete", "DELETE", at)
        yield asked("merge", "PATCH", f"{at}?fieldManager=merger", {"spec": {"replicas": 3}}, MERGE)
        yield asked("after merge", "GET", whole)
        yield asked("strategic", "PATCH", at, {"spec": {"replicas": 5}}, STRATEGIC)
        yield asked(
            "json", "PATCH", at, [{"op": "replace", "path": "/spec/replicas", "value": 6}], JSON_PATCH
        )
        yield asked(
            "json test",
            "PATCH",
            at,
            [
                {"op": "test", "path": "/spec/replicas", "value": 9},
                {"op": "replace", "path": "/spec/replicas", "value": 1},
            ],
            JSON_PATCH,
        )
        yield asked(
            "merge old version",
            "PATCH",
            at,
            {"metadata": {"resourceVersion": "1"}, "spec": {"replicas": 4}},
            MERGE,
        )
        yield asked("merge name", "PATCH", at, {"metadata": {"name": "z"}}, MERGE)
        yield asked("merge namespace", "PATCH", at, {"metadata": {"namespace": "default"}}, MERGE)
        yield asked(
            "merge uid", "PATCH", at, {"metadata": {"uid": "11111111-1111-1111-1111-111111111111"}}, MERGE
        )
        yield asked("merge null", "PATCH", at, {"spec": {"replicas": None}}, MERGE)
        yield asked("merge no spec", "PATCH", at, {"spec": None}, MERGE)
        yield asked("merge status", "PATCH", at, {"status": {"replicas": 70}}, MERGE)
        yield asked("merge unknown", "PATCH", at, {"spec": {"frob": 1}}, MERGE)
        yield asked("merge strict", "PATCH", f"{at}?fieldValidation=Strict", {"spec": {"frob": 1}}, MERGE)
        yield asked("merge dry", "PATCH", f"{at}?dryRun=All", {"spec": {"replicas": 30}}, MERGE)
        yield asked("merge text", "PATCH", at, "x", MERGE)
        yield asked("merge wrong media", "PATCH", at, {}, "text/plain")
        yield asked("merge ghost", "PATCH", f"{url}/{resource}/ghost/scale", {}, MERGE)
        yield asked("end", "GET", whole)
    yield Asked("scale: daemonsets get", "GET", f"{APPS}/daemonsets/w/scale")


def claims() -> Iterator[Asked]:
    """A claim's status needs rights of its own: who allocates, and who tells how the devices are."""
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}
    for who in ("claims", "claims-binding", "claims-driver"):
        body = document("ResourceClaim", f"of-{who}", "resource.k8s.io/v1", spec=spec)
        at = f"{CLAIMS}/of-{who}"
        allocation = {
            "devices": {
                "results": [
                    {"request": "r", "driver": f"{which}.example.com", "pool": "p", "device": "d"}
                    for which in ("good", "bad")
                ]
            }
        }
        told = [
            {"driver": f"{which}.example.com", "pool": "p", "device": "d", "data": {"a": 1}}
            for which in ("good", "bad")
        ]
        yield Asked(f"claim: {who} made", "POST", CLAIMS, body)
        yield Asked(
            f"claim: {who} labels the status",
            "PATCH",
            f"{at}/status",
            {"metadata": {"labels": {"a": "b"}}},
            MERGE,
            headers=speaking(who),
        )
        yield Asked(
            f"claim: {who} allocates",
            "PATCH",
            f"{at}/status",
            {"status": {"allocation": allocation}},
            MERGE,
            headers=speaking(who),
        )
        yield Asked(
            f"claim: {who} applies",
            "PATCH",
            f"{at}/status?fieldManager=m",
            json.dumps(
                {
                    **document("ResourceClaim", f"of-{who}", "resource.k8s.io/v1"),
                    "status": {"allocation": allocation},
                }
            ),
            APPLY,
            headers=speaking(who),
        )
        yield Asked(
            f"claim: {who} reserves",
            "PATCH",
            f"{at}/status",
            {
                "status": {
                    "allocation": allocation,
                    "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
                }
            },
            MERGE,
            headers=speaking(who),
        )
        yield Asked(
            f"claim: {who} admin allocates",
            "PATCH",
            f"{at}/status",
            {"status": {"allocation": allocation}},
            MERGE,
        )
        for which in (0, 1):
            yield Asked(
                f"claim: {who} tells of {which}",
                "PATCH",
                f"{at}/status",
                {"status": {"devices": told[which : which + 1]}},
                MERGE,
                headers=speaking(who),
            )
        yield Asked(
            f"claim: {who} tells of both",
            "PATCH",
            f"{at}/status",
            {"status": {"devices": told}},
            MERGE,
            headers=speaking(who),
        )
        yield Asked(
            f"claim: {who} tells a node's account",
            "PATCH",
            f"{at}/status",
            {"status": {"devices": told}},
            MERGE,
            headers=speaking("system:serviceaccount:rights:driver"),
        )
        yield Asked(
            f"claim: {who} admin tells", "PATCH", f"{at}/status", {"status": {"devices": told}}, MERGE
        )
        yield Asked(
            f"claim: {who} tells nothing",
            "PATCH",
            f"{at}/status",
            {"status": {"devices": []}},
            MERGE,
            headers=speaking(who),
        )
        yield Asked(
            f"claim: {who} deallocates",
            "PATCH",
            f"{at}/status",
            {"status": {"allocation": None}},
            MERGE,
            headers=speaking(who),
        )


_FIRST = "upstream asks for the rights before it validates; weir validates first"
_METADATA = "upstream refuses metadata in a review and prints it with the owners it has just written"
_OWNED = "upstream notes an owner of the status a client sent; the status itself is forgotten"
_KEY = "weir keeps workloads under the name of their group"
#: case → why weir answers otherwise
RIGHTS_DIFFERENT: dict[str, str] = {
    **{f"rights: writes a role, {name}": _FIRST for name in ("everything", "paths", "mixed")},
    "rights: writes a cluster role, mixed": _FIRST,
    **{
        f"rights: {name}-frob-x": _FIRST for name in ("binds roles", "binds everywhere roles", "binds binder")
    },
    **{f"rights: {kind} named": _METADATA for kind in ("SelfSubjectAccessReview", "SubjectAccessReview")},
    **{f"rights: {kind} status": _OWNED for kind in ("SelfSubjectAccessReview", "SubjectAccessReview")},
    **{f"rights: SelfSubjectAccessReview {n}": "requirements are not looked into" for n in (13, 14)},
    "rights: SelfSubjectAccessReview 17": "a selector that cannot be read is ignored without a word",
    **{f"scale: {resource} put other uid": _KEY for resource in WORKLOADS},
}
SETUP = [*setup()]
RIGHTS = [*decisions(), *refusals(), *escalations(), *reviews(), *impersonation(), *scales(), *claims()]
