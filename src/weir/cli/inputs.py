"""Inputs of commands: files, folders, standard input, URLs, or a cluster.

`-` is standard input, an https address is fetched; a folder means the manifests below it, by name, with the suffixes
`.yaml`, `.yml` and `.json`, each also with `.gz`. A named file must be readable. A cluster is a snapshot, a dump, or
the live one of a kubeconfig, found as kubectl does.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import click
import msgspec

from weir.cli._options import ClusterSource, Live, cluster_options
from weir.cli.main import CANNOT_SAY
from weir.cli.render import say
from weir.objects.envelope import envelope_problem
from weir.objects.jsontext import MOST_VALUES
from weir.objects.manifest import Document, ManifestError, Place, read_manifest, read_values, refuse_enormous

if TYPE_CHECKING:
    from weir.client.api import Client
    from weir.client.snapshot import Missing, Snapshot
    from weir.client.snapshot_record import Record
    from weir.objects.pod_reader import SnapshotPods
    from weir.whatif.run import LoadedCluster
    from weir.world import World

#: What dumps leave out by mistake. A cluster without pods or nodes can be written down; pods on nodes need some.
_LEFT_OUT: Final = {
    "Node": "nodes",
    "DeviceClass": "deviceclasses",
    "ResourceSlice": "resourceslices",
    "PersistentVolumeClaim": "persistentvolumeclaims",
}
#: Stands in every object that weir's operator had a hand in.
_MARK: Final = b"lowered.weir.dev/"
#: Stands in every pod with an expression in the spelling that a stock cluster takes.
_STOCK_SPELLING: Final = b'"CEL"'
_FETCH_SECONDS: Final = 30.0
_MOST_FETCHED: Final = 64 << 20
#: A snapshot is some thirty times as large as its compressed form, a bomb a thousand times.
_MOST_EXPANSION: Final = 250
_LEAST_UNPACKED: Final = 16 << 20
SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
_GZIP: Final = b"\x1f\x8b"


def read_files(names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of every file that *names* mean."""
    for name in names:
        if is_address(name):
            yield name, unpacked(fetch(name), name)
            continue
        for file, path in find_files([name]):
            content = sys.stdin.buffer.read() if path is None else path.read_bytes()
            if path is None and not content.strip():  # the command before it in the pipe failed
                raise ManifestError(Place(file, 1, 1), "nothing was read: the input is empty")
            yield file, unpacked(content, file)


def unpacked(content: bytes, name: str) -> bytes:
    """Return what a file holds, decompressed if it is gzip; raises UsageError for one that is damaged or a bomb."""
    if not content.startswith(_GZIP):
        return content
    import zlib

    room = max(_LEAST_UNPACKED, _MOST_EXPANSION * len(content))
    parts: list[bytes] = []
    while content:  # a file may have several members
        reader = zlib.decompressobj(wbits=31)
        try:
            parts.append(reader.decompress(content, room))
        except zlib.error as error:
            raise click.UsageError(f"{name}: cannot be decompressed: {error}") from None
        room -= len(parts[-1])
        if reader.unconsumed_tail or room <= 0:
            raise click.UsageError(
                f"{name}: more than {_MOST_EXPANSION} times its compressed size; decompress it and give the file"
            )
        if not reader.eof:
            raise click.UsageError(f"{name}: cannot be decompressed: it ends too early")
        content = reader.unused_data
    return b"".join(parts)


