"""Requests about who may come in and what admission says, asked of a real API server and of weir.

Each case is one request; state carries over. `shown` are the parts of a successful answer that are compared (a
refusal is compared whole).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

TOKENS = """\
admintoken,admin,admin-uid,"system:masters"
janetoken,jane,jane-uid,"dev"
nodetoken,system:node:n1,n1-uid,"system:nodes"
bindtoken,binder,b-uid,""
"""
ADMIN, JANE, NODE, BINDER = "admintoken", "janetoken", "nodetoken", "bindtoken"
MERGE = "application/merge-patch+json"
NS = "/api/v1/namespaces/default"
PODS = f"{NS}/pods"
RBAC_GROUP = "rbac.authorization.k8s.io"
RBAC = f"/apis/{RBAC_GROUP}/v1"
AUTHORIZATION = "/apis/authorization.k8s.io/v1"
AUTHENTICATION = "/apis/authentication.k8s.io/v1"
LEASES = "/apis/coordination.k8s.io/v1/namespaces"


@dataclass(frozen=True)
class Case:
    """One request and what of its answer is compared."""

    name: str
    who: str
    method: str
    path: str
    body: Any = None
    shown: tuple[str, ...] = ()
    content: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    compared: bool = True


CASES: list[Case] = []


def ask(name: str, who: str, method: str, path: str, body: Any = None, *shown: str, **rest: Any) -> None:
    CASES.append(Case(name, who, method, path, body, shown, **rest))


def prepare(path: str, body: Any, *, method: str = "POST", **rest: Any) -> None:
    """Write something that later cases need; what comes back is not compared."""
    CASES.append(Case(f"prepare-{len(CASES)}", ADMIN, method, path, body, (), compared=False, **rest))


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, **spec.pop("metadata", {})}
    containers = spec.pop("containers", [{"name": "c", "image": "i"}])
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": metadata,
        "spec": {"containers": containers, **spec},
    }


def using(name: str, requests: dict[str, str], limits: dict[str, str] | None = None) -> dict[str, Any]:
    resources = {"requests": requests, **({"limits": limits} if limits else {})}
    return pod(name, containers=[{"name": "c1", "image": "i", "resources": resources}])


def cluster_role(name: str, *rules: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "rules": list(rules), **rest}


def binding(name: str, role: str, user: str, kind: str = "ClusterRole") -> dict[str, Any]:
    subject = {"kind": "User", "name": user, "apiGroup": RBAC_GROUP}
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": kind, "name": role},
        "subjects": [subject],
    }


def claim(name: str, size: str, **spec: Any) -> dict[str, Any]:
    resources = {"requests": {"storage": size}}
    return {
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources, **spec},
    }


# --- proofs and rights ---

prepare(f"{NS}/serviceaccounts", {"metadata": {"name": "default"}})
ask("no-proof", "", "GET", "/api")
ask("wrong-proof", "wrong", "GET", PODS)
for number, (method, path) in enumerate(
    [
        ("GET", PODS),
        ("GET", f"{PODS}/x"),
        ("DELETE", PODS),
        ("GET", f"{PODS}?watch=1"),
        ("GET", "/api/v1/watch/pods"),
        ("GET", f"{PODS}/x/log"),
        ("POST", f"{PODS}/x/exec"),
        ("GET", "/api/v1/nodes"),
        ("GET", NS),
        ("GET", "/apis/apps/v1/deployments"),
        ("GET", "/metrics"),
        ("GET", f"{NS}/nothere"),
    ]
):
    ask(f"no-right-{number}", JANE, method, path)
ask("no-right-create", JANE, "POST", PODS, pod())
ask("no-right-status", JANE, "PATCH", f"{PODS}/x/status", {}, content=MERGE)
ask("no-right-scale", JANE, "PUT", "/apis/apps/v1/namespaces/default/deployments/d/scale", {})

for number, (who, headers) in enumerate(
    [
        (JANE, {"Impersonate-User": "joe"}),
        (ADMIN, {"Impersonate-User": "joe"}),
        (ADMIN, {"Impersonate-User": "system:serviceaccount:default:default"}),
        (ADMIN, {"Impersonate-Group": "joe"}),
    ]
):
    ask(f"speaking-for-{number}", who, "GET", PODS, headers=headers)
for number, headers in enumerate(
    [
        # A real server then tries the mode that last worked first: extras without a domain, last, need the old one.
        {"Impersonate-User": "system:node:n1"},
        {"Impersonate-User": "system:serviceaccount:default:default"},
        {"Impersonate-User": "system:anonymous"},
        {
            "Impersonate-User": "joe",
            "Impersonate-Group": "x",
            "Impersonate-Uid": "7",
            "Impersonate-Extra-Scopes": "a",
        },
    ]
):
    review = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
    ask(
        f"spoken-for-{number}",
        ADMIN,
        "POST",
        f"{AUTHENTICATION}/selfsubjectreviews",
        review,
        "status",
        headers=headers,
    )

# --- reviews ---

GET_PODS = {"verb": "get", "resource": "pods"}
PATH_X = {"path": "/x", "verb": "get"}
for number, (who, kind, spec) in enumerate(
    [
        (JANE, "selfsubjectaccessreviews", {}),
        (JANE, "selfsubjectaccessreviews", {"resourceAttributes": GET_PODS, "nonResourceAttributes": PATH_X}),
        (JANE, "selfsubjectaccessreviews", {"resourceAttributes": GET_PODS}),
        (JANE, "selfsubjectaccessreviews", {"nonResourceAttributes": {"path": "/openapi/v2", "verb": "get"}}),
        (
            ADMIN,
            "selfsubjectaccessreviews",
            {"resourceAttributes": {"verb": "*", "resource": "*", "group": "*"}},
        ),
        (ADMIN, "subjectaccessreviews", {"resourceAttributes": GET_PODS}),
        (ADMIN, "subjectaccessreviews", {"user": "jane", "resourceAttributes": GET_PODS}),
        (
            ADMIN,
            "subjectaccessreviews",
            {
                "user": "system:kube-scheduler",
                "resourceAttributes": {
                    "verb": "create",
                    "resource": "pods",
                    "subresource": "binding",
                    "namespace": "x",
                },
            },
        ),
        (ADMIN, "subjectaccessreviews", {"groups": ["system:masters"], "resourceAttributes": GET_PODS}),
        (JANE, "subjectaccessreviews", {"user": "jane", "resourceAttributes": GET_PODS}),
        (
            ADMIN,
            "namespaces/default/localsubjectaccessreviews",
            {"user": "jane", "resourceAttributes": {**GET_PODS, "namespace": "other"}},
        ),
        (
            ADMIN,
            "namespaces/default/localsubjectaccessreviews",
            {"user": "jane", "resourceAttributes": {**GET_PODS, "namespace": "default"}},
        ),
        (
            ADMIN,
            "namespaces/default/localsubjectaccessreviews",
            {"user": "jane", "nonResourceAttributes": PATH_X},
        ),
        (JANE, "selfsubjectrulesreviews", {}),
    ]
):
    ask(f"access-review-{number}", who, "POST", f"{AUTHORIZATION}/{kind}", {"spec": spec}, "status")
for number, spec in enumerate(
    [{}, {"token": "janetoken"}, {"token": "nope"}, {"token": "janetoken", "audiences": ["x"]}]
):
    ask(f"token-review-{number}", ADMIN, "POST", f"{AUTHENTICATION}/tokenreviews", {"spec": spec}, "status")

# --- giving rights away ---

WRITES_ROLES = {
    "verbs": ["create", "update", "patch", "get"],
    "apiGroups": [RBAC_GROUP],
    "resources": ["clusterroles", "clusterrolebindings", "roles", "rolebindings"],
}
READS_PODS = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}
EVERYTHING = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
prepare(f"{RBAC}/clusterroles", cluster_role("roler", WRITES_ROLES, READS_PODS))
prepare(f"{RBAC}/clusterrolebindings", binding("roler", "roler", "jane"))
for number, role in enumerate(
    [
        cluster_role(
            "x1", {"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["pods", "secrets"]}
        ),
        cluster_role("x2", EVERYTHING, {"verbs": ["get"], "nonResourceURLs": ["/metrics", "/x/*"]}),
        cluster_role("x3", {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}),
        cluster_role(
            "x4",
            {
                "verbs": ["get", "delete"],
                "apiGroups": [""],
                "resources": ["pods"],
                "resourceNames": ["a", "b"],
            },
        ),
        cluster_role("x5", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}),
    ]
):
    ask(f"role-{number}", JANE, "POST", f"{RBAC}/clusterroles", role, "metadata.name")
ask("bind-all", JANE, "POST", f"{RBAC}/clusterrolebindings", binding("y1", "cluster-admin", "jane"))
ask("bind-ghost", JANE, "POST", f"{RBAC}/clusterrolebindings", binding("y2", "ghost", "jane"))
ask(
    "bind-ghost-role",
    JANE,
    "POST",
    f"{RBAC}/namespaces/default/rolebindings",
    binding("y3", "ghost", "jane", "Role"),
)
ask(
    "bind-held",
    JANE,
    "POST",
    f"{RBAC}/namespaces/default/rolebindings",
    binding("y5", "x3", "joe"),
    "metadata.name",
)
ask("widen-own", JANE, "PATCH", f"{RBAC}/clusterroles/roler", {"rules": [EVERYTHING]}, content=MERGE)
prepare(f"{RBAC}/clusterrolebindings", binding("dangling", "ghostrole", "binder"))
ask("dangling", BINDER, "GET", PODS)

# --- namespaces, priorities, accounts, runtime classes ---

ask("immortal", ADMIN, "DELETE", "/api/v1/namespaces/kube-system")
ask("nowhere", ADMIN, "POST", "/api/v1/namespaces/nowhere/pods", pod())
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
prepare(PRIORITIES, {"metadata": {"name": "never"}, "value": 5, "preemptionPolicy": "Never"})
prepare(
    "/apis/node.k8s.io/v1/runtimeclasses",
    {
        "metadata": {"name": "kata"},
        "handler": "kata",
        "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {
            "nodeSelector": {"r": "kata"},
            "tolerations": [{"key": "kata", "operator": "Exists", "effect": "NoSchedule"}],
        },
    },
)
MIRROR = {"annotations": {"kubernetes.io/config.mirror": "x"}}
GPU = {"limits": {"example.com/gpu": "1", "cpu": "1"}}
for number, document in enumerate(
    [
        pod("a1", priorityClassName="nope"),
        pod("a2", priority=7),
        pod("a3", serviceAccountName="nope"),
        {**pod(serviceAccountName="nope"), "metadata": {"generateName": "web-"}},
        pod("a4", priorityClassName="never", preemptionPolicy="PreemptLowerPriority"),
        pod("a5", priorityClassName="never"),
        pod("a6", runtimeClassName="nope"),
        pod("a7", overhead={"cpu": "1"}),
        pod("a8", runtimeClassName="kata"),
        pod("a9", runtimeClassName="kata", nodeSelector={"r": "runc"}),
        pod("b1", runtimeClassName="kata", overhead={"cpu": "1"}),
        pod("b2", metadata=MIRROR, serviceAccountName="default"),
        pod("b3", containers=[{"name": "c", "image": "i", "resources": GPU}]),
        pod("b4", automountServiceAccountToken=False),
        pod("b5", initContainers=[{"name": "i", "image": "i"}]),
    ]
):
    ask(f"pod-{number}", ADMIN, "POST", PODS, document, "spec")

# --- tolerations a namespace gives and permits ---

ANY_A = {"key": "a", "operator": "Exists"}
LISTED = "scheduler.alpha.kubernetes.io/"
prepare(
    "/api/v1/namespaces",
    {
        "metadata": {
            "name": "tol",
            "annotations": {
                f"{LISTED}defaultTolerations": json.dumps([{**ANY_A, "effect": "NoSchedule"}]),
                f"{LISTED}tolerationsWhitelist": json.dumps(
                    [{"operator": "Exists", "effect": "NoExecute"}, ANY_A]
                ),
            },
        }
    },
)
prepare("/api/v1/namespaces/tol/serviceaccounts", {"metadata": {"name": "default"}})
for number, tolerations in enumerate(
    [
        [],
        [{"key": "b", "operator": "Exists"}],
        [{"key": "a", "operator": "Equal", "value": "x", "effect": "NoSchedule"}],
        [{"key": "z", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9}],
    ]
):
    path = "/api/v1/namespaces/tol/pods"
    ask(
        f"tolerations-{number}",
        ADMIN,
        "POST",
        path,
        pod(f"t{number}", tolerations=tolerations),
        "spec.tolerations",
    )

# --- limits and quotas ---

prepare("/api/v1/namespaces", {"metadata": {"name": "lim"}})
prepare("/api/v1/namespaces/lim/serviceaccounts", {"metadata": {"name": "default"}})
prepare(
    "/api/v1/namespaces/lim/limitranges",
    {
        "metadata": {"name": "l"},
        "spec": {
            "limits": [
                {
                    "type": "Container",
                    "default": {"cpu": "1", "memory": "1Gi"},
                    "defaultRequest": {"cpu": "500m"},
                    "max": {"cpu": "2"},
                    "min": {"memory": "64Mi"},
                    "maxLimitRequestRatio": {"cpu": "4"},
                },
                {"type": "Pod", "max": {"cpu": "3"}},
                {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}},
            ]
        },
    },
)


def limited(name: str, **resources: dict[str, str]) -> dict[str, Any]:
    return pod(name, containers=[{"name": "c", "image": "i", "resources": resources}])


for number, document in enumerate(
    [
        pod("l1"),
        limited("l2", limits={"cpu": "3"}),
        limited("l3", limits={"cpu": "2"}, requests={"cpu": "100m"}),
        pod(
            "l4", containers=[{"name": n, "image": "i", "resources": {"limits": {"cpu": "2"}}} for n in "xy"]
        ),
    ]
):
    path = "/api/v1/namespaces/lim/pods"
    ask(f"limits-{number}", ADMIN, "POST", path, document, "spec.containers", "metadata.annotations")
ask("limits-claim", ADMIN, "POST", "/api/v1/namespaces/lim/persistentvolumeclaims", claim("c", "2Gi"))

HARD = {"pods": "3", "requests.cpu": "2", "limits.memory": "2Gi", "secrets": "1", "requests.storage": "5Gi"}
prepare("/api/v1/namespaces", {"metadata": {"name": "quo"}})
prepare("/api/v1/namespaces/quo/serviceaccounts", {"metadata": {"name": "default"}})
prepare("/api/v1/namespaces/quo/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": HARD}})
prepare(
    "/api/v1/namespaces/quo/resourcequotas/q/status",
    {"status": {"hard": HARD, "used": dict.fromkeys(HARD, "0")}},
    method="PATCH",
    content=MERGE,
)
for number, document in enumerate(
    [
        pod("q1"),
        using("q2", {"cpu": "1"}),
        using("q3", {"cpu": "1"}, {"memory": "1Gi", "cpu": "1"}),
        using("q4", {"cpu": "1500m"}, {"memory": "2Gi", "cpu": "2"}),
    ]
):
    ask(f"quota-{number}", ADMIN, "POST", "/api/v1/namespaces/quo/pods", document, "metadata.name")
for name in ("s1", "s2"):
    ask(
        f"quota-{name}", ADMIN, "POST", "/api/v1/namespaces/quo/secrets", {"metadata": {"name": name}}, "kind"
    )
ask(
    "quota-claim",
    ADMIN,
    "POST",
    "/api/v1/namespaces/quo/persistentvolumeclaims",
    claim("c", "6Gi", storageClassName=""),
)

# --- kubelets ---

TAINTED = {"metadata": {"name": "n1"}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}
RESTRICTED = {
    "node-restriction.kubernetes.io/x": "y",
    "foo.kubernetes.io/a": "b",
    "kubernetes.io/os": "linux",
}
ask("node-labels", NODE, "POST", "/api/v1/nodes", {"metadata": {"name": "n1", "labels": RESTRICTED}})
ask("node-other", NODE, "POST", "/api/v1/nodes", {"metadata": {"name": "n2"}})
ask("node-own", NODE, "POST", "/api/v1/nodes", TAINTED, "spec.taints")
ask("node-untaint", NODE, "PATCH", "/api/v1/nodes/n1", {"spec": {"taints": []}}, content=MERGE)
ask(
    "node-relabel",
    NODE,
    "PATCH",
    "/api/v1/nodes/n1",
    {"metadata": {"labels": {"x.k8s.io/z": "1"}}},
    content=MERGE,
)
OWNED = {
    **MIRROR,
    "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "x", "controller": True}],
}
for number, (method, path, body) in enumerate(
    [
        ("GET", "/api/v1/nodes", None),
        ("GET", "/api/v1/nodes/n2", None),
        ("DELETE", "/api/v1/nodes/n1", None),
        ("GET", "/api/v1/pods", None),
        ("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn2", None),
        ("GET", f"{NS}/secrets/s", None),
        ("GET", f"{NS}/secrets", None),
        ("POST", f"{NS}/secrets", {"metadata": {"name": "s"}}),
        ("POST", PODS, pod("m1")),
        ("POST", PODS, pod("m1", metadata=MIRROR, nodeName="n1")),
        ("POST", PODS, pod("m1", metadata=OWNED, nodeName="n1")),
        ("DELETE", f"{PODS}/a5", None),
        ("POST", f"{PODS}/a5/eviction", {"metadata": {"name": "a5", "namespace": "default"}}),
        (
            "POST",
            f"{LEASES}/kube-node-lease/leases",
            {"metadata": {"name": "n2", "namespace": "kube-node-lease"}},
        ),
        ("POST", f"{LEASES}/default/leases", {"metadata": {"name": "n1"}}),
        ("POST", f"{NS}/serviceaccounts/default/token", {"spec": {}}),
        ("GET", "/apis/storage.k8s.io/v1/csinodes/n2", None),
        ("GET", f"{RBAC}/clusterroles", None),
    ]
):
    ask(f"kubelet-{number}", NODE, method, path, body)

# --- tokens ---

for number, (account, spec) in enumerate(
    [
        ("default", {"expirationSeconds": 10}),
        ("default", {"expirationSeconds": 4294967297}),
        ("ghost", {}),
        ("default", {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "ghost"}}),
        ("default", {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "a5", "uid": "wrong"}}),
        ("default", {"boundObjectRef": {"kind": "Service", "apiVersion": "v1", "name": "x"}}),
        (
            "default",
            {"audiences": ["x"], "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "a5"}},
        ),
    ]
):
    ask(f"token-{number}", ADMIN, "POST", f"{NS}/serviceaccounts/{account}/token", {"spec": spec}, "spec")
