"""The field table agrees with the package lightkube-models, field by field, and knows every served kind."""

from __future__ import annotations

import re

from weir.objects import schema
from weir.objects.descriptions import describe
from weir.objects.kinds import KINDS


def theirs(annotation: str) -> str:
    """Return the package's word for a type: number, string, bool, list, map or other."""
    inner = re.sub(r"^Optional\[(.*)\]$", r"\1", annotation)
    if inner.startswith("List["):
        return "list"
    if inner in ("dict", "Dict") or inner.startswith("dict["):
        return "map"
    return {"int": "number", "float": "number", "str": "string", "bool": "bool"}.get(inner, "other")


def ours(shape: schema.Shape) -> str:
    if shape.kind.startswith(("int", "uint", "float")):
        return "number"
    if shape.kind in ("string", "bytes"):
        return "string"
    return shape.kind if shape.kind in ("bool", "list", "map") else "other"


def packaged() -> list[str]:
    return [name for name in schema.struct_names() if describe(name).types]


def test_every_field_is_the_packages_or_one_of_weirs_additions() -> None:
    for name in packaged():
        added = {row[0] for row in schema.ADDED.get(name, [])}
        fields = {f.name: ours(f.shape) for f in schema.struct(name).fields.values() if f.name not in added}
        assert fields == {field: theirs(text) for field, text in describe(name).types.items()}, name


def test_a_field_is_required_when_the_package_says_so() -> None:
    for name in packaged():
        needed = {field for field, text in describe(name).types.items() if not text.startswith("Optional")}
        assert {f.name for f in schema.struct(name).fields.values() if f.required} == needed, name


def test_nearly_every_struct_is_in_the_package() -> None:
    assert len(packaged()) > 600


def test_every_served_kind_has_fields() -> None:
    assert [kind for kind in KINDS if schema.find_root(kind.api_version, kind.kind) is None] == []


def test_a_merge_key_is_a_field_of_the_items() -> None:
    wrong = [
        (name, field.name)
        for name in schema.struct_names()
        for field in schema.struct(name).fields.values()
        for key in ({field.merge_key} | set(field.keys)) - {""}
        if field.shape.item is None or key not in schema.struct(field.shape.item.struct_name).fields
    ]
    assert wrong == []


def test_pods_have_the_list_types_apply_needs() -> None:
    fields = schema.struct("core.v1.PodSpec").fields
    shown = {name: (fields[name].list_type, fields[name].keys) for name in ("containers", "tolerations")}
    assert shown == {"containers": ("map", ("name",)), "tolerations": ("atomic", ())}


def test_every_addition_has_words() -> None:
    silent = [
        (name, row[0])
        for name, rows in schema.ADDED.items()
        for row in rows
        if row[0] not in describe(name).fields
    ]
    assert silent == []
