"""A preference that cannot be read breaks the attempt when nodes have to be compared, and only then."""

import random

import pytest

from tests.unit.scheduler.hints import hints_of
from weir.gates import ALL_FEATURES
from weir.objects.core import Node, NodeAffinity, NodeSelector, NodeSelectorRequirement, Pod, read
from weir.scheduler.cycle import Engine
from weir.scheduler.framework import PluginError
from weir.scheduler.node_table import NodeTable
from weir.scheduler.plugins import node_affinity
from weir.scheduler.plugins.node_affinity import (
    BoundNodeAffinity,
    LabelJudge,
    unmet_terms,
    unreadable_preference,
)
from weir.scheduler.plugins.node_affinity import NodeAffinity as Plugin
from weir.scheduler.pod_class import PodClasses
from weir.scheduler.profile_arguments import ProfileArguments
from weir.scheduler.queueing_hints import node_events
from weir.scheduler.reasons import UnmetAffinity, UnmetProfileAffinity, WrongLabel
from weir.selectors.node import match_requirement

UNREADABLE = "for 'Gt', 'Lt' operators, the value must be an integer"


def engine(*names, **arguments):
    made = Engine(ALL_FEATURES, ProfileArguments(**arguments))
    for name in names:
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "9"}
        made.table.put_node(read(Node, {"metadata": {"name": name}, "status": {"allocatable": amounts}}))
    return made


def pod(*values, operator="Gt", weight=1):
    preferred = [
        {
            "weight": weight,
            "preference": {"matchExpressions": [{"key": "gen", "operator": operator, "values": [v]}]},
        }
        for v in values
    ]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    return read(Pod, {"metadata": {"name": "p"}, "spec": {"containers": [], "affinity": affinity}})


def test_the_value_and_its_place_are_named():
    with pytest.raises(PluginError) as problem:
        engine("a", "b").place(pod("1", "x"))
    assert str(problem.value) == (
        f'running PreScore plugin "NodeAffinity": [1].matchExpressions[0].values[0]: Invalid value: "x": {UNREADABLE}'
    )


def test_several_are_told_together():
    with pytest.raises(PluginError, match=r'NodeAffinity": \[\[0\].*integer, \[1\].*integer\]$'):
        engine("a", "b").place(pod("x", "y"))


@pytest.mark.parametrize(
    ("nodes", "asking", "arguments"),
    [
        (("a",), pod("x"), {}),  # a single node is not scored
        (("a", "b"), pod("+007"), {}),
        (("a", "b"), pod("x", weight=0), {}),
        (("a", "b"), pod("x", operator="SemverGt"), {}),
        (("a", "b"), pod("x"), {"disabled_scores": frozenset({"NodeAffinity"})}),
    ],
)
def test_nobody_else_is_disturbed(nodes, asking, arguments):
    assert engine(*nodes, **arguments).place(asking).node == "a"


def required(*terms, **more):
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    }
    return read(Pod, {"metadata": {"name": "p"}, "spec": {"containers": [], "affinity": affinity, **more}})


def named(operator, *names):
    return {
        "matchFields": [{"key": "metadata.name", "operator": operator, "values": [name]} for name in names]
    }


def names_of(asking):
    bound = BoundNodeAffinity(PodClasses().of(asking), engine().table, ALL_FEATURES, None)
    return bound.node_names()


@pytest.mark.parametrize(
    ("terms", "names"),
    [
        ([named("In", "a")], {"a"}),
        ([named("In", "a"), named("In", "b")], {"a", "b"}),
        ([named("In", "a", "b")], set()),
        ([named("NotIn", "a")], None),
        ([named("In", "a"), named("NotIn", "b")], None),
        ([named("In", "a"), {"matchExpressions": [{"key": "x", "operator": "Exists"}]}], None),
        ([], None),
    ],
)
def test_only_nodes_that_every_term_names_are_looked_at(terms, names):
    assert names_of(required(*terms)) == names


