"""Discovery documents including custom kinds and APIServices.

Rebuilt on first request after a change. Groups of definitions and of remote APIServices follow the built-in ones, by
priority and name; of the latter only the names are known.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from weir.apiserver import discovery
from weir.apiserver.compat.aggregation import CUSTOM
from weir.apiserver.discovery import Off
from weir.compat.customresources.served import shown_kinds
from weir.objects import kinds
from weir.objects.kind import Document, Kind
from weir.objects.served_kinds import ServedKinds, kube_version_order

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def _version(name: str, known: Sequence[Kind]) -> Document:
    """Return a version as the aggregated document shows it; of one without kinds nothing could be had."""
    if not known:
        return {"version": name, "freshness": "Stale"}
    resources = [discovery.aggregated_resource(kind, named=True) for kind in known]
    return {"version": name, "resources": resources, "freshness": "Current"}


class ServedDiscovery:
    """The discovery documents of one server."""

    def __init__(self, served: ServedKinds, off: Off) -> None:
        self._served, self._off = served, off
        self._version = served.version
        self._made: dict[tuple[str, ...], Any] = {}
        self._shown: list[Kind] = []

    def _kept(self, key: tuple[str, ...], make: Callable[[], Any]) -> Any:
        if self._version != self._served.version or not self._made:
            self._made.clear()
            self._version = self._served.version
            self._shown = shown_kinds(self._served)
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def groups(self) -> dict[str, list[str]]:
        """Return the groups beside those of the table with their versions, the preferred one first."""
        found: dict[str, list[str]] = self._kept(("groups",), self._groups)
        return found

    def _groups(self) -> dict[str, list[str]]:
        ranks: dict[str, int] = {}
        versions: dict[str, dict[str, int]] = {}
        for name, served in self._served.groups(self._shown).items():
            ranks[name], versions[name] = CUSTOM[0], dict.fromkeys(served, CUSTOM[1])
        for (name, version), one in self._served.registered.items():
            ranks[name] = max(ranks.get(name, 0), one.group_priority)
            versions.setdefault(name, {})[version] = one.version_priority

        def order(name: str) -> Callable[[str], Any]:
            return lambda version: (versions[name][version], kube_version_order(version))

        return {
            name: sorted(versions[name], key=order(name), reverse=True)
            for name in sorted(versions, key=lambda name: (-ranks[name], name))
        }

    def group_list(self) -> bytes:
        """Return /apis."""
        found: bytes = self._kept(("group list",), self._group_list)
        return found

    def _group_list(self) -> bytes:
        document = _decode(discovery.group_list(self._off))
        known = {group["name"] for group in document["groups"]}
        document["groups"] += [
            discovery.group_document(name, versions)
            for name, versions in self.groups().items()
            if name not in known
        ]
        return _encode(document)

    def group(self, name: str) -> bytes | None:
        """Return /apis/<group>, None when it is not served."""
        static = discovery.group(name, self._off)
        versions = self.groups().get(name)
        if static is not None or versions is None:
            return static
        return _encode({"kind": "APIGroup", "apiVersion": "v1", **discovery.group_document(name, versions)})

    def resource_list(self, group: str, version: str) -> bytes | None:
        """Return /apis/<group>/<version>, None when it is not served."""
        if not self._served:
            return discovery.resource_list(group, version, self._off)
        self.groups()
        found = [kind for kind in self._shown if (kind.group, kind.version) == (group, version)]
        static = discovery.resource_list(group, version, self._off)
        if not found:
            return static
        document = _decode(static) if static is not None else None
        if document is None:
            document = {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": f"{group}/{version}",
                "resources": [],
            }
        document["resources"] += [one for kind in found for one in discovery.resources_of(kind)]
        return _encode(document)

    def aggregated(self, core: bool) -> tuple[bytes, bytes]:
        """Return the aggregated document of /api (core) or /apis, and its ETag."""
        if core or not (self._served or self._served.registered):
            return discovery.aggregated(core, self._off)
        found: tuple[bytes, bytes] = self._kept(("aggregated",), self._aggregated)
        return found

    def _aggregated(self) -> tuple[bytes, bytes]:
        document = _decode(discovery.aggregated(False, self._off)[0])
        known = {item["metadata"].get("name") for item in document["items"]}
        by_version: dict[tuple[str, str], list[Kind]] = {}
        for kind in self._shown:
            by_version.setdefault((kind.group, kind.version), []).append(kind)
        for name, versions in self.groups().items():
            shown = [
                _version(version, by_version.get((name, version), ()))
                for version in versions
                if (name, version) in by_version or self._served.registered[name, version].remote
            ]
            if name not in known and shown:
                document["items"].append({"metadata": {"name": name}, "versions": shown})
        body = _encode(document)
        return body, f'"{hashlib.sha512(body).hexdigest().upper()}"'.encode()

    def root_paths(self) -> bytes:
        """Return the paths of /."""
        document = _decode(discovery.root_paths(self._off))
        for name, versions in self.groups().items():
            document["paths"] += [f"/apis/{name}", *(f"/apis/{name}/{version}" for version in versions)]
        document["paths"] = sorted(set(document["paths"]))
        return _encode(document)

    def knows(self, group: str) -> bool:
        """Return whether *group* is built in: a missing resource there is reported with a Status."""
        return group in kinds.groups() and group not in self._off
