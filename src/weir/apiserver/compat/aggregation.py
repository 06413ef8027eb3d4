"""API aggregation: APIService objects, their availability, and responses for groups of other servers."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from weir import errors
from weir.apiserver.auth.authn import SYSTEM
from weir.apiserver.registry.deletion import Deletion
from weir.apiserver.registry.verbs import Verbs, msgspec_copy
from weir.apiserver.registry.write_request import WriteRequest
from weir.apiserver.transport.http import TEXT, Response
from weir.apiserver.transport.options import DeleteOptions
from weir.objects.kind import Kind
from weir.objects.kinds import CUSTOM_RESOURCE_DEFINITIONS, ENDPOINT_SLICES, PRIORITIES, SERVICES, by_kind
from weir.objects.served_kinds import Registered, ServedKinds
from weir.observe.logs import Log
from weir.store import StoreError, StoreUnavailable
from weir.values.quoting import quote

# ── expected APIServices, availability of remote ones, and responses to requests for them ──
# Spec: docs/decisions/0090. As upstream's aggregator: built-in groups are registered at startup with upstream's
# priorities, those of custom resource definitions while they are served. Since no request is forwarded, a remote
# APIService never becomes available.
#
# Everything below /apis/<group>/<version> belongs to the service of that version's APIService. Requests are not
# forwarded (docs/decisions/0090), so the service is always unavailable, reported in plain text instead of a Status.


Document = Mapping[str, Any]

API_SERVICE: Final = by_kind("apiregistration.k8s.io/v1", "APIService")
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


# ── maintains APIService objects: autoregistration of local groups, and availability of remote ones ──
# As upstream's autoregistration: built-in groups are registered once at startup; those of definitions while they are
# served, and restored when changed or deleted. With several servers on one store all of them write; the losers find
# nothing left to do. The expected objects are computed in .objects.


log = Log("weir.apiserver.aggregation")
MANAGER: Final = "kube-apiserver"
OWNER_LABEL: Final = "kubernetes.io/service-name"


class ApiServiceController:
    """Keeps the APIServices of one server."""

    def __init__(self, verbs: Verbs, served: ServedKinds, groups: Mapping[str, Iterable[str]]) -> None:
        """*groups* are the server's own, with their versions."""
        self._verbs, self._served, self._groups = verbs, served, groups
        self._deletion = Deletion(verbs)
        self._working: asyncio.Task[None] | None = None
        self._again = self._stopped = False
        self._remote = False  #: whether there is one of another server, whose services matter

    async def start(self) -> None:
        """Register the server's own groups, then keep what changes."""
        wanted = at_start(self._groups)
        stored = {found["metadata"]["name"]: found for found in self._verbs.documents(API_SERVICE)}
        await asyncio.gather(*(self._ensure(one, stored.get(name)) for name, one in wanted.items()))
        for name, found in stored.items():
            if managed_of(found) == ON_START and name not in wanted:
                await self._delete(found)
        for kind in (API_SERVICE, CUSTOM_RESOURCE_DEFINITIONS, SERVICES, ENDPOINT_SLICES):
            self._follow(kind)
        self._changed()

    def stop(self) -> None:
        """Let everything be as it is."""
        self._stopped = True
        if self._working is not None:
            self._working.cancel()

    def _follow(self, kind: Kind) -> None:
        store = self._verbs.store

        def changed(events: Iterable[Any]) -> None:
            if self._remote or kind in (API_SERVICE, CUSTOM_RESOURCE_DEFINITIONS):
                self._changed()

        def lost(reason: StoreError) -> None:
            if not self._stopped:
                self._changed()
                self._follow(kind)

        store.watch(kind.prefix, store.revision, changed, lost)

    def _changed(self) -> None:
        if self._stopped:
            return
        if self._working is not None:
            self._again = True
            return
        self._working = asyncio.get_running_loop().create_task(self._work())
        self._working.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._working = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the APIServices cannot be kept", err=error)
        if self._again:
            self._again = False
            self._changed()

    async def _work(self) -> None:
        try:
            await self._keep()
        except (errors.NotFound, errors.Conflict):
            self._again = True  # changed meanwhile: look once more
        except (errors.ApiError, StoreUnavailable) as error:
            log.error("the APIServices cannot be kept", err=error)

    async def _keep(self) -> None:
        stored = {found["metadata"]["name"]: found for found in self._verbs.documents(API_SERVICE)}
        self._remote = any(map(is_remote, stored.values()))
        wanted = of_definitions(self._served.groups())
        own = at_start(self._groups)
        self._served.register(registered(stored.values(), own))
        await asyncio.gather(
            *(self._ensure(one, stored.get(name)) for name, one in wanted.items() if name not in own)
        )
        for name, found in stored.items():
            if managed_of(found) == ALWAYS and name not in wanted:
                await self._delete(found)
            elif is_remote(found):
                await self._judge(name, found)

    async def _ensure(self, wanted: dict[str, Any], stored: Document | None) -> None:
        """Make what is missing, and let what the server keeps say what it should."""
        name = wanted["metadata"]["name"]
        write = WriteRequest(API_SERVICE, "", name, SYSTEM, MANAGER)
        if stored is None:
            write.name = ""
            with suppress(errors.AlreadyExists):  # by another server, a moment ago
                await self._verbs.create_document(write, msgspec_copy(wanted))
        elif managed_of(stored) and stored.get("spec") != wanted["spec"]:

            def revised(old: dict[str, Any]) -> dict[str, Any]:
                return {**old, "spec": msgspec_copy(wanted["spec"])}

            await self._verbs.change(write, revised)

    async def _delete(self, found: Document) -> None:
        metadata = found["metadata"]
        with suppress(errors.NotFound, errors.Conflict):
            options = DeleteOptions(uid=metadata["uid"])
            await self._deletion.delete(API_SERVICE, "", metadata["name"], options, SYSTEM, [])

    async def _judge(self, name: str, found: Document) -> None:
        service = found["spec"]["service"]
        namespace = service.get("namespace") or ""
        slices = (
            one
            for one in self._verbs.reader.list_now(ENDPOINT_SLICES, namespace)
            if (one["metadata"].get("labels") or {}).get(OWNER_LABEL) == service.get("name")
        )
        there = self._verbs.reader.get_now(SERVICES, namespace, service.get("name") or "")
        status = judged(found, availability(found, there, slices), self._verbs.now)
        if status is not None:
            write = WriteRequest(API_SERVICE, "", name, SYSTEM, MANAGER, "status")
            await self._verbs.change(write, lambda old: {**old, "status": msgspec_copy(status)})
