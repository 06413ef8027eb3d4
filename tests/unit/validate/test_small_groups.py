"""Claims about what may be written of a StorageVersionMigration."""

from tests.certificate_documents import condition, conditions, migration
from weir.fields.field import Context
from weir.gates import Gates
from weir.validate.small_groups import validate_storage_version_migration

DONE = condition("Succeeded", lastTransitionTime="2026-01-01T00:00:00Z")


def problems(new, old=None, subresource=""):
    context = Context(Gates(), subresource, namespaced=False)
    return [str(error) for error in validate_storage_version_migration(new, old, context)]


def test_a_resource_is_named_and_stays():
    assert problems(migration("a", "deployments", "apps")) == []
    assert problems(migration("a", "")) == [
        "spec.resource.resource: Required value: resource is required to be set"
    ]
    assert problems(migration("a", "pods"), migration("a", "secrets")) == [
        'spec: Invalid value: {"Resource":{"group":"","resource":"pods"}}: field is immutable'
    ]


def test_it_ends_once():
    done, failed = (
        {**migration("a", "pods"), **conditions({**DONE, "type": one})} for one in ("Succeeded", "Failed")
    )
    assert problems(done, migration("a", "pods"), "status") == []
    texts = [found.rpartition(": ")[2] for found in problems(failed, done, "status")]
    assert texts == ["Success condition cannot be set to false once it is true"]


def test_the_version_is_a_number_that_stays():
    old, new = migration("a", "pods"), {**migration("a", "pods"), "status": {"resourceVersion": "01"}}
    assert problems(new, old, "status") == [
        'status.resourceVersion: Invalid value: "01": resource version is not well formed: 01'
    ]
    five, six = ({**old, "status": {"resourceVersion": number}} for number in "56")
    assert problems(six, five, "status") == ['status.resourceVersion: Invalid value: "6": field is immutable']
