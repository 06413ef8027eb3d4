"""Validation of ResourceSlice.

Spec: dra.md 1.2 "ResourceSlice", 1.3 "Device", 1.4 "Capacity request policy", 1.15; D-01 (taints beside devices), D-02
(64 devices). A slice holds devices, shared counters or taints, never two of them; `allNodes: false` is invalid;
unchanged capacities and taints of a device are not checked again. Amounts out of range of a policy are reported below
`validRange`, the default's included. Limits, effects and counters are in weir.validate.resource.declared_devices.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any, Final, NamedTuple

from weir.fields import field
from weir.fields.field import Context, Document, Errors
from weir.fields.meta import IMMUTABLE, same, validate_meta
from weir.validate.core.resources import amount
from weir.validate.gonames import go_list, go_struct
from weir.validate.numbers import NOT_NEGATIVE
from weir.validate.ratchet import options_for
from weir.validate.resource.declared_devices import (
    MOST_BINDING_CONDITIONS,
    MOST_CONSUMED_SETS,
    MOST_COUNTER_SETS,
    VALUES,
    declared_slice,
    repeated,
)
from weir.validate.resource.device_names import (
    validate_device_name,
    validate_driver_name,
    validate_pool_name,
    validate_qualified_name,
)
from weir.validate.resource.device_taint_rule import POSITIVE, validate_device_taint
from weir.validate.selectors import validate_node_selector
from weir.values.names import byte_length, check_dns1123_subdomain, check_label_key
from weir.values.quantity import Quantity, parse_quantity
from weir.values.semver import SemverError, parse_strict

MOST_DEVICES: Final = 128
MOST_DEMANDING_DEVICES: Final = 64  #: when one has taints, counters or list attributes
MOST_TAINTS: Final = 16
MOST_SLICE_TAINTS: Final = 32
MOST_ENTRIES: Final = 32
MOST_VALUES: Final = 48
VALUE_MAX_BYTES: Final = 64
_NODE_FIELDS: Final = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
KEY_MAX_BYTES: Final = 63 + 1 + 32  #: of an attribute's name in a place
ONE_NODE_FIELD: Final = "exactly one of " + ", ".join(f"`{name}`" for name in _NODE_FIELDS) + " is required"
PER_DEVICE: Final = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to "
    "true in the ResourceSlice spec"
)
NOT_PER_DEVICE: Final = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the "
    "ResourceSlice spec"
)
ONE_TERM: Final = "must have exactly one node selector term"
ONLY_TRUE: Final = "must be either unset or set to true"


def validate_resource_slice(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a ResourceSlice."""
    spec, before = new.get("spec") or {}, None if old is None else old.get("spec") or {}
    kept = _kept(before or {})
    yield from field.settle(
        (
            *validate_meta(new, old, context),
            *_validate_identity(spec, before, context),
            *_validate_node_selection(spec, context),
            *_validate_content(spec, before or {}, context, kept),
        ),
        declared_slice(spec, before, kept.effects),
    )


def _validate_identity(spec: Document, old: Document | None, context: Context) -> Errors:
    pool, driver = spec.get("pool") or {}, spec.get("driver") or ""
    if old is None or driver != old.get("driver"):
        yield from validate_driver_name(driver, "spec.driver", slashes=context.relaxed)
    yield from validate_pool_name(pool.get("name") or "", "spec.pool.name")
    count, generation = pool.get("resourceSliceCount") or 0, pool.get("generation") or 0
    yield from field.at_least("spec.pool.resourceSliceCount", count, 1, POSITIVE)
    yield from field.at_least("spec.pool.generation", generation, 0, "must be greater than or equal to zero")
    if old is None:
        return
    if (pool.get("name") or "") != ((old.get("pool") or {}).get("name") or ""):
        yield field.invalid("spec.pool.name", pool.get("name") or "", IMMUTABLE)
    if (spec.get("driver") or "") != (old.get("driver") or ""):
        yield field.invalid("spec.driver", spec.get("driver") or "", IMMUTABLE)
    if spec.get("nodeName") != old.get("nodeName"):
        yield field.invalid("spec.nodeName", spec.get("nodeName"), IMMUTABLE)


