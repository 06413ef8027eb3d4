"""A story that reaches beyond its own is not played in a cluster that others use too."""

from __future__ import annotations

import json

import pytest

from weir.conformance.isolation import GATES, PLAN, isolation_problem
from weir.simulation.demo.story import find_stories, parse_story


def story(*objects, **step):
    return parse_story(
        json.dumps(
            {
                "title": "t",
                "source": "s",
                "asks": "a",
                "objects": list(objects),
                "steps": [{"event": "e", **step}],
            }
        ),
        "x",
    )


def named(kind, version="v1", name="a", **rest):
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **rest}


RULE = named("DeviceTaintRule", "resource.k8s.io/v1", spec={"deviceSelector": {"driver": "d.example"}})


@pytest.mark.parametrize(
    "found, why",
    [
        (story(gates={"TaintTolerationCEL": False}), GATES),
        (story(plan={"name": "p", "change": "cordon n1"}), PLAN),
        (story(RULE), ""),
        (
            story(named("DeviceTaintRule", "resource.k8s.io/v1", spec={})),
            "DeviceTaintRule/a names no driver: it would taint the devices of others",
        ),
        (
            story(RULE, patch=[{"object": "DeviceTaintRule/a", "merge": {"spec": {"deviceSelector": None}}}]),
            "DeviceTaintRule/a would come to name another driver",
        ),
        (
            story(
                RULE,
                patch=[{"object": "DeviceTaintRule/a", "merge": {"spec": {"taint": {"effect": "None"}}}}],
            ),
            "",
        ),
        (
            story(named("ValidatingWebhookConfiguration", "admissionregistration.k8s.io/v1")),
            "ValidatingWebhookConfiguration/a would reach the whole cluster",
        ),
        (
            story(named("PriorityClass", "scheduling.k8s.io/v1", value=1, globalDefault=True)),
            "PriorityClass/a would be the default of the whole cluster",
        ),
        (story(named("Pod", spec={})), ""),
    ],
)
def test_what_is_played(found, why):
    assert isolation_problem(found) == why


def test_most_of_our_stories_are_played():
    assert sum(not isolation_problem(each) for each in find_stories()) >= 60
