"""Objects with thousands of field managers: work in their number, and no object larger than a store takes."""

import json

import pytest

from tests.unit.apiserver.compat.customresources.world import server
from tests.work import count_calls
from weir.apiserver.patches.apply import apply
from weir.apiserver.patches.managedfields import update_managed_fields
from weir.objects.kinds import by_kind

CONFIG_MAP = by_kind("v1", "ConfigMap")
PATH = "/api/v1/namespaces/default/configmaps"
NOW = "2026-01-01T00:00:00Z"
APPLY = "application/apply-patch+yaml"


def config_map(count, *, operation="Apply", managers=True, value="v"):
    """Return an object of *count* fields, each of a manager of its own."""
    data = {f"k{n}": value for n in range(count)}
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}
    if managers:
        document["metadata"]["managedFields"] = [
            {
                "manager": f"m{n}", "operation": operation, "apiVersion": "v1", "time": NOW,
                "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {".": {}, f"f:k{n}": {}}},
            }
            for n in range(count)
        ]  # fmt: skip
    return document


def updated(count, operation):
    changed = config_map(count, operation=operation, value="w")
    update_managed_fields(changed, config_map(count), CONFIG_MAP, manager="new", now=NOW)
    return changed


def created(count, operation):
    document = config_map(count, operation=operation)
    update_managed_fields(document, None, CONFIG_MAP, manager="new", now=NOW)
    return document


def applied(count, operation):
    live = config_map(count, operation=operation)
    own = {"fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:gone": {}}}}
    live["metadata"]["managedFields"].append(
        {"manager": "new", "operation": "Apply", "apiVersion": "v1", "time": NOW, **own}
    )
    live["data"]["gone"] = "v"
    wanted = json.dumps(config_map(count, managers=False, value="w")).encode()
    return apply(live, wanted, CONFIG_MAP, manager="new", force=True, now=NOW)


@pytest.mark.parametrize("operation", ["Apply", "Update"])
@pytest.mark.parametrize("write", [created, updated, applied])
def test_work_grows_with_the_number_of_managers(write, operation):
    def calls(count):
        return count_calls(lambda: write(count, operation))

    assert calls(800) < calls(100) * 12, "8 times as many managers; squared it would be 64"


async def test_managers_are_kept_until_the_object_is_too_large(tmp_path):
    async with server(tmp_path) as world:
        await world.ask("POST", PATH, config_map(9000, managers=False))
        code, stored = await world.ask("PUT", f"{PATH}/c", config_map(9000))
        assert (code, len(stored["metadata"]["managedFields"])) == (200, 9000)
        one = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
        more = {**one, "data": {"new": "v"}}
        code, stored = await world.ask("PATCH", f"{PATH}/c?fieldManager=m9000", more, APPLY)
        assert (code, len(stored["metadata"]["managedFields"])) == (200, 9001)
        taken = {**one, "data": {"k7": "mine"}}
        code, refused = await world.ask("PATCH", f"{PATH}/c?fieldManager=m9000", taken, APPLY)
        assert (code, refused["message"]) == (
            409,
            'Apply failed with 1 conflict: conflict with "m7": .data.k7',
        )
        code, refused = await world.ask("PUT", f"{PATH}/c", config_map(20_000))
        assert code in (413, 500) and "too large" in refused["message"], (code, refused["message"])
        code, stored = await world.ask("GET", f"{PATH}/c")
        assert (code, len(stored["metadata"]["managedFields"])) == (200, 9001)
