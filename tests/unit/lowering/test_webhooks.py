"""Who is shown to weir, and what passes while it is down: the match conditions, evaluated as the API server does."""

from __future__ import annotations

import pytest

from weir.cel.cache import ProgramCache
from weir.compat.policies.expressions import environment
from weir.lowering import names, webhooks
from weir.validate.admissionregistration import webhook_configuration

GT = {"key": "sla", "operator": "Gt", "value": "900"}
PLAIN = {"key": "sla", "operator": "Equal", "value": "900"}
MARKER = {"key": names.marker_key(names.toleration_hash(GT)), "operator": "Exists"}
SEMVER = {"key": "v", "operator": "SemverGt", "values": ["1.2.3"]}
LABEL = {"key": names.label_key("12"), "operator": "In", "values": ["true"]}
PROGRAMS = ProgramCache(100)


def affinity(requirement, kind="required"):
    term = {"matchExpressions": [requirement]}
    if kind == "required":
        inner = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    else:
        inner = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}
    return {"nodeAffinity": inner}


def node(*taints, labels=None):
    spec = {"taints": [dict(zip(("key", "value", "effect"), t, strict=True)) for t in taints]}
    return {"metadata": {"labels": labels} if labels else {}, "spec": spec if taints else {}}


def shown(operation, plural, new, old=None, *, keys=("sla", "node.kubernetes.io/sla")):
    """Return the names of the webhooks that are called while *keys* are in use; None: as installed."""
    variables = {"object": new, "oldObject": old, "request": {"userInfo": {"username": "someone"}}}
    called = []
    for hook in webhooks.WEBHOOKS:
        if not any(plural in r["resources"] and operation in r["operations"] for r in hook.rules):
            continue
        document = hook.document({"url": "https://h:1"}, "the-operator")
        condition = webhooks.key_condition(hook.name, frozenset(keys)) if keys is not None else None
        document["matchConditions"] += [condition] if condition else []
        if all(
            PROGRAMS.compile(c["expression"], environment()).evaluate(variables) is True
            for c in document["matchConditions"]
        ):
            called.append(hook.name.removesuffix(".lowered.weir.dev"))
    return called


def pod(**spec):
    return {"metadata": {}, "spec": spec}


@pytest.mark.parametrize(
    "spec",
    [
        {"tolerations": [PLAIN, GT]},
        {"tolerations": [{"operator": "CEL", "value": "true"}]},
        {"tolerations": [MARKER]},
        {"affinity": affinity(SEMVER)},
        {"affinity": affinity(SEMVER, "preferred")},
        {"affinity": affinity(LABEL)},
        {"nodeSelector": {names.label_key("12"): "true"}},
    ],
)
def test_a_new_pod_that_says_something_extended_is_shown(spec):
    assert shown("CREATE", "pods", pod(**spec)) == ["pods"]


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"tolerations": [PLAIN, {"operator": "Exists"}, {"key": "a", "value": "b"}]},
        {"affinity": affinity({"key": "v", "operator": "Gt", "values": ["1"]})},
        {"affinity": {"podAffinity": {}}, "nodeSelector": {"zone": "a"}},
    ],
)
def test_a_plain_pod_never_is(spec):
    assert shown("CREATE", "pods", pod(**spec)) == []
    assert shown("UPDATE", "pods", pod(**spec), pod(**spec)) == []


def test_a_lowered_pod_is_changed_by_others_without_weir_and_by_a_reapply_with_it():
    lowered = pod(tolerations=[MARKER, PLAIN])
    assert shown("UPDATE", "pods", lowered, lowered) == []
    assert shown("UPDATE", "pods", pod(tolerations=[GT]), lowered) == ["pod-updates"]


