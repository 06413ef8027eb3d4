"""Lowered lists of tolerations: what they look like, what an update keeps, what is refused."""

from __future__ import annotations

import random
from itertools import product

import pytest

from tests.work import count_calls
from weir.gates import SEMVER_COMPARISON, TOLERATION_CEL, TOLERATION_COMPARISON
from weir.lowering import tolerations
from weir.lowering.names import TOLERATIONS, marker_key, toleration_hash
from weir.lowering.tolerations import (
    MOST_ENTRIES,
    LoweredList,
    Table,
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
from weir.taints.toleration import tolerates

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


# ── long lists ───────────────────────────────────────────────────────────────────────────────────

#: What anybody may write into a pod beside one extended entry, so often as an API server takes.
LONG = {
    "keys that exist": lambda n: {"key": f"a{n}", "operator": "Exists"},
    "one key": lambda n: {"key": "sla", "operator": "Exists", "effect": "PreferNoSchedule"},
    "no key": lambda n: {"operator": "Exists", "effect": "PreferNoSchedule"},
    "effects that there are not": lambda n: {"key": "sla", "operator": "Exists", "effect": f"No{n}"},
    "values of any effect": lambda n: {"key": "sla", "value": f"v{n}"},
    "values of another effect": lambda n: {"key": "sla", "value": f"{n}", "effect": "PreferNoSchedule"},
    "markers": lambda n: {"key": marker_key(f"{n:020x}"), "operator": "Exists"},
}


@pytest.mark.parametrize("how", LONG)
def test_a_long_list_is_not_read_for_every_taint(how):
    marked = mark([*map(LONG[how], range(4000)), {**GT, "value": "0"}])
    table = Table(Triple("sla", str(number), "NoExecute") for number in range(1, 2001))
    calls = count_calls(lambda: complete(marked.tolerations, marked.originals, table))
    assert calls < 100 * (4000 + 2000)


def test_the_entry_that_decides_is_the_first_that_tolerates():
    """Whatever stands before it, of every operator, value and effect, also twice."""
    chosen = random.Random(5)
    effects, values = ("", "NoSchedule", "NoExecute"), ("", "1", "950", "x")
    entries = [
        {"key": key, "operator": operator, "value": value, "effect": effect, "tolerationSeconds": seconds}
        for key, operator, value, effect, seconds in product(
            ("", "sla", "a"), ("", "Equal", "Exists", "Gt", "Lt"), values, effects, (None, 1, 7)
        )
        if key or operator == "Exists"
    ]
    triples = [Triple(*each) for each in product(("sla", "a"), values, effects[1:])]
    for native in (False, True):
        gates = stock_gates(native)
        for _ in range(300):
            rest = chosen.choices(entries, k=chosen.randrange(12))
            found = LoweredList(rest, {}, native)
            for triple in triples:
                read = enumerate(map(read_entry, rest))
                first = next(
                    ((i, e.toleration_seconds) for i, e in read if tolerates(e, triple.taint, gates)), None
                )
                assert found._decides(triple) == first, (rest, triple)


# ── a table that grows ───────────────────────────────────────────────────────────────────────────

GROWING = (
    {"key": "sla", "operator": "Gt", "value": "500"},
    {"key": "sla", "operator": "Lt", "value": "300", "effect": "NoExecute"},
    {"operator": "CEL", "value": "taint.key == 'sla' && int(taint.value) % 7 == 3"},
)


def values(first: int, count: int) -> tuple[Triple, ...]:
    return tuple(Triple("sla", str(number), "NoExecute") for number in range(first, first + count))


@pytest.fixture
def judged(monkeypatch):
    """Give the triples that a verdict was asked of."""
    seen: list[Triple] = []
    verdict = tolerations._verdict

    def counted(original, triple):
        seen.append(triple)
        return verdict(original, triple)

    monkeypatch.setattr(tolerations, "_verdict", counted)
    return seen


def test_a_table_that_grew_tolerates_what_a_new_one_does():
    random.seed(7)
    table = Table(values(0, 40))
    for turn in range(40):
        table = Table((*table, *values(40 + 10 * turn, random.randrange(1, 9))), table)
        for each in random.sample(GROWING, random.randrange(len(GROWING) + 1)):
            originals = mark([each]).originals
            expected = tuple(triple for triple in table if extended_verdict(originals.values(), triple))
            found = table.matching(originals)
            assert found == expected and table.matching(originals) is found is found.matching(originals)


def test_only_what_is_new_is_judged_and_what_concerns_nobody_changes_nothing(judged):
    originals = mark([GROWING[0]]).originals
    table = Table(values(0, 1_000))
    before = table.matching(originals)
    judged.clear()
    table = Table((*table, *values(400, 1), *values(2_000, 1)), table)
    after = table.matching(originals)
    assert judged == [*values(400, 1), *values(2_000, 1)]
    assert after == (*before, *values(2_000, 1))
    table = Table((*table, Triple("other", "1", "NoExecute")), table)
    assert table.matching(originals) is after


def test_an_older_table_that_is_asked_late_knows_no_more_than_it_has():
    originals = mark([GROWING[0]]).originals
    old = Table(values(0, 600))
    new = Table((*old, *values(600, 10)), old)
    assert len(new.matching(originals)) == 109
    assert len(old.matching(originals)) == 99
    assert len(new.matching(originals)) == 109


def test_pods_of_one_workload_are_completed_once_and_others_by_themselves(judged):
    table = Table(values(0, 600))
    marked = mark([GROWING[0]])
    done = complete(marked.tolerations, marked.originals, table)
    assert len(done.added) == 99
    judged.clear()
    assert complete(list(marked.tolerations), dict(marked.originals), table) is done
    assert not judged
    timed = mark([{**GROWING[0], "effect": "NoExecute", "tolerationSeconds": 5}])
    again = complete(timed.tolerations, timed.originals, table)
    assert again.tolerations[1]["tolerationSeconds"] == 5
    longer = mark([{**GROWING[0], "effect": "NoExecute", "tolerationSeconds": 9}])
    assert longer.originals.keys() == timed.originals.keys()
    assert complete(longer.tolerations, longer.originals, table).tolerations[1]["tolerationSeconds"] == 9
