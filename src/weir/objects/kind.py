"""The Kind row: names, scope, verbs, subresources, storage and deletion policy.

Spec: apiserver.md 4 "Create and update" (generation), 8 "Delete" (default policies), 14 "Discovery".
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from typing import Any, Literal

#: An object as decoded JSON.
Document = dict[str, Any]
ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Subresource:
    """One path below an object, the verbs it answers and the kind it speaks."""

    name: str
    verbs: tuple[str, ...] = ("get", "patch", "update")
    kind: str = ""  #: "" = the kind of the object itself
    group: str = ""  #: group and version only when they differ from the object's
    version: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Kind:
    """One served kind in one version. Rows are unique objects: compare them with `is`."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    stored: bool = True
    #: metadata.generation is kept: 1 on create, +1 when anything but metadata and status changes
    generation: bool = False
    #: a PUT to a missing name creates it
    create_on_update: bool = False
    #: a PUT without resourceVersion is taken as "whatever is there"
    unconditional_update: bool = True
    #: what a delete without a policy does to dependents
    default_propagation: Literal["Background", "Orphan"] = "Background"
    #: status sent with a create is kept (nodes) instead of dropped
    status_on_create: bool = False
    #: which group and plural make the storage key (events are one resource in two groups)
    storage_group: str | None = None
    storage_version: str | None = None
    #: the version objects are stored in, and everything but decoding and ownership works on; "" = this one
    hub: str = ""
    #: Kubernetes versions since which this version is deprecated and in which it ends, and what to use instead
    deprecated: tuple[str, str] | tuple[str, str, str] | None = None
    #: seconds after which the store forgets the object; None = never
    ttl_seconds: int | None = None
    #: the answer to a delete that removed the object: the object itself instead of a Success Status
    returns_deleted: bool = False
    api_version: str = field(init=False, default="")
    singular: str = ""
    has_status: bool = field(init=False, default=False)
    converted: bool = field(init=False, default=False)  #: stored documents do not look like served ones
    prefix: str = field(init=False, default="")  #: storage prefix of every object of this kind
    opening: bytes = field(init=False, default=b"")  #: what an object as the API shows it begins with

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "api_version", f"{self.group}/{self.version}" if self.group else self.version)
        put(self, "singular", self.singular or self.kind.lower())
        put(self, "has_status", any(s.name == "status" for s in self.subresources))
        put(self, "converted", self.storage_group is not None or self.hub != "")
        group = self.group if self.storage_group is None else self.storage_group
        put(self, "prefix", f"/registry/{group}/{self.plural}/" if group else f"/registry/{self.plural}/")
        put(self, "opening", f'{{"kind":"{self.kind}","apiVersion":"{self.api_version}",'.encode())

    def __repr__(self) -> str:
        return f"Kind({self.api_version} {self.kind})"

    def subresource(self, name: str) -> Subresource | None:
        """Return the subresource called *name*, if this kind has it."""
        for subresource in self.subresources:
            if subresource.name == name:
                return subresource
        return None

    def key(self, namespace: str, name: str) -> str:
        """Return the storage key of one object.

        >>> Kind("", "v1", "Pod", "pods").key("default", "web")
        '/registry/pods/default/web'
        """
        return f"{self.prefix}{namespace}/{name}" if self.namespaced else self.prefix + name

    @property
    def storage_version_hash(self) -> str:
        """Return what discovery prints so that clients notice a change of storage version.

        >>> Kind("", "v1", "Pod", "pods").storage_version_hash
        'xPOwRZ+Yhw8='
        """
        group = self.group if self.storage_group is None else self.storage_group
        text = f"{group}/{self.storage_version or self.version}/{self.kind}"
        return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()
