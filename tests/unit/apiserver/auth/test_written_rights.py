"""Claims about rights that a write needs beyond its verb."""

from typing import Any

import pytest
from hypothesis import given, settings

from tests.cases import tries
from tests.unit.apiserver.admission_world import JANE, Objects, create, stored, update
from tests.unit.apiserver.auth.test_rbac import actions, rules
from weir.apiserver.admission.attributes import CREATE, UPDATE, Attributes
from weir.apiserver.auth.authn import MASTERS, User
from weir.apiserver.auth.authz import Authorizer, CreateRights
from weir.apiserver.auth.rbac import NO_OPINION, Action, Decision, Rule
from weir.apiserver.auth.rule_coverage import described, uncovered
from weir.apiserver.auth.written_rights import NODE_EXTRA, ClaimStatusRights, EscalationCheck, ParamRights
from weir.apiserver.compat.policies import VALIDATING_BINDING, VALIDATING_POLICY, BoundPolicies
from weir.errors import Forbidden, Invalid, NotFound
from weir.objects.kinds import by_kind

# ── rights asked for while writing: creating by apply or update, allocating a claim, telling of its devices ──


CLAIM, CONFIG = by_kind("resource.k8s.io/v1", "ResourceClaim"), by_kind("v1", "ConfigMap")
ON_N1 = {
    "nodeSelector": {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
    }
}
TOLD = [{"driver": "d.example.com", "pool": "p", "device": "x"}]
JOE = User("joe")
PLUGIN = User("system:serviceaccount:ns:plugin", extra={NODE_EXTRA: ("n1",)})


class Allows:
    """An authorizer that allows what it was given: verb, resource/subresource, name."""

    def __init__(self, *allowed: tuple[str, str, str]) -> None:
        self._allowed = allowed

    def decide(self, user: User, action: Action) -> Decision:
        return Decision((action.verb, action.full_resource, action.name) in self._allowed)


def status_write(new: dict[str, Any], old: dict[str, Any], user: User = JOE, **rest: Any) -> Attributes:
    return Attributes(
        UPDATE,
        CLAIM,
        subresource="status",
        namespace="ns",
        name="c",
        object={"status": new},
        old={"status": old},
        user=user,
        **rest,
    )


def test_allocating_needs_the_right_to_bind():
    check = ClaimStatusRights(Allows())
    with pytest.raises(Invalid, match='requires resource="resourceclaims/binding", verb="update" permission'):
        check.validate(status_write({"allocation": {"devices": {}}}, {}))


def test_reserving_by_patch_needs_the_right_to_patch_the_binding():
    check = ClaimStatusRights(Allows(("patch", "resourceclaims/binding", "")))
    write = status_write({"reservedFor": [{"uid": "u"}]}, {}, options={"kind": "PatchOptions"})
    assert check.validate(write) is None


def test_telling_of_a_device_needs_the_right_for_its_driver():
    check = ClaimStatusRights(Allows(("arbitrary-node:update", "resourceclaims/driver", "other.example.com")))
    with pytest.raises(Invalid, match=r"changing status\.devices requires"):
        check.validate(status_write({"allocation": ON_N1, "devices": TOLD}, {"allocation": ON_N1}))


@pytest.mark.parametrize(("user", "allowed"), [(PLUGIN, True), (JOE, False)])
def test_the_right_for_ones_own_node_is_for_accounts_on_the_claims_node(user, allowed):
    check = ClaimStatusRights(Allows(("associated-node:update", "resourceclaims/driver", "d.example.com")))
    write = status_write({"allocation": ON_N1, "devices": TOLD}, {"allocation": ON_N1}, user)
    try:
        check.validate(write)
        refused = False
    except Invalid:
        refused = True
    assert refused is not allowed


def test_a_status_write_that_changes_neither_needs_no_more_rights():
    same = {"allocation": ON_N1, "devices": TOLD}
    assert ClaimStatusRights(Allows()).validate(status_write(same, same)) is None


def created(**options: str) -> Attributes:
    return Attributes(CREATE, CONFIG, namespace="ns", name="a", object={}, user=JOE, options=options)


def test_creating_by_apply_needs_the_right_to_create():
    with pytest.raises(Forbidden, match='User "joe" cannot create resource "configmaps"'):
        CreateRights(Allows()).validate(created(kind="PatchOptions"))


def test_creating_by_apply_is_allowed_by_the_name():
    allowed = Allows(("create", "configmaps", "a"))
    assert CreateRights(allowed).validate(created(kind="PatchOptions")) is None


def test_a_plain_create_was_asked_about_already():
    assert CreateRights(Allows()).validate(created()) is None


# ── claims about weir.apiserver.auth.written_rights: nobody gives away more than they have ──


GROUP = "rbac.authorization.k8s.io"
PODS = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}
SECRETS = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["secrets"]}
DEVELOPER = User("jane", groups=("dev", "system:authenticated"))


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
    assert check().validate(create(cluster_role("new", PODS), user=DEVELOPER)) is None


def test_a_role_of_other_rights_may_not_and_the_refusal_lists_them():
    with pytest.raises(Forbidden) as refused:
        check().validate(create(cluster_role("new", PODS, SECRETS), user=DEVELOPER))
    assert refused.value.message == (
        'clusterroles.rbac.authorization.k8s.io "new" is forbidden: user "jane" (groups=["dev" '
        '"system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}'
    )


