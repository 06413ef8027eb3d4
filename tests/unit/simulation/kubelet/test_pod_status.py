"""What a pod's status says about its life."""

from __future__ import annotations

import random

import pytest

from weir.simulation.kubelet.behaviour import Behaviour, Life
from weir.simulation.kubelet.container_lifecycle import Ending
from weir.simulation.kubelet.pod_lifecycle import PodLife
from weir.simulation.kubelet.pod_status import status_of

NOW = "1970-01-01T00:01:00Z"


def life_of(annotations=None, status=None, **spec):
    pod = {
        "metadata": {
            "name": "p",
            "namespace": "default",
            "uid": "u",
            "annotations": {f"weir.dev/{name}": text for name, text in (annotations or {}).items()},
        },
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}], **spec},
        "status": status or {},
    }
    return PodLife.begin(pod, Behaviour(pod, Life(), random.Random(1)), 0.0)


def conditions(life, before=()):
    return {each["type"]: each for each in status_of(life, "h", "i", before, NOW)["conditions"]}


def said(life):
    return {name: (each["status"], each.get("reason")) for name, each in conditions(life).items()}


def test_an_admitted_pod_waits_for_its_sandbox():
    life = life_of()
    status = status_of(life, "172.16.0.1", "", (), NOW)
    (container,) = status["containerStatuses"]
    assert (said(life), "podIP" in status, container["state"], container["imageID"]) == (
        {
            "PodReadyToStartContainers": ("False", None),
            "Initialized": ("True", None),
            "Ready": ("False", "ContainersNotReady"),
            "ContainersReady": ("False", "ContainersNotReady"),
        },
        False,
        {"waiting": {"reason": "ContainerCreating"}},
        "",
    )


def test_a_pod_with_init_containers_names_those_that_are_not_done():
    life = life_of({"run-seconds.a": "5"}, initContainers=[{"name": "a"}, {"name": "b"}])
    life.advance(1.0)
    assert (said(life)["PodReadyToStartContainers"], conditions(life)["Initialized"]["message"]) == (
        ("True", None),
        "containers with incomplete status: [a b]",
    )


@pytest.mark.parametrize(
    ("annotations", "phase", "reason", "initialized"),
    [({}, "Succeeded", "PodCompleted", "PodCompleted"), ({"exit-code": "1"}, "Failed", "PodFailed", None)],
)
def test_a_pod_that_ended_says_how_in_its_conditions(annotations, phase, reason, initialized):
    life = life_of(annotations)
    life.advance(1.0)
    life.advance(6.0)
    assert (status_of(life, "h", "i", (), NOW)["phase"], said(life)) == (
        phase,
        {
            "PodReadyToStartContainers": ("False", None),
            "Initialized": ("True", initialized),
            "Ready": ("False", reason),
            "ContainersReady": ("False", reason),
        },
    )


@pytest.mark.parametrize(
    ("present", "message"),
    [
        ([], 'corresponding condition of pod readiness gate "x/y" does not exist.'),
        (
            [{"type": "x/y", "status": "False"}],
            'the status of pod readiness gate "x/y" is not "True", but False',
        ),
        ([{"type": "x/y", "status": "True"}], None),
    ],
)
def test_readiness_gates_in_kubernetes_words(present, message):
    life = life_of(status={"conditions": present}, readinessGates=[{"conditionType": "x/y"}])
    life.advance(1.0)
    ready = conditions(life)["Ready"]
    assert (ready["status"], ready.get("message")) == ("False" if message else "True", message)


def test_a_condition_keeps_its_time_while_it_is_so_and_loses_a_reason_that_is_gone():
    life = life_of()
    early = {
        "type": "Ready",
        "status": "False",
        "reason": "ContainersNotReady",
        "lastTransitionTime": "early",
    }
    kept = conditions(life, [early])["Ready"]["lastTransitionTime"]
    life.advance(1.0)
    ready = conditions(life, [early])["Ready"]
    assert (kept, ready["lastTransitionTime"], ready["reason"]) == ("early", NOW, None)


def test_a_pod_that_was_ended_says_why_only_when_it_is_over():
    life = life_of({"stop-seconds": "5"})
    life.advance(1.0)
    life.end(2.0, Ending("Preempting", "for another"), 30.0)
    before = status_of(life, "h", "i", (), NOW)
    life.advance(7.0)
    after = status_of(life, "h", "i", (), NOW)
    assert [(each["phase"], each.get("reason")) for each in (before, after)] == [
        ("Running", None),
        ("Failed", "Preempting"),
    ]


def test_the_generation_that_was_seen():
    life = life_of()
    assert "observedGeneration" not in status_of(life, "h", "i", (), NOW)
    life.refresh({**life.pod, "metadata": {**life.pod["metadata"], "generation": 3}})
    status = status_of(life, "h", "i", (), NOW)
    assert {status["observedGeneration"], *(each["observedGeneration"] for each in status["conditions"])} == {
        3
    }
