"""Field and kind descriptions for OpenAPI, from the package lightkube-models.

Its modules are parsed as text, never imported: importing them costs 23 MB and a sixth of a second. Loaded when an
OpenAPI document is first requested. Fields of weir's own are described here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

_CLASS: Final = re.compile(
    r'^class (\w+)\(DictMixin\):\n    r"""(.*?)"""\n(.*?)(?=^@dataclass|^class |^\w|\Z)', re.S | re.M
)
_ATTRIBUTE: Final = re.compile(r"^    (\w+): '([^\n]*?)'(?: = (.*))?$", re.M)
_PARAMETER: Final = re.compile(
    r"^      \* \*\*(\w+)\*\* ``(?:[^`]*)`` - (.*?)(?=^      \* \*\*|\Z)", re.S | re.M
)
_JSON_NAME: Final = re.compile(r"""metadata=\{"json": "([^"]+)"\}""")

#: Fields weir adds, and fields it takes more in than Kubernetes 1.37, by struct and field, in every group and version.
#: With an empty field: the struct itself.
ADDED: Final = {
    ("Toleration", "expression"): (
        "Expression is a CEL expression over the variable `taint` (key, value, effect) that decides whether this "
        "toleration matches a taint. It must evaluate to a boolean. When it is set, key, operator, value and effect "
        "must be empty. Requires the feature gate TaintTolerationCEL."
    ),
    ("Toleration", "operator"): (
        "Operator says how the toleration's value is compared with the taint's. Exists: the key alone decides. Equal "
        "(the default): the values are the same. Lt and Gt: the taint's value, an integer, is less or greater than "
        "this value (feature gate TaintTolerationComparisonOperators). SemverLt, SemverGt and SemverEq: the taint's "
        "value, a version, is lower than, higher than or equal to this one (feature gate "
        "TaintTolerationNodeAffinitySemverComparisonOperators)."
    ),
    ("NodeSelectorRequirement", "operator"): (
        "Operator relates the label's value to the values: In, NotIn, Exists, DoesNotExist, Gt, Lt, and for versions "
        "SemverLt, SemverGt and SemverEq."
    ),
    ("DeviceToleration", "expression"): (
        "Expression is a CEL expression over the variable `taint` (key, value, effect) that decides whether this "
        "toleration matches a device taint. When it is set, key, operator, value and effect must be empty."
    ),
    ("DeviceTaint", "description"): "Description says to people why the taint is there. At most 1024 bytes.",
    ("DeviceTaint", "data"): "Data is a JSON object with details for programs. At most 10 KiB.",
    ("DeviceTaint", "evictionsPerSecond"): (
        "EvictionsPerSecond limits how fast pods are evicted because of this taint. Only used with the effect "
        "NoExecute; 10 when unset."
    ),
    ("ResourceSliceSpec", "taints"): (
        "Taints names devices of this pool, by name, and the taints they carry. May not be combined with devices or "
        "sharedCounters."
    ),
    (
        "DeviceTaintSelector",
        "deviceClassName",
    ): "DeviceClassName selects the devices that match this DeviceClass.",
    ("DeviceTaintSelector", "selectors"): "Selectors are CEL expressions that must all be true for a device.",
    ("SliceDeviceTaint", "device"): "Device is the name of the device that carries the taint.",
    ("SliceDeviceTaint", "taint"): "Taint is what the device carries.",
    ("NodeMetrics", ""): "NodeMetrics says how much of its resources a node uses.",
    ("NodeMetrics", "timestamp"): "Timestamp is when the usage was measured: the end of the window.",
    ("NodeMetrics", "window"): "Window is the time before the timestamp over which the usage was measured.",
    ("NodeMetrics", "usage"): "Usage is what the node uses, its pods included, by resource: cpu and memory.",
    ("NodeMetricsList", ""): "NodeMetricsList is a list of NodeMetrics.",
    ("PodMetrics", ""): "PodMetrics says how much of their resources the containers of a pod use.",
    ("PodMetrics", "timestamp"): "Timestamp is when the usage was measured: the end of the window.",
    ("PodMetrics", "window"): "Window is the time before the timestamp over which the usage was measured.",
    ("PodMetrics", "containers"): "Containers are the measured containers of the pod.",
    ("PodMetricsList", ""): "PodMetricsList is a list of PodMetrics.",
    ("ContainerMetrics", ""): "ContainerMetrics says how much of its resources a container uses.",
    ("ContainerMetrics", "name"): "Name is the name of the container in the pod's spec.",
    ("ContainerMetrics", "usage"): "Usage is what the container uses, by resource: cpu and memory.",
}


@dataclass(frozen=True, slots=True)
class Description:
    """The words for one struct, and for each of its fields by JSON name."""

    text: str
    fields: dict[str, str]
    #: The package's own type annotations, by JSON name.
    types: dict[str, str]


@cache
def _module(group: str, version: str) -> dict[str, Description]:
    spec = find_spec("lightkube")  # finding a top-level package runs nothing of it
    places = list(spec.submodule_search_locations or ()) if spec else []
    found = (Path(place) / "models" / f"{group}_{version}.py" for place in places)
    path = next((path for path in found if path.is_file()), None)
    if path is None:
        return {}
    return {match[1]: _parse(match[2], match[3]) for match in _CLASS.finditer(path.read_text("utf-8"))}


def _parse(docstring: str, body: str) -> Description:
    text, _, parameters = docstring.partition("**parameters**")
    names: dict[str, str] = {}
    types: dict[str, str] = {}
    for attribute in _ATTRIBUTE.finditer(body):
        alias = _JSON_NAME.search(attribute[3] or "")
        names[attribute[1]] = alias[1] if alias else attribute[1]
        types[names[attribute[1]]] = attribute[2]
    fields = {names.get(found[1], found[1]): _unwrap(found[2]) for found in _PARAMETER.finditer(parameters)}
    return Description(_unwrap(text), fields, types)


def _unwrap(text: str) -> str:
    """Return *text* without the package's line breaks; blank lines and list items stay apart."""
    paragraphs = re.split(r"\n\s*\n", text.strip())
    return "\n\n".join(" ".join(line.strip() for line in paragraph.splitlines()) for paragraph in paragraphs)


def describe(name: str) -> Description:
    """Return the description of the struct called *name* in the field table; empty words when there are none.

    >>> describe("core.v1.Toleration").fields["key"].partition(".")[0]
    'Key is the taint key that the toleration applies to'
    """
    package, _, struct = name.rpartition(".")
    group, _, version = package.partition(".")
    found = _module(group, version).get(struct) or Description("", {}, {})
    added = {field: text for (of, field), text in ADDED.items() if of == struct}
    if not added:
        return found
    return Description(added.pop("", found.text), {**found.fields, **added}, found.types)
