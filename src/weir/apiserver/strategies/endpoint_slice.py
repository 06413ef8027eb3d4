"""Strategy of EndpointSlice: what its generation counts."""

from __future__ import annotations

from weir.apiserver.strategies.strategy import Document, Strategy


class EndpointSliceStrategy(Strategy):
    """EndpointSlices count changed labels too, because labels say which service they belong to."""

    def counts(self, new: Document, old: Document) -> bool:
        """Return whether the addresses or the labels changed."""
        return super().counts(new, old) or (new["metadata"].get("labels") or {}) != (
            old["metadata"].get("labels") or {}
        )