def _validate_node_selection(spec: Document, context: Context) -> Errors:
    given: list[str] = []
    name = spec.get("nodeName")
    if name is not None:
        if name:
            given.append("nodeName")
            yield from field.each_invalid("spec.nodeName", name, check_dns1123_subdomain(name))
        else:
            yield field.invalid("spec.nodeName", "", "must be either unset or set to a non-empty string")
    if (selector := spec.get("nodeSelector")) is not None:
        given.append("nodeSelector")
        yield from _validate_selector(selector, "spec.nodeSelector", context)
    for member in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(member):
            given.append(member)
        elif spec.get(member) is not None:
            yield field.invalid(f"spec.{member}", False, ONLY_TRUE)
    if not given:
        yield field.required("spec", ONE_NODE_FIELD)
    elif len(given) > 1:
        shown = "{" + ", ".join(f"`{member}`" for member in given) + "}"
        yield field.invalid("spec", shown, ONE_NODE_FIELD + ", but multiple fields are set")


def _validate_selector(selector: Document, at: str, context: Context) -> Errors:
    # KEP-5721: DynamicResources does not use the Semver operators, so slices may not contain them.
    options = dataclasses.replace(options_for(context.gates, context.raw), features=frozenset())
    yield from validate_node_selector(selector, at, options)
    terms = selector.get("nodeSelectorTerms") or []
    if len(terms) != 1 and at == "spec.nodeSelector":
        given = selector.get("nodeSelectorTerms")
        yield field.invalid(f"{at}.nodeSelectorTerms", go_list("NodeSelectorTerm", given), ONE_TERM)


# ── what the slice holds ─────────────────────────────────────────────────────────────────────────


def _validate_content(spec: Document, old: Document, context: Context, kept: _Kept) -> Errors:
    devices, taints = spec.get("devices") or [], spec.get("taints") or []
    counters = spec.get("sharedCounters") or []
    if taints and (devices or counters):
        yield field.invalid("spec", "", "only one of `devices`, `sharedCounters` or `taints` is allowed")
    elif spec.get("devices") is not None and spec.get("sharedCounters") is not None:
        yield field.invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed")
    limit = MOST_DEMANDING_DEVICES if any(map(_is_demanding, devices)) else MOST_DEVICES
    if len(devices) > limit:
        yield field.too_many("spec.devices", len(devices), limit)
    else:
        yield from _validate_devices(devices, spec, old, context, kept)
    yield from _validate_slice_taints(taints)
    yield from _validate_counter_sets(counters)


def _is_demanding(device: Document) -> bool:
    lists = ("ints", "bools", "strings", "versions")
    return bool(
        device.get("taints")
        or device.get("consumesCounters")
        or any(
            value.get(name) is not None
            for value in (device.get("attributes") or {}).values()
            for name in lists
        )
    )


class _Kept(NamedTuple):
    """What a stored slice has that would be refused if it were new: unknown effects, names of the dialect."""

    effects: Collection[str]
    names: Collection[str]


def _kept(spec: Document) -> _Kept:
    devices = spec.get("devices") or ()
    taints = [taint for device in devices for taint in device.get("taints") or ()]
    taints += [entry.get("taint") or {} for entry in spec.get("taints") or ()]
    return _Kept(
        {taint.get("effect") or "" for taint in taints},
        {
            name
            for device in devices
            for part in ("attributes", "capacity")
            for name in device.get(part) or ()
        },
    )


def _validate_devices(
    devices: list[Document], spec: Document, old: Document, context: Context, kept: _Kept
) -> Errors:
    before: dict[str, Document] = {}
    for known in old.get("devices") or ():
        before.setdefault(known.get("name") or "", known)
    for i, device in enumerate(devices):
        stored = before.get(device.get("name") or "")
        yield from _validate_device(device, stored, f"spec.devices[{i}]", spec, context, kept)
    names: set[str] = set()
    for i, device in enumerate(devices):
        if (name := device.get("name") or "") in names:
            yield field.duplicate(f"spec.devices[{i}]", name)
        names.add(name)


