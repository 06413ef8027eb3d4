"""Validation of driver, pool, device and attribute names, and of device selectors.

Spec: dra.md 1.2 "ResourceSlice", 1.3 "Device" (QualifiedName), 1.15 "Validation error texts". A driver's name is
checked in lower case and printed as sent; of a pool's name only the failing part is printed.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from weir.fields import field
from weir.fields.field import Document, Errors, FieldError
from weir.fields.meta import same
from weir.validate.core.tolerations import expression_errors
from weir.values.names import (
    byte_length,
    check_c_identifier,
    check_caseless_subdomain,
    check_dns1123_label,
    check_dns1123_subdomain,
)

DRIVER_MAX_BYTES: Final = 63
POOL_MAX_BYTES: Final = 253
IDENTIFIER_MAX_BYTES: Final = 32
EXPRESSION_MAX_BYTES: Final = 10 * 1024
MOST_SELECTORS: Final = 32
NOT_QUALIFIED: Final = "a fully qualified name must be a domain and a name separated by a slash"


def validate_driver_name(name: str, at: str, *, slashes: bool = False) -> Errors:
    """Yield what is wrong with the name of a DRA driver; with *slashes* it may be several names joined by them."""
    if not name:
        yield field.required(at)
        return
    yield from field.short_enough(at, name, DRIVER_MAX_BYTES)
    for part in name.split("/") if slashes else [name]:
        yield from field.each_invalid(at, part, check_dns1123_subdomain(part.lower()))


def validate_driver_reference(name: str, at: str, *, slashes: bool = False) -> Errors:
    """Yield what is wrong with a driver that is referred to: the same rule, in the newer words."""
    if not name:
        yield field.required(at)
        return
    for part in name.split("/") if slashes else [name]:
        yield from field.each_invalid(at, part, check_caseless_subdomain(part))
    if len(name) > DRIVER_MAX_BYTES:
        yield FieldError(field.TOO_LONG, at, "", f"may not be more than {DRIVER_MAX_BYTES} characters")


def validate_pool_name(name: str, at: str) -> Errors:
    """Yield what is wrong with the name of a pool: DNS subdomains joined by slashes."""
    if not name:
        yield field.required(at)
        return
    yield from field.short_enough(at, name, POOL_MAX_BYTES)
    for part in name.split("/"):
        yield from field.each_invalid(at, part, check_dns1123_subdomain(part))


def validate_device_name(name: str, at: str) -> Errors:
    """Yield what is wrong with the name of a device, a request or a counter."""
    yield from field.each_invalid(at, name, check_dns1123_label(name))


def validate_identifier(name: str, at: str) -> Errors:
    """Yield what is wrong with the part of an attribute's name after its domain."""
    yield from field.short_enough(at, name, IDENTIFIER_MAX_BYTES)
    yield from field.each_invalid(at, name, check_c_identifier(name))


def validate_qualified_name(name: str, at: str) -> Errors:
    """Yield what is wrong with the name of an attribute or capacity: an identifier, perhaps after a domain."""
    domain, slash, identifier = name.partition("/")
    if not slash:
        yield from validate_identifier(name, at)
        return
    if "/" in identifier:
        return  # slips through upstream
    if domain:
        yield from validate_driver_name(domain, at)
    else:
        yield field.invalid(at, "", "the domain must not be empty")
    if identifier:
        yield from validate_identifier(identifier, at)
    else:
        yield field.invalid(at, "", "the name must not be empty")


def validate_selectors(
    selectors: list[Document], at: str, old: list[Document] | None = None, *, shares: bool = True
) -> Errors:
    """Yield what is wrong with CEL selectors; the expressions of an unchanged list are not looked at again.

    Only where devices can be shared (*shares*) may an expression ask whether one is.
    """
    if len(selectors) > MOST_SELECTORS:
        yield from field.covered([field.too_many(at, len(selectors), MOST_SELECTORS)])
        return
    stored = old is not None and same(selectors, old)
    for i, selector in enumerate(selectors):
        cel = selector.get("cel")
        if cel is None:
            yield field.required(f"{at}[{i}].cel")
        elif not stored:
            yield from _validate_expression(cel.get("expression") or "", f"{at}[{i}].cel.expression", shares)


def _validate_expression(expression: str, at: str, shares: bool) -> Errors:
    if byte_length(expression) > EXPRESSION_MAX_BYTES:
        yield field.too_long(at, EXPRESSION_MAX_BYTES)
        return
    # The language is heavy to load and few writes carry a selector.
    language = import_module("weir.devices.expression")
    yield from expression_errors(
        at, expression, language.check_expression(expression, multiple_allocations=shares)
    )
