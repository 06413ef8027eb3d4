"""Claims about weir.observe.metrics: what is printed is what prometheus-client's parser reads back."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from weir.observe.metrics import FOLD_AT, Registry, add_process_metrics, render_together

BUCKETS = (0.1, 1, 10)


def read(registry):
    """Return {(sample name, labels): value} as the oracle reads it."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(registry.render().decode())
        for sample in family.samples
    }


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), st.integers(0, 10**12))
def test_any_label_value_survives(label, count):
    registry = Registry()
    registry.counter("a_total", 'Help with \\ and "quotes"\nand lines.', ["l"]).child(label).inc(count)
    assert read(registry) == {("a_total", (("l", label),)): count}


@given(st.lists(st.floats(0, 100, allow_nan=False), max_size=50))
def test_a_histogram_counts_what_lies_at_or_below_each_bound(values):
    registry = Registry()
    child = registry.histogram("h", "H.", buckets=BUCKETS).child()
    for value in values:
        child.observe(value)
    samples = read(registry)
    for bound, text in [*((b, str(float(b)) if b == 0.1 else str(b)) for b in BUCKETS), (math.inf, "+Inf")]:
        assert samples["h_bucket", (("le", text),)] == sum(value <= bound for value in values)
    assert samples["h_count", ()] == len(values)
    assert samples["h_sum", ()] == pytest.approx(math.fsum(values))


def test_nothing_is_lost_when_observations_are_folded():
    child = Registry().histogram("h", "H.", buckets=BUCKETS).child()
    for _ in range(3 * FOLD_AT + 1):
        child.observe(0.5)
    assert (child.count, list(child.cumulative())[1]) == (3 * FOLD_AT + 1, (1, 3 * FOLD_AT + 1))


def test_a_gauge_goes_both_ways_or_is_looked_up():
    registry = Registry()
    family = registry.gauge("g", "G.", ["l"])
    family.child("a").inc(3)
    family.child("a").dec()
    family.child("b").look = lambda: 7.5
    assert read(registry) == {("g", (("l", "a"),)): 2, ("g", (("l", "b"),)): 7.5}


def test_the_same_labels_are_the_same_child():
    family = Registry().counter("a_total", "A.", ["x", "y"])
    assert family.child("1", "2") is family.child("1", "2")


def test_a_wrong_number_of_labels_is_an_error():
    with pytest.raises(ValueError, match="has labels x"):
        Registry().counter("a_total", "A.", ["x"]).child()


def test_a_metric_is_declared_once():
    registry = Registry()
    registry.counter("a_total", "A.")
    with pytest.raises(ValueError, match="declared twice"):
        registry.gauge("a_total", "A.")


def test_buckets_must_rise():
    with pytest.raises(ValueError, match="must rise"):
        Registry().histogram("h", "H.", buckets=(2, 1))


def test_the_process_tells_about_itself():
    registry = Registry()
    add_process_metrics(registry)
    samples = read(registry)
    assert samples["process_cpu_seconds_total", ()] > 0
    assert samples["process_resident_memory_bytes", ()] > 1_000_000
    assert samples["process_open_fds", ()] >= 3


def test_several_components_share_one_page_that_prometheus_reads():
    scheduler, kubelet = Registry(), Registry()
    for registry in (scheduler, kubelet):
        add_process_metrics(registry)
        registry.counter("hits_total", "How often.", ["code"]).child("200").inc()
        registry.histogram("took_seconds", "How long.", buckets=(1, 2)).child().observe(1.5)
    kubelet.gauge("own", "Has a label of this name.", ["component"]).child("apiserver").set(3)
    page = render_together({"scheduler": scheduler, "kubelet": kubelet}).decode()
    found = {family.name: family for family in text_string_to_metric_families(page)}
    assert {s.labels["component"]: s.value for s in found["hits"].samples} == {"scheduler": 1, "kubelet": 1}
    assert [s.labels for s in found["own"].samples] == [{"component": "apiserver"}]
    assert len(found["process_start_time_seconds"].samples) == 1
    assert {s.labels["component"] for s in found["took_seconds"].samples} == {"scheduler", "kubelet"}
