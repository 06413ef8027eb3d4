"""The table of taints that all replicas share."""

from __future__ import annotations

from weir.lowering.triples import WELL_KNOWN, Triple
from weir.operator.holds import HOLD_SECONDS
from weir.operator.known_triples import KnownTriples
from weir.simulation.cluster import Cluster

A, B = Triple("sla", "950", "NoExecute"), Triple("sla", "960", "NoExecute")


def test_what_one_replica_adds_another_reads_and_old_triples_are_forgotten():
    with Cluster() as cluster:
        one, other = (KnownTriples(cluster.client, cluster.clock, "default") for _ in range(2))
        learned = []
        other.listeners.append(learned.append)
        cluster._do(one.add([A, WELL_KNOWN[0]]))
        assert set(one.known) == {A, *WELL_KNOWN}, "Kubernetes' own need no place in the table"
        assert A not in other.known
        cluster._do(other.add([B]))
        assert set(other.known) == {A, B, *WELL_KNOWN} and learned == [{A, B}]
        cluster._do(one.read())
        assert set(one.known) == set(other.known)

        before = cluster.get("ConfigMap", "weir-triples")["metadata"]["resourceVersion"]
        cluster._do(one.add([A]))
        assert cluster.get("ConfigMap", "weir-triples")["metadata"]["resourceVersion"] == before, (
            "still fresh"
        )
        cluster.advance(HOLD_SECONDS + 1)
        cluster._do(other.add([B]))
        assert cluster._do(one.forget(set())) == (), "its copy is older than the table"
        cluster._do(one.read())
        assert cluster._do(one.forget({A})) == (), "a node has it"
        assert cluster._do(one.forget(set())) == (A,)
        cluster._do(other.read())
        assert set(other.known) == {B, *WELL_KNOWN}


def test_a_table_that_is_not_there_is_made_and_an_overtaken_answer_is_not_taken():
    with Cluster() as cluster:
        table = KnownTriples(cluster.client, cluster.clock, "default")
        cluster._do(table.read())
        assert table.known == WELL_KNOWN
        cluster._do(table.add([A]))
        old = cluster.get("ConfigMap", "weir-triples")
        cluster._do(table.add([B]))
        table._take(old)
        assert B in table.known