def test_the_nodes_to_look_at_are_handed_on_and_none_is_a_conflict():
    plugin = Plugin(engine().table, ALL_FEATURES)

    def extensions(*terms):
        return plugin.for_class(PodClasses().of(required(*terms)))

    assert (
        extensions(named("In", "a")).node_names == {"a"} and extensions(named("In", "a")).pre_filter is None
    )
    assert extensions(named("NotIn", "a")).node_names is None
    conflict = extensions(named("In", "a", "b"))
    assert conflict.node_names is None
    assert conflict.pre_filter.pre_filter().reasons == ("pod affinity terms conflict",)


@pytest.mark.parametrize(("operator", "node"), [("In", "a"), ("NotIn", "b")])
def test_a_pod_goes_to_the_node_its_field_names_or_to_another(operator, node):
    assert engine("a", "b").place(required(named(operator, "a"))).node == node


def test_the_profiles_own_preference_decides_between_nodes():
    preferred = {
        "weight": 10,
        "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]},
    }
    added = read(NodeAffinity, {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]})
    plain = read(Pod, {"metadata": {"name": "p"}, "spec": {"containers": []}})
    assert [engine("a", "b").place(plain).node, engine("a", "b", added_affinity=added).place(plain).node] == [
        "a",
        "b",
    ]


def test_the_profiles_own_requirement_is_the_one_named():
    added = read(
        NodeAffinity,
        {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [named("In", "b")]}},
    )
    table = engine("a", "b")
    bound = BoundNodeAffinity(PodClasses().of(required(named("In", "b"))), table.table, ALL_FEATURES, added)
    assert [bound.status(int(code)).reasons for code in bound.codes(slice(0, 2)) if code] == [
        ("node(s) didn't match scheduler-enforced node affinity",)
    ]


def bound_to(asking, added=None, *nodes):
    made = engine(*nodes)
    return BoundNodeAffinity(PodClasses().of(asking), made.table, ALL_FEATURES, added)


PLAIN = read(Pod, {"metadata": {"name": "p"}, "spec": {"containers": []}})


def test_a_pod_without_wishes_is_held_to_the_profiles_own():
    terms = {"nodeSelectorTerms": [named("In", "b")]}
    added = read(NodeAffinity, {"requiredDuringSchedulingIgnoredDuringExecution": terms})
    assert engine("a", "b", added_affinity=added).place(PLAIN).node == "b"
    assert bound_to(PLAIN, added).filters and not bound_to(PLAIN).filters


def test_the_reason_names_the_profile_only_where_the_profile_refuses():
    terms = {"nodeSelectorTerms": [named("In", "b")]}
    added = read(NodeAffinity, {"requiredDuringSchedulingIgnoredDuringExecution": terms})
    bound = bound_to(PLAIN, added, "a", "b")
    assert [type(reason) for reason in bound.reasons(0, 2)] == [UnmetProfileAffinity]
    assert bound.reasons(1, 1) == ()


@pytest.mark.parametrize(("weight", "preference"), [(0, named("In", "a")), (5, {})])
def test_a_preference_without_weight_or_wish_decides_nothing(weight, preference):
    preferred = {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "preference": preference}]
    }
    asking = read(
        Pod, {"metadata": {"name": "p"}, "spec": {"containers": [], "affinity": {"nodeAffinity": preferred}}}
    )
    assert not bound_to(asking).scores


def test_what_a_term_lacks_is_named_by_its_place():
    here = {"key": "a", "operator": "Exists"}
    term = {"matchExpressions": [here, {"key": "b", "operator": "Exists"}], **named("In", "n1", "n2")}
    selector = read(NodeSelector, {"nodeSelectorTerms": [term]})
    ((index, lacking),) = [
        (each.index, each.unmet) for each in unmet_terms(selector, {"a": ""}, "n1", ALL_FEATURES)
    ]
    assert (index, [(one.field, one.index) for one in lacking]) == (
        0,
        [("matchExpressions", 1), ("matchFields", 1)],
    )


