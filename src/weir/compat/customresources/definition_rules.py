"""Validation of CustomResourceDefinition.

Spec: upstream's rules of apiextensions.k8s.io/v1, in its words and order. An update need not fix what the stored
definition already violates. Conversion, and defaults against their own schema, are validated here; schemas in
.structural, .schema_rules and .expression_rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from weir.compat.customresources.expression_rules import validate_expressions
from weir.compat.customresources.expressions import compile_rules, evaluate_rules
from weir.compat.customresources.group_approval import validate_approval
from weir.compat.customresources.internal_form import go_version, internal_spec
from weir.compat.customresources.pruning import prune
from weir.compat.customresources.resource_rules import validate_embedded
from weir.compat.customresources.schema import Schema, has_rules, read_schema
from weir.compat.customresources.schema_rules import (
    TYPES,
    Options,
    map_key_problems,
    validate_root,
    validate_schema,
)
from weir.compat.customresources.served import is_true
from weir.compat.customresources.structural import children, find_unsupported, validate_structural
from weir.compat.customresources.values import NO_FIELD, validate_value
from weir.compat.customresources.version_rules import (
    validate_column,
    validate_deprecation,
    validate_selectable,
    validate_subresources,
)
from weir.fields import field
from weir.fields.field import Context, Document, Enum, Errors, FieldError
from weir.fields.meta import validate_generic_meta
from weir.fields.webhook_client import validate_client_service, validate_client_url
from weir.values.names import Messages, check_dns1035_label, check_dns1123_subdomain

_REVIEWS: Final = ("v1", "v1beta1")


def validate_defaults(schema: Document, at: str, *, pruned: bool = True) -> Errors:
    """Yield what is wrong with the defaults of *schema*; with *pruned* they may not have unknown fields."""
    for default, found, place in _defaults(schema, at):
        read = read_schema(found)
        if pruned:
            left = {"": msgspec.to_builtins(default)}
            prune(left, Schema(properties={"": read}))
            if left[""] != default:
                yield field.invalid(place, default, "must not have unknown fields")
        wrong = list(validate_embedded(default, read, "")) or validate_value(default, read)
        yield from (_moved(error, place) for error in wrong or _broken_rules(default, read))


def _broken_rules(default: Any, read: Schema) -> list[FieldError]:
    """Return the rules that a default breaks, were it new or there before."""
    if not has_rules(read):
        return []

    rules = compile_rules(read, root=read.embedded)
    if rules is None:
        return []
    return evaluate_rules(rules, default, default)[0] or evaluate_rules(rules, default, None)[0]


def _defaults(schema: Document, at: str) -> Iterator[tuple[Any, Document, str]]:
    if schema.get("default") is not None:
        yield schema["default"], schema, f"{at}.default"
    if isinstance(schema.get("items"), dict):
        yield from _defaults(schema["items"], f"{at}.items")
    for name, child in (schema.get("properties") or {}).items():
        yield from _defaults(child, f"{at}.properties[{name}]")


def _moved(error: FieldError, place: str) -> FieldError:
    if error.field in ("", NO_FIELD):
        return FieldError(error.type, place, error.value, error.detail)
    return FieldError(error.type, f"{place}.{error.field}", error.value, error.detail)


def validate_conversion(spec: Document, old: Document | None) -> Errors:
    """Yield what is wrong with `spec.conversion` of a definition whose stored spec is *old*."""
    conversion = spec.get("conversion")
    if conversion is None:
        return
    strategy, client = conversion.get("strategy") or "", conversion.get("webhookClientConfig")
    reviews, at = conversion.get("conversionReviewVersions") or [], "spec.conversion"
    if strategy != "None" and spec.get("preserveUnknownFields"):
        detail = "must be None if spec.preserveUnknownFields is true"
        yield field.invalid(f"{at}.strategy", Enum(strategy), detail)
    if not strategy:
        yield field.required(f"{at}.strategy")
    elif strategy not in ("None", "Webhook"):
        yield field.not_supported(f"{at}.strategy", strategy, ("None", "Webhook"))
    if strategy != "Webhook":
        for name, value in (("webhookClientConfig", client), ("conversionReviewVersions", reviews)):
            if value:
                yield field.forbidden(f"{at}.{name}", "should not be set when strategy is not set to Webhook")
        return
    place = f"{at}.webhookClientConfig"
    if client is None:
        yield field.required(place, "required when strategy is set to Webhook")
    elif (client.get("url") is None) == (client.get("service") is None):
        yield field.required(place, "exactly one of url or service is required")
    elif client.get("url") is not None:
        yield from validate_client_url(client["url"], f"{place}.url")
    else:
        yield from validate_client_service(client["service"], f"{place}.service")
    were = ((old or {}).get("conversion") or {}).get("conversionReviewVersions") or []
    known = not were or any(version in _REVIEWS for version in were)
    yield from _validate_reviews(reviews, f"{at}.conversionReviewVersions", known)


def _validate_reviews(reviews: list[str], at: str, must_be_known: bool) -> Errors:
    if not reviews:
        yield field.required(at)
        return
    seen: set[str] = set()
    for i, version in enumerate(reviews):
        if version in seen:
            yield field.invalid(f"{at}[{i}]", version, "duplicate version")
            continue
        seen.add(version)
        for message in check_dns1035_label(version):
            yield field.invalid(f"{at}[{i}]", version, message)
    if must_be_known and not seen & {*_REVIEWS}:
        yield field.invalid(at, reviews, f"must include at least one of {', '.join(_REVIEWS)}")


def validate_definition(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a definition that replaces *old*."""
    spec, status = internal_spec(new.get("spec") or {}), new.get("status") or {}
    if context.raw and (kind := (spec.get("names") or {}).get("kind")):  # as the server fills them in
        spec["names"] = {"singular": kind.lower(), "listKind": f"{kind}List", **spec["names"]}

    def check_name(name: str) -> Messages:
        found = check_dns1123_subdomain(name)
        names = spec.get("names") or {}
        if name != f"{names.get('plural') or ''}.{spec.get('group') or ''}":
            found = (*found, 'must be spec.names.plural+"."+spec.group')
        return found

    yield from validate_generic_meta(new, old, context, check_name)
    if context.subresource == "status":
        yield from _validate_names(status.get("acceptedNames") or {}, "status.acceptedNames")
        return
    stored = None if old is None else internal_spec(old.get("spec") or {})
    yield from _validate_spec(spec, stored)
    if stored is not None and old is not None:
        yield from _validate_immutable(spec, stored, is_true(old, "Established"))
    yield from _validate_names(status.get("acceptedNames") or {}, "status.acceptedNames")
    if not context.raw or status.get("storedVersions"):
        yield from _validate_stored_versions(status.get("storedVersions") or [], spec)
    yield from validate_approval(new, old)
    if spec.get("preserveUnknownFields") and not (stored or {}).get("preserveUnknownFields"):
        yield field.invalid(
            "spec.preserveUnknownFields",
            True,
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema "
            "instead",
        )