def _is_manifest(path: Path) -> bool:
    return path.name.lower().removesuffix(".gz").endswith(tuple(SUFFIXES))


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

    outcome: list[bytes | Exception] = []

    def read() -> None:
        try:
            with urlopen(url, timeout=_FETCH_SECONDS) as answer:
                outcome.append(answer.read(_MOST_FETCHED + 1))
        except (OSError, HTTPException, ValueError) as error:
            outcome.append(error)

    # the timeout of urlopen is one of each read: a thread bounds the whole, and is left behind when it is over
    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(_FETCH_SECONDS)
    content = outcome[0] if outcome else TimeoutError(f"no answer within {_FETCH_SECONDS:g} seconds")
    if isinstance(content, Exception):
        reason = getattr(content, "reason", None) or content
        reason = getattr(reason, "strerror", None) or reason
        raise click.UsageError(f"{url}: cannot be fetched: {reason}")
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
            found = sorted(p for p in path.rglob("*") if _is_manifest(p) and p.is_file())
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
    "What the cluster holds: a file of `weir snapshot`, a dump of kubectl, manifests, or a directory, "
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
    pod_files: tuple[tuple[str, int], ...] = ()  #: files of `pods`, in their order, with how many each has
    record: Record | None = None  #: of a snapshot, which says what it leaves out
    respelled: bool = True  #: some of `pods` may spell expressions as stock Kubernetes lets them

    @classmethod
    def of(
        cls, documents: Iterable[tuple[str, Any]], *, keep_gate: bool, lowered: bool = False, **rest: Any
    ) -> ClusterObjects:
        """Return what was read, as its authors wrote it."""
        from weir.lowering.originals import raised

        written, rest["record"] = _without_record(documents)
        if rest["record"] is not None:
            rest |= {"missing": rest["record"].missing, "listed": rest["record"].listed}
        for file, document in written if rest.get("dumped") else ():
            if problem := envelope_problem(document):
                raise CannotSay(f"the cluster's dump cannot be read: {file}: {problem}")
        originals = [(file, raised(document, keep_gate=keep_gate)) for file, document in written]
        lowered = lowered or any(
            _is_lowered(one, two) for (_, one), (_, two) in zip(written, originals, strict=True)
        )
        return cls(originals, lowered=lowered, **rest)

    def pod_heads(self) -> Iterator[tuple[PodHead, msgspec.Raw]]:
        """Yield name and owners of each of `pods`, with the pod; one that cannot be read is left to `world`."""
        decode = msgspec.json.Decoder(_Headed).decode
        for source in self.pods:
            try:
                head = decode(source).metadata
            except msgspec.DecodeError:
                continue
            yield head, source

    def lacks(self, needed: Collection[str]) -> list[Missing]:
        """Return the kinds in *needed* that could not be read; of a dump, those it has no object of."""
        absent = [each for each in self.missing if each.kind in needed]
        if self.dumped and self.record is None:
            from weir.client.snapshot import Missing

            absent += [
                Missing(kind, plural, "the dump has none of them (`weir snapshot` writes all that is needed)")
                for kind, plural in _LEFT_OUT.items()
                if kind in needed and not self.holds({kind}) and (kind != "Node" or self._has_bound_pods())
            ]
        return absent

    def holds(self, kinds: Collection[str]) -> bool:
        """Return whether there is an object of one of *kinds*."""
        from weir.world import flatten

        return any(each.get("kind") in kinds for each in flatten(document for _, document in self.documents))

    def _has_bound_pods(self) -> bool:
        from weir.world import flatten

        items = flatten(document for _, document in self.documents)
        return any(b'"nodeName"' in bytes(pod) for pod in self.pods) or any(
            each.get("kind") == "Pod" and (each.get("spec") or {}).get("nodeName") for each in items
        )

    def world(self) -> World:
        """Return the World of the documents; one that cannot be read is named with its file."""
        from weir.objects.core import ViewError
        from weir.world import World

        if self.dumped:
            self._check()
        try:
            return World.of(self._evaluated(), self.listed, self.snapshot_pods)
        except ViewError:
            for file, document in self.documents:
                try:
                    World.of([document])
                except ViewError as error:
                    raise self.unreadable(f"{file}: {error}") from None
            raise

    @cached_property
    def snapshot_pods(self) -> SnapshotPods:
        """`pods`, read; one that cannot be read is named with its file."""
        from weir.objects.core import ViewError
        from weir.objects.pod_reader import SnapshotPods

        try:
            return SnapshotPods.of(map(_with_expressions, self.pods) if self.respelled else self.pods)
        except ViewError:
            files = (file for file, number in self.pod_files for _ in range(number))
            for file, source in zip(files, self.pods, strict=True):
                try:
                    SnapshotPods.of([source])
                except ViewError as error:
                    raise self.unreadable(f"{file}: {error}") from None
            raise

    @cached_property
    def loaded(self) -> LoadedCluster:
        """The cluster for any number of what-if questions."""
        from weir.whatif.run import LoadedCluster

        return LoadedCluster(self._evaluated(), self.snapshot_pods.sources())

    def _evaluated(self) -> Iterator[Any]:
        """Yield the documents as weir's components read them; `documents` keeps the spelling of their authors."""
        from weir.lowering.originals import with_expressions

        return (with_expressions(document) for _, document in self.documents)

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


