"""Rows that differ in one number are one row with its range; diffs show no secrets."""

from __future__ import annotations

import json
from typing import Any

from weir.explain.diff import diff, masked
from weir.explain.explanation import Explanation
from weir.explain.pod import explain
from weir.explain.ranges import merged, range_sentences
from weir.gates import ALL_FEATURES
from weir.world import World


def node(name: str, sla: str, **more: Any) -> dict[str, Any]:
    taints = [{"key": "sla", "value": sla, "effect": "NoSchedule"}]
    return {"kind": "Node", "metadata": {"name": name}, "spec": {"taints": taints, **more}}


def rows(*nodes: dict[str, Any]) -> list[tuple[int, str]]:
    above = [{"key": "sla", "operator": "Gt", "value": "950", "effect": "NoSchedule"}]
    answer = explain({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"tolerations": above}},
                     World.of(nodes), ALL_FEATURES)  # fmt: skip
    return rows_of(answer)


def rows_of(answer: Explanation) -> list[tuple[int, str]]:
    groups = merged(answer.groups)
    sentences = range_sentences(groups)
    return [(len(group.nodes), sentence) for group, sentence in zip(groups, sentences, strict=True)]


def test_effects_tell_rows_apart_that_would_look_alike():
    tolerations = [{"key": "sla", "operator": "Gt", "value": "998"}]
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"tolerations": tolerations}}
    driver = ("driver", "5", "NoSchedule")
    nodes = [
        *(tainted(f"s{value}", ("sla", str(value), "NoSchedule")) for value in (700, 998)),
        *(tainted(f"e{value}", ("sla", str(value), "NoExecute")) for value in (700, 998)),
        tainted("both", ("sla", "700", "NoSchedule"), driver),
    ]
    found = {sentence for _, sentence in rows_of(explain(pod, World.of(nodes), ALL_FEATURES))}
    assert found == {
        "sla 700–998 (NoSchedule), needs > 998: refused",
        "sla 700–998 (NoExecute), needs > 998: refused",
        "sla=700 (NoSchedule), needs > 998: refused; driver=5 (NoSchedule), no toleration for this key: refused",
    }
    one = [each for each in nodes if each["metadata"]["name"].startswith("s")]
    ((_, alone),) = rows_of(explain(pod, World.of(one), ALL_FEATURES))
    assert alone == "sla 700–998, needs > 998: refused"


def test_many_values_of_one_taint_are_one_row():
    found = rows(*(node(f"n{value}", str(value)) for value in range(700, 951)))
    assert found == [(251, "sla 700–950, needs > 950: refused")]


def test_a_value_that_is_no_number_and_a_node_with_more_reasons_stay_apart():
    found = rows(node("a", "700"), node("b", "high"), node("c", "800", unschedulable=True))
    assert len(found) == 3


def tainted(name: str, *taints: tuple[str, str, str]) -> dict[str, Any]:
    listed = [{"key": key, "value": value, "effect": effect} for key, value, effect in taints]
    return {"kind": "Node", "metadata": {"name": name}, "spec": {"taints": listed}}


def test_one_value_is_no_range():
    ((count, said),) = rows(node("a", "700"), node("b", "700"))
    assert count == 2 and "sla=700" in said and "–" not in said


def test_a_number_under_another_effect_or_beside_another_reason_stays_apart():
    assert len(rows(tainted("a", ("sla", "1", "NoSchedule")), tainted("b", ("sla", "2", "NoExecute")))) == 2
    beside = [
        tainted(name, ("sla", value, "NoSchedule"), ("pool", pool, "NoSchedule"))
        for name, value, pool in (("a", "1", "x"), ("b", "2", "y"), ("c", "3", "x"))
    ]
    assert sorted(count for count, _ in rows(*beside)) == [1, 2]