def _validate_immutable(spec: Document, old: Document, established: bool) -> Errors:
    names, were = spec.get("names") or {}, old.get("names") or {}
    pairs: list[tuple[str, Any, Any]] = []
    if established:
        pairs.append(("scope", Enum(spec.get("scope") or ""), old.get("scope") or ""))
        pairs.append(("names.kind", names.get("kind") or "", were.get("kind") or ""))
    pairs.append(("group", spec.get("group") or "", old.get("group") or ""))
    pairs.append(("names.plural", names.get("plural") or "", were.get("plural") or ""))
    for name, value, was in pairs:
        if value != was:
            yield field.invalid(f"spec.{name}", value, "field is immutable")


# ── the spec ─────────────────────────────────────────────────────────────────────────────────────


def _validate_spec(spec: Document, old: Document | None) -> Errors:
    group = spec.get("group") or ""
    if not group:
        yield field.required("spec.group")
    elif messages := check_dns1123_subdomain(group):
        yield field.invalid("spec.group", group, ",".join(messages))
    elif "." not in group:
        yield field.invalid("spec.group", group, "should be a domain with at least one dot")
    scope = spec.get("scope") or ""
    if not scope:
        yield field.required("spec.scope")
    elif scope not in ("Cluster", "Namespaced"):
        yield field.not_supported("spec.scope", scope, ("Cluster", "Namespaced"))
    versions = spec["versions"]
    shared = (spec.get("validation") or {}).get("openAPIV3Schema")
    tolerant = old is not None and _lacks_schema(old)
    if shared is None:
        for i, version in enumerate(versions):
            if (version.get("schema") or {}).get("openAPIV3Schema") is None:
                place = f"spec.versions[{i}].schema.openAPIV3Schema"
                if not tolerant:
                    yield field.required(place)
                elif version.get("served") and not spec.get("preserveUnknownFields"):
                    yield field.required(place, "because otherwise all fields are pruned")
    if spec.get("preserveUnknownFields") and any(_has(one, _has_default) for one in _schemas(spec)):
        detail = "must be false in order to use defaults in the schema"
        yield field.invalid("spec.preserveUnknownFields", True, detail)
    options = _options(old)
    yield from _validate_versions(spec, options, old)
    names = spec.get("names") or {}
    for name in ("plural", "singular", "kind", "listKind"):
        yield from field.present(f"spec.names.{name}", names.get(name))
    yield from _validate_names(names, "spec.names")
    has_status = _has_status(spec.get("subresources")) or any(
        _has_status(version.get("subresources")) for version in versions
    )
    yield from _validate_holder(spec.get("validation"), "spec.validation", has_status, options)
    yield from validate_subresources(spec.get("subresources"), "spec.subresources")
    yield from field.each(
        validate_column, spec.get("additionalPrinterColumns"), "spec.additionalPrinterColumns"
    )
    if spec.get("selectableFields"):
        if spec.get("validation") is None:
            detail = "may only be set when validations.schema is included"
            yield field.invalid("spec.selectableFields", "", detail)
        elif shared is not None:
            kept = (old or {}).get("selectableFields")
            yield from validate_selectable(spec["selectableFields"], shared, "spec.selectableFields", kept)
    yield from validate_conversion(spec, old)


