"""Non-resource paths: discovery, version, health, metrics, OpenAPI.

Spec: apiserver.md 14 "Discovery and health". Some are routes that accept only GET (`/version`, `/api`, the resources
of a group version), the others are plain handlers that answer every method. Routes negotiate media types up front;
plain handlers while they answer.

`/metrics/slis`: results of health checks. As in Kubernetes' servers: the last result of each check and counts per
result, updated when `/healthz`, `/livez` or `/readyz` is requested.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from weir import errors
from weir.apiserver import discovery
from weir.apiserver.compat.customresources.discovery import ServedDiscovery
from weir.apiserver.compat.customresources.openapi import ServedOpenApi
from weir.apiserver.metrics import Metrics
from weir.apiserver.openapi import documents
from weir.apiserver.transport.http import TEXT, YAML, Request, Response
from weir.apiserver.transport.negotiation import ONLY_WHOLE, accepts, negotiate, to_yaml
from weir.apiserver.transport.paths import RequestInfo
from weir.objects.served_kinds import ServedKinds

NO_CACHE = b"no-cache, private"
METRICS_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
_encode = msgspec.json.Encoder().encode
Public = dict[str, Callable[[], dict[str, Any]]]


class HealthMetrics:
    """The results of checks since the server started."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], bool] = {}
        self._results: Counter[tuple[str, str, str]] = Counter()

    def checked(self, endpoint: str, checks: Iterable[str], failed: Collection[str]) -> None:
        """Count that *checks* were made for an endpoint (`livez`), and which of them failed."""
        for check in checks:
            fine = check not in failed
            self._last[check, endpoint] = fine
            self._results[check, "success" if fine else "error", endpoint] += 1

    def render(self) -> bytes:
        """Return the page.

        >>> metrics = HealthMetrics()
        >>> metrics.checked("livez", ["ping", "etcd"], ["etcd"])
        >>> print(metrics.render().decode(), end="")
        # HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.
        # TYPE kubernetes_healthcheck gauge
        kubernetes_healthcheck{name="etcd",type="livez"} 0
        kubernetes_healthcheck{name="ping",type="livez"} 1
        # HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all healthcheck.
        # TYPE kubernetes_healthchecks_total counter
        kubernetes_healthchecks_total{name="etcd",status="error",type="livez"} 1
        kubernetes_healthchecks_total{name="ping",status="success",type="livez"} 1
        """
        lines = [
            "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.",
            "# TYPE kubernetes_healthcheck gauge",
        ]
        for (name, endpoint), fine in sorted(self._last.items()):
            lines.append(f'kubernetes_healthcheck{{name="{name}",type="{endpoint}"}} {int(fine)}')
        lines += [
            "# HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all healthcheck.",
            "# TYPE kubernetes_healthchecks_total counter",
        ]
        for (name, status, endpoint), count in sorted(self._results.items()):
            labels = f'name="{name}",status="{status}",type="{endpoint}"'
            lines.append(f"kubernetes_healthchecks_total{{{labels}}} {count}")
        return "\n".join((*lines, "")).encode()


def not_found_page() -> Response:
    """Return the page of a path that is not served."""
    return Response(404, b"404 page not found\n", TEXT)