@pytest.mark.parametrize(
    "plural", ["deployments", "statefulsets", "replicasets", "jobs", "replicationcontrollers"]
)
def test_templates_are_shown_with_originals_only(plural):
    assert shown("CREATE", plural, {"metadata": {}, "spec": {"template": pod(tolerations=[GT])}}) == [
        "templates"
    ]
    assert (
        shown("UPDATE", plural, {"metadata": {}, "spec": {"template": pod(tolerations=[MARKER])}}, {}) == []
    )
    assert shown("CREATE", plural, {"metadata": {}, "spec": {}}) == []


def test_cronjobs_and_daemonsets_and_volumes():
    cron = {"metadata": {}, "spec": {"jobTemplate": {"spec": {"template": pod(tolerations=[GT])}}}}
    assert shown("CREATE", "cronjobs", cron) == ["cronjobs"]
    lowered = {"metadata": {}, "spec": {"template": pod(nodeSelector={names.label_key("12"): "true"})}}
    assert shown("UPDATE", "daemonsets", lowered, lowered) == ["daemonsets"]
    volume = {
        "metadata": {},
        "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [SEMVER]}]}}},
    }
    assert shown("CREATE", "persistentvolumes", volume) == ["persistentvolumes"]
    assert shown("CREATE", "persistentvolumes", {"metadata": {}, "spec": {}}) == []


def test_an_expression_that_was_dropped_is_still_seen_in_what_was_applied():
    text = '{"spec":{"tolerations":[{"operator":"Exists","expression":"true"}]}}'
    dropped = pod(tolerations=[{"operator": "Exists"}])
    dropped["metadata"]["annotations"] = {webhooks.LAST_APPLIED: text}
    assert shown("CREATE", "pods", dropped) == ["pods"]


NOTED = {"metadata": {"annotations": {names.ANNOTATED: "- {key: a}"}}, "spec": {}}
OTHERWISE = {"metadata": {"annotations": {names.ANNOTATED: "- {key: b}"}}, "spec": {}}


def test_tolerations_in_an_annotation_are_seen_where_they_are_lowered_and_elsewhere_when_they_change():
    assert shown("CREATE", "pods", NOTED) == ["pods"]
    assert shown("UPDATE", "pods", NOTED, NOTED) == []
    lost = {**NOTED, "spec": {"tolerations": [MARKER]}}
    assert shown("UPDATE", "pods", NOTED, lost) == ["pod-updates"]

    def workload(template):
        return {"metadata": {}, "spec": {"template": template}}

    for plural, name in (("deployments", "templates"), ("jobs", "templates")):
        assert shown("CREATE", plural, workload(NOTED)) == [name]
        assert shown("UPDATE", plural, workload(NOTED), workload(NOTED)) == []
        assert shown("UPDATE", plural, workload(OTHERWISE), workload(NOTED)) == [name]
    assert shown("UPDATE", "daemonsets", workload(NOTED), workload(NOTED)) == ["daemonsets"]
    cron = {"metadata": {}, "spec": {"jobTemplate": {"spec": {"template": NOTED}}}}
    assert shown("CREATE", "cronjobs", cron) == ["cronjobs"] and shown("UPDATE", "cronjobs", cron, cron) == []


A, B = ("sla", "950", "NoExecute"), ("sla", "960", "NoExecute")
READY = ("node.kubernetes.io/not-ready", "", "NoExecute")


@pytest.mark.parametrize(
    "new, old, expected",
    [
        (node(A), None, ["node-taints", "nodes"]),
        (node(A), node(), ["node-taints", "nodes"]),
        (node(B), node(A), ["node-taints", "nodes"]),
        (node(("sla", "950", "NoSchedule")), node(A), ["node-taints", "nodes"]),
        (node(), None, ["node-labels"]),
        (node(), node(A), ["node-labels"]),
        (node(A, labels={"v": "2"}), node(A, labels={"v": "1"}), ["node-labels"]),
        (node(A), node(A), []),
        (node(("node.kubernetes.io/sla", "800", "NoSchedule")), node(), ["node-taints", "nodes"]),
        (node(READY), node(), []),
        (node(A, READY), node(A), []),
    ],
)
def test_nodes_are_shown_when_something_that_decides_changes(new, old, expected):
    assert shown("UPDATE" if old else "CREATE", "nodes", new, old) == expected


