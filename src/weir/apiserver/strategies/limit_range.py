"""Strategy of LimitRange: generates a name for one without."""

from __future__ import annotations

from weir.apiserver.strategies.strategy import Context, Document, Strategy
from weir.objects.kind import Kind


class LimitRangeStrategy(Strategy):
    """LimitRanges may come without a name, as they could from the first."""

    def prepare_create(self, kind: Kind, new: Document, context: Context) -> None:
        """Give a name where there is none."""
        super().prepare_create(kind, new, context)
        if not new["metadata"].get("name"):
            new["metadata"]["name"] = new["metadata"]["uid"]
