"""A story's objects get names of their own in a shared cluster, and are told without them."""

from __future__ import annotations

import pytest

from weir.conformance.renaming import LABEL, STORY, names_of, namespaces_of
from weir.objects.kinds import by_kind
from weir.simulation.demo.story import parse_story

STORY_TEXT = """
title: t
source: KEP-5055
asks: a
nodes: [{name: n1, devices: {count: 1}}, {name: n2, class: gpu}]
steps:
- event: e
  apply:
  - {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: team}, spec: {containers: [{name: c, image: i}]}}
  - apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata: {name: high}
    value: 5
"""
PODS, RULES, JOBS = (
    by_kind("v1", "Pod"),
    by_kind("resource.k8s.io/v1", "DeviceTaintRule"),
    by_kind("batch/v1", "CronJob"),
)


@pytest.fixture
def names():
    return names_of(parse_story(STORY_TEXT, "s"), "abcde", 7)


def test_namespaces_are_those_of_the_objects():
    assert namespaces_of(parse_story(STORY_TEXT, "s")) == ["default", "team"]


def test_a_pod_tolerates_and_selects_last_and_keeps_what_it_says(names):
    pod = {
        "metadata": {"name": "p"},
        "spec": {
            "containers": [],
            "nodeSelector": {"kubernetes.io/hostname": "n1", "tier": "n1"},
            "priorityClassName": "high",
            "tolerations": [{"key": "n1", "operator": "Gt", "value": "3"}],
        },
    }
    out = names.outward(pod, PODS)
    assert out["metadata"] == {"name": "p", "namespace": "wc-abcde-07-default"}
    assert out["spec"]["nodeSelector"] == {
        "kubernetes.io/hostname": "wc-abcde-07-n1",
        "tier": "n1",
        STORY: "abcde-07",
    }
    assert out["spec"]["priorityClassName"] == "wc-abcde-07-high"
    assert [each["key"] for each in out["spec"]["tolerations"]] == ["n1", LABEL]
    assert names.inward(out) == {
        **pod,
        "metadata": {"name": "p", "namespace": "default"},
    }


def test_what_was_not_there_is_not_told(names):
    out = names.outward({"metadata": {"name": "p"}, "spec": {"containers": []}}, PODS)
    assert names.inward(out)["spec"] == {"containers": []}


def test_a_template_within_a_template_is_isolated(names):
    spec = {"containers": []}
    job = {"metadata": {"name": "j"}, "spec": {"jobTemplate": {"spec": {"template": {"spec": spec}}}}}
    out = names.outward(job, JOBS)
    assert out["spec"]["jobTemplate"]["spec"]["template"]["spec"]["nodeSelector"] == {STORY: "abcde-07"}


def test_a_rule_names_the_storys_driver_pool_and_attributes(names):
    expression = "device.attributes['gpu.example.com'].index == 1 && device.driver != 'other.example.com'"
    rule = {
        "metadata": {"name": "r"},
        "spec": {
            "deviceSelector": {
                "driver": "gpu.example.com",
                "pool": "n1",
                "device": "gpu-0",
                "selectors": [{"cel": {"expression": expression}}],
            },
            "taint": {"key": "gpu.example.com/hot", "effect": "NoExecute"},
        },
    }
    out = names.outward(rule, RULES)
    selector = out["spec"]["deviceSelector"]
    assert (out["metadata"]["name"], selector["driver"], selector["pool"], selector["device"]) == (
        "wc-abcde-07-r",
        "wc-abcde-07-gpu.example.com",
        "wc-abcde-07-n1",
        "gpu-0",
    )
    assert "['wc-abcde-07-gpu.example.com']" in selector["selectors"][0]["cel"]["expression"]
    assert "'other.example.com'" in selector["selectors"][0]["cel"]["expression"]
    assert out["spec"]["taint"]["key"] == "gpu.example.com/hot"
    assert names.inward(out)["spec"] == rule["spec"]


def test_affinity_by_the_name_of_a_node_follows_it(names):
    term = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2", "elsewhere"]}
    assert names.changes({"matchExpressions": [term]})["matchExpressions"][0]["values"] == [
        "wc-abcde-07-n2",
        "elsewhere",
    ]


def test_patches_keep_a_story_apart(names):
    assert names.patch({"spec": {"tolerations": []}})["spec"]["tolerations"][-1]["key"] == LABEL
    assert names.patch({"spec": {"taints": []}})["spec"]["taints"] == [names.taint]
    assert names.patch({"spec": {"replicas": 3}}) == {"spec": {"replicas": 3}}


def test_a_refusal_is_told_in_the_storys_words(names):
    said = 'Node "wc-abcde-07-n1" is invalid: metadata.taints[1].value: Invalid value'
    assert names.refusal(said, "Node") == 'Node "n1" is invalid: metadata.taints[0].value: Invalid value'


def test_two_stories_of_a_run_have_no_name_in_common(names):
    other = names_of(parse_story(STORY_TEXT, "s"), "abcde", 8)
    assert not {names.name(each) for each in names.known} & {other.name(each) for each in other.known}


def test_expressions_are_spelled_for_the_operators_hooks():
    stock = names_of(parse_story(STORY_TEXT, "s"), "abcde", 7, stock=True)
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [], "tolerations": [{"expression": "true"}]}}
    assert stock.outward(pod, PODS)["spec"]["tolerations"][0] == {"operator": "CEL", "value": "true"}


def test_a_kind_is_written_in_the_version_that_is_served():
    story = parse_story(STORY_TEXT, "s")
    names = names_of(story, "abcde", 7, {"DeviceTaintRule": "resource.k8s.io/v1beta2"})
    rule = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "r"},
        "spec": {},
    }
    served = by_kind("resource.k8s.io/v1beta2", "DeviceTaintRule")
    assert names.outward(rule, served)["apiVersion"] == "resource.k8s.io/v1beta2"
