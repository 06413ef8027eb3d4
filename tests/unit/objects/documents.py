"""Strategies for documents that fit, or nearly fit, the structs of the field table."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from weir.objects import schema

_TEXT = st.sampled_from(["", "a", "b", "web", "2", "1Gi", "é"])
_SPECIAL: dict[str, st.SearchStrategy[Any]] = {
    "string": _TEXT,
    "bool": st.booleans(),
    "float64": st.sampled_from([0.0, 1.5]),
    "Time": st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-01T00:00:00+02:00", "2026-05-01T10:00:00.25Z"]),
    "MicroTime": st.sampled_from(["2026-01-01T00:00:00.000000Z", "2026-01-01T02:00:00.123456+02:00"]),
    "Duration": st.sampled_from(["1h", "90m", "0s"]),
    "Quantity": st.sampled_from(["1", "1000m", "0.5Gi", "1024Ki", "2e3", 7, 0]),
    "IntOrString": st.sampled_from([0, 1, 80, "25%", "http"]),
    "RawExtension": st.sampled_from([{"a": 1}, {"kind": "X", "apiVersion": "x/v1"}]),
    "FieldsV1": st.sampled_from([{"f:a": {}}]),
    "bytes": st.sampled_from(["", "YQ==", "aGVsbG8="]),
    "any": st.sampled_from([None, 1, "a"]),
}


def values(shape: schema.Shape, depth: int, odd: bool) -> st.SearchStrategy[Any]:
    """JSON values of *shape*; with *odd* also nulls and values of other types."""
    match shape.kind:
        case "struct":
            found = documents(shape.struct_name, depth - 1, odd)
        case "list":
            assert shape.item is not None
            found = st.lists(values(shape.item, depth, odd), max_size=2)
        case "map":
            assert shape.item is not None
            found = st.dictionaries(
                st.sampled_from(["a", "b", "cpu"]), values(shape.item, depth, odd), max_size=2
            )
        case _:
            found = _SPECIAL.get(shape.kind, st.integers(0, 9))
    return (
        st.one_of(found, found, found, st.sampled_from([None, 1, "x", [], {}, True, 1.5])) if odd else found
    )


@st.composite
def documents(draw: st.DrawFn, name: str, depth: int = 4, odd: bool = False) -> dict[str, Any]:
    """Documents of the struct *name* with a few of its fields set."""
    fields = list(schema.struct(name).fields.values())
    if depth <= 0:
        fields = [field for field in fields if not _has_struct(field.shape)]
    if not fields:
        return {}
    chosen = draw(st.lists(st.sampled_from(fields), max_size=5, unique_by=lambda field: field.name))
    document = {field.name: draw(values(field.shape, depth, odd)) for field in chosen}
    if odd and draw(st.integers(0, 9)) == 0:
        document["bogus"] = 1
    return document


def _has_struct(shape: schema.Shape) -> bool:
    return shape.kind == "struct" or (shape.item is not None and _has_struct(shape.item))
