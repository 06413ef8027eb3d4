"""The table of all pods on all nodes equals the plain loop, on random clusters."""

from hypothesis import given
from hypothesis import strategies as st

from weir.gates import ALL_FEATURES
from weir.objects.core import Taint, Toleration
from weir.taints.many import ToleranceTable
from weir.taints.toleration import BLOCKING, SCORING, untolerated

keys = st.sampled_from(["sla", "gpu", "v"])
values = st.sampled_from(["", "0", "5", "10", "010", "1.2.3", "v2", "high"])
effects = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
operators = st.sampled_from(["", "Equal", "Exists", "Lt", "Gt", "SemverLt", "SemverGt", "SemverEq", "Odd"])
taints = st.builds(Taint, keys, values, effects)
tolerations = st.builds(
    Toleration, st.just("") | keys, operators, values, st.just("") | effects, st.none() | st.just(5)
)


@given(
    nodes=st.lists(st.lists(taints, max_size=4), max_size=8),
    pods=st.lists(st.lists(tolerations, max_size=4), max_size=8),
    considered=st.sampled_from([BLOCKING, SCORING]),
)
def test_the_table_equals_the_plain_loop(nodes, pods, considered):
    table = ToleranceTable(nodes, pods, ALL_FEATURES, considered)
    plain = [[not untolerated(node, pod, ALL_FEATURES, considered) for node in nodes] for pod in pods]
    assert [[table.tolerates(p, n) for n in range(len(nodes))] for p in range(len(pods))] == plain


@given(
    nodes=st.lists(st.lists(taints, max_size=3), min_size=1, max_size=20),
    pods=st.lists(st.lists(tolerations, max_size=3)),
)
def test_the_packed_bits_and_counts_say_the_same(nodes, pods):
    import numpy as np

    table = ToleranceTable(nodes, pods, ALL_FEATURES)
    bits = np.unpackbits(table.packed(), axis=1, count=len(nodes)).astype(bool) if pods else []
    assert all((bits[p] == table.nodes_for(p)).all() for p in range(len(pods)))
    assert [int(row.sum()) for row in bits] == table.counts().tolist()


def test_a_comparison_is_made_once_for_each_distinct_pair():
    nodes = [[Taint("sla", str(n % 4), "NoSchedule")] for n in range(100)]
    pods = [[Toleration("sla", "Gt", str(p % 2))] for p in range(1000)]
    assert ToleranceTable(nodes, pods, ALL_FEATURES).comparisons == 4 * 2
