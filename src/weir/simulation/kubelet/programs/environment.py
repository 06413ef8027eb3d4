"""Which environment variables does a container have? As far as its pod says it.

Spec: core/v1 EnvVar, EnvVarSource, ObjectFieldSelector, ResourceFieldSelector; `$(NAME)` in values, commands and
arguments stands for a variable, `$$(NAME)` for itself.
What surprises: a variable that comes from a ConfigMap, a Secret or a file is not known here; a command that could read
it cannot be played.
Not here: what the command does with them (.shell).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from weir.simulation.kubelet.programs.syntax import Unplayable
from weir.values.quantity import parse_quantity

Document = Mapping[str, Any]
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ELEMENT: Final = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")
_NAMED: Final = re.compile(r"\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")


def environment(pod: Document, container: Document, node: Document) -> dict[str, str]:
    """Return the variables of a container; raises Unplayable where one is not known."""
    if container.get("envFrom"):
        raise Unplayable("variables from another object")
    spec = pod["spec"]
    found = {"PATH": PATH, "HOSTNAME": spec.get("hostname") or pod["metadata"]["name"][:63], "HOME": "/root"}
    for each in container.get("env") or ():
        if "valueFrom" in each:
            found[each["name"]] = _value(each["valueFrom"], pod, container, node)
        else:
            found[each["name"]] = expand(each.get("value") or "", found)
    return found


def _value(source: Document, pod: Document, container: Document, node: Document) -> str:
    if field := source.get("fieldRef"):
        return _field(field["fieldPath"], pod)
    if resource := source.get("resourceFieldRef"):
        return _resource(resource, pod, container, node)
    raise Unplayable("a variable from another object")


def _field(path: str, pod: Document) -> str:
    """Return a field of the pod as the downward API shows it."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    if element := _ELEMENT.fullmatch(path):
        return str((metadata.get(element[1]) or {}).get(element[2], ""))
    known = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
        "status.podIP": status.get("podIP", ""),
        "status.podIPs": ",".join(each["ip"] for each in status.get("podIPs") or ()),
        "status.hostIP": status.get("hostIP", ""),
        "status.hostIPs": ",".join(each["ip"] for each in status.get("hostIPs") or ()),
    }
    if path not in known:
        raise Unplayable(f"field {path}")
    return str(known[path])


def _resource(selector: Document, pod: Document, container: Document, node: Document) -> str:
    """Return a request or limit in units of the divisor, rounded up; the node's amount where there is no limit."""
    name = selector.get("containerName") or container["name"]
    every = [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ())]
    whose = next((each for each in every if each["name"] == name), container)
    kind, _, resource = selector["resource"].partition(".")
    amount = ((whose.get("resources") or {}).get(kind) or {}).get(resource)
    if amount is None and kind == "limits":
        amount = ((node.get("status") or {}).get("allocatable") or {}).get(resource)
    divisor = _number(selector.get("divisor") or "1") or Fraction(1)
    return str(math.ceil(_number(amount or "0") / divisor))


def _number(quantity: object) -> Fraction:
    found = parse_quantity(str(quantity))
    return found.unscaled * Fraction(10) ** found.scale


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Return a text with `$(NAME)` replaced; what names no variable stays.

    >>> expand("$(A)-$(B)-$$(A)", {"A": "1"})
    '1-$(B)-$(A)'
    """

    def replaced(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else variables.get(found[1], found[0])

    return _NAMED.sub(replaced, text)


def expand_all(words: Sequence[str], variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return a command's words with variables replaced."""
    return tuple(expand(each, variables) for each in words)
