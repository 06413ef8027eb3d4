"""API errors as one exception tree, shared by server and client.

Spec: core.md 2.12 "HTTP wrapping", apiserver.md 1 "Status objects". The server renders each as a Status object, and
the client raises the same class from it.

    WeirError
    └── ApiError                code, reason, message, details
        ├── BadRequest            400  malformed request, selector, body
        │   └── DecodeError       400  a body or a patched object that is not of its kind
        ├── Unauthorized          401
        ├── Forbidden             403  denied by authorization or admission
        ├── NotFound              404
        ├── MethodNotAllowed      405
        ├── NotAcceptable         406
        ├── AlreadyExists         409
        ├── Conflict              409  changed since it was read, or a precondition failed
        ├── Gone                  410  (reason Expired) the revision is no longer kept
        ├── RequestTooLarge       413
        ├── UnsupportedMediaType  415
        ├── Invalid               422  the object breaks a rule; carries one cause per broken rule
        ├── TooManyRequests       429  retry later
        ├── InternalError         500
        ├── NotImplementedHere    501  a real cluster could, simulated nodes cannot
        ├── ServiceUnavailable    503
        └── Timeout               504  (ServerTimeout when the server gave up on its own work)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, Protocol


class WeirError(Exception):
    """Anything weir raises on purpose."""


class FieldProblem(Protocol):
    """What this module needs of a validation error (weir.fields.field.FieldError)."""

    @property
    def type(self) -> str: ...
    @property
    def field(self) -> str: ...
    @property
    def body(self) -> str: ...


class Resource(Protocol):
    """What this module needs of a served kind (weir.objects.kind.Kind)."""

    @property
    def group(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def plural(self) -> str: ...


def qualified(plural: str, group: str) -> str:
    """Return how messages name a resource.

    >>> qualified("pods", ""), qualified("deployments", "apps")
    ('pods', 'deployments.apps')
    """
    return f"{plural}.{group}" if group else plural


def resource_details(kind: Resource, name: str) -> dict[str, Any]:
    """Return the details that name one object by its plural resource."""
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if kind.group:
        details["group"] = kind.group
    details["kind"] = kind.plural
    return details


class ApiError(WeirError):
    """An answer of the API server other than success."""

    code: int = 500
    reason: str = ""
    #: details present but empty: the shape of errors made from a bare HTTP code
    EMPTY: ClassVar[dict[str, Any]] = {}

    def __init__(
        self,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        retry_after_seconds: int | None = None,
        code: int | None = None,
        reason: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        self.metadata = metadata
        self.retry_after_seconds = retry_after_seconds
        if code is not None:
            self.code = code
        if reason is not None:
            self.reason = reason

    def status(self) -> dict[str, Any]:
        """Return the Status object a client receives."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": dict(self.metadata or {}),
            "status": "Failure",
        }
        if self.message:
            status["message"] = self.message
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = dict(self.details)
        status["code"] = self.code
        return status

    @property
    def causes(self) -> list[dict[str, Any]]:
        """Return the causes of the details, empty when there are none."""
        return list((self.details or {}).get("causes") or [])


class BadRequest(ApiError):
    """The request cannot be understood. Correct it before sending it again."""

    code, reason = 400, "BadRequest"


class DecodeError(BadRequest):
    """The body, or the result of a patch, does not fit its kind; the message is the decoder's sentence."""


class Unauthorized(ApiError):
    """No credentials, or unknown credentials."""

    code, reason = 401, "Unauthorized"

    def __init__(self, message: str = "Unauthorized", **rest: Any) -> None:
        super().__init__(message, **rest)


class Forbidden(ApiError):
    """Known, but not allowed; or refused by admission."""

    code, reason = 403, "Forbidden"

    @classmethod
    def admission(cls, kind: Resource, name: str, text: str) -> Forbidden:
        """Return the refusal of one object, worded as admission words it."""
        message = f'{qualified(kind.plural, kind.group)} "{name}" is forbidden: {text}'
        return cls(message, details=resource_details(kind, name))


class NotFound(ApiError):
    """There is no such object, or no such resource."""

    code, reason = 404, "NotFound"

    @classmethod
    def object(cls, kind: Resource, name: str) -> NotFound:
        """Return the error for one missing object."""
        message = f'{qualified(kind.plural, kind.group)} "{name}" not found'
        return cls(message, details=resource_details(kind, name))

    @classmethod
    def resource(cls) -> NotFound:
        """Return the error for an unknown resource of a known group version."""
        return cls("the server could not find the requested resource", details={})


class MethodNotAllowed(ApiError):
    """The resource exists, this verb on it does not."""

    code, reason = 405, "MethodNotAllowed"

    def __init__(
        self, message: str = "the server does not allow this method on the requested resource", **rest: Any
    ) -> None:
        rest.setdefault("details", {})
        super().__init__(message, **rest)


REPRESENTATIONS = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
STREAMS = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"


class NotAcceptable(ApiError):
    """None of the representations the client accepts is offered."""

    code, reason = 406, "NotAcceptable"

    def __init__(self, message: str = "", *, offered: str = REPRESENTATIONS, **rest: Any) -> None:
        rest.setdefault("details", {})
        super().__init__(message or f"406: Not Acceptable\n\nAvailable representations: {offered}", **rest)


