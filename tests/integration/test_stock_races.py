"""What changes between the moment in which the operator looks and the moment in which it writes."""

from __future__ import annotations

import pytest

from tests.stock.virtual import StockCluster
from weir.client.cache import ObjectKey
from weir.lowering.names import GATE, KNOWN_TRIPLES, NAMESPACE, is_synthetic, part_name
from weir.lowering.triples import Triple
from weir.operator import known_triples

GT = {"key": "sla", "operator": "Gt", "value": "900"}
#: What nodes get, each one.
SLA = [Triple("sla", str(910 + number), "NoSchedule") for number in range(6)]


@pytest.fixture
def stock():
    with StockCluster() as cluster:
        yield cluster


def affinity(version):
    requirement = {"key": "kernel", "operator": "SemverGt", "values": [version]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def gates(stock, name):
    return [gate["name"] for gate in stock.get("Pod", name)["spec"].get("schedulingGates") or ()]


def test_a_release_is_not_carried_out_on_a_pod_that_has_taken_the_name(stock, monkeypatch):
    """The table was read for the pod that was seen: a barrier may have written to it before the next one was made."""
    (operator,) = stock.operators

    async def later(pod):
        pass

    with monkeypatch.context() as patched:
        patched.setattr(operator.controller, "release", later)
        stock.run_pod("web-0", GT)
        seen = operator._pods.cache.get(ObjectKey("default", "web-0"))
        stock.delete("Pod", "web-0", "default")
        stock.run_pod("web-0", GT)
        written = stock._do(operator.entries.add(seen, lambda: (), "release", release=True))
        assert gates(stock, "web-0") == [GATE] and written.version == 0
    stock.patch("Pod", "web-0", {"metadata": {"labels": {"a": "b"}}}, "default")
    stock.advance(5)
    assert gates(stock, "web-0") == []


def test_nodes_are_looked_at_once_for_a_label_and_not_for_each_pod(stock, monkeypatch):
    (operator,) = stock.operators
    for number in range(5):
        stock.node(f"n{number}", kernel=f"5.{number}.0")
    looked, labels = [], operator.controller._labels

    async def counted(node):
        looked.append(node["metadata"]["name"])
        return await labels(node)

    stock.run_pod("first", affinity=affinity("5.2.0"))
    monkeypatch.setattr(operator.controller, "_labels", counted)
    for number in range(10):
        stock.run_pod(f"p{number}", affinity=affinity("5.2.0"))
    assert {stock.where(f"p{number}") for number in range(10)} <= {"n3", "n4"}
    assert len(looked) < 10, "each pod has every node looked at"


def test_a_label_that_went_is_there_again_before_the_next_pod_with_it(stock):
    """Nobody kept it while no pod asked for it."""
    stock.node("n1", kernel="5.1.0")
    stock.run_pod("first", affinity=affinity("5.2.0"))
    stock.node("n3", kernel="5.3.0")
    stock.advance(5)
    assert stock.where("first") == "n3"
    stock.delete("Pod", "first", "default")
    stock.advance(5)
    stock.patch("Node", "n1", {"metadata": {"labels": {"kernel": "5.4.0"}}})
    stock.patch("Node", "n3", {"metadata": {"labels": {"kernel": "5.0.0"}}})
    stock.advance(5)
    stock.run_pod("second", affinity=affinity("5.2.0"))
    stock.advance(5)
    assert stock.where("second") == "n1"
    marked = {
        node["metadata"]["name"]
        for node in stock.list("Node")
        if any(map(is_synthetic, node["metadata"]["labels"]))
    }
    assert marked == {"n1"}


class TestALostTable:
    """Somebody deletes the ConfigMap with the taints that pods get entries for."""

    @pytest.fixture(autouse=True)
    def nodes(self, stock):
        for number in range(3):
            stock.node(f"n{number}")
            stock.set_taints(f"n{number}", SLA[number])
        stock.advance(5)

    def stored(self, stock):
        """Return what a replica reads that begins now."""
        table = known_triples.KnownTriples(stock.client, stock.clock, NAMESPACE)
        stock._do(table.read())
        return table.known

    def test_what_nodes_have_is_written_again_when_it_is_read(self, stock, caplog):
        stock.delete("ConfigMap", KNOWN_TRIPLES, NAMESPACE)
        stock.run_pod("p", GT)
        assert stock.where("p") and set(self.stored(stock)) >= set(SLA[:3])
        assert "past the hook" not in caplog.text

    def test_what_nodes_have_is_written_again_when_a_barrier_makes_a_new_one(self, stock, caplog):
        stock.delete("ConfigMap", KNOWN_TRIPLES, NAMESPACE)
        stock.set_taints("n2", ("sla", "950", "NoExecute"))
        stock.advance(1)
        assert set(self.stored(stock)) >= {SLA[0], SLA[1], Triple("sla", "950", "NoExecute")}
        assert "past the hook" not in caplog.text

    def test_the_first_of_several_parts_says_again_how_many_there_are(self, stock, monkeypatch):
        monkeypatch.setattr(known_triples, "MOST_ROWS", 4)
        for number in range(3, 6):
            stock.node(f"n{number}")
            stock.set_taints(f"n{number}", SLA[number])
        stock.advance(5)
        assert stock.get("ConfigMap", part_name(1), NAMESPACE) is not None
        stock.delete("ConfigMap", KNOWN_TRIPLES, NAMESPACE)
        stock.run_pod("p", GT)
        assert set(self.stored(stock)) >= set(SLA)
