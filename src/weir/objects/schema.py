"""Field table: the fields of each kind, their types and merge strategies.

Spec: apiserver.md 2 "Decoding" (Go names in error texts), 6 "managedFields" (list types), 7 "Patch" (merge keys);
core.md 1.2 and dra.md 0 for the fields weir adds (`ADDED`).
`fields.json` is generated from Kubernetes' types (tools/fields/main.go) because no schema document has all of it:
which zero values are printed, Go type names, patch strategies, list types. A test compares it with the package
lightkube-models. Structs are parsed on first use.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal

import msgspec

#: Fields weir serves and Kubernetes 1.37 does not, in the notation of fields.json.
ADDED: Final[dict[str, list[list[Any]]]] = {
    "core.v1.Toleration": [["expression", "string", "o"]],
    **{
        f"resource.{version}.DeviceToleration": [["expression", "string", "o"]]
        for version in ("v1", "v1beta1", "v1beta2")
    },
    **{
        f"resource.{version}.DeviceTaint": [
            ["description", "string", "o"],
            ["data", "*RawExtension", "o"],
            ["evictionsPerSecond", "*int64", "o"],
        ]
        for version in ("v1", "v1alpha3", "v1beta1", "v1beta2")
    },
    **{
        f"resource.{version}.ResourceSliceSpec": [
            ["taints", f"[]resource.{version}.SliceDeviceTaint", "o", {"list": "atomic"}]
        ]
        for version in ("v1", "v1beta1", "v1beta2")
    },
    **{
        f"resource.{version}.DeviceTaintSelector": [
            ["deviceClassName", "*string", "o"],
            ["selectors", f"[]resource.{of}.DeviceSelector", "o", {"list": "atomic"}],
        ]
        for version, of in (("v1", "v1"), ("v1beta2", "v1beta2"), ("v1alpha3", "v1"))
    },
}

_TYPE: Final = [["kind", "string", "o"], ["apiVersion", "string", "o"]]
_MEASURED: Final = [["timestamp", "Time", "r"], ["window", "Duration", "r"]]
_USAGE: Final = ["usage", "{}Quantity=v1.ResourceList", "r"]


def _metrics(kind: str, *fields: list[Any]) -> dict[str, list[list[Any]]]:
    """Return the struct of a kind of the resource metrics API and that of its list."""
    name = f"metrics.v1beta1.{kind}"
    return {
        name: [*_TYPE, ["metadata", "meta.v1.ObjectMeta", "o"], *_MEASURED, *fields],
        f"{name}List": [*_TYPE, ["metadata", "meta.v1.ListMeta", "o"], ["items", f"[]{name}", "r"]],
    }


#: Structs weir serves and Kubernetes 1.37 does not: its own, and those of the resource metrics API, which is served by
#: another project's program.
ADDED_STRUCTS: Final[dict[str, list[list[Any]]]] = {
    **{
        f"resource.{version}.SliceDeviceTaint": [
            ["device", "string", "r"],
            ["taint", f"resource.{version}.DeviceTaint", "r"],
        ]
        for version in ("v1", "v1beta1", "v1beta2")
    },
    "metrics.v1beta1.ContainerMetrics": [["name", "string", "r"], _USAGE],
    **_metrics("NodeMetrics", _USAGE),
    **_metrics("PodMetrics", ["containers", "[]metrics.v1beta1.ContainerMetrics", "r", {"list": "atomic"}]),
}

#: The kinds among them, as in fields.json.
ADDED_KINDS: Final = {
    f"metrics.k8s.io/v1beta1/{kind}": f"metrics.v1beta1.{kind}"
    for kind in ("NodeMetrics", "NodeMetricsList", "PodMetrics", "PodMetricsList")
}

_HUB: Final = "resource.k8s.io/v1/"
_RELAXED: Final = "resource.k8s.io/v1alpha4/"

#: Types with a JSON form of their own, and the name Go prints for them.
SPECIAL: Final = {
    "Time": "v1.Time",
    "MicroTime": "v1.MicroTime",
    "Duration": "v1.Duration",
    "FieldsV1": "v1.FieldsV1",
    "Quantity": "resource.Quantity",
    "IntOrString": "intstr.IntOrString",
    "RawExtension": "runtime.RawExtension",
    "bytes": "[]uint8",
    "any": "interface {}",
    "JSON": "v1.JSON",
    "SchemaOrArray": "v1.JSONSchemaPropsOrArray",
    "SchemaOrBool": "v1.JSONSchemaPropsOrBool",
    "SchemaOrStrings": "v1.JSONSchemaPropsOrStringArray",
}
#: The struct of a schema, which three of them hold where they do not hold what their names say.
JSON_SCHEMA: Final = "apiextensions.v1.JSONSchemaProps"
SCALARS: Final = frozenset(
    {
        "string",
        "bool",
        "int",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float64",
    }
)

ListType = Literal["", "map", "set", "atomic"]


class Shape:
    """The type of one value: a scalar, a special type, a struct, or a list or map of another shape."""

    __slots__ = ("go", "item", "kind", "pointer", "struct_name")

    def __init__(
        self, kind: str, go: str, pointer: bool, item: Shape | None = None, struct_name: str = ""
    ) -> None:
        self.kind = kind  #: "string", "bool", "int32" …, a key of SPECIAL, "struct", "list" or "map"
        self.go = go  #: how Go's decoder names the type in an error text
        self.pointer = pointer  #: absent differs from zero
        self.item = item
        self.struct_name = struct_name

    def __repr__(self) -> str:
        return f"Shape({'*' if self.pointer else ''}{self.go})"


class Field:
    """One JSON field of a struct."""

    __slots__ = (
        "default",
        "embedded",
        "enum",
        "keys",
        "list_type",
        "map_type",
        "merge_key",
        "name",
        "omit_empty",
        "omit_zero",
        "required",
        "shape",
        "strategies",
    )

    def __init__(self, row: list[Any]) -> None:
        extra: dict[str, Any] = row[3] if len(row) > 3 else {}
        self.name: str = row[0]
        self.shape = _parse_shape(row[1])
        self.omit_empty = "o" in row[2]  #: an empty value is not printed (a struct is never empty to Go)
        self.omit_zero = "z" in row[2]  #: a zero value is not printed, a struct included
        self.required = "r" in row[2]  #: as the OpenAPI document says
        self.list_type: ListType = extra.get("list", "")
        self.keys: tuple[str, ...] = tuple(extra.get("keys", ()))
        self.map_type: str = extra.get("map", "")
        self.strategies = frozenset(extra["strategy"].split(",")) if "strategy" in extra else frozenset()
        self.merge_key: str = extra.get("merge", "")
        self.embedded: str = extra.get(
            "in", ""
        )  #: the embedded Go struct that declares it; error texts name it
        self.default: Any = extra.get("default")
        self.enum: tuple[str, ...] = tuple(
            extra.get("enum", ())
        )  #: the values a string may have, as OpenAPI says

    @property
    def atomic(self) -> bool:
        """Whether server-side apply treats the whole value as one leaf."""
        shape = self.shape
        if shape.kind == "list":
            return self.list_type not in ("map", "set")
        if self.map_type:
            return self.map_type == "atomic"
        return shape.kind == "struct" and struct(shape.struct_name).atomic

    def __repr__(self) -> str:
        return f"Field({self.name}: {self.shape!r})"


class Struct:
    """One Go struct: its fields by JSON name, in declaration order."""

    __slots__ = ("atomic", "fields", "go", "name")

    def __init__(self, name: str, rows: list[list[Any]], atomic: bool) -> None:
        self.name = name  #: as in fields.json: "core.v1.Pod"
        self.go = name.rpartition(".")[2]  #: "Pod", the name error texts use
        self.atomic = atomic
        self.fields: dict[str, Field] = {row[0]: Field(row) for row in rows}
        if [row[0] for row in rows[:2]] == ["kind", "apiVersion"]:
            for key in ("kind", "apiVersion"):
                self.fields[key].embedded = "TypeMeta"

    def __repr__(self) -> str:
        return f"Struct({self.name})"


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = msgspec.json.decode(files("weir.objects").joinpath("fields.json").read_bytes())
    structs = table["structs"]
    structs.update(ADDED_STRUCTS)
    for name, rows in ADDED.items():
        if name in structs:
            structs[name] = structs[name] + rows
    kinds = table["kinds"]
    kinds.update(ADDED_KINDS)
    for name in [
        name for name in kinds if name.startswith(_HUB)
    ]:  # the relaxed dialect is v1 once it is read
        kinds[name.replace(_HUB, _RELAXED)] = kinds[name]
    return table


@cache
def struct(name: str) -> Struct:
    """Return the struct called *name* in fields.json; KeyError when there is none.

    >>> struct("core.v1.Toleration").fields["tolerationSeconds"].shape
    Shape(*int64)
    """
    table = _table()
    return Struct(name, table["structs"][name], table["atomic"].get(name) == "atomic")


def find_root(api_version: str, kind: str) -> Struct | None:
    """Return the struct of a kind, or None when this version has no such kind.

    >>> find_root("apps/v1", "Deployment")
    Struct(apps.v1.Deployment)
    >>> find_root("v2", "Pod") is None
    True
    """
    name = _table()["kinds"].get(f"{api_version}/{kind}")
    return None if name is None else struct(name)


def struct_names() -> list[str]:
    """Return the names of all structs in the table."""
    return list(_table()["structs"])


def roots() -> dict[str, str]:
    """Return every kind of the table: `<apiVersion>/<Kind>` → struct name."""
    return dict(_table()["kinds"])


@cache
def _parse_shape(text: str) -> Shape:
    """Return the shape written as in fields.json: `*int64`, `[]core.v1.Container`, `{}Quantity=v1.ResourceList`."""
    pointer = text.startswith("*")
    if pointer:
        text = text[1:]
    if text.startswith("[]"):
        inner, _, named = text[2:].partition("=")
        item = _parse_shape(inner)
        return Shape("list", named or "[]" + _go(item), pointer, item)
    if text.startswith("{"):
        key, _, rest = text[1:].partition("}")
        inner, named = rest, ""
        if not rest.startswith("[]"):  # the name after "=" belongs to the innermost list
            inner, _, named = rest.partition("=")
        item = _parse_shape(inner)
        return Shape("map", named or f"map[{key or 'string'}]{_go(item)}", pointer, item)
    kind, _, named = text.partition(":")
    if kind in SCALARS:
        return Shape(kind, named or kind, pointer)
    if kind in SPECIAL:
        return Shape(kind, SPECIAL[kind], pointer)
    return Shape("struct", ".".join(kind.split(".")[-2:]), pointer, None, kind)


def _go(shape: Shape) -> str:
    return "*" + shape.go if shape.pointer else shape.go
