"""Rights asked for while writing: creating by apply or update, allocating a claim, telling of its devices."""

from __future__ import annotations

from typing import Any

import pytest

from weir.apiserver.admission.attributes import CREATE, UPDATE, Attributes
from weir.apiserver.auth.authn import User
from weir.apiserver.auth.authz import CreateRights
from weir.apiserver.auth.claim_status_authz import NODE_EXTRA, ClaimStatusRights
from weir.apiserver.auth.rbac import Action, Decision
from weir.errors import Forbidden, Invalid
from weir.objects.kinds import by_kind

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
