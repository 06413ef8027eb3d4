"""Key entries: one `Exists` for a whole key in place of an entry for each of its values.

Spec: stock.md 8, whose form for DaemonSets this is. They stand last in the list, behind a mark of their own, so that
every other entry decides before them; only grace entries follow. Against NoSchedule, nodes are chosen by a label
(weir.lowering.key_rules). Against NoExecute a key entry has the seconds of the original, and where a taint comes that
the pod does not tolerate, the barrier sets them to 0 before that taint is stored. The list then gets entries for
the taints that the node has otherwise, as any other list. A bound pod is scheduled no more and needs no label: key
entries take what has no room in its list.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from weir.lowering.grace import joined, split_grace
from weir.lowering.names import KEY_ENTRIES

Document = dict[str, Any]

#: The effects that key entries are written for; PreferNoSchedule is only counted, and keeps its values.
JUDGED: Final = ("NoSchedule", "NoExecute")
#: Seconds by key and effect; None is for ever.
KeyEntries = dict[tuple[str, str], int | None]


def split_keys(tolerations: Sequence[Any]) -> tuple[list[Any], KeyEntries]:
    """Return a list without grace entries as what its author and lowering wrote, and its key entries.

    >>> split_keys(opened([{"key": "a", "operator": "Exists"}], "sla", None))
    ([{'key': 'a', 'operator': 'Exists'}], {('sla', 'NoExecute'): None})
    """
    rest: list[Any] = []
    there: KeyEntries = {}
    behind = False
    for entry in tolerations:
        each = entry if isinstance(entry, dict) else {}
        place = (each.get("key") or "", each.get("effect") or "")
        if place[0] == KEY_ENTRIES:
            behind = True
        elif (
            behind
            and each.get("operator") == "Exists"
            and place[0]
            and place[1] in JUDGED
            and place not in there
        ):
            there[place] = each.get("tolerationSeconds")
        else:
            behind = False
            rest.append(entry)
    return rest, there


def with_key_entries(rest: Sequence[Document], there: KeyEntries) -> list[Document]:
    """Return *rest* with these key entries."""
    result = list(rest)
    if there:
        result.append({"key": KEY_ENTRIES, "operator": "Exists"})
    for (key, effect), seconds in there.items():
        entry: Document = {"key": key, "operator": "Exists", "effect": effect}
        result.append(entry if seconds is None else {**entry, "tolerationSeconds": seconds})
    return result


def changed(tolerations: Sequence[Document], entries: Mapping[tuple[str, str], int | None]) -> list[Document]:
    """Return a whole list with these key entries beside, or in place of, those that it has."""
    rest, grace = split_grace(tolerations)
    rest, there = split_keys(rest)
    return joined(with_key_entries(rest, there | dict(entries)), grace)


def opened(tolerations: Sequence[Document], key: str, seconds: int | None) -> list[Document]:
    """Return the list of a bound pod that tolerates every value of *key* against NoExecute until it is `closed`."""
    return changed(tolerations, {(key, "NoExecute"): seconds})


def closed(tolerations: Sequence[Document], keys: Collection[str]) -> list[Document]:
    """Return the list with no time left for NoExecute taints with these *keys* that only a key entry tolerates."""
    there = split_keys(split_grace(tolerations)[0])[1]
    return changed(tolerations, {place: 0 for place in there if place[0] in keys and place[1] == "NoExecute"})
