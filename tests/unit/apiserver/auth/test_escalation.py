"""Claims about weir.apiserver.auth.escalation: nobody gives away more than they have."""

import pytest
from hypothesis import given, settings

from tests.cases import tries
from tests.unit.apiserver.admission_world import Objects, create, stored, update
from tests.unit.apiserver.auth.test_rbac import actions, rules
from weir.apiserver.auth.authn import User
from weir.apiserver.auth.authz import Authorizer
from weir.apiserver.auth.escalation import EscalationCheck
from weir.apiserver.auth.rbac import Rule
from weir.apiserver.auth.rule_coverage import described, uncovered
from weir.errors import Forbidden, NotFound

GROUP = "rbac.authorization.k8s.io"
PODS = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}
SECRETS = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["secrets"]}
JANE = User("jane", groups=("dev", "system:authenticated"))


def cluster_role(name, *role_rules, **rest):
    return stored(f"{GROUP}/v1", "ClusterRole", name, rules=list(role_rules), **rest)


def binding(name, role, subject, namespace=""):
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    ref = {"apiGroup": GROUP, "kind": "ClusterRole", "name": role}
    return stored(f"{GROUP}/v1", kind, name, namespace, roleRef=ref, subjects=[subject])


def check(*more):
    mine = binding("mine", "mine", {"kind": "User", "name": "jane"})
    return EscalationCheck(Authorizer(Objects(cluster_role("mine", PODS), mine, *more), ["RBAC"]))


def test_a_role_of_rights_held_may_be_written():
    assert check().validate(create(cluster_role("new", PODS), user=JANE)) is None


def test_a_role_of_other_rights_may_not_and_the_refusal_lists_them():
    with pytest.raises(Forbidden) as refused:
        check().validate(create(cluster_role("new", PODS, SECRETS), user=JANE))
    assert refused.value.message == (
        'clusterroles.rbac.authorization.k8s.io "new" is forbidden: user "jane" (groups=["dev" '
        '"system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}'
    )


def test_who_may_escalate_may():
    escalate = {"verbs": ["escalate"], "apiGroups": [GROUP], "resources": ["clusterroles"]}
    more = (cluster_role("e", escalate), binding("e", "e", {"kind": "User", "name": "jane"}))
    assert check(*more).validate(create(cluster_role("new", SECRETS), user=JANE)) is None


def test_masters_may_always():
    root = User("root", groups=("system:masters",))
    assert check().validate(create(cluster_role("new", SECRETS), user=root)) is None


def test_binding_a_role_of_other_rights_is_refused():
    asked = binding("b", "wide", {"kind": "User", "name": "jane"}, "ns")
    with pytest.raises(Forbidden, match="not currently held"):
        check(cluster_role("wide", SECRETS)).validate(create(asked, user=JANE))


def test_who_may_bind_that_role_may():
    bind = {"verbs": ["bind"], "apiGroups": [GROUP], "resources": ["clusterroles"], "resourceNames": ["wide"]}
    more = (
        cluster_role("wide", SECRETS),
        cluster_role("b", bind),
        binding("b", "b", {"kind": "User", "name": "jane"}),
    )
    asked = binding("x", "wide", {"kind": "User", "name": "jane"}, "ns")
    assert check(*more).validate(create(asked, user=JANE)) is None


def test_binding_a_missing_role_without_the_right_is_not_found():
    with pytest.raises(
        NotFound, match=r'clusterrolebindings\.rbac\.authorization\.k8s\.io "ghost" not found'
    ):
        check().validate(create(binding("b", "ghost", {"kind": "User", "name": "x"}), user=JANE))


def test_an_aggregation_rule_needs_everything():
    role = cluster_role("new", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]})
    with pytest.raises(Forbidden, match="must have cluster-admin privileges to use the aggregationRule"):
        check().validate(create(role, user=JANE))


def test_releasing_a_finalizer_is_no_grant():
    old = cluster_role("wide", SECRETS, metadata={"finalizers": ["x"]})
    assert (
        check().validate(update(cluster_role("wide", SECRETS, metadata={"finalizers": []}), old, user=JANE))
        is None
    )


def test_verbs_of_one_object_are_told_together_and_lines_are_sorted():
    text = described(
        uncovered([], [{**PODS, "resourceNames": ["p"]}, {"verbs": ["get"], "nonResourceURLs": ["/a"]}])
    )
    assert text == (
        '{APIGroups:[""], Resources:["pods"], ResourceNames:["p"], Verbs:["get" "list"]}\n'
        '{NonResourceURLs:["/a"], Verbs:["get"]}'
    )


@settings(max_examples=tries(120, 300), deadline=None)
@given(rules, rules, actions)
def test_what_is_covered_allows_nothing_new(held, wanted, action):
    if not uncovered([held], [wanted]) and Rule.of(wanted).allows(action):
        assert Rule.of(held).allows(action)


@given(rules)
def test_every_rule_covers_itself(rule):
    assert uncovered([rule], [rule]) == []