def _validate_device(
    device: Document, old: Document | None, at: str, spec: Document, context: Context, kept: _Kept
) -> Errors:
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    taints = device.get("taints") or []
    yield from validate_device_name(device.get("name") or "", f"{at}.name")
    if (total := len(attributes) + len(capacity)) > MOST_ENTRIES:
        detail = f"the total number of attributes and capacities must not exceed {MOST_ENTRIES}"
        yield field.invalid(at, total, detail)
    if (values := sum(map(_count_values, attributes.values()))) > MOST_VALUES:
        yield field.invalid(at, values, f"the total number of attribute values must not exceed {MOST_VALUES}")
    for name in sorted(attributes):
        yield from _validate_name(name, f"{at}.attributes", context, kept)
        yield from _validate_attribute(attributes[name], f"{at}.attributes[{_shortened(name)}]")
    if old is None or not same(capacity, old.get("capacity")):
        for name in sorted(capacity):
            yield from _validate_name(name, f"{at}.capacity", context, kept)
            yield from _validate_capacity(capacity[name], device, f"{at}.capacity[{_shortened(name)}]")
    if old is None or not same(taints, old.get("taints")):
        if len(taints) > MOST_TAINTS:
            yield field.too_many(f"{at}.taints", len(taints), MOST_TAINTS)
        else:
            yield from field.each(validate_device_taint, taints, f"{at}.taints")
    yield from _validate_consumption(device.get("consumesCounters") or [], f"{at}.consumesCounters")
    yield from _validate_device_nodes(device, at, bool(spec.get("perDeviceNodeSelection")), context)
    yield from validate_binding_conditions(device, at)


def _shortened(key: str) -> str:
    """Return a map key as a place shows it: a long one without its middle.

    >>> _shortened("a" * 60 + "b" * 60)
    'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb'
    """
    if byte_length(key) <= KEY_MAX_BYTES:
        return key
    left = KEY_MAX_BYTES - 3
    return f"{key[: (left + 1) // 2]}...{key[-(left // 2) :]}"


def _validate_name(name: str, at: str, context: Context, kept: _Kept) -> Errors:
    """Yield what is wrong with the name of an attribute or capacity; the dialect also takes dashes in it."""
    if name in kept.names:
        return
    if context.relaxed:
        domain, slash, identifier = name.rpartition("/")
        name = f"{domain}{slash}{identifier.replace('-', '_')}"
    yield from validate_qualified_name(name, at)


def _count_values(attribute: Document) -> int:
    lists = sum(len(attribute.get(name) or ()) for name in ("ints", "bools", "strings", "versions"))
    return lists or 1


def _validate_attribute(attribute: Document, at: str) -> Errors:
    for name in ("string", "version"):
        if attribute.get(name) is not None:
            yield from _validate_text(attribute[name], name, f"{at}.{name}")
    for name in ("ints", "bools", "strings", "versions"):
        if attribute.get(name) == []:
            yield field.invalid(f"{at}.{name}", [], "must not be empty if specified")
    for name in ("strings", "versions"):
        for i, text in enumerate(attribute.get(name) or ()):
            yield from _validate_text(text, name.removesuffix("s"), f"{at}.{name}[{i}]")
    given = [name for name in VALUES if attribute.get(name) is not None]
    if len(given) != 1:
        shown = go_struct("DeviceAttribute", attribute) if given else ""
        yield from field.covered([field.invalid(at, shown, "exactly one value must be specified")])


def _validate_text(text: str, kind: str, at: str) -> Errors:
    if kind == "version":
        try:
            parse_strict(text)
        except SemverError:
            yield field.invalid(at, text, "must be a string compatible with semver.org spec 2.0.0")
    yield from field.short_enough(at, text, VALUE_MAX_BYTES)


def _validate_capacity(capacity: Document, device: Document, at: str) -> Errors:
    policy = capacity.get("requestPolicy")
    if policy is None:
        return
    if not device.get("allowMultipleAllocations"):
        yield field.forbidden(f"{at}.requestPolicy", "allowMultipleAllocations must be true")
        return
    yield from validate_request_policy(policy, amount(capacity.get("value") or "0"), f"{at}.requestPolicy")


