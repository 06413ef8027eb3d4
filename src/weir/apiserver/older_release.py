"""API server of an older release on the same store.

Spec: core.md 8.1 "Required order", 8.4; docs/decisions/0075.
Decodes stored objects and requests without the fields it does not know: they are not shown, validated or written. An
object that is not written keeps them for the next upgrade; any write, also of its status, loses them. A request with
such a field gets the unknown-field warning, or is rejected with `fieldValidation=Strict`. The features of the four
KEPs are off or unknown. An expression toleration decodes to an empty one here, which is rejected in new pods for its
operator. DeviceTaintRules are served in v1alpha3 only. With 1.35 their effect `None` came, and `deviceClassName` and
`selectors` of their selectors went (dra.md D-05).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from weir import errors
from weir.apiserver.admission.attributes import CREATE, UPDATE, Attributes
from weir.apiserver.registry.patching import APPLY_PATCH
from weir.fields.field import invalid, not_supported
from weir.gates import DEVICE_TAINT_RULES, DEVICE_TAINTS, FEATURES, Gates
from weir.objects.kind import Kind
from weir.store import Event, KeyValue, Page, Store, Watch
from weir.store.backend import Deliver, Ended

_TAINT_FIELDS: Final = frozenset({"description", "data", "evictionsPerSecond"})
_SELECTOR_FIELDS: Final = frozenset({"deviceClassName", "selectors"})
_MARKS: Final = (b'"expression"', b'"evictionsPerSecond"', b'"description"', b'"data"', b'"deviceSelector"')
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class Release:
    """One older release: its number, and the KEP fields it knows."""

    number: str
    numeric: bool = False  #: `Lt` and `Gt` are known, behind their gate
    selector_fields: frozenset[str] = frozenset()  #: fields of a rule's deviceSelector that are not known
    effects: tuple[str, ...] = ("NoExecute", "NoSchedule", "None")  #: of device taints

    def gates(self, now: Gates) -> Gates:
        """Return the gates such a server has: the features are unknown to it, or off by default."""
        off = {name: False for name in FEATURES if name not in (DEVICE_TAINTS, DEVICE_TAINT_RULES)}
        return now.replace({**off, DEVICE_TAINTS: False})

    def serves(self, kind: Kind) -> bool:
        """Return whether the release has this kind in this version: rules for devices were alpha only.

        No release has v1alpha4, in which the example of a KEP is written (dra.md D-17).
        """
        return kind.version == "v1alpha3" if kind.kind == "DeviceTaintRule" else kind.version != "v1alpha4"

    def warns(self, kind: Kind) -> bool:
        """Return whether the release already deprecates this version of a kind."""
        since = kind.deprecated[0] if kind.deprecated is not None else ""
        return bool(since) and _minor(since) <= _minor(self.number)

    def words(self, message: str) -> str:
        """Return a message as the release words it.

        >>> RELEASES["1.34"].words('Unsupported value: "Gt": supported values: "Equal", "Exists", "Lt", "Gt"')
        'Unsupported value: "Gt": supported values: "Equal", "Exists"'
        """
        return (
            message if self.numeric else message.replace('"Equal", "Exists", "Lt", "Gt"', '"Equal", "Exists"')
        )


def _minor(number: str) -> int:
    return int(number.partition(".")[2])


RELEASES: Final = {
    each.number: each
    for each in (
        Release("1.34", effects=("NoExecute", "NoSchedule")),
        Release("1.35", numeric=True, selector_fields=_SELECTOR_FIELDS),
    )
}
DEFAULT_RELEASE: Final = "1.34"


def strip(document: Any, release: Release, at: str = "") -> Iterator[str]:
    """Take what *release* does not know out of *document*, and yield where it stood.

    >>> pod = {"spec": {"tolerations": [{"expression": "true", "tolerationSeconds": 5}]}}
    >>> list(strip(pod, RELEASES["1.34"])), pod
    (['spec.tolerations[0].expression'], {'spec': {'tolerations': [{'tolerationSeconds': 5}]}})
    """
    if isinstance(document, list):
        for i, each in enumerate(document):
            yield from strip(each, release, f"{at}[{i}]")
        return
    if not isinstance(document, dict):
        return
    for name, value in list(document.items()):
        path = f"{at}.{name}" if at else name
        if name in ("fieldsV1", "annotations", "labels"):
            continue
        for entry, where in _entries(name, value, path):
            for unknown in _unknown(name, release) & entry.keys():
                del entry[unknown]
                yield f"{where}.{unknown}"
        yield from strip(value, release, path)


def _entries(name: str, value: Any, path: str) -> Iterator[tuple[dict[str, Any], str]]:
    if name in ("tolerations", "taints") and isinstance(value, list):
        yield from ((each, f"{path}[{i}]") for i, each in enumerate(value) if isinstance(each, dict))
    elif name in ("taint", "deviceSelector") and isinstance(value, dict):
        yield value, path


def _unknown(name: str, release: Release) -> frozenset[str]:
    if name == "tolerations":
        return frozenset({"expression"})
    return release.selector_fields if name == "deviceSelector" else _TAINT_FIELDS


def read(value: bytes, release: Release) -> bytes:
    """Return a stored value as *release* decodes it."""
    if not any(mark in value for mark in _MARKS):
        return value
    document = _decode(value)
    return _encode(document) if list(strip(document, release)) else value


def read_body(
    body: bytes,
    kind: Kind,
    release: Release,
    field_validation: str,
    warnings: list[str],
    *,
    patching: str = "",
) -> bytes:
    """Return what *release* reads of a JSON body; unknown fields warn, or are refused. Raises 400, 422, 500.

    *patching* is the type of a patch. When one is refused the patch is shown, not what it would have made.
    """
    if not any(mark in body for mark in _MARKS):
        return body
    try:
        document = _decode(body)
    except msgspec.DecodeError:
        return body  # the server says what is wrong with it
    unknown = list(strip(document, release))
    if not unknown:
        return body
    if patching == APPLY_PATCH:
        metadata = document.get("metadata") or {}
        group, _, version = kind.api_version.rpartition("/")
        named = (
            f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {group}/{version}, Kind={kind.kind}"
        )
        raise errors.InternalError(
            f"failed to create typed patch object ({named}): .{unknown[0]}: field not declared in schema"
        )
    said = [f'unknown field "{path}"' for path in unknown]
    if field_validation == "Strict":
        problem = "strict decoding error: " + ", ".join(said)
        if patching:
            raise errors.Invalid.of("", "", "", [invalid("patch", body.decode(), problem)])
        prefix = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
        raise errors.BadRequest(prefix + problem)
    if field_validation != "Ignore":
        warnings.extend(said)
    return _encode(document)


class DeviceTaintEffects:
    """Refuses effects of DeviceTaintRules that the release does not have, unless the stored rule has them."""

    name = "DeviceTaintEffects"

    def __init__(self, release: Release) -> None:
        self._effects = release.effects

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        """Return whether it is a write of a rule's spec."""
        return kind.kind == "DeviceTaintRule" and operation in (CREATE, UPDATE) and subresource != "status"

    def validate(self, a: Attributes) -> None:
        """Raise the 422 for an effect that is not known."""
        new, old = (((rule or {}).get("spec") or {}).get("taint") or {} for rule in (a.object, a.old))
        effect = new.get("effect") or ""
        if effect not in (*self._effects, old.get("effect")):
            problem = not_supported("spec.taint.effect", effect, self._effects)
            raise errors.Invalid.from_field_errors(a.kind, a.name, [problem])


