"""Validation of ServiceCIDR and IPAddress.

Networks and addresses must be in canonical form.
"""

from __future__ import annotations

from weir.validate.addresses import check_canonical_cidr, check_canonical_ip, find_sloppy_network
from weir.validate.field import Context, Document, Errors, covered, each_invalid, invalid, required, settle
from weir.validate.meta import IMMUTABLE, validate_meta
from weir.values.names import check_dns1123_subdomain, check_path_segment

_AT = "spec.cidrs"
_ONE_EACH = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"


def validate_service_cidr(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a ServiceCIDR."""
    yield from validate_meta(new, old, context)
    if context.subresource == "status":
        return
    cidrs = (new.get("spec") or {}).get("cidrs") or []
    if old is None:
        yield from _validate_cidrs(cidrs)
        return
    before = (old.get("spec") or {}).get("cidrs") or []
    if len(before) == len(cidrs):
        for i, (was, is_now) in enumerate(zip(before, cidrs, strict=True)):
            if was != is_now:
                yield invalid(f"{_AT}[{i}]", is_now, IMMUTABLE)
    elif len(before) == 1 and len(cidrs) == 2:  # the other family may come later
        if before[0] != cidrs[0]:
            yield invalid(f"{_AT}[0]", cidrs[0], IMMUTABLE)
        yield from _validate_cidrs(cidrs)
    else:
        yield invalid(_AT, cidrs or None, IMMUTABLE)


def _validate_cidrs(cidrs: list[str]) -> Errors:
    if not cidrs:
        yield required(_AT, "at least one CIDR required")
        return
    if len(cidrs) > 2:
        # Upstream passes the whole spec, whose field has no JSON name inside the server.
        yield invalid(_AT, {"CIDRs": cidrs}, "may only hold up to 2 values")
        return
    for i, text in enumerate(cidrs):
        yield from each_invalid(f"{_AT}[{i}]", text, check_canonical_cidr(text))
    networks = [find_sloppy_network(text) for text in cidrs]
    first = networks[0]
    if len(networks) == 2 and first and networks[1] and first.version == networks[1].version:
        yield invalid(_AT, cidrs, _ONE_EACH)


def validate_ip_address(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with an IPAddress."""
    parent = (new.get("spec") or {}).get("parentRef")
    before = ((old or {}).get("spec") or {}).get("parentRef")
    yield from settle(_validate_address(new, old, context, parent, before), _declared(parent, old, before))


def _validate_address(
    new: Document, old: Document | None, context: Context, parent: Document | None, before: Document | None
) -> Errors:
    yield from validate_meta(new, old, context, check_canonical_ip)
    if parent is None:
        yield from covered([required("spec.parentRef")])
    else:
        group = parent.get("group")
        if group:
            yield from each_invalid("spec.parentRef.group", group, check_dns1123_subdomain(group))
        for field in ("resource", "name", "namespace"):
            value = parent.get(field) or ""
            if value:
                yield from each_invalid(f"spec.parentRef.{field}", value, check_path_segment(value))
            elif field != "namespace":
                yield from covered([required(f"spec.parentRef.{field}")])
    if old is not None and parent != before:
        yield from covered([invalid("spec.parentRef", parent, IMMUTABLE)])


def _declared(parent: Document | None, old: Document | None, before: Document | None) -> Errors:
    if old is not None and parent == before:
        return
    if parent is None:
        yield required("spec.parentRef")
    if old is not None:
        yield invalid("spec.parentRef", None, IMMUTABLE)  # the declared rule shows no value
    elif parent is not None:
        for field in ("resource", "name"):
            if not parent.get(field):
                yield required(f"spec.parentRef.{field}")
