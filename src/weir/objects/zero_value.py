"""Zero value of a kind.

Spec: apiserver.md 10.2 "Events": a BOOKMARK carries the zero value of its kind. Fields that are always printed have
their empty value, everything else is absent.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from weir.objects.document import KindRow, root_of
from weir.objects.strict_decoder import printed

__all__ = ["zero"]


@cache
def zero(kind: KindRow) -> dict[str, Any]:
    """Return the fields an empty object of *kind* prints besides kind, apiVersion and metadata; do not change them.

    >>> from weir.objects.kinds import by_kind
    >>> zero(by_kind("v1", "Pod"))
    {'spec': {'containers': None}, 'status': {}}
    """
    return {key: value for key, value in printed({}, root_of(kind)).items() if key != "metadata"}
