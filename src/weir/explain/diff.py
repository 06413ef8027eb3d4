"""What does a change look like in the file it is made in? A unified diff, with what is secret left out.

Not here: the merge patch (weir.explain.fix).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import unified_diff
from typing import Any, Final

#: Shown instead of a value that may be a secret.
MASK: Final = "***"
_SECRET_FIELDS: Final = frozenset({"value", "data", "stringData"})


def masked(value: Any, inside: str = "") -> Any:
    """Return *value* with the values of environment variables, and the data of secrets, masked.

    >>> masked({"env": [{"name": "PASSWORD", "value": "s3cret"}]})
    {'env': [{'name': 'PASSWORD', 'value': '***'}]}
    """
    if isinstance(value, dict):
        hidden = inside == "env"
        return {
            key: MASK if hidden and key in _SECRET_FIELDS and each else masked(each, str(key))
            for key, each in value.items()
            if key not in ("managedFields", "kubectl.kubernetes.io/last-applied-configuration")
        }
    if isinstance(value, list):
        return [masked(each, inside) for each in value]
    return value


def diff(
    before: Mapping[str, Any], after: Mapping[str, Any], name: str, render: Callable[[Any], str]
) -> Iterator[str]:
    """Yield the lines of a unified diff of two documents as *render* writes them; none: nothing differs."""
    old, new = (render(masked(dict(each))).splitlines() for each in (before, after))
    yield from unified_diff(old, new, fromfile=name, tofile=name, lineterm="", n=3)
