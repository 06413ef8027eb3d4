"""Node affinity in the annotation of pods and templates: read, refused, lowered, and read again by every command."""

from __future__ import annotations

import json

import pytest

from weir.lowering import webhooks
from weir.lowering.admission import Cluster, answer
from weir.lowering.annotated_affinity import (
    affinity_annotation_problems,
    annotated_affinity,
    with_annotated_affinity,
)
from weir.lowering.names import ANNOTATED, ANNOTATED_AFFINITY, GATE, REQUIREMENTS, label_key, requirement_hash
from weir.lowering.originals import evaluated, is_lowered, raised

NEWER = {"key": "kernel", "operator": "SemverGt", "values": ["5.15.0"]}
OLDER = {"key": "kernel", "operator": "SemverLt", "values": ["7.0.0"]}
ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
ON_N3 = {"key": "metadata.name", "operator": "In", "values": ["n3"]}
GT = {"key": "sla", "operator": "Gt", "value": "900"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def labelled(requirement):
    return {"key": label_key(requirement_hash(requirement)), "operator": "In", "values": ["true"]}


def required(*terms):
    return {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": list(term)} for term in terms]}}


def preferred(*requirements):
    return {PREFERRED: [{"weight": 1, "preference": {"matchExpressions": [each]}} for each in requirements]}


def template(written=None, **spec):
    metadata = {"annotations": {ANNOTATED_AFFINITY: json.dumps(written)}} if written else {}
    return {"metadata": metadata, "spec": {"containers": [], **spec}}


def pod(written=None, **spec):
    return {"apiVersion": "v1", "kind": "Pod", **template(written, **spec)}


def create(document, old=None):
    return answer(webhooks.POD_PATH, {"object": document, "oldObject": old}, Cluster()).document


def workload(found, kind="DaemonSet"):
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "d"}, "spec": {"template": found}}


def daemonset(found, old=None):
    request = {"kind": {"kind": "DaemonSet"}, "namespace": "default", "object": workload(found)}
    if old is not None:
        request["oldObject"] = workload(old)
    done = answer(webhooks.DAEMONSET_PATH, request, Cluster())
    return done.document["spec"]["template"] if done.document else done


def affinity_of(document):
    return document["spec"]["affinity"]["nodeAffinity"]


