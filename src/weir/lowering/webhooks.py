"""The webhooks, as data: which requests the API server shows to weir, and what happens when weir does not answer.

Spec: stock.md 9. `Fail` wherever going on without weir would be wrong, and matchConditions so narrow that this touches
only objects with extended operators and nodes with a taint they did not have: plain pods, status, deletes, heartbeats,
cordon and the removal of taints pass while weir is down. What weir can repair afterwards is `Ignore`.
`expression` is dropped before a hook sees it, so an object whose last-applied configuration still has one is shown
too, to be refused.
The path of a webhook begins with a secret that the operator writes (`addressed`); manifests have no path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from weir.lowering.names import (
    ANNOTATED,
    ANNOTATED_AFFINITY,
    LABEL_PREFIX,
    MARKER_PREFIX,
    NAMESPACE,
    OPERATOR,
)
from weir.taints import wellknown
from weir.taints.operators import OPERATORS, Comparison

Document = dict[str, Any]

MUTATING_CONFIGURATION: Final = "weir-lowering"
#: The barrier: the last to be switched on, the first to go.
VALIDATING_CONFIGURATION: Final = "weir-nodes"

POD_PATH: Final = "/pods"
TEMPLATE_PATH: Final = "/templates"
DAEMONSET_PATH: Final = "/daemonsets"
VOLUME_PATH: Final = "/persistentvolumes"
NODE_LABELS_PATH: Final = "/node-labels"
NODE_BARRIER_PATH: Final = "/node-barrier"

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
#: Taints of Kubernetes' own, which come and go with conditions; entries for them are written in advance. They are
#: named one by one: people use the same domain, such as KEP-5471 with `node.kubernetes.io/sla`.
CONDITION_KEYS: Final = (
    wellknown.NOT_READY,
    wellknown.UNREACHABLE,
    wellknown.MEMORY_PRESSURE,
    wellknown.DISK_PRESSURE,
    wellknown.PID_PRESSURE,
    wellknown.NETWORK_UNAVAILABLE,
    wellknown.UNSCHEDULABLE,
    wellknown.OUT_OF_SERVICE,
)


@dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook; `mutating` says which of the two configurations it belongs to."""

    name: str
    mutating: bool
    path: str
    rules: tuple[Document, ...]
    failure_policy: str
    timeout_seconds: int
    conditions: tuple[tuple[str, str], ...]

    def document(self, client_config: Document, own_user: str = "") -> Document:
        """Return it as the API spells it; *own_user* is never shown."""
        conditions = [{"name": name, "expression": text} for name, text in self.conditions]
        if own_user:
            own = f"request.userInfo.username != {_quoted(own_user)}"
            conditions.insert(0, {"name": "not-the-operator-itself", "expression": own})
        document: Document = {
            "name": self.name,
            "admissionReviewVersions": ["v1"],
            "clientConfig": dict(client_config),
            "failurePolicy": self.failure_policy,
            "matchConditions": conditions,
            "matchPolicy": "Equivalent",
            "rules": list(self.rules),
            "sideEffects": "NoneOnDryRun",
            "timeoutSeconds": self.timeout_seconds,
        }
        if self.mutating:
            document["reinvocationPolicy"] = "IfNeeded"
        return document


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _rule(group: str, resources: list[str], operations: list[str], scope: str = "Namespaced") -> Document:
    return {
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "operations": operations,
        "resources": resources,
        "scope": scope,
    }


# ── conditions ───────────────────────────────────────────────────────────────────────────────────


def _extended(spec: str, *, marked: bool) -> str:
    """Return the condition that the pod spec at *spec* says something extended; *marked*: or was lowered before."""
    plain = ", ".join(
        _quoted(name) for name in ("", *(each.name for each in OPERATORS.values() if not each.gate))
    )
    entry = f't.?operator.orValue("") in [{plain}] ? MARKER : true'
    marker = f't.?key.orValue("").startsWith({_quoted(MARKER_PREFIX)})' if marked else "false"
    tolerations = f"{spec}.?tolerations.orValue([]).exists(t, {entry.replace('MARKER', marker)})"
    affinity = f"{spec}.?affinity.?nodeAffinity"
    required = _some_requirement(
        f"{affinity}.?requiredDuringSchedulingIgnoredDuringExecution.?nodeSelectorTerms", "m", marked
    )
    preferred = _some_requirement(
        f"{affinity}.?preferredDuringSchedulingIgnoredDuringExecution", "m.?preference", marked
    )
    parts = [tolerations, required, preferred, _lost_expression()]
    if marked:
        parts.append(f"{spec}.?nodeSelector.orValue({{}}).exists(k, k.startsWith({_quoted(LABEL_PREFIX)}))")
    return " || ".join(parts)