class Pages:
    """The paths of one server that are not resources."""

    def __init__(
        self,
        off: discovery.Off,
        address: str,
        metrics: Metrics | None,
        public: Public,
        failed_checks: Callable[[], Sequence[str]],
        release: str = "",
        texts: Mapping[str, Callable[[], str]] | None = None,
        served: ServedKinds | None = None,
    ) -> None:
        """*release* is the number of an older release whose server this plays; *texts* are plain pages."""
        self._texts = texts or {}
        self._release = release
        self._off, self._address, self._metrics = off, address, metrics
        self._served = served if served is not None else ServedKinds()
        self._discovery = ServedDiscovery(self._served, off)
        self._schemas: Any = None
        self._public, self._failed_checks = public, failed_checks
        self._slis = HealthMetrics()

    def answer(self, request: Request, info: RequestInfo) -> Response:
        """Return what lies at the path of *info*; raises 404, 405 and 406."""
        path = info.path
        if path.startswith("//"):
            return not_found_page()
        parts = (path.rstrip("/") or "/").removeprefix("/").split("/")
        if path in self._texts:
            _only_get(info)
            return Response(200, self._texts[path]().encode(), TEXT)
        if parts == ["version"] or path in self._public:
            _only_get(info)
            if not accepts(request.header(b"accept"), "application/json"):
                raise errors.NotAcceptable(offered="application/json")
            return Response(
                200,
                _encode(self._public[path]()) if path in self._public else discovery.version(self._release),
            )
        match parts:
            case ["api", *rest]:
                return self._route(request, info, "", rest)
            case ["apis", group, version]:
                return self._route(request, info, group, [version])
            case ["apis"]:
                return self._aggregated(request, core=False) or _shown(
                    request, self._discovery.group_list(), ""
                )
            case ["apis", group]:
                found = self._discovery.group(group)
                return _shown(request, found, "") if found is not None else not_found_page()
        return self._plain(request, parts)

    def _route(self, request: Request, info: RequestInfo, group: str, versions: list[str]) -> Response:
        """Return the document of a group version, or of `/api`."""
        if versions:
            body = self._discovery.resource_list(group, versions[0]) if len(versions) == 1 else None
            if body is None:
                if self._discovery.knows(group):
                    raise errors.NotFound.resource()
                return not_found_page()
            _only_get(info)
            return _shown(request, body, errors.REPRESENTATIONS)
        _only_get(info)
        return self._aggregated(request, core=True) or _shown(
            request, discovery.api_versions(self._address), errors.REPRESENTATIONS
        )

    def _plain(self, request: Request, parts: list[str]) -> Response:
        found: Response | None = None
        match parts:
            case [""]:
                found = Response(200, self._discovery.root_paths())
            case ["healthz" | "livez" | "readyz", *_]:
                found = self._health(request, parts)
            case ["metrics"] if self._metrics is not None:
                found = Response(200, self._metrics.render(), METRICS_TYPE)
            case ["metrics", "slis"]:
                self._checked("healthz")  # so that the page has content before the first check
                found = Response(200, self._slis.render(), METRICS_TYPE)
            case ["openapi", *rest]:
                found = self._openapi(request, rest)
        return found if found is not None else not_found_page()

    def _openapi(self, request: Request, rest: list[str]) -> Response | None:
        if self._schemas is None:
            self._schemas = ServedOpenApi(self._served, frozenset(self._off))
        found: ServedOpenApi = self._schemas
        if rest == ["v2"]:
            if documents.V2_PROTOBUF in request.header(b"accept"):
                return Response(200, found.v2_protobuf(), documents.V2_PROTOBUF_ANSWERED.encode())
            return Response(200, found.v2())
        if rest == ["v3"]:
            return Response(200, _encode(found.v3_index()), TEXT)
        if rest[:1] == ["v3"]:
            body = found.v3("/".join(rest[1:]))
            if body is None:
                return None
            cache = b"public, immutable" if request.params.get("hash") else NO_CACHE
            return Response(200, body, headers=[(b"Cache-Control", cache)])
        return None

    def _aggregated(self, request: Request, *, core: bool) -> Response | None:
        """Return the document of all groups when the client asks for it."""
        if not _accepts_aggregated(request.header(b"accept")):
            return None
        body, etag = self._discovery.aggregated(core)
        headers = [(b"ETag", etag), (b"Vary", b"Accept"), (b"Cache-Control", b"public")]
        if request.headers.get(b"if-none-match") == etag:
            return Response(304, b"", discovery.AGGREGATED_TYPE, headers)
        return Response(200, body, discovery.AGGREGATED_TYPE, headers)

    def _checked(self, endpoint: str) -> Sequence[str]:
        """Return which checks fail, and count all of them."""
        failed = self._failed_checks() if endpoint != "livez" else ()
        self._slis.checked(endpoint, discovery.CHECKS, failed)
        return failed

    def _health(self, request: Request, parts: list[str]) -> Response | None:
        if len(parts) > 1 and "/".join(parts[1:]) not in discovery.CHECKS:
            return None
        failed = self._checked(parts[0])
        if failed:
            lines = "".join(f"[-]{check} failed: reason withheld\n" for check in failed)
            return Response(500, f"{lines}{parts[0]} check failed\n".encode(), TEXT)
        verbose = "verbose" in request.params and len(parts) == 1
        return Response(200, discovery.health(parts[0], verbose), TEXT)


def _accepts_aggregated(accept: str) -> bool:
    """Return whether an Accept header names the document of all groups in the version that is served.

    Clients before 1.30 ask for v2beta1, which Kubernetes does not serve any more: they get the plain list of groups.

    >>> asked = "application/json;as=APIGroupDiscoveryList;v={};g=apidiscovery.k8s.io,application/json"
    >>> _accepts_aggregated(asked.format("v2")), _accepts_aggregated(asked.format("v2beta1"))
    (True, False)
    """
    return any(
        {"application/json", "as=APIGroupDiscoveryList", "v=v2", "g=apidiscovery.k8s.io"}
        <= {part.strip() for part in clause.split(";")}
        for clause in accept.split(",")
    )


def _only_get(info: RequestInfo) -> None:
    if info.verb != "get":
        raise errors.MethodNotAllowed()


def _shown(request: Request, body: bytes, offered: str) -> Response:
    """Return a discovery document as JSON or YAML; raises 406. It has no other shapes."""
    form = negotiate(request.header(b"accept"), offered)
    if form.shape:
        raise errors.NotAcceptable(ONLY_WHOLE, details=None)
    if form.yaml:
        return Response(200, to_yaml(msgspec.json.decode(body)), YAML)
    return Response(200, body)
