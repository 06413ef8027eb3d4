"""Environment variables of a container, from its pod, ConfigMaps, Secrets and Services.

Spec: core/v1 EnvVar, EnvVarSource, EnvFromSource, ObjectFieldSelector, ResourceFieldSelector; `$(NAME)` in values,
commands and arguments expands to a variable, `$$(NAME)` to itself. A missing ConfigMap, Secret or key prevents the
start, with the kubelet's messages. Variables from files are unknown; a command that could read one is not playable.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from weir.simulation.kubelet.programs.syntax import Unplayable
from weir.values.quantity import parse_quantity

Document = Mapping[str, Any]
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ELEMENT: Final = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")
_NAMED: Final = re.compile(r"\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")


class Missing(Exception):
    """A ConfigMap, Secret or key that a container cannot be created without."""


@dataclass(frozen=True)
class Objects:
    """What a pod refers to, as it was when its containers were created; None: it is not there."""

    found: Mapping[tuple[str, str], Document | None] = field(default_factory=dict)  #: by kind and name
    services: tuple[Document, ...] = ()

    def data(self, kind: str, name: str) -> dict[str, str] | None:
        """Return the keys and texts of a ConfigMap or Secret."""
        document = self.found.get((kind, name))
        if document is None:
            return None
        texts = {**(document.get("data") or {})}
        if kind == "Secret":
            return {key: _decoded(text) for key, text in texts.items()}
        return {**texts, **{key: _decoded(text) for key, text in (document.get("binaryData") or {}).items()}}


NOTHING: Final = Objects()


def references(pod: Document) -> Iterator[tuple[str, str]]:
    """Yield kind and name of the ConfigMaps and Secrets that the variables of a pod's containers come from."""
    spec = pod["spec"]
    for part in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(part) or ():
            for each in container.get("envFrom") or ():
                for source, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
                    if source in each:
                        yield kind, each[source].get("name", "")
            for each in container.get("env") or ():
                for source, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
                    if found := (each.get("valueFrom") or {}).get(source):
                        yield kind, found.get("name", "")


def reads_services(pod: Document) -> bool:
    """Return whether a command of the pod may print or use the variables of Services."""
    spec = pod["spec"]
    if spec.get("enableServiceLinks") is False:
        return False
    words = (
        word
        for part in ("initContainers", "containers", "ephemeralContainers")
        for container in spec.get(part) or ()
        for word in (*(container.get("command") or ()), *(container.get("args") or ()))
    )
    return any("env" in word or "_SERVICE_" in word or "_PORT" in word for word in words)


def environment(
    pod: Document, container: Document, node: Document, objects: Objects = NOTHING
) -> dict[str, str]:
    """Return the variables of a container; raises Missing, and Unplayable where one is not known."""
    spec = pod["spec"]
    found = {"PATH": PATH, "HOSTNAME": hostnames(pod)[0], "HOME": "/root"}
    if spec.get("enableServiceLinks") is not False:
        for service in objects.services:
            found.update(service_variables(service))
    for each in container.get("envFrom") or ():
        found.update(_all_of(each, pod, objects))
    for each in container.get("env") or ():
        if "valueFrom" in each:
            value = _value(each["valueFrom"], pod, container, node, objects)
            if value is not None:
                found[each["name"]] = value
        else:
            found[each["name"]] = expand(each.get("value") or "", found)
    return found


def hostnames(pod: Document) -> tuple[str, str]:
    """Return the name of a pod's host, and its name in the domain of the cluster, if it has one.

    >>> spec = {"hostname": "db", "subdomain": "data"}
    >>> hostnames({"metadata": {"name": "p", "namespace": "d"}, "spec": spec})
    ('db', 'db.data.d.svc.cluster.local')
    """
    spec, metadata = pod["spec"], pod["metadata"]
    if override := spec.get("hostnameOverride"):
        return str(override), str(override)
    name = str(spec.get("hostname") or metadata["name"][:63])
    if not spec.get("subdomain"):
        return name, name
    full = f"{name}.{spec['subdomain']}.{metadata['namespace']}.svc.cluster.local"
    return (full if spec.get("setHostnameAsFQDN") else name), full


