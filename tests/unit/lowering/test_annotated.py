"""Tolerations in the annotation of pods and templates: read, refused, lowered, and read again by every command."""

from __future__ import annotations

import json

import pytest

from weir.lowering import webhooks
from weir.lowering.admission import Cluster, answer
from weir.lowering.annotated import annotated_tolerations, annotation_problems, with_annotated
from weir.lowering.names import ANNOTATED, GATE, TOLERATIONS, marked_hash
from weir.lowering.originals import evaluated, extended_entries, is_lowered, raised
from weir.lowering.triples import Triple

GT = {"key": "sla", "operator": "Gt", "value": "900"}
OTHER = {"key": "sla", "operator": "Gt", "value": "700"}
EXPRESSION = {"expression": "taint.key == 'zone'", "tolerationSeconds": 30}
PLAIN = {"key": "own", "operator": "Exists"}
CLUSTER = Cluster(known=[Triple("sla", "950", "NoExecute"), Triple("sla", "800", "NoExecute")])


def template(*entries, **spec):
    metadata = {"annotations": {ANNOTATED: json.dumps(entries)}} if entries else {}
    return {"metadata": metadata, "spec": {"containers": [], **spec}}


def pod(*entries, **spec):
    return {"apiVersion": "v1", "kind": "Pod", **template(*entries, **spec)}


def create(document, old=None):
    return answer(webhooks.POD_PATH, {"object": document, "oldObject": old}, CLUSTER).document


def daemonset(found, old=None):
    request = {"kind": {"kind": "DaemonSet"}, "namespace": "default", "object": workload(found)}
    if old is not None:
        request["oldObject"] = workload(old)
    done = answer(webhooks.DAEMONSET_PATH, request, CLUSTER)
    return done.document["spec"]["template"] if done.document else done


def workload(found, kind="DaemonSet"):
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "d"}, "spec": {"template": found}}


@pytest.mark.parametrize(
    "text",
    [
        '- {key: sla, operator: Gt, value: "900"}\n- expression: taint.key == "zone"',
        '[{"key": "sla", "operator": "Gt", "value": "900"}, {"operator": "CEL", "value": "taint.key == \\"zone\\""}]',
    ],
)
def test_it_is_a_list_in_yaml_or_json_with_every_operator(text):
    found = annotated_tolerations({"metadata": {"annotations": {ANNOTATED: text}}})
    assert found == [GT, {"operator": "CEL", "value": 'taint.key == "zone"'}]


@pytest.mark.parametrize(
    "text, problem",
    [
        ("{key: sla}", "must be a list of tolerations"),
        ("- {key: sla, operator: Gt, value: 900}", "must be a list of tolerations"),
        ("- {key: sla, operators: Gt}", "must be a list of tolerations"),
        ('- {key: sla, operator: Gt, value: "9x"}', "[0].value: Invalid value"),
        ("- expression: taint.key", "[0].expression: Invalid value"),
        ("- {key: a, operator: Foo}", "[0].operator: Unsupported value"),
        ("[", "the annotation:1:2"),
        ("- {key: a}\n" * 2000, "Too long"),
        ("[&a {key: a, operator: Exists}" + ", *a" * 900 + "]", "Too many"),
    ],
)
def test_what_is_wrong_with_it_is_said_where_it_is_written_down(text, problem):
    found = {"metadata": {"annotations": {ANNOTATED: text}}}
    assert problem in "; ".join(annotation_problems(found, "spec.template."))
    assert annotated_tolerations(found) == [] and with_annotated({**found, "spec": {}})["spec"] == {}
    refusal = answer(webhooks.POD_PATH, {"object": {**found, "spec": {}}}, CLUSTER)
    assert refusal.code == 422 and f"metadata.annotations[{ANNOTATED}]" in refusal.message


def test_a_pod_is_lowered_as_if_it_were_written_in_its_list_and_raised_to_what_was_applied():
    made = pod(GT, EXPRESSION, PLAIN, tolerations=[{"key": "last", "operator": "Exists"}])
    done = create(made)
    listed = create({**made, "metadata": {}, "spec": evaluated(made)["spec"] | {"tolerations": [
        GT, {"operator": "CEL", "value": EXPRESSION["expression"], "tolerationSeconds": 30}, PLAIN,
        {"key": "last", "operator": "Exists"},
    ]}})  # fmt: skip
    assert done["spec"] == listed["spec"] and done["spec"]["schedulingGates"] == [{"name": GATE}]
    assert done["metadata"]["annotations"][TOLERATIONS] == listed["metadata"]["annotations"][TOLERATIONS]
    assert create(done, done) == done == create(made, done), "asked and applied again"
    assert raised(done) == made and evaluated(done) == evaluated(made)
    assert ANNOTATED not in evaluated(made)["metadata"].get("annotations", {})
    assert evaluated(made)["spec"]["tolerations"] == [
        GT,
        EXPRESSION,
        PLAIN,
        {"key": "last", "operator": "Exists"},
    ]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet", "Job"])
def test_templates_stay_as_they_were_applied(kind):
    made = workload(template(GT), kind)
    request = {"kind": {"kind": kind}, "object": made}
    assert answer(webhooks.TEMPLATE_PATH, request, CLUSTER).document == made
    assert is_lowered(made) and list(extended_entries(made)) == [GT]


def test_a_daemonset_gets_fields_that_no_author_wrote_and_they_follow_its_annotation():
    first = daemonset(template(GT))
    assert [entry["key"] for entry in first["spec"]["tolerations"]][1:] == ["sla"]
    assert len(first["spec"]["nodeSelector"]) == 1
    assert daemonset(first, first) == first, "a write that changes nothing"
    edited = {**first, "metadata": {"annotations": first["metadata"]["annotations"] | template(OTHER, PLAIN)[
        "metadata"]["annotations"]}}  # fmt: skip
    second = daemonset(edited, first)
    assert second["spec"]["nodeSelector"] == first["spec"]["nodeSelector"], "the label stays"
    assert [e for e in second["spec"]["tolerations"] if not marked_hash(e["key"])] == [
        {"operator": "Exists", "key": "sla"}, PLAIN,
    ]  # fmt: skip
    assert len(second["spec"]["tolerations"]) == 3
    removed = {**second, "metadata": {"annotations": {k: v for k, v in second["metadata"]["annotations"].items()
                                                      if k != ANNOTATED}}}  # fmt: skip
    third = daemonset(removed, second)
    assert not third["spec"].get("tolerations") and not third["spec"].get("nodeSelector")
    assert raised(workload(first)) == workload(template(GT))


def test_extended_entries_of_a_daemonset_stand_in_one_place():
    refusal = daemonset(template(GT, tolerations=[OTHER]))
    assert refusal.code == 422 and "not in both" in refusal.message


def test_what_is_said_of_an_annotation_is_short():
    """A pod's text of 4 KB said 3 MB, which the operator remembered."""
    text = "[&a {key: k, operator: Gt, value: " + "y" * 2000 + "}" + ", *a" * 250 + "]"
    problems = annotation_problems({"metadata": {"annotations": {ANNOTATED: text}}})
    assert problems and sum(map(len, problems)) < 5_000