def test_the_closest_of_those_put_together_speaks_for_them():
    nodes = [node(f"n{value}", str(value)) for value in (1, 2, 3)]
    answer = explain({"kind": "Pod", "metadata": {"name": "p"}, "spec": {}}, World.of(nodes), ALL_FEATURES)
    (group,) = merged(answer.groups)
    assert len(answer.groups) == 3 and group.verdict is answer.groups[0].verdict
    assert group.values == ("1", "2", "3")


def labelled(name: str, **labels: str) -> dict[str, Any]:
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}}


def affinity_rows(
    nodes: list[dict[str, Any]], *terms: list[dict[str, Any]], **spec: Any
) -> list[tuple[int, str]]:
    selector = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
    if terms:
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}
    answer = explain({"kind": "Pod", "metadata": {"name": "p"}, "spec": spec}, World.of(nodes), ALL_FEATURES)
    return rows_of(answer)


def test_many_values_of_one_label_are_one_row():
    nodes = [labelled(f"n{value}", generation=str(value)) for value in (4, 10, 9)]
    above = [{"key": "generation", "operator": "Gt", "values": ["10"]}]
    assert affinity_rows(nodes, above) == [(3, "generation 4–10, needs > 10")]
    assert affinity_rows(nodes, nodeSelector={"generation": "11"}) == [(3, "generation 4–10, needs 11")]


def test_a_label_that_is_absent_has_no_place_in_a_range():
    above = [{"key": "generation", "operator": "Gt", "values": ["10"]}]
    nodes = [labelled("a"), labelled("b", generation="4"), labelled("c", generation="5")]
    found = affinity_rows(nodes, above)
    assert sorted(count for count, _ in found) == [1, 2]
    assert (2, "generation 4–5, needs > 10") in found


def test_a_label_that_two_terms_ask_about_has_its_range_in_both():
    nodes = [labelled(f"n{value}", generation=str(value)) for value in (4, 5)]
    above = [{"key": "generation", "operator": "Gt", "values": ["10"]}]
    among = [{"key": "generation", "operator": "In", "values": ["1", "2"]}]
    assert affinity_rows(nodes, above, among) == [
        (2, "generation 4–5, needs > 10, or else generation 4–5, needs 1 or 2")
    ]


def test_versions_have_a_range_in_their_own_order_and_those_with_a_suffix_stay_apart():
    nodes = [
        labelled(f"n{number}", kernel=text) for number, text in enumerate(["5.10.0", "5.9.1", "6.1.0-rc.1"])
    ]
    above = [{"key": "kernel", "operator": "SemverGt", "values": ["6.1.0"]}]
    found = affinity_rows(nodes, above)
    assert (2, "kernel 5.9.1–5.10.0, needs version > 6.1.0") in found and len(found) == 2


def test_labels_that_differ_in_two_things_or_in_words_stay_apart():
    above = [{"key": "generation", "operator": "Gt", "values": ["10"]}]
    here = [{"key": "zone", "operator": "In", "values": ["c"]}]
    nodes = [labelled("a", generation="1", zone="a"), labelled("b", generation="2", zone="b")]
    assert len(affinity_rows(nodes, [*above, *here])) == 2
    assert len(affinity_rows([labelled("a", zone="a"), labelled("b", zone="b")], here)) == 2


def test_a_number_beside_what_all_share_is_still_one_row():
    found = rows(*(node(f"n{value}", str(value), unschedulable=True) for value in (1, 2)))
    assert len(found) == 1 and "sla 1–2" in found[0][1]


def test_a_diff_shows_what_changes_and_no_secret():
    before = {"env": [{"name": "PASSWORD", "value": "s3cret"}], "cpu": "1"}
    lines = list(diff(before, {**before, "cpu": "2"}, "pod.yaml", lambda value: json.dumps(value, indent=1)))
    assert [line for line in lines if line[0] in "+-"][2:] == ['- "cpu": "1"', '+ "cpu": "2"']
    assert "s3cret" not in "\n".join(lines)


def test_nothing_else_is_masked():
    tolerations = {"tolerations": [{"key": "sla", "value": "950"}]}
    assert masked(tolerations) == tolerations
