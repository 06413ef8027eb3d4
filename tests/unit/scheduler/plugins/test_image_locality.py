"""Images count by how widespread they are; their size is what the first node said, as Kubernetes keeps it."""

from weir.objects.core import Node, Pod, read
from weir.scheduler.node_table import NodeTable
from weir.scheduler.plugins.image_locality import ImageLocality
from weir.scheduler.pod_class import build

MIB = 2**20


def node(name, **sizes):
    images = [{"names": [f"{image}:latest"], "sizeBytes": size} for image, size in sizes.items()]
    return read(Node, {"metadata": {"name": name}, "status": {"images": images}})


def scores(table):
    pod = build(
        read(Pod, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "app"}]}})
    )
    return ImageLocality(table).for_class(pod).score.score(slice(0, table.size)).tolist()


def table_of(*nodes):
    table = NodeTable()
    for each in nodes:
        table.put_node(each)
    return table


def test_an_image_on_half_of_the_nodes_counts_half():
    assert scores(table_of(node("a", app=500 * MIB), node("b"))) == [23, 0]


def test_nodes_that_disagree_about_a_size_score_the_same():
    assert scores(table_of(node("a", app=500 * MIB), node("b", app=900 * MIB))) == [48, 48]


def test_an_image_that_left_the_cluster_is_measured_anew():
    table = table_of(node("a", app=100 * MIB), node("b"))
    table.put_node(node("a"))
    table.put_node(node("b", app=500 * MIB))
    assert scores(table) == [0, 23]
