"""Audit policy, audit.k8s.io/v1 events, and the rotated log they are written to."""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from weir import errors
from weir.apiserver.auth.authn import User
from weir.apiserver.transport import protobuf
from weir.apiserver.transport.paths import RequestInfo
from weir.objects.manifest import ManifestError, read_document
from weir.objects.times import format_micro_time

# ── audit policy and audit.k8s.io/v1 events: one JSON line per stage of a request ──
# Spec: decision 12 (audit log option).
# The first matching rule sets the level: None, Metadata, Request (with the request object), RequestResponse (and the
# response object); no match writes nothing. Stages: RequestReceived after authentication, ResponseStarted for a watch
# (and for failed authentication), ResponseComplete; `omitStages` drops stages, globally or per rule. Without a policy
# everything is written at Metadata when its response starts or ends.


AUDIT = "audit.k8s.io"


class PolicyError(ValueError):
    """An audit policy that cannot be used."""


class Level(IntEnum):
    """How much of a request is written; each level includes the ones before."""

    NONE = 0
    METADATA = 1
    REQUEST = 2
    REQUEST_RESPONSE = 3


_LEVELS = {
    "None": Level.NONE,
    "Metadata": Level.METADATA,
    "Request": Level.REQUEST,
    "RequestResponse": Level.REQUEST_RESPONSE,
}
_NAMES = {level: name for name, level in _LEVELS.items()}


RECEIVED, STARTED, COMPLETE = "RequestReceived", "ResponseStarted", "ResponseComplete"
STAGES = (RECEIVED, STARTED, COMPLETE, "Panic")


