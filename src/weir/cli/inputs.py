"""Inputs of commands: files, folders, standard input, URLs, or a cluster.

`-` is standard input, an https address is fetched; a folder means the manifests below it, by name, with the suffixes
`.yaml`, `.yml` and `.json`. A named file must be readable. A cluster is a dump, or the live one of a kubeconfig,
found as kubectl does.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from weir.cli._options import ClusterSource, Live, cluster_options
from weir.cli.main import CANNOT_SAY
from weir.cli.render import say
from weir.objects.envelope import envelope_problem
from weir.objects.jsontext import MOST_VALUES
from weir.objects.manifest import Document, ManifestError, read_manifest, read_values, refuse_enormous

if TYPE_CHECKING:
    from weir.client.api import Client
    from weir.client.snapshot import Missing, Snapshot
    from weir.world import World

#: What dumps leave out by mistake. A cluster without nodes or pods can be written down on purpose.
_LEFT_OUT: Final = {
    "DeviceClass": "deviceclasses",
    "ResourceSlice": "resourceslices",
    "PersistentVolumeClaim": "persistentvolumeclaims",
}
#: Stands in every object that weir's operator had a hand in.
_MARK: Final = b"lowered.weir.dev/"
_FETCH_SECONDS: Final = 30.0
_MOST_FETCHED: Final = 64 << 20
SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})


def read_files(names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of every file that *names* mean."""
    for name in names:
        if is_address(name):
            yield name, fetch(name)
            continue
        for file, path in find_files([name]):
            yield file, sys.stdin.buffer.read() if path is None else path.read_bytes()


def is_address(name: str) -> bool:
    """Return whether *name* is fetched instead of read.

    >>> is_address("https://example.com/pod.yaml"), is_address("pod.yaml")
    (True, False)
    """
    return name.startswith(("https://", "http://"))


def fetch(url: str) -> bytes:
    """Return what stands at an address, as `kubectl apply -f URL` reads it."""
    from http.client import HTTPException
    from urllib.request import urlopen

    try:
        with urlopen(url, timeout=_FETCH_SECONDS) as answer:
            content: bytes = answer.read(_MOST_FETCHED + 1)
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        reason = getattr(reason, "strerror", None) or reason
        raise click.UsageError(f"{url}: cannot be fetched: {reason}") from None
    if len(content) > _MOST_FETCHED:
        raise click.UsageError(f"{url}: more than {_MOST_FETCHED >> 20} MiB; fetch it and give the file")
    return content


