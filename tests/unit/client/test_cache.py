"""A local copy of a collection, also when some of it cannot be read."""

from __future__ import annotations

import msgspec
import pytest

from weir.client.cache import Cache, ObjectKey


class Thing(msgspec.Struct):
    size: int = 0


def raw(name: str, size: object, version: str = "1") -> msgspec.Raw:
    document = {"metadata": {"name": name, "resourceVersion": version}, "size": size}
    return msgspec.Raw(msgspec.json.encode(document))


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def cache(told: list[str]) -> Cache[Thing]:
    return Cache(msgspec.json.Decoder(Thing).decode, lambda key, error: told.append(f"{key}: {error}"))


def test_what_cannot_be_read_is_left_out_of_a_list_and_told(cache: Cache[Thing], told: list[str]):
    cache.replace([raw("a", 1), raw("b", "large"), raw("c", 3)], "7")
    assert ([thing.size for thing in cache], cache.synced, cache.resource_version) == ([1, 3], True, "7")
    assert told == ["b: Expected `int`, got `str` - at `$.size`"]


def test_an_object_that_becomes_unreadable_is_gone_until_it_can_be_read_again(cache: Cache[Thing]):
    seen: list[tuple[object, object]] = []
    cache.replace([raw("a", 1)], "1")
    cache.listen(lambda old, new: seen.append((old, new)))
    assert cache.change("MODIFIED", raw("a", None, "2")) == "2"
    gone = cache.get(ObjectKey("", "a"))
    cache.change("MODIFIED", raw("a", 3, "3"))
    assert (gone, cache.get(ObjectKey("", "a"))) == (None, Thing(3))
    assert seen == [(None, Thing(1)), (Thing(1), None), (None, Thing(3))]
