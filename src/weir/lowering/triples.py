"""Taint triples (key, value, effect): all that a toleration's verdict depends on, and the table of those that exist.

Spec: stock.md 1 and 6. Entries are written for the triples that are known. Those of nodes are known because nodes are
watched and every write of a new one passes the barrier; Kubernetes' own come and go with conditions, past any hook, so
they are known from the beginning.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from weir.lowering.names import PARTS
from weir.lowering.webhooks import CONDITION_KEYS
from weir.objects.core import Taint
from weir.taints import wellknown
from weir.taints.notation import NODE_EFFECTS
from weir.values.names import check_label_key, check_label_value

Document = dict[str, Any]


_LONGEST: Final = 512  # longer than any key or value that is valid: looked at first
#: One part of the table: below what a ConfigMap takes (1 MiB), with room for whatever else somebody keeps there.
MOST_ROWS: Final = 10_000
MOST_TABLE_BYTES: Final = 900_000
MOST_PARTS: Final = 10
_LONGEST_ROW: Final = 1024
_MOST_LISTED: Final = 5


class Triple(NamedTuple):
    """A taint without the time at which it was added.

    >>> str(Triple("sla", "950", "NoExecute"))
    'sla=950:NoExecute'
    """

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return str(self.taint)

    @property
    def taint(self) -> Taint:
        return Taint(self.key, self.value, self.effect)

    @property
    def conditional(self) -> bool:
        """Whether it is one of Kubernetes' own, which no barrier is told of."""
        return self.key in CONDITION_KEYS

    @property
    def valid(self) -> bool:
        """Whether an API server takes it: the form and length of key and value, and the effect."""
        return (
            self.effect in NODE_EFFECTS
            and max(len(self.key), len(self.value)) <= _LONGEST
            and not check_label_key(self.key)
            and not check_label_value(self.value)
        )


#: Kubernetes' own, for conditions and cordons, and the one people set when a node will not come back.
WELL_KNOWN: Final = (
    *(Triple(key, "", effect) for key in CONDITION_KEYS[:-1] for effect in ("NoSchedule", "NoExecute")),
    *(Triple(wellknown.OUT_OF_SERVICE, value, "NoExecute") for value in ("", "nodeshutdown")),
)


def triples_of(node: Mapping[str, Any] | None) -> tuple[Triple, ...]:
    """Return the triples of a Node document, in its order.

    >>> triples_of({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}})
    (Triple(key='a', value='', effect='NoSchedule'),)
    """
    taints = ((node or {}).get("spec") or {}).get("taints") or ()
    return tuple(Triple(t.get("key") or "", t.get("value") or "", t.get("effect") or "") for t in taints)


def new_triples(new: Mapping[str, Any], old: Mapping[str, Any] | None) -> tuple[Triple, ...]:
    """Return the triples that a write brings to a node: those the match condition of the barrier is about."""
    before = set(triples_of(old))
    return tuple(triple for triple in triples_of(new) if triple not in before and not triple.conditional)


def listed(triples: Sequence[Triple]) -> str:
    """Return the first few of *triples* in words, and how many more there are."""
    shown = ", ".join(map(str, triples[:_MOST_LISTED]))
    return f"{shown} and {len(triples) - _MOST_LISTED} more" if len(triples) > _MOST_LISTED else shown


# ── the shared table ─────────────────────────────────────────────────────────────────────────────


def table_key(triple: Triple) -> str:
    """Return the key of *triple* in the ConfigMap of known triples; each has its own, so adding never conflicts."""
    return hashlib.sha256(json.dumps(triple).encode()).hexdigest()[:20]


def table_data(triples: Iterable[Triple], now: str) -> dict[str, str]:
    """Return the ConfigMap data for *triples* last used at *now*."""
    return {table_key(t): json.dumps([*t, now], ensure_ascii=False) for t in triples}


class Row(NamedTuple):
    """One row of the table as it stands in the ConfigMap."""

    text: str
    triple: Triple
    used: str
    size: int


def read_rows(config_map: Mapping[str, Any] | None, before: Mapping[str, Row]) -> dict[str, Row]:
    """Return the rows of the ConfigMap by their key; those of *before* that stand there unchanged are not read again.

    What is damaged, or stands under another key than its own, is left out, and so is what is beyond `MOST_ROWS`.
    """
    rows: dict[str, Row] = {}
    for key, text in ((config_map or {}).get("data") or {}).items():
        row = before.get(key)
        if row is None or row.text != text:
            row = _row(text) if len(text) <= _LONGEST_ROW else None
            if row is None or table_key(row.triple) != key:
                continue
        if len(rows) < MOST_ROWS:
            rows[key] = row
    return rows


def part_count(first: Mapping[str, Any] | None) -> int:
    """Return how many ConfigMaps the table has, by the *first* of them."""
    annotations = ((first or {}).get("metadata") or {}).get("annotations") or {}
    text = annotations.get(PARTS) or ""
    return min(int(text), MOST_PARTS) if text.isdecimal() and len(text) <= 2 and int(text) else 1


def row_bytes(triple: Triple) -> int:
    """Return how many bytes of the ConfigMap a triple takes, at most."""
    return 80 + len(json.dumps(triple).encode())


def _row(text: str) -> Row | None:
    try:
        key, value, effect, used = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None
    if not all(isinstance(part, str) for part in (key, value, effect, used)):
        return None
    triple = Triple(key, value, effect)
    return Row(text, triple, used, row_bytes(triple)) if triple.valid else None