BY_KEY, BY_OTHER = ["node-taints", "nodes"], ["other-node-taints", "other-nodes"]


@pytest.mark.parametrize(
    "keys, new, old, expected",
    [
        (["sla"], node(A), None, BY_KEY),
        (["sla"], node(B), node(A), BY_KEY),
        (["other"], node(A), node(), BY_OTHER),
        ([], node(A), None, BY_OTHER),
        (["sla"], node(A, ("x", "1", "NoExecute")), node(A), BY_OTHER),
        (["sla", "x"], node(A, ("x", "1", "NoExecute")), node(A), BY_KEY),
        (["sla"], node(B, ("x", "1", "NoExecute")), node(A), BY_KEY),
        (None, node(A), node(), [BY_KEY[0], BY_OTHER[0], BY_KEY[1], BY_OTHER[1]]),
    ],
)
def test_what_fails_closed_is_shown_only_keys_that_are_in_use(keys, new, old, expected):
    assert shown("UPDATE" if old else "CREATE", "nodes", new, old, keys=keys) == expected
    policies = {
        hook.name.removesuffix(".lowered.weir.dev"): hook.failure_policy for hook in webhooks.WEBHOOKS
    }
    assert {policies[name] for name in BY_KEY} == {"Fail"} and {policies[name] for name in BY_OTHER} == {
        "Ignore"
    }


@pytest.mark.parametrize("keys", [frozenset(), frozenset({"sla", "example.com/x"}), None])
def test_the_keys_of_a_stored_condition_are_read_again(keys):
    for name in ("nodes.lowered.weir.dev", "node-taints.lowered.weir.dev", "other-nodes.lowered.weir.dev"):
        condition = webhooks.key_condition(name, keys)
        expected = keys if not name.startswith("other") else frozenset()
        assert webhooks.keys_shown({"name": name, "matchConditions": [condition]}) == expected
        assert not list(webhook_configuration.validate_expression(condition["expression"], "here"))
    assert webhooks.keys_shown({"name": "nodes.lowered.weir.dev", "matchConditions": []}) is None
    assert webhooks.key_condition("pods.lowered.weir.dev", keys) is None


def test_what_weir_check_tries_the_barrier_with_is_always_in_use():
    assert (
        shown("UPDATE", "nodes", node((webhooks.PROBE_KEY, "1", "PreferNoSchedule")), node(), keys=[])
        == BY_KEY
    )


def test_every_condition_compiles_where_the_api_server_checks_it():
    for hook in webhooks.WEBHOOKS:
        for condition in hook.document({"service": {"name": "s", "namespace": "n"}}, 'a"b')[
            "matchConditions"
        ]:
            assert not list(webhook_configuration.validate_expression(condition["expression"], "here"))


def test_the_configurations_hold_each_webhook_once_and_only_the_barrier_validates():
    config = {"service": {"name": names.OPERATOR, "namespace": names.NAMESPACE}}
    user = webhooks.own_user()
    mutating = webhooks.mutating_configuration(config, user)["webhooks"]
    barrier, other = webhooks.validating_configuration(config, user)["webhooks"]
    assert len(mutating) + 2 == len(webhooks.WEBHOOKS) and other["failurePolicy"] == "Ignore"
    assert "path" not in barrier["clientConfig"]["service"], "applying it again takes no secret away"
    path = webhooks.addressed(config, barrier["name"], "s")["service"]["path"]
    assert path == f"/s{webhooks.NODE_BARRIER_PATH}"
    assert webhooks.path_secret({"service": {"path": path}}, barrier["name"]) == "s"
    assert barrier["failurePolicy"] == "Fail" and user in barrier["matchConditions"][0]["expression"]
