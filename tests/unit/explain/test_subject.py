"""Which pod a document asks for, and what creating it adds."""

from __future__ import annotations

from typing import Any

import pytest

from weir.explain.admission import Admission
from weir.explain.subject import Subject, SubjectError, subjects
from weir.gates import ALL_FEATURES
from weir.objects.core import ViewError
from weir.objects.templates import TEMPLATE_PATHS
from weir.world import World

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


def workload(kind: str, spec: Any) -> dict[str, Any]:
    inner: Any = {"spec": spec}
    for key in reversed(TEMPLATE_PATHS[kind]):
        inner = {key: inner}
    return {"kind": kind, "metadata": {"name": "w", "namespace": "ns"}, **inner}


@pytest.mark.parametrize("kind", TEMPLATE_PATHS)
def test_every_kind_keeps_its_pod_somewhere(kind):
    pod = Subject.of(workload(kind, {"nodeName": "n1"})).pod()
    assert (pod.key, pod.spec.node_name) == ("ns/w", "n1")


def keys(spec: dict[str, Any], kind: str = "Pod", **flags: Any) -> list[tuple[str, int | None]]:
    pod = Admission(World(), ALL_FEATURES).admit(Subject.of(workload(kind, spec), **flags)).pod
    return [(toleration.key, toleration.toleration_seconds) for toleration in pod.tolerations]


def test_a_new_pod_gets_five_minutes_on_nodes_that_are_lost():
    assert keys({}) == [(NOT_READY, 300), (UNREACHABLE, 300)]


@pytest.mark.parametrize(
    ("own", "added"),
    [
        ({"key": NOT_READY, "operator": "Gt", "value": "5"}, [(UNREACHABLE, 300)]),
        ({"operator": "Exists"}, []),
        ({"operator": "Exists", "effect": "NoSchedule"}, [(NOT_READY, 300), (UNREACHABLE, 300)]),
        ({"expression": "true"}, [(NOT_READY, 300), (UNREACHABLE, 300)]),
    ],
    ids=["named", "everything", "another effect", "an expression"],
)
def test_defaults_are_added_only_where_nothing_was_said(own, added):
    assert keys({"tolerations": [own]})[1:] == added


def test_a_stored_pod_is_taken_as_it_is_and_where_it_runs_is_no_wish():
    pod = Subject.of(workload("Pod", {"nodeName": "n1"}), stored=True).pod()
    assert (pod.tolerations, pod.spec.node_name) == ((), "")


def test_daemon_pods_stay_through_node_conditions():
    found = dict(keys({"hostNetwork": True}, "DaemonSet"))
    assert (len(found), found[NOT_READY], found[UNREACHABLE]) == (7, None, None)


def test_a_daemon_templates_own_entry_with_seconds_is_replaced():
    own = {"key": NOT_READY, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    assert (NOT_READY, 5) not in keys({"tolerations": [own]}, "DaemonSet")


def test_lists_are_opened_and_other_kinds_left_out():
    items = [workload("Pod", {}), {"kind": "Service"}, 7, workload("Job", {})]
    assert [subject.kind for subject in subjects({"kind": "List", "items": items})] == ["Pod", "Job"]


def test_a_typed_list_names_the_kind_of_its_items():
    assert [s.kind for s in subjects({"kind": "PodList", "items": [{"metadata": {"name": "a"}}]})] == ["Pod"]


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (workload("Deployment", {"tolerations": 7}), ("spec", "template", "spec", "tolerations")),
        (
            workload("Pod", {"tolerations": [{}, {"value": 950}]}),
            ("spec", "tolerations", 1, "value"),
        ),
        ({"kind": "CronJob", "spec": {"jobTemplate": []}}, ("spec", "jobTemplate")),
    ],
)
def test_a_wrong_shape_says_where_in_the_document(document, path):
    with pytest.raises(SubjectError) as caught:
        Subject.of(document).pod()
    assert caught.value.path == path


@pytest.mark.parametrize("document", [None, 7, "Pod", [], {"kind": "Service"}, {"kind": ["Pod"]}])
def test_what_has_no_pod_is_refused(document):
    with pytest.raises(ViewError):
        Subject.of(document)


def test_editing_leaves_the_original_alone():
    subject = Subject.of(workload("Deployment", {"nodeName": "n1"}))
    edited, spec = subject.edited()
    spec["nodeName"] = "n2"
    assert (subject.pod().spec.node_name, edited.pod().spec.node_name) == ("n1", "n2")


def test_a_name_no_server_takes_is_cut_where_it_is_shown():
    assert len(Subject.of({"kind": "Pod", "metadata": {"name": "x" * 5000}}).title) < 300


def test_metadata_of_another_shape_is_refused_with_its_place():
    with pytest.raises(SubjectError, match="metadata: expected an object, got int") as caught:
        Subject.of({"kind": "Pod", "metadata": 7}).pod()
    assert caught.value.path == ("metadata",)


@pytest.mark.parametrize(
    "version, kind, meant",
    [
        ("v2", "Pod", "v1"),
        ("apps/v2", "StatefulSet", "apps/v1"),
        ("v1", "Deployment", "apps/v1"),
        ("batch/v3", "Job", "batch/v1"),
    ],
)
def test_a_version_that_does_not_serve_the_kind_is_refused(version, kind, meant):
    with pytest.raises(
        SubjectError, match=f'no matches for kind "{kind}" in version "{version}": did you mean {meant}'
    ) as raised:
        Subject.of({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}})
    assert raised.value.path == ("apiVersion",)
