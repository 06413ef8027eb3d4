"""Which expressions of a ValidatingAdmissionPolicy cannot be right for the kinds it is about?

Spec: admissionregistration.k8s.io/v1 `status.typeChecking`. Policies are accepted without knowing what `object` is;
here each validation is checked once more with the types of every kind that the rules name. A warning changes nothing
about what the policy does. Kinds are taken from rules without wildcards only, ten at most, and those without a known
layout (custom ones) are left out.

What surprises, as upstream has it: quantities have no type, so that `resources.limits` is warned of; so is
`authorizer.requestResource`, which is not declared here. Fields whose names are words of CEL (`namespace`) can be
spelt with underscores (`__namespace__`), too.
Not here: writing the status (weir.controllers.cluster.policy_status).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from weir.cel import types
from weir.cel.env import ObjectType
from weir.cel.program import check_expression
from weir.cel.source import CompileError
from weir.cel.types import Type
from weir.objects import schema
from weir.objects.document import root_of
from weir.objects.kind import Kind
from weir.objects.kinds import find, find_kind
from weir.policies.expressions import Composer

Document = Mapping[str, Any]
_MOST_KINDS: Final = 10
_SCALARS: Final = {
    "string": types.STRING,
    "bool": types.BOOL,
    "bytes": types.BYTES,
    "Time": types.TIMESTAMP,
    "MicroTime": types.TIMESTAMP,
    "Duration": types.STRING,
}
#: Values whose schema has no type of its own: fields that hold them are not declared at all.
_HIDDEN: Final = "Quantity"
_RESERVED: Final = frozenset(
    ("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if")
) | {"import", "let", "loop", "package", "namespace", "return", "var", "void", "while"}


def expression_warnings(policy: Document) -> list[dict[str, str]]:
    """Return the warnings about a policy's validations and their messages, by field."""
    spec = policy.get("spec") or {}
    kinds = kinds_to_check(spec)
    wanted = spec.get("paramKind")
    params = find_kind(wanted.get("apiVersion") or "", wanted.get("kind") or "") if wanted else None
    checks = [(kind, _composer(spec, kind, params)) for kind in kinds]
    found = []
    for i, validation in enumerate(spec.get("validations") or ()):
        for field in ("expression", "messageExpression"):
            text = validation.get(field)
            warning = "\n".join(_warnings(text, checks)) if text else ""
            if warning:
                found.append({"fieldRef": f"spec.validations[{i}].{field}", "warning": warning})
    return found


def kinds_to_check(spec: Document) -> list[Kind]:
    """Return the kinds that the rules of a policy name, by group, version and kind."""
    found: dict[tuple[str, str, str], Kind] = {}
    for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
        groups, versions = rule.get("apiGroups") or (), rule.get("apiVersions") or ()
        if any("*" in name for name in (*groups, *versions)):
            continue
        resources = [name for name in rule.get("resources") or () if "*" not in name and "/" not in name]
        for kind in _rows(sorted(groups), sorted(versions), sorted(resources)):
            found[kind.group, kind.version, kind.kind] = kind
            if len(found) == _MOST_KINDS:
                return [found[key] for key in sorted(found)]
    return [found[key] for key in sorted(found)]


def _rows(groups: Sequence[str], versions: Sequence[str], resources: Sequence[str]) -> Iterator[Kind]:
    for group in groups:
        for version in versions:
            for resource in resources:
                kind = find(group, version, resource)
                if kind is not None:
                    yield kind


def _composer(spec: Document, kind: Kind, params: Kind | None) -> Composer:
    """Return what compiles the policy's expressions with the types of *kind* and of its parameters."""
    declared: dict[str, ObjectType] = {}
    of = _struct_type(root_of(kind), kind.kind, declared, ())
    documents = {"object": of, "oldObject": of}
    if params is not None:
        documents["params"] = _struct_type(root_of(params), f"{params.kind}.params", declared, ())
    return Composer(
        spec.get("variables") or (),
        params=spec.get("paramKind") is not None,
        documents=documents,
        objects=tuple(declared.values()),
    )


def _warnings(text: str, checks: Sequence[tuple[Kind, Composer]]) -> Iterator[str]:
    for kind, composer in checks:
        try:
            check_expression(text, composer.env())
        except CompileError as error:
            yield f"{kind.group}/{kind.version}, Kind={kind.kind}: {error}\n"


def _struct_type(
    struct: schema.Struct, name: str, declared: dict[str, ObjectType], within: tuple[str, ...]
) -> Type:
    """Return the type of a struct and declare it; one that holds itself is not looked into twice."""
    if struct.name in within:
        return types.DYN
    fields: dict[str, Type] = {}
    for field in struct.fields.values():
        of = _shape_type(field.shape, f"{name}.{field.name}", declared, (*within, struct.name))
        if of is not None:
            fields[escaped(field.name)] = of
            if field.name in _RESERVED:
                fields[field.name] = of
    declared[name] = ObjectType(name, fields, mapped=True)
    return declared[name].type


def _shape_type(
    shape: schema.Shape, name: str, declared: dict[str, ObjectType], within: tuple[str, ...]
) -> Type | None:
    """Return the type of a value, None for one that expressions are not shown."""
    if shape.kind == _HIDDEN:
        return None
    if shape.kind in ("RawExtension", "FieldsV1"):
        declared[name] = ObjectType(name, {}, mapped=True)
        return declared[name].type
    if shape.kind == "struct":
        return _struct_type(schema.struct(shape.struct_name), name, declared, within)
    if shape.kind == "list" and shape.item is not None:
        item = _shape_type(shape.item, f"{name}.@idx", declared, within)
        return None if item is None else types.list_of(item)
    if shape.kind == "map" and shape.item is not None:
        item = _shape_type(shape.item, f"{name}.@elem", declared, within)
        return None if item is None else types.map_of(types.STRING, item)
    if shape.kind.startswith(("int", "uint")):
        return types.INT
    if shape.kind.startswith("float"):
        return types.DOUBLE
    return _SCALARS.get(shape.kind, types.DYN)


def escaped(name: str) -> str:
    """Return how a field is named in expressions.

    >>> escaped("replicas"), escaped("namespace"), escaped("a-b.c/d__e")
    ('replicas', '__namespace__', 'a__dash__b__dot__c__slash__d__underscores__e')
    """
    if name in _RESERVED:
        return f"__{name}__"
    text = name.replace("__", "__underscores__")
    for sign, word in ((".", "dot"), ("-", "dash"), ("/", "slash")):
        text = text.replace(sign, f"__{word}__")
    return text
