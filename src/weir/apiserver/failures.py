"""Renders errors as Status responses in the negotiated media type."""

from __future__ import annotations

import msgspec

from weir import errors
from weir.apiserver.older_release import Release
from weir.apiserver.transport import protobuf
from weir.apiserver.transport.http import YAML, Request, Response
from weir.apiserver.transport.negotiation import negotiate, to_yaml
from weir.store import StoreUnavailable

__all__ = ["failure", "reworded", "unavailable"]

_encode = msgspec.json.Encoder().encode


def unavailable(error: StoreUnavailable) -> errors.ApiError:
    """Return the error of a request when the store is away; a write that may have happened is a timeout."""
    if error.unknown:
        return errors.Timeout(str(error))
    return errors.ServiceUnavailable(str(error), retry_after_seconds=1)


def reworded(error: errors.ApiError, release: Release) -> errors.ApiError:
    """Return an error in the words of an older release."""
    error.message = release.words(error.message)
    for cause in (error.details or {}).get("causes") or ():
        cause["message"] = release.words(cause.get("message", ""))
    return error


def failure(request: Request, error: errors.ApiError) -> Response:
    """Return an error in the negotiated media type, JSON when that is unknown."""
    headers = None
    if error.retry_after_seconds is not None:
        headers = [(b"Retry-After", str(error.retry_after_seconds).encode())]
    accept = request.headers.get(b"accept", b"")
    if b"yaml" in accept or b"protobuf" in accept:
        try:
            form = negotiate(accept.decode("latin-1"), "", protobuf=True)
            if form.yaml and not form.shape:
                return Response(error.code, to_yaml(error.status()), YAML, headers)
            if form.protobuf and (message := protobuf.to_bytes(error.status())) is not None:
                return Response(error.code, message, protobuf.MEDIA_TYPE.encode(), headers)
        except errors.NotAcceptable:
            pass
    return Response(error.code, _encode(error.status()), headers=headers)
