"""Unknown fields and kinds of a document, with suggestions.

Spec: apiserver.md 2 "Decoding". The server drops an unknown field or, under strict validation (kubectl's default),
rejects the object with `strict decoding error: unknown field "spec.tolerations[0].efect"`. Each one is a FieldError
here, with the field that was probably meant. A kind that weir does not have may be a custom kind: only one close to a
known kind is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from itertools import islice
from typing import Any, Final

from weir.caches import bounded
from weir.objects import kinds, schema
from weir.validate.field import Errors, FieldError, invalid, unknown
from weir.validate.shape import document_version

#: A document of nonsense says no more in a thousand errors than in the first few.
_MOST_ERRORS: Final = 50
#: Closer than this, a kind of the same version is taken for the one that was meant.
_SURE: Final = 0.8
_NESTED: Final = frozenset({"struct", "list", "map"})

Path = tuple[str | int, ...]  #: keys and positions that lead to a field


def validate_fields(document: Any) -> Errors:
    """Yield every field of *document* that its kind does not have.

    >>> [str(error) for error in validate_fields({"kind": "Pod", "spec": {"tolerations": [{"efect": "NoExecute"}]}})]
    ['spec.tolerations[0].efect: strict decoding error: unknown field: did you mean "effect"?']
    """
    for path, meant in find_unknown_fields(document):
        yield unknown(show_path(path), f'did you mean "{meant}"?' if meant else "")


def find_unknown_fields(document: Any) -> Iterator[tuple[Path, str]]:
    """Yield the path of every field that the kind does not have, and the field that was probably meant or ""."""
    kind = document.get("kind") if isinstance(document, dict) else None
    version = document.get("apiVersion") if isinstance(document, dict) else None
    if not isinstance(kind, str) or not isinstance(version, str | None):
        return
    root = schema.find_root(document_version(document), kind)
    if root is not None:
        yield from islice(_struct(document, root, ()), _MOST_ERRORS)


def _struct(value: dict[Any, Any], struct: schema.Struct, at: Path) -> Iterator[tuple[Path, str]]:
    fields = struct.fields
    for name, item in value.items():
        field = fields.get(name)
        if field is None:
            if isinstance(name, str):
                yield (*at, name), closest(name, fields)
        elif item.__class__ in (dict, list) and field.shape.kind in _NESTED:
            yield from _value(item, field.shape, (*at, name))


def _value(value: Any, shape: schema.Shape, at: Path) -> Iterator[tuple[Path, str]]:
    if shape.kind == "struct":
        if isinstance(value, dict):
            yield from _struct(value, schema.struct(shape.struct_name), at)
        return
    assert shape.item is not None
    if shape.item.kind not in _NESTED:
        return
    if shape.kind == "list" and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _value(item, shape.item, (*at, index))
    elif shape.kind == "map" and isinstance(value, dict):
        for key, item in value.items():
            yield from _value(item, shape.item, (*at, str(key)))


def show_path(path: Path) -> str:
    """Return *path* as the API server writes it.

    >>> show_path(("spec", "tolerations", 0, "value"))
    'spec.tolerations[0].value'
    """
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def closest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the word of *known* that was probably meant, or "".

    >>> closest("gt", ["Equal", "Exists", "Lt", "Gt"])
    'Gt'
    """
    words = list(known)
    for each in words:
        if each.casefold() == word.casefold():
            return each
    return next(iter(get_close_matches(word[:200], words, n=1, cutoff=cutoff)), "")


# ── kinds ────────────────────────────────────────────────────────────────────────────────────────


def is_known_kind(api_version: str, kind: str) -> bool:
    """Return whether weir can check objects of this kind."""
    return schema.find_root(api_version, kind) is not None


@bounded(256)
def find_kind_problem(api_version: str, kind: str) -> FieldError | None:
    """Return the error of an unknown kind: a misspelling, or a version that does not have it; else None.

    >>> print(find_kind_problem("apps/v1", "Deploymnet"))
    kind: Invalid value: "Deploymnet": no matches for kind "Deploymnet" in version "apps/v1": did you mean Deployment?
    """
    if is_known_kind(api_version, kind):
        return None
    no_match = f'no matches for kind "{kind}" in version "{api_version}"'
    of_version = [row.kind for row in kinds.KINDS if row.api_version == api_version]
    if meant := closest(kind, of_version, _SURE):
        return invalid("kind", kind, f"{no_match}: did you mean {meant}?")
    versions = list(dict.fromkeys(row.api_version for row in kinds.KINDS if row.kind == kind))
    group = api_version.rpartition("/")[0]
    same_group = [version for version in versions if version.rpartition("/")[0] == group]
    if same_group or (versions and ("." not in group or group.endswith(".k8s.io"))):
        meant = closest(api_version, same_group or versions, 0.0) or versions[0]
        return invalid("apiVersion", api_version, f"{no_match}: did you mean {meant}?")
    known = {row.api_version for row in kinds.KINDS}
    if versions and api_version not in known and (meant := closest(api_version, known, _SURE)):
        return invalid("apiVersion", api_version, f"{no_match}: did you mean {meant}?")
    return None