def _validate_device_nodes(device: Document, at: str, per_device: bool, context: Context) -> Errors:
    given = [name for name in ("nodeName", "nodeSelector", "allNodes") if device.get(name) is not None]
    if not per_device:
        if given:
            yield field.invalid(at, None, NOT_PER_DEVICE)
        return
    if name := device.get("nodeName"):
        yield from field.each_invalid(f"{at}.nodeName", name, check_dns1123_subdomain(name))
    elif name is not None:
        yield field.invalid(f"{at}.nodeName", "", "must not be empty")
        given.remove("nodeName")
    if device.get("nodeSelector") is not None:
        yield from _validate_selector(device["nodeSelector"], f"{at}.nodeSelector", context)
    if device.get("allNodes") is False:
        yield field.invalid(f"{at}.allNodes", False, ONLY_TRUE)
        given.remove("allNodes")
    if not given:
        yield field.required(at, PER_DEVICE)
    elif len(given) > 1:
        yield field.invalid(at, "{" + ", ".join(f"`{name}`" for name in given) + "}", PER_DEVICE)


def validate_binding_conditions(holder: Document, at: str) -> Errors:
    """Yield what is wrong with the conditions a device, or an allocated one, must meet before pods are bound."""
    wanted, failed = holder.get("bindingConditions") or [], holder.get("bindingFailureConditions") or []
    for name, listed in (("bindingConditions", wanted), ("bindingFailureConditions", failed)):
        if len(listed) > MOST_BINDING_CONDITIONS:
            yield from field.covered([field.too_many(f"{at}.{name}", len(listed), MOST_BINDING_CONDITIONS)])
        else:
            yield from field.each_well_formed(f"{at}.{name}", listed, check_label_key)
    yield from repeated(wanted, (), f"{at}.bindingConditions")
    for i, condition in enumerate(failed):
        where = f"{at}.bindingFailureConditions[{i}]"
        if condition in failed[:i]:
            yield field.duplicate(where, condition)
        if condition in wanted:
            yield field.invalid(
                where, condition, "bindingFailureConditions must not overlap with bindingConditions"
            )
    if failed and not wanted:
        detail = "bindingConditions are required to use bindingFailureConditions"
        yield field.invalid(f"{at}.bindingConditions", holder.get("bindingConditions"), detail)
    if wanted and not failed:
        detail = "bindingFailureConditions are required to use bindingConditions"
        yield field.invalid(f"{at}.bindingFailureConditions", holder.get("bindingFailureConditions"), detail)


def _validate_slice_taints(taints: list[Document]) -> Errors:
    if len(taints) > MOST_SLICE_TAINTS:
        yield field.too_many("spec.taints", len(taints), MOST_SLICE_TAINTS)
        return
    for i, entry in enumerate(taints):
        at = f"spec.taints[{i}]"
        device = entry.get("device") or ""
        if not device:
            yield field.required(f"{at}.device")
        else:
            yield from validate_device_name(device, f"{at}.device")
        yield from validate_device_taint(entry.get("taint") or {}, f"{at}.taint")


# ── counters ─────────────────────────────────────────────────────────────────────────────────────
# Their names are the second pass's business; only a map over its limit is reported here.


def _validate_counter_sets(sets: list[Document]) -> Errors:
    if len(sets) <= MOST_COUNTER_SETS:
        for i, counters in enumerate(sets):
            where = f"spec.sharedCounters[{i}].counters"
            yield from field.at_most(where, counters.get("counters") or {}, MOST_ENTRIES)


def _validate_consumption(entries: list[Document], at: str) -> Errors:
    if len(entries) <= MOST_CONSUMED_SETS:
        for i, entry in enumerate(entries):
            yield from field.at_most(f"{at}[{i}].counters", entry.get("counters") or {}, MOST_ENTRIES)


# ── capacity request policies ─────────────────────────────────────────────────────────────────────────


MOST_POLICY_VALUES: Final = 10
BOTH: Final = (
    'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
)


NOT_INT64: Final = "must not be larger than 9223372036854775807"
_LARGEST: Final = parse_quantity("9223372036854775807")


