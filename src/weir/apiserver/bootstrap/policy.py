"""Which roles and bindings does a new cluster start with?

Kubernetes' own: enough for an administrator, for `kubectl` users with `view`, `edit` or `admin`, and for an
unmodified kube-scheduler, kube-controller-manager and kubelet. `objects()` are created when they are missing;
`reconciled` brings one that is there up to date, by adding what it lacks and never taking away, unless its
owner has switched that off with the annotation.
Not here: the rules (weir.apiserver.bootstrap.component_roles, weir.apiserver.bootstrap.controller_roles), writing the
objects (weir.apiserver.run).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from weir.apiserver.auth.rbac import Rule
from weir.apiserver.auth.rule_coverage import uncovered
from weir.apiserver.bootstrap.component_roles import ROLES
from weir.apiserver.bootstrap.controller_roles import CONTROLLERS

GROUP = "rbac.authorization.k8s.io"
AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
SYSTEM = "kube-system"

_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
_SHORT = {"read": _READ, "write": _WRITE, "all": (*_READ, *_WRITE)}

_AGGREGATED = {"admin": (), "edit": ("admin",), "view": ("edit",)}  # role → into which it is gathered
_GATHERED = {f"system:aggregate-to-{role}": role for role in _AGGREGATED}

_BOUND_CLUSTER_ROLES = (
    ("cluster-admin", "cluster-admin", "Group:system:masters"),
    ("system:basic-user", "system:basic-user", "Group:system:authenticated"),
    (
        "system:cluster-trust-bundle-discovery",
        "system:cluster-trust-bundle-discovery",
        "Group:system:serviceaccounts",
    ),
    ("system:discovery", "system:discovery", "Group:system:authenticated"),
    (
        "system:kube-controller-manager",
        "system:kube-controller-manager",
        "User:system:kube-controller-manager",
    ),
    ("system:kube-dns", "system:kube-dns", "ServiceAccount:kube-dns"),
    ("system:kube-scheduler", "system:kube-scheduler", "User:system:kube-scheduler"),
    ("system:monitoring", "system:monitoring", "Group:system:monitoring"),
    ("system:node", "system:node", ""),  # bound to nobody: the Node authorizer answers for kubelets
    ("system:node-proxier", "system:node-proxier", "User:system:kube-proxy"),
    (
        "system:public-info-viewer",
        "system:public-info-viewer",
        "Group:system:authenticated Group:system:unauthenticated",
    ),
    (
        "system:service-account-issuer-discovery",
        "system:service-account-issuer-discovery",
        "Group:system:serviceaccounts",
    ),
    ("system:volume-scheduler", "system:volume-scheduler", "User:system:kube-scheduler"),
)

_NAMESPACED = (
    (
        SYSTEM,
        "extension-apiserver-authentication-reader",
        "read core configmaps only extension-apiserver-authentication",
        "system::extension-apiserver-authentication-reader",
        "User:system:kube-controller-manager User:system:kube-scheduler",
    ),
    (
        SYSTEM,
        "system::leader-locking-kube-controller-manager",
        "read,create,update coordination.k8s.io leases\nread,create,update coordination.k8s.io leasecandidates",
        "",
        "User:system:kube-controller-manager ServiceAccount:kube-controller-manager "
        "ServiceAccount:leader-election-controller",
    ),
    (
        SYSTEM,
        "system::leader-locking-kube-scheduler",
        "read,create,update coordination.k8s.io leases\nread,create,update coordination.k8s.io leasecandidates",
        "",
        "User:system:kube-scheduler ServiceAccount:kube-scheduler",
    ),
    (
        SYSTEM,
        "system:controller:bootstrap-signer",
        "read core secrets",
        "",
        "ServiceAccount:bootstrap-signer",
    ),
    (
        SYSTEM,
        "system:controller:cloud-provider",
        "read,create core configmaps",
        "",
        "ServiceAccount:cloud-provider",
    ),
    (
        SYSTEM,
        "system:controller:token-cleaner",
        "read,delete core secrets\ncreate,patch,update core,events.k8s.io events",
        "",
        "ServiceAccount:token-cleaner",
    ),
    (
        "kube-public",
        "system:controller:bootstrap-signer",
        "read core configmaps\nupdate core configmaps only cluster-info\n"
        "create,patch,update core,events.k8s.io events",
        "",
        "ServiceAccount:bootstrap-signer",
    ),
)


def parse_rules(lines: str) -> list[dict[str, Any]]:
    """Return the rules a table's lines stand for, in wire form.

    >>> parse_rules("read core pods only web\\nget path /healthz")[0]
    {'verbs': ['get', 'list', 'watch'], 'apiGroups': [''], 'resources': ['pods'], 'resourceNames': ['web']}
    """
    rules: list[dict[str, Any]] = []
    for line in _joined(lines):
        verbs_text, scope, items, *rest = line.split()
        verbs = sorted({verb for word in verbs_text.split(",") for verb in _SHORT.get(word, (word,))})
        if scope == "path":
            rules.append({"verbs": verbs, "nonResourceURLs": items.split(",")})
            continue
        groups = ["" if group == "core" else group for group in scope.split(",")]
        rule: dict[str, Any] = {"verbs": verbs, "apiGroups": groups, "resources": items.split(",")}
        if rest:
            rule["resourceNames"] = rest[1].split(",")
        rules.append(rule)
    return rules


def _joined(lines: str) -> Iterator[str]:
    whole = ""
    for line in lines.splitlines():
        whole += line.strip()
        if whole and not whole.endswith(","):
            yield whole
            whole = ""


def _table(text: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield (name, rules) of a table of roles."""
    name = ""
    lines: list[str] = []
    for line in [*text.splitlines(), "end"]:
        if line and not line.startswith(" "):
            if name:
                yield name, parse_rules("\n".join(lines))
            name, lines = line, []
        elif line:
            lines.append(line)


