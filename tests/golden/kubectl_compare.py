"""Comparison of a kubectl's requests and output with the recorded ones.

Requests are compared in order (method, path with query, status), accepted types as a set, stdout, the end of stderr
and the exit code exactly, after masking what changes from run to run: times, ages, uids, versions of objects, hashes
of OpenAPI documents. Deliberate differences are the table `DECISIONS` below.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import yaml

from weir.objects import kinds

Document = dict[str, Any]


@dataclass
class Request:
    """One request of a kubectl."""

    method: str
    path: str
    status: int

    def __str__(self) -> str:
        return f"{self.method} {self.path} → {self.status}"


@dataclass(frozen=True)
class Command:
    """One kubectl: what it was told, what it asked for, what it said."""

    arguments: list[str]
    stdin: str
    requests: list[Request]
    accepted: list[str]
    exit_code: int
    stdout: str
    stderr_tail: list[str]

    @classmethod
    def of(cls, recorded: Document) -> Command:
        return cls(
            list(recorded["args"]),
            recorded.get("stdin", ""),
            [Request(each["method"], each["path"], each["status"]) for each in recorded["requests"]],
            sorted(recorded.get("accept", [])),
            recorded.get("exit", 0),
            recorded.get("stdout", ""),
            list(recorded.get("stderr_tail", [])),
        )

    @property
    def reads_only(self) -> bool:
        return all(request.method == "GET" for request in self.requests)

    @property
    def at_once(self) -> bool:
        """Whether kubectl does several things at the same time, in whatever order they end."""
        return any(request.path.endswith("/eviction") for request in self.requests)

    def manifests(self) -> dict[tuple[str, str, str, str], Document]:
        """Return the objects the command was given, by what names them."""
        found = {}
        for document in yaml.safe_load_all(self.stdin) if self.stdin else ():
            if isinstance(document, dict) and "metadata" in document:
                kind = kinds.find_kind(document.get("apiVersion", ""), document.get("kind", ""))
                if kind is not None:
                    name = document["metadata"].get("name", "")
                    namespace = document["metadata"].get("namespace", "default") if kind.namespaced else ""
                    found[(kind.api_version, kind.plural, namespace, name)] = document
        return found


@dataclass(frozen=True)
class Decision:
    """One deliberate difference: which commands it covers and what it does to both sides before they are compared."""

    number: str
    why: str
    covers: Callable[[Command], bool]
    #: recorded and own text → the two as they are compared
    stdout: Callable[[str, str], tuple[str, str]]


def _served_only(recorded: str, own: str) -> tuple[str, str]:
    """Take what weir does not serve out of a recorded list, and weir's own dialect out of its own."""
    groups = {kind.group for kind in kinds.KINDS}
    plurals = {(kind.group, kind.plural) for kind in kinds.KINDS}
    versions = {kind.api_version for kind in kinds.KINDS if kind.kind != "Scale"}

    def served(line: str) -> bool:
        words = line.split()
        if len(words) == 1:
            return words[0] in versions
        version = next((word for word in words[1:] if re.fullmatch(r"(.+/)?v\d\w*", word)), "")
        group = version.rpartition("/")[0]
        return words[0] == "NAME" or (group in groups and (group, words[0]) in plurals)

    def squeezed(text: str, keep: Callable[[str], bool]) -> str:
        return "\n".join(" ".join(line.split()) for line in text.splitlines() if keep(line))

    return squeezed(recorded, served), squeezed(own, lambda line: "resource.k8s.io/v1alpha4" not in line)


def _operators(recorded: str, own: str) -> tuple[str, str]:
    """Leave out what a field means, and weir's own values where a field has values."""
    values = re.compile(r"^    (\w+)\n", re.MULTILINE)
    known = set(values.findall(recorded))
    enumerated = re.compile(r"(?<=ENUM:\n)(?:    \w+\n)+")
    shown = enumerated.sub(
        lambda found: "".join(f"    {v}\n" for v in values.findall(found[0]) if v in known), own
    )
    return tuple(text.partition("DESCRIPTION:")[0] for text in (recorded, shown))  # type: ignore[return-value]


def _as_set(recorded: str, own: str) -> tuple[str, str]:
    left, right = ("\n".join(sorted(masked(text).splitlines())) for text in (recorded, own))
    return left, right


def _without_rounds(recorded: str, own: str) -> tuple[str, str]:
    """Take what a controller tells on its rounds out of the events that end a description."""

    def quiet(text: str) -> str:
        head, events, listed = text.partition("\nEvents:")
        kept = [line for line in listed.splitlines() if "  RegisteredNode  " not in line]
        told = [line for line in kept[1:] if not re.match(r"\s+(Type\s+Reason|----)", line)]
        return head + events + ("\n".join(kept) if told else "  <none>")

    return quiet(recorded), quiet(own)


