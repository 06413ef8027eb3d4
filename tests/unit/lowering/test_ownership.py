"""Who owns a pod's tolerations after weir added to them."""

from __future__ import annotations

from weir.lowering.ownership import given_back, with_owners

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


def test_a_pod_that_was_applied_by_a_client_is_nobody_s_for_whoever_applies_it_on_the_server_next():
    assert given_back([KUBELET, OURS], "weir-operator", released=True) == [KUBELET]


# ── what the webhook changes ─────────────────────────────────────────────────────────────────────

TEMPLATE = ("spec", "template", "spec")


def owner(manager, operation, *names):
    fields = {name: {} for name in names}
    nested = {"f:spec": {"f:replicas": {}, "f:template": {"f:spec": fields}}}
    return {"manager": manager, "operation": operation, "apiVersion": "apps/v1", "fieldsV1": nested}


def workload(value, *managed):
    spec = {"template": {"spec": {"tolerations": [value]}}}
    return {"metadata": {"managedFields": list(managed)}, "spec": spec}


def lowered(new, value, old=None):
    return with_owners({**workload(value), "metadata": new["metadata"]}, new, old or {}, TEMPLATE)[
        "metadata"
    ]["managedFields"]


def test_lowered_fields_are_taken_from_managers_that_update_and_nothing_else_is():
    kubectl = owner("kubectl-client-side-apply", "Update", "f:tolerations", "f:containers")
    assert lowered(workload("Gt", kubectl), "marker") == [
        owner("kubectl-client-side-apply", "Update", "f:containers")
    ]
    assert lowered(workload("marker", kubectl), "marker") == [kubectl], "lowering changed nothing"


def test_who_applied_keeps_them_and_gets_them_back_where_an_update_changed_nothing_in_the_end():
    applied = owner("kubectl", "Apply", "f:tolerations")
    assert lowered(workload("Gt", applied), "marker") == [applied]
    lost, updated = owner("kubectl", "Apply"), owner("kubectl-client-side-apply", "Update", "f:tolerations")
    stored = workload("marker", applied)
    assert lowered(workload("Gt", lost, updated), "marker", stored)[0] == applied
    assert lowered(workload("Lt", lost, updated), "another marker", stored)[0] == lost


def test_a_manager_that_owned_nothing_else_is_gone_and_required_affinity_is_one_field():
    path = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    fields = {"f:spec": {"f:affinity": {"f:nodeAffinity": {f"f:{path[-1]}": {}}}}}
    managed = [{"manager": "m", "operation": "Update", "fieldsV1": fields}]

    def pod(value):
        return {
            "metadata": {"managedFields": managed},
            "spec": {"affinity": {"nodeAffinity": {path[-1]: value}}},
        }

    assert with_owners(pod("label"), pod("SemverGt"), {}, ("spec",))["metadata"]["managedFields"] == []
