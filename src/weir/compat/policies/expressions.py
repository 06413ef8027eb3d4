"""Compilation and evaluation of policy expressions within a cost budget.

Spec: admissionregistration.k8s.io/v1; cel.md 12 (cost).
`Composer` compiles a policy's expressions; a variable is evaluated on first use, once per `Inputs`, and charged to
the expression that used it. Each evaluation has the limit of cel.md 12, and the expressions of a group share a
budget; exceeding it ends the group. An expression that does not compile was accepted before, so it fails at each
evaluation instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final, NoReturn

from weir.cel import types
from weir.cel.env import Env, Library, ObjectType
from weir.cel.errors import CompileError, CostLimitExceeded, EvaluationError, InternalError
from weir.cel.library import KUBERNETES
from weir.cel.lowering import ProgramError
from weir.cel.program import Program, build, check_expression, long_name
from weir.cel.types import Kind, Type
from weir.cel.values import Value
from weir.cel.work import spend

# ── CEL environments of admission expressions: the variables `object`, `request`, `params`, `authorizer` and so on ──
# Spec: admissionregistration.k8s.io/v1; cel.md 9.1.
# `request` and `namespaceObject` have declared fields, so a misspelt one is rejected when the policy is written.
# `variables` differs per policy: its fields are added as each variable is compiled, so that a variable may use only
# earlier ones. Functions that begin with `authorizer` call methods of the same name on the bound value
# (weir.apiserver.auth.cel_authorizer in a server; a stub that raises when files are evaluated).


VARIABLES: Final = "kubernetes.variables"
_TEXTS: Final = types.list_of(types.STRING)
_TEXT_BY_NAME: Final = types.map_of(types.STRING, types.STRING)
_AUTHORIZATION: Final = "kubernetes.authorization."


def authorization_type(name: str) -> Type:
    """Return the type of a value that answers about rights: `Authorizer`, `ResourceCheck` …"""
    return types.opaque(f"{_AUTHORIZATION}{name}")


@cache
def environment(params: bool = False, authorizer: bool = True) -> Env:
    """Return what an expression without variables may use."""
    return build_environment(params=params, authorizer=authorizer)


def build_environment(
    *,
    params: bool,
    authorizer: bool,
    variables: ObjectType | None = None,
    objects: tuple[ObjectType, ...] = (),
    documents: Mapping[str, Type] | None = None,
    patches: Library | None = None,
) -> Env:
    """Return an environment; *documents* gives types to `object`, `oldObject` and `params` instead of dyn.

    With *patches*, functions for them, an expression may build patches.
    """
    known = {"object": types.DYN, "oldObject": types.DYN, **({"params": types.DYN} if params else {})}
    known |= {name: of for name, of in (documents or {}).items() if name in known}
    known |= {"namespaceObject": _namespace()[0].type, "request": _request()[0].type}
    if authorizer:
        known["authorizer"] = authorization_type("Authorizer")
        if documents is None:  # upstream forgets it where types are checked
            known["authorizer.requestResource"] = authorization_type("ResourceCheck")
    declared = (*_request(), *_namespace(), *objects)
    if variables is not None:
        known["variables"] = variables.type
        declared = (*declared, variables)
    libraries = _libraries() if patches is None else (*_libraries(), patches)
    return Env(libraries, known, declared, patch_types=patches is not None)


@cache
def _libraries() -> tuple[Library, ...]:
    return tuple(_answered(library) if library.name == "authz" else library for library in KUBERNETES)


def _answered(library: Library) -> Library:
    """Return the declared authorization functions with what they do: a method of the same name is called."""
    functions = tuple(
        replace(f, overloads=tuple(replace(o, impl=partial(_call, f.name)) for o in f.overloads))
        for f in library.functions
    )
    return replace(library, functions=functions)


def _call(method: str, receiver: Any, *arguments: Any) -> Any:
    spend(sum(map(len, arguments)))
    return getattr(receiver, method)(*arguments)


def _strings(*names: str) -> dict[str, Type]:
    return dict.fromkeys(names, types.STRING)


class Unknown:
    """A value that is not known: reading one of its fields raises the exception *reason*."""

    def __init__(self, reason: Exception) -> None:
        self.reason = reason

    def read(self, field: str) -> NoReturn:
        raise self.reason


class UnknownUser(Unknown):
    """Instead of `request.userInfo`."""


class UnknownNamespace(Unknown):
    """Instead of `namespaceObject`."""


def _mapped(name: str, fields: Mapping[str, Type], unknown: type[Unknown] | None = None) -> ObjectType:
    """Return a type whose values are documents, or *unknown*."""
    return ObjectType(f"kubernetes.{name}", fields, unknown, mapped=True, read=Unknown.read)


@cache
def _request() -> tuple[ObjectType, ...]:
    """Return the type of `request` and those of its parts."""
    kind = _mapped("GroupVersionKind", _strings("group", "version", "kind"))
    resource = _mapped("GroupVersionResource", _strings("group", "version", "resource"))
    extra = types.map_of(types.STRING, _TEXTS)
    user = _mapped(
        "UserInfo", {**_strings("username", "uid"), "groups": _TEXTS, "extra": extra}, unknown=UnknownUser
    )
    request = _mapped(
        "AdmissionRequest",
        {
            **_strings("subResource", "requestSubResource", "name", "namespace", "operation"),
            "kind": kind.type,
            "requestKind": kind.type,
            "resource": resource.type,
            "requestResource": resource.type,
            "userInfo": user.type,
            "dryRun": types.BOOL,
            "options": types.DYN,
        },
    )
    return request, kind, resource, user


@cache
def _namespace() -> tuple[ObjectType, ...]:
    """Return the type of `namespaceObject` and those of its parts."""
    spec = _mapped("NamespaceSpec", {"finalizers": _TEXTS})
    condition = _mapped(
        "NamespaceCondition",
        {**_strings("status", "type", "message", "reason"), "lastTransitionTime": types.TIMESTAMP},
    )
    status = _mapped("NamespaceStatus", {"conditions": types.list_of(condition.type), "phase": types.STRING})
    metadata = _mapped(
        "NamespaceMetadata",
        {
            **_strings("name", "generateName", "namespace", "UID", "resourceVersion"),
            **dict.fromkeys(("labels", "annotations"), _TEXT_BY_NAME),
            **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), types.TIMESTAMP),
            **dict.fromkeys(("deletionGracePeriodSeconds", "generation"), types.INT),
            "finalizers": _TEXTS,
        },
    )
    parts = {"metadata": metadata.type, "spec": spec.type, "status": status.type}
    namespace = _mapped("Namespace", parts, unknown=UnknownNamespace)
    return namespace, metadata, spec, status, condition


# ── compilation and evaluation of policy expressions within a cost budget ──


#: Cost of all expressions of one policy, binding and parameter.
BUDGET: Final = 10_000_000
#: Cost of all match conditions of one webhook or policy.
MATCH_BUDGET: Final = 2_500_000
_FAILURES: Final = (EvaluationError, CostLimitExceeded, InternalError)
_SPENT: Final = "validation failed due to running out of cost budget, no further validation rules will be run"
_CONVERTED: Final = frozenset(
    (
        types.ANY,
        types.BOOL,
        types.BYTES,
        types.DOUBLE,
        types.DURATION,
        types.INT,
        types.NULL,
        types.STRING,
        types.TIMESTAMP,
        types.UINT,
    )
)

Document = Mapping[str, Any]


class Refused(Exception):
    """An expression that cannot be used: what is wrong with it, and whether that is the server's own fault."""

    def __init__(self, detail: str, internal: bool = False) -> None:
        super().__init__(detail)
        self.detail, self.internal = detail, internal


