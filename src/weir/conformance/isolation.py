"""Stories that would affect more than their own objects, which are not played in a live cluster.

Names and nodes are isolated, but some objects are cluster-wide: a rule for devices of every driver, a webhook, a
default class. Gates are set where components are started.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from weir.objects.kinds import find_kind
from weir.simulation.demo.story import Story, split_object

Document = dict[str, Any]
#: What has no namespace and touches nothing but what names it.
HARMLESS: Final = frozenset(
    {
        "ClusterRole", "DeviceClass", "DeviceTaintRule", "Namespace", "PersistentVolume", "PriorityClass",
        "ResourceSlice", "RuntimeClass", "StorageClass",
    }
)  # fmt: skip
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
GATES: Final = "it restarts components with other gates: weir demo plays it"
PLAN: Final = "it carries out a plan, which may change any node: weir demo plays it"


def isolation_problem(story: Story) -> str:
    """Return why *story* cannot be played in a shared cluster; "" if it can.

    >>> from weir.simulation.demo.story import parse_story
    >>> rule = "{apiVersion: resource.k8s.io/v1, kind: DeviceTaintRule, metadata: {name: r}, spec: {}}"
    >>> isolation_problem(parse_story(f"{{title: t, source: s, asks: a, steps: [{{event: e, apply: [{rule}]}}]}}", "x"))
    'DeviceTaintRule/r names no driver: it would taint the devices of others'
    """
    if story.sets_gates:
        return GATES
    if story.has_plan:
        return PLAN
    return next(_reasons(story), "")


def _reasons(story: Story) -> Iterator[str]:
    for document in documents_of(story):
        kind = find_kind(document["apiVersion"], document["kind"])
        name = f"{document['kind']}/{document['metadata']['name']}"
        if kind is not None and not kind.namespaced and document["kind"] not in HARMLESS:
            yield f"{name} would reach the whole cluster"
        if document["kind"] == "DeviceTaintRule" and not _driver(document.get("spec")):
            yield f"{name} names no driver: it would taint the devices of others"
        if document.get("globalDefault") or (document["metadata"].get("annotations") or {}).get(
            _DEFAULT_CLASS
        ):
            yield f"{name} would be the default of the whole cluster"
    for step in story.steps:
        for patch in step.patch:
            selector = (patch.merge.get("spec") or {}).get("deviceSelector", {})
            kind_name = split_object(patch.object)[0]
            if kind_name == "DeviceTaintRule" and (selector is None or "driver" in (selector or {})):
                yield f"{patch.object} would come to name another driver"


def documents_of(story: Story) -> list[Document]:
    """Return every object of *story*."""
    steps = [each for step in story.steps for each in (*step.apply, *step.everywhere)]
    return [*story.objects, *steps]


def _driver(spec: Any) -> str:
    selector = (spec or {}).get("deviceSelector") or {}
    return str(selector.get("driver") or "")
