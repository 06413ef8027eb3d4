"""A verb about one object never becomes a request about a whole collection."""

from __future__ import annotations

import pytest

from weir import errors
from weir.client.api import Client
from weir.objects.kinds import by_kind

PODS = by_kind("v1", "Pod")


class Deaf:
    """A transport that must not be used."""

    async def request(self, method, target, headers=None, body=b""):
        raise AssertionError(f"{method} {target} was sent")


@pytest.mark.parametrize("name", ["", ".", ".."])
@pytest.mark.parametrize(
    "ask",
    [
        lambda client, name: client.get(PODS, name, "shop"),
        lambda client, name: client.patch(PODS, name, {}, "shop"),
        lambda client, name: client.delete(PODS, name, "shop"),
        lambda client, name: client.update(PODS, {"metadata": {"name": name, "namespace": "shop"}}),
        lambda client, name: client.apply(
            PODS, {"metadata": {"name": name, "namespace": "shop"}}, field_manager="test"
        ),
    ],
    ids=["get", "patch", "delete", "update", "apply"],
)
async def test_without_a_name_nothing_is_sent(ask, name):
    with pytest.raises(errors.BadRequest, match="resource name"):
        await ask(Client(Deaf()), name)


async def test_nothing_has_no_name():
    assert await Client(Deaf()).find(PODS, "", "shop") is None
