"""What a change added, modified and removed, held against the paths that both documents have."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import tries
from weir.apiserver.patches import fieldset
from weir.apiserver.patches.compare import compare, written_and_removed
from weir.apiserver.patches.custom_structure import node_of
from weir.apiserver.patches.structure import LEAF, Node, Relation, item_key, value_key
from weir.objects.kinds import by_kind

POD = node_of(by_kind("v1", "Pod"))

words = st.sampled_from(["a", "b", "", None])
labels = st.dictionaries(st.sampled_from("xyz"), st.sampled_from("ab"), max_size=3) | st.none()


def some(**found: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=found)


def keyed(key: str, values: list[Any], **more: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    items = st.dictionaries(st.sampled_from(values), some(**more), max_size=3)
    return items.map(lambda found: [{key: value, **item} for value, item in found.items()]) | st.none()


documents = st.fixed_dictionaries(
    {
        "metadata": some(
            labels=labels,
            finalizers=st.lists(st.sampled_from("abc"), max_size=3, unique=True),
            ownerReferences=keyed("uid", ["u", "v"], name=words),
        )
    },
    optional={
        "spec": some(
            nodeName=words,
            nodeSelector=labels,
            containers=keyed("name", ["c", 'd"'], image=words, ports=keyed("containerPort", [80, 81], name=words)),
            tolerations=st.lists(some(key=words), max_size=2),
            notDeclared=words,
        ),
        "status": some(phase=words, conditions=keyed("type", ["A", "B", "C"], status=words, reason=words))
        | st.none(),
    },
)  # fmt: skip


def paths_of(value: Any, node: Node, at: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Return every path of a document with what is compared there: a leaf's value, else whether anything is below."""
    if node.relation is Relation.LEAF or not value:
        return {at: value}
    found: dict[tuple[str, ...], Any] = {at: "there"}
    if node.relation is Relation.KEYED:
        below = [(item_key(item, node.keys), item, node.item) for item in value]
    elif node.relation is Relation.SET:
        below = [(value_key(item), item, LEAF) for item in value]
    else:
        below = [("f:" + key, item, node.child(key)) for key, item in value.items()]
    for element, item, child in below:
        found |= paths_of(item, child or LEAF, (*at, element))
    return found


@settings(max_examples=tries(300, 3000), deadline=None)
@given(documents, documents)
def test_a_comparison_is_that_of_all_paths(old: dict[str, Any], new: dict[str, Any]) -> None:
    before, after = paths_of(old, POD), paths_of(new, POD)
    added, modified, removed = (set(fieldset.paths(part)) for part in compare(old, new, POD))
    assert added == after.keys() - before.keys()
    assert removed == before.keys() - after.keys()
    both = before.keys() & after.keys()
    assert modified == {
        path for path in both if before[path] != after[path] and "there" not in (before[path], after[path])
    }


@settings(max_examples=tries(300, 3000), deadline=None)
@given(documents, documents)
def test_what_was_written_is_what_was_added_or_modified(old: dict[str, Any], new: dict[str, Any]) -> None:
    added, modified, removed = compare(old, new, POD)
    assert written_and_removed(old, new, POD) == (fieldset.union(added, modified), removed)


def test_items_with_the_same_key_are_one_leaf() -> None:
    twice = {"status": {"conditions": [{"type": "A", "status": "x"}, {"type": "A", "status": "y"}]}}
    once = {"status": {"conditions": [{"type": "A", "status": "x"}]}}
    item = 'k:{"type":"A"}'
    below = {".": {}, "f:status": {}, "f:type": {}}
    assert compare(once, twice, POD) == (
        {"f:status": {"f:conditions": {item: {}}}},
        {},
        {"f:status": {"f:conditions": {item: below}}},
    )
    assert written_and_removed(twice, once, POD) == (
        {"f:status": {"f:conditions": {item: below}}},
        {"f:status": {"f:conditions": {item: {}}}},
    )
