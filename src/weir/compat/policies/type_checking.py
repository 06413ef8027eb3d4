"""Type checking of ValidatingAdmissionPolicy expressions against the kinds they match.

Spec: admissionregistration.k8s.io/v1 `status.typeChecking`.
Policies are accepted without the type of `object`; here each validation is checked with the type of every kind that
the rules name, from rules without wildcards only, at most ten per rule, with the current definitions. Warnings do not
change evaluation. As upstream: the core group stands for every group (`events` of "" include events.k8s.io), and a
resource may be named in the singular; quantities have no type, so `resources.limits` is warned about, and so is
`authorizer.requestResource`, which is not declared here. Fields named like CEL keywords can be written with
underscores (`__namespace__`), too.

Schemas of kinds for type-checking `object` and `params`. Spec: the documents of /openapi/v3, from which upstream's type
checker takes the types of `object` and `params`. Built-in kinds come from the field table, custom kinds from their
definition. Every resource, also an embedded one, has the whole ObjectMeta. Quantities have no type, so no expression
can name them; a recursive struct is an object without fields where it recurs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, product
from typing import Any, Final

from weir.cel import types
from weir.cel.env import ObjectType
from weir.cel.errors import CompileError
from weir.cel.program import check_expression
from weir.cel.types import Type
from weir.compat.customresources.expression_types import declare, with_metadata
from weir.compat.customresources.schema import Schema
from weir.compat.customresources.served import CustomResourceKind, rows_of
from weir.compat.policies.expressions import Composer
from weir.objects import schema
from weir.objects.document import root_of
from weir.objects.kind import Kind
from weir.objects.kinds import KINDS

Document = Mapping[str, Any]
_MOST_KINDS: Final = 10


_TEXT: Final = Schema(("string",))
_OBJECT: Final = Schema(("object",))
_INT_OR_STRING: Final = Schema(("integer", "string"))
_SCALARS: Final = {
    "string": _TEXT,
    "bool": Schema(("boolean",)),
    "bytes": Schema(("string",), format="byte"),
    "Time": Schema(("string",), format="datetime"),
    "MicroTime": Schema(("string",), format="datetime"),
    "Duration": _TEXT,
    "IntOrString": _INT_OR_STRING,
    "RawExtension": _OBJECT,
    "FieldsV1": _OBJECT,
}
_OBJECT_META: Final = "meta.v1.ObjectMeta"


def schema_of(kind: Kind) -> Schema:
    """Return the schema of the objects of *kind*.

    >>> from weir.objects.kinds import by_kind
    >>> found = schema_of(by_kind("v1", "ConfigMap"))
    >>> found.properties["data"].additional.types, found.properties["binaryData"].additional.format
    (('string',), 'byte')
    """
    if not isinstance(kind, CustomResourceKind):
        return _of_struct(root_of(kind), ())
    if kind.says.schema_document() is None:
        return with_metadata(_OBJECT)
    return _as_resource(_with_embedded(kind.schema))


def _as_resource(found: Schema) -> Schema:
    """Return the schema of a resource with its type and the whole of its metadata."""
    added = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": _object_meta()}
    return replace(found, properties={**found.properties, **added}, embedded=False)


@cache
def _object_meta() -> Schema:
    return _of_struct(schema.struct(_OBJECT_META), ())


def _with_embedded(found: Schema) -> Schema:
    """Return a schema whose embedded resources have their metadata."""
    if not found.has_embedded:
        return found
    additional = found.additional
    whole = replace(
        found,
        properties={name: _with_embedded(one) for name, one in found.properties.items()},
        additional=_with_embedded(additional) if isinstance(additional, Schema) else additional,
        items=None if found.items is None else _with_embedded(found.items),
    )
    return _as_resource(whole) if found.embedded else whole


def _of_struct(struct: schema.Struct, within: tuple[str, ...]) -> Schema:
    if struct.name in within:
        return _OBJECT
    inside = (*within, struct.name)
    return Schema(
        ("object",),
        properties={one.name: _of_shape(one.shape, inside) for one in struct.fields.values()},
    )


def _of_shape(shape: schema.Shape, within: tuple[str, ...]) -> Schema:
    """Return the schema of a value, one without a type where nothing is said of it."""
    if shape.kind == "struct":
        return _of_struct(schema.struct(shape.struct_name), within)
    if shape.kind == "list" and shape.item is not None:
        return Schema(("array",), items=_of_shape(shape.item, within))
    if shape.kind == "map" and shape.item is not None:
        return Schema(("object",), additional=_of_shape(shape.item, within))
    if shape.kind.startswith(("int", "uint")):
        return Schema(("integer",))
    if shape.kind.startswith("float"):
        return Schema(("number",))
    return _SCALARS.get(shape.kind, Schema())


def expression_warnings(policy: Document, definitions: Iterable[Document] = ()) -> list[dict[str, str]]:
    """Return the warnings about a policy's validations and their messages, by field.

    *definitions* are the CustomResourceDefinitions of the cluster.
    """
    spec = policy.get("spec") or {}
    custom = _custom_kinds(spec, definitions)
    kinds, params = kinds_to_check(spec, custom), _params(spec, custom)
    checks = [(kind, _composer(spec, kind, params)) for kind in kinds]
    warnings = []
    for i, validation in enumerate(spec.get("validations") or ()):
        for field in ("expression", "messageExpression"):
            text = validation.get(field)
            warning = "\n".join(_warnings(text, checks)) if text else ""
            if warning:
                warnings.append({"fieldRef": f"spec.validations[{i}].{field}", "warning": warning})
    return warnings


def _custom_kinds(spec: Document, definitions: Iterable[Document]) -> list[CustomResourceKind]:
    """Return the kinds that definitions make, as discovery shows them; what a policy does not name stays unread."""
    resources = {name.lower() for _, _, named in _named(spec) for name in named}
    params = (spec.get("paramKind") or {}).get("kind")
    kinds: list[CustomResourceKind] = []
    for one in definitions:
        names = one["spec"]["names"]
        singular = names.get("singular") or names["kind"].lower()
        if names["kind"] == params or not resources.isdisjoint((names["plural"], singular)):
            kinds += (kind for kind in rows_of(dict(one)) if kind.established)
    return kinds


def may_name_custom_kinds(spec: Document) -> bool:
    """Whether a policy names something that is not in the table.

    >>> rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments", "*"]}
    >>> may_name_custom_kinds({"matchConstraints": {"resourceRules": [rule]}})
    False
    >>> may_name_custom_kinds({"matchConstraints": {"resourceRules": [{**rule, "apiGroups": ["example.com"]}]}})
    True
    """
    if spec.get("paramKind") and _params(spec, ()) is None:
        return True
    for groups, versions, resources in _named(spec):
        for name in product(groups, versions, resources):
            if next(_rows(*name, ()), None) is None:
                return True
    return False


def kinds_to_check(spec: Document, custom: Sequence[Kind] = ()) -> list[Kind]:
    """Return the kinds that the rules of a policy name, by group, version and kind."""
    kinds: dict[tuple[str, str, str], Kind] = {}
    for groups, versions, resources in _named(spec):
        rows = (kind for name in product(groups, versions, resources) for kind in _rows(*name, custom))
        for number, kind in enumerate(rows, start=1):
            kinds[kind.group, kind.version, kind.kind] = kind
            if number == _MOST_KINDS:
                return [kinds[key] for key in sorted(kinds)]
    return [kinds[key] for key in sorted(kinds)]


def _named(spec: Document) -> Iterator[tuple[list[str], list[str], list[str]]]:
    """Yield the groups, versions and resources of every rule without wildcards."""
    for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
        groups, versions = rule.get("apiGroups") or (), rule.get("apiVersions") or ()
        if not any("*" in name for name in (*groups, *versions)):
            resources = [name for name in rule.get("resources") or () if "*" not in name and "/" not in name]
            yield sorted(groups), sorted(versions), sorted(resources)


def _rows(group: str, version: str, resource: str, custom: Sequence[Kind]) -> Iterator[Kind]:
    """Yield the kinds that discovery finds under these names; the core group stands for any."""
    for kind in chain(KINDS, custom):
        if version == kind.version and group in ("", kind.group) and _is_named(resource, kind):
            yield kind


def _is_named(resource: str, kind: Kind) -> bool:
    """Whether discovery has *kind* under this name."""
    return resource.lower() in (kind.plural, kind.singular)


def _params(spec: Document, custom: Sequence[Kind]) -> Kind | None:
    """Return the kind of a policy's parameters, where it is known."""
    wanted = spec.get("paramKind") or {}
    for kind in chain(KINDS, custom):
        if (kind.api_version, kind.kind) == (wanted.get("apiVersion"), wanted.get("kind")):
            return kind
    return None


def _composer(spec: Document, kind: Kind, params: Kind | None) -> Composer:
    """Return what compiles the policy's expressions with the types of *kind* and of its parameters."""
    objects: list[ObjectType] = []
    of = _type(kind, f"{kind.kind}1", objects)  # numbered, as parameters may be of the same kind
    documents = {"object": of, "oldObject": of}
    if params is not None:
        documents["params"] = _type(params, f"{params.kind}2", objects)
    return Composer(
        spec.get("variables") or (),
        params=spec.get("paramKind") is not None,
        documents=documents,
        objects=tuple(objects),
    )


def _type(kind: Kind, name: str, objects: list[ObjectType]) -> Type:
    declared = declare(schema_of(kind), name, objects)
    return types.DYN if declared is None else declared.type


def _warnings(text: str, checks: Sequence[tuple[Kind, Composer]]) -> Iterator[str]:
    for kind, composer in checks:
        try:
            check_expression(text, composer.env())
        except CompileError as error:
            yield f"{kind.group}/{kind.version}, Kind={kind.kind}: {error}\n"
