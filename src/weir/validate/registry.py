"""Validation functions by kind: `validate_KIND`, at the kind's address (weir.objects.wings).

Modules are imported when their kind is first written. A kind without a function has metadata rules only.
"""

from __future__ import annotations

from collections.abc import Callable

from weir.caches import bounded
from weir.fields.field import Context, Document, Errors
from weir.fields.meta import validate_meta
from weir.objects.wings import find_member

Rule = Callable[[Document, Document | None, Context], Errors]


@bounded(256)
def find_rule(group: str, kind: str) -> Rule:
    """Return the function that checks objects of a kind."""
    rule: Rule | None = find_member("weir.validate", group, kind, "validate_{}")
    return rule or validate_meta
