"""Validation of embedded resources (`x-kubernetes-embedded-resource`)."""

from __future__ import annotations

from typing import Any

from weir.customresources.schema import Schema
from weir.gates import ALL_FEATURES
from weir.validate.field import Document, Errors, context_for, invalid, required
from weir.validate.meta import validate_object_meta
from weir.values.names import check_dns1035_label, check_path_segment


def validate_embedded(value: Any, schema: Schema | None, at: str = "") -> Errors:
    """Yield what is wrong with the type and metadata of every resource embedded in *value*."""
    if schema is None:
        return
    if isinstance(value, dict):
        if schema.embedded:
            yield from _resource(value, at)
        for key, item in value.items():
            if item.__class__ not in (dict, list):
                continue
            child = schema.properties.get(key)
            if child is not None:
                yield from validate_embedded(item, child, f"{at}.{key}" if at else key)
            elif isinstance(schema.additional, Schema):
                yield from validate_embedded(item, schema.additional, f"{at}[{key}]")
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from validate_embedded(item, schema.items, f"{at}[{i}]")


def _resource(value: Document, at: str) -> Errors:
    head = f"{at}." if at else ""
    for name in ("apiVersion", "kind"):
        if name not in value:
            yield required(f"{head}{name}")
    if "apiVersion" in value:
        yield from _text(value["apiVersion"], f"{head}apiVersion", _version_problem)
    if "kind" in value:
        yield from _text(value["kind"], f"{head}kind", _kind_problem)
    metadata = value.get("metadata")
    if isinstance(metadata, dict):
        named = {**metadata, "name": metadata.get("name") or "fakename"}
        context = context_for(ALL_FEATURES, "", bool(metadata.get("namespace")), False)
        yield from validate_object_meta(named, context, check_path_segment, f"{head}metadata")


def _text(value: Any, at: str, problem_of: Any) -> Errors:
    if not isinstance(value, str):
        yield invalid(at, value, "must be a string")
    elif not value:
        yield invalid(at, value, "must not be empty")
    elif problem := problem_of(value):
        yield invalid(at, value, problem)


def _version_problem(version: str) -> str:
    return f"unexpected GroupVersion string: {version}" if version.count("/") > 1 else ""


def _kind_problem(kind: str) -> str:
    messages = check_dns1035_label(kind.lower())
    return "may have mixed case, but should otherwise match: " + ",".join(messages) if messages else ""