def find_files(names: Iterable[str]) -> Iterator[tuple[str, Path | None]]:
    """Yield name and path of every file that *names* mean; no path for standard input."""
    for name in names:
        path = Path(name)
        if name == "-":
            yield "<stdin>", None
        elif not path.is_dir():
            yield name, path
        else:
            found = sorted(p for p in path.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
            if not found:
                raise click.UsageError(f"{name}: no .yaml, .yml or .json file in this folder")
            yield from ((str(file), file) for file in found)


def read_documents(names: Iterable[str]) -> list[Document]:
    """Return the documents of all files that *names* mean, with their places."""
    return [document for name, content in read_files(names) for document in read_manifest(content, name)]


def refuse_long_tolerations(pod_spec: Any, name: str, most: int) -> None:
    """Raise a UsageError for a pod with more than *most* tolerations, each of which would be tried with all others."""
    tolerations = pod_spec.get("tolerations") if isinstance(pod_spec, dict) else None
    if isinstance(tolerations, list) and len(tolerations) > most:
        raise click.UsageError(f"{name} has {len(tolerations)} tolerations; this is asked of at most {most}")


def read_dump(names: Iterable[str]) -> list[Any]:
    """Return the documents of all files that *names* mean as plain values, for large dumps."""
    return [value for name, content in read_files(names) for value in read_values(content, name)]


class CannotSay(click.ClickException):
    """The question cannot be answered: what could not be read, and what follows from that."""

    exit_code = CANNOT_SAY


# ── clusters ─────────────────────────────────────────────────────────────────────────────────────

#: A YAML dump beyond this takes more than two seconds to read.
_SLOW_BYTES: Final = 10_000_000

#: The options of a command that asks about a whole cluster.
asked_cluster: Final = cluster_options(
    "What the cluster holds: a `kubectl get nodes,pods -A -o yaml` dump, manifests, or a directory, "
    "instead of a live cluster."
)


@dataclass(frozen=True)
class ClusterObjects:
    """Objects of a cluster, each with its file, and the kinds that could not be read."""

    documents: list[tuple[str, Any]]
    missing: tuple[Missing, ...] = ()
    listed: tuple[str, ...] = ()  #: kinds that were read whole
    dumped: bool = False  #: read from files, which do not say what they leave out
    pods: tuple[msgspec.Raw, ...] = ()  #: pods of JSON dumps that were read as a stream, as bytes
    lowered: bool = False  #: some of the documents were written by weir's operator, and are raised here

    @classmethod
    def of(cls, documents: Iterable[tuple[str, Any]], *, keep_gate: bool, **rest: Any) -> ClusterObjects:
        """Return what was read, as its authors wrote it."""
        from weir.lowering.originals import raised

        given = list(documents)
        for file, document in given if rest.get("dumped") else ():
            if problem := envelope_problem(document):
                raise CannotSay(f"the cluster's dump cannot be read: {file}: {problem}")
        found = [(file, raised(document, keep_gate=keep_gate)) for file, document in given]
        lowered = any(
            _is_lowered(one, two) for (_, one), (_, two) in zip(given, found, strict=True)
        ) or rest.pop("lowered", False)
        return cls(found, lowered=lowered, **rest)

    def lacks(self, needed: Collection[str]) -> list[Missing]:
        """Return the kinds in *needed* that could not be read; of a dump, those it has no object of."""
        absent = [each for each in self.missing if each.kind in needed]
        if self.dumped:
            from weir.client.snapshot import Missing

            absent += [
                Missing(kind, plural, "the dump has none of them")
                for kind, plural in _LEFT_OUT.items()
                if kind in needed and not self.holds({kind})
            ]
        return absent

    def holds(self, kinds: Collection[str]) -> bool:
        """Return whether there is an object of one of *kinds*."""
        from weir.world import flatten

        return any(each.get("kind") in kinds for each in flatten(document for _, document in self.documents))

    def world(self) -> World:
        """Return the World of the documents; one that cannot be read is named with its file."""
        from weir.objects.core import ViewError
        from weir.world import World

        if self.dumped:
            self._check()
        try:
            return World.of((document for _, document in self.documents), self.listed)
        except ViewError:
            for file, document in self.documents:
                try:
                    World.of([document])
                except ViewError as error:
                    raise self.unreadable(f"{file}: {error}") from None
            raise

    def _check(self) -> None:
        """Read what a dump holds besides pods as a server would: a wrong amount must not count as none.

        Pods are many, and what they ask for is read when they are counted.
        """
        from weir.errors import DecodeError
        from weir.objects.document import check
        from weir.objects.kinds import find_kind
        from weir.world import flatten

        for file, document in self.documents:
            for each in flatten([document]):
                name, version = each.get("kind"), each.get("apiVersion")
                if name == "Pod" or not isinstance(name, str) or not isinstance(version, str):
                    continue
                kind = find_kind(version, name)
                if kind is None or not kind.stored:
                    continue
                try:
                    check(each, kind, field_validation="Ignore")
                except DecodeError as error:
                    metadata = each.get("metadata")
                    which = metadata.get("name") if isinstance(metadata, dict) else ""
                    raise self.unreadable(f"{file}: {name} {which}: {error}") from None

    def unreadable(self, text: object) -> Exception:
        """Return the error for something of the cluster that cannot be read."""
        return (
            CannotSay(f"the cluster's dump cannot be read: {text}") if self.dumped else ValueError(str(text))
        )


def read_cluster(where: ClusterSource, kinds: Sequence[str], *, stream: bool = False) -> ClusterObjects:
    """Return what a dump, or without one the live cluster, holds; with *stream* pods of JSON dumps stay bytes."""
    where.check()
    if where.dump and stream:
        return _streamed(where.dump)
    if where.dump:
        return ClusterObjects.of(_dumped(where.dump), keep_gate=True, dumped=True)
    from weir.client.kubeconfig import KubeconfigError

    try:
        found = read_live(where.live, kinds)
    except KubeconfigError as error:
        hint = "" if where.live.named else "; name one with --kubeconfig, or give a dump with --cluster"
        raise KubeconfigError(f"{error}{hint}") from None
    return ClusterObjects.of(
        (("the cluster", document) for document in found.documents),
        keep_gate=not stream,
        missing=found.missing,
        listed=found.listed,
    )


def read_live(live: Live, kinds: Sequence[str], namespace: str = "") -> Snapshot:
    """Return what the live cluster holds of *kinds*, as far as it may be listed."""
    from weir.cli.render import progress
    from weir.client.snapshot import snapshot

    async def read(client: Client) -> Snapshot:
        with progress("reading the cluster, kinds:") as tick:
            return await snapshot(client, kinds, tick, namespace)

    return live.run("weir", read)


def _is_lowered(given: Any, found: Any) -> bool:
    """Return whether raising changed a document; a List is a new one in any case."""
    if isinstance(given, dict) and isinstance(given.get("items"), list):
        return given is not found and any(
            one is not two and one != two for one, two in zip(given["items"], found["items"], strict=True)
        )
    return given is not found


class _Items(msgspec.Struct):
    """A List of objects, none of which is read yet."""

    items: list[msgspec.Raw]
    kind: str = ""


class _KindOf(msgspec.Struct):
    kind: str = ""


class _Streamed:
    """The objects of dumps, each read by itself; pods are left as they are."""

    def __init__(self) -> None:
        self.documents: list[tuple[str, Any]] = []
        self.pods: list[msgspec.Raw] = []
        self._kind_of = msgspec.json.Decoder(_KindOf).decode

    def add(self, file: str, items: Iterable[bytes | msgspec.Raw], typed: str, *, sure: bool = True) -> bool:
        """Take in the objects of a List; *typed* is the kind of those that do not say it.

        Unless *sure* that there is none, an object of no kind ends it: return whether all were taken in.
        """
        from weir.lowering.originals import raised

        for item in items:
            kind = self._kind_of(item).kind or typed
            if len(memoryview(item)) > MOST_VALUES:
                refuse_enormous(bytes(item), file)
            if not kind and not sure:
                return False
            if kind != "Pod":
                self.documents.append((file, {"kind": kind, **msgspec.json.decode(item)}))
            elif _MARK in bytes(item):
                document = raised({"kind": kind, **msgspec.json.decode(item)})
                self.pods.append(msgspec.Raw(msgspec.json.encode(document)))
            else:
                self.pods.append(item if isinstance(item, msgspec.Raw) else msgspec.Raw(item))
        return True


def _streamed(places: Sequence[str]) -> ClusterObjects:
    """Return what dumps hold; of a List in JSON every object is read by itself, and pods are left as they are."""
    documents: list[tuple[str, Any]] = []
    pods: list[msgspec.Raw] = []
    for name in places:
        for file, path in [(name, None)] if is_address(name) else find_files([name]):
            found = _cut(file, path) if path is not None and path.is_file() else None
            if found is None:
                ((_, content),) = read_files([name if path is None else file])
                found = _whole(file, content)
            documents += found.documents
            pods += found.pods
    return ClusterObjects.of(documents, keep_gate=False, dumped=True, pods=tuple(pods))


def _cut(file: str, path: Path) -> _Streamed | None:
    """Return the objects of a List of many lines, read piece by piece; None when the file is not one."""
    from weir.cli._dump_items import NotCut, cut
    from weir.cli.render import progress

    found = _Streamed()
    try:
        with path.open("rb") as content, progress(f"reading {file}, bytes:") as tick:
            pieces = cut(content, path.stat().st_size, tick)
            typed = msgspec.json.decode(next(pieces), type=_KindOf).kind.removesuffix("List")
            whole = found.add(file, pieces, typed, sure=bool(typed))
    except (NotCut, msgspec.DecodeError, TypeError):
        return None
    return found if whole else None


def _whole(file: str, content: bytes) -> _Streamed:
    """Return the objects of a file that is read whole."""
    found = _Streamed()
    try:
        items = msgspec.json.decode(content, type=_Items)
        found.add(file, items.items, items.kind.removesuffix("List"))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, TypeError):
        # YAML, one object, an item that is no object, or not to be read
        found = _Streamed()
        found.documents += _values(file, content)
    return found


