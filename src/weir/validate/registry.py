"""Which rules does a kind have?

One row a kind: the module and function that check it. Modules load when their kind is first written, so that reading
a pod does not cost the time to load the rules of every other kind. A kind without a row has metadata rules only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Final

from weir.validate.context import Context
from weir.validate.field import Document, Errors
from weir.validate.meta import validate_meta

Rule = Callable[[Document, Document | None, Context], Errors]

_RULES: Final = {
    ("", "PersistentVolumeClaim"): "persistent_volume_claim.validate_claim",
    ("", "Pod"): "pod.validate_pod",
}


@lru_cache(maxsize=256)
def find_rule(group: str, kind: str) -> Rule:
    """Return the function that checks objects of a kind."""
    name = _RULES.get((group, kind))
    if name is None:
        return validate_meta
    module, _, function = name.partition(".")
    rule: Rule = getattr(import_module(f"weir.validate.{module}"), function)
    return rule
