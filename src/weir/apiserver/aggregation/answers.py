"""Responses to requests for aggregated APIs.

Spec: upstream's aggregator. Everything below /apis/<group>/<version> belongs to the service of that version's
APIService. Requests are not forwarded (docs/decisions/0090), so the service is always unavailable, reported in plain
text instead of a Status.
"""

from __future__ import annotations

from weir.apiserver.transport.http import TEXT, Response
from weir.objects.served_kinds import ServedKinds

__all__ = ["of_another_server"]


def of_another_server(path: str, served: ServedKinds) -> Response | None:
    """Return the answer to a request for *path* when another server has to give it, None otherwise."""
    match path.split("/", 4):
        case ["", "apis", group, version, *_]:
            found = served.registered.get((group, version))
            if found is not None and found.remote:
                headers = [(b"X-Content-Type-Options", b"nosniff")]
                return Response(503, b"service unavailable\n", TEXT, headers)
    return None