class OutOfBudget(Exception):
    """The expressions of a group cost more than all of them may."""

    def __init__(self) -> None:
        super().__init__(_SPENT)


def compile_expression(text: str, env: Env, results: Sequence[Type] = ()) -> Program:
    """Return the program of an expression whose type must be one of *results* (any when empty); raises Refused."""
    try:
        checked = check_expression(text, env)
    except CompileError as error:
        raise Refused(f"compilation failed: {error}") from error
    if results and checked.type not in results:
        wanted = " ".join(map(long_name, results))
        among = wanted if len(results) == 1 else f"one of [{wanted}]"
        raise Refused(f"must evaluate to {among} but got {long_name(checked.type)}")
    try:
        return build(checked)
    except ProgramError as error:
        raise Refused(f"program instantiation failed: {error}", internal=True) from error


class Expression:
    """One expression of a policy, compiled, or why it could not be."""

    __slots__ = ("program", "refused", "text")

    def __init__(self, text: str, env: Env, results: Sequence[Type] = ()) -> None:
        self.text = text
        self.program: Program | None = None
        self.refused: Refused | None = None
        try:
            self.program = compile_expression(text, env, results)
        except Refused as refused:
            self.refused = refused


class Variables:
    """`variables` during evaluation: each is computed on first use."""

    __slots__ = ("cost", "found", "inputs", "known")

    cel_type = types.object_named(VARIABLES)

    def __init__(self, known: Mapping[str, Expression], inputs: Mapping[str, Value]) -> None:
        self.known, self.inputs = known, inputs
        self.found: dict[str, Value | EvaluationError] = {}
        self.cost = 0

    def take_cost(self) -> int:
        """Return the cost of variables since the last call."""
        cost, self.cost = self.cost, 0
        return cost

    def value(self, name: str) -> Value:
        """Return the value of a variable; raises EvaluationError."""
        if name not in self.found:
            self.found[name] = self._compute(name)
        found = self.found[name]
        if found.__class__ is EvaluationError:
            raise EvaluationError(str(found))
        return found

    def _compute(self, name: str) -> Value | EvaluationError:
        expression = self.known[name]
        if expression.program is None:
            assert expression.refused is not None
            return EvaluationError(f'composited variable "{name}" fails to compile: {expression.refused}')
        try:
            value, cost = expression.program.run(self.inputs)
        except _FAILURES as error:
            self.cost += error.cost
            return EvaluationError(f'composited variable "{name}" fails to evaluate: {error}')
        self.cost += cost
        return value


