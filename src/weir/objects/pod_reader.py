"""Pods of a snapshot: JSON of each, and one shared template for all that are alike.

The pods of a workload differ in name, UID, node and times. Of everything else a snapshot keeps one view, the template;
a pod's own view is decoded when it is asked for. 150,000 pods of a few thousand workloads take a tenth of the memory of
their views, and what is decided by a template is decided once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias, get_type_hints

import msgspec
from msgspec.structs import fields, replace

from weir.objects.core import ObjectMeta, Pod, PodSpec, PodStatus, ViewError, Volume, read
from weir.objects.envelope import envelope_problem
from weir.objects.requests import has_allocated_resources

Json: TypeAlias = bytes | msgspec.Raw

_decode: Final = msgspec.json.Decoder(Pod).decode
_encode: Final = msgspec.json.Encoder().encode


class SnapshotPod(NamedTuple):
    """One pod: its JSON, `namespace/name`, its node, and the template it shares with others."""

    source: Json
    key: str
    node_name: str
    #: Without name, UID, node, times and annotations, without volumes that no node is chosen by, and with no more
    #: status than decides about room.
    template: Pod


class SnapshotPods(Mapping[str, Pod]):
    """Pods by `namespace/name`; views are decoded on access.

    >>> pods = SnapshotPods.of([b'{"metadata":{"name":"p%d"},"spec":{"nodeName":"n1"}}' % n for n in range(2)])
    >>> pods["default/p1"].metadata.name, len({id(pod.template) for pod in pods.entries.values()})
    ('p1', 1)
    """

    def __init__(self, entries: dict[str, SnapshotPod | Pod]) -> None:
        self.entries = entries  #: a pod that was put in later is a view

    @classmethod
    def of(cls, sources: Iterable[Json]) -> SnapshotPods:
        """Return the pods of *sources*, each JSON; raises ViewError for one that cannot be read."""
        nodes: dict[str, str] = {}
        entries: dict[str, SnapshotPod | Pod] = {}
        templates = _Templates()
        for source in sources:
            metadata, node_name, template = templates.of(source)
            if not metadata.name:
                raise ViewError("Pod: metadata.name is missing")
            name = f"{metadata.namespace or 'default'}/{metadata.name}"
            entries[name] = SnapshotPod(source, name, nodes.setdefault(node_name, node_name), template)
        return cls(entries)

    def sources(self) -> Iterator[SnapshotPod]:
        """Yield the pods that were read; those put in later have no JSON."""
        return (entry for entry in self.entries.values() if not isinstance(entry, Pod))

    @cached_property
    def templates(self) -> Collection[Pod]:
        """The distinct templates."""
        seats = self.entries.values()
        every = [entry.template if isinstance(entry, SnapshotPod) else entry for entry in seats]
        return dict(zip(map(id, every), every, strict=True)).values()

    def __getitem__(self, key: str) -> Pod:
        entry = self.entries[key]
        return entry if isinstance(entry, Pod) else read_pod(entry.source)

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, key: object) -> bool:
        return key in self.entries


# ── templates ────────────────────────────────────────────────────────────────────────────────────


#: Of the metadata, what pods of one template differ in, or what is not kept of a template as it stands.
_OWN_METADATA: Final = ("name", "uid", "namespace", "resource_version", "creation_timestamp", "annotations")
_HINTS: Final = get_type_hints(ObjectMeta)
#: A twin of ObjectMeta that keeps the JSON of all other fields.
_MetadataOutline: Final = msgspec.defstruct(
    "_MetadataOutline",
    [
        (each.name, _HINTS[each.name], msgspec.field(default=each.default, name=each.encode_name))
        if each.name in _OWN_METADATA
        else (each.name, msgspec.Raw, msgspec.field(default=msgspec.Raw(), name=each.encode_name))
        for each in fields(ObjectMeta)
    ],
    frozen=True,
    gc=False,
)
_metadata_of: Final = attrgetter(
    *(each.name for each in fields(ObjectMeta) if each.name not in _OWN_METADATA)
)


class _PodOutline(msgspec.Struct, frozen=True, gc=False):
    metadata: _MetadataOutline = _MetadataOutline()  # type: ignore[valid-type]
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: PodStatus = PodStatus()


class _OwnSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What pods of one template differ in."""

    node_name: str = ""
    hostname: str = ""
    volumes: msgspec.Raw = msgspec.Raw()


_decode_outline: Final = msgspec.json.Decoder(_PodOutline).decode
_decode_own_spec: Final = msgspec.json.Decoder(_OwnSpec).decode
_TEXT: Final = re.compile(rb'\s*:\s*"[^"\\]*"')
_EPHEMERAL: Final = b'"ephemeral"'
#: The name of the token volume stands in the mounts of every container, which no view has.
_TOKEN: Final = b"kube-api-access-"
_TOKEN_NAME: Final = re.compile(rb'"name":\s*"' + _TOKEN + rb'[a-z0-9]{5}"')
#: So many pods are read before it is known whether their JSON repeats.
_TRIED: Final = 20_000


