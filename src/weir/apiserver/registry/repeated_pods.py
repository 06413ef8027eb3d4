"""Which pods are like one before, but for their name? What is stored of them is known, but for a few words.

A ReplicaSet, a Job or a script sends the same body again and again. What becomes of it (defaults, owned fields,
admission, validation) follows from the body, from who sends it, and from the objects that admission looks at. While
none of those has changed, the stored value of the next pod differs from the last one's in its name, its uid, the time
and the random name of its token's volume: this module keeps the value with holes in those places.
Tolerations, in which pods of one kind differ most, are a hole too, as far as they differ in their values alone: no
plugin that says what its verdict follows from (`Chain.follows`) looks at those, and each list is validated by itself.
What surprises: the holes of a body are cut out as text. Cutting can be undone, so two bodies with the same rest that
are cut at different words are the same body; a name that stands elsewhere first costs a chance, never an answer.
Plain definition: `Verbs._create` in weir.apiserver.registry.verbs, which the first pods of a kind go through;
tests/property/test_repeated_pods.py holds them together. Pays 2.4 times: a create takes 63 µs of CPU instead of 150,
without TLS and disk.
Not here: what is known of a spec alone (.pod_spec_cache).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import itemgetter
from typing import NamedTuple, Protocol

import msgspec

from weir.apiserver.admission.attributes import CREATE, Attributes
from weir.apiserver.admission.service_account import TOKEN_VOLUME
from weir.apiserver.auth.authn import User
from weir.apiserver.registry import codec
from weir.apiserver.registry.memory import Memory
from weir.apiserver.registry.pod_spec_cache import (
    LARGEST_BYTES,
    NO_TOKEN_VOLUME,
    NO_TOLERATIONS,
    POD,
    NewPod,
    PodSpecCache,
)
from weir.apiserver.registry.write_request import WriteRequest
from weir.apiserver.transport.http import Request
from weir.objects.kind import Kind
from weir.validate.ratchet import Options
from weir.validate.tolerations import validate_tolerations
from weir.values.names import check_dns1123_subdomain, generate_name, name_suffix

__all__ = ["KnownVerdicts", "RepeatedPods"]

_NO_NAME, _NO_UID, _NO_TIME = b"\2", b"\3", b"\4"  # bytes that no JSON text holds
_HOLES = (NO_TOKEN_VOLUME, NO_TOLERATIONS, _NO_NAME, _NO_UID, _NO_TIME)
_hole = re.compile(b"([%b])" % b"".join(_HOLES))
_TOLERATIONS = b'"tolerations":'
_encode = msgspec.json.Encoder().encode


class _Metadata(msgspec.Struct, gc=False):
    name: str = ""
    generate_name: str = msgspec.field(name="generateName", default="")


class _Spec(msgspec.Struct, gc=False):
    tolerations: msgspec.Raw = msgspec.Raw()


class _Body(msgspec.Struct, gc=False):
    """The parts of a body in which pods of one kind differ."""

    metadata: _Metadata
    spec: _Spec


_parts = msgspec.json.Decoder(_Body).decode


class KnownVerdicts(Protocol):
    """What admission says of its own verdicts (weir.apiserver.admission.chain)."""

    def follows(self, a: Attributes) -> frozenset[Kind] | None:
        """Return the kinds whose objects decide about writes like this one; None when more than that does."""

    def repeated(self, operation: str, kind: Kind, subresource: str) -> None:
        """Count a write whose verdict was known."""


#: a body with holes, the shape of its tolerations, the namespace, the program and the user's name
_Key = tuple[bytes, bytes, str, bytes, str]


class _Sent(NamedTuple):
    """Tolerations as a client sent them."""

    text: bytes  #: as they are stored, without the last bracket
    shape: bytes  #: all of them but the values


class _Known(NamedTuple):
    """A pod that was created, with holes."""

    user: User
    versions: tuple[int | None, ...]  #: of the kinds that admission followed
    prefixes: tuple[str, ...]  #: of those kinds
    pieces: bytes  #: a format with places for what fills the holes
    #: takes one of each hole, returns one for each place
    fill: Callable[[tuple[bytes, ...]], tuple[bytes, ...]]
    has_token: bool
    defaults: bytes  #: what stands behind the tolerations that were sent


class Like(NamedTuple):
    """A pod that is to be created, as far as it is like others."""

    key: _Key
    metadata: _Metadata
    sent: _Sent | None  #: None: no tolerations were cut out
    revision: int  #: of the store when the pod came
    known: _Known | None  #: the pod it is like


class RepeatedPods:
    """The pods one server has created, one of each kind."""

    def __init__(
        self,
        specs: PodSpecCache,
        reader: codec.Reader,
        admission: KnownVerdicts,
        options: Options,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        """*options* say which forms of tolerations are permitted."""
        self._specs, self._reader, self._admission = specs, reader, admission
        self._options, self._random_bytes = options, random_bytes
        self._pods: Memory[_Key, _Known] = Memory()
        self._seen: Memory[_Key, bool] = Memory()
        self._sent: Memory[bytes, _Sent] = Memory()

    # ------------------------------------------------------------------------------------- as a client sends it

    def look(self, request: Request, namespace: str) -> Like | None:
        """Return the pod that *request* asks for, and what it is like; None when it goes the plain way."""
        body = request.body
        try:
            parts = _parts(body)
        except (ValueError, RecursionError):
            return None
        metadata = parts.metadata
        if metadata.name:
            if check_dns1123_subdomain(metadata.name):
                return None
        elif not metadata.generate_name:
            return None
        sent, shape = None, b""
        tolerations = bytes(parts.spec.tolerations)
        if tolerations.startswith(b"[{"):
            sent = self._sent.known.get(tolerations) or self._read_tolerations(tolerations)
            if sent is None:
                return None
            shape = sent.shape
            body = body.replace(tolerations, NO_TOLERATIONS, 1)
        if metadata.name:
            body = body.replace(b'"%b"' % metadata.name.encode(), _NO_NAME, 1)
        user = request.user
        key = (body, shape, namespace, request.headers.get(b"user-agent", b""), user.name)
        known = self._pods.known.get(key)
        if known is not None and (
            known.versions != self._reader.versions(known.prefixes)
            or (known.user is not user and known.user != user)
        ):
            known = None
        return Like(key, metadata, sent, self._reader.revision, known)

    def _read_tolerations(self, text: bytes) -> _Sent | None:
        """Return tolerations that are sound; None when the plain way has to say what is wrong with them."""
        found = self._specs.sent_tolerations(text)
        sent = None
        if found and not any(validate_tolerations(found, "spec.tolerations", self._options)):
            shape = [{name: one[name] for name in one if name != "value"} for one in found]
            sent = _Sent(_encode(found)[:-1], _encode(shape))
            self._sent.learn(text, sent, len(text) + len(sent.text) + len(sent.shape))
        return sent

    # --------------------------------------------------------------------------------------- once it was created

    def learn(self, like: Like, new: NewPod, write: WriteRequest) -> None:
        """Remember how *new*, which went the plain way, was stored, if it is the second of its kind: most have none."""
        if like.key not in self._seen.known:
            self._seen.learn(like.key, True, sum(map(len, like.key)))
            return
        outline = new.outline()
        if outline is None or write.warnings or len(outline.text) > LARGEST_BYTES:
            return
        follows = self._admission.follows(write.attributes(CREATE, POD, "", new.document))
        if follows is None:
            return
        prefixes = tuple(sorted(kind.prefix for kind in follows))
        versions = self._reader.versions(prefixes)
        if any((version or 0) > like.revision for version in versions):
            return  # it changed meanwhile: which of the two the verdict follows from is not known
        text, token, tolerations = outline
        if token and token in like.key[0]:
            return  # the client named it
        defaults = b""
        if like.sent is not None:
            begin = _TOLERATIONS + like.sent.text
            if not tolerations.startswith(begin):
                return
            defaults = tolerations[len(begin) :]
        elif tolerations:
            text = text.replace(NO_TOLERATIONS, tolerations)
        metadata = new.metadata
        now = metadata["creationTimestamp"]
        owners = metadata.get("managedFields") or ()
        if any(owner.get("time") != now for owner in owners):
            return
        time = msgspec.Raw(_NO_TIME)
        holes = {"name": msgspec.Raw(_NO_NAME), "uid": msgspec.Raw(_NO_UID), "creationTimestamp": time}
        if owners:
            holes["managedFields"] = [{**owner, "time": time} for owner in owners]  # type: ignore[assignment]
        value = codec.encode(
            {**new.document, "metadata": {**metadata, **holes}, "spec": msgspec.Raw(text)}, POD
        )
        pieces = _hole.split(value)
        places = [_HOLES.index(hole) for hole in pieces[1::2]]
        known = _Known(
            write.user,
            versions,
            prefixes,
            b"%b".join(piece.replace(b"%", b"%%") for piece in pieces[::2]),
            itemgetter(*places),
            bool(token),
            defaults,
        )
        self._pods.learn(like.key, known, sum(map(len, like.key)) + len(value))

    # ---------------------------------------------------------------------------------------------- once more

    def make(self, like: Like, known: _Known, new_uid: Callable[[], str], now: str) -> tuple[str, bytes]:
        """Return the name of a pod and its value to store; draws what is random in the order of the plain way."""
        self._admission.repeated(CREATE, POD, "")
        token = (TOKEN_VOLUME + name_suffix(self._random_bytes)).encode() if known.has_token else b""
        name = like.metadata.name or generate_name(like.metadata.generate_name, self._random_bytes)
        tolerations = b"" if like.sent is None else _TOLERATIONS + like.sent.text + known.defaults
        uid = b'"%b"' % new_uid().encode()
        time = b'"%b"' % now.encode()
        return name, known.pieces % known.fill((token, tolerations, b'"%b"' % name.encode(), uid, time))
