"""Which patches and claims are like one before, but for a few words? What is stored is known, but for those words.

Controllers and the scheduler say the same thing about one pod after the other: this is its claim, this its node, this
device is reserved. What such a write makes follows from its body, from what is stored, from who sends it, from the
time, and from the objects that admission and the kind's own rules look at. While none of those has changed but for
names, uids, versions and times, neither has the outcome: this module keeps it with holes in place of those words.
Words are cut out behind certain keys alone. Nothing looks at their values but to compare them with each other: which
are the same, and which time is later, is part of what is known. That a word is well formed is seen when it is cut.
What surprises: an outcome is used from the fourth write of its kind on. The first shows that a body comes again, the
second is learnt, and the third, which has other words, has to come out as foretold.
Plain definition: `Verbs.change` and `Verbs.create_document` in weir.apiserver.registry.verbs, which the first writes of
a kind go through; tests/property/test_repeated_writes.py holds them together. Pays 2 to 2.7 times: such a write takes
85 to 110 µs of CPU instead of 180 to 290, without transport and disk.
Not here: new pods (.repeated_pods), what each kind of patch does (weir.apiserver.patches).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from operator import itemgetter
from typing import Any, Final, NamedTuple

import msgspec

from weir.apiserver.admission.attributes import CREATE, UPDATE
from weir.apiserver.auth.authn import User
from weir.apiserver.registry import codec
from weir.apiserver.registry.memory import Memory
from weir.apiserver.registry.pod_spec_cache import LARGEST_BYTES
from weir.apiserver.registry.repeated_pods import KnownVerdicts
from weir.apiserver.registry.write_request import WriteRequest
from weir.apiserver.strategies import for_kind
from weir.apiserver.transport.http import Request
from weir.caches import bounded
from weir.objects.kind import Kind
from weir.objects.kinds import by_kind
from weir.store import KeyValue, Store

__all__ = ["NEW", "Like", "RepeatedWrites"]

Document = dict[str, Any]
_CLAIM: Final = by_kind("resource.k8s.io/v1", "ResourceClaim")
#: the new objects this is about
NEW: Final = frozenset({_CLAIM})
#: the changes, each with its subresource
_CHANGES: Final = frozenset({(by_kind("v1", "Pod"), "status"), (_CLAIM, ""), (_CLAIM, "status")})
_UID: Final = rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_TIME: Final = rb"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"
_LABEL: Final = rb"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME: Final = rb"%b(\.%b)*" % (_LABEL, _LABEL)
#: What words stand behind, and how those look. All begin with a quote, and quotes inside a string are escaped: wherever
#: one of these is found, it is a key.
_WORDS: Final = {
    b'"uid":"': _UID,
    b'"k:{\\"uid\\":\\"': _UID,  # in the path of an owned field
    b'"time":"': _TIME,
    b'"creationTimestamp":"': _TIME,
    b'"lastTransitionTime":"': _TIME,
    b'"allocationTimestamp":"': _TIME,
    b'"resourceVersion":"': rb"[1-9][0-9]*",
    b'"metadata":{"name":"': _NAME,
    b'"generateName":"': rb"[a-z0-9][-a-z0-9]*-",
    b'"kind":"Pod","name":"': _NAME,
    b'"resource":"pods","name":"': _NAME,
    b'"name":"kube-api-access-': _LABEL,
    b'"nodeName":"': _NAME,
    b'"nominatedNodeName":"': _NAME,
    b'"operator":"In","values":["': _NAME,
    b'"resourceClaimName":"': _NAME,
    b'"pool":"': _NAME,
    b'"device":"': _LABEL,
}
_TRIES: Final = (
    32  # learning takes as long as the write itself, and what differs in more than words is never known
)
_LONGEST_WORD: Final = 63  # a name of a label's length is sound wherever a name may stand
_spaced: Final = {
    before: before.replace(b":", b": ").replace(b",", b", ") for before in _WORDS if b"\\" not in before
}


def _cutter(before: Iterable[bytes]) -> Callable[[bytes], list[bytes]]:
    return re.compile(rb'(%b)([^"\\]*)(?=\\?")' % b"|".join(map(re.escape, before))).split


_cut_stored_at, _cut_body_at = _cutter(_WORDS), _cutter([*_WORDS, *_spaced.values()])
_paths_with_uids = re.compile(rb'"k:\{\\"uid\\":\\"(%b)' % _UID).findall
_HOLE: Final = b"\0"  # which no JSON text holds
_OWN_NAME: Final = b'"name":"\1"'
_holes = re.compile(b"[\0\1]")
_GENERATED: Final = b'"generateName":"'
_encode = msgspec.json.Encoder().encode
_Z, _DASH = b"Z-"


@bounded(4096)
def _is_time(word: bytes) -> bool:
    """Whether there is such a day.

    >>> _is_time(b"2024-02-29T00:00:00Z"), _is_time(b"2026-02-29T00:00:00Z")
    (True, False)
    """
    try:
        return re.fullmatch(_TIME, word) is not None and bool(datetime.fromisoformat(word.decode()))
    except ValueError:
        return False


_sound: Final[dict[bytes, Callable[[bytes], object]]] = {
    spelt: _is_time if looks is _TIME else re.compile(rb"(?=.{1,%d}$)%b" % (_LONGEST_WORD, looks)).fullmatch
    for before, looks in _WORDS.items()
    for spelt in (before, _spaced.get(before, before))
}


class _Text(NamedTuple):
    """A text, cut."""

    rest: bytes  #: with holes
    words: list[bytes]


def _cut(pieces: list[bytes]) -> _Text | None:
    """Take the words out of a text, which comes as text, what precedes a word, the word, text, and so on.

    None comes back when one of the words looks otherwise.

    >>> _cut(_cut_body_at(b'{"status": {"nominatedNodeName": "n"}}'))
    _Text(rest=b'{"status": {"nominatedNodeName": "\\x00"}}', words=[b'n'])
    """
    words = pieces[2::3]
    for before, word in zip(pieces[1::3], words, strict=True):
        if not _sound[before](word):
            return None
    pieces[2::3] = [_HOLE] * len(words)
    return _Text(b"".join(pieces), words)


def _cut_stored(value: bytes, name: str) -> _Text | None:
    """Cut the words out of the stored value of the object *name*, first its version; its name has a hole of its own."""
    end = value.index(b'"', codec.STAMP)
    cut = _cut(_cut_stored_at(value[end:].replace(b'"name":"%b"' % name.encode(), _OWN_NAME, 1)))
    return _Text(cut.rest, [value[codec.STAMP : end], *cut.words]) if cut is not None else None


def _stands_in(rest: bytes, words: Iterable[bytes]) -> bool:
    """Whether one of *words* is also a text in a place where none is cut."""
    return any(b'"%b"' % word in rest for word in words)


def _numbered(words: list[bytes]) -> dict[bytes, int]:
    """Give each distinct word a number, first the times from the earliest on.

    >>> _numbered([b"a", b"2026-01-01T00:00:02Z", b"b", b"a", b"2026-01-01T00:00:01Z"])
    {b'2026-01-01T00:00:01Z': 0, b'2026-01-01T00:00:02Z': 1, b'a': 2, b'b': 3}
    """
    distinct = {
        time: number for number, time in enumerate(sorted({word for word in words if word[-1] == _Z}))
    }
    for word in words:
        if word not in distinct:
            distinct[word] = len(distinct)
    return distinct


#: the write, its query and type, the namespace, the program, the user's name, and the body with holes
_Sent = tuple[Kind, str, str, str, str, bytes, str, bytes]
#: the same, what is stored with holes, and which words are the same
_Key = tuple[_Sent, bytes, tuple[int, ...]]


class _Known(NamedTuple):
    """What a change made of an object, with holes."""

    user: User
    versions: tuple[int | None, ...]  #: of the kinds that the verdict follows from
    prefixes: tuple[str, ...]  #: of those kinds
    pieces: bytes  #: a format with places for the words
    fill: Callable[[list[bytes]], tuple[bytes, ...]]  #: takes each word once, returns one for each place
    is_proven: bool  #: whether another change came out as foretold

    def made(self, words: list[bytes]) -> bytes:
        """Return the value to store."""
        return self.pieces % self.fill(words)


_NEVER_SEEN: Final = _Known(User(""), (), (), b"", itemgetter(0), False)


class Like(NamedTuple):
    """A write, as far as it is like others."""

    key: _Key
    found: KeyValue | None  #: what is to be changed; None: something new
    words: list[bytes]  #: each once, in the order of their numbers
    revision: int  #: of the store when the write came
    known: _Known  #: the write it is like

    @property
    def is_known(self) -> bool:
        """Whether what it makes can be told."""
        return self.known.is_proven

    @property
    def generate_name(self) -> str:
        """How the name of something new has to begin."""
        return next(word for word in self.words if word[-1] == _DASH).decode()


class RepeatedWrites:
    """The writes one server has made, one of each kind."""

    def __init__(self, store: Store, reader: codec.Reader, admission: KnownVerdicts) -> None:
        self._store, self._reader, self._admission = store, reader, admission
        #: how often more a write with such a body is learnt before one was known
        self._tries: Memory[_Sent, int] = Memory()
        #: None: a write of this kind did not come out as foretold
        self._writes: Memory[_Key, _Known | None] = Memory()

    # ------------------------------------------------------------------------------------- as a client sends it

    def look(
        self, request: Request, kind: Kind, namespace: str, name: str, subresource: str, media: str, now: str
    ) -> Like | None:
        """Return the change that *request* asks for, and what it is like; None when it goes the plain way."""
        if (kind, subresource) not in _CHANGES:
            return None
        sent = self._sent(request, kind, namespace, subresource, media)
        if sent is None:
            return None
        found = self._store.get(kind.key(namespace, name))
        if found is None or len(found.value) > LARGEST_BYTES:
            return None
        stored = _cut_stored(found.value, name)
        if stored is None:
            return None
        return self._like(
            *sent, found, stored.rest, [*stored.words, name.encode(), now.encode()], request.user
        )

    def look_at_new(self, request: Request, kind: Kind, namespace: str, now: str) -> Like | None:
        """Return the new object that *request* asks for, and what it is like; None when it goes the plain way."""
        sent = self._sent(request, kind, namespace, "", "")
        if sent is None or request.body.count(_GENERATED) != 1:
            return None
        return self._like(*sent, None, b"", [now.encode()], request.user)

    def _sent(
        self, request: Request, kind: Kind, namespace: str, subresource: str, media: str
    ) -> tuple[_Sent, _Text] | None:
        """Return what was sent if it came before, but for its words."""
        body, query = request.body, request.query
        if request.turn is not None or "dryRun" in query or b"\\" in body:  # an escape may hide a word
            return None
        cut = _cut(_cut_body_at(body))
        if cut is None:
            return None
        agent = request.headers.get(b"user-agent", b"")
        asked = (kind, subresource, media, query, namespace, agent, request.user.name, cut.rest)
        tries = self._tries.known.get(asked)
        if tries is not None:
            return (asked, cut) if tries > 0 else None
        self._tries.learn(asked, _TRIES, _size(asked))
        return None

    def _like(
        self, asked: _Sent, sent: _Text, found: KeyValue | None, rest: bytes, more: list[bytes], user: User
    ) -> Like | None:
        words = [*sent.words, *more]
        distinct = _numbered(words)
        if _stands_in(sent.rest, distinct):
            return None  # what a word is compared with may stand where none is cut, for the order of fields is free
        key = (asked, rest, tuple(map(distinct.__getitem__, words)))
        known = self._writes.known.get(key, _NEVER_SEEN)
        if known is None:
            return None
        if known.versions != self._reader.versions(known.prefixes) or known.user != user:
            known = _NEVER_SEEN
        return Like(key, found, list(distinct), self._reader.revision, known)

    def made(self, like: Like, *drawn: str) -> bytes:
        """Return the value to store for a write that is known; *drawn* is what the server chose for it."""
        asked = like.key[0]
        kind, subresource = asked[:2]
        if asked in self._tries.known:
            self._tries.known[asked] = _TRIES
        self._admission.repeated(CREATE if like.found is None else UPDATE, kind, subresource)
        return like.known.made([*like.words, *map(str.encode, drawn)])

    # ------------------------------------------------------------------------------------------ once it was made

    def learn(self, like: Like, write: WriteRequest, body: bytes, shown: bytes) -> None:
        """Remember what the write in *body* made, *shown* to the client; it went the plain way."""
        kind, found, asked = write.kind, like.found, like.key[0]
        if asked in self._tries.known:
            self._tries.known[asked] -= 1
        if write.warnings or (found is not None and write.replaced != found.mod_revision):
            return  # something is to be said, or another write came between
        value = b"{" + shown[len(codec.prefix(kind)) :]
        new = codec.decode(kind, value)
        words, name = like.words, new["metadata"]["name"]
        if found is None:
            if name.encode() in body:
                return  # the client named it
            words = [*words, new["metadata"]["uid"].encode(), name.encode()]
        outcome = _cut_stored(value, name)
        if outcome is None or not {*outcome.words[1:]} <= {*words} or not _is_json(body):
            return  # a word that comes from elsewhere: the next second, perhaps
        known: _Known | None = like.known
        if known is _NEVER_SEEN:
            known = self._learnt(like, write, words, new, outcome)
            if known is None:
                return
        elif codec.unstamped(value) == like.known.made(words):
            known = like.known._replace(is_proven=True)
        else:
            known = None  # something looks at the words
        rest = like.key[1]
        size = _size(asked) + len(rest) + (len(known.pieces) if known is not None else 0)
        self._writes.learn(like.key, known, size)

    def _learnt(
        self, like: Like, write: WriteRequest, words: list[bytes], new: Document, outcome: _Text
    ) -> _Known | None:
        """Return the outcome of a write with holes; None when it follows from more than its words."""
        kind, name, rest = write.kind, new["metadata"]["name"], outcome.rest
        if _stands_in(rest, words) or any(b'"%b\\"' % word in rest for word in words):
            return None  # the same word in a place where it is not cut
        before = b"" if like.found is None else like.found.value
        if len({*_paths_with_uids(before), *_paths_with_uids(_encode(new))}) > 1:
            return None  # owned fields are in the order of their paths
        old = codec.decode(kind, before) if before else None
        operation = UPDATE if before else CREATE
        by_admission = self._admission.follows(write.attributes(operation, kind, name, new, old))
        by_strategy = for_kind(kind).follows(new, old)
        if by_admission is None or by_strategy is None:
            return None
        prefixes = tuple(sorted({followed.prefix for followed in (*by_admission, *by_strategy)}))
        versions = self._reader.versions(prefixes)
        if any((version or 0) > like.revision for version in versions):
            return None  # it changed meanwhile: which of the two the verdict follows from is not known
        left = iter(outcome.words[1:])
        places = [
            words.index(next(left) if hole == _HOLE else name.encode()) for hole in _holes.findall(rest)
        ]
        pieces = codec.HEAD + _holes.sub(b"%b", rest.replace(b"%", b"%%"))
        return _Known(write.user, versions, prefixes, pieces, itemgetter(*places), False)


def _size(sent: _Sent) -> int:
    return sum(len(part) for part in sent[1:])


def _is_json(body: bytes) -> bool:
    """Whether a body can be cut: YAML may hold what looks like a key in other places."""
    try:
        msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return False
    return True