class OlderStore:
    """A store as a server of an older release sees it; what it writes goes to the store as it is."""

    def __init__(self, inner: Store, release: Release) -> None:
        self._inner, self._release = inner, release

        self.count, self.commit, self.fresh = inner.count, inner.commit, inner.fresh
        self.until, self.stale, self.compact = inner.until, inner.stale, inner.compact
        self.upkeep, self.close = inner.upkeep, inner.close

    @property
    def revision(self) -> int:
        """The revision of the state that reads see."""
        return self._inner.revision

    @property
    def compacted(self) -> int:
        """The oldest revision that can be listed or watched from."""
        return self._inner.compacted

    def get(self, key: str) -> KeyValue | None:
        """Return the current version of *key*, without what is not known."""
        return self._read(self._inner.get(key))

    def get_at(self, key: str, revision: int) -> KeyValue | None:
        """Return *key* as it was at *revision*, without what is not known."""
        return self._read(self._inner.get_at(key, revision))

    def range(self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0) -> Page:
        """Return a list, without what is not known."""
        page = self._inner.range(prefix, start=start, limit=limit, revision=revision)
        return msgspec.structs.replace(page, items=[self._known(item) for item in page.items])

    def watch(self, prefix: str, after: int, deliver: Deliver, ended: Ended | None = None) -> Watch:
        """Follow changes, without what is not known."""

        def older(events: Sequence[Event]) -> None:
            read = self._read
            deliver([Event(each.key, each.revision, read(each.now), read(each.before)) for each in events])

        return self._inner.watch(prefix, after, older, ended)

    def _read(self, stored: KeyValue | None) -> KeyValue | None:
        return None if stored is None else self._known(stored)

    def _known(self, stored: KeyValue) -> KeyValue:
        value = read(stored.value, self._release)
        return stored if value is stored.value else msgspec.structs.replace(stored, value=value)