def _all_of(source: Document, pod: Document, objects: Objects) -> dict[str, str]:
    """Return every key of a ConfigMap or Secret as a variable."""
    for name, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
        if name in source:
            reference = source[name]
            data = objects.data(kind, reference.get("name", ""))
            if data is None:
                if reference.get("optional"):
                    return {}
                raise Missing(f'{kind.lower()} "{reference.get("name", "")}" not found')
            return {f"{source.get('prefix', '')}{key}": text for key, text in data.items()}
    return {}


def _value(
    source: Document, pod: Document, container: Document, node: Document, objects: Objects
) -> str | None:
    if selected := source.get("fieldRef"):
        return _field(selected["fieldPath"], pod)
    if resource := source.get("resourceFieldRef"):
        return _resource(resource, pod, container, node)
    for name, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
        if name in source:
            reference, namespace = source[name], pod["metadata"]["namespace"]
            whose, key = reference.get("name", ""), reference["key"]
            data = objects.data(kind, whose)
            if data is not None and key in data:
                return data[key]
            if reference.get("optional"):
                return None
            if data is None:
                raise Missing(f'{kind.lower()} "{whose}" not found')
            raise Missing(f"couldn't find key {key} in {kind} {namespace}/{whose}")
    raise Unplayable("a variable from a file")


def service_variables(service: Document) -> dict[str, str]:
    """Return the variables that containers get of a Service with an address of its own.

    >>> spec = {"clusterIP": "10.0.0.9", "ports": [{"port": 80, "name": "http"}]}
    >>> sorted(service_variables({"metadata": {"name": "my-db"}, "spec": spec}))[:3]
    ['MY_DB_PORT', 'MY_DB_PORT_80_TCP', 'MY_DB_PORT_80_TCP_ADDR']
    """
    spec = service["spec"]
    address, ports = spec.get("clusterIP", ""), spec.get("ports") or ()
    if address in ("", "None") or not ports:
        return {}
    name = service["metadata"]["name"].upper().replace("-", "_")
    host = f"[{address}]" if ":" in address else address
    found = {f"{name}_SERVICE_HOST": address, f"{name}_SERVICE_PORT": str(ports[0]["port"])}
    for port in ports:
        if port.get("name"):
            found[f"{name}_SERVICE_PORT_{port['name'].upper().replace('-', '_')}"] = str(port["port"])
    for number, port in enumerate(ports):
        protocol = port.get("protocol", "TCP")
        whole = f"{protocol.lower()}://{host}:{port['port']}"
        prefix = f"{name}_PORT_{port['port']}_{protocol}"
        if number == 0:
            found[f"{name}_PORT"] = whole
        found[prefix] = whole
        found[f"{prefix}_PROTO"] = protocol.lower()
        found[f"{prefix}_PORT"] = str(port["port"])
        found[f"{prefix}_ADDR"] = address
    return found


def sub_path(mount: Document, variables: Mapping[str, str]) -> str:
    """Return the part of a volume that is mounted; raises Missing, in the kubelet's words, where it cannot be."""
    path = str(mount.get("subPath") or "")
    if expression := mount.get("subPathExpr"):
        path = expand(expression, variables)
        named = [found[1] for found in _NAMED.finditer(expression) if found[1]]
        if unknown := [name for name in named if name not in variables]:
            raise Missing("missing value for " + ", ".join(f'"{name}"' for name in unknown))
    if path.startswith("/"):
        raise Missing(f"error SubPath `{path}` must not be an absolute path")
    if ".." in path.split("/"):
        raise Missing(f"unable to provision SubPath `{path}`: must not contain '..'")
    return path


def _decoded(text: str) -> str:
    return base64.b64decode(text).decode("utf-8", "replace")


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
