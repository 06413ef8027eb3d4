"""Grace entries: who gets them, how long, and that they are found again."""

from __future__ import annotations

import pytest

from tests.work import count_calls
from weir.lowering.grace import ended, graced, joined, split_grace
from weir.lowering.names import GRACE
from weir.lowering.tolerations import LoweredList, complete, mark, unite
from weir.lowering.triples import Triple

GT = {"key": "sla", "operator": "Gt", "value": "900", "effect": "NoExecute"}
CEL = {"operator": "CEL", "value": "taint.value.startsWith('eu-')"}
A950, A960, A800 = (Triple("sla", value, "NoExecute") for value in ("950", "960", "800"))
EU = Triple("zone", "eu-1", "NoExecute")


def lowered(*entries, triples=(A950,)):
    marked = mark(entries)
    return complete(marked.tolerations, marked.originals, triples).tolerations, marked.originals


@pytest.mark.parametrize(
    ("entries", "grace"),
    [
        ([GT], {"sla": 10}),
        ([{**GT, "tolerationSeconds": 3}], {"sla": 10}),
        ([{**GT, "tolerationSeconds": 300}], {"sla": 300}),
        ([GT, {**GT, "operator": "Lt", "value": "100", "tolerationSeconds": 60}], {"sla": 60}),
        ([{**GT, "effect": "NoSchedule"}], {}),
        ([{**GT, "effect": ""}], {"sla": 10}),
        ([GT, {"key": "sla", "operator": "Exists"}], {}),
        ([GT, {"operator": "Exists"}], {}),
        ([GT, {"key": "sla", "operator": "Exists", "effect": "NoSchedule"}], {"sla": 10}),
        ([{"key": "sla", "operator": "Equal", "value": "1", "effect": "NoExecute"}], {}),
        ([CEL], {}),
    ],
)
def test_who_gets_grace_and_how_long(entries, grace):
    tolerations, originals = lowered(*entries)
    assert split_grace(graced(tolerations, originals, 10)) == (tolerations, grace)


def test_an_expression_gets_it_for_the_keys_it_has_tolerated():
    tolerations, originals = lowered(CEL, GT, triples=(A950, EU))
    assert split_grace(graced(tolerations, originals, 10))[1] == {"sla": 10, "zone": 10}


def test_it_is_the_last_and_stays_when_it_is_asked_for_again():
    tolerations, originals = lowered(GT)
    first = graced(tolerations, originals, 10)
    assert first[-2] == {"key": GRACE, "operator": "Exists"}
    assert first[-1] == {"key": "sla", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10}
    later = graced([*first, {"key": "b", "operator": "Exists"}], originals, 10)
    assert later[-1] == first[-1] and graced(later, originals, 10) == later


def test_it_ends_for_the_keys_that_the_pod_leaves_for():
    tolerations, originals = lowered(GT, {**GT, "key": "other"})
    found = ended(graced(tolerations, originals, 10), {"sla"})
    assert split_grace(found) == (tolerations, {"sla": 0, "other": 10})
    assert split_grace(graced(found, originals, 10))[1] == {"sla": 10, "other": 10}


@pytest.mark.parametrize("seconds", [None, 10])
def test_it_never_stands_for_an_entry(seconds):
    """Grace of as many seconds as the original has says the same today, and nothing once it is ended."""
    original = GT if seconds is None else {**GT, "tolerationSeconds": seconds}
    tolerations, originals = lowered(original)
    with_grace = LoweredList(graced(tolerations, originals, 10), originals)
    assert with_grace.needs_entry(A960) and not with_grace.needs_entry(A950)
    assert with_grace.tolerates(A960) and not with_grace.tolerates(A800)


def test_an_update_by_its_author_keeps_it():
    tolerations, originals = lowered(GT)
    stored = graced(tolerations, originals, 10)
    assert unite(mark([GT]).tolerations, stored, originals) == stored


def test_it_gives_way_to_the_same_entry_of_its_author():
    own = {"key": "sla", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    tolerations, originals = lowered(GT)
    stored = graced(tolerations, originals, 10)
    found = unite([*mark([GT]).tolerations, own], stored, originals)
    assert found == [*tolerations, own] and joined([own], {"sla": 10}) == [own]


def test_a_list_that_somebody_broke_is_left_alone():
    odd = [None, "x", {"key": GRACE}, 7, {"key": "sla", "operator": "Exists"}]
    assert split_grace(odd) == ([None, "x", 7, {"key": "sla", "operator": "Exists"}], {})


def test_work_grows_with_the_list():
    """Which anybody may write: keys of grace behind a mark of weir's, and as many entries before it."""
    own = [{"key": f"a{n}", "operator": "Exists", "tolerationSeconds": 1} for n in range(2000)]
    forged = [
        {"key": f"g{n}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}
        for n in range(2000)
    ]
    entries = [*own, {"key": GRACE, "operator": "Exists"}, *forged]
    assert count_calls(lambda: joined(*split_grace(entries))) < 100 * len(entries)
    assert count_calls(lambda: ended(entries, {"g1"})) < 100 * len(entries)
    assert count_calls(lambda: graced(entries, {"x": GT}, 10)) < 200 * len(entries)