DECISIONS: tuple[Decision, ...] = (
    Decision(
        "G-02",
        "weir serves only the kinds it acts on: what it lists is listed the same way, and less is listed",
        lambda command: command.arguments[0] in ("api-resources", "api-versions"),
        _served_only,
    ),
    Decision(
        "G-08",
        "fields weir adds values to are described in its own words, and possible values without a text each",
        lambda command: command.arguments[0] == "explain" and "ENUM:" in command.stdout,
        _operators,
    ),
    Decision(
        "G-09",
        "events are sorted by times that depend on when a controller makes its rounds",
        lambda command: command.arguments[0] == "events",
        _as_set,
    ),
    Decision(
        "G-09",
        "a node is registered when the controller makes its rounds, before or after it is described",
        lambda command: command.arguments[:2] in (["describe", "node"], ["describe", "nodes"]),
        _without_rounds,
    ),
)

MASKS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UID"),
    (re.compile(r"\b2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r"\b\w{3}, \d\d \w{3} 2\d{3} \d\d:\d\d:\d\d [+-]\d{4}"), "TIME"),
    (re.compile(r'resourceVersion: "\d+"'), 'resourceVersion: "N"'),
    (re.compile(r"(?<=[-.])[bcdfghjklmnpqrstvwxz2456789]{5}\b"), "XXXXX"),
    (re.compile(r"\bv1\.\d+\.\d+\S*"), "VERSION"),
    (re.compile(r"(?<![\w=.])(\d+[smhdy])+(?![\w=.])"), "AGE"),
    (re.compile(r"(?<=\S) {2,}"), "  "),
)
PATH_MASKS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?<=hash=)[0-9A-F]+"), "HASH"),
    (re.compile(r"(?<=timeoutSeconds=)\d+"), "N"),
    (re.compile(r"(?<=resourceVersion=)[1-9]\d*"), "N"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UID"),
)


def masked(text: str, masks: Iterable[tuple[re.Pattern[str], str]] = MASKS) -> str:
    """Return *text* without what changes from run to run.

    >>> masked("p1     0/1     Pending   0          1s")
    'p1  0/1  Pending  0  AGE'
    >>> masked("/pods?timeoutSeconds=445&watch=true", PATH_MASKS)
    '/pods?timeoutSeconds=N&watch=true'
    """
    for pattern, instead in masks:
        text = pattern.sub(instead, text)
    return text


def plain_request(request: Request) -> str:
    """Return a request as it is compared: readable, terms of a field selector in order (kubectl keeps them in a map).

    >>> plain_request(Request("GET", "/api/v1/events?fieldSelector=b%3D2%2Ca%3D1&limit=500", 200))
    'GET /api/v1/events?fieldSelector=a=1,b=2&limit=500 → 200'
    """
    text = masked(unquote(str(request)), PATH_MASKS)
    return re.sub(r"(?<=fieldSelector=)[^& ]+", lambda found: ",".join(sorted(found[0].split(","))), text)


def differences(recorded: Command, own: Command) -> list[str]:
    """Return every place where *own* is not what was recorded."""
    wrong = []
    theirs, ours = ([plain_request(request) for request in command.requests] for command in (recorded, own))
    if recorded.at_once:
        theirs, ours = sorted(theirs), sorted(ours)
    wrong += compared("request", theirs, ours)
    wrong += compared("accepts", recorded.accepted, own.accepted)
    if recorded.exit_code != own.exit_code:
        wrong.append(f"exit code: recorded {recorded.exit_code}, got {own.exit_code}")
    texts = recorded.stdout, own.stdout
    for decision in DECISIONS:
        if decision.covers(recorded):
            texts = decision.stdout(*texts)
    if recorded.at_once:
        texts = _as_set(*texts)
    wrong += compared("stdout", *(masked(text).splitlines() for text in texts))
    tail = own.stderr_tail[-len(recorded.stderr_tail) :] if recorded.stderr_tail else own.stderr_tail
    wrong += compared("stderr", [masked(t) for t in recorded.stderr_tail], [masked(t) for t in tail])
    return wrong


def compared(what: str, theirs: list[str], ours: list[str]) -> list[str]:
    """Return the lines in which two texts differ.

    >>> compared("stdout", ["a", "b"], ["a", "c", "d"])
    ["stdout 1: recorded 'b', got 'c'", "stdout 2: unexpected 'd'"]
    """
    wrong = []
    for number in range(max(len(theirs), len(ours))):
        if number >= len(ours):
            wrong.append(f"{what} {number}: missing, recorded {theirs[number]!r}")
        elif number >= len(theirs):
            wrong.append(f"{what} {number}: unexpected {ours[number]!r}")
        elif theirs[number] != ours[number]:
            wrong.append(f"{what} {number}: recorded {theirs[number]!r}, got {ours[number]!r}")
    return wrong
