"""Discovery documents, version and health checks.

Spec: apiserver.md 14 "Discovery and health". Derived from the table of kinds; bodies are built once.
"""

from __future__ import annotations

import hashlib
from functools import cache

import msgspec

from weir.objects import kinds
from weir.objects.kind import Document, Kind, Subresource

AGGREGATED_TYPE = b"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
CHECKS = (
    "ping",
    "log",
    "etcd",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
)
_encode = msgspec.json.Encoder().encode
#: Groups, and kinds as `group/version/plural`, that are off or not served; left out of every document.
Off = frozenset[str]
NOTHING_OFF: Off = frozenset()


def _groups(off: Off) -> dict[str, list[str]]:
    return {
        name: [each for each in versions if not off or _shown(name, each, off)]
        for name, versions in kinds.groups().items()
        if name not in off
    }


def is_served(kind: Kind, off: Off) -> bool:
    """Return whether documents show *kind*."""
    return not off or (kind.group not in off and f"{kind.api_version}/{kind.plural}" not in off)


def _shown(group: str, version: str, off: Off) -> list[Kind]:
    return [kind for kind in kinds.group_versions(group, version) if is_served(kind, off)]


@cache
def version(release: str = "") -> bytes:
    """Return /version: the Kubernetes release whose API this is, or the older one that it plays."""
    minor = release.partition(".")[2] or "37"
    return _encode(
        {
            "major": "1",
            "minor": minor,
            "emulationMajor": "1",
            "emulationMinor": minor,
            "minCompatibilityMajor": "1",
            "minCompatibilityMinor": str(int(minor) - 1),
            "gitVersion": f"v{release}.0+weir" if release else "v1.37.0-rc.1+weir",
            "gitCommit": "",
            "gitTreeState": "archive",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": "none",
            "compiler": "cpython",
            "platform": "linux/any",
        }
    )


def api_versions(address: str) -> bytes:
    """Return /api."""
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return _encode({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses})


def group_document(name: str, versions: list[str]) -> Document:
    """Return one group with its versions, of which the first is preferred."""
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


@cache
def group_list(off: Off = NOTHING_OFF) -> bytes:
    """Return /apis."""
    found = [group_document(name, versions) for name, versions in _groups(off).items() if name]
    return _encode({"kind": "APIGroupList", "apiVersion": "v1", "groups": found})


@cache
def group(name: str, off: Off = NOTHING_OFF) -> bytes | None:
    """Return /apis/<group>, None when it is not served."""
    versions = _groups(off).get(name)
    if not name or not versions:
        return None
    return _encode({"kind": "APIGroup", "apiVersion": "v1", **group_document(name, versions)})


@cache
def resource_list(name: str, served: str, off: Off = NOTHING_OFF) -> bytes | None:
    """Return /api/v1 or /apis/<group>/<version>, None when it is not served."""
    found = _shown(name, served, off)
    if not found:
        return None
    resources: list[Document] = []
    for kind in found:
        resources += resources_of(kind)
    document: Document = {"kind": "APIResourceList"}
    if name:
        document["apiVersion"] = "v1"
    document["groupVersion"] = f"{name}/{served}" if name else served
    document["resources"] = resources
    return _encode(document)


def resources_of(kind: Kind) -> list[Document]:
    """Return a kind and its subresources as a list of resources shows them."""
    return [
        _resource(kind),
        *(_subresource(kind, sub) for sub in sorted(kind.subresources, key=lambda s: s.name)),
    ]


def _resource(kind: Kind) -> Document:
    shown: Document = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        shown["shortNames"] = list(kind.short_names)
    if kind.categories:
        shown["categories"] = list(kind.categories)
    if kind.stored:
        shown["storageVersionHash"] = kind.storage_version_hash
    return shown


def _subresource(kind: Kind, sub: Subresource) -> Document:
    shown: Document = {
        "name": f"{kind.plural}/{sub.name}",
        "singularName": "",
        "namespaced": kind.namespaced,
    }
    if sub.group:
        shown["group"], shown["version"] = sub.group, sub.version
    shown["kind"] = sub.kind or kind.kind
    shown["verbs"] = list(sub.verbs)
    return shown


@cache
def aggregated(core: bool, off: Off = NOTHING_OFF) -> tuple[bytes, bytes]:
    """Return the aggregated discovery document of /api (core) or /apis, and its ETag."""
    items = []
    for name, versions in _groups(off).items():
        if (name == "") is not core:
            continue
        items.append(
            {
                "metadata": {"name": name} if name else {},
                "versions": [
                    {
                        "version": served,
                        "resources": [aggregated_resource(kind) for kind in _shown(name, served, off)],
                        "freshness": "Current",
                    }
                    for served in versions
                ],
            }
        )
    body = _encode(
        {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": items,
        }
    )
    return body, f'"{hashlib.sha512(body).hexdigest().upper()}"'.encode()


def _response_kind(kind: str, group: str = "", served: str = "") -> Document:
    return {"group": group, "version": served, "kind": kind}


def aggregated_resource(kind: Kind, *, named: bool = False) -> Document:
    """Return a kind as the aggregated document shows it; *named* with group and version spelled out."""
    where = (kind.group, kind.version) if named else ("", "")
    shown: Document = {
        "resource": kind.plural,
        "responseKind": _response_kind(kind.kind, *where),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        shown["shortNames"] = list(kind.short_names)
    if kind.categories:
        shown["categories"] = list(kind.categories)
    if kind.subresources:
        shown["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": _response_kind(
                    sub.kind or kind.kind, sub.group or where[0], sub.version or where[1]
                ),
                "verbs": list(sub.verbs),
            }
            for sub in sorted(kind.subresources, key=lambda s: s.name)
        ]
    return shown


@cache
def root_paths(off: Off = NOTHING_OFF) -> bytes:
    """Return the paths of /."""
    paths = [
        "/api",
        "/api/v1",
        "/apis",
        "/apis/",
        "/healthz",
        "/livez",
        "/metrics",
        "/metrics/slis",
        "/openapi/v2",
        "/openapi/v3",
    ]
    for name, versions in _groups(off).items():
        if name:
            paths += [f"/apis/{name}", *(f"/apis/{name}/{served}" for served in versions)]
    for health in ("/healthz", "/livez", "/readyz"):
        paths += [f"{health}/{check}" for check in CHECKS]
    paths += ["/openid/v1/jwks", "/readyz", "/version", "/.well-known/openid-configuration"]
    return _encode({"paths": sorted(paths)})


def health(endpoint: str, verbose: bool) -> bytes:
    """Return what a healthy server answers on healthz, livez or readyz."""
    if not verbose:
        return b"ok"
    lines = "".join(f"[+]{check} ok\n" for check in CHECKS)
    return f"{lines}{endpoint} check passed\n".encode()