def _validate_versions(spec: Document, options: Options, old: Document | None) -> Errors:
    versions, seen, stored, doubled = spec["versions"], set(), 0, False
    were = {version.get("name"): version for version in (old or {}).get("versions") or ()}
    for i, version in enumerate(versions):
        at, name = f"spec.versions[{i}]", version.get("name") or ""
        stored += bool(version.get("storage"))
        doubled = doubled or name in seen
        seen.add(name)
        if messages := check_dns1035_label(name):
            yield field.invalid(f"{at}.name", name, ",".join(messages))
        yield from validate_deprecation(version, at)
        subresources = version.get("subresources")
        if not any(one.get("subresources") is not None for one in versions):
            subresources = spec.get("subresources")
        yield from _validate_holder(version.get("schema"), f"{at}.schema", _has_status(subresources), options)
        yield from validate_subresources(version.get("subresources"), f"{at}.subresources")
        yield from field.each(
            validate_column, version.get("additionalPrinterColumns"), f"{at}.additionalPrinterColumns"
        )
        selectable = version.get("selectableFields")
        if selectable:
            schema = (version.get("schema") or {}).get("openAPIV3Schema")
            if schema is None:
                detail = "may only be set when `version.schema.openAPIV3Schema` is not included"
                yield field.invalid(f"{at}.selectableFields", "", detail)
            else:
                kept = (were.get(name) or {}).get("selectableFields")
                yield from validate_selectable(selectable, schema, f"{at}.selectableFields", kept)
    shown = [go_version(version) for version in versions]
    if doubled:
        yield field.invalid("spec.versions", shown, "must contain unique version names")
    if stored != 1:
        yield field.invalid("spec.versions", shown, "must have exactly one version marked as storage version")
    first = (versions[0].get("name") or "") if versions else ""
    if first and (messages := check_dns1035_label(first)):
        yield field.invalid("spec.version", first, ",".join(messages))


def _validate_holder(holder: Document | None, at: str, has_status: bool, options: Options) -> Errors:
    """Yield what is wrong with a schema; *holder* is the object its `openAPIV3Schema` stands in."""
    schema = None if holder is None else holder.get("openAPIV3Schema")
    if schema is None:
        return
    place = f"{at}.openAPIV3Schema"
    errors: list[FieldError] = list(validate_root(schema, place, has_status))
    unsupported, sound = "", False
    if options.structural:
        unsupported = find_unsupported(schema)
        if not unsupported:
            wrong = validate_structural(schema, place) or list(
                validate_defaults(schema, place, pruned=options.pruned_defaults)
            )
            errors += wrong
            sound = not wrong
    wrong = list(validate_schema(schema, place, options))
    errors += wrong
    if sound and not wrong and _has(schema, _has_rule):
        errors += validate_expressions(schema, place)
    if not errors and unsupported:
        errors.append(field.invalid(place, "", unsupported))
    yield from errors