class _Templates:
    """The templates of a snapshot's pods. A pod whose JSON repeats that of another is not read as a whole.

    Optimized form of `read_pod` and `_template_parts` for each pod; tests/property/test_snapshot_pods.py compares
    both; bench: `python -m bench explain`.
    """

    def __init__(self) -> None:
        self._by_view: dict[bytes, Pod] = {}
        self._by_json: dict[bytes, Pod] = {}
        self._tried = 0

    def of(self, source: Json) -> tuple[ObjectMeta, str, Pod]:
        """Return metadata of a pod, at least its own fields, its node, and its template; raises ViewError."""
        key = None
        if self._tried < _TRIED or len(self._by_json) * 2 < self._tried:
            try:
                outline = _decode_outline(source)
                own = _decode_own_spec(outline.spec)
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                pass  # read as a whole it is understood, or named
            else:
                self._tried += 1
                key = _json_key(outline, own)
                if key is not None and (template := self._by_json.get(key)) is not None:
                    return outline.metadata, own.node_name, template
        pod = read_pod(source)
        metadata, spec, status = shared = _template_parts(pod)
        encoded = _encode(shared)
        template = self._by_view.get(encoded)
        if template is None:
            template = self._by_view[encoded] = Pod(metadata=metadata, spec=spec, status=status)
        if key is not None:
            self._by_json[key] = template
        return pod.metadata, pod.spec.node_name, template


def _json_key(pod: Any, own: _OwnSpec) -> bytes | None:
    """Return JSON that is the same only for pods of one template; None for a pod whose template is found otherwise.

    No byte of JSON is zero.
    """
    spec = bytes(pod.spec)
    for name, value in ((b'"nodeName"', own.node_name), (b'"hostname"', own.hostname)):
        if value:
            rest = _without(spec, name)
            if rest is None:
                return None
            spec = rest
    if volumes := bytes(own.volumes):
        if _EPHEMERAL in volumes:  # whose claims are named after the pod
            return None
        if token := _TOKEN_NAME.search(volumes):
            spec = spec.replace(token[0], _TOKEN)
    status = pod.status
    shared = (
        _encode(_template_status(pod))
        if has_allocated_resources(pod)
        else f"{status.phase}\0{status.nominated_node_name}".encode()
    )
    return b"\0".join((pod.metadata.namespace.encode(), shared, spec, *_metadata_of(pod.metadata)))


def _without(spec: bytes, name: bytes) -> bytes | None:
    """Return *spec*, which has this text field, without it; None where the name may mean something else."""
    before, _, after = spec.partition(name)
    text = None if name in after else _TEXT.match(after)  # a label of a selector may have the same name
    return None if text is None else before[: max(before.rfind(b","), 0)] + after[text.end() :]


def _template_parts(pod: Pod) -> tuple[ObjectMeta, PodSpec, PodStatus]:
    metadata, spec = pod.metadata, pod.spec
    volumes = relevant_volumes(pod)
    named = any(
        volume.ephemeral for volume in volumes
    )  # their claims are named after the pod, and owned by it
    metadata = replace(
        metadata,
        name=metadata.name if named else "",
        uid=metadata.uid if named else "",
        resource_version="",
        creation_timestamp=None,
        annotations=None,
    )
    return metadata, replace(spec, node_name="", volumes=volumes or None), _template_status(pod)


def _template_status(pod: Pod) -> PodStatus:
    """Return what decides about room; the template of a pod that was resized has all but its start."""
    status = pod.status
    if has_allocated_resources(pod):
        return replace(status, start_time=None)
    return PodStatus(phase=status.phase, nominated_node_name=status.nominated_node_name)


def relevant_volumes(pod: Pod) -> tuple[Volume, ...]:
    """Return the volumes a node is chosen by; the token volume every pod has, with a name of its own, is none."""
    return tuple(each for each in pod.spec.volumes or () if each != Volume(name=each.name))


def read_pod(source: Json) -> Pod:
    """Return the pod of *source* as `weir.objects.core.read` reads its document; raises ViewError."""
    try:
        return _decode(source)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        pass  # it has nulls, or is wrong
    try:
        document = {"kind": "Pod", **msgspec.json.decode(source)}
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, TypeError) as error:
        raise ViewError(f"Pod: {error}") from None
    if problem := envelope_problem(document):
        raise ViewError(problem)
    return read(Pod, document)


# ── pods of any mapping ──────────────────────────────────────────────────────────────────────────


def seated(pods: Mapping[str, Pod]) -> Iterator[tuple[str, str, Pod]]:
    """Yield key, node and template of the pods that use a node: bound to it and not ended.

    The template of a pod that shares none is the pod.
    """
    entries = pods.entries if isinstance(pods, SnapshotPods) else pods
    for key, entry in entries.items():
        node_name, template = _seat(entry)
        if node_name and not template.terminated:
            yield key, node_name, template


def with_templates(pods: Mapping[str, Pod]) -> Iterator[tuple[str, Pod]]:
    """Yield key and template of all *pods*; the template of a pod that shares none is the pod."""
    if not isinstance(pods, SnapshotPods):
        yield from pods.items()
        return
    for key, entry in pods.entries.items():
        yield key, _seat(entry)[1]


def templates(pods: Mapping[str, Pod]) -> Iterable[Pod]:
    """Return the distinct templates of *pods*."""
    return pods.templates if isinstance(pods, SnapshotPods) else pods.values()


def _seat(entry: SnapshotPod | Pod) -> tuple[str, Pod]:
    return (entry.spec.node_name, entry) if isinstance(entry, Pod) else (entry.node_name, entry.template)


def like(pods: Mapping[str, Pod], holds: Callable[[Pod], object]) -> Iterator[Pod]:
    """Yield the pods for which *holds* is true; it is asked about templates, once about each."""
    if not isinstance(pods, SnapshotPods):
        yield from filter(holds, pods.values())
        return
    chosen = {id(template) for template in pods.templates if holds(template)}
    for entry in pods.entries.values() if chosen else ():
        if id(_seat(entry)[1]) in chosen:
            yield entry if isinstance(entry, Pod) else read_pod(entry.source)
