"""Node selectors: requirements by vector, terms by their laws, volumes by labels alone."""

from pathlib import Path

import pytest
import yaml

from weir.gates import ALL_FEATURES, SEMVER_COMPARISON
from weir.objects.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, read
from weir.objects.volumes import PersistentVolume
from weir.selectors.node import (
    Match,
    match_field,
    match_requirement,
    pod_selects_node,
    selects,
    volume_selects_node,
)

VECTORS = yaml.safe_load((Path(__file__).parents[2] / "vectors" / "node_affinity.yaml").read_text())
TIER = NodeSelectorRequirement("tier", "In", ("gpu",))
FIELD = NodeSelectorRequirement("metadata.name", "In", ("n1",))


@pytest.mark.proves(
    "5471-17",
    "5721-3",
    "5721-8",
    "5721-11",
    "5721-22",
    "5721-27",
    "5721-54",
    "5721-60",
    "5721-80",
    "5721-89",
    "1.35-22",
)
@pytest.mark.parametrize(
    "vector", VECTORS, ids=lambda v: f"{v['operator']}-{v.get('values')}-{v.get('label')}"
)
def test_a_requirement_is_met_or_not_for_the_reason_given(vector):
    requirement = NodeSelectorRequirement("k", vector["operator"], tuple(vector.get("values", ())))
    labels = {"k": vector["label"]} if "label" in vector else {}
    gates = ALL_FEATURES.replace({SEMVER_COMPARISON: vector.get("gate", True)})
    assert match_requirement(requirement, labels, gates) is Match[vector["match"]]


def matches(*terms):
    return selects(NodeSelector(terms), {"tier": "gpu"}, "n1", ALL_FEATURES)


@pytest.mark.proves("5721-89")
def test_terms_are_ored():
    assert matches(NodeSelectorTerm((NodeSelectorRequirement("no", "Exists"),)), NodeSelectorTerm((TIER,)))


@pytest.mark.proves("5721-89")
def test_requirements_of_a_term_are_anded():
    assert not matches(NodeSelectorTerm((TIER, NodeSelectorRequirement("no", "Exists"))))


def test_expressions_and_fields_are_anded():
    elsewhere = NodeSelectorRequirement("metadata.name", "In", ("n2",))
    assert matches(NodeSelectorTerm((TIER,), (FIELD,))) and not matches(
        NodeSelectorTerm((TIER,), (elsewhere,))
    )


@pytest.mark.proves("5721-89")
def test_an_empty_term_and_an_empty_selector_match_nothing():
    assert not matches(NodeSelectorTerm()) and not matches()


@pytest.mark.parametrize("operator", ["Exists", "Gt", "SemverGt", "SemverEq"])
def test_fields_take_only_in_and_not_in(operator):
    assert match_field(NodeSelectorRequirement("metadata.name", operator, ("n1",)), "n1") is Match.UNREADABLE


def test_node_selector_and_affinity_must_both_accept():
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}]}}}  # fmt: skip
    pod = read(Pod, {"spec": {"nodeSelector": {"zone": "a"}, "affinity": affinity, "containers": []}})
    verdicts = [
        pod_selects_node(pod, labels, "n", ALL_FEATURES)
        for labels in ({"zone": "a", "tier": ""}, {"zone": "a"}, {"zone": "b", "tier": ""})
    ]
    assert verdicts == [True, False, False]


class TestVolumes:
    """A volume is judged by the node's labels alone."""

    def volume(self, *terms):
        required = {"required": {"nodeSelectorTerms": list(terms)}}
        return read(PersistentVolume, {"metadata": {"name": "pv"}, "spec": {"nodeAffinity": required}})

    def test_a_volume_without_affinity_fits_everywhere(self):
        assert volume_selects_node(read(PersistentVolume, {"metadata": {"name": "pv"}}), {}, ALL_FEATURES)

    def test_semver_operators_work_for_volumes(self):
        kernel = {"matchExpressions": [{"key": "kernel", "operator": "SemverGt", "values": ["5.10.0"]}]}
        volume = self.volume(kernel)
        assert [
            bool(volume_selects_node(volume, {"kernel": version}, ALL_FEATURES))
            for version in ("5.10.0", "5.15.0")
        ] == [False, True]

    def test_a_term_with_only_fields_matches_every_node(self):
        fields = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["other"]}]}
        assert volume_selects_node(self.volume(fields), {}, ALL_FEATURES)


@pytest.mark.parametrize(
    ("operator", "values", "match"),
    [
        ("In", ("n1",), Match.MATCHES),
        ("In", ("n2",), Match.OTHER_VALUE),
        ("NotIn", ("n1",), Match.EXCLUDED_VALUE),
        ("NotIn", ("n2",), Match.MATCHES),
        ("NotIn", ("n1", "n2"), Match.UNREADABLE),
        ("NotIn", (), Match.UNREADABLE),
    ],
)
def test_a_field_compares_the_name_of_the_node(operator, values, match):
    assert match_field(NodeSelectorRequirement("metadata.name", operator, values), "n1") is match


def test_another_field_than_the_name_is_none():
    assert match_field(NodeSelectorRequirement("spec.name", "In", ("n1",)), "n1") is Match.UNREADABLE


def test_a_node_that_a_term_excludes_by_name_is_not_selected():
    but_n1 = NodeSelectorRequirement("metadata.name", "NotIn", ("n1",))
    but_n2 = NodeSelectorRequirement("metadata.name", "NotIn", ("n2",))
    assert not matches(NodeSelectorTerm((), (but_n1,))) and matches(NodeSelectorTerm((), (but_n2,)))


@pytest.mark.parametrize("key", ["/x", "example.com/", "Example.com/x", "a/b/c", "-x"])
def test_a_key_that_is_no_label_key_is_unreadable(key):
    for operator, values in (("Exists", ()), ("In", ("a",)), ("SemverGt", ("1.0.0",))):
        asked = NodeSelectorRequirement(key, operator, values)
        assert match_requirement(asked, {key: "a"}, ALL_FEATURES) is Match.UNREADABLE