@pytest.mark.parametrize(
    ("term", "selects"),
    [
        ({}, False),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, True),
        (named("In", "n1"), True),
    ],
)
def test_a_term_that_lacks_nothing_selects_unless_it_asks_nothing(term, selects):
    selector = read(NodeSelector, {"nodeSelectorTerms": [term]})
    assert (unmet_terms(selector, {"a": ""}, "n1", ALL_FEATURES) is None) is selects


def labelled(name="a", **labels):
    return read(Node, {"metadata": {"name": name, "labels": labels}})


def asking_for(operator, *values, key="x", **more):
    return required(
        {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}, **more
    )


def test_what_the_pod_refuses_and_what_the_profile_refuses_are_told_apart():
    table = NodeTable()
    for node in (labelled("a", x="1", y="1"), labelled("b", x="2", y="1"), labelled("c", x="1")):
        table.put_node(node)
    asking = PodClasses().of(asking_for("In", "1", nodeSelector={"y": "1"}))
    bound = BoundNodeAffinity(asking, table, ALL_FEATURES, None)
    assert bound.codes(slice(0, 3)).tolist() == [0, 1, 1]
    assert bound.status(1).reasons == ("node(s) didn't match Pod's node affinity/selector",)
    assert bound.reasons(0, 0) == ()
    (unmet,), (wrong,) = bound.reasons(1, 1), bound.reasons(2, 1)
    assert isinstance(unmet, UnmetAffinity) and [term.index for term in unmet.terms] == [0]
    assert wrong == WrongLabel("y", "1", None)


def test_a_value_that_no_node_has_is_not_the_absence_of_the_label():
    table = NodeTable()
    for node in (labelled("a", x="1"), labelled("b")):
        table.put_node(node)
    asking = read(Pod, {"metadata": {"name": "p"}, "spec": {"containers": [], "nodeSelector": {"x": "2"}}})
    bound = BoundNodeAffinity(PodClasses().of(asking), table, ALL_FEATURES, None)
    assert bound.codes(slice(0, 2)).tolist() == [1, 1]


def test_a_term_that_asks_nothing_selects_no_node():
    bound = bound_to(required({}), None, "a", "b")
    assert bound.codes(slice(0, 2)).tolist() == [1, 1]


def test_what_a_term_lacks_beside_its_expressions_is_a_field():
    selector = read(
        NodeSelector,
        {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [{"key": "x", "operator": "Exists"}],
                    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}],
                }
            ]
        },
    )
    (term,) = unmet_terms(selector, {"x": "1"}, "a", ALL_FEATURES)
    assert [(unmet.field, unmet.index, unmet.found) for unmet in term.unmet] == [("matchFields", 0, "a")]
    (term,) = unmet_terms(selector, {}, "a", ALL_FEATURES)
    assert [unmet.field for unmet in term.unmet] == ["matchExpressions", "matchFields"]


@pytest.mark.parametrize(
    "old, new, woken",
    [
        (None, {"x": "1"}, True),
        (None, {"x": "2"}, False),
        ({"x": "2"}, {"x": "1"}, True),
        ({"x": "1"}, {"x": "1", "y": "1"}, False),  # it was selected before
        ({"x": "1"}, {"x": "2"}, False),
        ({"x": "2"}, {"x": "3"}, False),
    ],
)
def test_a_node_wakes_a_pod_that_now_selects_it_and_did_not_before(old, new, woken):
    events = node_events(None if old is None else labelled(**old), labelled(**new))
    assert any(hints_of().helps("NodeAffinity", asking_for("In", "1"), event) for event in events) is woken


def preferring(*terms):
    listed = [
        {
            "weight": weight,
            "preference": {"matchExpressions": [{"key": "x", "operator": operator, "values": values}]},
        }
        for weight, operator, values in terms
    ]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": listed}}
    return read(Pod, {"metadata": {"name": "p"}, "spec": {"containers": [], "affinity": affinity}})


