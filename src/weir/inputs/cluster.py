"""Objects of a cluster: a snapshot, a dump of kubectl, manifests, or the live cluster of a kubeconfig."""

from __future__ import annotations

import gzip
import re
import sys
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import click
import msgspec

from weir.client.api import Client
from weir.client.snapshot_record import Record, is_record, read_record
from weir.errors import DecodeError
from weir.explain.phrases import listed
from weir.fields.documents import find_kind_problem
from weir.inputs.dump_items import NotCut, cut
from weir.inputs.files import GZIP, CannotSay, content_of, fetch, find_files, is_address, read_files, unpacked
from weir.inputs.live import ClusterSource, Live
from weir.lowering.originals import raised, with_expressions
from weir.objects.core import ViewError
from weir.objects.document import check
from weir.objects.envelope import envelope_problem
from weir.objects.jsontext import MOST_VALUES
from weir.objects.kinds import KINDS, find_kind
from weir.objects.manifest import Document, ManifestError, read_values, refuse_enormous
from weir.objects.pod_reader import SnapshotPods
from weir.objects.templates import TEMPLATE_PATHS
from weir.output import progress, say, wants_colour
from weir.world import World, flatten

if TYPE_CHECKING:
    from weir.client.snapshot import Missing, Snapshot
    from weir.whatif.run import LoadedCluster

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
#: So every writer of Kubernetes begins a pod, most of a dump, whose kind is known without reading it to its end.
_POD_BEGINS: Final = re.compile(
    rb'\s*\{\s*"apiVersion":\s*"v1",\s*"kind":\s*"Pod",\s*"(?:metadata|spec|status)"'
)
#: Versions that releases of Kubernetes had and dropped.
_UNSTABLE: Final = re.compile(r"v\d+(?:alpha|beta)\d+$")
#: What the API answers with instead of objects, and its version.
_ANSWERS: Final = {"Status": "v1", "Table": "meta.k8s.io/v1"}
_STORED: Final = {(each.group, each.kind): each for each in KINDS if each.stored}
#: A YAML dump beyond this takes more than two seconds to read.
_SLOW_BYTES: Final = 10_000_000


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
        written, rest["record"] = _without_record(documents)
        if rest["record"] is not None:
            rest |= {"missing": rest["record"].missing, "listed": rest["record"].listed}
        for file, document in written if rest.get("dumped") else ():
            if problem := find_kind_mistake(document) or envelope_problem(document):
                raise CannotSay(f"the cluster's dump cannot be read: {file}: {problem}")
        if rest.get("dumped"):
            rest["missing"] = (*rest.get("missing", ()), *_in_dropped_versions(written))
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
        return any(each.get("kind") in kinds for each in flatten(document for _, document in self.documents))

    def _has_bound_pods(self) -> bool:
        items = flatten(document for _, document in self.documents)
        return any(b'"nodeName"' in bytes(pod) for pod in self.pods) or any(
            each.get("kind") == "Pod" and (each.get("spec") or {}).get("nodeName") for each in items
        )

    def world(self) -> World:
        """Return the World of the documents; one that cannot be read is named with its file."""
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
    def pod_shapes(self) -> list[dict[str, Any]]:
        """A pod for every distinct way in which pods that were left unread ask for kinds and gates."""
        templates = self.snapshot_pods.templates
        return [{"kind": "Pod", "spec": msgspec.to_builtins(each.spec)} for each in templates]

    @cached_property
    def loaded(self) -> LoadedCluster:
        """The cluster for any number of what-if questions."""
        from weir.whatif.run import LoadedCluster

        return LoadedCluster(*self.sources())

    def sources(self) -> tuple[Iterator[Any], Iterable[Any]]:
        """Return the documents as weir's components read them, and the pods that are not among them."""
        return self._evaluated(), self.snapshot_pods.sources()

    def _evaluated(self) -> Iterator[Any]:
        """Yield the documents as weir's components read them; `documents` keeps the spelling of their authors."""
        return (with_expressions(document) for _, document in self.documents)

    def _check(self) -> None:
        """Read what a dump holds besides pods as a server would: a wrong amount must not count as none.

        Pods are many, and what they ask for is read when they are counted.
        """
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
    from weir.client.snapshot import snapshot

    async def read(client: Client) -> Snapshot:
        with progress("reading the cluster, kinds:") as tick:
            return await snapshot(client, kinds, tick, namespace)

    return live.run("weir", read)


def _without_record(documents: Iterable[tuple[str, Any]]) -> tuple[list[tuple[str, Any]], Record | None]:
    """Return the documents without the record that a snapshot begins with, and the record."""
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

    return msgspec.Raw(msgspec.json.encode(with_expressions({"kind": "Pod", **msgspec.json.decode(pod)})))


