"""Validation of references to requests and drivers in claims, classes and allocations.

Spec: dra.md 1.6 "ResourceClaim spec" (`constraints`, `config`), 1.8, 1.15. A request with alternatives may be named
as a whole or together with one of them. Limits and duplicates are in weir.validate.resource.declared_devices.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from weir.validate.field import Document, Errors, covered, each_invalid, invalid, required, too_many
from weir.validate.resource.declared_devices import MOST
from weir.validate.resource.device_names import validate_driver_name
from weir.validate.resource.device_taints import validate_json_object
from weir.values.names import check_dns1123_label

NOT_A_REQUEST: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
#: a claim's requests, each with its alternatives
Names = Mapping[str, Collection[str]]


def over_limit(entries: list[Any], most: int, at: str) -> Errors:
    """Yield that a list is over its limit; nothing else of such a list is reported."""
    if len(entries) > most:
        yield from covered([too_many(at, len(entries), most)])


def request_names(devices: Document) -> dict[str, set[str]]:
    """Return the requests that constraints and results may refer to, each with its alternatives."""
    names: dict[str, set[str]] = {}
    for request in devices.get("requests") or ():
        names[request.get("name") or ""] = {
            alternative.get("name") or "" for alternative in request.get("firstAvailable") or ()
        }
    return names


def validate_reference(name: str, names: Names, at: str) -> Errors:
    """Yield what is wrong with a reference to a request, or to a request and one of its alternatives."""
    parts = name.split("/")
    if len(parts) > 2:
        yield invalid(at, name, NOT_A_REQUEST)
        return
    for part in parts:
        yield from each_invalid(at, part, check_dns1123_label(part))
    if parts[0] not in names or (len(parts) > 1 and parts[1] not in names[parts[0]]):
        yield invalid(at, name, NOT_A_REQUEST)


def validate_references(listed: list[str], names: Names, at: str) -> Errors:
    """Yield what is wrong with a list of such references."""
    if over := list(over_limit(listed, MOST, at)):
        yield from over
        return
    for i, name in enumerate(listed):
        yield from validate_reference(name, names, f"{at}[{i}]")


def validate_configs(
    configs: list[Document], names: Names | None, at: str, *, stored: bool = False
) -> Errors:
    """Yield what is wrong with opaque configuration; a class names no requests (None)."""
    if over := list(over_limit(configs, MOST, at)):
        yield from over
        return
    for i, config in enumerate(configs):
        if names is not None:
            yield from validate_references(config.get("requests") or [], names, f"{at}[{i}].requests")
        yield from validate_opaque(config, f"{at}[{i}]", stored=stored)


def validate_opaque(config: Document, at: str, *, stored: bool = False) -> Errors:
    """Yield what is wrong with the parameters for a driver; *stored* ones may be as long as they are."""
    opaque = config.get("opaque")
    if opaque is None:
        yield required(f"{at}.opaque")
        return
    yield from covered(validate_driver_name(opaque.get("driver") or "", f"{at}.opaque.driver"))
    if opaque.get("parameters") is None:
        yield required(f"{at}.opaque.parameters")
    elif not stored:
        yield from validate_json_object(opaque["parameters"], f"{at}.opaque.parameters")
