"""Request log, and warnings about repeated rejections.

Spec: KEP-5500 "Troubleshooting": a controller whose template the server rejects retries for ever, and the server's
log shows it. Level 2 logs each object that failed validation, level 3 every request (upstream's "HTTP" line), 7 its
headers, 8 to 10 more of its body. The third rejection of the same object for the same reason within a minute is a
warning, repeated each time the count doubles.
"""

from __future__ import annotations

from typing import Final

from weir.apiserver.transport.http import Request, Response, Stream
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
