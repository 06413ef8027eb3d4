"""Grace entries: bound pods tolerate a new taint for some seconds, against controllers with stale caches.

Spec: stock.md 11. Last in the list of a bound pod stands, for each key of an extended toleration, `Exists` against
NoExecute for some seconds. A controller with an older copy of the pod starts a timer instead of deleting it, and the
entry that arrives meanwhile cancels the timer. Where the pod has to be evicted, the barrier sets the seconds to 0
before the taint is written. The seconds are never fewer than those of a timed original on the key. Taint eviction keeps
the first timer that it started, so a shorter one would evict too early. A pending pod never has the entry: it would be
placed and evicted in a loop. An expression names no key; it gets the keys that it has tolerated so far.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from weir.lowering.names import GRACE, marked_hash

Document = dict[str, Any]


def split_grace(tolerations: Sequence[Any]) -> tuple[list[Any], dict[str, int]]:
    """Return *tolerations* without weir's grace entries, and the seconds of these by key.

    >>> split_grace(graced([{"key": "a", "operator": "Exists"}], {"1f": {"key": "sla"}}, 10))
    ([{'key': 'a', 'operator': 'Exists'}], {'sla': 10})
    """
    rest: list[Any] = []
    grace: dict[str, int] = {}
    behind = False
    for entry in tolerations:
        found = entry if isinstance(entry, dict) else {}
        if found.get("key") == GRACE:
            behind = True
        elif behind and _is_grace(found):
            grace[found["key"]] = found["tolerationSeconds"]
        else:
            rest.append(entry)
    return rest, grace


def _is_grace(entry: Mapping[str, Any]) -> bool:
    return (
        bool(entry.get("key"))
        and entry.get("operator") == "Exists"
        and entry.get("effect") == "NoExecute"
        and isinstance(entry.get("tolerationSeconds"), int)
    )


def graced(
    tolerations: Sequence[Document], originals: Mapping[str, Mapping[str, Any]], seconds: int
) -> list[Document]:
    """Return the list of a bound pod with a grace entry of at least *seconds* for every key that needs one."""
    rest, grace = split_grace(tolerations)
    wanted = {
        key: max(seconds, longest)
        for key, longest in _keys(rest, originals).items()
        if not any(_covers(entry, key) for entry in rest)
    }
    return joined(rest, {**dict.fromkeys(grace, seconds), **wanted})


def ended(tolerations: Sequence[Document], keys: Collection[str]) -> list[Document]:
    """Return the list with no time left for these *keys*."""
    rest, grace = split_grace(tolerations)
    return joined(rest, {key: 0 if key in keys else seconds for key, seconds in grace.items()})


def joined(rest: list[Document], grace: Mapping[str, int]) -> list[Document]:
    """Return *rest* with grace entries of these seconds by key; none where the user has the same entry."""
    own = {entry["key"] for entry in rest if _is_grace(entry)}
    entries = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
        for key, seconds in grace.items()
        if key not in own
    ]
    if not entries:
        return rest
    return [*rest, {"key": GRACE, "operator": "Exists"}, *entries]


def _keys(rest: Sequence[Document], originals: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """Return the keys that the originals may tolerate against NoExecute, with the longest time of a timed one."""
    found: dict[str, int] = {}

    def note(key: str, original: Mapping[str, Any]) -> None:
        found[key] = max(found.get(key, 0), original.get("tolerationSeconds") or 0)

    for original in originals.values():
        if original.get("key") and original.get("effect") in (None, "", "NoExecute"):
            note(original["key"], original)
    behind: Mapping[str, Any] | None = None
    for entry in rest:
        key = entry.get("key") or ""
        if hash_ := marked_hash(key):
            behind = originals.get(hash_)
        elif behind is not None and entry.get("operator") == "Equal" and entry.get("effect") == "NoExecute":
            if not behind.get("key"):
                note(key, behind)
        elif entry.get("operator") != "Equal":
            behind = None
    return found


def _covers(entry: Mapping[str, Any], key: str) -> bool:
    """Return whether an entry of the user's tolerates every NoExecute taint with this key."""
    return (
        entry.get("operator") == "Exists"
        and entry.get("key") in (None, "", key)
        and entry.get("effect") in (None, "", "NoExecute")
    )
