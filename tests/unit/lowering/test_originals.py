"""Raising gives back what was written, in the spelling it was written in, and leaves what is nobody's alone."""

from __future__ import annotations

import json

from weir.lowering.names import GATE, TOLERATIONS, label_key, marker_key, toleration_hash
from weir.lowering.originals import (
    evaluated,
    extended_entries,
    is_lowered,
    raised,
    with_expression,
    with_expressions,
)

GT = {"key": "sla", "operator": "Gt", "value": "900", "effect": "NoExecute", "tolerationSeconds": 30}
MARKER = {"key": marker_key(toleration_hash(GT)), "operator": "Exists"}
VALUE = {"key": "sla", "operator": "Equal", "value": "950", "effect": "NoExecute", "tolerationSeconds": 30}


def pod(*tolerations, originals=(GT,), **spec):
    annotation = json.dumps({toleration_hash(each): each for each in originals})
    return {
        "kind": "Pod",
        "metadata": {"name": "web", "annotations": {TOLERATIONS: annotation}},
        "spec": {"tolerations": list(tolerations), **spec},
    }


def test_marker_and_values_become_the_original():
    found = raised(pod(MARKER, VALUE, {"key": "other", "operator": "Exists"}))
    assert found["spec"]["tolerations"] == [GT, {"key": "other", "operator": "Exists"}]
    assert found["metadata"] == {"name": "web"}


def test_an_entry_that_lowering_would_not_write_stays():
    other_seconds = {**VALUE, "tolerationSeconds": 31}
    too_low = {**VALUE, "value": "800"}
    found = raised(pod(MARKER, VALUE, other_seconds, too_low, VALUE))
    assert found["spec"]["tolerations"] == [GT, other_seconds, too_low, VALUE]


def test_without_its_original_a_marker_stays_with_all_it_has():
    lost = {**pod(MARKER, VALUE), "metadata": {"name": "web"}}
    assert raised(lost) is lost and not is_lowered(lost)
    edited = pod(MARKER, VALUE)
    edited["metadata"]["annotations"][TOLERATIONS] = json.dumps({toleration_hash(GT): {**GT, "value": "1"}})
    assert raised(edited)["spec"]["tolerations"] == [MARKER, VALUE]
    assert TOLERATIONS in raised(edited)["metadata"]["annotations"]


def test_the_gate_is_kept_only_where_it_is_asked_for():
    held = pod(MARKER, schedulingGates=[{"name": "mine"}, {"name": GATE}])
    assert raised(held)["spec"]["schedulingGates"] == [{"name": "mine"}]
    assert raised(held, keep_gate=True)["spec"]["schedulingGates"] == [{"name": "mine"}, {"name": GATE}]


def test_objects_of_lists_are_raised_with_and_without_their_kind():
    typed = {
        "kind": "PodList",
        "items": [{key: value for key, value in pod(MARKER).items() if key != "kind"}],
    }
    assert raised(typed)["items"][0]["spec"]["tolerations"] == [GT]
    assert "kind" not in raised(typed)["items"][0]
    assert raised({"kind": "List", "items": [pod(MARKER)]})["items"][0]["spec"]["tolerations"] == [GT]


def test_synthetic_labels_are_no_labels_of_the_node():
    node = {"kind": "Node", "metadata": {"name": "n", "labels": {label_key("1f"): "true"}}}
    assert raised(node) == {"kind": "Node", "metadata": {"name": "n"}}
    plain = {"kind": "Node", "metadata": {"name": "n", "labels": {"zone": "a"}}}
    assert raised(plain) is plain


def test_the_stock_spelling_reads_as_an_expression():
    entry = {"operator": "CEL", "value": "taint.key == 'a'"}
    assert with_expression(entry) == {"expression": "taint.key == 'a'"}
    assert with_expression({"operator": "CEL", "value": ""}) == {"operator": "CEL", "value": ""}, (
        "not all taints"
    )
    mixed = {"key": "a", "operator": "CEL", "value": "true"}
    assert with_expression(mixed) == {"expression": "true", "key": "a"}, "which validation refuses as mixed"
    job = {"kind": "Job", "spec": {"template": {"spec": {"tolerations": [GT, entry]}}}}
    assert with_expressions(job)["spec"]["template"]["spec"]["tolerations"] == [
        GT,
        {"expression": "taint.key == 'a'"},
    ]
    assert with_expressions(pod(GT)) is not None and with_expressions("x") == "x"


def test_the_template_of_a_revision_is_read_as_its_workloads():
    entry = {"operator": "CEL", "value": "taint.key == 'a'"}
    lowered = pod({"key": marker_key(toleration_hash(entry)), "operator": "Exists"}, originals=[entry])
    template = {"metadata": lowered["metadata"], "spec": lowered["spec"], "$patch": "replace"}
    revision = {"kind": "ControllerRevision", "data": {"spec": {"template": template}}, "revision": 1}
    read = {
        "metadata": {"name": "web"},
        "spec": {"tolerations": [with_expression(entry)]},
        "$patch": "replace",
    }
    expected = {**revision, "data": {"spec": {"template": read}}}
    assert evaluated(revision) == expected
    assert evaluated({"kind": "List", "items": [revision, 5]}) == {"kind": "List", "items": [expected, 5]}


def test_extended_entries_are_those_that_a_stock_cluster_does_not_know():
    entries = [GT, {"expression": "true"}, {"operator": "CEL", "value": "true"}, VALUE]
    assert list(extended_entries({"kind": "Pod", "spec": {"tolerations": entries}})) == entries[:3]
    assert list(extended_entries({"kind": "Pod", "spec": 5})) == []
