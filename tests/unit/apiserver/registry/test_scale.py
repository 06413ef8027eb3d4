"""Who owns the replicas of a workload, as owners of its Scale and back."""

from __future__ import annotations

from weir.apiserver.patches.managedfields import Entry, Owner
from weir.apiserver.registry.scale import REPLICAS, owners_in_scale, owners_in_workload
from weir.objects.kinds import by_kind

DEPLOYMENT = by_kind("apps/v1", "Deployment")
WHOLE = {"f:spec": {"f:replicas": {}, "f:selector": {}}}
REST = {"f:spec": {"f:selector": {}}}
APPLIER = Owner("owner", "Apply", "apps/v1")
UPDATER = Owner("maker", "Update", "apps/v1")
SCALER = Owner("scaler", "Apply", "autoscaling/v1", "scale")


def test_only_owners_of_the_replicas_are_owners_of_the_scale():
    managed = {APPLIER: Entry(WHOLE, "t"), UPDATER: Entry(REST, "t")}
    assert owners_in_scale(managed, DEPLOYMENT) == {
        Owner("owner", "Apply", "autoscaling/v1"): Entry(REPLICAS, "t")
    }


def test_an_applier_whose_replicas_were_taken_keeps_the_rest():
    found = owners_in_workload({APPLIER: Entry(WHOLE, "t")}, {SCALER: Entry(REPLICAS, "u")}, DEPLOYMENT)
    assert found == [
        (APPLIER, Entry(REST, "t")),
        (Owner("scaler", "Apply", "apps/v1", "scale"), Entry(REPLICAS, "")),
    ]


def test_an_applier_that_still_owns_the_replicas_keeps_its_entry():
    managed = {APPLIER: Entry(WHOLE, "t")}
    assert owners_in_workload(managed, owners_in_scale(managed, DEPLOYMENT), DEPLOYMENT) == [*managed.items()]


def test_an_updater_that_still_owns_the_replicas_has_two_entries():
    managed = {UPDATER: Entry(WHOLE, "t")}
    found = owners_in_workload(managed, owners_in_scale(managed, DEPLOYMENT), DEPLOYMENT)
    assert found == [(UPDATER, Entry(REST, "t")), (UPDATER, Entry(REPLICAS, ""))]


def test_an_owner_of_the_replicas_alone_loses_its_entry_with_them():
    managed = {Owner("old", "Update", "apps/v1", "scale"): Entry(REPLICAS, "")}
    assert owners_in_workload(managed, {}, DEPLOYMENT) == []
