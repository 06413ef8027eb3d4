"""Authentication and authorization reviews: TokenReview, SubjectAccessReview, SelfSubjectReview and others.

Spec: apiserver.md 5.2 (SelfSubjectReview); authentication.k8s.io/v1 and authorization.k8s.io/v1. Each function takes
the request document and returns it with its status; nothing is stored. `extra` and field or label requirements count
only as far as the authorizers use them (Node: the field selector).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from weir.apiserver.auth.authn import Authenticator, User
from weir.apiserver.auth.authz import Authorizer
from weir.apiserver.auth.rbac import Action
from weir.apiserver.auth.tokens import Verifier
from weir.errors import BadRequest, Invalid
from weir.fields.field import FieldError, invalid, required
from weir.objects.kind import Document, Kind

ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
GROUP = "authorization.k8s.io"


class Reviews:
    """Answers every review kind."""

    def __init__(
        self, authorizer: Authorizer, authenticator: Authenticator, verifier: Verifier | None = None
    ) -> None:
        self._authorizer = authorizer
        self._authenticator = authenticator
        self._verifier = verifier
        self._answers: Mapping[str, Callable[[Document, User, str, str], Document]] = {
            "TokenReview": self._token,
            "SelfSubjectReview": self._self,
            "SubjectAccessReview": self._access,
            "LocalSubjectAccessReview": self._local_access,
            "SelfSubjectAccessReview": self._self_access,
            "SelfSubjectRulesReview": self._rules,
        }

    def review(
        self, kind: Kind, document: Document, user: User, namespace: str = "", now: str = ""
    ) -> Document:
        """Return *document* with its status; *user* asks, *namespace* is the request's, *now* RFC 3339."""
        return self._answers[kind.kind](document, user, namespace, now)

    def _token(self, document: Document, user: User, namespace: str, now: str) -> Document:
        spec = document.get("spec") or {}
        token = spec.get("token")
        if not token:
            raise BadRequest("token is required for TokenReview in authentication")
        status: Document = {"user": {}}
        found, audiences = self._read(token, list(spec.get("audiences") or ()))
        if found is None:
            status["error"] = "invalid bearer token"
        else:
            status = {"authenticated": True, "user": found.info()}
            if audiences:
                status["audiences"] = audiences
        return {**document, "status": status}

    def _read(self, token: str, audiences: list[str]) -> tuple[User | None, list[str]]:
        """Return the token's user, and the matching *audiences* (without any: this server's own)."""
        ours = list(self._verifier.audiences) if self._verifier else []
        if self._verifier is not None:
            found = self._verifier.review(token, audiences or ours)
            if found is not None:
                return found
        user = self._authenticator.user_of_token(token)
        if user is not None and user.name.startswith("system:serviceaccount:"):
            return None, []  # a valid token, but not for the requested audiences
        if user is not None and ours and audiences and not set(audiences) & set(ours):
            return None, []  # a static token is for this server only
        return user, [audience for audience in audiences if audience in ours] or ours

    def _self(self, document: Document, user: User, namespace: str, now: str) -> Document:
        metadata = {"creationTimestamp": now} if now else {}  # what was sent is forgotten
        return {**document, "metadata": metadata, "status": {"userInfo": user.info()}}

    def _access(self, document: Document, user: User, namespace: str, now: str) -> Document:
        spec = document.get("spec") or {}
        _refuse([*_problems(spec), *_subject_problems(spec)])
        return self._decided(document, _subject(spec), spec)

    def _local_access(self, document: Document, user: User, namespace: str, now: str) -> Document:
        spec = document.get("spec") or {}
        own = (document.get("metadata") or {}).get("namespace") or namespace
        _refuse([*_problems(spec), *_subject_problems(spec), *_local_problems(spec, own)])
        if not namespace:
            raise BadRequest("namespace is required on this type: ")
        if namespace != own:
            raise BadRequest(f"spec.resourceAttributes.namespace must match namespace: {namespace}")
        return self._decided(document, _subject(spec), spec)

    def _self_access(self, document: Document, user: User, namespace: str, now: str) -> Document:
        spec = document.get("spec") or {}
        _refuse(list(_problems(spec)))
        return self._decided(document, user, spec)

    def _rules(self, document: Document, user: User, namespace: str, now: str) -> Document:
        about = (document.get("spec") or {}).get("namespace", "")
        if not about:
            raise BadRequest("no namespace on request")
        resource, plain, incomplete = self._authorizer.rules_for(user, about)
        status: Document = {"resourceRules": resource, "nonResourceRules": plain, "incomplete": incomplete}
        if incomplete:
            status["evaluationError"] = "node authorizer does not support user rule resolution"
        head = {"kind": document.get("kind"), "apiVersion": document.get("apiVersion")}
        return {**head, "metadata": {}, "spec": {}, "status": status}

    def _decided(self, document: Document, who: User, spec: Mapping[str, Any]) -> Document:
        decision = self._authorizer.decide(who, action_of_spec(spec))
        status: Document = {"allowed": decision.allowed}
        if decision.reason:
            status["reason"] = decision.reason
        return {**document, "status": status}


