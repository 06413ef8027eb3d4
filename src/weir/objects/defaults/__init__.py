"""Which values does the server fill in before anything else looks at a document?

Spec: apiserver.md 5 "Defaulting and admission". One function per Go struct, kept in one file per group and looked
up by the struct's name in the field table; a walk over the schema calls them wherever the struct occurs, parents
before children, so a pod template gets what a pod gets except the rules that belong to Pod itself.
What surprises: conversions between versions count here too (a Secret's `stringData`, a node's `podCIDR`).
Not here: what admission adds (tolerations, service account, priority), what a strategy sets (status, finalizers).
"""

from __future__ import annotations

from weir.objects.defaults.walk import default, settle, spans_parts

__all__ = ["default", "settle", "spans_parts"]
