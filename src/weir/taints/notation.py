"""Parser of taints in kubectl's notation, `key[=value]:Effect`.

The one parser of that form, for node taints and device taints, command lines, stories and class files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from weir.objects.core import Taint

NODE_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
DEVICE_EFFECTS: Final = ("None", "NoSchedule", "NoExecute")


class TaintNotationError(ValueError):
    """A taint that cannot be read, with what to write instead."""


def parse_taint(text: str, effects: Sequence[str] = NODE_EFFECTS, *, effect_required: bool = True) -> Taint:
    """Return the taint that *text* means; without *effect_required*, `key` and `key=value` mean any effect ("").

    >>> parse_taint("failure-probability=15:NoExecute").value
    '15'
    >>> parse_taint("example.com/hot", effect_required=False).effect
    ''
    """
    body, colon, effect = text.rpartition(":")
    if not colon and not effect_required:
        body, effect = text, ""
    elif not colon or effect not in effects:
        raise TaintNotationError(f"{text!r} is no taint: write key[=value]:Effect with {', '.join(effects)}")
    key, _, value = body.partition("=")
    if not key:
        raise TaintNotationError(f"{text!r} is no taint: it has no key; write key[=value]:Effect")
    return Taint(key, value, effect)


def taint_document(taint: Taint) -> dict[str, str]:
    """Return the taint as the API writes it: what is empty is left out.

    >>> taint_document(parse_taint("hot:NoExecute"))
    {'key': 'hot', 'effect': 'NoExecute'}
    """
    found = {"key": taint.key, "value": taint.value, "effect": taint.effect}
    return {name: value for name, value in found.items() if value}
