"""Which words of a JSON text may be others without anything else being different? Names, uids, versions and times.

They stand behind a few known keys, and are cut out of bodies and of what is stored. Nothing in the server looks at
their values but to compare them with each other, as long as they are well formed, which is seen here. Whoever adds a
rule that looks into one of them takes its key out of this list.
What surprises: a text is cut by its keys, wherever they are; a word in another place is part of the rest, and must not
be what a cut one is compared with (`stand_in`).
Not here: what is known of texts with the same rest (.repeated_writes).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final, NamedTuple

from weir.apiserver.registry import codec
from weir.caches import bounded

__all__ = ["Text", "cut_body", "cut_stored", "numbered", "owners", "stand_in", "with_places"]

_UID: Final = rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_TIME: Final = rb"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"
_LABEL: Final = rb"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME: Final = rb"%b(\.%b)*" % (_LABEL, _LABEL)
_PATH_WITH_UID: Final = b'"k:{\\"uid\\":\\"'  # of an owned field
#: What words stand behind, and how those look. All begin with a quote, and quotes inside a string are escaped: wherever
#: one of these is found, it is a key.
_WORDS: Final = {
    b'"uid":"': _UID,
    _PATH_WITH_UID: _UID,
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
_LONGEST_WORD: Final = 63  # a name of a label's length is sound wherever a name may stand
_HOLE: Final = b"\0"  # which no JSON text holds
_OWN_NAME: Final = b'"name":"\1"'
_Z: Final = ord("Z")


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


def _spaced(before: bytes) -> bytes:
    """Return a key as clients write it that put a space behind colons and commas."""
    return before if before == _PATH_WITH_UID else before.replace(b":", b": ").replace(b",", b", ")


def _cutter(before: Iterable[bytes]) -> Callable[[bytes], list[bytes]]:
    """Return what divides a text into text, what precedes a word, the word, text, and so on."""
    return re.compile(rb'(%b)([^"\\]*)(?=\\?")' % b"|".join(map(re.escape, before))).split


_sound: Final[dict[bytes, Callable[[bytes], object]]] = {
    spelt: _is_time if looks is _TIME else re.compile(rb"(?=.{1,%d}$)%b" % (_LONGEST_WORD, looks)).fullmatch
    for before, looks in _WORDS.items()
    for spelt in (before, _spaced(before))
}
_divide_stored, _divide_body = _cutter(_WORDS), _cutter(_sound)
_holes = re.compile(b"[\0\1]")
owners = re.compile(re.escape(_PATH_WITH_UID) + b"(%b)" % _UID).findall
"""The uids in the paths of owned fields."""


class Text(NamedTuple):
    """A text, cut."""

    rest: bytes  #: with holes
    words: list[bytes]


def _cut(pieces: list[bytes]) -> Text | None:
    words = pieces[2::3]
    for before, word in zip(pieces[1::3], words, strict=True):
        if not _sound[before](word):
            return None
    pieces[2::3] = [_HOLE] * len(words)
    return Text(b"".join(pieces), words)


def cut_body(body: bytes) -> Text | None:
    """Cut the words out of a body; None when one of them looks otherwise, or may be hidden by an escape.

    >>> cut_body(b'{"status": {"nominatedNodeName": "n"}}')
    Text(rest=b'{"status": {"nominatedNodeName": "\\x00"}}', words=[b'n'])
    >>> cut_body(b'{"status": {"nominatedNodeName": "N"}}')
    """
    return _cut(_divide_body(body)) if b"\\" not in body else None


def cut_stored(value: bytes, name: str) -> Text | None:
    """Cut the words out of the stored value of the object *name*, first its version; its name has a hole of its own."""
    end = value.index(b'"', codec.STAMP)
    cut = _cut(_divide_stored(value[end:].replace(b'"name":"%b"' % name.encode(), _OWN_NAME, 1)))
    return Text(cut.rest, [value[codec.STAMP : end], *cut.words]) if cut is not None else None


def with_places(stored: Text, name: str) -> tuple[bytes, list[bytes]]:
    """Return a stored value, before it is stamped, as a format with places, and what stands in each of them."""
    left = iter(stored.words[1:])
    standing = [next(left) if hole == _HOLE else name.encode() for hole in _holes.findall(stored.rest)]
    return codec.HEAD + _holes.sub(b"%b", stored.rest.replace(b"%", b"%%")), standing


def stand_in(rest: bytes, words: Iterable[bytes], quotes: bytes = b'"%b"') -> bool:
    """Whether one of *words* is also a text in a place where none is cut."""
    return any(quotes % word in rest for word in words)


def numbered(words: list[bytes]) -> dict[bytes, int]:
    """Give each distinct word a number, first the times from the earliest on.

    >>> numbered([b"a", b"2026-01-01T00:00:02Z", b"b", b"a", b"2026-01-01T00:00:01Z"])
    {b'2026-01-01T00:00:01Z': 0, b'2026-01-01T00:00:02Z': 1, b'a': 2, b'b': 3}
    """
    times = sorted({word for word in words if word[-1] == _Z})
    distinct = {time: number for number, time in enumerate(times)}
    for word in words:
        if word not in distinct:
            distinct[word] = len(distinct)
    return distinct