def action_of_spec(spec: Mapping[str, Any]) -> Action:
    """Return the action an access review asks about.

    >>> action_of_spec({"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "ns"}}).namespace
    'ns'
    """
    plain = spec.get("nonResourceAttributes")
    if plain is not None:
        return Action(plain.get("verb", ""), path=plain.get("path", ""))
    about = spec.get("resourceAttributes") or {}
    selector = about.get("fieldSelector") or {}
    fields = selector.get("rawSelector") or ",".join(
        f"{r.get('key', '')}={r['values'][0]}"
        for r in selector.get("requirements") or ()
        if r.get("operator") == "In" and len(r.get("values") or ()) == 1
    )
    return Action(
        about.get("verb", ""),
        about.get("group", ""),
        about.get("resource", ""),
        about.get("subresource", ""),
        about.get("namespace", ""),
        about.get("name", ""),
        field_selector=fields,
    )


def _subject(spec: Mapping[str, Any]) -> User:
    extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
    return User(spec.get("user", ""), spec.get("uid", ""), tuple(spec.get("groups") or ()), extra)


def _problems(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    resource, plain = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (resource is None) == (plain is None):
        yield invalid("spec", _go_path(plain), ONE_OF)
    for name in ("fieldSelector", "labelSelector"):
        selector = (resource or {}).get(name)
        if selector is None:
            continue
        at, raw = f"spec.resourceAttributes.{name}", selector.get("rawSelector")
        if raw and selector.get("requirements"):
            yield invalid(f"{at}.rawSelector", raw, "may not specified at the same time as requirements")
        if not raw and not selector.get("requirements"):
            text = f"when {at} is specified, requirements or rawSelector is required"
            yield required(f"{at}.requirements", text)


def _subject_problems(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    if not spec.get("user") and not spec.get("groups"):
        yield invalid("spec.user", "", "at least one of user or group must be specified")


def _local_problems(spec: Mapping[str, Any], namespace: str) -> Iterator[FieldError]:
    resource, plain = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and resource.get("namespace", "") != namespace:
        at = "spec.resourceAttributes.namespace"
        yield invalid(at, resource.get("namespace", ""), "must match metadata.namespace")
    if plain is not None:
        yield invalid("spec.nonResourceAttributes", _go_path(plain), "disallowed on this kind of request")


def _go_path(plain: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return path attributes as Go names their fields: that is how a bad value is printed."""
    return None if plain is None else {"Path": plain.get("path", ""), "Verb": plain.get("verb", "")}


def _refuse(problems: list[FieldError]) -> None:
    """Raise the 422; its message names no kind, because upstream has forgotten it by then."""
    if problems:
        raise Invalid.of(GROUP, "", "", problems)
