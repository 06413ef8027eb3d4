"""Taints as triples: which a write brings, and the shared table of those that are known."""

from __future__ import annotations

from weir.lowering.triples import (
    WELL_KNOWN,
    Triple,
    new_triples,
    read_rows,
    table_data,
    table_key,
    triples_of,
)


def node(*triples):
    return {"spec": {"taints": [dict(zip(("key", "value", "effect"), t, strict=True)) for t in triples]}}


A, B = Triple("sla", "950", "NoExecute"), Triple("sla", "960", "NoExecute")
READY = Triple("node.kubernetes.io/not-ready", "", "NoExecute")


def test_a_write_brings_what_the_old_node_lacks_but_not_kubernetes_own():
    assert new_triples(node(A, B, READY), node(A)) == (B,)
    assert new_triples(node(A), None) == (A,)
    assert new_triples({"spec": {}}, node(A)) == ()
    assert triples_of(None) == ()


def test_kubernetes_own_are_known_from_the_beginning():
    assert READY in WELL_KNOWN and all(triple.conditional for triple in WELL_KNOWN)
    cordon = "node.kubernetes.io/unschedulable"
    assert {triple.effect for triple in WELL_KNOWN if triple.key == cordon} == {"NoSchedule", "NoExecute"}


def test_the_table_gives_back_what_was_written_and_survives_damage():
    data = table_data([A, B], "2026-01-01T00:00:00Z")
    rows = read_rows({"data": {**data, "x": "[", "y": "[1,2,3,4]", "z": "[]"}}, {})
    assert {row.triple: row.used for row in rows.values()} == {
        A: "2026-01-01T00:00:00Z",
        B: "2026-01-01T00:00:00Z",
    }
    assert read_rows(None, rows) == {}


def test_rows_that_stand_there_unchanged_are_not_read_again():
    before = read_rows({"data": table_data([A, B], "2026-01-01T00:00:00Z")}, {})
    data = table_data([A], "2026-01-02T00:00:00Z") | table_data([B], "2026-01-01T00:00:00Z")
    rows = read_rows({"data": data}, before)
    assert rows[table_key(B)] is before[table_key(B)]
    assert rows[table_key(A)].used == "2026-01-02T00:00:00Z"
    forged = {table_key(A): data[table_key(B)]}
    assert read_rows({"data": forged}, before) == {}, "a row under another's key"


def test_a_triple_has_one_key_for_all_operators_and_versions_of_them():
    """Two operators that wrote different keys would keep a triple twice."""
    assert table_key(A) == table_key(Triple(*A)) != table_key(B) and len(table_key(A)) == 20
    (text,) = table_data([Triple("ä", "ö", "NoSchedule")], "now").values()
    assert text == '["ä", "ö", "NoSchedule", "now"]'
