"""Rules of pods with key entries: which nodes they may be placed on.

Spec: stock.md 8. A pod that tolerates more values of a key than its list should hold says `Exists` for the key
(weir.lowering.key_entries), and a node selector on a label of its tolerations says which nodes are meant. A node
carries the label while they tolerate every taint of these keys on it; it is set in the write that changes the taints.
That is what NoSchedule asks: pods are kept away, and running ones stay.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from weir.caches import bounded
from weir.gates import ALL_FEATURES
from weir.lowering.key_entries import JUDGED, KeyEntries
from weir.lowering.names import tolerations_label
from weir.lowering.tolerations import (
    CEL,
    ENTRY_FIELDS,
    LONGEST_ANNOTATION,
    MOST_ORIGINALS,
    problems,
    read_entry,
)
from weir.lowering.triples import Triple
from weir.objects.core import Toleration
from weir.taints.toleration import find_tolerating

Document = dict[str, Any]

#: A new pod whose list would be longer says some of its keys as a whole; the rest is for values that come later.
MOST_VALUES: Final = 800
#: Distinct rules of a cluster that have labels: every node carries one for each that it satisfies.
MOST_RULES: Final = 256
#: Key entries in place of fewer values shorten nothing.
FEWEST_VALUES: Final = 4
_MOST_KEYS: Final = 64


class KeyRule(NamedTuple):
    """Nodes whose taints with these keys are tolerated, and the label that they carry."""

    label: str
    keys: frozenset[str]
    tolerations: tuple[Toleration, ...]
    entries: list[Document]

    def allows(self, triples: Iterable[Triple]) -> bool:
        """Return whether a node with *triples* carries the label."""
        return all(
            find_tolerating(self.tolerations, triple.taint, ALL_FEATURES) is not None
            for triple in triples
            if triple.key in self.keys and triple.effect in JUDGED
        )


def write_rule(keys: Collection[str], tolerations: Iterable[Mapping[str, Any]]) -> str:
    """Return the annotation of a pod: the keys that it says as a whole, and its own tolerations that concern them."""
    return _text({"keys": sorted(keys), "tolerations": [e for e in tolerations if _concerns(e, keys)]})


def _text(rule: Any) -> str:
    return json.dumps(rule, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _concerns(entry: Mapping[str, Any], keys: Collection[str]) -> bool:
    return entry.get("operator") == CEL or not entry.get("key") or entry["key"] in keys


@bounded(most=256, longest=4096)
def read_rule(text: str) -> KeyRule | None:
    """Return the rule that an annotation holds, or None for what lowering would not have written."""
    try:
        text.encode()
        rule: Any = json.loads(text) if len(text) <= LONGEST_ANNOTATION else None
        keys, entries = rule["keys"], rule["tolerations"]
        if _text(rule) != text or not _are_keys(keys) or not _are_entries(entries):
            return None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return KeyRule(tolerations_label(rule), frozenset(keys), tuple(map(read_entry, entries)), entries)


def _are_keys(keys: Any) -> bool:
    return (
        isinstance(keys, list) and 0 < len(keys) <= _MOST_KEYS and all(isinstance(key, str) for key in keys)
    )


def _are_entries(entries: Any) -> bool:
    if not isinstance(entries, list) or len(entries) > 2 * MOST_ORIGINALS:
        return False
    return all(map(_is_entry, entries)) and not problems(entries, "")


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, dict) or not entry.keys() <= ENTRY_FIELDS:
        return False
    seconds = entry.get("tolerationSeconds")
    return all(isinstance(entry.get(name, ""), str) for name in ENTRY_FIELDS - {"tolerationSeconds"}) and (
        seconds is None or (type(seconds) is int and abs(seconds) < 1 << 63)
    )


def pod_rule(node_selector: Mapping[str, Any] | None, annotation: object) -> KeyRule | None:
    """Return the rule of a pod whose node selector names its label; a label alone says nothing."""
    rule = read_rule(annotation) if annotation and isinstance(annotation, str) else None
    return rule if rule is not None and rule.label in (node_selector or ()) else None


def crowded_keys(
    length: int, added: Iterable[Triple], originals: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Return the keys, those with most values first, to be said as a whole so that a list is short enough.

    The list has *length* entries, one for each triple that was *added* among them. A key whose originals differ in
    tolerationSeconds keeps its values: one entry cannot say both.
    """
    values = Counter(triple.key for triple in added if triple.effect in JUDGED and not triple.conditional)
    chosen: list[str] = []
    for key, number in values.most_common(_MOST_KEYS):
        if length <= MOST_VALUES:
            break
        if number >= FEWEST_VALUES and len(_evicting_seconds(key, originals)) <= 1:
            chosen.append(key)
            length -= number
    return chosen


def key_entries(keys: Iterable[str], originals: Mapping[str, Mapping[str, Any]]) -> KeyEntries:
    """Return an entry for each of *keys* and each effect that the originals may tolerate."""
    there: KeyEntries = {}
    for key in keys:
        effects = {entry.get("effect") or "" for entry in originals.values() if _concerns(entry, (key,))}
        for effect in JUDGED:
            if effects & {"", effect}:
                seconds = _evicting_seconds(key, originals) if effect == "NoExecute" else {None}
                there[key, effect] = next(iter(seconds))
    return there


def _evicting_seconds(key: str, originals: Mapping[str, Mapping[str, Any]]) -> set[int | None]:
    """Return how long the originals that concern *key* tolerate a NoExecute taint."""
    return {
        entry.get("tolerationSeconds")
        for entry in originals.values()
        if _concerns(entry, (key,)) and entry.get("effect") in (None, "", "NoExecute")
    }
