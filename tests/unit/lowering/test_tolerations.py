"""Lowered lists of tolerations: what they look like, what an update keeps, what is refused."""

from __future__ import annotations

import pytest

from weir.gates import SEMVER_COMPARISON, TOLERATION_CEL, TOLERATION_COMPARISON
from weir.lowering.names import TOLERATIONS, marker_key, toleration_hash
from weir.lowering.tolerations import (
    MOST_ENTRIES,
    LoweredList,
    complete,
    entry_for,
    extended_verdict,
    is_extended,
    mark,
    needed,
    problems,
    read_entry,
    read_originals,
    stock_gates,
    unite,
    write_originals,
)
from weir.lowering.triples import Triple

GT = {"key": "sla", "operator": "Gt", "value": "900", "effect": "NoExecute", "tolerationSeconds": 3}
EXISTS = {"key": "sla", "operator": "Exists"}
T950, T960, T800 = (Triple("sla", value, "NoExecute") for value in ("950", "960", "800"))


def marker(entry):
    return {"key": marker_key(toleration_hash(entry)), "operator": "Exists"}


def equal(triple, **more):
    return {"key": triple.key, "operator": "Equal", "value": triple.value, "effect": triple.effect, **more}


def lowered(tolerations, *triples):
    marked = mark(tolerations)
    return complete(marked.tolerations, marked.originals, triples).tolerations


def test_an_entry_for_each_matching_triple_stands_behind_the_marker_with_the_originals_seconds():
    assert lowered([GT, EXISTS], T950, T800, T960) == [
        marker(GT),
        equal(T950, tolerationSeconds=3),
        equal(T960, tolerationSeconds=3),
        EXISTS,
    ]


def test_what_stands_before_decides_and_needs_no_entry():
    assert lowered([EXISTS, GT], T950) == [EXISTS, marker(GT)]


def test_seconds_are_for_no_execute_only():
    cel = {"operator": "CEL", "value": "taint.key == 'sla'", "tolerationSeconds": 5}
    schedule = Triple("sla", "1", "NoSchedule")
    assert lowered([cel], schedule, T950)[1:] == [equal(schedule), equal(T950, tolerationSeconds=5)]


def test_completing_again_adds_only_what_is_new():
    marked = mark([GT])
    first = complete(marked.tolerations, marked.originals, [T950])
    again = complete(first.tolerations, marked.originals, [T950, T960])
    assert first.added == (T950,) and again.added == (T960,)
    assert needed(again.tolerations, marked.originals, [T950, T960, T800]) == ()


def test_a_full_list_says_what_it_leaves_out():
    marked = mark([GT])
    done = complete(
        marked.tolerations, marked.originals, (Triple("sla", str(1000 + n), "NoExecute") for n in range(1200))
    )
    assert len(done.tolerations) == MOST_ENTRIES and len(done.left_out) == 1200 - (MOST_ENTRIES - 1)


def test_a_reapply_keeps_the_stored_entries_and_takes_new_seconds():
    stored = lowered([GT, EXISTS], T950)
    again = mark([{**GT, "tolerationSeconds": 9}, EXISTS])
    assert unite(again.tolerations, stored, again.originals) == [
        marker(GT),
        equal(T950, tolerationSeconds=9),
        EXISTS,
    ]


def test_an_entry_of_the_users_that_was_taken_away_is_not_brought_back():
    own = {"key": "other", "operator": "Equal", "value": "x", "effect": "NoExecute"}
    again = mark([GT])
    assert unite(again.tolerations, [*lowered([GT], T950), own], again.originals) == lowered([GT], T950)


def test_markers_of_before_keep_their_originals_and_a_forged_one_means_nothing():
    first = mark([GT])
    annotations = {"lowered.weir.dev/tolerations": write_originals(first.originals)}
    assert mark(first.tolerations, annotations) == first
    forged = {"lowered.weir.dev/tolerations": write_originals({toleration_hash(GT): EXISTS})}
    assert mark(first.tolerations, forged).originals == {}
    assert read_originals({"lowered.weir.dev/tolerations": "[1"}) == {}


def test_numeric_operators_are_left_alone_where_the_cluster_has_them():
    assert mark([GT], native_numeric=True).tolerations == [GT]
    assert is_extended({"operator": "SemverGt"}, native_numeric=True)
    native_first = mark([GT, {"operator": "CEL", "value": "true"}], native_numeric=True)
    done = complete(native_first.tolerations, native_first.originals, [T950, T800], native_numeric=True)
    assert done.added == (T800,)


@pytest.mark.parametrize(
    "entry, text",
    [
        (
            {"key": "sla", "operator": "Gt", "value": "0950"},
            'spec.tolerations[1].value: Invalid value: "0950"',
        ),
        ({"key": "v", "operator": "SemverEq", "value": "x.y"}, "spec.tolerations[1].value: Invalid value"),
        ({"operator": "CEL", "value": "taint.nothing"}, "spec.tolerations[1].value: Invalid value"),
        ({"operator": "CEL"}, "spec.tolerations[1].value: Required value"),
        ({"key": "a", "operator": "CEL", "value": "true"}, "operator CEL takes no key"),
        ({"operator": "Gt", "value": "1"}, "operator must be Exists when `key` is empty"),
    ],
)
def test_a_bad_original_is_refused_at_its_place(entry, text):
    (problem,) = problems([EXISTS, entry], "spec.tolerations")[:1]
    assert text in problem and "spec.tolerations[1]" in problem


def test_a_good_one_is_not():
    assert problems([GT, EXISTS, {"operator": "CEL", "value": "taint.key == 'a'"}], "spec.tolerations") == []


