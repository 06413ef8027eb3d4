"""The smallest change: which edit each kind of miss is answered with, how it is written, and what is preferred."""

from __future__ import annotations

from typing import Any

import pytest

from weir.explain.fix import _MOST_EDITS_IN_FULL, Case, Fix, merge_patch
from weir.explain.pod import explain
from weir.explain.subject import Subject
from weir.gates import ALL_FEATURES, KUBERNETES_DEFAULTS, Gates
from weir.world import World

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def node(name: str = "n1", *taints: dict[str, Any], **rest: Any) -> dict[str, Any]:
    labels, status = rest.pop("labels", {}), rest.pop("status", {})
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": list(taints), **rest},
        "status": status,
    }


def taint(value: str, effect: str = "NoSchedule", key: str = "sla") -> dict[str, Any]:
    return {"key": key, "value": value, "effect": effect}


def fix(*nodes: dict[str, Any], gates: Gates = ALL_FEATURES, stored: bool = False, **spec: Any) -> Fix | None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}
    return explain(Subject.of(pod, stored=stored), World.of(nodes), gates).fix


def edits(*nodes: dict[str, Any], **spec: Any) -> list[str]:
    found = fix(*nodes, **spec)
    return [edit.say() for edit in found.edits] if found else []


def above(value: str, operator: str = "Gt", **rest: Any) -> dict[str, Any]:
    return {"key": "sla", "operator": operator, "value": value, "effect": "NoSchedule", **rest}


# ── taints ──


def test_a_threshold_missed_by_one_is_answered_with_the_exact_value_or_a_moved_threshold():
    found = fix(node("n1", taint("950")), tolerations=[above("950")])
    assert [edit.say() for edit in found.edits] == ["also tolerate sla = 950 (NoSchedule)"]
    assert [edit.say() for edit in found.alternatives[0]] == ["tolerate sla > 949 instead of > 950"]


def test_the_patch_keeps_what_was_tolerated_before():
    found = fix(node("n1", taint("950")), tolerations=[above("950")])
    assert found.patch == {"spec": {"tolerations": [above("950"), above("950", "Equal")]}}


