"""MutatingAdmissionPolicy: the mutations of one request.

Spec: admissionregistration.k8s.io/v1 MutatingAdmissionPolicy. Mutations run in order, each on the result of the
previous, with variables recomputed. An apply configuration is merged as in server-side apply and may not touch atomic
fields; a JSON patch whose test fails changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from weir.cel import costs, types
from weir.cel.env import Library
from weir.cel.errors import EvaluationError
from weir.cel.library.declare import functions, plain
from weir.cel.messages import JSON_PATCH, OBJECT, Constructed, Operation
from weir.cel.types import object_named
from weir.cel.values import Value
from weir.cel.work import grow, spend
from weir.compat.policies.expressions import MATCH_BUDGET, Composer, Expression, OutOfBudget
from weir.compat.policies.matching import conditions_hold
from weir.compat.policies.validating import CONDITION

Document = Mapping[str, Any]
APPLY: Final = (object_named(OBJECT),)
PATCH: Final = (types.list_of(object_named(JSON_PATCH)),)


def _escape_key(key: str) -> str:
    """Return *key* as it stands in a JSON pointer."""
    spend(len(key) >> 2)
    grow(2 * len(key))
    return key.replace("~", "~0").replace("/", "~1")


ESCAPE: Final = Library(
    "jsonpatch",
    functions(
        plain("jsonpatch.escapeKey", "string_jsonpatch_escapeKey_string", (types.STRING,), types.STRING, _escape_key,
              costs.NAMED_FLAT),
    ),
)  # fmt: skip


class MutationFailed(Exception):
    """A mutation that cannot be made, and why."""


class Patcher(Protocol):
    """How an object is changed; each returns another document and raises MutationFailed."""

    def merged(self, document: Document, configuration: Document) -> Document: ...

    def patched(self, document: Document, operations: Sequence[Document]) -> Document: ...


class _Mutation(NamedTuple):
    applies: bool
    expression: Expression


class MutatingPolicy:
    """A policy whose expressions are compiled."""

    def __init__(self, document: Document) -> None:
        spec = document.get("spec") or {}
        self.document = document
        self.name = str(document["metadata"]["name"])
        self.ignores_failures = spec.get("failurePolicy") == "Ignore"
        self.reinvocable = spec.get("reinvocationPolicy") == "IfNeeded"
        self.match = spec.get("matchConstraints") or {}
        self._composer = Composer(
            spec.get("variables") or (), params=spec.get("paramKind") is not None, patches=ESCAPE
        )
        self._conditions = [
            self._composer.expression(one.get("expression") or "", CONDITION)
            for one in spec.get("matchConditions") or ()
        ]
        self._mutations = list(self._compiled(spec.get("mutations") or ()))

    def _compiled(self, mutations: Sequence[Document]) -> Iterator[_Mutation]:
        for one in mutations:
            applies = one.get("patchType") == "ApplyConfiguration"
            text = (one.get("applyConfiguration" if applies else "jsonPatch") or {}).get("expression") or ""
            yield _Mutation(
                applies, self._composer.expression(text, APPLY if applies else PATCH, patching=True)
            )

    def wants(self, values: Mapping[str, Value]) -> bool:
        """Return whether the match conditions hold; raises ConditionsFailed."""
        if not self._conditions:
            return True
        inputs = self._composer.inputs({**values, "namespaceObject": None}, MATCH_BUDGET)
        return conditions_hold(self._conditions, inputs, ignore_failures=self.ignores_failures)

    def mutate(
        self, values: Callable[[], Mapping[str, Value]], patcher: Patcher, changed: Callable[[Document], None]
    ) -> list[str]:
        """Apply every mutation and return the problems; *values* reflects what *changed* was given."""
        problems = []
        for mutation in self._mutations:
            seen = values()
            if seen["object"] is None:
                continue
            try:
                if mutation.expression.refused is not None:
                    raise MutationFailed(str(mutation.expression.refused))
                answer = self._composer.inputs(seen).evaluate(mutation.expression)
                changed(_made(mutation.applies, answer, seen["object"], patcher))
            except (MutationFailed, EvaluationError, OutOfBudget) as error:
                problems.append(str(error))
        return problems


def _made(applies: bool, answer: Value, document: Document, patcher: Patcher) -> Document:
    if applies:
        assert isinstance(answer, Constructed)
        _check_names(answer)
        return patcher.merged(document, _plain(answer))
    operations = []
    for one in answer:
        assert isinstance(one, Operation)
        given = dict(one.fields)
        operation = {"op": given.get("op", ""), "path": given.get("path", "")}
        if given.get("from"):
            operation["from"] = given["from"]
        if "value" in given:
            if isinstance(given["value"], Constructed):
                _check_names(given["value"])
            operation["value"] = _plain(given["value"])
        operations.append(operation)
    return patcher.patched(document, operations)


def _check_names(value: Constructed) -> None:
    """Raise MutationFailed when a field holds an object of another field's type."""
    wrong = list(_misnamed(value, value.cel_type.name))
    if wrong:
        raise MutationFailed("type mismatch: " + "\n".join(wrong))


def _misnamed(value: Value, expected: str) -> Iterator[str]:
    if isinstance(value, Constructed):
        name = value.cel_type.name
        if name != expected:
            yield (
                f'unexpected type name "{name}", expected "{expected}", which matches field name path from root '
                "Object type"
            )
        for field, inner in value.fields.items():
            yield from _misnamed(inner, f"{expected}.{field}")
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _misnamed(inner, expected)
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _misnamed(inner, expected)


def _plain(value: Value) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, Constructed):
        return {name: _plain(inner) for name, inner in value.fields.items()}
    if isinstance(value, Mapping):
        return {_key(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, bool | str | float):
        return value
    if isinstance(value, int):
        return int(value)
    raise MutationFailed(f"a value of type {type(value).__name__} is no JSON")


def _key(key: Value) -> str:
    if not isinstance(key, str):
        raise MutationFailed(f'map key "{key}" is of type {type(key).__name__}, not string')
    return key