def test_who_may_escalate_may():
    escalate = {"verbs": ["escalate"], "apiGroups": [GROUP], "resources": ["clusterroles"]}
    more = (cluster_role("e", escalate), binding("e", "e", {"kind": "User", "name": "jane"}))
    assert check(*more).validate(create(cluster_role("new", SECRETS), user=DEVELOPER)) is None


def test_masters_may_always():
    root = User("root", groups=("system:masters",))
    assert check().validate(create(cluster_role("new", SECRETS), user=root)) is None


def test_binding_a_role_of_other_rights_is_refused():
    asked = binding("b", "wide", {"kind": "User", "name": "jane"}, "ns")
    with pytest.raises(Forbidden, match="not currently held"):
        check(cluster_role("wide", SECRETS)).validate(create(asked, user=DEVELOPER))


def test_who_may_bind_that_role_may():
    bind = {"verbs": ["bind"], "apiGroups": [GROUP], "resources": ["clusterroles"], "resourceNames": ["wide"]}
    more = (
        cluster_role("wide", SECRETS),
        cluster_role("b", bind),
        binding("b", "b", {"kind": "User", "name": "jane"}),
    )
    asked = binding("x", "wide", {"kind": "User", "name": "jane"}, "ns")
    assert check(*more).validate(create(asked, user=DEVELOPER)) is None


def test_binding_a_missing_role_without_the_right_is_not_found():
    with pytest.raises(
        NotFound, match=r'clusterrolebindings\.rbac\.authorization\.k8s\.io "ghost" not found'
    ):
        check().validate(create(binding("b", "ghost", {"kind": "User", "name": "x"}), user=DEVELOPER))


def test_an_aggregation_rule_needs_everything():
    role = cluster_role("new", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]})
    with pytest.raises(Forbidden, match="must have cluster-admin privileges to use the aggregationRule"):
        check().validate(create(role, user=DEVELOPER))


def test_releasing_a_finalizer_is_no_grant():
    old = cluster_role("wide", SECRETS, metadata={"finalizers": ["x"]})
    assert (
        check().validate(
            update(cluster_role("wide", SECRETS, metadata={"finalizers": []}), old, user=DEVELOPER)
        )
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


# ── who writes a policy must be allowed to read the parameters it reads ──


VERSION = "admissionregistration.k8s.io/v1"
MAPS = {"apiVersion": "v1", "kind": "ConfigMap"}


def policy(**spec):
    return stored(VERSION, "ValidatingAdmissionPolicy", "p", spec=spec)


def policy_binding(**spec):
    return stored(VERSION, "ValidatingAdmissionPolicyBinding", "b", spec={"policyName": "p", **spec})


def refusal(a, *allowed):
    """Return why the write is refused where only *allowed* (verb, resource, name) may be read."""
    objects = Objects(policy(paramKind=MAPS))

    def decide(user, action):
        known = (action.verb, action.resource, action.name) in allowed
        return Decision(True, "") if known else NO_OPINION

    guard = ParamRights(objects, decide, BoundPolicies(objects, VALIDATING_POLICY, VALIDATING_BINDING, dict))
    assert guard.handles(a.operation, a.kind, "")
    try:
        guard.validate(a)
    except Invalid as error:
        return error.message.partition("is invalid: ")[2]
    return ""


def test_a_policy_wants_every_object_of_its_paramkind():
    said = refusal(create(policy(paramKind=MAPS)), ("get", "configmaps", "one"))
    assert said == (
        'spec.paramKind: Forbidden: user &{jane  [system:authenticated] map[]} must have "get" permission on all '
        "objects of the referenced paramKind (kind=ConfigMap, apiVersion=v1)"
    )
    assert refusal(create(policy(paramKind=MAPS)), ("get", "configmaps", "*")) == ""
    assert refusal(create(policy())) == ""


def test_what_did_not_change_and_administrators_are_not_asked():
    assert refusal(update(policy(paramKind=MAPS), policy(paramKind=MAPS))) == ""
    assert refusal(update(policy(paramKind=MAPS), policy())) != ""
    assert refusal(create(policy(paramKind=MAPS), user=User("root", groups=(MASTERS,)))) == ""
    assert JANE.groups != (MASTERS,)


@pytest.mark.parametrize(
    ("ref", "allowed", "said"),
    [
        ({"name": "x"}, [("get", "configmaps", "x")], ""),
        ({"name": "x"}, [("get", "configmaps", "y")], 'does not have "get" permission on the object'),
        ({"selector": {}}, [("get", "configmaps", "")], 'does not have "list" permission on the object'),
        ({"selector": {}}, [("list", "configmaps", "")], ""),
        (None, [], ""),
    ],
)  # fmt: skip
def test_a_binding_wants_what_it_refers_to(ref, allowed, said):
    found = refusal(create(policy_binding(paramRef=ref)), *allowed)
    assert said in found and bool(said) == bool(found)


def test_a_binding_of_a_policy_that_is_not_there_wants_everything():
    orphan = policy_binding(policyName="gone", paramRef={"name": "x"})
    assert "unable to get policy gone" in refusal(create(orphan), ("get", "configmaps", "x"))
    assert refusal(create(orphan), ("get", "*", "x")) == ""