def _some_requirement(terms: str, term: str, marked: bool) -> str:
    comparisons = (each for each in OPERATORS.values() if isinstance(each, Comparison))
    gated = ", ".join(_quoted(each.name) for each in comparisons if each.in_affinity and each.affinity_gate)
    requirement = f'e.?operator.orValue("") in [{gated}]'
    if marked:
        requirement += f' || e.?key.orValue("").startsWith({_quoted(LABEL_PREFIX)})'
    return f"{terms}.orValue([]).exists(m, {term}.?matchExpressions.orValue([]).exists(e, {requirement}))"


def _lost_expression() -> str:
    applied = f'object.metadata.?annotations[?{_quoted(LAST_APPLIED)}].orValue("")'
    return f"{applied}.contains('\"expression\":')"


def _annotation(template: str, name: str) -> str:
    """Return the text of an annotation of the pod or template at *template*."""
    return f'{template}.?metadata.?annotations[?{_quoted(name)}].orValue("")'


def _annotated(template: str, changed: str = "") -> str:
    """Return the condition that an author's annotation stands in a pod or template, on an update a *changed* one."""
    return f"({_is_annotated(template, ANNOTATED, changed)} || {_is_annotated(template, ANNOTATED_AFFINITY, changed)})"


def _is_annotated(template: str, name: str, changed: str = "") -> str:
    there = f'{_annotation(template, name)} != ""'
    if not changed:
        return there
    old, new = (_annotation(f"{place}.{changed}", name) for place in ("oldObject", "object"))
    return f"({there} && (oldObject == null || {old} != {new}))"


def _own_taints(node: str) -> str:
    """Return the taints of *node* that are not Kubernetes' own."""
    keys = ", ".join(map(_quoted, CONDITION_KEYS))
    return f"{node}.spec.?taints.orValue([]).filter(t, !(t.key in [{keys}]))"


_SAME: Final = 'o.key == t.key && o.effect == t.effect && o.?value.orValue("") == t.?value.orValue("")'
NEW_TRIPLE: Final = (
    f"{_own_taints('object')}.exists(t, oldObject == null || "
    f"!oldObject.spec.?taints.orValue([]).exists(o, {_SAME}))"
)
_CHANGED_OTHERWISE: Final = (
    "oldObject != null && "
    "(object.metadata.?labels.orValue({}) != oldObject.metadata.?labels.orValue({}) || "
    f"{_own_taints('object')} != {_own_taints('oldObject')}) && !({NEW_TRIPLE})"
)
_NEW_LABELS: Final = f"oldObject == null && !({NEW_TRIPLE})"

#: Always in use: `weir check` tries the barrier with it, in a dry run.
PROBE_KEY: Final = "weir.dev/check"
#: The match conditions that the operator keeps: writes of keys that extended pods may tolerate, and all others.
_IN_USE: Final = "key-in-use"
_NOT_IN_USE: Final = "key-not-in-use"


def _new_taint_of(keys: frozenset[str] | None) -> str:
    """Return the condition that a node gets a taint whose key is one of *keys*; None is every key."""
    if keys is None:
        return "true"
    named = ", ".join(map(_quoted, (PROBE_KEY, *sorted(keys))))
    return (
        f"object.spec.?taints.orValue([]).exists(t, t.key in [{named}] && (oldObject == null || "
        f"!oldObject.spec.?taints.orValue([]).exists(o, {_SAME})))"
    )


def key_condition(name: str, keys: frozenset[str] | None) -> Document | None:
    """Return the match condition for webhook *name* where *keys* are in use (None: all); None where it has none."""
    if name in _BY_KEY:
        return {"name": _IN_USE, "expression": _new_taint_of(keys)}
    if name in _BY_OTHER_KEY:
        return {"name": _NOT_IN_USE, "expression": f"!({_new_taint_of(keys)})"}
    return None


