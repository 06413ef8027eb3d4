"""Counts of pods by selector and by term live as long as something reads them or some pod carries them."""

import numpy as np
from msgspec import structs

from weir.gates import ALL_FEATURES
from weir.objects.core import Node, Pod, read
from weir.scheduler import pod_counts
from weir.scheduler.cycle import Engine, Placement
from weir.scheduler.pod_counts import Term

ZONE = "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def engine():
    made = Engine(ALL_FEATURES)
    room = {"cpu": "9", "memory": "9Gi", "pods": "500"}
    for zone in "ab":
        metadata = {"name": zone, "labels": {ZONE: zone}}
        made.table.put_node(read(Node, {"metadata": metadata, "status": {"allocatable": room}}))
    return made


def pod(app, kind="podAntiAffinity"):
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}}
    metadata = {"name": "p", "namespace": "x", "labels": {"app": app}}
    return read(Pod, {"metadata": metadata, "spec": {"affinity": {kind: {REQUIRED: [term]}}}})


def test_terms_of_pods_long_gone_are_forgotten(monkeypatch):
    monkeypatch.setattr(pod_counts, "_LEAST_KEPT", 8)
    monkeypatch.setattr("weir.scheduler.cycle._FEASIBILITY_BYTES", 0)
    monkeypatch.setattr("weir.scheduler.cycle._LEAST_CLASSES", 8)
    found = engine()
    found.pod_counts._most_carries = 8
    for number in range(300):
        one, other = pod(f"app-{number}"), pod(f"app-{number}")
        first = found.place(one)
        assert isinstance(first, Placement)
        found.assume("first", one, first.node)
        second = found.place(other)
        assert isinstance(second, Placement) and second.node != first.node
        found.assume("second", other, second.node)
        assert not isinstance(found.place(pod(f"app-{number}")), Placement)
        found.forget("first")
        found.forget("second")
    counts = found.pod_counts
    assert max(len(counts.carried), len(counts._carries), len(counts._selectors)) <= 32
    assert max(len(counts._about), len(counts._matching)) <= 32


def test_a_term_that_a_pod_still_carries_is_kept(monkeypatch):
    monkeypatch.setattr(pod_counts, "_LEAST_KEPT", 2)
    found = engine()
    found.pod_counts._most_carries = 2
    found.assume("kept", pod("kept"), "a")
    for number in range(50):
        found.assume("passing", pod(f"app-{number}"), "b")
        found.forget("passing")
    answer = found.place(read(Pod, {"metadata": {"name": "q", "namespace": "x", "labels": {"app": "kept"}}}))
    assert isinstance(answer, Placement) and answer.node == "b"


def test_sums_over_some_rows_follow_the_pods_that_come_and_go():
    found = engine()
    table = found.table
    room = {"cpu": "9", "memory": "9Gi", "pods": "500"}
    other = {"metadata": {"name": "c", "labels": {ZONE: "b"}}, "status": {"allocatable": room}}
    table.put_node(read(Node, other))
    count = found.pod_counts.selected("all", lambda _: True)
    among = np.array([name != "c" for name in table.row_of])
    numbers = table.label(ZONE).numbers
    for some, key in ((None, "b"), (among, "b")):
        assert count.by_label(ZONE, table, some)[numbers[key]] == 0
    for name in ("c", "c", "b"):
        found.assume(f"{name}-{count.total}", pod("x"), name)
    assert count.by_label(ZONE, table)[numbers["b"]] == 3
    assert count.by_label(ZONE, table, among)[numbers["b"]] == 1
    found.forget("b-2")
    assert count.by_label(ZONE, table)[numbers["b"]] == 2
    assert count.by_label(ZONE, table, among)[numbers["b"]] == 0


def test_terms_are_asked_about_pods_of_their_own_namespaces_only(monkeypatch):
    found, asked = engine(), []
    for number in range(50):
        elsewhere = pod(f"app-{number}")
        metadata = structs.replace(elsewhere.metadata, namespace=f"team-{number}")
        found.assume(f"p{number}", structs.replace(elsewhere, metadata=metadata), "a")
    selects = Term.selects
    monkeypatch.setattr(Term, "selects", lambda term, other: asked.append(term) or selects(term, other))
    metadata = {"name": "q", "namespace": "team-7", "labels": {"app": "app-7"}}
    answer = found.place(read(Pod, {"metadata": metadata}))
    assert isinstance(answer, Placement) and answer.node == "b"
    assert {term.namespaces for term in asked} == {frozenset({"team-7"})}
