"""Context of a validation: gates, subresource, scope, and whether the document was defaulted by the API server.

In a document from a file, absent defaultable fields mean their default.
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
