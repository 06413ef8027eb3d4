"""Absolute URLs, parsed with Go's rules and messages.

Python's urllib.parse rejects nothing. A text is parsed twice, as Kubernetes does: as a request URI, which must be
absolute and has no fragment, then as a URL. `//host/path` is an absolute path to the first and has a host for the
second; a scheme without slashes makes the rest opaque (`mailto:aSpec: cel.md 10.8.b.c` has no host); the port is not
range checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from weir.values.netip import AddressError, parse_address
from weir.values.quoting import quote

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_PORT: Final = re.compile(r"(?::[0-9]*)?\Z", re.ASCII)
_USERINFO: Final = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*\Z", re.ASCII)

_UNRESERVED: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~")
#: Bytes that stay as they are, by the part of the URL they stand in.
_PATH: Final = _UNRESERVED | frozenset(b"$&+,/:;=@")
_USER: Final = _UNRESERVED | frozenset(b"$&+,;=")
_HOST: Final = _UNRESERVED | frozenset(b"!$&'()*+,;=:[]<>\"")
_FRAGMENT: Final = _UNRESERVED | frozenset(b"$&+,/:;=?@!()*")
#: Bytes that may stand in a text that is escaped already.
_ESCAPED: Final = frozenset(b"!'()*[]%")
_HEX: Final = frozenset(b"0123456789ABCDEFabcdef")
#: A query with more pairs is not read at all.
_MOST_PAIRS: Final = 10_000


class UrlError(ValueError):
    """The text is not an absolute URL or path; the message is Go's."""


@dataclass(frozen=True, slots=True)
class Url:
    """The parts of a URL; `path` is unescaped, `raw_path` is set when escaping it again gives another text.

    `fragment` is held as it is printed.
    """

    scheme: str = ""
    opaque: str = ""
    user: str | None = None  # escaped, with its password
    host: str = ""
    path: str = ""
    raw_path: str = ""
    force_query: bool = False
    raw_query: str = ""
    omit_host: bool = False
    fragment: str = ""

    @property
    def hostname(self) -> str:
        """The host without port and brackets."""
        return _split_port(self.host)[0]

    @property
    def port(self) -> str:
        """The port as written, "" when absent."""
        return _split_port(self.host)[1]

    @property
    def escaped_path(self) -> str:
        """The path with escapes; as written when that is a valid escaping."""
        if self.raw_path and (_PATH | _ESCAPED).issuperset(self.raw_path.encode()):
            return self.raw_path
        return "*" if self.path == "*" else _escape(self.path, _PATH)

    def query(self) -> dict[str, list[str]]:
        """Return the query's values by key; pairs that cannot be read are left out.

        >>> parse_url("http://x/?a=1&a=b+c&%zz=1").query()
        {'a': ['1', 'b c']}
        """
        found: dict[str, list[str]] = {}
        if self.raw_query.count("&") >= _MOST_PAIRS:
            return found
        for pair in self.raw_query.split("&"):
            if not pair or ";" in pair:
                continue
            key, _, value = pair.partition("=")
            try:
                key, value = _unescape(key, plus=True), _unescape(value, plus=True)
            except UrlError:
                continue
            found.setdefault(key, []).append(value)
        return found

    def __str__(self) -> str:
        text = f"{self.scheme}:" if self.scheme else ""
        if self.opaque:
            text += self.opaque
        else:
            path = self.escaped_path
            hostless = self.omit_host and not self.host and self.user is None
            if (self.scheme or self.host or self.user is not None) and not hostless:
                text += "//" if self.host or path or self.user is not None else ""
                text += f"{self.user}@" if self.user is not None else ""
                text += _escape(self.host, _HOST)
            text += path
        text += f"?{self.raw_query}" if self.force_query or self.raw_query else ""
        return text + (f"#{self.fragment}" if self.fragment else "")


def check_request_uri(text: str) -> None:
    """Raise UrlError unless *text* is an absolute URL or an absolute path.

    >>> check_request_uri("../x")
    Traceback (most recent call last):
    weir.values.url.UrlError: parse "../x": invalid URI for request
    """
    _named(text, lambda: _parse(text, request=True))


def parse_url(text: str) -> Url:
    """Return the parts of an absolute URL or absolute path.

    >>> parse_url("https://[::1]:80/a b").hostname, parse_url("mailto:a@b.c").host, parse_url("/a?b#c").raw_query
    ('::1', '', 'b')
    """
    check_request_uri(text)
    address, _, fragment = text.partition("#")
    url = _named(address, lambda: _parse(address, request=False))
    return replace(url, fragment=_named(text, lambda: _printed_fragment(fragment))) if fragment else url


_Read = TypeVar("_Read")


def _named(text: str, read: Callable[[], _Read]) -> _Read:
    """Return what *read* gives; its error names the text it was about."""
    try:
        return read()
    except UrlError as error:
        raise UrlError(f"parse {quote(text)}: {error}") from None


