"""Sort order of API versions: `v10`, `v2beta1`, `foo`."""

from __future__ import annotations

import re
from typing import Final

_KUBE_LIKE: Final = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")
_STAGES: Final = {"alpha": 0, "beta": 1, None: 2}


def kube_version_order(version: str) -> tuple[int, int, int, int, tuple[int, ...]]:
    """Return what sorts versions from the oldest to the newest; others than Kubernetes' come first, in reverse.

    >>> sorted(["foo1", "v1", "v11alpha2", "v10", "v3beta1", "foo10", "v10beta3"], key=kube_version_order)
    ['foo10', 'foo1', 'v11alpha2', 'v3beta1', 'v10beta3', 'v1', 'v10']
    """
    found = _KUBE_LIKE.fullmatch(version)
    if found is None:
        return 0, 0, 0, 0, (*(-ord(char) for char in version), 0)
    return 1, _STAGES[found[2]], int(found[1]), int(found[3] or 0), ()
