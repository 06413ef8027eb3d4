"""Server-side apply: the resulting object and its field ownership.

Spec: apiserver.md 7 "Apply", 6 "managedFields".
The applier owns exactly the fields of its configuration. Fields it applied before, no longer applies and that no
other manager owns are removed. Another manager's field with a different value is a conflict unless forced. An applier
is identified without its apiVersion; an apply without change keeps its old time; `kubectl` may take over what its
client-side apply annotation records, and keeps that annotation current; an untracked object gets the manager
"before-first-apply".
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from weir.apiserver.patches import fieldset
from weir.apiserver.patches.compare import compare, ensure_named, field_set, overlay, remove_fields
from weir.apiserver.patches.configuration import path_text
from weir.apiserver.patches.custom_structure import fitting_problems, node_of, zero_of
from weir.apiserver.patches.fieldset import FieldSet
from weir.apiserver.patches.managedfields import (
    Entry,
    Managed,
    Owner,
    change,
    means_the_same,
    owned_by_write,
    read_managed,
    stripped,
    take_over,
    update_managed_fields,
    write_managed,
)
from weir.apiserver.patches.structure import Node
from weir.caches import bounded
from weir.compat.customresources.reading import check_custom
from weir.compat.customresources.served import CustomResourceKind
from weir.errors import BadRequest, Conflict, DecodeError, InternalError
from weir.objects import fast_decoder
from weir.objects.document import KindRow, as_json, check, copied, parse_yaml, read_documents, root_of
from weir.objects.jsontext import TOO_DEEP, may_be_too_deep, too_deep
from weir.objects.manifest import ManifestError
from weir.values.quoting import quote

__all__ = ["apply", "apply_configuration", "parse", "update_managed_fields"]

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
BEFORE_FIRST: Final = "before-first-apply"
#: The one manager whose server-side apply follows up its client-side apply.
KUBECTL: Final = "kubectl"

Conflicts = list[tuple[Owner, tuple[str, ...]]]


def apply(
    live: dict[str, Any] | None,
    body: bytes,
    kind: KindRow,
    *,
    manager: str,
    force: bool = False,
    subresource: str = "",
    now: str,
) -> dict[str, Any]:
    """Return the object after *manager* applied *body* to *live* (None: there is none), managedFields included.

    >>> from weir.objects.kinds import by_kind
    >>> config = b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}'
    >>> made = apply(None, config, by_kind("v1", "ConfigMap"), manager="m", now="2026-01-01T00:00:00Z")
    >>> made["metadata"]["managedFields"][0]["fieldsV1"]
    {'f:data': {'f:k': {}}}
    """
    return apply_configuration(
        live, parse(body), kind, manager=manager, force=force, subresource=subresource, now=now
    )


def apply_configuration(
    live: dict[str, Any] | None,
    configuration: dict[str, Any],
    kind: KindRow,
    *,
    manager: str,
    force: bool,
    subresource: str,
    now: str,
) -> dict[str, Any]:
    """Return the object after *manager* applied a configuration that was read; *live* stays as it is."""
    _check_type(configuration, kind)
    applying = _Applying(
        live, configuration, kind, Owner(manager, "Apply", kind.api_version, subresource), now
    )
    try:
        made, managed = applying.run(force)
    except _Refused as refusal:
        conflicts = refusal.conflicts
        allowed = applying.taken_by_annotation() if manager == KUBECTL else None
        left = [found for found in conflicts if allowed is None or not _has(allowed, found[1])]
        if left:
            raise _conflict(left) from None
        made, managed = applying.run(True)
    if manager == KUBECTL:
        _follow_up_annotation(made, configuration)
    write_managed(made, managed)
    return made


def parse(body: bytes) -> dict[str, Any]:
    """Return the configuration *body* holds, JSON or YAML."""
    try:
        value = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        try:
            documents = read_documents(body)
        except ManifestError as error:
            # What looks like JSON is not turned into JSON first, and fails a step later.
            step = "decoding patch: error converting YAML to JSON" if body[:1] == b"{" else "encoding patch"
            raise BadRequest(f"error {step}: yaml: {error.in_go_words}") from None
        value = as_json(documents[0].value) if documents else {}
    if value is None:
        return {}
    if may_be_too_deep(body) and too_deep(value):
        raise BadRequest(f"error decoding patch: error unmarshaling JSON: while decoding JSON: {TOO_DEEP}")
    if not isinstance(value, dict):
        word = {list: "array", str: "string", bool: "bool"}.get(type(value), "number")
        raise BadRequest(
            "error decoding patch: error unmarshaling JSON: while decoding JSON: "
            f"json: cannot unmarshal {word} into Go value of type map[string]interface {{}}"
        )
    return value


def doubled_keys(body: bytes) -> list[str]:
    """Return the keys that a configuration in YAML has twice, each reported as its reader does."""
    try:
        msgspec.json.decode(body)
        return []
    except (ValueError, RecursionError):
        return parse_yaml(body, "")[1]


def _check_type(configuration: dict[str, Any], kind: KindRow) -> None:
    version, name = configuration.get("apiVersion"), configuration.get("kind")
    if (version, name) != (kind.api_version, kind.kind):
        raise BadRequest(f"invalid object type: {_gvk(version, name)}")
    metadata = configuration.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise BadRequest("metadata.managedFields must be nil")


def _gvk(version: Any, kind: Any) -> str:
    text = version if isinstance(version, str) else ""
    group, _, short = text.rpartition("/")
    return f"{group}/{short}, Kind={kind if isinstance(kind, str) else ''}"


class _Refused(Exception):
    """Another manager owns fields the configuration would change."""

    def __init__(self, conflicts: Conflicts) -> None:
        super().__init__("conflict")
        self.conflicts = conflicts


class _Applying:
    """One apply request; `run` may be called twice, without and with force."""

    def __init__(
        self,
        live: dict[str, Any] | None,
        configuration: dict[str, Any],
        kind: KindRow,
        owner: Owner,
        now: str,
    ) -> None:
        self._kind, self._owner, self._now = kind, owner, now
        self._node: Node = node_of(kind)
        self._configuration = configuration
        problems = fitting_problems(configuration, kind)
        if problems:
            text = problems[0] if len(problems) == 1 else "\n  ".join(["errors:", *problems])
            raise InternalError(f"failed to create typed patch object ({self._named(configuration)}): {text}")
        managed = read_managed(((live or {}).get("metadata") or {}).get("managedFields"))
        if managed is None:
            raise InternalError("failed to decode managed fields")
        if not managed and live is not None:
            managed = take_over({}, change(None, live, kind), kind, BEFORE_FIRST, owner.subresource, now)
        self._managed: Managed = managed
        self._live = _without_managed(live if live is not None else zero_of(kind))
        self._exists = live is not None

    def _named(self, document: dict[str, Any]) -> str:
        metadata = document.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        namespace, name = metadata.get("namespace"), metadata.get("name")
        texts = (value if isinstance(value, str) else "" for value in (namespace, name))
        return f"{'/'.join(texts)}; {_gvk(self._kind.api_version, self._kind.kind)}"

    def run(self, force: bool) -> tuple[dict[str, Any], Managed]:
        """Return the object and its owners; raises _Refused when fields of other managers would change."""
        last_owner, last = self._last()
        fields = owned_by_write(
            field_set(self._configuration, self._node), self._kind, self._owner.subresource
        )
        managed = {owner: entry for owner, entry in self._managed.items() if owner != last_owner}
        merged = overlay(self._live, self._configuration, self._node)
        if last is not None and last.fields:
            merged = self._pruned(
                merged, last.fields, [fields, *(entry.fields for entry in managed.values())]
            )
        made = merged if isinstance(merged, dict) else {}
        managed = self._without_taken(managed, made, force)
        mine = fieldset.ordered(stripped(fields))
        same = made == self._live
        read = copied(self._live) if same and self._exists else self._read(made)
        if mine:
            managed[self._owner] = Entry(mine, self._time(same, read == self._live, mine, last))
        return read, managed

    def _time(self, same: bool, reads_same: bool, mine: FieldSet, last: Entry | None) -> str:
        """An apply without effect has no time of its own; one that only spelled the same otherwise keeps its time."""
        if same:
            return last.time if last is not None else ""
        return last.time if last is not None and reads_same and last.fields == mine else self._now

    def _last(self) -> tuple[Owner | None, Entry | None]:
        """Return this applier's entry, whatever the apiVersion it used last time."""
        mine = (self._owner.manager, "Apply", self._owner.subresource)
        for owner, entry in self._managed.items():
            if (owner.manager, owner.operation, owner.subresource) == mine:
                return owner, entry
        return None, None

    def _pruned(self, merged: Any, last: FieldSet, owned: list[FieldSet]) -> Any:
        """Remove what was applied last time, is not applied now, and no other manager owns."""
        node = self._node
        last = ensure_named(last, node)
        kept = fieldset.union_all(owned)
        whole = ensure_named(field_set(merged, node), node)
        pruned = remove_fields(merged, last, node) or {}
        left = fieldset.union(ensure_named(field_set(pruned, node), node), ensure_named(kept, node))
        pruned = remove_fields(merged, fieldset.difference(whole, left), node) or {}
        left = ensure_named(field_set(pruned, node), node)
        gone = fieldset.intersection(fieldset.difference(whole, left), last)
        return remove_fields(merged, gone, node)

    def _without_taken(self, managed: Managed, made: dict[str, Any], force: bool) -> Managed:
        """Return the other owners without what this apply takes from them or removes."""
        parts = compare(self._live, made, self._node)
        added, modified, removed = (
            owned_by_write(part, self._kind, self._owner.subresource) for part in parts
        )
        taken = fieldset.union(added, modified)
        conflicts: Conflicts = []
        result: Managed = {}
        for owner in sorted(managed, key=_identifier):
            fields = managed[owner].fields
            if means_the_same(owner.api_version, self._kind.api_version):
                clash = fieldset.intersection(fields, taken)
                conflicts += [(owner, path) for path in _in_order(clash)]
                fields = fieldset.difference(fieldset.difference(fields, clash), removed)
            if fields:
                result[owner] = Entry(fields, managed[owner].time)
        if conflicts and not force:
            raise _Refused(conflicts)
        return result

    def _read(self, made: dict[str, Any]) -> dict[str, Any]:
        if isinstance(self._kind, CustomResourceKind):
            return self._read_custom(made, self._kind)
        try:  # no deeper than the object and the configuration are, which are not too deep
            read = fast_decoder.convert(made, root_of(self._kind))
            return {"kind": self._kind.kind, "apiVersion": self._kind.api_version, **read}
        except fast_decoder.Refused:
            pass
        try:
            read, _ = check(made, self._kind, field_validation="Ignore")
        except DecodeError as error:
            raise InternalError(
                f"failed to convert new object ({self._named(made)}) to proper version: unable to convert "
                f"unstructured object to {_gvk(self._kind.api_version, self._kind.kind)}: {error.message}"
            ) from None
        return {"kind": self._kind.kind, "apiVersion": self._kind.api_version, **read}

    def _read_custom(self, made: dict[str, Any], kind: CustomResourceKind) -> dict[str, Any]:
        try:
            read, _ = check_custom(made, kind, "Ignore")
        except DecodeError as error:
            raise InternalError(
                f"failed to convert new object ({self._named(made)}) to proper version: {error.message}"
            ) from None
        return read

    def taken_by_annotation(self) -> FieldSet | None:
        """Return the fields client-side apply wrote and that still hold what it wrote; None when it never did."""
        text = ((self._live.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
        try:
            written = msgspec.json.decode(text) if text else None
        except (ValueError, RecursionError):
            return None
        if not isinstance(written, dict) or written.get("apiVersion") != self._kind.api_version:
            return None
        if fitting_problems(written, self._kind):
            return None
        fields = field_set(written, self._node)
        for changed in compare(written, self._live, self._node):
            fields = fieldset.difference(fields, changed)
        return fields


def _without_managed(document: dict[str, Any]) -> dict[str, Any]:
    metadata = document.get("metadata") or {}
    if "managedFields" not in metadata:
        return document
    return {**document, "metadata": {key: item for key, item in metadata.items() if key != "managedFields"}}


def _follow_up_annotation(made: dict[str, Any], configuration: dict[str, Any]) -> None:
    """Keep the annotation of client-side apply, where there is one, at what was applied last."""
    annotations = (made.get("metadata") or {}).get("annotations")
    if not annotations or not annotations.get(LAST_APPLIED):
        return
    written = copied(configuration)
    if applied := (written.get("metadata") or {}).get("annotations"):
        applied.pop(LAST_APPLIED, None)
        if not applied:
            del written["metadata"]["annotations"]
    annotations[LAST_APPLIED] = _go_json(written) + "\n"


def _go_json(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


# ── conflicts ────────────────────────────────────────────────────────────────────────────────────


@bounded(1024)
def _identifier(owner: Owner) -> str:
    """Return what managers are sorted by."""
    known: dict[str, str] = {"manager": owner.manager, "operation": owner.operation}
    if owner.operation == "Update":
        known["apiVersion"] = owner.api_version
    if owner.subresource:
        known["subresource"] = owner.subresource
    return json.dumps(known, separators=(",", ":"), ensure_ascii=False)


def _in_order(fields: FieldSet, prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the paths of a set, sorted, an object's own members before those below them."""
    keys = sorted(key for key in fields if key != ".")
    here = [(*prefix, key) for key in keys if fieldset.is_member(fields[key])]
    return here + [path for key in keys for path in _in_order(fields[key], (*prefix, key))]


def _has(fields: FieldSet, path: tuple[str, ...]) -> bool:
    for element in path:
        if element not in fields:
            return False
        fields = fields[element]
    return fieldset.is_member(fields)


def _who(owner: Owner) -> str:
    text = quote(owner.manager)
    if owner.subresource:
        text += f" with subresource {quote(owner.subresource)}"
    return f"{text} using {owner.api_version}" if owner.operation == "Update" else text


def _conflict(conflicts: Conflicts) -> Conflict:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {_who(owner)}",
            "field": path_text(path),
        }
        for owner, path in conflicts
    ]
    if len(conflicts) == 1:
        owner, path = conflicts[0]
        message = f"Apply failed with 1 conflict: conflict with {_who(owner)}: {path_text(path)}"
    else:
        lines: list[str] = []
        for owner in dict.fromkeys(owner for owner, _ in conflicts):
            lines.append(f"conflicts with {_who(owner)}:")
            lines += [f"- {path_text(path)}" for other, path in conflicts if other == owner]
        message = f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
    return Conflict(message, details={"causes": causes})
