"""A preference that cannot be read breaks the attempt when nodes have to be compared, and only then."""

import pytest

from weir.gates import ALL_FEATURES
from weir.objects.core import Node, NodeAffinity, NodeSelector, Pod, read
from weir.scheduler.cycle import Engine
from weir.scheduler.framework import PluginError
from weir.scheduler.plugins.node_affinity import BoundNodeAffinity, unmet_terms
from weir.scheduler.pod_class import PodClasses
from weir.scheduler.profile_arguments import ProfileArguments
from weir.scheduler.reasons import UnmetProfileAffinity

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
