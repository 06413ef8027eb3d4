"""URLs: `url(s)` and its parts.

Spec: cel.md 10.8. Only absolute URLs and absolute paths are URLs; `isURL` costs 1 whatever the
length; `==` compares texts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from weir.cel import costs, types
from weir.cel.env import Library
from weir.cel.errors import EvaluationError
from weir.cel.library.declare import Row, functions, method, plain
from weir.cel.types import BOOL, STRING, Type, list_of, map_of
from weir.cel.work import spend
from weir.values.url import Url, UrlError, check_request_uri, parse_url

URL_TYPE: Final = types.opaque("kubernetes.URL")
#: Units of one character that is escaped or unescaped.
_PER_CHARACTER: Final = 5


class URL:
    """A URL as a CEL value; equal when the texts are equal."""

    __slots__ = ("url",)
    cel_type: ClassVar[Type] = URL_TYPE

    def __init__(self, url: Url) -> None:
        self.url: Final = url

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not URL:
            return False
        spend((_length(self.url) + _length(other.url)) * _PER_CHARACTER)
        return str(self.url) == str(other.url)

    def __hash__(self) -> int:
        return hash(str(self.url))

    def __str__(self) -> str:
        return str(self.url)

    def __repr__(self) -> str:
        return f"URL({str(self.url)!r})"


def _length(url: Url) -> int:
    return len(url.path) + len(url.host) + len(url.raw_query) + len(url.fragment) + len(url.opaque)


def parse(text: str) -> URL:
    """Return the URL *text* writes, as an evaluation error when it writes none."""
    spend(len(text) * 2 * _PER_CHARACTER)
    try:
        return URL(parse_url(text))
    except UrlError as error:
        raise EvaluationError(f"URL parse error during conversion from string: {error}") from None


def is_url(text: str) -> bool:
    """Return whether *text* writes an absolute URL or path."""
    spend(len(text) * _PER_CHARACTER)
    try:
        check_request_uri(text)
    except UrlError:
        return False
    return True


def _part(name: str, id: str, read: Callable[[Url], str]) -> Row:
    def part(of: URL) -> str:
        spend((len(of.url.path) + len(of.url.host)) * _PER_CHARACTER)
        return read(of.url)

    return method(name, id, (URL_TYPE,), STRING, part, costs.NAMED_FLAT)


def _query(of: URL) -> dict[str, list[str]]:
    spend(len(of.url.raw_query) * _PER_CHARACTER)
    return of.url.query()


LIBRARY: Final = Library(
    "url",
    functions(
        plain("url", "string_to_url", (STRING,), URL_TYPE, parse, costs.REWRITE, fails=True),
        plain("isURL", "is_url_string", (STRING,), BOOL, is_url),
        _part("getScheme", "url_get_scheme", lambda url: url.scheme),
        _part("getHost", "url_get_host", lambda url: url.host),
        _part("getHostname", "url_get_hostname", lambda url: url.hostname),
        _part("getPort", "url_get_port", lambda url: url.port),
        _part("getEscapedPath", "url_get_escaped_path", lambda url: url.escaped_path),
        method("getQuery", "url_get_query", (URL_TYPE,), map_of(STRING, list_of(STRING)), _query, costs.NAMED_FLAT),
    ),
)  # fmt: skip