def find_kind_mistake(document: Any) -> str | None:
    """Return what is wrong with the kind or apiVersion of an object that no server wrote so; None when nothing is.

    Alpha and beta versions of other kinds than nodes, pods and workloads may come from older servers; kinds that are
    not known come from definitions.
    """
    for each in flatten([document]):
        kind, version = each.get("kind"), each.get("apiVersion")
        if not isinstance(kind, str) or not isinstance(version, str) or not version:
            continue
        if kind in _ANSWERS and version == _ANSWERS[kind]:
            return f"{kind} is what a request was answered with, not an object: dump with -o json or -o yaml"
        problem = None if find_kind(version, kind) else find_kind_problem(version, kind)
        if problem is None:
            continue
        of_today = problem.field == "kind" or kind == "Node" or kind in TEMPLATE_PATHS
        if of_today or not _UNSTABLE.search(version):
            return f"{kind}: {problem}"
    return None


def _in_dropped_versions(written: Iterable[tuple[str, Any]]) -> Iterator[Missing]:
    """Yield the kinds of which a dump has objects in a version that releases of Kubernetes dropped: none is read."""
    from weir.client.snapshot import Missing

    unread = {
        (kind.plural, version): kind
        for each in flatten(document for _, document in written)
        if isinstance(version := each.get("apiVersion"), str) and isinstance(name := each.get("kind"), str)
        if _UNSTABLE.search(version) and find_kind(version, name) is None
        if (kind := _STORED.get((version.rpartition("/")[0], name))) is not None
    }
    for (plural, version), kind in unread.items():
        yield Missing(kind.kind, plural, f"the dump has them in {version}, which is no longer served")


def no_workload(files: Sequence[str], documents: Iterable[Document]) -> click.UsageError:
    """Return the error of manifests without a pod or workload: a mistake in one of them, or what they hold instead."""
    items = [item for document in documents for item in document.items()]
    for item in items:
        if problem := find_kind_mistake(item.value) or envelope_problem(item.value):
            return click.UsageError(f"no pod or workload in {', '.join(files)}: {item.place}: {problem}")
    kinds = dict.fromkeys(f"{item.value.get('apiVersion')} {item.value.get('kind')}" for item in items)
    instead = f", only {listed(list(kinds), 3)}" if kinds else ""
    return click.UsageError(f"no pod or workload in {', '.join(files)}{instead}")


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
    api_version: str | None = msgspec.field(default=None, name="apiVersion")


class _KindOf(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str | None = None


_POD: Final = _KindOf("Pod", "v1")


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
        whole: _Items | _KindOf,
        *,
        sure: bool = True,
        plain: bool = False,
    ) -> bool:
        """Take in the objects of a List; its kind, *whole*, names kind and version of those that do not say it.

        Unless *sure* that there is none, an object of no kind ends it: return whether all were taken in. Of a *plain*
        file nothing was written by weir's operator or is spelled for stock Kubernetes.
        """
        typed = whole.kind.removesuffix("List")
        of_list = {"apiVersion": whole.api_version} if typed and whole.api_version else {}
        for item in items:
            head = _POD if _POD_BEGINS.match(item) else self._kind_of(item)
            kind = head.kind or typed
            version = head.api_version or of_list.get("apiVersion")
            if len(memoryview(item)) > MOST_VALUES:
                refuse_enormous(bytes(item), file)
            if not kind and not sure:
                return False
            if kind == "Pod" and version not in (None, "", "v1"):
                problem = find_kind_mistake({"kind": kind, "apiVersion": version})
                raise CannotSay(f"the cluster's dump cannot be read: {file}: {problem}")
            if kind != "Pod":
                self.documents.append((file, {**of_list, "kind": kind, **msgspec.json.decode(item)}))
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
                if is_address(name):
                    content = unpacked(fetch(name), name)
                else:
                    content = content_of(file, path, given=file == name)
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
    objects = _Streamed(keep_gate)
    try:
        with _opened(path) as (content, size), progress(f"reading {file}, bytes:") as tick:
            pieces = cut(content, size, tick)
            head = msgspec.json.decode(next(pieces), type=_KindOf)
            whole = objects.add(file, pieces, head, sure=head.kind.removesuffix("List") != "")
    except (NotCut, msgspec.DecodeError, TypeError, EOFError, zlib.error, gzip.BadGzipFile):
        return None  # told by who reads it whole
    return objects if whole else None


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, int]]:
    """Yield a file to read, decompressed if it is gzip, and how many bytes it has then, modulo 4 GiB."""
    with path.open("rb") as plain:
        packed = plain.read(2) == GZIP
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
        objects.add(file, items.items, items, plain=plain)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, TypeError):
        # YAML, one object, an item that is no object, or not to be read
        objects = _Streamed(keep_gate)
        objects.documents += _values(file, content)
    return objects


def _values(file: str, content: bytes) -> list[tuple[str, Any]]:
    if len(content) > _SLOW_BYTES and content.lstrip()[:1] != b"{" and wants_colour(sys.stderr):
        size = f"{len(content) / 1e6:.0f} MB"
        say(f"reading {file}, {size} of YAML (the same dump with -o json reads faster)", err=True)
    try:
        return [(file, document) for document in read_values(content, file)]
    except ManifestError as error:  # exit code 2, as for a file that is not there
        problem = f"the cluster's dump cannot be read: {error.problem}"
        raise ManifestError(error.place, problem, fix=error.fix) from None


def _dumped(places: Sequence[str]) -> list[tuple[str, Any]]:
    return [each for file, content in read_files(places) for each in _values(file, content)]