def keys_shown(hook: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the keys of which a stored webhook is shown new taints; none for one that keys do not decide about."""
    if hook.get("name") not in _BY_KEY:
        return frozenset()
    for condition in hook.get("matchConditions") or ():
        if condition.get("name") == _IN_USE and (
            named := _KEY_LIST.search(condition.get("expression") or "")
        ):
            return frozenset(_TEXT.findall(named[1])) - {PROBE_KEY}
    return None


_TEMPLATE: Final = "object.spec.?template.?spec"
_CRON_TEMPLATE: Final = "spec.?jobTemplate.?spec.?template"


def _lost(name: str, field: str, absent: str) -> str:
    """Return the condition that a pod's *field* changes, to which the annotation *name* was lowered."""
    new, old = (f"{place}.?spec.?{field}.orValue({absent})" for place in ("object", "oldObject"))
    return f"({_is_annotated('object', name)} && oldObject != null && {new} != {old})"


#: A re-apply of a pod's own fields loses what its annotations were lowered to.
_LOWERED_FROM_ANNOTATIONS: Final = (
    f"{_lost(ANNOTATED, 'tolerations', '[]')} || {_lost(ANNOTATED_AFFINITY, 'affinity', '{}')}"
)
_BOTH: Final = ["CREATE", "UPDATE"]

WEBHOOKS: Final = (
    Webhook(
        "pods.lowered.weir.dev",
        True,
        POD_PATH,
        (_rule("", ["pods"], ["CREATE"]),),
        "Fail",
        10,
        (("extended", f"{_extended('object.?spec', marked=True)} || {_annotated('object')}"),),
    ),
    Webhook(  # without weir the server's own validation refuses what this one would have lowered
        "pod-updates.lowered.weir.dev",
        True,
        POD_PATH,
        (_rule("", ["pods"], ["UPDATE"]),),
        "Ignore",
        5,
        (("extended", f"{_extended('object.?spec', marked=False)} || {_LOWERED_FROM_ANNOTATIONS}"),),
    ),
    Webhook(
        "templates.lowered.weir.dev",
        True,
        TEMPLATE_PATH,
        (
            _rule("apps", ["deployments", "statefulsets", "replicasets"], _BOTH),
            _rule("batch", ["jobs"], _BOTH),
            _rule("", ["replicationcontrollers"], _BOTH),
        ),
        "Fail",
        10,
        (
            (
                "extended",
                f"{_extended(_TEMPLATE, marked=False)} || {_annotated('object.spec.?template', 'spec.?template')}",
            ),
        ),
    ),
    Webhook(
        "cronjobs.lowered.weir.dev",
        True,
        TEMPLATE_PATH,
        (_rule("batch", ["cronjobs"], _BOTH),),
        "Fail",
        10,
        (
            (
                "extended",
                f"{_extended(f'object.{_CRON_TEMPLATE}.?spec', marked=False)} || "
                f"{_annotated(f'object.{_CRON_TEMPLATE}', _CRON_TEMPLATE)}",
            ),
        ),
    ),
    Webhook(
        "daemonsets.lowered.weir.dev",
        True,
        DAEMONSET_PATH,
        (_rule("apps", ["daemonsets"], _BOTH),),
        "Fail",
        10,
        (("extended", f"{_extended(_TEMPLATE, marked=True)} || {_annotated('object.spec.?template')}"),),
    ),
    Webhook(
        "persistentvolumes.lowered.weir.dev",
        True,
        VOLUME_PATH,
        (_rule("", ["persistentvolumes"], _BOTH, "Cluster"),),
        "Fail",
        10,
        (
            (
                "extended",
                _some_requirement("object.spec.?nodeAffinity.?required.?nodeSelectorTerms", "m", False),
            ),
        ),
    ),
    Webhook(
        "node-taints.lowered.weir.dev",
        True,
        NODE_LABELS_PATH,
        (_rule("", ["nodes"], _BOTH, "Cluster"),),
        "Fail",
        10,
        (("new-taint", NEW_TRIPLE),),
    ),
    Webhook(  # taints with keys that nothing uses yet: see weir.operator.keys_in_use
        "other-node-taints.lowered.weir.dev",
        True,
        NODE_LABELS_PATH,
        (_rule("", ["nodes"], _BOTH, "Cluster"),),
        "Ignore",
        2,
        (("new-taint", NEW_TRIPLE),),
    ),
    Webhook(  # the operator repairs what passes while it is down
        "node-labels.lowered.weir.dev",
        True,
        NODE_LABELS_PATH,
        (_rule("", ["nodes"], _BOTH, "Cluster"),),
        "Ignore",
        2,
        (("changed", f"({_NEW_LABELS}) || ({_CHANGED_OTHERWISE})"),),
    ),
    Webhook(
        "nodes.lowered.weir.dev",
        False,
        NODE_BARRIER_PATH,
        (_rule("", ["nodes"], _BOTH, "Cluster"),),
        "Fail",
        10,
        (("new-taint", NEW_TRIPLE),),
    ),
    Webhook(
        "other-nodes.lowered.weir.dev",
        False,
        NODE_BARRIER_PATH,
        (_rule("", ["nodes"], _BOTH, "Cluster"),),
        "Ignore",
        10,
        (("new-taint", NEW_TRIPLE),),
    ),
)

#: Webhooks that fail closed for keys in use, and those for all others.
_BY_KEY: Final = frozenset({"node-taints.lowered.weir.dev", "nodes.lowered.weir.dev"})
_BY_OTHER_KEY: Final = frozenset(f"other-{name}" for name in _BY_KEY)
#: The list of keys in a condition, and one text of it: keys have no quotes.
_KEY_LIST: Final = re.compile(r"t\.key in \[([^]]*)\]")
_TEXT: Final = re.compile(r'"([^"]*)"')

_PATHS: Final = {hook.name: hook.path for hook in WEBHOOKS}
#: Every path that is served, behind a secret.
SERVED_PATHS: Final = frozenset(_PATHS.values())


def addressed(client_config: Mapping[str, Any], name: str, secret: str) -> Document:
    """Return the part of a clientConfig that names the path of webhook *name* behind *secret*; {} for another's.

    >>> addressed({"url": "https://h:1/old"}, "nodes.lowered.weir.dev", "s")
    {'url': 'https://h:1/s/node-barrier'}
    >>> addressed({"service": {"name": "o", "namespace": "n"}}, "nodes.lowered.weir.dev", "s")
    {'service': {'name': 'o', 'namespace': 'n', 'path': '/s/node-barrier'}}
    """
    if name not in _PATHS:
        return {}
    path = f"/{secret}{_PATHS[name]}"
    if client_config.get("url"):
        return {"url": f"{origin(client_config['url'])}{path}"}
    return {"service": {**(client_config.get("service") or {}), "path": path}}


def is_addressed(client_config: Mapping[str, Any], name: str, secret: str) -> bool:
    """Return whether a clientConfig names the path of webhook *name* behind *secret*; True for another's."""
    return addressed(client_config, name, secret).items() <= dict(client_config).items()


def path_secret(client_config: Mapping[str, Any], name: str) -> str:
    """Return the secret in the path that a clientConfig names for webhook *name*, or ""."""
    url = client_config.get("url")
    path = urlsplit(url).path if url else (client_config.get("service") or {}).get("path") or ""
    own = _PATHS.get(name, "")
    return path.removesuffix(own).removeprefix("/") if own and path.endswith(own) else ""


def origin(url: str) -> str:
    """Return scheme, host and port of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def own_user(namespace: str = NAMESPACE) -> str:
    """Return the name under which an operator in the cluster calls the API server."""
    return f"system:serviceaccount:{namespace}:{OPERATOR}"


def mutating_configuration(client_config: Document, user: str = "") -> Document:
    """Return the MutatingWebhookConfiguration: lowering, and synthetic labels."""
    return _configuration("MutatingWebhookConfiguration", MUTATING_CONFIGURATION, True, client_config, user)


def validating_configuration(client_config: Document, user: str = "") -> Document:
    """Return the ValidatingWebhookConfiguration: the barrier before a node gets a new taint."""
    return _configuration(
        "ValidatingWebhookConfiguration", VALIDATING_CONFIGURATION, False, client_config, user
    )


def _configuration(kind: str, name: str, mutating: bool, client_config: Document, user: str) -> Document:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": {"app.kubernetes.io/part-of": "weir"}},
        "webhooks": [hook.document(client_config, user) for hook in WEBHOOKS if hook.mutating == mutating],
    }
