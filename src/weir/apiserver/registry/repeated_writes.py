"""Which patches and claims are like one before, but for a few words? What is stored is known, but for those words.

Controllers and the scheduler say the same thing about one pod after the other: this is its claim, this its node, this
device is reserved. What such a write makes follows from its body, from what is stored, from who sends it, from the
time, and from the objects that admission and the kind's own rules look at. While none of those has changed but for
names, uids, versions and times, neither has the outcome: this module keeps it with holes in place of those words.
Nothing looks at a word but to compare it with others: which are the same, and which time is later, is part of what is
known.
What surprises: an outcome is used from the fourth write of its kind on. The first shows that a body comes again, the
second is learnt, and the third, which has other words, has to come out as foretold.
Plain definition: `Verbs.change` and `Verbs.create_document` in weir.apiserver.registry.verbs, which the first writes of
a kind go through; tests/property/test_repeated_writes.py holds them together. Pays 2 to 2.7 times: such a write takes
85 to 110 µs of CPU instead of 180 to 290, without transport and disk.
Not here: which words those are (.cut_words), new pods (.repeated_pods), what a patch does (weir.apiserver.patches).
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any, Final, NamedTuple

import msgspec

from weir.apiserver.admission.attributes import CREATE, UPDATE
from weir.apiserver.auth.authn import User
from weir.apiserver.registry import codec
from weir.apiserver.registry.cut_words import (
    Text,
    cut_body,
    cut_stored,
    numbered,
    owners,
    stand_in,
    with_places,
)
from weir.apiserver.registry.memory import Memory
from weir.apiserver.registry.pod_spec_cache import LARGEST_BYTES
from weir.apiserver.registry.repeated_pods import KnownVerdicts
from weir.apiserver.registry.write_request import WriteRequest
from weir.apiserver.strategies import for_kind
from weir.apiserver.transport.http import Request
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
_GENERATED: Final = b'"generateName":"'
_DASH: Final = ord("-")
_TRIES: Final = 32  # to learn takes as long as to write
_encode = msgspec.json.Encoder().encode


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
        stored = cut_stored(found.value, name)
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
    ) -> tuple[_Sent, Text] | None:
        """Return what was sent if it came before, but for its words."""
        query = request.query
        cut = cut_body(request.body) if request.turn is None and "dryRun" not in query else None
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
        self, asked: _Sent, sent: Text, found: KeyValue | None, rest: bytes, more: list[bytes], user: User
    ) -> Like | None:
        words = [*sent.words, *more]
        distinct = numbered(words)
        if stand_in(sent.rest, distinct):
            return None  # what a word is compared with may stand where none is cut, for the order of fields is free
        key = (asked, rest, tuple(map(distinct.__getitem__, words)))
        known = self._known(key, user)
        if known is None:
            return None
        return Like(key, found, list(distinct), self._reader.revision, known)

    def _known(self, key: _Key, user: User) -> _Known | None:
        """Return the write of this kind as far as it still holds; None when one did not come out as foretold."""
        known = self._writes.known.get(key, _NEVER_SEEN)
        if known is None:
            return None
        holds = known.versions == self._reader.versions(known.prefixes) and (
            known.user is user or known.user == user
        )
        return known if holds else _NEVER_SEEN

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
        known = self._known(like.key, write.user)  # of a crowd at once, the first are enough
        if known is None or known.is_proven:
            return
        if asked in self._tries.known:
            self._tries.known[asked] -= 1
        if write.warnings or (found is not None and write.replaced != found.mod_revision):
            return  # something is to be said, or another write came between
        value = b"{" + shown[len(kind.opening) :]
        new = codec.decode(kind, value)
        words, name = like.words, new["metadata"]["name"]
        if found is None:
            if name.encode() in body:
                return  # the client named it
            words = [*words, new["metadata"]["uid"].encode(), name.encode()]
        outcome = cut_stored(value, name)
        if outcome is None or not {*outcome.words[1:]} <= {*words} or not _is_json(body):
            return  # a word that comes from elsewhere: the next second, perhaps
        if known is _NEVER_SEEN:
            known = self._learnt(like, write, words, new, outcome)
            if known is None:
                return
        elif codec.unstamped(value) == known.made(words):
            known = known._replace(is_proven=True)
        else:
            known = None  # something looks at the words
        rest = like.key[1]
        size = _size(asked) + len(rest) + (len(known.pieces) if known is not None else 0)
        self._writes.learn(like.key, known, size)

    def _learnt(
        self, like: Like, write: WriteRequest, words: list[bytes], new: Document, outcome: Text
    ) -> _Known | None:
        """Return the outcome of a write with holes; None when it follows from more than its words."""
        kind, name, rest = write.kind, new["metadata"]["name"], outcome.rest
        if stand_in(rest, words) or stand_in(rest, words, b'"%b\\"'):
            return None  # the same word in a place where it is not cut, perhaps in the path of an owned field
        before = b"" if like.found is None else like.found.value
        if len({*owners(before), *owners(_encode(new))}) > 1:
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
        pieces, standing = with_places(outcome, name)
        fill = itemgetter(*map(words.index, standing))
        return _Known(write.user, versions, prefixes, pieces, fill, False)


def _size(sent: _Sent) -> int:
    return sum(len(part) for part in sent[1:])


def _is_json(body: bytes) -> bool:
    """Whether a body can be cut: YAML may hold what looks like a key in other places."""
    try:
        msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return False
    return True
