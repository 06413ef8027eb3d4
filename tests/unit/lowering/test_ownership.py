"""Who owns a pod's tolerations after weir added to them."""

from __future__ import annotations

from weir.lowering.ownership import given_back

OURS = {"manager": "weir-operator", "operation": "Update", "fieldsV1": {"f:spec": {"f:tolerations": {}}}}
THEIRS = {"manager": "kubectl", "operation": "Apply", "fieldsV1": {"f:spec": {"f:containers": {"x": {}}}}}
KUBELET = {
    "manager": "kubelet",
    "operation": "Update",
    "subresource": "status",
    "fieldsV1": {"f:status": {"f:phase": {}}},
}


def test_the_author_of_an_applied_pod_owns_its_tolerations_again():
    (theirs, kubelet) = given_back([THEIRS, OURS, KUBELET], "weir-operator")
    assert theirs["fieldsV1"] == {"f:spec": {"f:containers": {"x": {}}, "f:tolerations": {}}}
    assert kubelet == KUBELET and "f:tolerations" not in THEIRS["fieldsV1"]["f:spec"]


def test_what_else_weir_owns_stays_with_it():
    ours = {**OURS, "fieldsV1": {"f:metadata": {}, "f:spec": {"f:tolerations": {}, "f:other": {}}}}
    assert given_back([THEIRS, ours], "weir-operator")[1]["fieldsV1"] == {
        "f:metadata": {},
        "f:spec": {"f:other": {}},
    }


def test_pods_that_nobody_applied_or_weir_did_not_change_are_left_alone():
    created = {**THEIRS, "operation": "Update"}
    assert given_back([created, OURS], "weir-operator") is None
    assert given_back([THEIRS], "weir-operator") is None
    assert given_back([{**THEIRS, "fieldsV1": {"f:metadata": {}}}, OURS], "weir-operator") is None
