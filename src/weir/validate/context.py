"""What does a check know about the write besides the documents?

The gates of the component, the subresource written, the kind's scope, and whether the document comes from the API
server (decoded and defaulted) or straight from a file. Absent defaultable fields mean their default in both.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from weir.gates import Gates


@dataclass(frozen=True, slots=True)
class Context:
    """The circumstances of one write."""

    gates: Gates
    subresource: str = ""
    namespaced: bool = True
    raw: bool = False  #: straight from a file: the namespace and what the server fills in may be absent
    #: written in resource.k8s.io/v1alpha4, which takes names v1 does not, or about what was written so
    relaxed: bool = False


@lru_cache(maxsize=256)
def context_for(
    gates: Gates, subresource: str, namespaced: bool, raw: bool, relaxed: bool = False
) -> Context:
    """Return the context, shared by all writes like this one."""
    return Context(gates, subresource, namespaced, raw, relaxed)