def _validate_names(names: Document, at: str) -> Errors:
    for name in ("plural", "singular"):
        value = names.get(name) or ""
        if value and (messages := check_dns1035_label(value)):
            yield field.invalid(f"{at}.{name}", value, ",".join(messages))
    for name in ("kind", "listKind"):
        value = names.get(name) or ""
        if value and (messages := check_dns1035_label(value.lower())):
            detail = "may have mixed case, but should otherwise match: " + ",".join(messages)
            yield field.invalid(f"{at}.{name}", value, detail)
    for i, value in enumerate(names.get("shortNames") or ()):
        if messages := check_dns1035_label(value):
            yield field.invalid(f"{at}.shortNames[{i}]", value, ",".join(messages))
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield field.invalid(f"{at}.listKind", names["listKind"], "kind and listKind may not be the same")
    for i, value in enumerate(names.get("categories") or ()):
        if messages := check_dns1035_label(value):
            yield field.invalid(f"{at}.categories[{i}]", value, ",".join(messages))


def _validate_stored_versions(stored: list[str], spec: Document) -> Errors:
    at = "status.storedVersions"
    if not stored:
        yield field.invalid(at, None, "must have at least one stored version")
        return
    left = {name: i for i, name in enumerate(stored)}
    for version in spec["versions"]:
        name = version.get("name") or ""
        if version.get("storage") and name not in left:
            yield field.invalid(at, stored, f"must have the storage version {name}")
        left.pop(name, None)
    for name, i in left.items():
        detail = (
            f"missing from spec.versions; {name} was previously a storage version, and must remain in "
            f"spec.versions until a storage migration ensures no data remains persisted in {name} and removes "
            f"{name} from status.storedVersions"
        )
        yield field.invalid(f"{at}[{i}]", name, detail)


# ── what the stored definition does not keep to either ───────────────────────────────────────────


def _schemas(spec: Document) -> Iterator[Document]:
    for holder in (spec.get("validation"), *(version.get("schema") for version in spec["versions"])):
        if holder is not None and holder.get("openAPIV3Schema") is not None:
            yield holder["openAPIV3Schema"]


def _has(schema: Document, test: Any) -> bool:
    return bool(test(schema)) or any(_has(child, test) for child in children(schema))


def _has_default(schema: Document) -> bool:
    return schema.get("default") is not None


def _has_rule(schema: Document) -> bool:
    return bool(schema.get("x-kubernetes-validations"))


def _has_wrong_type(schema: Document) -> bool:
    return bool(schema.get("type")) and schema["type"] not in TYPES


def _has_loose_set(schema: Document) -> bool:
    items = schema.get("items")
    if schema.get("x-kubernetes-list-type") != "set" or not isinstance(items, dict):
        return False
    if items.get("type") == "array":
        return items.get("x-kubernetes-list-type") not in (None, "atomic")
    return items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic"


def _lacks_schema(spec: Document) -> bool:
    if (spec.get("validation") or {}).get("openAPIV3Schema") is not None:
        return False
    return any((version.get("schema") or {}).get("openAPIV3Schema") is None for version in spec["versions"])


def _options(old: Document | None) -> Options:
    """Return what has to be right; of an update only what is right in *old*."""
    if old is None:
        return Options()
    were = list(_schemas(old))

    def unless(test: Any) -> bool:
        return not any(_has(schema, test) for schema in were)

    structural = not any(
        bool(find_unsupported(schema)) or bool(validate_structural(schema, "")) for schema in were
    )
    return Options(
        valid_types=unless(_has_wrong_type),
        structural=structural or not old.get("preserveUnknownFields"),
        atomic_sets=unless(_has_loose_set),
        sound_map_keys=unless(lambda schema: any(map_key_problems(schema, ""))),
        pruned_defaults=not any(
            error.detail == "must not have unknown fields"
            for schema in were
            for error in validate_defaults(schema, "")
        ),
    )


def _has_status(subresources: Document | None) -> bool:
    return bool(subresources) and subresources is not None and subresources.get("status") is not None