def test_the_patch_of_a_workload_reaches_into_its_template():
    template = {"spec": {"nodeName": "gone"}}
    job = {"kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}}
    found = explain(job, World.of([node()]), ALL_FEATURES).fix
    assert found.patch == {"spec": {"template": {"spec": {"nodeName": None}}}}


def test_the_nearest_miss_is_proposed():
    nodes = (node("far", taint("1")), node("near", taint("940")), node("odd", taint("high")))
    assert fix(*nodes, tolerations=[above("950")]).nodes == ("near",)


def test_seconds_are_taken_over_from_the_entry_that_came_close():
    entry = above("950", effect="NoExecute", tolerationSeconds=30)
    found = fix(node("n1", taint("950", "NoExecute")), tolerations=[entry])
    assert found.patch["spec"]["tolerations"][-1]["tolerationSeconds"] == 30


def test_a_taint_without_value_is_tolerated_by_existing_with_its_effect():
    found = fix(node("n1", taint("", "NoExecute", "gpu")))
    assert found.patch["spec"]["tolerations"] == [{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}]


def test_a_taint_value_that_no_toleration_may_hold_is_tolerated_by_existing():
    assert edits(node("n1", taint("a b")), tolerations=[above("5")]) == ["also tolerate sla (NoSchedule)"]


def test_a_moved_threshold_is_preferred_to_tolerating_every_value():
    assert edits(node("n1", taint("-5")), tolerations=[above("5")]) == ["tolerate sla > -6 instead of > 5"]


def test_every_taint_of_the_node_is_answered():
    assert edits(node("n1", taint("1"), taint("2", "NoExecute"), taint("3", "PreferNoSchedule"))) == [
        "also tolerate sla = 1 (NoSchedule)",
        "also tolerate sla = 2 (NoExecute)",
    ]


def test_a_cordon_is_lifted_rather_than_tolerated():
    cordon = taint("", "NoSchedule", "node.kubernetes.io/unschedulable")
    found = fix(node("n1", cordon, unschedulable=True))
    assert (found.commands, found.patch) == (("kubectl uncordon n1",), {})


def test_another_node_is_preferred_to_tolerating_a_node_condition():
    sick = node("sick", taint("", "NoSchedule", "node.kubernetes.io/memory-pressure"))
    assert fix(sick, node("taken", taint("5"))).nodes == ("taken",)


def test_a_gate_that_is_off_is_turned_on_when_the_api_server_refuses_the_operator():
    found = fix(node("n1", taint("950")), tolerations=[above("900")], gates=KUBERNETES_DEFAULTS)
    assert found.commands == ("--feature-gates=TaintTolerationComparisonOperators=true",)


def test_a_stored_pod_under_a_gate_that_is_off_is_helped_without_the_gate():
    found = fix(node("n1", taint("950")), tolerations=[above("900")], gates=KUBERNETES_DEFAULTS, stored=True)
    assert [edit.say() for edit in found.edits] == ["also tolerate sla = 950 (NoSchedule)"]


# ── labels ──


def affinity(*requirements: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": list(requirements)}]}}}


def need(operator: str, *values: str, key: str = "k") -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


@pytest.mark.parametrize(
    ("requirement", "label", "said"),
    [
        (need("In", "a"), "b", "require the label k: a or b, instead of a"),
        (need("NotIn", "a", "b"), "b", "require the label k: anything but a, instead of anything but a or b"),
        (need("NotIn", "b"), "b", "no longer require the label k: anything but b"),
        (need("Gt", "5"), "5", "require the label k: > 4, instead of > 5"),
        (need("Lt", "5"), "7", "require the label k: < 8, instead of < 5"),
        (need("Gt", "5"), "0", "no longer require the label k: > 5"),
        (need("Gt", "5"), "big", "no longer require the label k: > 5"),
        (need("Exists"), None, "no longer require the label k: any value"),
        (need("DoesNotExist"), "a", "no longer require the label k: not to be there"),
        (
            need("SemverGt", "2.0.0"),
            "2.0.0",
            "require the label k: version > 2.0.0-0, instead of version > 2.0.0",
        ),
        (
            need("SemverGt", "v2.0.5"),
            "v2.0.5",
            "require the label k: version > v2.0.4, instead of version > v2.0.5",
        ),
        (
            need("SemverLt", "2.0.0"),
            "2.1.4",
            "require the label k: version < 2.1.5, instead of version < 2.0.0",
        ),
        (
            need("SemverEq", "2.0.0"),
            "2.1.4",
            "require the label k: version = 2.1.4, instead of version = 2.0.0",
        ),
    ],
)
def test_each_requirement_is_relaxed_just_enough(requirement, label, said):
    labels = {} if label is None else {"k": label}
    assert edits(node(labels=labels), affinity=affinity(requirement)) == [said]


def test_dropping_the_last_requirement_drops_the_affinity_because_an_empty_term_matches_nothing():
    found = fix(node(), affinity=affinity(need("Exists")))
    assert found.patch == {"spec": {"affinity": None}}


def test_the_term_that_lacks_least_is_relaxed():
    terms = [
        {"matchExpressions": [need("In", "a"), need("In", "a", key="other")]},
        {"matchExpressions": [need("In", "b", key="zone")]},
    ]
    wanted = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    assert edits(node(labels={"zone": "c"}), affinity=wanted) == [
        "require the label zone: b or c, instead of b"
    ]


def test_a_wrong_selector_value_is_changed_and_a_missing_label_no_longer_asked():
    found = edits(node(labels={"disk": "hdd"}), nodeSelector={"disk": "ssd", "gpu": "yes"})
    assert found == ["select disk=hdd instead of ssd", "remove gpu=yes from nodeSelector"]


# ── room ──


def wants(cpu: str, name: str = "c", **rest: Any) -> dict[str, Any]:
    return {"name": name, "image": "i", "resources": {"requests": {"cpu": cpu}}, **rest}


def room(**allocatable: str) -> dict[str, Any]:
    return node(status={"allocatable": {"pods": "9", **allocatable}})


def test_the_largest_container_gives_way():
    assert edits(room(cpu="2"), containers=[wants("500m", "small"), wants("2", "large")]) == [
        "request less cpu: 1500m in large (2 instead of 2500m)"
    ]


def test_several_large_containers_give_way_alike():
    assert edits(room(cpu="2"), containers=[wants("4", "a"), wants("4", "b"), wants("200m", "c")]) == [
        "request less cpu: 900m in a, 900m in b (2 instead of 8200m)"
    ]


def test_memory_is_lowered_to_whole_mebibytes():
    container = {"name": "c", "image": "i", "resources": {"requests": {"memory": "2Gi"}}}
    found = fix(room(memory="1500000000"), containers=[container])
    assert found.patch["spec"]["containers"][0]["resources"]["requests"] == {"memory": "1430Mi"}


def test_an_extended_resource_is_lowered_in_limit_and_request_alike():
    resources = {"limits": {"example.com/gpu": "4"}, "requests": {"example.com/gpu": "4"}}
    found = fix(
        room(**{"example.com/gpu": "2"}), containers=[{"name": "c", "image": "i", "resources": resources}]
    )
    assert found.patch["spec"]["containers"][0]["resources"] == {
        "limits": {"example.com/gpu": "2"},
        "requests": {"example.com/gpu": "2"},
    }


def test_the_overhead_of_a_runtime_class_is_counted_and_left_alone():
    sandbox = {
        "kind": "RuntimeClass",
        "metadata": {"name": "sandbox"},
        "overhead": {"podFixed": {"cpu": "250m"}},
    }
    found = edits(room(cpu="1"), sandbox, containers=[wants("1")], runtimeClassName="sandbox")
    assert found == ["request less cpu: 750m in c (1 instead of 1250m)"]


def test_an_init_container_gives_way_when_it_is_what_does_not_fit():
    found = edits(room(cpu="2"), containers=[wants("1")], initContainers=[wants("3", "first")])
    assert found == ["request less cpu: 2 in first (2 instead of 3)"]


@pytest.mark.parametrize("spec", [{"overhead": {"cpu": "3"}}, {}])
def test_where_lowering_cannot_help_nothing_is_made_up(spec):
    full = node(status={"allocatable": {"pods": "0", "cpu": "2"}})
    assert fix(full, containers=[wants("3")], **spec) is None


# ── the rest ──


def test_scheduling_gates_are_taken_away():
    assert edits(node(), schedulingGates=[{"name": "a"}, {"name": "b"}]) == [
        "remove the scheduling gates a, b"
    ]


def test_a_pod_that_fits_gets_no_advice():
    assert fix(node()) is None


def test_no_nodes_no_advice():
    assert fix() is None


def test_larger_groups_are_preferred_among_equal_changes():
    lone, many = node("a", taint("1")), [node(f"b{n}", taint("2")) for n in range(3)]
    assert fix(lone, *many).nodes == ("b0", "b1", "b2")


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        ({}, {}, {}),
        ({"a": 1}, {"a": 2}, {"a": 2}),
        ({"a": 1}, {}, {"a": None}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, {"a": {"c": None}}),
        ({"a": [1, 2]}, {"a": [1]}, {"a": [1]}),
        ({"a": 1}, {"a": {"b": 1}}, {"a": {"b": 1}}),
    ],
)
def test_a_merge_patch_leads_from_one_to_the_other(before, after, patch):
    assert merge_patch(before, after) == patch