class AlreadyExists(ApiError):
    """The name is taken."""

    code, reason = 409, "AlreadyExists"

    @classmethod
    def object(cls, kind: Resource, name: str) -> AlreadyExists:
        """Return the error for one taken name."""
        message = f'{qualified(kind.plural, kind.group)} "{name}" already exists'
        return cls(message, details=resource_details(kind, name))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


class Conflict(ApiError):
    """The object changed since it was read. Get it again, reapply the change, retry."""

    code, reason = 409, "Conflict"

    @classmethod
    def object(cls, kind: Resource, name: str, text: str = MODIFIED) -> Conflict:
        """Return the conflict about one object; without *text*, a stale resourceVersion."""
        message = f'Operation cannot be fulfilled on {qualified(kind.plural, kind.group)} "{name}": {text}'
        return cls(message, details=resource_details(kind, name))


class Gone(ApiError):
    """The requested revision was compacted. List again and start from there."""

    code, reason = 410, "Expired"


class RequestTooLarge(ApiError):
    """The body is larger than the server reads."""

    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(ApiError):
    """The body is in a format the server does not read."""

    code, reason = 415, "UnsupportedMediaType"


#: that the causes of a 422 may have together; each may print a large value
MOST_CHARACTERS: Final = 1 << 20


class Invalid(ApiError):
    """The object breaks rules of its kind; each broken rule is a cause."""

    code, reason = 422, "Invalid"

    @classmethod
    def from_field_errors(cls, kind: Resource, name: str, problems: Iterable[FieldProblem]) -> Invalid:
        """Return the 422 for *problems*; identical ones collapse, the first appearance keeps its place."""
        group = (
            "" if kind.group == "events.k8s.io" else kind.group
        )  # one store, which calls them by the old name
        return cls.of(group, kind.kind, name, problems)

    @classmethod
    def of(cls, group: str, kind: str, name: str, problems: Iterable[FieldProblem]) -> Invalid:
        """Return the 422 of an object or of options, named by group and kind."""
        causes: dict[str, dict[str, Any]] = {}
        left = MOST_CHARACTERS
        for problem in problems:
            printed = f"{problem.field}: {problem.body}"
            if printed not in causes:
                causes[printed] = {
                    "reason": problem.type,
                    "message": problem.body,
                    "field": problem.field,
                }
                left -= len(printed)
                if left < 0:
                    break
        text = ", ".join(causes)
        if len(causes) > 1:
            text = f"[{text}]"
        message = f'{qualified(kind, group)} "{name}" is invalid' + (f": {text}" if causes else "")
        details: dict[str, Any] = {}
        if name:
            details["name"] = name
        if group:
            details["group"] = group
        if kind:
            details["kind"] = kind
        if causes:
            details["causes"] = list(causes.values())
        return cls(message, details=details)


class TooManyRequests(ApiError):
    """Come back later: the server is busy, or a disruption budget is spent."""

    code, reason = 429, "TooManyRequests"


class InternalError(ApiError):
    """The server failed, or (as upstream) an error without a Status."""

    code, reason = 500, ""


class NotImplementedHere(ApiError):
    """A real cluster can do this; weir's simulated nodes cannot."""

    code, reason = 501, "NotImplemented"


class ServiceUnavailable(ApiError):
    """The server or what it depends on is not ready."""

    code, reason = 503, "ServiceUnavailable"


class Timeout(ApiError):
    """The server could not answer in time."""

    code, reason = 504, "Timeout"


_BY_REASON: dict[str, type[ApiError]] = {
    "BadRequest": BadRequest,
    "Unauthorized": Unauthorized,
    "Forbidden": Forbidden,
    "NotFound": NotFound,
    "MethodNotAllowed": MethodNotAllowed,
    "NotAcceptable": NotAcceptable,
    "AlreadyExists": AlreadyExists,
    "Conflict": Conflict,
    "Expired": Gone,
    "Gone": Gone,
    "RequestEntityTooLarge": RequestTooLarge,
    "UnsupportedMediaType": UnsupportedMediaType,
    "Invalid": Invalid,
    "TooManyRequests": TooManyRequests,
    "InternalError": InternalError,
    "NotImplemented": NotImplementedHere,
    "ServiceUnavailable": ServiceUnavailable,
    "Timeout": Timeout,
    "ServerTimeout": Timeout,
}
_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    406: NotAcceptable,
    409: Conflict,
    410: Gone,
    413: RequestTooLarge,
    415: UnsupportedMediaType,
    422: Invalid,
    429: TooManyRequests,
    500: InternalError,
    501: NotImplementedHere,
    503: ServiceUnavailable,
    504: Timeout,
}


def from_status(status: Mapping[str, Any]) -> ApiError:
    """Return the error a Status stands for, as the class the server raised.

    >>> type(from_status({"code": 409, "reason": "AlreadyExists", "message": "taken"})).__name__
    'AlreadyExists'
    """
    code = int(status.get("code") or 500)
    reason = str(status.get("reason") or "")
    found = _BY_REASON.get(reason) or _BY_CODE.get(code) or ApiError
    details = status.get("details")
    retry = (details or {}).get("retryAfterSeconds")
    return found(
        str(status.get("message") or ""),
        details=details,
        metadata=status.get("metadata"),
        retry_after_seconds=retry,
        code=code,
        reason=reason,
    )
