"""The answers to AdmissionReviews, object in, object out."""

from __future__ import annotations

import base64
import json

import pytest

from weir.lowering import webhooks
from weir.lowering.admission import Answer, Cluster, answer, json_patch, respond
from weir.lowering.key_rules import read_rule
from weir.lowering.names import GATE, KEY_ENTRIES, REQUIREMENTS, TOLERATIONS, label_key
from weir.lowering.node_labels import LabelRules
from weir.lowering.tolerations import MOST_ENTRIES
from weir.lowering.triples import Triple

GT = {"key": "sla", "operator": "Gt", "value": "900"}
NEWER = {"key": "v", "operator": "SemverGt", "values": ["1.2.3"]}
T950 = Triple("sla", "950", "NoExecute")
CLUSTER = Cluster(known=[T950, Triple("sla", "800", "NoExecute")])


def pod(*tolerations, **spec):
    return {"metadata": {"name": "p"}, "spec": {"tolerations": list(tolerations), **spec}}


def create(path, document, cluster=CLUSTER, **request):
    return answer(path, {"object": document, **request}, cluster)


def equal_values(document):
    return [e.get("value") for e in document["spec"]["tolerations"] if e["operator"] == "Equal"]


def test_a_pod_gets_its_entries_an_annotation_and_the_gate():
    done = create(webhooks.POD_PATH, pod(GT)).document
    assert equal_values(done) == ["950"]
    assert TOLERATIONS in done["metadata"]["annotations"]
    assert done["spec"]["schedulingGates"] == [{"name": GATE}]
    assert create(webhooks.POD_PATH, done).document == done, "asked again, nothing changes"


def test_a_pod_that_stands_as_many_entries_is_admitted_with_a_warning():
    for number, warned in ((400, False), (600, True)):
        cluster = Cluster(known=[Triple("sla", str(1000 + i), "NoExecute") for i in range(number)])
        given = create(webhooks.POD_PATH, pod(GT), cluster)
        response = respond({"request": {"uid": "u", "object": pod(GT)}}, given)["response"]
        assert response["allowed"] and ("warnings" in response) is warned
        assert not warned or f"stand as {number + 1} entries" in response["warnings"][0]


def test_a_pod_with_a_node_cannot_be_gated_and_native_operators_are_left_alone():
    assert "schedulingGates" not in create(webhooks.POD_PATH, pod(GT, nodeName="n")).document["spec"]
    native = Cluster(known=[T950], native_numeric=True)
    assert create(webhooks.POD_PATH, pod(GT), native).document == pod(GT)


def test_a_reapply_keeps_entries_and_gate():
    stored = create(webhooks.POD_PATH, pod(GT)).document
    again = answer(webhooks.POD_PATH, {"object": pod(GT), "oldObject": stored}, Cluster()).document
    assert again == stored


def test_a_pod_of_a_daemonset_is_gated_and_gets_no_values():
    workload = {"metadata": {"name": "d"}, "spec": {"template": pod(GT)}}
    request = {"kind": {"kind": "DaemonSet"}, "namespace": "default"}
    template = create(webhooks.DAEMONSET_PATH, workload, **request).document["spec"]["template"]
    done = create(webhooks.POD_PATH, template).document
    assert equal_values(done) == [] and done["spec"]["schedulingGates"] == [{"name": GATE}]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet", "Job"])
def test_a_template_gets_no_values(kind):
    workload = {"metadata": {}, "spec": {"template": pod(GT)}}
    done = create(webhooks.TEMPLATE_PATH, workload, kind={"kind": kind}).document["spec"]["template"]
    assert equal_values(done) == [] and len(done["spec"]["tolerations"]) == 1


def test_volumes_and_nodes():
    volume = {
        "metadata": {},
        "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [NEWER]}]}}},
    }
    assert REQUIREMENTS in create(webhooks.VOLUME_PATH, volume).document["metadata"]["annotations"]
    rules = Cluster(rules=LabelRules({"r": NEWER}))
    done = create(webhooks.NODE_LABELS_PATH, {"metadata": {"labels": {"v": "2.0.0"}}, "spec": {}}, rules)
    assert done.document["metadata"]["labels"] == {"v": "2.0.0", label_key("r"): "true"}


