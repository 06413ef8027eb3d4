"""Expected APIServices, availability of remote ones, and responses to requests for them.

Spec: docs/decisions/0090. As upstream's aggregator: built-in groups are registered at startup with upstream's
priorities, those of custom resource definitions while they are served. Since no request is forwarded, a remote
APIService never becomes available.

Responses to requests for aggregated APIs. Everything below /apis/<group>/<version> belongs
to the service of that version's APIService. Requests are not forwarded (docs/decisions/0090), so the service is always
unavailable, reported in plain text instead of a Status.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any, Final

from weir.apiserver.transport.http import TEXT, Response
from weir.objects.group_priorities import PRIORITIES
from weir.objects.kinds import by_kind
from weir.objects.served_kinds import Registered, ServedKinds
from weir.values.quoting import quote

Document = Mapping[str, Any]

API_SERVICE: Final = by_kind("apiregistration.k8s.io/v1", "APIService")
SERVICE: Final = by_kind("v1", "Service")
SLICE: Final = by_kind("discovery.k8s.io/v1", "EndpointSlice")
MANAGED: Final = "kube-aggregator.kubernetes.io/automanaged"
ON_START, ALWAYS = "onstart", "true"
CUSTOM: Final = (1000, 100)  #: priorities of the groups and versions of definitions


def of_another_server(path: str, served: ServedKinds) -> Response | None:
    """Return the answer to a request for *path* when another server has to give it, None otherwise."""
    match path.split("/", 4):
        case ["", "apis", group, version, *_]:
            found = served.registered.get((group, version))
            if found is not None and found.remote:
                headers = [(b"X-Content-Type-Options", b"nosniff")]
                return Response(503, b"service unavailable\n", TEXT, headers)
    return None


def at_start(groups: Mapping[str, Iterable[str]]) -> dict[str, dict[str, Any]]:
    """Return the APIServices of the server's own *groups* and their versions, by name.

    >>> at_start({"": ["v1"]})["v1."]["spec"]
    {'groupPriorityMinimum': 18000, 'version': 'v1', 'versionPriority': 1}
    """
    found = {}
    for group, versions in groups.items():
        minimum, known = PRIORITIES.get(group, (0, {}))
        for version in versions:
            if version in known:
                found[f"{version}.{group}"] = _local(group, version, minimum, known[version], ON_START)
    return found


def of_definitions(groups: Mapping[str, Iterable[str]]) -> dict[str, dict[str, Any]]:
    """Return the APIServices of custom kinds' *groups* and their versions, by name."""
    return {
        f"{version}.{group}": _local(group, version, *CUSTOM, ALWAYS)
        for group, versions in groups.items()
        for version in versions
    }


def _local(group: str, version: str, minimum: int, priority: int, managed: str) -> dict[str, Any]:
    return {
        "apiVersion": API_SERVICE.api_version,
        "kind": API_SERVICE.kind,
        "metadata": {"name": f"{version}.{group}", "labels": {MANAGED: managed}},
        "spec": {
            **({"group": group} if group else {}),
            "groupPriorityMinimum": minimum,
            "version": version,
            "versionPriority": priority,
        },
    }


def managed_of(document: Document) -> str:
    """Return how the server keeps an APIService, "" when it does not."""
    return (document["metadata"].get("labels") or {}).get(MANAGED) or ""


def is_remote(document: Document) -> bool:
    """Return whether another server answers for it."""
    return (document.get("spec") or {}).get("service") is not None


def registered(documents: Iterable[Document], own: Container[str]) -> dict[tuple[str, str], Registered]:
    """Return the group versions of the APIServices that the server does not write itself, but for its *own* by name."""
    found = {}
    for one in documents:
        spec = one.get("spec") or {}
        if not managed_of(one) and one["metadata"]["name"] not in own:
            priorities = spec.get("groupPriorityMinimum") or 0, spec.get("versionPriority") or 0
            found[spec.get("group") or "", spec.get("version") or ""] = Registered(
                *priorities, is_remote(one)
            )
    return found


def availability(
    document: Document, service: Document | None, slices: Iterable[Document]
) -> tuple[str, str, str]:
    """Return status, reason and message of the condition Available of an APIService that names a service."""
    spec = document["spec"]
    wanted = spec["service"]
    named = f"service/{wanted['name']} in {quote(wanted['namespace'])}"
    if service is None:
        return "False", "ServiceNotFound", f"{named} is not present"
    port = wanted.get("port") or 443
    if (service["spec"].get("type") or "ClusterIP") == "ClusterIP":
        listening = [one for one in service["spec"].get("ports") or () if one.get("port") == port]
        if not listening:
            return "False", "ServicePortError", f"{named} is not listening on port {port}"
        found = list(slices)
        if not found:
            return "False", "EndpointsNotFound", f"cannot find endpointslices for {named}"
        name = listening[0].get("name") or ""
        if not any(_serves(one, name) for one in found):
            text = f"endpointslices for {named} have no addresses with port name {quote(name)}"
            return "False", "MissingEndpoints", text
    url = f"https://{service['spec'].get('clusterIP') or wanted['name']}:{port}/apis/{spec['group']}/{spec['version']}"
    text = f"failing or missing response from {url}: this server forwards no requests to services"
    return "False", "FailedDiscoveryCheck", text


def _serves(found: Document, port: str) -> bool:
    ready = any(
        (one.get("conditions") or {}).get("ready") is not False for one in found.get("endpoints") or ()
    )
    return ready and any(
        (one.get("name") or "") == port and one.get("port") is not None for one in found.get("ports") or ()
    )


def judged(document: Document, verdict: tuple[str, str, str], now: str) -> dict[str, Any] | None:
    """Return the status that says *verdict*, None when it is said already."""
    status, reason, message = verdict
    conditions = [dict(one) for one in (document.get("status") or {}).get("conditions") or ()]
    said = next((one for one in conditions if one.get("type") == "Available"), None)
    if said is None:
        said = {"type": "Available"}
        conditions.append(said)
    if (said.get("status"), said.get("reason"), said.get("message")) == verdict:
        return None
    if said.get("status") != status:
        said["lastTransitionTime"] = now
    said.update(status=status, reason=reason, message=message)
    return {"conditions": conditions}
