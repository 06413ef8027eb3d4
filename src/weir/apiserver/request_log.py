"""Request log, and warnings about repeated rejections.

Spec: KEP-5500 "Troubleshooting": a controller whose template the server rejects retries for ever, and the server's
log shows it. Level 2 logs each object that failed validation, level 3 every request (upstream's "HTTP" line), 7 its
headers, 8 to 10 more of its body. The third rejection of the same object for the same reason within a minute is a
warning, repeated each time the count doubles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from weir.apiserver.registry.patching import APPLY_PATCH
from weir.apiserver.registry.subresources import STREAMS
from weir.apiserver.transport.http import Request, Response, Stream
from weir.apiserver.transport.paths import RequestInfo
from weir.compat.customresources.served import CustomResourceKind
from weir.errors import ApiError, Invalid
from weir.observe.logs import CONFIDENTIAL, Log, ObjectRef

WINDOW_SECONDS: Final = 60.0
REPEATED: Final = 3
#: So many kinds of refusal are counted; beyond, counting starts anew.
MOST_KEYS: Final = 1024


class RequestLog:
    """The lines about requests of one server."""

    def __init__(self, log: Log | None = None) -> None:
        self._log = log or Log("weir.apiserver")
        self._refused: dict[tuple[str, ...], tuple[float, int]] = {}  # since when, and how many since

    @property
    def shows(self) -> bool:
        """Whether requests that are answered are logged at all."""
        return self._log.shows(3)

    def answered(
        self, request: Request, verb: str, answer: Response | Stream, seconds: float, user: str
    ) -> None:
        """A request was answered."""
        agent = request.headers.get(b"user-agent", b"").decode("latin-1")
        uri = f"{request.path}?{request.query}" if request.query else request.path
        line: dict[str, object] = {"verb": verb, "URI": uri, "latencyMs": round(seconds * 1000, 3)}
        line |= {"userAgent": agent, "user": user, "resp": answer.code}
        if self._log.shows(7):
            line["requestHeaders"] = " ".join(_header(*each) for each in request.headers.items())
        if self._log.shows(8) and isinstance(answer, Response):
            most = None if self._log.shows(10) else 10_240 if self._log.shows(9) else 1024
            hidden = any(part in request.path for part in CONFIDENTIAL)
            for name, body in (("requestBody", request.body), ("responseBody", bytes(answer.body))):
                line[name] = "hidden" if hidden and body else body[:most].decode(errors="replace")
        self._log.v(3, "HTTP", **line)

    def refused(
        self, error: ApiError, verb: str, resource: str, namespace: str, user: str, now: float
    ) -> None:
        """A request failed; *now* in seconds."""
        if not isinstance(error, Invalid):
            return
        name, _, why = str(error).partition(" is invalid: ")
        about = ObjectRef(namespace, name.split('"')[1] if name.count('"') > 1 else "")
        self._log.v(
            2,
            "Object failed validation",
            verb=verb,
            resource=resource,
            object=about,
            user=user,
            err=why or name,
        )
        key = (verb, resource, namespace, user, why)
        since, count = self._refused.get(key, (now, 0))
        if now - since > WINDOW_SECONDS:
            since, count = now, 0
        if len(self._refused) >= MOST_KEYS and key not in self._refused:
            self._refused.clear()
        count += 1
        self._refused[key] = (since, count)
        if count >= REPEATED and count % REPEATED == 0 and _is_power_of_two(count // REPEATED):
            self._log.warning(
                "The same is refused again and again: does a controller retry a template that is not valid?",
                count=count,
                seconds=round(now - since, 1),
                verb=verb,
                resource=resource,
                object=about,
                user=user,
                err=why or name,
            )


def _header(name: bytes, value: bytes) -> str:
    shown = b"hidden" if name in (b"authorization", b"cookie") else value
    return f"{name.decode('latin-1')}={shown.decode('latin-1')}"


def _is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


# ── labels of request metrics ──
# As upstream: a request is counted once it reached a route. Others (unauthenticated, forbidden, unknown resource,
# unsupported method or media type) are counted by the authentication and authorization metrics or not at all, so
# clients cannot invent labels. Verbs are those of HTTP but for LIST, WATCH, APPLY and CONNECT, and deletecollection is
# a DELETE; creates have the scope `resource`. Of the pages only health and OpenAPI v3 are counted, with their path as
# subresource. Compared with a real server: tests/kubernetes/test_same_metrics.py.


COMPONENT = "apiserver"
_VERBS = {
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
    "get": "GET",
    "head": "GET",
    "list": "LIST",
    "watch": "WATCH",
}
_CONNECTS = frozenset({"log", *STREAMS})
_HEALTH = frozenset({"/healthz", "/livez", "/readyz"})
_OPENAPI = "/openapi/v3"
_APPLY = APPLY_PATCH.encode()


class Labels(NamedTuple):
    """How the metrics of requests name one."""

    verb: str
    group: str
    version: str
    resource: str
    subresource: str
    scope: str
    component: str = COMPONENT


def labels_of(request: Request, info: RequestInfo, params: Mapping[str, str]) -> Labels | None:
    """Return the labels of *request*; None for unknown resources and pages that are not counted."""
    kind = info.kind
    if kind is None:
        return None if info.is_resource else _page(info)
    subresource = info.subresource
    if subresource and kind.subresource(subresource) is None:
        return None
    verb = "CONNECT" if subresource in _CONNECTS else _VERBS.get(info.verb, "other")
    if verb == "PATCH":
        if request.headers.get(b"content-type") == _APPLY:
            verb = "APPLY"
    elif verb == "GET" and params.get("watch", "0").lower() not in ("0", "false"):
        verb = "WATCH"  # of one object by its name, which upstream answers with the object
    if info.name or info.verb == "create":
        scope = "resource"
    else:
        scope = "namespace" if info.namespace else "cluster"
    return Labels(verb, info.api_group, info.api_version, info.resource, subresource, scope)


def _page(info: RequestInfo) -> Labels | None:
    path = info.path
    if path in _HEALTH:
        shown = path
    elif path == _OPENAPI or path.startswith(f"{_OPENAPI}/"):
        shown = "openapi/v3" if path == _OPENAPI else "openapi/v3/"
    else:
        return None
    return Labels(_VERBS.get(info.verb, info.verb.upper()), "", "", "", shown, "", "")


def is_routed(info: RequestInfo, code: int) -> bool:
    """Return whether a request that may be made and got this *code* had reached a route.

    A path that does not take the method, or gives nothing of the form that is asked for, has none. Custom resources
    share one route that finds out about forms by itself; patches of other kinds are chosen by their type.
    """
    if code == 405:
        return False
    if code in (406, 415) and not isinstance(info.kind, CustomResourceKind):
        return code == 415 and info.verb != "patch"
    return True


def dry_run_label(values: Sequence[str]) -> str:
    """Return how metrics show the values of `dryRun`.

    >>> dry_run_label([]), dry_run_label(["All", "All"]), dry_run_label(["Some"])
    ('', 'All', 'invalid')
    """
    if not values:
        return ""
    return "All" if all(value == "All" for value in values) else "invalid"