def _values(file: str, content: bytes) -> list[tuple[str, Any]]:
    from weir.cli.render import wants_colour

    if len(content) > _SLOW_BYTES and content.lstrip()[:1] != b"{" and wants_colour(sys.stderr):
        size = f"{len(content) / 1e6:.0f} MB"
        say(f"reading {file}, {size} of YAML (the same dump with -o json reads faster)", err=True)
    try:
        return [(file, document) for document in read_values(content, file)]
    except ManifestError as error:
        raise CannotSay(f"the cluster's dump cannot be read: {error}") from None


def _dumped(places: Sequence[str]) -> list[tuple[str, Any]]:
    return [each for file, content in read_files(places) for each in _values(file, content)]


# ── values ───────────────────────────────────────────────────────────────────────────────────────


def read_seconds(text: str, option: str) -> float:
    """Return the seconds that a duration such as `90s`, `10m` or `2h` means; one that is none, or not above 0, is a
    mistake in *option*."""
    from weir.values.duration import NANOSECONDS, DurationError, parse_duration

    try:
        seconds = parse_duration(text) / NANOSECONDS
    except DurationError:
        seconds = 0.0
    if seconds <= 0:
        raise click.BadParameter(f"{text!r}: write a time like 90s, 10m or 2h", param_hint=option)
    return seconds
