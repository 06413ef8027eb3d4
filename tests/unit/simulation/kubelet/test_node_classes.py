"""What a node of a class is like."""

from __future__ import annotations

import pytest

from weir.simulation.kubelet.node_classes import ClassError, NodeClass, allocatable_of, node_document


@pytest.mark.parametrize("document", [7, {"colour": "red"}, {"labels": 3}, {"life": {"x": 1}}])
def test_a_class_that_is_none_is_refused(document):
    with pytest.raises(ClassError):
        NodeClass.read(document, "x")


def test_nodes_have_addresses_of_their_own():
    documents = [node_document(f"n{number}", NodeClass(), (), {}, "now") for number in range(50)]
    found = {each["status"]["addresses"][0]["address"] for each in documents}
    assert (len(found), documents[0]["status"]["addresses"][1]) == (50, {"type": "Hostname", "address": "n0"})


@pytest.mark.parametrize(
    ("capacity", "given", "wanted"),
    [
        ({"cpu": "8"}, {"cpu": "8"}, {"cpu": "8"}),
        ({"cpu": "8"}, {"cpu": "6"}, {"cpu": "6"}),
        ({"cpu": "8", "x/y": "2"}, {"cpu": "8"}, {"cpu": "8", "x/y": "2"}),
        ({"cpu": "8", "x/y": "2"}, {"cpu": "8", "x/y": "5"}, {"cpu": "8", "x/y": "2"}),
        ({"cpu": "8"}, {"cpu": "8", "x/y": "5"}, {"cpu": "8"}),
        ({}, {"cpu": "8"}, {"cpu": "8"}),
    ],
)
def test_what_can_be_given_follows_from_what_is_there(capacity, given, wanted):
    assert allocatable_of({"capacity": capacity, "allocatable": given}) == wanted