class Composer:
    """Compiles the expressions of one policy against its variables."""

    def __init__(
        self, variables: Sequence[Document], *, params: bool, patches: Library | None = None, **rest: Any
    ) -> None:
        """With *patches*, expressions that are no conditions may build patches."""
        self.fields: dict[str, Type] = {}
        self.variables: dict[str, Expression] = {}
        self._params, self._patches, self._rest = params, patches, rest
        self._type = ObjectType(VARIABLES, self.fields, Variables, mapped=True, read=Variables.value)
        self._envs: dict[tuple[bool, bool], Env] = {}
        for variable in variables:
            self.add(variable.get("name") or "", variable.get("expression") or "")

    def env(self, authorizer: bool = True, patching: bool = False) -> Env:
        """Return the environment, which knows the variables added so far and those to come."""
        found = self._envs.get((authorizer, patching))
        if found is None:
            found = self._envs[authorizer, patching] = build_environment(
                params=self._params,
                authorizer=authorizer,
                variables=self._type,
                patches=self._patches if patching else None,
                **self._rest,
            )
        return found

    def add(self, name: str, text: str) -> Expression:
        """Compile a variable, which those that follow may use."""
        found = self.variables[name] = Expression(text, self.env())
        self.fields[name] = types.DYN if found.program is None else _declared(found.program.type)
        return found

    def expression(
        self, text: str, results: Sequence[Type], authorizer: bool = True, patching: bool = False
    ) -> Expression:
        """Compile an expression of the policy."""
        return Expression(text, self.env(authorizer, patching), results)

    def inputs(self, values: Mapping[str, Value], budget: int = BUDGET) -> Inputs:
        """Return *values* with the policy's variables, for one group of expressions."""
        return Inputs(values, self.variables, budget)


def _declared(of: Type) -> Type:
    """Return the type a variable is declared with: containers keep their parts, objects become dyn."""
    if of in _CONVERTED:
        return of
    if of.kind is Kind.LIST:
        return types.list_of(_declared(of.params[0]))
    if of.kind is Kind.MAP:
        return types.map_of(*map(_declared, of.params))
    return types.DYN


class Inputs:
    """What one group of expressions is evaluated with, and what is left of its budget."""

    __slots__ = ("budget", "values", "variables")

    def __init__(self, values: Mapping[str, Value], variables: Mapping[str, Expression], budget: int) -> None:
        self.values = dict(values)
        self.variables = self.values["variables"] = Variables(variables, self.values)
        self.budget = budget

    def evaluate(self, expression: Expression) -> Value:
        """Return the value; raises EvaluationError with the whole message, or OutOfBudget."""
        if expression.program is None:
            raise EvaluationError(f"compilation error: {expression.refused}")
        failed: Exception | None = None
        value: Value = None
        try:
            value, cost = expression.program.run(self.values)
        except _FAILURES as error:
            failed, cost = error, error.cost
        for spent in (self.variables.take_cost(), cost):
            if spent > self.budget:
                raise OutOfBudget
            self.budget -= spent
        if failed is not None:
            raise EvaluationError(f"expression '{expression.text}' resulted in error: {failed}")
        return value
