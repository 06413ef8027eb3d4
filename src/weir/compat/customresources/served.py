"""Served kinds of CustomResourceDefinitions.

A `CustomResourceKind` is a row like those of weir.objects.kinds that also has its definition's schema, columns,
subresources and conversion, parsed on first use. Rows are immutable; a changed definition makes new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import msgspec

from weir.compat.customresources.fitting import fitting
from weir.compat.customresources.schema import Schema, read_schema
from weir.objects.kind import Document, Kind, Subresource
from weir.objects.kinds import SCALE, STATUS
from weir.objects.served_kinds import ServedKinds, kube_version_order

# ── conditions of a CustomResourceDefinition ──


def find_condition(definition: Document, name: str) -> Document | None:
    """Return the condition called *name*, if the definition has it."""
    found = (definition.get("status") or {}).get("conditions") or ()
    return next((one for one in found if one.get("type") == name), None)


def is_true(definition: Document, name: str) -> bool:
    """Return whether a condition is there and true."""
    found = find_condition(definition, name)
    return found is not None and found.get("status") == "True"


def with_condition(
    definition: Document, name: str, status: str, reason: str, message: str, now: str
) -> Document:
    """Return a definition in which the condition says this; its time changes with its status."""
    condition = {
        "type": name,
        "status": status,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }
    inside = dict(definition.get("status") or {})
    conditions = list(inside.get("conditions") or ())
    for i, one in enumerate(conditions):
        if one.get("type") == name:
            if one.get("status") == status and one.get("lastTransitionTime"):
                condition["lastTransitionTime"] = one["lastTransitionTime"]
            conditions[i] = {**one, **condition}
            break
    else:
        conditions.append(condition)
    inside["conditions"] = conditions
    return {**definition, "status": inside}


# ── served kinds of CustomResourceDefinitions ──


_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_TERMINATING_VERBS: Final = ("delete", "deletecollection", "get", "list", "watch")
_ANYTHING: Final = Schema(("object",), preserves_unknown=True)
#: the column of definitions that name none
AGE: Final = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


class Version:
    """One version of a definition; parts are parsed on first use."""

    def __init__(self, text: bytes) -> None:
        """*text* is the JSON of one of `spec.versions`: far smaller than what it is decoded to."""
        self.text = text

    def document(self) -> Document:
        """Return the version as the definition has it."""
        found: Document = msgspec.json.decode(self.text)
        return found

    def schema_document(self) -> Document | None:
        """Return `openAPIV3Schema`."""
        found: Document | None = (self.document().get("schema") or {}).get("openAPIV3Schema")
        return found

    @cached_property
    def schema(self) -> Schema:
        """The schema; anything goes without one."""
        found = self.schema_document()
        return _ANYTHING if found is None else read_schema(found)

    @cached_property
    def columns(self) -> Sequence[Document]:
        """The additional printer columns."""
        return self.document().get("additionalPrinterColumns") or (AGE,)

    @cached_property
    def selectable(self) -> tuple[tuple[str, ...], ...]:
        """The paths of the fields that select objects."""
        found = self.document().get("selectableFields") or ()
        return tuple(tuple(one["jsonPath"].removeprefix(".").split(".")) for one in found)

    @cached_property
    def scale(self) -> Mapping[str, str]:
        """The paths of the subresource scale."""
        return (self.document().get("subresources") or {}).get("scale") or {}

    @cached_property
    def fits(self) -> Callable[[Any], bool]:
        """Whether an object is plainly as the schema wants it (weir.compat.customresources.fitting)."""
        return fitting(self.schema, root=True)

    @cached_property
    def kept(self) -> dict[str, Any]:
        """What others derive from this version, by their own names: kept as long as it is."""
        return {}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CustomResourceKind(Kind):
    """One served version of a kind that a definition makes."""

    definition: str = ""  #: the name of the definition
    list_kind: str = ""
    says: Version = field(default_factory=lambda: Version(b"{}"))
    #: every version, also those that are not served: objects may be stored in them
    versions: Mapping[str, Version] = field(default_factory=dict)
    storage: str = ""  #: the version that objects are stored in
    established: bool = True  #: discovery shows it
    terminating: bool = False
    warning: str = ""  #: the warning for every request, if the version is deprecated
    conversion: Mapping[str, Any] = field(default_factory=dict)
    #: this version and the others that are served, in the definition's order
    served: Sequence[CustomResourceKind] = ()

    def __post_init__(self) -> None:
        Kind.__post_init__(self)
        object.__setattr__(self, "converted", True)  # read with the defaults of today

    @property
    def asks_webhook(self) -> bool:
        """Whether a webhook converts objects between versions."""
        return self.conversion.get("strategy") == "Webhook" and len(self.versions) > 1

    @property
    def schema(self) -> Schema:
        """The schema of this version."""
        return self.says.schema


def rows_of(definition: Document, known: Sequence[Kind] = ()) -> list[CustomResourceKind]:
    """Return the kinds that *definition* makes now; what did not change is taken from *known*, its last ones.

    >>> spec = {"group": "example.com", "scope": "Cluster", "names": {"plural": "widgets", "kind": "Widget"},
    ...         "versions": [{"name": "v1", "served": True, "storage": True}]}
    >>> status = {"acceptedNames": spec["names"], "conditions": [{"type": "NamesAccepted", "status": "True"}]}
    >>> rows_of({"metadata": {"name": "widgets.example.com"}, "spec": spec, "status": status})
    [Kind(example.com/v1 Widget)]
    """
    spec, names = definition["spec"], (definition.get("status") or {}).get("acceptedNames") or {}
    established = is_true(definition, "Established")
    if not (established or is_true(definition, "NamesAccepted")):
        return []
    were = {
        name: version
        for kind in known
        if isinstance(kind, CustomResourceKind)
        for name, version in kind.versions.items()
    }
    versions: dict[str, Version] = {}
    for version in spec["versions"]:
        text = msgspec.json.encode(version)
        last = were.get(version["name"])
        versions[version["name"]] = last if last is not None and last.text == text else Version(text)
    storage = next((one["name"] for one in spec["versions"] if one.get("storage")), "")
    terminating = bool(definition["metadata"].get("deletionTimestamp")) or is_true(definition, "Terminating")
    rows = [
        CustomResourceKind(
            spec["group"],
            version["name"],
            spec["names"]["kind"],
            spec["names"]["plural"],
            namespaced=spec.get("scope") != "Cluster",
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            subresources=_subresources(version),
            verbs=_TERMINATING_VERBS if is_true(definition, "Terminating") else _VERBS,
            generation=True,
            unconditional_update=False,
            singular=names.get("singular") or "",
            storage_version=storage,
            definition=definition["metadata"]["name"],
            list_kind=spec["names"].get("listKind") or f"{spec['names']['kind']}List",
            says=versions[version["name"]],
            versions=versions,
            storage=storage,
            established=established,
            terminating=terminating,
            warning=_warning(spec, version),
            conversion=spec.get("conversion") or {},
        )
        for version in spec["versions"]
        if version.get("served")
    ]
    for row in rows:
        object.__setattr__(row, "served", rows)
    return rows


def in_storage_version(kind: Kind) -> Kind:
    """Return *kind* in the version its objects are stored in, served or not: nothing converts them on the way."""
    if not isinstance(kind, CustomResourceKind) or kind.version == kind.storage:
        return kind
    return replace(kind, version=kind.storage, says=kind.versions[kind.storage])


def _subresources(version: Document) -> tuple[Subresource, ...]:
    found = version.get("subresources") or {}
    return (
        *((STATUS,) if found.get("status") is not None else ()),
        *((SCALE,) if found.get("scale") is not None else ()),
    )


def _warning(spec: Document, version: Document) -> str:
    """Return what is said about a deprecated version: the author's words, or which version to use."""
    if not version.get("deprecated"):
        return ""
    if version.get("deprecationWarning"):
        text: str = version["deprecationWarning"]
        return text
    group, kind = spec["group"], spec["names"]["kind"]
    order = kube_version_order(version["name"])
    newer = [
        one["name"]
        for one in spec["versions"]
        if one.get("served") and not one.get("deprecated") and kube_version_order(one["name"]) > order
    ]
    text = f"{group}/{version['name']} {kind} is deprecated"
    return f"{text}; use {group}/{max(newer, key=kube_version_order)} {kind}" if newer else text


def shown_kinds(served: ServedKinds) -> list[Kind]:
    """Return the joined kinds that discovery shows."""
    return [kind for kind in served.joined() if not isinstance(kind, CustomResourceKind) or kind.established]
