"""Decoding, defaulting, zero values and validation of documents, for built-in and custom kinds alike.

The only place that distinguishes the two.
"""

from __future__ import annotations

from typing import Final

from weir.cel.work import TooMuchText, allowance
from weir.compat.customresources.reading import check_custom, decode_custom, default_custom
from weir.compat.customresources.resource_rules import validate_resource
from weir.compat.customresources.served import CustomResourceKind
from weir.errors import RequestTooLarge
from weir.fields.field import FieldError, context_for
from weir.gates import Gates
from weir.objects import defaults, document
from weir.objects.document import zero
from weir.objects.kind import Document, Kind
from weir.validate import validate_served

#: Of all expressions of one object. A definition of custom resources has some tens of thousands; compiling as many as
#: this takes a second or two.
MOST_EXPRESSION_TEXT: Final = 256 * 1024


def decode(
    body: bytes, kind: Kind, *, yaml: bool = False, field_validation: str = "Warn"
) -> tuple[Document, list[str]]:
    """Return the document *body* holds and its warnings; raises BadRequest."""
    if isinstance(kind, CustomResourceKind):
        return decode_custom(body, kind, yaml=yaml, field_validation=field_validation)
    return document.decode(body, kind, yaml=yaml, field_validation=field_validation)


def check(found: Document, kind: Kind, *, field_validation: str = "Warn") -> tuple[Document, list[str]]:
    """Return an already parsed document read as its kind, and its warnings; raises DecodeError."""
    if isinstance(kind, CustomResourceKind):
        return check_custom(found, kind, field_validation)
    return document.check(found, kind, field_validation=field_validation)


def default(found: Document, kind: Kind, now: str = "") -> None:
    """Fill in the defaults, in place."""
    if isinstance(kind, CustomResourceKind):
        default_custom(found, kind)
    else:
        defaults.default(found, kind, now)


def settle(found: Document, kind: Kind) -> None:
    """Make of a document what storing leaves of it."""
    if not isinstance(kind, CustomResourceKind):
        defaults.settle(found, kind)


def zero_fields(kind: Kind) -> Document:
    """Return the fields an empty object prints besides kind, apiVersion and metadata; do not change them."""
    return {} if isinstance(kind, CustomResourceKind) else zero(kind)


def validate(
    new: Document,
    old: Document | None,
    kind: Kind,
    gates: Gates,
    *,
    subresource: str = "",
    relaxed: bool = False,
) -> list[FieldError]:
    """Return what is wrong with *new* replacing *old*; None for *old* means a create.

    Raises RequestTooLarge for more text of expressions than any object has.
    """
    if isinstance(kind, CustomResourceKind):
        return validate_resource(new, old, kind, context_for(gates, subresource, kind.namespaced, False))
    try:
        with allowance(MOST_EXPRESSION_TEXT):
            return validate_served(new, old, kind, gates, subresource=subresource, relaxed=relaxed)
    except TooMuchText:
        raise RequestTooLarge(
            f"Request entity too large: limit is {MOST_EXPRESSION_TEXT} characters of expressions"
        ) from None
