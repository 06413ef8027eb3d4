"""Who writes a policy must be allowed to read the parameters it reads."""

from __future__ import annotations

import pytest

from tests.unit.apiserver.admission_world import JANE, Objects, create, stored, update
from weir.apiserver.admission.bound_policies import BoundPolicies
from weir.apiserver.admission.validating_policies import BINDING, POLICY
from weir.apiserver.auth.authn import MASTERS, User
from weir.apiserver.auth.param_rights import ParamRights
from weir.apiserver.auth.rbac import NO_OPINION, Decision
from weir.errors import Invalid

VERSION = "admissionregistration.k8s.io/v1"
MAPS = {"apiVersion": "v1", "kind": "ConfigMap"}


def policy(**spec):
    return stored(VERSION, "ValidatingAdmissionPolicy", "p", spec=spec)


def binding(**spec):
    return stored(VERSION, "ValidatingAdmissionPolicyBinding", "b", spec={"policyName": "p", **spec})


def refusal(a, *allowed):
    """Return why the write is refused where only *allowed* (verb, resource, name) may be read."""
    objects = Objects(policy(paramKind=MAPS))

    def decide(user, action):
        known = (action.verb, action.resource, action.name) in allowed
        return Decision(True, "") if known else NO_OPINION

    guard = ParamRights(objects, decide, BoundPolicies(objects, POLICY, BINDING, dict))
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
    found = refusal(create(binding(paramRef=ref)), *allowed)
    assert said in found and bool(said) == bool(found)


def test_a_binding_of_a_policy_that_is_not_there_wants_everything():
    orphan = binding(policyName="gone", paramRef={"name": "x"})
    assert "unable to get policy gone" in refusal(create(orphan), ("get", "configmaps", "x"))
    assert refusal(create(orphan), ("get", "*", "x")) == ""
