"""The order of nodes: zones take turns, a zone is named by region and zone labels, the older ones first."""

import pytest

from weir.objects.core import Node, read
from weir.scheduler.node_table import NodeTable
from weir.scheduler.node_tree import rows_in_order, zone_key

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = (
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)


def node(name, zone="", **labels):
    return read(Node, {"metadata": {"name": name, "labels": {**({ZONE: zone} if zone else {}), **labels}}})


def order(*nodes):
    return "".join(nodes[row].name for row in rows_in_order(range(len(nodes)), nodes))


@pytest.mark.parametrize(
    ("zones", "expected"),
    [
        ("", ""),
        ("1", "a"),
        ("111", "abc"),
        ("1122", "acbd"),
        ("1112", "adbc"),
        ("12233311", "abdgcehf"),
        ("2121", "abcd"),
        ("1  2", "abdc"),  # nodes without labels are a zone together
    ],
)
def test_zones_take_turns_in_the_order_they_came(zones, expected):
    assert order(*(node("abcdefgh"[i], zone.strip()) for i, zone in enumerate(zones))) == expected


def test_a_zone_is_known_by_its_region_too():
    east, west = (node("n", "z1", **{REGION: region}) for region in ("east", "west"))
    assert len({zone_key(each) for each in (east, west, node("n", "z1"), node("n"))}) == 4
    assert zone_key(node("n")) == ""
    assert zone_key(node("n", **{REGION: "z1"})) != zone_key(node("n", "z1"))


@pytest.mark.parametrize(("beta", "label"), [(BETA_ZONE, ZONE), (BETA_REGION, REGION)])
def test_the_older_label_counts_where_both_are_there(beta, label):
    both = node("n", **{beta: "old", label: "new"})
    assert zone_key(both) == zone_key(node("n", **{beta: "old"})) == zone_key(node("n", **{label: "old"}))


def test_a_table_orders_its_rows_anew_when_nodes_come_go_or_change_zones():
    table = NodeTable()

    def names():
        assert [table.rank[row] for row in table.ordered] == list(range(len(table)))
        return "".join(table.nodes[row].name for row in table.ordered)

    for each in (node("a", "1"), node("b", "1"), node("c", "2")):
        table.put_node(each)
    assert names() == "acb"
    table.put_node(node("b", "3"))
    assert names() == "abc"
    table.remove_node("a")
    table.put_node(node("d", "3"))  # in the row that became free
    assert names() == "bcd"