def test_an_entry_is_read_with_every_field_and_an_absent_one_is_empty():
    read = read_entry(
        {"key": "a", "operator": "Gt", "value": "1", "effect": "NoExecute", "tolerationSeconds": 3}
    )
    assert (read.key, read.operator, read.value, read.effect, read.toleration_seconds) == (
        "a",
        "Gt",
        "1",
        "NoExecute",
        3,
    )
    assert read_entry({"expression": "true"}).expression == "true"
    empty = read_entry({"key": None, "effect": None, "expression": None})
    assert (empty.key, empty.operator, empty.value, empty.effect, empty.expression) == ("", "", "", "", "")


def test_a_problem_is_named_by_its_place_among_all_entries():
    assert problems([EXISTS, {**GT, "value": "x1"}], "at")[0].startswith("at[1].value")
    assert problems([{"key": "not a key!", "operator": "Exists"}], "at") == [], "the server checks its own"


def test_originals_are_written_in_order_and_readably():
    assert (
        write_originals({"b": {"value": "ü", "key": "k"}, "a": {}}) == '{"a":{},"b":{"key":"k","value":"ü"}}'
    )


def test_an_entry_that_is_there_twice_is_marked_once():
    assert mark([GT, GT]).tolerations == [marker(GT)]
    assert mark([GT, marker(GT), marker(GT), EXISTS, EXISTS]).tolerations == [marker(GT), EXISTS, EXISTS]
    assert mark([marker(GT), marker(GT)]).tolerations == [marker(GT)]
    assert mark([{"operator": "Exists"}, {"key": None}]).tolerations == [
        {"operator": "Exists"},
        {"key": None},
    ]


def test_a_list_never_has_more_than_a_thousand_entries():
    triples = [Triple("sla", str(1000 + number), "NoExecute") for number in range(1001)]
    assert len(lowered([GT], *triples)) == 1000


def test_an_unmodified_cluster_has_none_of_the_features_or_only_its_own():
    features = (TOLERATION_COMPARISON, SEMVER_COMPARISON, TOLERATION_CEL)
    assert [stock_gates(False).enabled(each) for each in features] == [False, False, False]
    assert [stock_gates(True).enabled(each) for each in features] == [True, False, False]


@pytest.mark.parametrize("text", ["[]", "5", "{", ""])
def test_an_annotation_that_is_none_of_weirs_holds_nothing(text):
    assert read_originals({TOLERATIONS: text}) == {}


def test_a_triple_without_a_value_has_an_entry_without_one():
    entry = entry_for(Triple("sla", "", "NoExecute"), read_entry(GT))
    assert entry == {"key": "sla", "operator": "Equal", "effect": "NoExecute", "tolerationSeconds": 3}


def test_one_of_the_originals_is_enough():
    cel = {"operator": "CEL", "value": "taint.key == 'other'"}
    assert extended_verdict([cel, GT], T950)
    assert not extended_verdict([cel, GT], T800)
    assert not extended_verdict([], T950)


CEL = {"operator": "CEL", "value": "taint.key == 'sla'", "tolerationSeconds": 3}
ORIGINALS = {toleration_hash(CEL): CEL}
HASH = toleration_hash(CEL)


def test_an_operator_of_the_clusters_own_decides_only_where_it_has_it():
    native = [{"key": "sla", "operator": "Gt", "value": "900"}, marker(CEL)]
    assert needed(native, ORIGINALS, [T950]) == complete(native, ORIGINALS, [T950]).added == (T950,)
    assert LoweredList(native, ORIGINALS).needs_entry(T950) == HASH
    assert needed(native, ORIGINALS, [T950], True) == complete(native, ORIGINALS, [T950], True).added == ()
    assert LoweredList(native, ORIGINALS, True).needs_entry(T950) == ""


TIMED = {"key": "sla", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9}


@pytest.mark.parametrize(
    "behind, hash_",
    [
        ([equal(T950, tolerationSeconds=3), TIMED], ""),
        ([TIMED, equal(T950, tolerationSeconds=3)], HASH),
        ([equal(T960), TIMED], HASH),
        ([{**equal(T950, tolerationSeconds=3), "operator": None}, TIMED], ""),
    ],
)
def test_the_first_entry_that_the_cluster_finds_decides_for_how_long(behind, hash_):
    assert LoweredList([marker(CEL), *behind], ORIGINALS).needs_entry(T950) == hash_


def test_a_triple_that_no_original_tolerates_needs_no_entry():
    assert LoweredList([marker(CEL)], ORIGINALS).needs_entry(Triple("x", "", "NoExecute")) == ""
    assert LoweredList([marker(CEL)], {}).needs_entry(T950) == ""


def test_a_pod_tolerates_what_an_original_or_an_entry_does():
    found = LoweredList([marker(GT), {"key": "x", "operator": "Exists"}], {toleration_hash(GT): GT})
    assert found.tolerates(T950) and found.tolerates(Triple("x", "", "NoExecute"))
    assert not found.tolerates(T800)


@pytest.mark.parametrize(
    "own, brought_back",
    [
        ({**equal(T950), "key": "x"}, True),
        ({**equal(T950), "operator": "Gt"}, True),
        (equal(T960), True),
        ({**equal(T950), "effect": "NoSchedule"}, True),
        (equal(T950), False),
        ({"key": "sla", "value": "950", "effect": "NoExecute"}, False),
    ],
)
def test_a_stored_entry_comes_back_unless_the_user_wrote_the_same(own, brought_back):
    found = unite([marker(CEL), own], [marker(CEL), equal(T950)], ORIGINALS)
    assert found == [marker(CEL), *([equal(T950, tolerationSeconds=3)] if brought_back else []), own]
