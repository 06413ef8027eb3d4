"""The recorded cluster that a folder of fixtures describes.

A fixture is one exchange; the exchanges that prepared it may not be in the folder. `Evidence` gathers every object
any response (or a PUT body, which is an object somebody had read) shows, by version, so that the
state before an exchange can be put in place.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weir.apiserver.transport import paths
from weir.apiserver.transport.paths import RequestInfo
from weir.objects.kind import Kind
from weir.objects.kinds import find_kind

Document = dict[str, Any]

#: The recorded exchanges of a real Kubernetes; README.md beside them says how they were made.
RECORDED = Path(__file__).parent / "recorded"


@dataclass
class Exchange:
    """One recorded request with its response."""

    area: str
    name: str
    request: Document
    response: Document
    volatile: list[str]

    @property
    def path(self) -> str:
        return str(self.request["path"]).partition("?")[0]

    @property
    def query(self) -> str:
        return str(self.request["path"]).partition("?")[2]

    @property
    def info(self) -> RequestInfo:
        return paths.parse(self.request["method"], self.path, "watch=true" in self.query)

    @property
    def body(self) -> Any:
        return self.response.get("body")

    @property
    def version(self) -> int:
        """The store version the response shows, 0 when it shows none."""
        body = self.body
        if isinstance(body, dict) and body.get("kind") != "Status":
            text = (body.get("metadata") or {}).get("resourceVersion") or "0"
            return int(text) if text.isdigit() else 0
        return 0


def read_area(file: Path) -> list[Exchange]:
    """Return the exchanges of one area file, empty when the file is something else."""
    found = json.loads(file.read_text())
    if not isinstance(found, list):
        return []
    return [
        Exchange(file.stem, each["name"], each["request"], each["response"], each.get("volatile", []))
        for each in found
        if "request" in each
    ]


def merged(exchanges: list[Exchange], others: list[Exchange]) -> list[Exchange]:
    """Return two parts of one recording as one, in the order the store's versions in the answers tell.

    An answer without a version follows the one it follows in its own part.
    """
    known = {exchange.name for exchange in exchanges}
    parts = [exchanges, [exchange for exchange in others if exchange.name not in known]]
    placed: list[tuple[int, int, int, Exchange]] = []
    for part, listed in enumerate(parts):
        reached = 0
        for number, exchange in enumerate(listed):
            text = json.dumps(exchange.response)
            seen = (int(found) for found in re.findall(r'"resourceVersion": "(\d+)"', text))
            reached = max(reached, max(seen, default=0))
            placed.append((reached, part, number, exchange))
    return [exchange for *_, exchange in sorted(placed, key=lambda entry: entry[:3])]


@dataclass
class Evidence:
    """Every version of every object the recordings show."""

    versions: dict[tuple[str, str, str, str], dict[int, Document]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    def learn(self, exchanges: list[Exchange]) -> None:
        for exchange in exchanges:
            dry = "dryRun" in exchange.query
            if not dry:
                for document in shown(exchange):
                    self.note(document)
            body = exchange.request.get("body")
            if exchange.request["method"] == "PUT" and isinstance(body, dict):
                self.note_read(body)

    def note(self, document: Document) -> None:
        metadata = document.get("metadata") or {}
        text = metadata.get("resourceVersion") or ""
        if not text.isdigit() or "kind" not in document or "name" not in metadata:
            return
        self.versions[key_of(document)].setdefault(int(text), document)

    def note_read(self, body: Document) -> None:
        """A PUT body was read at its version and edited: its metadata is evidence, its spec may not be."""

    def exact(self, key: tuple[str, str, str, str], version: int) -> Document | None:
        return self.versions.get(key, {}).get(version)

    def latest(self, key: tuple[str, str, str, str], before: int) -> tuple[int, Document] | None:
        """The newest known version older than *before* (0: no bound)."""
        known = [v for v in self.versions.get(key, {}) if not before or v < before]
        if not known:
            return None
        return max(known), self.versions[key][max(known)]

    def earliest(self, key: tuple[str, str, str, str], after: int) -> tuple[int, Document] | None:
        """The oldest known version from *after* on."""
        known = [v for v in self.versions.get(key, {}) if v >= after]
        return (min(known), self.versions[key][min(known)]) if known else None


def key_of(document: Document) -> tuple[str, str, str, str]:
    metadata = document["metadata"]
    return (
        document.get("apiVersion", ""),
        document.get("kind", ""),
        metadata.get("namespace", ""),
        metadata["name"],
    )


def kind_of(document: Document) -> Kind | None:
    return find_kind(document.get("apiVersion", ""), document.get("kind", ""))


def shown(exchange: Exchange) -> Iterator[Document]:
    """Yield every whole object a response shows, with its kind."""
    for event in exchange.response.get("events") or ():
        if event["type"] in ("ADDED", "MODIFIED"):
            yield event["object"]
    body = exchange.body
    if not isinstance(body, dict):
        return
    kind = body.get("kind", "")
    if kind == "Table":
        for row in body.get("rows") or ():
            inner = row.get("object") or {}
            if inner.get("kind") not in (None, "PartialObjectMetadata"):
                yield inner
    elif kind.endswith("List") and "items" in body:
        single = {"kind": kind.removesuffix("List"), "apiVersion": body["apiVersion"]}
        for item in body["items"] or ():
            if item.get("kind") != "PartialObjectMetadata":
                yield {**single, **item}
    elif kind not in ("Status", "Scale", "PartialObjectMetadata", "TokenRequest") and "metadata" in body:
        yield body
