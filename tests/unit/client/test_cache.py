"""A local copy of a collection, also when some of it cannot be read."""

from __future__ import annotations

import msgspec
import pytest

from weir.client.cache import Cache, ObjectKey
from weir.objects.core import ObjectMeta, Pod, PodSpec, PodStatus


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


def test_a_listener_is_not_called_for_a_write_that_leaves_what_it_reads():
    key, metadata, spec = ObjectKey("", "p"), ObjectMeta(name="p"), PodSpec(node_name="n")
    cache: Cache[Pod] = Cache(msgspec.json.Decoder(Pod).decode)
    cache.add_index("node", lambda pod: (pod.spec.node_name,), ("spec",))
    seen: dict[str, int] = {"all": 0, "spec": 0, "none": 0}
    for name, reads in (("all", None), ("spec", ("spec",)), ("none", ())):
        cache.listen(lambda old, new, name=name: seen.update({name: seen[name] + 1}), reads)
    for pod in (
        Pod(metadata, spec),
        Pod(metadata, spec, PodStatus(phase="Running")),
        Pod(metadata, PodSpec(node_name="m")),
    ):
        cache.put(key, pod)
    cache.discard(key)
    assert seen == {"all": 4, "spec": 3, "none": 2}
