"""The table of taints that all replicas share."""

from __future__ import annotations

import asyncio
import random

import pytest

from weir import errors
from weir.lowering.names import PARTS, part_name
from weir.lowering.triples import MOST_PARTS, WELL_KNOWN, Triple, row_bytes, table_data
from weir.operator import known_triples
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


@pytest.fixture
def small(monkeypatch):
    """Make a part of the table hold ten rows."""
    monkeypatch.setattr(known_triples, "MOST_ROWS", 10)


def rows(cluster, number):
    return len((cluster.get("ConfigMap", part_name(number)) or {}).get("data") or {})


def test_a_table_that_is_full_goes_on_in_another_part_that_every_replica_reads(small):
    with Cluster() as cluster:
        one, other = (KnownTriples(cluster.client, cluster.clock, "default") for _ in range(2))
        many = [Triple("sla", str(number), "NoExecute") for number in range(35)]
        cluster._do(one.add(many[:8]))
        assert PARTS not in (cluster.get("ConfigMap", part_name(0))["metadata"].get("annotations") or {})
        cluster._do(one.add(many[8:]))
        assert [rows(cluster, number) for number in range(5)] == [10, 10, 10, 5, 0]
        assert cluster.get("ConfigMap", part_name(0))["metadata"]["annotations"][PARTS] == "4"
        cluster._do(other.read())
        assert set(other.known) == {*many, *WELL_KNOWN}
        cluster._do(other.add([*many[:3], Triple("sla", "more", "NoExecute")]))
        assert sum(rows(cluster, number) for number in range(5)) == 36, "what is there stays where it is"
        cluster.advance(HOLD_SECONDS + 1)
        cluster._do(one.read())
        assert set(cluster._do(one.forget(set(many[30:])))) == set(many[:30]), "the last is too new"
        assert sum(rows(cluster, number) for number in range(4)) == 6
        cluster._do(other.read())
        assert set(other.known) == {*many[30:], Triple("sla", "more", "NoExecute"), *WELL_KNOWN}


def test_replicas_that_fill_the_table_at_once_announce_every_part(small):
    with Cluster() as cluster:
        replicas = [KnownTriples(cluster.client, cluster.clock, "default") for _ in range(3)]

        async def fill():
            await asyncio.gather(
                *(
                    replica.add([Triple(f"k{number}", str(value), "NoExecute") for value in range(25)])
                    for number, replica in enumerate(replicas)
                )
            )

        cluster._do(fill())
        for replica in replicas:
            cluster._do(replica.read())
        assert len({frozenset(replica.known) for replica in replicas}) == 1
        assert len(replicas[0].known) == 75 + len(WELL_KNOWN)


def test_the_table_has_so_many_parts_and_no_more(small):
    with Cluster() as cluster:
        table = KnownTriples(cluster.client, cluster.clock, "default")
        fits = [Triple("sla", str(number), "NoExecute") for number in range(10 * MOST_PARTS)]
        cluster._do(table.add(fits))
        with pytest.raises(known_triples.NotRecorded, match=f"100 rows in 10 of at most {MOST_PARTS} parts"):
            cluster._do(table.add([A, B]))


def test_a_row_that_could_not_be_written_is_not_known(small, monkeypatch):
    with Cluster() as cluster:
        table = KnownTriples(cluster.client, cluster.clock, "default")
        cluster._do(table.add([A]))

        async def away(*given, **more):
            raise errors.ServiceUnavailable("later")

        with monkeypatch.context() as patched:
            patched.setattr(cluster.client, "patch", away)
            with pytest.raises(errors.ServiceUnavailable):
                cluster._do(table.add([B]))
        cluster._do(table.read())
        assert B not in table.known and A in table.known


def test_rows_that_have_not_changed_are_not_read_again_and_have_no_owners():
    with Cluster() as cluster:
        one, other = (KnownTriples(cluster.client, cluster.clock, "default") for _ in range(2))
        cluster._do(one.add([A]))
        cluster._do(other.read())
        full = []
        find = other._find

        async def counted(number):
            full.append(number)
            return await find(number)

        other._find = counted
        for _ in range(3):
            cluster._do(other.read())
        assert full == []
        cluster._do(one.add([B]))
        cluster._do(other.read())
        assert full == [0] and B in other.known
        stored = cluster.get("ConfigMap", part_name(0))
        assert len(stored["data"]) == 2 and not stored["metadata"].get("managedFields")


def test_what_is_known_is_what_the_parts_say_whatever_comes_and_goes():
    """The table is brought up to date with what has changed; here it is held against all that the parts say."""
    chance = random.Random(31)
    triples = [Triple("sla", str(number), "NoExecute") for number in range(12)]
    with Cluster() as cluster:
        table = KnownTriples(cluster.client, cluster.clock, "default")
        told, parts = set(WELL_KNOWN), [{}, {}, {}]
        table.listeners.append(told.update)
        for version in range(1, 300):
            number = chance.randrange(3)
            stamps = {each: str(chance.randrange(3)) for each in chance.sample(triples, chance.randrange(6))}
            data = {key: row for each in stamps for key, row in table_data([each], stamps[each]).items()}
            table._take({"metadata": {"resourceVersion": str(version)}, "data": data}, number)
            parts[number] = stamps
            said = {each: stamp for part in parts for each, stamp in part.items()}
            assert table._table == said and set(table.known) == {*said, *WELL_KNOWN} <= told
            assert len(table.known) == len(set(table.known)) and table._seen.keys() == said.keys()
            sizes = [sum(map(row_bytes, part)) for part in parts]
            assert [part.size for part in table._parts] == sizes[: len(table._parts)]