def validate_request_policy(policy: Document, capacity: Quantity, at: str) -> Errors:
    """Yield what is wrong with the policy of one capacity whose whole amount is *capacity*."""
    values, span, default = policy.get("validValues") or [], policy.get("validRange"), policy.get("default")
    if values and span is not None:
        yield field.forbidden(at, BOTH)
        return
    given = "validValues" if values else "validRange" if span is not None else ""
    if default is None and given:
        yield field.required(f"{at}.default", f"required when {given} is defined")
        return
    if values:
        yield from _validate_values(values, default, capacity, f"{at}.validValues")
    if span is not None:
        yield from _validate_range(span, default, capacity, f"{at}.validRange")


def _validate_values(values: list[Any], default: Any, capacity: Quantity, at: str) -> Errors:
    amounts, asked = [amount(value) for value in values], amount(default)
    for i in range(1, len(amounts)):
        if amounts[i] < amounts[i - 1]:
            yield field.invalid(f"{at}[{i}]", str(amounts[i]), "values must be sorted in ascending order")
    looked_at = amounts if len(amounts) <= MOST_POLICY_VALUES else []
    if not looked_at:
        yield field.too_many(at, len(values), MOST_POLICY_VALUES)
    for i, each in enumerate(looked_at):
        if each > capacity:
            yield field.invalid(f"{at}[{i}]", str(each), f"option is larger than capacity value: {capacity}")
    whole = [each.value for each in looked_at]  # fractions are rounded up before they are compared
    for i, number in enumerate(whole):
        if number in whole[:i]:
            yield field.duplicate(f"{at}[{i}]", str(number))
    if asked not in looked_at:
        yield field.invalid(at, str(asked), "default value is not valid according to the requestPolicy")


def _validate_range(span: Document, default: Any, capacity: Quantity, at: str) -> Errors:
    low, high, step = (
        None if span.get(name) is None else amount(span[name]) for name in ("min", "max", "step")
    )
    asked = amount(default)
    if low is None:
        yield field.required(f"{at}.min", "required when validRange is defined")
        return
    if low > capacity:
        yield field.invalid(f"{at}.min", str(low), f"min is larger than capacity value: {capacity}")
    if asked < low:
        yield field.invalid(f"{at}.default", str(asked), f"default is less than min: {low}")
    if high is not None:
        yield from _validate_maximum(low, high, asked, capacity, at)
    if step is not None:
        yield from _validate_step(low, high, step, asked, capacity, at)


def _validate_maximum(low: Quantity, high: Quantity, asked: Quantity, capacity: Quantity, at: str) -> Errors:
    if low > high:
        yield field.invalid(f"{at}.max", str(low), f"min is larger than max: {high}")
    if high > capacity:
        yield field.invalid(f"{at}.max", str(high), f"max is larger than capacity value: {capacity}")
    if asked > high:
        yield field.invalid(f"{at}.default", str(asked), f"default is more than max: {high}")


def _validate_step(
    low: Quantity, high: Quantity | None, step: Quantity, asked: Quantity, capacity: Quantity, at: str
) -> Errors:
    if step.sign <= 0:
        yield field.invalid(f"{at}.step", str(step), "must be greater than zero")
        return
    if low + step > capacity:
        yield field.invalid(
            f"{at}.step", str(step), f"one step {low + step} is larger than capacity value: {capacity}"
        )
    named = [("default", asked), ("min", low), ("max", high), ("step", step)]
    unsafe = [(name, each) for name, each in named if each is not None and _is_unsafe(each)]
    for name, each in unsafe:
        yield field.invalid(f"{at}.{name}", str(each), NOT_NEGATIVE if each.sign < 0 else NOT_INT64)
    for bound in () if unsafe else (asked, high):
        if bound is not None and (bound.value - low.value) % step.value:  # in whole numbers, rounded up
            detail = f"value is not a multiple of a given step ({step}) from ({low})"
            yield field.invalid(f"{at}.step", str(bound), detail)


def _is_unsafe(each: Quantity) -> bool:
    """Return whether steps cannot be counted with *each*: it is negative, or over what 64 bits hold."""
    return each.sign < 0 or each > _LARGEST
