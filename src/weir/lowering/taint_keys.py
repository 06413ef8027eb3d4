"""Keys of taints that extended tolerations may tolerate.

Spec: stock.md 9. A write of a taint with another key cannot concern a pod, whatever its value is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from weir.caches import bounded
from weir.cel.errors import CompileError
from weir.lowering.tolerations import is_extended, read_entry
from weir.taints.expression import keys_named

#: None is every key.
Keys = frozenset[str] | None
NONE: Final[frozenset[str]] = frozenset()


def keys_of(tolerations: Iterable[Mapping[str, Any]]) -> Keys:
    """Return the keys of taints that the extended ones of *tolerations* may tolerate.

    >>> sorted(keys_of([{"key": "sla", "operator": "Gt", "value": "9"}, {"key": "plain", "operator": "Exists"}]) or ())
    ['sla']
    """
    found: Keys = NONE
    for entry in filter(is_extended, tolerations):
        read = read_entry(entry)
        found = union(found, _named(read.expression) if read.expression else frozenset({read.key}))
    return found


@bounded(512, longest=1024)
def _named(expression: str) -> Keys:
    try:
        return keys_named(expression)
    except CompileError:
        return NONE  # tolerates nothing


def union(one: Keys, other: Keys) -> Keys:
    """Return the keys of both."""
    return None if one is None or other is None else one | other