def read_cluster(
    where: ClusterSource, kinds: Sequence[str], *, stream: bool = False, keep_gate: bool = True
) -> ClusterObjects:
    """Return what a dump, or without one the live cluster, holds; with *stream* pods of JSON dumps stay bytes.

    With *keep_gate* pods that weir's operator holds stay held.
    """
    where.check()
    if where.dump and stream:
        return _streamed(where.dump, keep_gate)
    if where.dump:
        return ClusterObjects.of(_dumped(where.dump), keep_gate=keep_gate, dumped=True)
    from weir.client.kubeconfig import KubeconfigError

    try:
        found = read_live(where.live, kinds)
    except KubeconfigError as error:
        hint = "" if where.live.named else "; name one with --kubeconfig, or give a dump with --cluster"
        raise KubeconfigError(f"{error}{hint}") from None
    return ClusterObjects.of(
        (("the cluster", document) for document in found.documents),
        keep_gate=keep_gate,
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


def _without_record(documents: Iterable[tuple[str, Any]]) -> tuple[list[tuple[str, Any]], Record | None]:
    """Return the documents without the record that a snapshot begins with, and the record."""
    from weir.client.snapshot_record import is_record, read_record

    objects, record = [], None
    for file, document in documents:
        items = document.get("items") if isinstance(document, dict) else None
        first = items[0] if isinstance(items, list) and items else document
        if not is_record(first):
            objects.append((file, document))
            continue
        try:
            record = read_record(first)
        except ValueError as error:
            raise CannotSay(f"{file}: {error}") from None
        if first is not document:
            objects.append((file, {**document, "items": document["items"][1:]}))
    return objects, record


def _with_expressions(pod: msgspec.Raw) -> msgspec.Raw:
    """Return a pod of a dump with its expressions in their own field, as `ClusterObjects._evaluated` has them."""
    if _STOCK_SPELLING not in bytes(pod):
        return pod
    from weir.lowering.originals import with_expressions

    return msgspec.Raw(msgspec.json.encode(with_expressions({"kind": "Pod", **msgspec.json.decode(pod)})))


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


class _KindOf(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str | None = None


class _Owner(msgspec.Struct):
    controller: bool | None = None


class PodHead(msgspec.Struct, rename="camel"):
    """What tells a pod from others."""

    name: str | None = None
    namespace: str | None = None
    owner_references: list[_Owner] | None = None


class _Headed(msgspec.Struct):
    metadata: PodHead = msgspec.field(default_factory=PodHead)


class _Streamed:
    """The objects of dumps, each read by itself; pods are left as they are."""

    def __init__(self, keep_gate: bool) -> None:
        self.documents: list[tuple[str, Any]] = []
        self.pods: list[msgspec.Raw] = []
        self.lowered = False  #: some of the pods were written by weir's operator
        self.respelled = False  #: some of the pods may spell expressions as stock Kubernetes lets them
        self._keep_gate = keep_gate
        self._kind_of = msgspec.json.Decoder(_KindOf).decode

    def add(
        self,
        file: str,
        items: Iterable[bytes | msgspec.Raw],
        typed: str,
        *,
        sure: bool = True,
        plain: bool = False,
    ) -> bool:
        """Take in the objects of a List; *typed* is the kind of those that do not say it.

        Unless *sure* that there is none, an object of no kind ends it: return whether all were taken in. Of a *plain*
        file nothing was written by weir's operator or is spelled for stock Kubernetes.
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
            elif plain:
                self.pods.append(item if isinstance(item, msgspec.Raw) else msgspec.Raw(item))
            elif _MARK in (text := bytes(item)):
                self.respelled = True
                written = {"kind": kind, **msgspec.json.decode(item)}
                document = raised(written, keep_gate=self._keep_gate)
                self.lowered |= document is not written
                self.pods.append(msgspec.Raw(msgspec.json.encode(document)))
            else:
                self.respelled |= _STOCK_SPELLING in text
                self.pods.append(item if isinstance(item, msgspec.Raw) else msgspec.Raw(item))
        return True


def _streamed(places: Sequence[str], keep_gate: bool) -> ClusterObjects:
    """Return what dumps hold; of a List in JSON every object is read by itself, and pods are left as they are."""
    documents: list[tuple[str, Any]] = []
    pods: list[msgspec.Raw] = []
    pod_files: list[tuple[str, int]] = []
    lowered = respelled = False
    for name in places:
        for file, path in [(name, None)] if is_address(name) else find_files([name]):
            objects = _cut(file, path, keep_gate) if path is not None and path.is_file() else None
            if objects is None:
                ((_, content),) = read_files([name if path is None else file])
                objects = _whole(file, content, keep_gate)
            documents += objects.documents
            pods += objects.pods
            pod_files.append((file, len(objects.pods)))
            lowered |= objects.lowered
            respelled |= objects.respelled
    return ClusterObjects.of(
        documents,
        keep_gate=keep_gate,
        lowered=lowered,
        dumped=True,
        pods=tuple(pods),
        pod_files=tuple(pod_files),
        respelled=respelled,
    )


def _cut(file: str, path: Path, keep_gate: bool) -> _Streamed | None:
    """Return the objects of a List of many lines, read piece by piece; None when the file is not one."""
    import gzip
    import zlib

    from weir.cli._dump_items import NotCut, cut
    from weir.cli.render import progress

    objects = _Streamed(keep_gate)
    try:
        with _opened(path) as (content, size), progress(f"reading {file}, bytes:") as tick:
            pieces = cut(content, size, tick)
            typed = msgspec.json.decode(next(pieces), type=_KindOf).kind.removesuffix("List")
            whole = objects.add(file, pieces, typed, sure=bool(typed))
    except (NotCut, msgspec.DecodeError, TypeError, EOFError, zlib.error, gzip.BadGzipFile):
        return None  # told by who reads it whole
    return objects if whole else None


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, int]]:
    """Yield a file to read, decompressed if it is gzip, and how many bytes it has then, modulo 4 GiB."""
    import gzip

    with path.open("rb") as plain:
        packed = plain.read(2) == _GZIP
        size = plain.seek(0, 2)
        if packed:
            plain.seek(-4, 2)
            size = int.from_bytes(plain.read(4), "little")
        plain.seek(0)
        if not packed:
            yield plain, size
            return
        with gzip.GzipFile(fileobj=plain) as content:
            yield content, size  # type: ignore[misc]


def _whole(file: str, content: bytes, keep_gate: bool) -> _Streamed:
    """Return the objects of a file that is read whole."""
    objects = _Streamed(keep_gate)
    try:
        items = msgspec.json.decode(content, type=_Items)
        plain = _MARK not in content and _STOCK_SPELLING not in content
        objects.add(file, items.items, items.kind.removesuffix("List"), plain=plain)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, TypeError):
        # YAML, one object, an item that is no object, or not to be read
        objects = _Streamed(keep_gate)
        objects.documents += _values(file, content)
    return objects


def _values(file: str, content: bytes) -> list[tuple[str, Any]]:
    from weir.cli.render import wants_colour

    if len(content) > _SLOW_BYTES and content.lstrip()[:1] != b"{" and wants_colour(sys.stderr):
        size = f"{len(content) / 1e6:.0f} MB"
        say(f"reading {file}, {size} of YAML (the same dump with -o json reads faster)", err=True)
    try:
        return [(file, document) for document in read_values(content, file)]
    except ManifestError as error:  # exit code 2, as for a file that is not there
        raise ManifestError(error.place, f"the cluster's dump cannot be read: {error.problem}") from None


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
