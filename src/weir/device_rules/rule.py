"""A DeviceTaintRule made of a selector and a taint: its name, its document, its effect in words."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from weir.devices.inventory import Preview

Document = dict[str, Any]

_MOST_PODS: Final = 20


def make_rule(selector: Document, taint: Document, name: str, rate: int | None, description: str) -> Document:
    """Return the rule that taints the selected devices; what the API would refuse is a usage error."""
    from weir.validate import validate

    if rate is not None:
        taint["evictionsPerSecond"] = rate
    if description:
        taint["description"] = description
    rule = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": name or rule_name(selector, taint["key"])},
        "spec": {"deviceSelector": selector, "taint": taint},
    }
    # As the dialect of the KEPs' stories has it: whether this cluster knows such names, it says itself.
    if wrong := validate({**rule, "apiVersion": "resource.k8s.io/v1alpha4"}):
        raise click.UsageError("; ".join(" ".join(str(error).split()) for error in wrong))
    return rule


def by_pool(rule: Document, objects: Iterable[Document]) -> list[Document]:
    """Return a rule as one for each pool that the driver it selects publishes among *objects*."""
    selector, key = rule["spec"].get("deviceSelector") or {}, rule["spec"]["taint"]["key"]
    if "pool" in selector:
        return [rule]
    pools = {
        str(each["spec"]["pool"]["name"])
        for each in objects
        if each.get("kind") == "ResourceSlice"
        and selector.get("driver", each["spec"].get("driver")) == each["spec"].get("driver")
    }
    chosen = [{**selector, "pool": pool} for pool in sorted(pools)]
    if not chosen:
        raise click.UsageError("no ResourceSlice has a device that this selector means")
    return [
        {
            **rule,
            "metadata": {"name": rule_name(one, key)},
            "spec": {**rule["spec"], "deviceSelector": one},
        }
        for one in chosen
    ]


def undo(rule: Document) -> str:
    """Return how to take a rule back."""
    return f"undo: kubectl delete devicetaintrule {rule['metadata']['name']}"


def rule_name(selector: Document, key: str) -> str:
    """Return the name of the rule for a selector and a key: the same question, the same rule.

    >>> rule_name({"pool": "node-1"}, "example.com/Hot")
    'hot-8af1d074'
    """
    digest = hashlib.sha256(json.dumps([selector, key], sort_keys=True).encode()).hexdigest()[:8]
    bare = re.sub(r"[^a-z0-9]+", "-", key.rpartition("/")[2].lower()).strip("-")
    return f"{bare or 'taint'}-{digest}"


def rule_effect(rule: Document, preview: Preview, now: datetime) -> Iterator[str]:
    """Yield what the rule does, in the words of its effect."""
    from weir.apiserver.printers import human_duration

    effect = rule["spec"]["taint"]["effect"]
    published, allocated = counted(preview.published, "published"), counted(preview.allocated, "allocated")
    yield f"{published} and {allocated} selected"
    if preview.selects_nothing:
        yield f"the rule {preview.missed}; `weir device list -o name` shows which devices there are"
    if preview.failed:
        yield f"devices for which a selector fails are not selected: {preview.failed}"
    if not preview.pods:
        yield "no pod has to leave" if effect == "NoExecute" else "no pod would have to leave with NoExecute"
        return
    would = "must leave" if effect == "NoExecute" else "would have to leave if the effect was NoExecute"
    yield f"{counted(len(preview.pods), 'pod')} {would}:"
    for pod, at in preview.pods[:_MOST_PODS]:
        left = (at - now).total_seconds()
        yield f"  {pod} " + (f"in {human_duration(left)}" if left > 0 else "at once")
    if len(preview.pods) > _MOST_PODS:
        yield f"  … and {len(preview.pods) - _MOST_PODS} more"


def counted(number: int, what: str) -> str:
    noun = "pod" if what == "pod" else f"{what} device"
    return f"{number} {noun}{'' if number == 1 else 's'}"
