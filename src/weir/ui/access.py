"""Access control of the page: token, cookie, host and origin checks.

The address holds a one-time token that is exchanged for an HttpOnly, SameSite cookie. A request must name a loopback
host (against DNS rebinding) and must not come from another site; a write must come from this origin, with a header
and content type that no form can send. Pure: headers in, a verdict out.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

#: Sent with everything: no script, style, picture or connection but the page's own, and no framing.
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
#: No form can send it, and a script of another site only after this server said it may, which it never does.
MARK: Final = "x-weir-ui"
_SAME: Final = ("same-origin", "none")


@dataclass(frozen=True)
class Refusal:
    """Why a request is not answered."""

    code: int
    reason: str


class AccessControl:
    """The token, the session it was traded for, and the rules."""

    def __init__(self, port: int) -> None:
        self._token, self._session = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self._unused, self._lock = True, threading.Lock()
        self._hosts = frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost"))
        #: Servers on other ports of this machine share cookies: each has a name of its own.
        self._cookie = f"weir-ui-{port}"
        self.url = f"http://127.0.0.1:{port}/?token={self._token}"

    def set_cookie(self) -> str:
        """Return the value of Set-Cookie after a valid token."""
        return f"{self._cookie}={self._session}; Path=/; HttpOnly; SameSite=Strict"

    def trade(self, token: str) -> bool:
        """Return whether *token* lets a visit in: it does once."""
        with self._lock:
            good = self._unused and hmac.compare_digest(token.encode(), self._token.encode())
            if good:
                self._unused = False
            return good

    def knows(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request carries the cookie of the visit."""
        for part in headers.get("cookie", "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == self._cookie and hmac.compare_digest(value.encode(), self._session.encode()):
                return True
        return False

    def refuse(self, method: str, headers: Mapping[str, str], *, open_to_all: bool = False) -> Refusal | None:
        """Return why a request is refused, or None; *open_to_all*: it needs no cookie, as the visit with the token."""
        host = headers.get("host", "").lower()
        if host not in self._hosts:
            return Refusal(421, "this server answers only to its loopback address")
        if headers.get("sec-fetch-site", "none") not in _SAME and not open_to_all:
            return Refusal(403, "requests from other sites are refused")
        origin = headers.get("origin")
        if origin is not None and origin.lower() != f"http://{host}":
            return Refusal(403, "requests from other origins are refused")
        if method not in ("GET", "HEAD"):
            if method != "POST":
                return Refusal(405, "only GET and POST are answered")
            if origin is None or headers.get(MARK) != "1":
                return Refusal(403, "a write must come from the page itself")
            if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                return Refusal(415, "a write is application/json")
        if not open_to_all and not self.knows(headers):
            return Refusal(401, "open the address that weir ui printed: it holds a token that is good once")
        return None