def test_preferences_that_cannot_be_read_are_named_by_their_terms():
    found = unreadable_preference(
        preferring((5, "In", ["a"]), (5, "Gt", ["a"]), (5, "Lt", ["1"]), (5, "Lt", ["b"]))
    )
    assert found.terms == (1, 3)
    assert [requirement.values for requirement in found.requirements] == [("a",), ("b",)]
    assert unreadable_preference(preferring((5, "In", ["a"]), (5, "Lt", ["1"]))) is None
    assert unreadable_preference(preferring((0, "Gt", ["a"]))) is None


def requirement(operator, *values):
    return read(NodeSelectorRequirement, {"key": "x", "operator": operator, "values": list(values)})


REQUIREMENTS = [
    requirement("In", "1", "3"),
    requirement("NotIn", "1"),
    requirement("Exists"),
    requirement("DoesNotExist"),
    requirement("Gt", "3"),
    requirement("Lt", "3"),
]


@pytest.mark.parametrize("seed", range(3))
def test_a_column_of_labels_is_judged_as_each_node_by_itself_whatever_it_forgot(seed, monkeypatch):
    monkeypatch.setattr("weir.scheduler.node_columns.LEAST_INTERNED", 4)
    chance, table = random.Random(seed), NodeTable()
    judge = LabelJudge(table, ALL_FEATURES)
    for _ in range(60):
        labels = {"x": str(chance.randrange(9))} if chance.random() < 0.8 else {}
        table.put_node(labelled(chance.choice("abc"), **labels))
        rows = [row for row, node in enumerate(table.nodes) if node is not None]
        for asked in REQUIREMENTS:
            plain = [bool(match_requirement(asked, table.nodes[row].labels, ALL_FEATURES)) for row in rows]
            assert judge._requirement(asked, rows).tolist() == plain
    assert table.label("x").generation > 0


def test_each_distinct_value_is_judged_once(monkeypatch):
    judged = []

    def counted(asked, labels, gates):
        judged.append(labels)
        return match_requirement(asked, labels, gates)

    monkeypatch.setattr(node_affinity, "match_requirement", counted)
    monkeypatch.setattr(node_affinity, "_MOST_ANSWERS", 2)
    table = NodeTable()
    for number, name in enumerate("abcd"):
        table.put_node(labelled(name, x=str(number % 2)))
    judge = LabelJudge(table, ALL_FEATURES)
    above, below, there = requirement("Gt", "0"), requirement("Lt", "1"), requirement("Exists")
    for asked in (above, below, above, below):
        judge._requirement(asked, slice(0, 4))
    assert judged == [{}, {"x": "0"}, {"x": "1"}] * 2  # nodes without the label are one more case
    judge._requirement(there, slice(0, 4))
    assert len(judged) == 9 and len(judge._answers) == 1, "a third pushes both out"


def versioned(**labels):
    made = Engine(ALL_FEATURES)
    for name, version in labels.items():
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "9"}
        metadata = {"name": name, "labels": {"kernel": version}}
        made.table.put_node(read(Node, {"metadata": metadata, "status": {"allocatable": amounts}}))
    return made


NEWER = {"matchExpressions": [{"key": "kernel", "operator": "SemverGt", "values": ["5.10.0"]}]}


@pytest.mark.proves("5721-41")
def test_a_label_that_is_no_version_meets_no_required_comparison():
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [NEWER]}}
    }
    asking = read(Pod, {"metadata": {"name": "p"}, "spec": {"containers": [], "affinity": affinity}})
    assert sorted(versioned(odd="x-y", old="5.4.0", new="6.1.0").statuses(asking)) == ["odd", "old"]


@pytest.mark.proves("5721-42", "5721-57")
def test_a_preferred_comparison_adds_its_weight_where_it_holds_and_nothing_elsewhere():
    preferred = [{"weight": 7, "preference": NEWER}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    asking = read(Pod, {"metadata": {"name": "p"}, "spec": {"containers": [], "affinity": affinity}})
    scores = versioned(odd="x-y", old="5.4.0", new="6.1.0").scores(asking)
    assert scores["odd"] == scores["old"] < scores["new"]