def test_bad_originals_are_refused():
    refused = create(webhooks.POD_PATH, pod({**GT, "value": "x"}))
    assert refused.code == 422 and refused.message.startswith("spec.tolerations[0].value: Invalid value")


def test_a_dropped_expression_is_refused_with_the_other_spelling():
    sent = pod({"operator": "Exists", "expression": "taint.key == 'a'"})
    stored = pod({"operator": "Exists"})
    stored["metadata"]["annotations"] = {webhooks.LAST_APPLIED: json.dumps(sent)}
    refused = create(webhooks.POD_PATH, stored)
    assert refused.code == 422 and "operator: CEL, value: \"taint.key == 'a'\"" in refused.message


def test_a_pod_with_too_many_values_says_the_key_and_selects_nodes_by_a_label():
    many = Cluster(known=[Triple("sla", str(1000 + n), "NoExecute") for n in range(1001)])
    given = create(webhooks.POD_PATH, pod(GT), many)
    spec = given.document["spec"]
    (label,) = spec["nodeSelector"]
    rule = read_rule(given.document["metadata"]["annotations"][KEY_ENTRIES])
    assert (rule.label, rule.keys) == (label, {"sla"})
    assert rule.allows([Triple("sla", "950", "NoSchedule"), Triple("other", "1", "NoSchedule")])
    assert not rule.allows([Triple("sla", "900", "NoSchedule")])
    assert len(spec["tolerations"]) == 4 and equal_values(given.document) == []
    assert "would stand as 1002 entries" in given.warning and "for sla nodes get a label" in given.warning
    assert create(webhooks.POD_PATH, given.document, many).document == given.document, "asked again"
    bound = create(webhooks.POD_PATH, pod(GT, nodeName="n"), many).document["spec"]
    assert "nodeSelector" not in bound and len(bound["tolerations"]) == 4


def test_where_keys_cannot_be_said_as_a_whole_a_pod_has_what_fits_and_is_warned():
    many = Cluster(known=[Triple("sla", str(1000 + n), "NoExecute") for n in range(1200)])
    timed = pod(GT, {**GT, "value": "800", "effect": "NoExecute", "tolerationSeconds": 5})
    given = create(webhooks.POD_PATH, timed, many)
    assert given.allowed and len(given.document["spec"]["tolerations"]) == MOST_ENTRIES
    assert "no room for 202" in given.warning and "nodeSelector" not in given.document["spec"]


def test_the_review_carries_a_patch_or_a_status():
    review = {"request": {"uid": "u", "object": pod(GT)}}
    response = respond(review, create(webhooks.POD_PATH, pod(GT)))["response"]
    patch = json.loads(base64.b64decode(response["patch"]))
    assert (
        response["uid"] == "u"
        and response["allowed"]
        and {"op": "add", "path": "/spec/schedulingGates"}.items() <= patch[-1].items()
    )
    refused = respond(review, Answer(code=429, message="later"))["response"]
    assert refused["status"]["code"] == 429 and refused["status"]["reason"] == "TooManyRequests"
    assert "patch" not in respond(review, Answer(pod(GT)))["response"]
    assert list(json_patch({"a": 1}, {})) == [{"op": "remove", "path": "/a"}]


def test_an_unknown_path_is_said_to_be_one():
    assert create("/nothing", {}).code == 404


def test_no_refusal_is_as_long_as_what_is_refused():
    """The API server shows it to the client, and keeps it in its log."""
    long = "x" * 100_000
    terms = [{"matchExpressions": [{**NEWER, "values": [long]}]}] * 5
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
    applied = json.dumps({"spec": {"tolerations": [{"expression": long}]}})
    refused = [
        create(webhooks.VOLUME_PATH, {"metadata": {"name": "v"}, "spec": affinity}),
        create(webhooks.POD_PATH, pod({**GT, "value": long})),
        create(webhooks.POD_PATH, pod({"key": long, "operator": "Gt", "value": "1"})),
        create(webhooks.POD_PATH, {**pod(), "metadata": {"annotations": {webhooks.LAST_APPLIED: applied}}}),
    ]
    for each in refused:
        response = respond({"request": {"uid": "u"}}, each)["response"]
        assert not response["allowed"] and len(response["status"]["message"]) <= 16 * 1024
