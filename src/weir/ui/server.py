"""HTTP server of the page on loopback: static files and the API.

Access control is in weir.ui.server; only files of the package are served.
"""

from __future__ import annotations

import gzip
import hmac
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import msgspec

from weir.ui.screens import API, Screens

# ── access control of the page: token, cookie, host and origin checks ──
# The address holds a one-time token that is exchanged for an HttpOnly, SameSite cookie. A request must name a loopback
# host (against DNS rebinding) and must not come from another site; a write must come from this origin, with a header
# and content type that no form can send. Pure: headers in, a verdict out.


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


_TYPES: Final = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
_MOST_BODY: Final = 1 << 20
#: Smaller answers are not worth packing.
_PACKED: Final = 4096
_JSON: Final = "application/json"
#: The first answer goes on by itself: a redirect of a visit from elsewhere (a link, a file) would not carry the cookie.
_WELCOME: Final = (
    b'<!doctype html><meta http-equiv="refresh" content="0;url=/">'
    b'<link rel="icon" href="data:,"><title>weir</title>\n'
)


def page_files() -> dict[str, bytes]:
    """Return the files of the page, by name."""
    folder = resources.files("weir.ui").joinpath("page")
    return {
        each.name: each.read_bytes() for each in folder.iterdir() if each.name.rpartition(".")[2] in _TYPES
    }


class Server(ThreadingHTTPServer):
    """Answers on loopback until it is stopped."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, screens: Screens, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.screens, self.files = screens, page_files()
        self.door = AccessControl(self.server_port)

    def start(self) -> None:
        """Answer in a thread of its own."""
        threading.Thread(target=self.serve_forever, name="weir-ui", daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle of an answer is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "weir", ""
    timeout = 60.0
    server: Server

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged: the first has the token in it."""

    def do_GET(self) -> None:
        place = urlsplit(self.path)
        query = dict(parse_qsl(place.query, keep_blank_values=True))
        headers = self._headers()
        visit = place.path == "/" and "token" in query
        refusal = self.server.door.refuse("GET", headers, open_to_all=visit)
        if refusal is not None:
            self._refused(refusal, place.path)
        elif visit:
            self._visit(query["token"], headers)
        elif place.path.startswith(API):
            self._respond(*self.server.screens.get(place.path.removeprefix(API), query))
        else:
            name = place.path.removeprefix("/") or "index.html"
            content = self.server.files.get(name)
            if content is None:
                self._respond(404, {"error": "there is nothing at this path"})
            else:
                self._send(200, f"{_TYPES[name.rpartition('.')[2]]}; charset=utf-8", content)

    do_HEAD = do_GET  # noqa: N815

    def do_POST(self) -> None:
        length = self.headers.get("content-length", "")
        if not length.isdecimal() or int(length) > _MOST_BODY:
            self.close_connection = True
            self._respond(413, {"error": f"a body of at most {_MOST_BODY} bytes is expected"})
            return
        content = self.rfile.read(int(length))
        refusal = self.server.door.refuse("POST", self._headers())
        path = urlsplit(self.path).path
        if refusal is not None:
            self._refused(refusal, path)
            return
        try:
            body = msgspec.json.decode(content)
        except (msgspec.DecodeError, RecursionError):
            self._respond(400, {"error": "expected JSON"})
            return
        self._respond(*self.server.screens.post(path.removeprefix(API), body))

    def _other(self) -> None:
        self.close_connection = True
        refusal = self.server.door.refuse(self.command, self._headers())
        self._refused(refusal or Refusal(405, "only GET and POST are answered"), "")

    do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _other  # noqa: N815

    def _headers(self) -> Mapping[str, str]:
        return {name.lower(): value for name, value in self.headers.items()}

    def _visit(self, token: str, headers: Mapping[str, str]) -> None:
        """Trade the token for a cookie, and take it out of the address."""
        door = self.server.door
        if not door.trade(token) and not door.knows(headers):
            self._refused(Refusal(403, "this token is wrong, or was used before: start weir ui again"), "/")
            return
        self._send(200, "text/html; charset=utf-8", _WELCOME, {"Set-Cookie": door.set_cookie()})

    def _refused(self, refusal: Refusal, path: str) -> None:
        if path.startswith(API):
            self._respond(refusal.code, {"error": refusal.reason})
        else:
            self._send(refusal.code, "text/plain; charset=utf-8", f"weir ui: {refusal.reason}\n".encode())

    def _respond(self, code: int, document: Mapping[str, Any]) -> None:
        self._send(code, _JSON, msgspec.json.encode(document))

    def _send(
        self, code: int, content_type: str, content: bytes, more: Mapping[str, str] | None = None
    ) -> None:
        packed = len(content) > _PACKED and "gzip" in self.headers.get("accept-encoding", "")
        if packed:
            content = gzip.compress(content, 1)
        self.send_response(code)
        own = {"Content-Type": content_type, "Content-Length": str(len(content))}
        if packed:
            own["Content-Encoding"] = "gzip"
        for name, value in {**own, **HEADERS, **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
