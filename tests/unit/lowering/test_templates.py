"""Templates get markers, never values, and the same ones each time."""

from __future__ import annotations

from weir.lowering.names import TOLERATIONS, marker_key, toleration_hash
from weir.lowering.templates import mark_template, template_of, template_problems, with_template

GT = {"key": "sla", "operator": "Gt", "value": "900"}


def test_marking_twice_changes_nothing_more():
    template = {
        "metadata": {"labels": {"a": "b"}, "annotations": {"mine": "1"}},
        "spec": {"tolerations": [GT]},
    }
    once = mark_template(template)
    assert once["spec"]["tolerations"] == [{"key": marker_key(toleration_hash(GT)), "operator": "Exists"}]
    assert set(once["metadata"]["annotations"]) == {"mine", TOLERATIONS}
    assert mark_template(once) == once
    # what a client-side apply makes of both: the user's list, the live annotations
    assert mark_template({**once, "spec": template["spec"]}) == once


def test_an_original_that_is_gone_takes_its_annotation_along():
    once = mark_template({"spec": {"tolerations": [GT]}})
    assert mark_template({**once, "spec": {"tolerations": []}})["metadata"] == {}


def test_a_plain_template_is_left_as_it_is():
    plain = {"metadata": {"labels": {}}, "spec": {"containers": []}}
    assert mark_template(plain) == plain


def test_templates_are_found_where_each_kind_has_them():
    cron = {"spec": {"schedule": "x", "jobTemplate": {"spec": {"template": {"spec": {}}}}}}
    changed = with_template(cron, "CronJob", {"spec": {"new": 1}})
    assert template_of(changed, "CronJob") == {"spec": {"new": 1}} and changed["spec"]["schedule"] == "x"
    assert template_of({"spec": {}}, "Deployment") == {}


def test_problems_name_the_place_in_the_workload():
    bad = {"spec": {"tolerations": [{**GT, "value": "x"}]}}
    assert template_problems(bad, "spec.template.")[0].startswith("spec.template.spec.tolerations[0].value:")
