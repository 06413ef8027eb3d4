"""A pod that is like its owner's last one is made as if it had passed all stages of a create."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from weir.controllers.workloads.daemon_nodes import spec_for
from weir.controllers.workloads.statefulset import INDEX_LABEL, NAME_LABEL
from weir.errors import Invalid
from weir.forecast.objects import Objects
from weir.forecast.timeline import Timeline
from weir.gates import ALL_FEATURES
from weir.objects.kinds import PODS

Document = dict[str, Any]
APP = {"app": "web"}


def asked(kind: str, spec: Document, name: str = "", **labels: str) -> Document:
    """Return what a controller sends to create a pod."""
    named = {"name": name} if name else {"generateName": "web-"}
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": "u", "controller": True}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    return {
        "metadata": {
            **named,
            "namespace": "default",
            "labels": {**APP, **labels},
            "ownerReferences": [owner],
        },
        "spec": {"containers": [container], **spec},
    }


def member(number: int, **more: Any) -> Document:
    name = f"web-{number}"
    labels = {NAME_LABEL: name, INDEX_LABEL: str(number)}
    return asked("StatefulSet", {"hostname": name, **more}, name, **labels)


def daemon(node: str, **affinity: Any) -> Document:
    spec: Document = {"affinity": affinity} if affinity else {}
    return asked("DaemonSet", spec_for({"spec": spec}, node, []))


def objects() -> Objects:
    return Objects(Timeline(datetime(2026, 1, 1, tzinfo=UTC)), ALL_FEATURES, 0, [])


def without_chance(pod: Document) -> str:
    """Return a pod without what differs from one create to the next."""
    kept = {key: value for key, value in pod["metadata"].items() if key not in ("uid", "resourceVersion")}
    if "generateName" in kept:
        del kept["name"]
    text = json.dumps({**pod, "metadata": kept}, sort_keys=True)
    return re.sub("kube-api-access-[a-z0-9]{5}", "kube-api-access", text)


@pytest.mark.parametrize(
    ("first", "second", "stages"),
    [
        (asked("ReplicaSet", {}), asked("ReplicaSet", {}), 1),
        (asked("ReplicaSet", {}), asked("ReplicaSet", {"priority": 0}), 2),
        (asked("ReplicaSet", {}), asked("ReplicaSet", {}, version="2"), 2),
        (member(1), member(2), 1),
        (member(9), member(10), 2),  # longer, and so perhaps too long
        (member(1), member(2, hostname="other"), 2),
        (member(1), {**member(2), "spec": member(1)["spec"]}, 2),
        (daemon("node-a"), daemon("b"), 1),
        (daemon("node-a"), asked("DaemonSet", {}), 2),
        (daemon("node-a"), daemon("b", podAffinity={}), 2),
    ],
)
def test_another_pod_is_as_if_it_were_the_first(first, second, stages, monkeypatch):
    fresh = objects().create(PODS, second, "default")
    through: list[object] = []
    stage = Objects._through_stages
    monkeypatch.setattr(
        Objects, "_through_stages", lambda self, write: through.append(1) or stage(self, write)
    )
    held = objects()
    held.create(PODS, first, "default")
    made = held.create(PODS, second, "default")
    assert without_chance(made) == without_chance(fresh)
    assert len(through) == stages


def test_a_pod_for_a_node_of_an_impossible_name_is_refused():
    held = objects()
    held.create(PODS, daemon("node-a"), "default")
    with pytest.raises(Invalid):
        held.create(PODS, daemon("No_Node"), "default")
