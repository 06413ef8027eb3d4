"""Do a webhook's match conditions hold for this write?

Spec: admissionregistration.k8s.io/v1 `matchConditions`; cel.md 9.1. CEL over `object`, `oldObject`, `request` and
`authorizer` (may the writing user, or a service account, do this or that?). One condition that is false means "do
not call", whatever the others say; one that fails means what the hook's failurePolicy says.

The CEL packages are loaded by the first condition, so that clusters without any do not pay for them.
Not here: rules and selectors (weir.apiserver.webhooks.matching), the language (weir.cel).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from weir.apiserver.admission.attributes import Attributes
from weir.apiserver.auth.authn import User
from weir.apiserver.auth.rbac import NO_OPINION, Action, Decision
from weir.apiserver.webhooks.review import request_of
from weir.errors import Forbidden, qualified, resource_details

if TYPE_CHECKING:
    from weir.cel.cache import ProgramCache
    from weir.cel.env import Env, Library
    from weir.cel.types import Type

Decide = Callable[[User, Action], Decision]
CACHED_CONDITIONS = 1000
_TYPES = "kubernetes.authorization."


def conditions_hold(
    conditions: Iterable[Mapping[str, Any]], a: Attributes, decide: Decide | None, *, ignore_failures: bool
) -> bool:
    """Return whether every condition holds; raises Forbidden for a failed one that is not to be ignored."""
    from weir.cel.values import CelError

    asker = Asker(decide or _nobody_may, a.user)
    asked = Action("", a.kind.group, a.kind.plural, a.subresource, a.namespace, a.name)
    variables = {
        "object": a.object,
        "oldObject": a.old,
        "namespaceObject": None,  # declared, but not given to webhooks
        "request": request_of(a, ""),
        "authorizer": asker,
        "authorizer.requestResource": ResourceCheck(asker, asked),
    }
    problems: list[str] = []
    for condition in conditions:
        text = condition.get("expression", "")
        try:
            holds = _programs().compile(text, environment()).evaluate(variables)
        except CelError as error:
            problems.append(f"expression '{text}' resulted in error: {error}")
            continue
        if holds is False:
            return False
    if problems and not ignore_failures:
        text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        named = qualified(a.kind.plural, a.kind.group)
        shown = f'{named} "{a.name}"' if a.name else named
        raise Forbidden(f"{shown} is forbidden: {text}", details=resource_details(a.kind, a.name))
    return not problems


def _nobody_may(user: User, action: Action) -> Decision:
    return NO_OPINION


@cache
def environment() -> Env:
    """Return what an expression may use."""
    from weir.cel import types
    from weir.cel.env import Env
    from weir.cel.library import KUBERNETES

    libraries = tuple(_answered(library) if library.name == "authz" else library for library in KUBERNETES)
    variables = dict.fromkeys(("object", "oldObject", "namespaceObject", "request"), types.DYN)
    rights = {"authorizer": _type("Authorizer"), "authorizer.requestResource": _type("ResourceCheck")}
    return Env(libraries, {**variables, **rights})


@cache
def _programs() -> ProgramCache:
    from weir.cel.cache import ProgramCache

    return ProgramCache(CACHED_CONDITIONS)


def _answered(library: Library) -> Library:
    """Return the declared authorization functions with what they do: a method of the same name is called."""
    functions = tuple(
        replace(f, overloads=tuple(replace(o, impl=partial(_call, f.name)) for o in f.overloads))
        for f in library.functions
    )
    return replace(library, functions=functions)


def _call(method: str, receiver: Any, *arguments: Any) -> Any:
    return getattr(receiver, method)(*arguments)


@cache
def _type(name: str) -> Type:
    from weir.cel import types

    return types.opaque(f"{_TYPES}{name}")


@dataclass(frozen=True, slots=True)
class Asker:
    """`authorizer`: questions about what one user may do."""

    decide: Decide
    user: User

    @property
    def cel_type(self) -> Type:
        return _type("Authorizer")

    def path(self, path: str) -> PathCheck:
        return PathCheck(self, path)

    def group(self, group: str) -> GroupCheck:
        return GroupCheck(self, group)

    def serviceAccount(self, namespace: str, name: str) -> Asker:  # noqa: N802 - CEL's name
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        return Asker(self.decide, User(f"system:serviceaccount:{namespace}:{name}", groups=groups))


@dataclass(frozen=True, slots=True)
class PathCheck:
    asker: Asker
    url: str

    @property
    def cel_type(self) -> Type:
        return _type("PathCheck")

    def check(self, verb: str) -> Verdict:
        return Verdict(self.asker.decide(self.asker.user, Action(verb, path=self.url)))


@dataclass(frozen=True, slots=True)
class GroupCheck:
    asker: Asker
    group: str

    @property
    def cel_type(self) -> Type:
        return _type("GroupCheck")

    def resource(self, resource: str) -> ResourceCheck:
        return ResourceCheck(self.asker, Action("", self.group, resource))


@dataclass(frozen=True, slots=True)
class ResourceCheck:
    asker: Asker
    action: Action

    @property
    def cel_type(self) -> Type:
        return _type("ResourceCheck")

    def subresource(self, subresource: str) -> ResourceCheck:
        return ResourceCheck(self.asker, self.action._replace(subresource=subresource))

    def namespace(self, namespace: str) -> ResourceCheck:
        return ResourceCheck(self.asker, self.action._replace(namespace=namespace))

    def name(self, name: str) -> ResourceCheck:
        return ResourceCheck(self.asker, self.action._replace(name=name))

    def fieldSelector(self, selector: str) -> ResourceCheck:  # noqa: N802 - CEL's name
        return ResourceCheck(self.asker, self.action._replace(field_selector=selector))

    def labelSelector(self, selector: str) -> ResourceCheck:  # noqa: N802 - no authorizer here reads labels
        return self

    def check(self, verb: str) -> Verdict:
        return Verdict(self.asker.decide(self.asker.user, self.action._replace(verb=verb)))


@dataclass(frozen=True, slots=True)
class Verdict:
    decision: Decision

    @property
    def cel_type(self) -> Type:
        return _type("Decision")

    def allowed(self) -> bool:
        return self.decision.allowed

    def reason(self) -> str:
        return self.decision.reason

    def errored(self) -> bool:
        return False

    def error(self) -> str:
        return ""
