"""Internal form of a CustomResourceDefinition, as the API server validates it.

What all versions have in common (schema, subresources, columns, selectable fields) moves to the top level, and a
conversion's webhook beside its strategy. Paths and values in messages refer to this form: a definition with one
version is reported at `spec.validation`, not `spec.versions[0].schema`. Values print with Go field names.
"""

from __future__ import annotations

from typing import Any, Final

from weir.fields.field import Document
from weir.fields.meta import same

#: field of a version → field of the spec that all versions share
_SHARED: Final = {
    "schema": "validation",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}


def internal_spec(spec: Document) -> Document:
    """Return the spec in the server's own form; *spec* stays as it is.

    >>> internal_spec({"versions": [{"name": "v1", "schema": {"openAPIV3Schema": {}}}]})["validation"]
    {'openAPIV3Schema': {}}
    """
    made = dict(spec)
    versions = [dict(version) for version in spec.get("versions") or ()]
    made["versions"] = versions
    if versions:
        for name, above in _SHARED.items():
            first = versions[0].get(name)
            if all(same(version.get(name), first) for version in versions[1:]):
                if first is not None:
                    made[above] = first
                for version in versions:
                    version.pop(name, None)
    conversion = spec.get("conversion")
    if conversion is not None:
        webhook = conversion.get("webhook") or {}
        made["conversion"] = {
            "strategy": conversion.get("strategy"),
            "webhookClientConfig": webhook.get("clientConfig"),
            "conversionReviewVersions": webhook.get("conversionReviewVersions"),
        }
    return made


# ── values as Go prints them ─────────────────────────────────────────────────────────────────────

#: wire name of a schema's field → Go's name and what an absent one prints as, in the order of the struct
_SCHEMA: Final[tuple[tuple[str, str, Any], ...]] = (
    ("id", "ID", ""),
    ("$schema", "Schema", ""),
    ("$ref", "Ref", None),
    ("description", "Description", ""),
    ("type", "Type", ""),
    ("nullable", "Nullable", False),
    ("format", "Format", ""),
    ("title", "Title", ""),
    ("default", "Default", None),
    ("maximum", "Maximum", None),
    ("exclusiveMaximum", "ExclusiveMaximum", False),
    ("minimum", "Minimum", None),
    ("exclusiveMinimum", "ExclusiveMinimum", False),
    ("maxLength", "MaxLength", None),
    ("minLength", "MinLength", None),
    ("pattern", "Pattern", ""),
    ("maxItems", "MaxItems", None),
    ("minItems", "MinItems", None),
    ("uniqueItems", "UniqueItems", False),
    ("multipleOf", "MultipleOf", None),
    ("enum", "Enum", None),
    ("maxProperties", "MaxProperties", None),
    ("minProperties", "MinProperties", None),
    ("required", "Required", None),
    ("items", "Items", None),
    ("allOf", "AllOf", None),
    ("oneOf", "OneOf", None),
    ("anyOf", "AnyOf", None),
    ("not", "Not", None),
    ("properties", "Properties", None),
    ("additionalProperties", "AdditionalProperties", None),
    ("patternProperties", "PatternProperties", None),
    ("dependencies", "Dependencies", None),
    ("additionalItems", "AdditionalItems", None),
    ("definitions", "Definitions", None),
    ("externalDocs", "ExternalDocs", None),
    ("example", "Example", None),
    ("x-kubernetes-preserve-unknown-fields", "XPreserveUnknownFields", None),
    ("x-kubernetes-embedded-resource", "XEmbeddedResource", False),
    ("x-kubernetes-int-or-string", "XIntOrString", False),
    ("x-kubernetes-list-map-keys", "XListMapKeys", None),
    ("x-kubernetes-list-type", "XListType", None),
    ("x-kubernetes-map-type", "XMapType", None),
    ("x-kubernetes-validations", "XValidations", None),
)
SCHEMA_NAMES: Final = {wire: go for wire, go, _ in _SCHEMA}
_LISTS: Final = frozenset({"allOf", "oneOf", "anyOf"})
_MAPS: Final = frozenset({"properties", "patternProperties", "definitions"})


def go_rule(rule: Document) -> Document:
    """Return one of `x-kubernetes-validations` as it prints."""
    return {
        "Rule": rule.get("rule") or "",
        "Message": rule.get("message") or "",
        "MessageExpression": rule.get("messageExpression") or "",
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath") or "",
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }


def go_schema(schema: Document | None) -> Document | None:
    """Return a schema as it prints."""
    if schema is None:
        return None
    return {go: _go_field(wire, schema.get(wire), absent) for wire, go, absent in _SCHEMA}


def _go_field(wire: str, value: Any, absent: Any) -> Any:
    if value is None or value == []:
        return absent
    if wire == "not":
        return go_schema(value)
    if wire in _LISTS:
        return [go_schema(item) for item in value]
    if wire in _MAPS:
        return {name: go_schema(value[name]) for name in sorted(value)}
    if wire == "items":
        many = isinstance(value, list)
        return {
            "Schema": None if many else go_schema(value),
            "JSONSchemas": [go_schema(item) for item in value] if many else None,
        }
    if wire in ("additionalProperties", "additionalItems"):
        if isinstance(value, bool):
            return {"Allows": value, "Schema": None}
        return {"Allows": True, "Schema": go_schema(value)}
    if wire == "x-kubernetes-validations":
        return [go_rule(rule) for rule in value]
    if wire == "externalDocs":
        return {"Description": value.get("description") or "", "URL": value.get("url") or ""}
    return value


def go_version(version: Document) -> Document:
    """Return one version as it prints."""
    holder, subresources = version.get("schema"), version.get("subresources")
    columns, selectable = version.get("additionalPrinterColumns"), version.get("selectableFields")
    return {
        "Name": version.get("name") or "",
        "Served": bool(version.get("served")),
        "Storage": bool(version.get("storage")),
        "Deprecated": bool(version.get("deprecated")),
        "DeprecationWarning": version.get("deprecationWarning"),
        "Schema": None if holder is None else {"OpenAPIV3Schema": go_schema(holder.get("openAPIV3Schema"))},
        "Subresources": None if subresources is None else _go_subresources(subresources),
        "AdditionalPrinterColumns": [_go_column(column) for column in columns] if columns else None,
        "SelectableFields": [{"JSONPath": one.get("jsonPath") or ""} for one in selectable]
        if selectable
        else None,
    }


def _go_subresources(subresources: Document) -> Document:
    scale = subresources.get("scale")
    return {
        "Status": None if subresources.get("status") is None else {},
        "Scale": None
        if scale is None
        else {
            "SpecReplicasPath": scale.get("specReplicasPath") or "",
            "StatusReplicasPath": scale.get("statusReplicasPath") or "",
            "LabelSelectorPath": scale.get("labelSelectorPath"),
        },
    }


def _go_column(column: Document) -> Document:
    return {
        "Name": column.get("name") or "",
        "Type": column.get("type") or "",
        "Format": column.get("format") or "",
        "Description": column.get("description") or "",
        "Priority": column.get("priority") or 0,
        "JSONPath": column.get("jsonPath") or "",
    }
