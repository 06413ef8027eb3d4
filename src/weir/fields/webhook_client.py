"""Validation of the address that webhooks of admission and of conversion are called at: a URL or a Service.

Spec: upstream's rules of `clientConfig`.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from weir.fields import field
from weir.fields.field import Document, Errors
from weir.values.names import check_dns1123_subdomain
from weir.values.quoting import quote

_URL: Final = "; desired format: https://host[/path]"


def validate_client_service(service: Document, at: str) -> Errors:
    """Yield what is wrong with the Service that a webhook is called through."""
    # Upstream reports each of the two on the other's path.
    for member, reported in (("namespace", "name"), ("name", "namespace")):
        if not service.get(member):
            yield field.required(f"{at}.{reported}")
    port = service.get("port")
    if port is not None and not 1 <= port <= 65535:
        yield field.invalid(f"{at}.port", port, "port is not valid: must be between 1 and 65535, inclusive")
    if (path := service.get("path")) is not None:
        yield from _validate_path(path, f"{at}.path")


def _validate_path(path: str, at: str) -> Errors:
    """Yield what is wrong with where a service is called."""
    if not path.startswith("/"):
        yield field.invalid(at, path, "must start with a '/'")
    if path == "/":
        return
    segments = path[1:].removesuffix("/").split("/") if path.startswith("/") else path[1:].split("/")
    for i, segment in enumerate(segments):
        if not segment:
            yield field.invalid(at, path, f"segment[{i}] may not be empty")
            continue
        for message in check_dns1123_subdomain(segment):
            yield field.invalid(at, path, f"segment[{i}]: {message}")


def validate_client_url(url: str, at: str) -> Errors:
    """Yield what is wrong with the URL that a webhook is called at."""
    try:
        parts: Any = urlsplit(url)
        port = parts.netloc.rpartition("@")[2].rpartition("]")[2].partition(":")[2]
        if port and not (port.isascii() and port.isdigit()):
            raise ValueError(f"parse {quote(url)}: invalid port {quote(':' + port)} after host")
    except ValueError as error:
        yield field.required(at, f"url must be a valid URL: {error}{_URL}")
        return
    if parts.scheme != "https":
        yield field.invalid(at, parts.scheme, "'https' is the only allowed URL scheme" + _URL)
    if not parts.netloc:
        yield field.invalid(at, "", "host must be specified" + _URL)
    if parts.username is not None:
        shown = parts.netloc.rpartition("@")[0]
        yield field.invalid(at, shown, "user information is not permitted in the URL")
    if parts.fragment:
        yield field.invalid(at, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield field.invalid(at, parts.query, "query parameters are not permitted in the URL")
