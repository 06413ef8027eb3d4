"""Validation of a definition's version: deprecation warning, printer columns, subresources, selectable fields.

Spec: upstream's rules of apiextensions.k8s.io/v1, in its words and order.
"""

from __future__ import annotations

from typing import Final

from weir.compat.customresources.field_paths import FieldPathError, find_field, show_steps
from weir.fields.field import Document, Errors, duplicate, invalid, present, required, too_many

MOST_SELECTABLE: Final = 8
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")


def validate_deprecation(version: Document, at: str) -> Errors:
    """Yield what is wrong with the warning of a deprecated version."""
    warning = version.get("deprecationWarning")
    if warning is None:
        return
    place = f"{at}.deprecationWarning"
    if not version.get("deprecated"):
        yield invalid(place, warning, "can only be set for deprecated versions")
        return
    if len(warning.encode()) > 256:
        yield invalid(place, warning, "must be <= 256 characters long")
    if not warning:
        yield invalid(place, warning, "must not be an empty string")
    for i, char in enumerate(warning):
        if not (char.isprintable() and (char == " " or not char.isspace())):
            index = len(warning[:i].encode())
            detail = (
                "must only contain printable UTF-8 characters; non-printable character found at index "
                f"{index}"
            )
            yield invalid(place, warning, detail)
            break


def validate_column(column: Document, at: str) -> Errors:
    """Yield what is wrong with a printer column."""
    kind, form, path = column.get("type") or "", column.get("format") or "", column.get("jsonPath") or ""
    yield from present(f"{at}.name", column.get("name"))
    detail = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not kind:
        yield required(f"{at}.type", detail)
    elif kind not in _COLUMN_TYPES:
        yield invalid(f"{at}.type", kind, detail)
    if form and form not in _COLUMN_FORMATS:
        yield invalid(f"{at}.format", form, f"must be one of {','.join(_COLUMN_FORMATS)}")
    if not path:
        yield required(f"{at}.JSONPath")
    else:
        yield from _validate_path(path, f"{at}.JSONPath")


def _validate_path(path: str, at: str) -> Errors:
    if not path.startswith("."):
        yield invalid(at, path, "must be a simple json path starting with .")


def validate_subresources(subresources: Document | None, at: str) -> Errors:
    """Yield what is wrong with the paths of the scale subresource."""
    scale = (subresources or {}).get("scale")
    if scale is None:
        return
    for name, under in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        path = scale.get(name) or ""
        place = f"{at}.scale.{name}"
        if not path:
            yield required(place)
        elif not path.startswith("."):
            yield from _validate_path(path, place)
        elif not path.startswith(under):
            yield invalid(place, path, f"should be a json path under {under[:-1]}")
    path = scale.get("labelSelectorPath") or ""
    place = f"{at}.scale.labelSelectorPath"
    if path and not path.startswith("."):
        yield from _validate_path(path, place)
    elif path and not path.startswith((".spec.", ".status.")):
        yield invalid(place, path, "should be a json path under either .spec or .status")


def validate_selectable(
    selectable: list[Document], schema: Document, at: str, kept: list[Document] | None
) -> Errors:
    """Yield what is wrong with selectable fields; *kept* are those that the stored definition has."""
    seen: set[str] = set()
    for i, one in enumerate(selectable):
        path, place = one.get("jsonPath") or "", f"{at}[{i}].jsonPath"
        if not path:
            yield required(place)
            continue
        try:
            steps, found = find_field(schema, path, arrays=False)
        except FieldPathError as error:
            yield invalid(place, path, f"is an invalid path: {error}")
            continue
        if steps and steps[0][0] == "metadata":
            yield invalid(place, path, "must not point to fields in metadata")
        if found is None or found.get("type") not in ("string", "boolean", "integer"):
            detail = (
                "must point to a field of type string, boolean or integer. Enum string fields and strings with "
                "formats are allowed."
            )
            yield invalid(place, path, detail)
        shown = show_steps(steps)
        if shown in seen:
            yield duplicate(place, path)
        seen.add(shown)
    unchanged = kept is not None and len(kept) > MOST_SELECTABLE and kept == selectable
    if len(seen) > MOST_SELECTABLE and not unchanged:
        yield too_many(at, len(seen), MOST_SELECTABLE)