class AuditedRequest(Protocol):
    """What auditing reads of a request."""

    @property
    def path(self) -> str: ...
    @property
    def query(self) -> str: ...
    @property
    def headers(self) -> Mapping[bytes, bytes]: ...
    @property
    def body(self) -> bytes: ...
    @property
    def peer(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; an empty part matches everything."""

    level: Level
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    verbs: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    resources: tuple[Mapping[str, Any], ...] = ()
    urls: tuple[str, ...] = ()
    omitted: frozenset[str] = frozenset()  #: stages, of the rule or of the whole policy

    def matches(self, user: User, info: RequestInfo) -> bool:
        if self.users and user.name not in self.users:
            return False
        if self.groups and self.groups.isdisjoint(user.groups):
            return False
        if self.verbs and info.verb not in self.verbs and "*" not in self.verbs:
            return False
        if self.namespaces or self.resources:
            if not info.is_resource or (self.namespaces and info.namespace not in self.namespaces):
                return False
            return not self.resources or any(_names(resource, info) for resource in self.resources)
        if self.urls:
            return not info.is_resource and any(_url_matches(url, info.path) for url in self.urls)
        return True


def _names(entry: Mapping[str, Any], info: RequestInfo) -> bool:
    """Return whether a rule's group entry names the request's resource."""
    if entry.get("group", "") != info.api_group:
        return False
    if entry.get("resourceNames") and info.name not in entry["resourceNames"]:
        return False
    resources = entry.get("resources")
    if not resources:
        return True
    full = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    accepted = {full, "*", f"{info.resource}/*"} if info.subresource else {full, "*"}
    if info.subresource:
        accepted.add(f"*/{info.subresource}")
    return not accepted.isdisjoint(resources)


def _url_matches(pattern: str, path: str) -> bool:
    return pattern in ("*", path) or (pattern.endswith("*") and path.startswith(pattern[:-1]))


def parse_policy(text: str) -> tuple[Rule, ...]:
    """Return the rules of an audit policy file.

    >>> parse_policy("rules: [{level: Metadata, verbs: [delete]}]")[0].level.name
    'METADATA'
    """
    try:
        policy = read_document(text, "audit policy")
        entries = policy["rules"]
        everywhere = _stages(policy, "")
        return tuple(
            Rule(
                _LEVELS[entry["level"]],
                frozenset(entry.get("users") or ()),
                frozenset(entry.get("userGroups") or ()),
                frozenset(entry.get("verbs") or ()),
                frozenset(entry.get("namespaces") or ()),
                tuple(entry.get("resources") or ()),
                tuple(entry.get("nonResourceURLs") or ()),
                everywhere | _stages(entry, f"rules[{number}]."),
            )
            for number, entry in enumerate(entries)
        )
    except PolicyError:
        raise
    except (ManifestError, KeyError, TypeError, AttributeError) as error:
        levels = ", ".join(_LEVELS)
        raise PolicyError(
            f"audit policy: needs a list `rules`, each with a level of {levels} ({error!r})"
        ) from error


def _stages(entry: Mapping[str, Any], place: str) -> frozenset[str]:
    """Return the stages that a policy or a rule leaves out."""
    for number, stage in enumerate(entry.get("omitStages") or ()):
        if stage not in STAGES:
            allowed = ",".join(STAGES)
            where = f"audit policy: {place}omitStages[{number}]"
            raise PolicyError(f'{where}: Invalid value: "{stage}": allowed stages are {allowed}')
    return frozenset(entry.get("omitStages") or ())


EVERYTHING = (Rule(Level.METADATA, omitted=frozenset({RECEIVED})),)
_NOTHING = Rule(Level.NONE)


class Audit:
    """Writes events. `write` takes one whole line."""

    def __init__(
        self,
        write: Callable[[bytes], object],
        rules: Iterable[Rule] = EVERYTHING,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        timer: Callable[[], float] = time.perf_counter,
        count: Callable[[], object] = lambda: None,
    ) -> None:
        """*timer* is the clock that `log`'s *started* was read from."""
        self._write = write
        self._rules = tuple(rules)
        self._now, self._timer = now, timer
        self._count = count

    def level(self, user: User, info: RequestInfo) -> Level:
        """Return how much of this request is to be written."""
        return self._rule(user, info).level

    def _rule(self, user: User, info: RequestInfo) -> Rule:
        return next((rule for rule in self._rules if rule.matches(user, info)), _NOTHING)

    @property
    def wants_received(self) -> bool:
        """Whether any request is written when it comes in."""
        return any(rule.level and RECEIVED not in rule.omitted for rule in self._rules)

    def log(
        self,
        request: AuditedRequest,
        user: User | None,
        info: RequestInfo,
        code: int,
        started: float,
        response: bytes = b"",
    ) -> None:
        """Write the event of one request that has just been answered; an unknown user is ""."""
        finished = self._now()
        agent = request.headers.get(b"user-agent", b"").decode("latin-1")
        self.record(
            user or User(""),
            info,
            code,
            uri=f"{request.path}?{request.query}" if request.query else request.path,
            received=finished - timedelta(seconds=max(0.0, self._timer() - started)),
            finished=finished,
            source=request.peer.rpartition(":")[0].strip("[]") or request.peer,
            user_agent=agent,
            request_object=request.body,
            response_object=response,
            stage=STARTED if info.verb == "watch" else COMPLETE,
        )

    def record(
        self,
        user: User,
        info: RequestInfo,
        code: int,
        *,
        uri: str,
        received: datetime,
        finished: datetime,
        source: str = "",
        user_agent: str = "",
        request_object: bytes = b"",
        response_object: bytes = b"",
        impersonated: User | None = None,
        audit_id: str = "",
        annotations: Mapping[str, str] | None = None,
        stage: str = COMPLETE,
    ) -> None:
        """Write the event of one stage of a request, as much of it as the policy wants."""
        rule = self._rule(user, info)
        level = rule.level
        if level is Level.NONE or stage in rule.omitted:
            return
        event: dict[str, Any] = {
            "kind": "Event",
            "apiVersion": f"{AUDIT}/v1",
            "level": _NAMES[level],
            "auditID": audit_id or str(uuid.uuid4()),
            "stage": stage,
            "requestURI": uri,
            "verb": info.verb,
            "user": user.info(),
        }
        if impersonated is not None:
            event["impersonatedUser"] = impersonated.info()
        if source:
            event["sourceIPs"] = [source]
        if user_agent:
            event["userAgent"] = user_agent[:1024]
        if info.is_resource:
            event["objectRef"] = _object_ref(info)
        if stage != RECEIVED:
            event["responseStatus"] = {"metadata": {}, "code": code}
        if level >= Level.REQUEST and info.is_resource and request_object:
            event["requestObject"] = _body(request_object)
        if level >= Level.REQUEST_RESPONSE and info.is_resource and response_object:
            event["responseObject"] = _body(response_object)
        event["requestReceivedTimestamp"] = format_micro_time(received)
        event["stageTimestamp"] = format_micro_time(finished)
        if annotations:
            event["annotations"] = dict(annotations)
        self._write(msgspec.json.encode(event) + b"\n")
        self._count()


def _object_ref(info: RequestInfo) -> dict[str, str]:
    parts = {
        "resource": info.resource,
        "namespace": info.namespace,
        "name": info.name,
        "apiGroup": info.api_group,
        "apiVersion": info.api_version,
        "subresource": info.subresource,
    }
    return {name: value for name, value in parts.items() if value}


def _body(body: bytes) -> Any:
    """Return a body as JSON, of protobuf what it stands for; one that is neither (YAML, cut off) as text."""
    try:
        if body.startswith(protobuf.MAGIC):
            return protobuf.to_document(body)
        return msgspec.Raw(body) if msgspec.json.decode(body) is not None else None
    except (msgspec.DecodeError, errors.BadRequest):
        return body.decode("utf-8", "replace")


# ── audit log file with rotation ──
# A file that would exceed its size is renamed as by Kubernetes' server: `audit.log` becomes
# `audit-2026-01-02T03-04-05.678.log`. The number and age of renamed files are bounded. Mode 0600.


MEGABYTE: Final = 1024 * 1024
DEFAULT_MEGABYTES: Final = 100
_STAMP: Final = "%Y-%m-%dT%H-%M-%S"


@dataclass(frozen=True)
class LogRetention:
    """How much of an audit log is kept; zero means no bound, except for the size, which is then 100 MB."""

    megabytes: int = 0
    backups: int = 0
    days: int = 0

    @property
    def bytes(self) -> int:
        return (self.megabytes or DEFAULT_MEGABYTES) * MEGABYTE


def backup_name(path: Path, when: datetime) -> Path:
    """Return what a file is called after it was set aside.

    >>> backup_name(Path("/var/log/audit.log"), datetime(2026, 1, 2, 3, 4, 5, 678000)).name
    'audit-2026-01-02T03-04-05.678.log'
    """
    return path.with_name(f"{path.stem}-{when.strftime(_STAMP)}.{when.microsecond // 1000:03d}{path.suffix}")


class AuditLog:
    """A file that is appended to and begins anew when it is full. Call it with a line."""

    def __init__(self, path: Path, keep: LogRetention, now: Callable[[], datetime]) -> None:
        self._path, self._keep, self._now = path, keep, now
        path.parent.mkdir(parents=True, exist_ok=True)
        self._open()
        self._tidy()

    def __call__(self, line: bytes) -> None:
        if self._size and self._size + len(line) > self._keep.bytes:
            self._rotate()
        os.write(self._descriptor, line)
        self._size += len(line)

    def close(self) -> None:
        """Let the file go."""
        os.close(self._descriptor)

    def _open(self) -> None:
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._size = os.fstat(self._descriptor).st_size

    def _rotate(self) -> None:
        self.close()
        when = self._now().astimezone(UTC)
        while (aside := backup_name(self._path, when)).exists():
            when += timedelta(milliseconds=1)
        self._path.rename(aside)
        self._open()
        self._tidy()

    def _tidy(self) -> None:
        """Remove what is too old or too much."""
        found = sorted(self._backups(), reverse=True)
        oldest = self._now().astimezone(UTC) - timedelta(days=self._keep.days)
        for number, (when, path) in enumerate(found):
            surplus = bool(self._keep.backups) and number >= self._keep.backups
            if surplus or (self._keep.days and when < oldest):
                path.unlink(missing_ok=True)

    def _backups(self) -> list[tuple[datetime, Path]]:
        stem, suffix = re.escape(self._path.stem), re.escape(self._path.suffix)
        pattern = re.compile(rf"{stem}-(\d{{4}}-\d\d-\d\dT\d\d-\d\d-\d\d)\.(\d{{3}}){suffix}")
        found = []
        for path in self._path.parent.iterdir():
            if match := pattern.fullmatch(path.name):
                when = datetime.strptime(match[1], _STAMP).replace(tzinfo=UTC)
                found.append((when + timedelta(milliseconds=int(match[2])), path))
        return found
