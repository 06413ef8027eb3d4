"""Width of a request: one seat; a list one per hundred objects, up to ten.

As upstream's estimate: a list by name is a get, one with a limit reads at most twice that, one with a selector reads
everything. A watch with initial events counts like a list. Unlike upstream, writes are not wider by the watches they
wake.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from typing import Final

from weir.apiserver.flowcontrol.classify import Info
from weir.objects.kind import Kind

__all__ = ["width_of"]

OBJECTS_A_SEAT: Final = 100
MOST_SEATS: Final = 10


def width_of(
    info: Info, kind: Kind | None, name: str, params: Mapping[str, str], count: Callable[[str], int]
) -> int:
    """Return the seats of a request; *count* says how many objects there are under a prefix of the store."""
    verb = info.verb
    if (verb != "list" and verb != "watch") or kind is None or not kind.stored or name:
        return 1
    later = params.get("resourceVersion", "0") not in ("", "0")
    if verb == "watch" and later and params.get("sendInitialEvents") not in ("true", "1"):
        return 1
    under = f"{kind.prefix}{info.namespace}/" if info.namespace and kind.namespaced else kind.prefix
    found = count(under)
    looked_at = found
    limit = params.get("limit", "")
    selects = params.get("labelSelector") or params.get("fieldSelector")
    if not selects and limit.isascii() and limit.isdecimal() and len(limit) < 10 and int(limit):
        looked_at = min(found, 2 * int(limit))
    return min(max(1, ceil(looked_at / OBJECTS_A_SEAT)), MOST_SEATS)