def objects() -> Iterator[dict[str, Any]]:
    """Yield every role and binding of a new cluster."""
    rules_of_gathered: dict[str, list[dict[str, Any]]] = {}
    for name, rules in _table(ROLES):
        labels = {}
        if name in _GATHERED:
            labels[f"{GROUP}/aggregate-to-{_GATHERED[name]}"] = "true"
            rules_of_gathered[_GATHERED[name]] = rules
        yield _object("ClusterRole", name, labels=labels, rules=rules)
    yield from _aggregated(rules_of_gathered)
    for name, rules in _table(CONTROLLERS):
        role = f"system:controller:{name}"
        yield _object("ClusterRole", role, rules=rules)
        yield _binding("ClusterRoleBinding", role, "ClusterRole", role, f"ServiceAccount:{name}")
    for name, role, subjects in _BOUND_CLUSTER_ROLES:
        yield _binding("ClusterRoleBinding", name, "ClusterRole", role, subjects)
    for namespace, role, lines, binding, subjects in _NAMESPACED:
        yield _object("Role", role, namespace, rules=parse_rules(lines))
        yield _binding("RoleBinding", binding or role, "Role", role, subjects, namespace)


def _aggregated(own: Mapping[str, list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """Yield admin, edit and view with the rules the aggregation controller would write into them."""
    gathered: list[dict[str, Any]] = []
    for role in ("view", "edit", "admin"):
        gathered = own[role] + gathered
        selector = {"matchLabels": {f"{GROUP}/aggregate-to-{role}": "true"}}
        labels = {f"{GROUP}/aggregate-to-{other}": "true" for other in _AGGREGATED[role]}
        aggregation = {"clusterRoleSelectors": [selector]}
        yield {
            **_object("ClusterRole", role, labels=labels, rules=list(gathered)),
            "aggregationRule": aggregation,
        }


def _object(kind: str, name: str, namespace: str = "", **rest: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    metadata["labels"] = {"kubernetes.io/bootstrapping": "rbac-defaults", **rest.pop("labels", {})}
    metadata["annotations"] = {AUTOUPDATE: "true"}
    return {"kind": kind, "apiVersion": f"{GROUP}/v1", "metadata": metadata, **rest}


def _binding(
    kind: str, name: str, role_kind: str, role: str, subjects: str, namespace: str = ""
) -> dict[str, Any]:
    document = _object(kind, name, namespace)
    found = [_subject(subject) for subject in subjects.split()]
    if found:
        document["subjects"] = found
    document["roleRef"] = {"apiGroup": GROUP, "kind": role_kind, "name": role}
    return document


def _subject(text: str) -> dict[str, str]:
    kind, _, name = text.partition(":")
    if kind == "ServiceAccount":
        return {"kind": kind, "name": name, "namespace": SYSTEM}
    return {"kind": kind, "apiGroup": GROUP, "name": name}


def reconciled(wanted: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return *stored* with what it lacks of *wanted*, None when it lacks nothing or does not want updates."""
    metadata = stored.get("metadata") or {}
    if (metadata.get("annotations") or {}).get(AUTOUPDATE) == "false":
        return None
    if "aggregationRule" in wanted:
        lacking: dict[str, Any] = {}  # its rules are written by the aggregation controller
    elif "roleRef" in wanted:
        have = stored.get("subjects") or []
        missing = [subject for subject in wanted.get("subjects") or () if subject not in have]
        lacking = {"subjects": [*have, *missing]} if missing else {}
    else:
        more = uncovered(stored.get("rules") or (), wanted.get("rules") or ())
        lacking = {"rules": [*(stored.get("rules") or ()), *more]} if more else {}
    labels = {**(metadata.get("labels") or {})}
    fresh = {k: v for k, v in (wanted["metadata"].get("labels") or {}).items() if k not in labels}
    if not lacking and not fresh:
        return None
    return {**stored, **lacking, "metadata": {**metadata, "labels": {**labels, **fresh}}}


def node_rules() -> tuple[Rule, ...]:
    """Return the rules of ClusterRole system:node, which the Node authorizer grants to kubelets."""
    return tuple(Rule.of(rule) for name, rules in _table(ROLES) if name == "system:node" for rule in rules)


def authentication_config(client_ca: str) -> dict[str, Any]:
    """Return the ConfigMap from which components learn whose client certificates to trust."""
    return {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "extension-apiserver-authentication", "namespace": SYSTEM},
        "data": {"client-ca-file": client_ca},
    }