@pytest.mark.parametrize(
    "text, problem",
    [
        ("[]", "must be a node affinity"),
        ("requiredDuringScheduling: {}", "unknown field"),
        (f"{REQUIRED}: {{}}", "Required value: must have at least one node selector term"),
        (f"{REQUIRED}: {{nodeSelectorTerms: [{{}}]}}", "an empty term matches no node"),
        (f"{REQUIRED}: {{nodeSelectorTerms: [null]}}", "null"),
        (f"{REQUIRED}: {{nodeSelectorTerms: 5}}", "nodeSelectorTerms"),
        (f"{REQUIRED}: {{nodeSelectorTerms: [{{matchExpressions: [{{key: a, operator: Foo}}]}}]}}", "operator"),
        (f"{REQUIRED}: {{nodeSelectorTerms: [{{matchExpressions: [{{key: a, operater: In}}]}}]}}", "operater: unknown"),
        (json.dumps(required([{**NEWER, "values": ["5.x"]}])), "matchExpressions[0].values[0]: Invalid value"),
        (json.dumps(required([{**NEWER, "values": [5]}])), "values"),
        (f"{PREFERRED}: [{{weight: 0, preference: {{matchExpressions: [{{key: a, operator: Exists}}]}}}}]", "weight"),
        ("a: {", "the annotation:1"),
        ("a: &a [x]\nb: &b [" + "*a, " * 1000 + "]\nc: [" + "*b, " * 1000 + "]", "values"),
        ("x" * 20_000, "Too long"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_it_is_refused_where_it_is_written(text, problem):
    found = {"metadata": {"annotations": {ANNOTATED_AFFINITY: text}}, "spec": {}}
    problems = affinity_annotation_problems(found, "spec.template.")
    assert problem in "; ".join(problems) and sum(map(len, problems)) < 5_000
    assert all(
        each.startswith(f"spec.template.metadata.annotations[{ANNOTATED_AFFINITY}]") for each in problems
    )
    assert annotated_affinity(found) == {} and with_annotated_affinity(found) == found
    refusal = answer(webhooks.POD_PATH, {"object": found}, Cluster())
    assert refusal.code == 422 and f"metadata.annotations[{ANNOTATED_AFFINITY}]" in refusal.message


def test_it_is_yaml_or_json():
    requirement = "{key: kernel, operator: SemverGt, values: ['5.15.0']}"
    text = f"{REQUIRED}:\n  nodeSelectorTerms:\n  - matchExpressions: [{requirement}]"
    assert annotated_affinity({"metadata": {"annotations": {ANNOTATED_AFFINITY: text}}}) == required([NEWER])


def test_a_pod_is_lowered_as_if_it_were_written_in_its_affinity_and_raised_to_what_was_applied():
    written = required([NEWER, ZONE], [OLDER]) | preferred(OLDER)
    made = pod(written)
    done = create(made)
    assert affinity_of(done) == required([labelled(NEWER), ZONE], [labelled(OLDER)]) | preferred(
        labelled(OLDER)
    )
    assert (
        done["spec"]["schedulingGates"] == [{"name": GATE}]
        and REQUIREMENTS in done["metadata"]["annotations"]
    )
    assert create(done, done) == done, "a write that changes nothing"
    assert create(made, done) == done, "applied again without what was lowered"
    assert raised(done) == made and is_lowered(done)
    assert affinity_of(evaluated(done)) == affinity_of(evaluated(made)) == written
    assert evaluated(made)["metadata"] == {}


def test_a_pod_must_satisfy_its_own_affinity_too():
    own = {"nodeAffinity": required([ZONE], []) | preferred(ZONE), "podAffinity": {}}
    done = create(pod(required([NEWER], [OLDER]) | preferred(NEWER), affinity=own))
    assert affinity_of(done) == (
        required([ZONE, labelled(NEWER)], [ZONE, labelled(OLDER)], []) | preferred(ZONE, labelled(NEWER))
    )
    assert done["spec"]["affinity"]["podAffinity"] == {}
    assert create(done, done) == done
    raised_again = evaluated(done)
    assert affinity_of(raised_again) == required([ZONE, NEWER], [ZONE, OLDER], []) | preferred(ZONE, NEWER)


def test_a_requirement_that_every_cluster_has_is_taken_over_as_it_is():
    made = pod(required([ZONE]))
    done = create(made)
    assert affinity_of(done) == required([ZONE]) and raised(done) == made
    assert REQUIREMENTS not in done["metadata"]["annotations"]


def test_it_stands_beside_tolerations_in_an_annotation():
    made = pod(required([NEWER]))
    made["metadata"]["annotations"][ANNOTATED] = json.dumps([GT])
    done = create(made)
    assert affinity_of(done) == required([labelled(NEWER)]) and done["spec"]["tolerations"]
    assert raised(done) == made and evaluated(made)["spec"]["tolerations"] == [GT]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet", "Job"])
def test_templates_stay_as_they_were_applied(kind):
    made = workload(template(required([NEWER])), kind)
    assert (
        answer(webhooks.TEMPLATE_PATH, {"kind": {"kind": kind}, "object": made}, Cluster()).document == made
    )
    assert is_lowered(made) and affinity_of(evaluated(made)["spec"]["template"]) == required([NEWER])


def test_a_daemonset_gets_an_affinity_that_no_author_wrote_and_that_follows_its_annotation():
    first = daemonset(template(required([NEWER])))
    assert affinity_of(first) == required([labelled(NEWER)])
    assert daemonset(first, first) == first, "a write that changes nothing"
    assert raised(workload(first)) == workload(template(required([NEWER])))
    kept = first["metadata"]["annotations"]
    other = {
        **first,
        "metadata": {"annotations": kept | template(required([OLDER]))["metadata"]["annotations"]},
    }
    second = daemonset(other, first)
    assert affinity_of(second) == required([labelled(OLDER)])
    gone = {**second, "metadata": {"annotations": {k: v for k, v in kept.items() if k != ANNOTATED_AFFINITY}}}
    third = daemonset(gone, second)
    assert "affinity" not in third["spec"] and "annotations" not in third["metadata"]


def test_a_daemonset_with_tolerations_keeps_its_label_and_both():
    made = template(required([NEWER]))
    made["metadata"]["annotations"][ANNOTATED] = json.dumps([GT])
    first = daemonset(made)
    assert affinity_of(first) == required([labelled(NEWER)]) and len(first["spec"]["nodeSelector"]) == 1
    assert daemonset(first, first) == first and raised(workload(first)) == workload(made)


def test_the_affinity_of_a_daemonset_stands_in_one_place():
    refusal = daemonset(template(required([NEWER]), affinity={"nodeAffinity": required([ZONE])}))
    assert refusal.code == 422 and "not in both" in refusal.message
    assert daemonset(template(affinity={"nodeAffinity": required([ZONE])}))["spec"]["affinity"]


def test_the_pod_of_a_daemonset_stays_on_the_node_that_was_named():
    first = daemonset(template(required([NEWER])))
    named = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [ON_N3]}]}}}
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "controller": True}
    metadata = {**first["metadata"], "ownerReferences": [owner]}
    done = create({**pod(), "metadata": metadata, "spec": {**first["spec"], "affinity": named}})
    assert done["spec"]["affinity"] == named and "schedulingGates" not in done["spec"]


def test_an_affinity_that_somebody_broke_is_left_to_who_refuses_it():
    for broken in (
        5,
        {"nodeAffinity": 5},
        {"nodeAffinity": required([5])},
        {"nodeAffinity": required([None])},
    ):
        made = pod(required([NEWER]), affinity=broken)
        assert with_annotated_affinity(made) == made and raised(made) == made
