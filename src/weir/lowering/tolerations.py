"""Lowering of extended tolerations to entries that an unmodified cluster evaluates.

Spec: stock.md 1, 3, 4, 5. An extended entry becomes a marker; behind it stands one Equal entry for each known triple
that the marker's original is the first to tolerate. Markers are inert, so scheduler and taint eviction find the entry
exactly where the original stood, with its tolerationSeconds. `tolerates` of weir.taints decides; there is no second
matcher. Entries are only ever added, which is all that Kubernetes allows on a living pod.
Where an entry that is already there decides with the same outcome, nothing is added. The second of two originals that
differ only in tolerationSeconds can never be the first to match, and is dropped.
Annotations are users' to write: `read_originals` believes only what lowering itself would have written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from operator import itemgetter
from typing import Any, Final, Self, TypeVar

import msgspec

from weir.caches import bounded
from weir.gates import ALL_FEATURES, EXTENDED, TOLERATION_COMPARISON, Gates
from weir.lowering.grace import joined, split_grace
from weir.lowering.key_entries import changed, opened, split_keys
from weir.lowering.names import REQUIREMENTS, TOLERATIONS, marked_hash, marker_key, toleration_hash
from weir.lowering.requirements import is_original_requirement
from weir.lowering.triples import Triple
from weir.objects.core import Toleration
from weir.taints.operators import find_operator
from weir.taints.toleration import tolerates
from weir.validate.core.tolerations import validate_tolerations
from weir.validate.ratchet import Options

Document = dict[str, Any]
Each = TypeVar("Each")

#: The stock spelling of an expression: this operator, and the expression as value.
CEL: Final = "CEL"
#: The API server compares every entry with every other when a pod is changed.
MOST_ENTRIES: Final = 1000
#: From here on users are warned: the next values may be one too many.
MANY_ENTRIES: Final = MOST_ENTRIES // 2
#: Extended entries of one object, and the text of them: an annotation may be as long as an API server takes.
MOST_ORIGINALS: Final = 256
LONGEST_ANNOTATION: Final = 256 * 1024
_MOST_MATCHED: Final = 64
#: Operators by which every cluster compares; without one it is Equal.
_PLAIN: Final = frozenset({"", "Equal", "Exists"})
#: Lists that are completed once for many pods, and the most bytes of one.
_MOST_COMPLETED: Final = 32
_LONGEST_COMPLETED: Final = 128 * 1024
ENTRY_FIELDS: Final = frozenset({"key", "operator", "value", "effect", "tolerationSeconds"})

#: What an unmodified cluster evaluates itself, without and with its own numeric operators.
_STOCK: Final = ALL_FEATURES.replace(dict.fromkeys(EXTENDED, False))
_STOCK_NUMERIC: Final = _STOCK.replace({TOLERATION_COMPARISON: True})
EVERY_FORM: Final = Options(frozenset(EXTENDED))
MIXED: Final = (
    "operator CEL takes no key and no effect: the expression stands in `value` and reads taint.key, "
    "taint.value and taint.effect"
)


def stock_gates(native_numeric: bool) -> Gates:
    """Return the gates of the cluster itself."""
    return _STOCK_NUMERIC if native_numeric else _STOCK


def is_extended(entry: Mapping[str, Any], native_numeric: bool = False) -> bool:
    """Return whether this entry has to be lowered; `Gt` and `Lt` have not where the cluster has them itself.

    >>> is_extended({"key": "sla", "operator": "Gt", "value": "900"})
    True
    """
    name = entry.get("operator") or ""
    operator = find_operator(name) if isinstance(name, str) else None
    return name == CEL or (operator is not None and operator.needs_lowering(stock_gates(native_numeric)))


def read_entry(entry: Mapping[str, Any]) -> Toleration:
    """Return an entry, in either spelling of expressions, as the toleration that weir.taints judges.

    >>> read_entry({"operator": "CEL", "value": "taint.key == 'a'"}).expression
    "taint.key == 'a'"
    """
    if entry.get("operator") == CEL:
        return Toleration(
            toleration_seconds=entry.get("tolerationSeconds"), expression=entry.get("value") or ""
        )
    return Toleration(
        key=entry.get("key") or "",
        operator=entry.get("operator") or "",
        value=entry.get("value") or "",
        effect=entry.get("effect") or "",
        toleration_seconds=entry.get("tolerationSeconds"),
        expression=entry.get("expression") or "",
    )


def problems(tolerations: Sequence[Mapping[str, Any]], at: str) -> list[str]:
    """Return what a server that knew the extended entries would refuse them for, in its words."""
    found: list[str] = []
    for i, entry in enumerate(tolerations):
        if not is_extended(entry):
            continue
        if entry.get("operator") != CEL:
            errors = validate_tolerations([dict(entry)], at, EVERY_FORM)
            found += [str(error).replace(f"{at}[0]", f"{at}[{i}]") for error in errors]
        elif entry.get("key") or entry.get("effect"):
            found.append(f'{at}[{i}].operator: Invalid value: "CEL": {MIXED}')
        elif not entry.get("value"):
            found.append(f"{at}[{i}].value: Required value: operator CEL needs an expression")
        else:
            found += [f"{at}[{i}].value{text}" for text in _expression_problems(entry["value"])]
    return found


@bounded(256, longest=4096)  # every pod of a workload asks the same
def _expression_problems(expression: str) -> tuple[str, ...]:
    errors = validate_tolerations([{"expression": expression}], "", EVERY_FORM)
    return tuple(str(error).removeprefix("[0].expression") for error in errors)


# ── the annotation ───────────────────────────────────────────────────────────────────────────────


def read_originals(annotations: Mapping[str, Any] | None, name: str = TOLERATIONS) -> dict[str, Document]:
    """Return the originals by hash that the annotation *name* holds.

    What lowering would not have written is left out: another shape or type, what is not extended or not valid, an
    original under another's hash, and what is beyond `MOST_ORIGINALS`.
    """
    text = (annotations or {}).get(name)
    return dict(_read_originals(text, name)) if text and isinstance(text, str) else {}


@bounded(most=256, longest=4096)
def _read_originals(text: str, name: str) -> dict[str, Document]:
    if len(text) > LONGEST_ANNOTATION:
        return {}
    try:
        text.encode()
        originals = json.loads(text, parse_constant=_no_number)
        json.dumps(originals, ensure_ascii=False).encode()  # no lone surrogates behind escapes
    except (ValueError, RecursionError):
        return {}
    if not isinstance(originals, dict):
        return {}
    is_original = is_original_requirement if name == REQUIREMENTS else _is_original_toleration
    first = list(originals.items())[:MOST_ORIGINALS]
    return {hash_: original for hash_, original in first if is_original(hash_, original)}


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


def _is_original_toleration(hash_: str, entry: Any) -> bool:
    """Return whether *entry* is one that lowering would write under *hash_*."""
    if not isinstance(entry, dict) or not entry.keys() <= ENTRY_FIELDS or not is_extended(entry):
        return False
    seconds = entry.get("tolerationSeconds")
    return (
        all(isinstance(entry.get(name, ""), str) for name in ("key", "operator", "value", "effect"))
        and (seconds is None or (type(seconds) is int and abs(seconds) < 1 << 63))
        and toleration_hash(entry) == hash_
        and not problems([entry], "")
    )


def write_originals(originals: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the annotation's text; the same for the same originals."""
    return json.dumps(originals, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


# ── markers ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Marked:
    """A list of tolerations with markers in place of extended entries, and the originals by hash."""

    tolerations: list[Document]
    originals: dict[str, Document]


def mark(
    tolerations: Sequence[Mapping[str, Any]],
    annotations: Mapping[str, Any] | None = None,
    native_numeric: bool = False,
) -> Marked:
    """Return *tolerations* with a marker for each extended entry; markers that are there already stay.

    >>> mark([{"key": "sla", "operator": "Gt", "value": "900"}]).tolerations
    [{'key': 'lowered.weir.dev/x-fdcc9d2b737318a9a2b8', 'operator': 'Exists'}]
    """
    known = read_originals(annotations)
    there = {marked_hash(entry.get("key") or "") for entry in tolerations}
    originals: dict[str, Document] = {}
    marked: list[Document] = []
    written: set[str] = set()
    for entry in tolerations:
        if is_extended(entry, native_numeric):
            hash_ = toleration_hash(entry)
            originals.setdefault(hash_, {name: value for name, value in entry.items() if value is not None})
            entry = {"key": marker_key(hash_), "operator": "Exists"}
            if hash_ in written:
                continue
            written.add(hash_)
        elif hash_ := marked_hash(entry.get("key") or ""):
            if hash_ in written:
                continue
            written.add(hash_)
        marked.append(dict(entry))
    for hash_ in there - set(originals):
        if hash_ in known:
            originals[hash_] = known[hash_]
    return Marked(marked, originals)


# ── entries ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Completed:
    """A pod's tolerations with the entries that were missing."""

    tolerations: list[Document]
    added: tuple[Triple, ...] = ()
    left_out: tuple[Triple, ...] = ()  #: matched, but the list is full


def complete(
    tolerations: Sequence[Document],
    originals: Mapping[str, Mapping[str, Any]],
    triples: Iterable[Triple],
    native_numeric: bool = False,
    *,
    bound: bool = False,
) -> Completed:
    """Return *tolerations* with an Equal entry behind its marker for every one of *triples* that needs it.

    What has no room in the list of a *bound* pod is tolerated by a key entry, until the barrier closes it.

    >>> done = complete(*_lowered([{"key": "sla", "operator": "Gt", "value": "900"}]),
    ...                 [Triple("sla", "950", "NoExecute"), Triple("sla", "800", "NoExecute")])
    >>> done.tolerations[1]
    {'key': 'sla', 'operator': 'Equal', 'value': '950', 'effect': 'NoExecute'}
    """
    if not isinstance(triples, Table):
        return _complete(tolerations, originals, dict.fromkeys(triples), native_numeric, bound)
    matching = triples.matching(originals)
    return triples.completed(
        msgspec.json.encode((tolerations, originals, native_numeric, bound)),
        matching,
        lambda: _complete(tolerations, originals, matching, native_numeric, bound),
    )


def _complete(
    tolerations: Sequence[Document],
    originals: Mapping[str, Mapping[str, Any]],
    matching: Iterable[Triple],
    native_numeric: bool,
    bound: bool,
) -> Completed:
    slots = LoweredList(tolerations, originals, native_numeric)
    added: list[Triple] = []
    left_out: list[Triple] = []
    behind: dict[str, list[Document]] = {}
    beyond: dict[str, int | None] = {}
    room = MOST_ENTRIES - len(tolerations)
    for triple in matching:
        hash_ = slots.needs_entry(triple)
        if not hash_:
            continue
        if len(added) >= room:
            if bound and triple.effect == "NoExecute":
                added.append(triple)
                beyond[triple.key] = slots.read[hash_].toleration_seconds
            else:
                left_out.append(triple)
            continue
        added.append(triple)
        behind.setdefault(hash_, []).append(entry_for(triple, slots.read[hash_]))
    if not added:
        return Completed(list(tolerations), (), tuple(left_out))
    result: list[Document] = []
    for entry in tolerations:
        result.append(entry)
        result += behind.pop(marked_hash(entry.get("key") or ""), ())
    for key, seconds in beyond.items():
        result = opened(result, key, seconds)
    return Completed(result, tuple(added), tuple(left_out))


def as_equal(tolerations: Sequence[Mapping[str, Any]], triples: Iterable[Triple]) -> list[Document]:
    """Return *tolerations* with an Equal entry for every one of *triples* in place of extended ones.

    >>> as_equal([{"key": "sla", "operator": "Gt", "value": "900"}], [Triple("sla", "950", "NoSchedule")])
    [{'key': 'sla', 'operator': 'Equal', 'value': '950', 'effect': 'NoSchedule'}]
    """
    done = complete(*_lowered(tolerations), triples)
    return [entry for entry in done.tolerations if not marked_hash(entry.get("key") or "")]


def needed(
    tolerations: Sequence[Document],
    originals: Mapping[str, Mapping[str, Any]],
    triples: Iterable[Triple],
    native_numeric: bool = False,
) -> tuple[Triple, ...]:
    """Return which of *triples* the pod tolerates by an extended original and has no entry for."""
    slots = LoweredList(tolerations, originals, native_numeric)
    return tuple(triple for triple in _each(triples, originals) if slots.needs_entry(triple))


def entry_for(triple: Triple, original: Toleration) -> Document:
    """Return the entry that says to a stock cluster what *original* says about *triple*."""
    entry: Document = {"key": triple.key, "operator": "Equal", "value": triple.value, "effect": triple.effect}
    if not triple.value:
        del entry["value"]
    if triple.effect == "NoExecute" and original.toleration_seconds is not None:
        entry["tolerationSeconds"] = original.toleration_seconds
    return entry


class Table(tuple[Triple, ...]):
    """The triples that exist. What a set of originals tolerates of them is worked out once for all their pods."""

    #: What was found by hashes of originals, and for how many triples; shared with tables that have more of them.
    _matching: dict[tuple[str, ...], tuple[int, Table]]
    #: What lists were completed to by which of the tables of `_matching`.
    _completed: dict[bytes, tuple[Table, Completed]]

    def __new__(cls, triples: Iterable[Triple] = (), before: Table | None = None) -> Self:
        """Return a table of *triples*; where these begin with all *before*, only the others are judged."""
        made = super().__new__(cls, triples)
        made._matching = {} if before is None else before._matching
        made._completed = {} if before is None else before._completed
        return made

    def matching(self, originals: Mapping[str, Mapping[str, Any]]) -> Table:
        """Return those that one of *originals*, by hash, tolerates: the same object while these are the same."""
        hashes = tuple(originals)
        found = self._matching.get(hashes)
        judged, matching = (0, None) if found is None or found[0] > len(self) else found
        if matching is not None and judged == len(self):
            return matching
        read: dict[str, list[Toleration]] = {}
        for entry in map(read_entry, originals.values()):
            read.setdefault(_key_of(entry), []).append(entry)
        new = [
            each for each in self[judged:] if any(_verdict(entry, each) for entry in _of_key(read, each.key))
        ]
        if new or matching is None:
            matching = Table((*(matching or ()), *new))
            matching._matching[hashes] = len(matching), matching
        while len(self._matching) >= _MOST_MATCHED and hashes not in self._matching:
            self._matching.pop(next(iter(self._matching)), None)
        self._matching[hashes] = len(self), matching
        return matching

    def completed(self, pod: bytes, matching: Table, complete: Callable[[], Completed]) -> Completed:
        """Return what *complete* gives for what a *pod* says; for pods of one workload that is done once."""
        found = self._completed.get(pod)
        if found is not None and found[0] is matching:
            return found[1]
        completed = complete()
        if len(pod) <= _LONGEST_COMPLETED:
            self._completed.pop(pod, None)
            self._completed[pod] = matching, completed
            while len(self._completed) > _MOST_COMPLETED:
                self._completed.pop(next(iter(self._completed)), None)
        return completed


def _key_of(original: Toleration) -> str:
    """Return the key that a taint must have for *original*, "" for any."""
    return "" if original.expression else original.key


def _of_key(found: Mapping[str, list[Each]], key: str) -> list[Each]:
    """Return what is *found* for taints with *key*."""
    return [*found.get(key, ()), *(found.get("", ()) if key else ())]


def _each(triples: Iterable[Triple], originals: Mapping[str, Mapping[str, Any]]) -> Iterable[Triple]:
    return triples.matching(originals) if isinstance(triples, Table) else dict.fromkeys(triples)


def extended_verdict(originals: Iterable[Mapping[str, Any]], triple: Triple) -> bool:
    """Return whether one of the extended *originals* tolerates *triple*."""
    return any(_verdict(read_entry(entry), triple) for entry in originals)


def _verdict(original: Toleration, triple: Triple) -> bool:
    """Return whether *original* tolerates *triple*; for how long it does so makes no difference."""
    return _judge(
        original.key, original.operator, original.value, original.effect, original.expression, triple
    )


@bounded(32_768, longest=768)  # every pod of a workload asks the same
def _judge(key: str, operator: str, value: str, effect: str, expression: str, triple: Triple) -> bool:
    original = Toleration(key, operator, value, effect, expression=expression)
    return bool(tolerates(original, triple.taint, ALL_FEATURES))


class LoweredList:
    """A lowered list, ready to be asked about triples: what decides for weir, and what for the cluster itself."""

    def __init__(
        self,
        tolerations: Sequence[Document],
        originals: Mapping[str, Mapping[str, Any]],
        native_numeric: bool = False,
    ) -> None:
        self._gates = stock_gates(native_numeric)
        self.read = {hash_: read_entry(entry) for hash_, entry in originals.items()}
        #: Places in the list by what a taint has to match, so that a long list is not read for every triple: markers
        #: by key, `Equal` and `Exists` (value None) by key, value and effect, others by key and effect; "" is any.
        self._markers: dict[str, list[tuple[int, str]]] = {}
        self._first: dict[tuple[str, str | None, str], tuple[int, Toleration]] = {}
        self._compared: dict[tuple[str, str], list[tuple[int, Toleration]]] = {}
        rest, self.grace = split_grace(tolerations)
        rest, self.keys = split_keys(rest)
        for i, entry in enumerate(rest):
            if hash_ := marked_hash(entry.get("key") or ""):
                if hash_ in self.read:
                    self._markers.setdefault(_key_of(self.read[hash_]), []).append((i, hash_))
                continue
            read = read_entry(entry)
            if read.expression:
                continue  # the cluster knows none
            if read.operator in _PLAIN:
                value = None if read.operator == "Exists" else read.value
                self._first.setdefault((read.key, value, read.effect), (i, read))
            else:
                self._compared.setdefault((read.key, read.effect), []).append((i, read))

    def needs_entry(self, triple: Triple) -> str:
        """Return the hash of the marker that *triple* needs an entry behind, or ""."""
        marker = self._marker(triple)
        if marker is None:
            return ""
        wanted = self.read[marker[1]].toleration_seconds if triple.effect == "NoExecute" else None
        decides = self._decides(triple)
        if decides is None:
            place = (triple.key, triple.effect)
            return "" if place in self.keys and self.keys[place] == wanted else marker[1]
        at, seconds = decides
        if at < marker[0]:
            return ""
        return "" if triple.effect != "NoExecute" or seconds == wanted else marker[1]

    def tolerates(self, triple: Triple) -> bool:
        """Return whether its author's entries tolerate *triple*, for ever or for a time."""
        return self._marker(triple) is not None or self._decides(triple) is not None

    def overstays(self, evicting: Iterable[Triple], *, grace: bool) -> set[str]:
        """Return the keys for which a key entry, or *grace*, tolerates one of *evicting* and the author does not."""
        return {
            each.key
            for each in evicting
            if ((grace and self.grace.get(each.key)) or self.keys.get((each.key, "NoExecute"), 0) != 0)
            and not self.tolerates(each)
        }

    def _marker(self, triple: Triple) -> tuple[int, str] | None:
        """Return place and hash of the first marker whose original tolerates *triple*."""
        places = _of_key(self._markers, triple.key)
        return next((each for each in sorted(places) if _verdict(self.read[each[1]], triple)), None)

    def _decides(self, triple: Triple) -> tuple[int, int | None] | None:
        """Return place and seconds of the first entry that the cluster itself finds to tolerate *triple*."""
        fits = product((triple.key, ""), (triple.value, None), (triple.effect, ""))
        entries = [self._first[each] for each in fits if each in self._first]
        if self._compared:
            for each in product((triple.key, ""), (triple.effect, "")):
                entries += self._compared.get(each, ())
        entries.sort(key=itemgetter(0))
        return next(
            (
                (i, entry.toleration_seconds)
                for i, entry in entries
                if tolerates(entry, triple.taint, self._gates)
            ),
            None,
        )


def _lowered(tolerations: Sequence[Mapping[str, Any]]) -> tuple[list[Document], dict[str, Document]]:
    marked = mark(tolerations)
    return marked.tolerations, marked.originals


# ── updates ──────────────────────────────────────────────────────────────────────────────────────


def unite(
    new: Sequence[Document], old: Sequence[Document], originals: Mapping[str, Mapping[str, Any]]
) -> list[Document]:
    """Return the marked list *new* with the entries that stood behind its markers in the stored list *old*.

    An entry of the user's that *new* lacks is not brought back: the server refuses its removal, as it always does.
    tolerationSeconds follow the new originals.
    """
    read = {hash_: read_entry(entry) for hash_, entry in originals.items()}
    there = {_identity(entry) for entry in new}
    behind: dict[str, list[Document]] = {}
    hash_ = ""
    for entry in old:
        key = entry.get("key") or ""
        if found := marked_hash(key):
            hash_ = found if found in read else ""
            continue
        triple = Triple(key, entry.get("value") or "", entry.get("effect") or "")
        if (
            not hash_
            or entry.get("operator") != "Equal"
            or not tolerates(read[hash_], triple.taint, ALL_FEATURES)
        ):
            hash_ = ""
            continue
        if _identity(entry) not in there:
            behind.setdefault(hash_, []).append(entry_for(triple, read[hash_]))
    result: list[Document] = []
    for entry in new:
        result.append(entry)
        result += behind.pop(marked_hash(entry.get("key") or ""), ())
    rest, grace = split_grace(result)
    before, stored = split_grace(old)
    kept = changed(rest, split_keys(before)[1])
    return joined(kept, {key: grace.get(key, seconds) for key, seconds in stored.items()})


def _identity(entry: Mapping[str, Any]) -> tuple[str, str, str, str]:
    return (
        entry.get("key") or "",
        entry.get("operator") or "Equal",
        entry.get("value") or "",
        entry.get("effect") or "",
    )