# ── the smallest part ──


class Needs(Case):
    """A case that certain edits help."""

    def __init__(self, *needed: Any) -> None:
        self.needed, self.asked = set(needed), 0

    def helps(self, edits: Any) -> bool:
        self.asked += 1
        return self.needed <= set(edits)


@pytest.mark.parametrize("count", [1, _MOST_EDITS_IN_FULL, _MOST_EDITS_IN_FULL + 1, _MOST_EDITS_IN_FULL + 6])
@pytest.mark.parametrize("needed", [(0,), (-1,), (0, -1)])
def test_of_a_list_of_edits_only_what_is_needed_is_proposed(count: int, needed: tuple[int, ...]):
    listed = tuple(range(count))
    wanted = tuple(sorted({listed[place] for place in needed}))
    assert Needs(*wanted).smallest(listed) == wanted


@pytest.mark.parametrize("count", [3, _MOST_EDITS_IN_FULL + 3])
def test_edits_that_are_all_needed_stay(count: int):
    assert Needs(*range(count)).smallest(tuple(range(count))) == tuple(range(count))


def test_of_a_long_list_each_edit_is_left_out_once():
    count = _MOST_EDITS_IN_FULL + 10
    case = Needs(*range(count))
    case.smallest(tuple(range(count)))
    assert case.asked == count


def test_what_can_be_left_out_of_ten_edits_is_found_with_few_questions():
    case = Needs(*range(3, 10))
    assert case.smallest(tuple(range(10))) == tuple(range(3, 10))
    assert case.asked < 300


def test_a_part_that_helps_although_nothing_between_does_is_found():
    """An edit may spoil what another one does; every part of a short list is tried before it is proposed."""

    class Odd(Needs):
        def helps(self, edits: Any) -> bool:
            return set(edits) in ({0, 1, 2, 3, 4, 5}, {0, 2, 4})

    assert Odd().smallest(tuple(range(6))) == (0, 2, 4)
