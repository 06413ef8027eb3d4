"""Shared listers: one indexed cache per collection that a controller reads.

Pods and nodes are decoded into views, everything else stays a document. Objects of a lister must not be mutated.
`Listers.of` builds one from documents for tests and simulations; weir.controllers.runtime.runner feeds its own from
watches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from weir.client.cache import Cache, decode_described, decode_document
from weir.controllers.runtime.views import Node, Pod
from weir.devices.claims import claim_names
from weir.objects.kind import Document, Kind
from weir.objects.kinds import DEPLOYMENTS, LEASES, NODES, PODS, REPLICA_SETS, by_kind

_DECODERS: dict[Kind, Callable[[msgspec.Raw], Any]] = {
    PODS: msgspec.json.Decoder(Pod).decode,
    NODES: msgspec.json.Decoder(Node).decode,
    DEPLOYMENTS: decode_described,
    REPLICA_SETS: decode_described,
    LEASES: decode_described,
}


def decoder(kind: Kind) -> Callable[[msgspec.Raw], Any]:
    """Return how objects of *kind* are read."""
    return _DECODERS.get(kind, decode_document)


def _node_of(pod: Pod) -> Sequence[str]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


def _end_of(pod: Pod) -> Sequence[str]:
    if pod.deleting:
        return ("deleting",)
    return ("ended",) if pod.terminated else ()


def controllers_of(item: Any) -> Sequence[str]:
    """Return the uid of the object's controller, if it has one."""
    if isinstance(item, Pod):
        return (uid,) if (uid := item.controller_uid) else ()
    owners = item["metadata"].get("ownerReferences") or ()
    return tuple(owner["uid"] for owner in owners if owner.get("controller"))


def _free_in(item: Any) -> Sequence[str]:
    """Return the namespace of an object without a controller."""
    if controllers_of(item):
        return ()
    return (item.metadata.namespace if isinstance(item, Pod) else item["metadata"]["namespace"],)


def _namespace_of(item: Any) -> Sequence[str]:
    return (item.metadata.namespace if isinstance(item, Pod) else item["metadata"]["namespace"],)


def _claims_of(pod: Pod) -> Sequence[str]:
    """Return `namespace/name` of every ResourceClaim the pod names, itself or in its status."""
    if not pod.spec.resource_claims and pod.status.extended_resource_claim_status is None:
        return ()
    return [f"{pod.metadata.namespace}/{name}" for name in claim_names(pod)]


def volume_claims_of(pod: Pod, *, ephemeral: bool = True) -> list[str]:
    """Return the names of the PersistentVolumeClaims of a pod; of *ephemeral* volumes, too."""
    claims = []
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            claims.append(volume.persistent_volume_claim.claim_name)
        elif ephemeral and volume.ephemeral is not None:
            claims.append(f"{pod.metadata.name}-{volume.name}")
    return claims


def _volume_claims_of(pod: Pod) -> Sequence[str]:
    if not pod.spec.volumes:
        return ()
    return [f"{pod.metadata.namespace}/{name}" for name in volume_claims_of(pod)]


def _templates_of(pod: Pod) -> Sequence[str]:
    if not pod.spec.resource_claims:
        return ()
    named = {entry.resource_claim_template_name for entry in pod.spec.resource_claims}
    return [f"{pod.metadata.namespace}/{name}" for name in sorted(filter(None, named))]


def prepare(kind: Kind, cache: Cache[Any]) -> None:
    """Give *cache* the ways of finding that controllers use."""
    metadata: Sequence[str] = ()
    if kind is PODS:
        metadata = ("metadata",)
        cache.add_index("node", _node_of, ("spec",))
        cache.add_index("end", _end_of, ("metadata", "status"))
        cache.add_index("claim", _claims_of, ("metadata", "spec", "status"))
        cache.add_index("template", _templates_of, ("metadata", "spec"))
        cache.add_index("volume claim", _volume_claims_of, ("metadata", "spec"))
    if kind.namespaced:
        cache.add_index("owner", controllers_of, metadata)
        cache.add_index("free", _free_in, metadata)
        cache.add_index("namespace", _namespace_of, metadata)