def _printed_fragment(written: str) -> str:
    plain = _unescape(written)
    return written if (_FRAGMENT | _ESCAPED).issuperset(written.encode()) else _escape(plain, _FRAGMENT)


def _parse(text: str, *, request: bool) -> Url:
    if _CONTROL.search(text):
        raise UrlError("net/url: invalid control character in URL")
    if not text:
        raise UrlError("empty url")
    if text == "*":
        return Url(path="*")
    if text[0] == ":":
        raise UrlError("missing protocol scheme")
    match = _SCHEME.match(text)
    scheme = match[1].lower() if match else ""
    rest = text[match.end() :] if match else text
    force_query = rest.endswith("?") and rest.count("?") == 1
    rest, _, raw_query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return Url(scheme, opaque=rest, force_query=force_query, raw_query=raw_query)
        raise UrlError("invalid URI for request")
    user, host, omit_host = None, "", False
    if rest.startswith("//") and (scheme or (not request and not rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        user, host = _authority(scheme, authority)
        rest = slash + path
    elif scheme:
        omit_host = True
    path = _unescape(rest)
    raw_path = "" if _escape(path, _PATH) == rest else rest
    return Url(scheme, "", user, host, path, raw_path, force_query, raw_query, omit_host)


def _authority(scheme: str, text: str) -> tuple[str | None, str]:
    userinfo, at, host = text.rpartition("@")
    parsed = _host(scheme, host)
    if not at:
        return None, parsed
    if not _USERINFO.match(userinfo):
        raise UrlError("net/url: invalid userinfo")
    name, colon, password = userinfo.partition(":")
    user = _escape(_unescape(name), _USER)
    return (f"{user}:{_escape(_unescape(password), _USER)}" if colon else user), parsed


def _host(scheme: str, text: str) -> str:
    bracket = text.rfind("[")
    if bracket > 0:
        raise UrlError("invalid IP-literal")
    if bracket == 0:
        return _ip_literal(text)
    # A list of hosts with ports is left to the schemes that have one.
    colon = text.find(":") if scheme in ("http", "https") else text.rfind(":")
    if colon >= 0 and not _PORT.match(text[colon:]):
        raise UrlError(f"invalid port {quote(text[colon:])} after host")
    return _unescape_host(text)


def _ip_literal(text: str) -> str:
    """Return `[address]:port`; only an IPv6 address may stand in brackets."""
    close = text.rfind("]")
    if close < 0:
        raise UrlError("missing ']' in host")
    name, port = text[1:close], text[close + 1 :]
    if not _PORT.match(port):
        raise UrlError(f"invalid port {quote(port)} after host")
    zone = name.find("%25")
    if zone >= 0:
        name = _unescape_host(name[:zone]) + _unescape_host(name[zone:], zone=True)
    else:
        name = _unescape_host(name)
    try:
        address = parse_address(name)
    except AddressError as error:
        raise UrlError(f"invalid host: {error}") from None
    if address.bits == 32:
        raise UrlError("invalid IP-literal")
    return f"[{name}]{port}"


def _split_port(host: str) -> tuple[str, str]:
    name, colon, port = host.rpartition(":")
    if not colon or not _PORT.match(":" + port):
        name, port = host, ""
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    return name, port


def _unescape_host(text: str, *, zone: bool = False) -> str:
    """Unescape a host: escapes are for non-ASCII bytes only, plain ASCII must be allowed in hosts."""
    octets = text.encode()
    index = 0
    while index < len(octets):
        octet = octets[index]
        if octet == 0x25:
            code = _escape_at(octets, index)
            escape = octets[index : index + 3].decode()
            allowed = code in b" %" or code in _HOST if zone else code >= 0x80 or escape == "%25"
            if not allowed:
                raise UrlError(f"invalid URL escape {quote(escape)}")
            index += 3
            continue
        if octet < 0x80 and octet not in _HOST:
            raise UrlError(f"invalid character {quote(chr(octet))} in host name")
        index += 1
    return _unescape(text)


def _escape_at(octets: bytes, index: int) -> int:
    escape = octets[index : index + 3]
    if len(escape) < 3 or not _HEX.issuperset(escape[1:]):
        raise UrlError(f"invalid URL escape {quote(escape.decode('utf-8', 'surrogateescape'))}")
    return int(escape[1:], 16)


def _unescape(text: str, *, plus: bool = False) -> str:
    if "%" not in text:
        return text.replace("+", " ") if plus else text
    octets, out, index = text.encode(), bytearray(), 0
    while index < len(octets):
        if octets[index] == 0x25:
            out.append(_escape_at(octets, index))
            index += 3
        else:
            out.append(0x20 if plus and octets[index] == 0x2B else octets[index])
            index += 1
    return out.decode("utf-8", "replace")


def _escape(text: str, kept: frozenset[int]) -> str:
    octets = text.encode()
    if kept.issuperset(octets):
        return text
    return "".join(chr(octet) if octet in kept else f"%{octet:02X}" for octet in octets)
