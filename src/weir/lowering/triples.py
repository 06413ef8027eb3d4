"""Which taints exist? A taint as (key, value, effect): all that a toleration's verdict depends on.

Spec: stock.md 1 and 6. Entries are written for the triples that are known. Those of nodes are known because nodes are
watched and every write of a new one passes the barrier; Kubernetes' own come and go with conditions, past any hook, so
they are known from the beginning.
Not here: which of them a toleration tolerates (weir.lowering.tolerations).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from weir.lowering.webhooks import CONDITION_KEYS
from weir.objects.core import Taint
from weir.taints import wellknown

Document = dict[str, Any]


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


# ── the shared table ─────────────────────────────────────────────────────────────────────────────


def table_key(triple: Triple) -> str:
    """Return the key of *triple* in the ConfigMap of known triples; each has its own, so adding never conflicts."""
    return hashlib.sha256(json.dumps(triple).encode()).hexdigest()[:20]


def table_data(triples: Iterable[Triple], now: str) -> dict[str, str]:
    """Return the ConfigMap data for *triples* last used at *now*."""
    return {table_key(t): json.dumps([*t, now], ensure_ascii=False) for t in triples}


def read_table(config_map: Mapping[str, Any] | None) -> dict[Triple, str]:
    """Return the triples in the ConfigMap with the time each was last used; what is damaged is left out."""
    texts = ((config_map or {}).get("data") or {}).values()
    return {row[0]: row[1] for row in map(_row, texts) if row is not None}


@lru_cache(maxsize=4096)
def _row(text: str) -> tuple[Triple, str] | None:
    """Return one triple of the table and when it was last used: the table is read again and again, its rows stay."""
    try:
        key, value, effect, used = json.loads(text)
    except (ValueError, TypeError):
        return None
    if not all(isinstance(part, str) for part in (key, value, effect, used)):
        return None
    return Triple(key, value, effect), used