class Listers:
    """The collections, by kind."""

    def __init__(self, caches: dict[Kind, Cache[Any]]) -> None:
        self.caches = caches

    @classmethod
    def of(cls, documents: Iterable[Document], kinds: Iterable[Kind] = ()) -> Listers:
        """Return what *documents* describe."""
        listers = cls({})
        for kind in (PODS, NODES, *kinds):
            listers._cache(kind)
        for document in documents:
            listers.put(document)
        return listers

    def _cache(self, kind: Kind) -> Cache[Any]:
        if kind not in self.caches:
            self.caches[kind] = Cache(decoder(kind))
            prepare(kind, self.caches[kind])
        return self.caches[kind]

    def put(self, document: Document) -> None:
        """Add or replace one object."""
        kind = by_kind(document["apiVersion"], document["kind"])
        self._cache(kind).change("MODIFIED", msgspec.Raw(msgspec.json.encode(document)))

    def drop(self, document: Document) -> None:
        """Take one object out."""
        kind = by_kind(document["apiVersion"], document["kind"])
        self._cache(kind).change("DELETED", msgspec.Raw(msgspec.json.encode(document)))

    def get(self, kind: Kind, name: str, namespace: str = "") -> Any:
        """Return one object, or None."""
        return self.caches[kind].find(namespace, name)

    def pod(self, namespace: str, name: str) -> Pod | None:
        found: Pod | None = self.get(PODS, name, namespace)
        return found

    def node(self, name: str) -> Node | None:
        found: Node | None = self.get(NODES, name)
        return found

    def pods_on(self, node: str) -> list[Pod]:
        """Return every pod bound to *node*, ended ones too, in the order of their names."""
        pods: list[Pod] = self.caches[PODS].by_index("node", node)
        return sorted(pods, key=lambda pod: (pod.metadata.namespace, pod.metadata.name))

    def pods_ending(self, how: str) -> list[Pod]:
        """Return the pods that are being deleted (*how* is `deleting`) or that ended otherwise (`ended`)."""
        pods: list[Pod] = self.caches[PODS].by_index("end", how)
        return pods

    def owned(self, kind: Kind, uid: str) -> list[Any]:
        """Return the objects of *kind* that the object with *uid* controls."""
        return self.caches[kind].by_index("owner", uid)

    def free(self, kind: Kind, namespace: str) -> list[Any]:
        """Return the objects of *kind* in *namespace* without a controller."""
        return self.caches[kind].by_index("free", namespace)

    def within(self, kind: Kind, namespace: str) -> list[Any]:
        """Return the objects of *kind* in *namespace*."""
        return self.caches[kind].by_index("namespace", namespace)

    def serves(self, kind: Kind) -> bool:
        """Return whether the server has this kind at all."""
        return kind in self.caches

    def pods_with_claim(self, namespace: str, claim: str) -> list[Pod]:
        """Return the pods that name the ResourceClaim, themselves or in their status."""
        return self.caches[PODS].by_index("claim", f"{namespace}/{claim}")

    def pods_with_template(self, namespace: str, template: str) -> list[Pod]:
        """Return the pods that want a claim made from the ResourceClaimTemplate."""
        return self.caches[PODS].by_index("template", f"{namespace}/{template}")

    def pods_with_volume_claim(self, namespace: str, claim: str) -> list[Pod]:
        """Return the pods with a volume from the PersistentVolumeClaim, in the order of their names."""
        pods: list[Pod] = self.caches[PODS].by_index("volume claim", f"{namespace}/{claim}")
        return sorted(pods, key=lambda pod: pod.metadata.name)

    def count(self, kind: Kind) -> int:
        """Return how many objects of *kind* there are."""
        return len(self.caches[kind])

    def all(self, kind: Kind) -> list[Any]:
        """Return every object of *kind*."""
        return list(self.caches[kind])
