"""Site of the page on loopback: access control, static files and the API. Only files of the package are served."""

from __future__ import annotations

import asyncio
import gzip
import hmac
import secrets
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import resources
from typing import Any, Final, ParamSpec, TypeVar
from urllib.parse import parse_qsl, urlsplit

import msgspec

from weir.observe.http_server import TEXT, Answer, Head, Limits, Refused, serving
from weir.ui.screens import API, Screens

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

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
_LIMITS: Final = Limits(
    _MOST_BODY, 16 * _MOST_BODY, 64, 256, stranger_seconds=10, request_seconds=60, idle_seconds=60
)
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


class Server:
    """Answers on loopback, in a thread of its own, until it is stopped."""

    def __init__(self, screens: Screens, port: int = 0) -> None:
        """Listen at *port*, which is chosen when it is 0; raises OSError."""
        self._socket = socket.socket()
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind(("127.0.0.1", port))
            self._socket.listen()
        except OSError:
            self._socket.close()
            raise
        self.server_port = int(self._socket.getsockname()[1])
        self.door = AccessControl(self.server_port)
        self.screens = screens
        self._site = _Site(screens, self.door)
        self._loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="weir-ui", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """End every connection; what a screen still computes is left."""
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        async with serving(self._site, _LIMITS, "127.0.0.1", self._socket):
            await self._stopped.wait()


class _Site:
    """The files and the API of the page, for the browser that was let in."""

    def __init__(self, screens: Screens, door: AccessControl) -> None:
        self._screens, self._door, self._files = screens, door, page_files()

    def admit(self, head: Head) -> bool:
        """Return whether the request carries the cookie; raises Refused."""
        if int(head.headers.get("content-length", "0")) > _MOST_BODY:
            raise Refused(413, "body")
        visit = self._is_visit(head)
        refusal = self._door.refuse(head.method, head.headers, open_to_all=visit)
        if refusal is not None:
            raise Refused(refusal.code, "door", refusal.reason.encode())
        return not visit

    async def answer(self, head: Head, body: bytes) -> Answer:
        """Return the answer to an admitted request; screens compute in threads of their own."""
        place = urlsplit(head.target)
        query = dict(parse_qsl(place.query, keep_blank_values=True))
        if self._is_visit(head):
            return self._visit(query["token"], head)
        name = place.path.removeprefix(API)
        if head.method == "POST":
            try:
                document = msgspec.json.decode(body)
            except (msgspec.DecodeError, RecursionError):
                return _respond(head, 400, {"error": "expected JSON"})
            return _respond(head, *await _in_thread(self._screens.post, name, document))
        if place.path.startswith(API):
            return _respond(head, *await _in_thread(self._screens.get, name, query))
        name = place.path.removeprefix("/") or "index.html"
        if (content := self._files.get(name)) is None:
            return _respond(head, 404, {"error": "there is nothing at this path"})
        return _packed(head, 200, f"{_TYPES[name.rpartition('.')[2]]}; charset=utf-8", content)

    def refuse(self, refused: Refused, head: Head | None) -> Answer:
        """Return why a request is refused."""
        reason = refused.text.decode()
        if refused.code == 413:
            reason = f"a body of at most {_MOST_BODY} bytes is expected"
        if head is not None and head.path.startswith(API):
            return _respond(head, refused.code, {"error": reason})
        return Answer(refused.code, TEXT, f"weir ui: {reason}\n".encode(), HEADERS)

    def _is_visit(self, head: Head) -> bool:
        """Return whether the request is the first one of a browser, with the token."""
        query = dict(parse_qsl(head.target.partition("?")[2], keep_blank_values=True))
        return head.method in ("GET", "HEAD") and head.path == "/" and "token" in query

    def _visit(self, token: str, head: Head) -> Answer:
        """Trade the token for a cookie, and take it out of the address."""
        if not self._door.trade(token) and not self._door.knows(head.headers):
            raise Refused(403, "door", b"this token is wrong, or was used before: start weir ui again")
        return Answer(
            200, "text/html; charset=utf-8", _WELCOME, {**HEADERS, "Set-Cookie": self._door.set_cookie()}
        )


async def _in_thread(
    work: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs
) -> Result:
    """Return what *work* returns in a thread that ends with the process, whatever it computes."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()

    def run() -> None:
        settle: Callable[[], None]
        try:
            result = work(*arguments, **named)
            settle = partial(_settle, done, done.set_result, result)
        except Exception as error:
            settle = partial(_settle, done, done.set_exception, error)
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle)

    threading.Thread(target=run, name="weir-ui-screen", daemon=True).start()
    return await done


def _settle(done: asyncio.Future[Any], settle: Callable[[Any], None], outcome: Any) -> None:
    if not done.done():
        settle(outcome)


def _respond(head: Head, code: int, document: Mapping[str, Any]) -> Answer:
    return _packed(head, code, _JSON, msgspec.json.encode(document))


def _packed(head: Head, code: int, content_type: str, content: bytes) -> Answer:
    """Return a response, compressed where it is large and the browser takes that."""
    if len(content) <= _PACKED or "gzip" not in head.headers.get("accept-encoding", ""):
        return Answer(code, content_type, content, HEADERS)
    return Answer(code, content_type, gzip.compress(content, 1), {**HEADERS, "Content-Encoding": "gzip"})
