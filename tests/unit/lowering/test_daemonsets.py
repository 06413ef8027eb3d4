"""DaemonSets: a template their controller can judge by, and the label that says which nodes."""

from __future__ import annotations

import pytest

from weir.lowering.daemonsets import daemonset_label, lower_daemonset, may_run, original_tolerations
from weir.lowering.names import marker_key, toleration_hash
from weir.lowering.triples import Triple

GT = {"key": "sla", "operator": "Gt", "value": "900", "effect": "NoExecute"}
OWN = {"key": "other", "operator": "Exists"}
TEMPLATE = {"spec": {"tolerations": [GT, OWN], "nodeSelector": {"zone": "a"}}}


def lowered(template=TEMPLATE, name="d"):
    return lower_daemonset(template, "default", name)


def test_exists_stands_behind_the_marker_and_a_label_selects_the_nodes():
    spec = lowered()["spec"]
    assert spec["tolerations"] == [
        {"key": marker_key(toleration_hash(GT)), "operator": "Exists"},
        {"operator": "Exists", "key": "sla", "effect": "NoExecute"},
        OWN,
    ]
    label = daemonset_label(lowered())
    assert spec["nodeSelector"] == {"zone": "a", label: "true"}
    assert daemonset_label(lowered(name="e")) != label


def test_the_original_comes_back_and_lowering_again_changes_nothing():
    assert original_tolerations(lowered()) == [GT, OWN]
    assert lowered(lowered()) == lowered()
    reapplied = {**lowered(), "spec": {**lowered()["spec"], "tolerations": [GT, OWN]}}
    assert lowered(reapplied) == lowered()


def test_a_toleration_that_is_gone_takes_entry_label_and_annotation_along():
    edited = {**lowered(), "spec": {**lowered()["spec"], "tolerations": [OWN]}}
    assert lowered(edited) == {"metadata": {}, "spec": {"tolerations": [OWN], "nodeSelector": {"zone": "a"}}}


def test_an_expression_with_seconds_still_tolerates_the_other_effects():
    cel = {"operator": "CEL", "value": "true", "tolerationSeconds": 5}
    template = lowered({"spec": {"tolerations": [cel]}})
    assert template["spec"]["tolerations"][1:] == [
        {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
        {"operator": "Exists", "effect": "NoSchedule"},
        {"operator": "Exists", "effect": "PreferNoSchedule"},
    ]
    assert original_tolerations(template) == [cel]
    assert lowered(template) == template


@pytest.mark.parametrize(
    "triple, runs, expected",
    [
        (Triple("sla", "950", "NoExecute"), False, True),
        (Triple("sla", "800", "NoExecute"), True, False),
        (Triple("x", "", "NoSchedule"), False, False),
        (Triple("x", "", "NoSchedule"), True, True),
        (Triple("x", "", "PreferNoSchedule"), False, True),
        (Triple("node.kubernetes.io/unreachable", "", "NoExecute"), False, True),
    ],
)
def test_the_label_follows_the_taints_and_a_running_pod_outlives_no_schedule(triple, runs, expected):
    assert may_run([GT, OWN], [triple], runs) is expected
