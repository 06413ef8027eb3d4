"""The placeholder container of pods that are only validated and never started.

Used by probes of what a server accepts, and by the operator's sentinel.
"""

from __future__ import annotations

from typing import Any, Final

IMAGE: Final = "registry.k8s.io/pause:3.10"


def never_runs(image: str = IMAGE, **more: Any) -> dict[str, Any]:
    """Return the container; *more* are further fields of it.

    >>> never_runs()
    {'name': 'never-runs', 'image': 'registry.k8s.io/pause:3.10'}
    """
    return {"name": "never-runs", "image": image, **more}
