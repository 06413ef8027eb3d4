"""Device selectors on the command line.

`gpu.example.com/node-1/gpu-0` is a device as `weir device list` prints it, `*` matches any part;
`driver=…,pool=…,device=…,class=…` names parts one by one. Pool names may contain slashes, so of three or more parts
the first is the driver and the last the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

Document = dict[str, Any]

_PARTS: Final = {"driver": "driver", "pool": "pool", "device": "device", "class": "deviceClassName"}


class NotationError(ValueError):
    """A selector that cannot be read, with what to write instead."""


def parse_selector(text: str, expressions: Sequence[str] = ()) -> Document:
    """Return the `deviceSelector` that *text* and CEL *expressions* mean; `{}` selects everything.

    >>> parse_selector("gpu.example.com/node-1/*")
    {'driver': 'gpu.example.com', 'pool': 'node-1'}
    >>> parse_selector("pool=node-1,class=a100")
    {'pool': 'node-1', 'deviceClassName': 'a100'}
    """
    selector = _parts(text) if "=" in text else _path(text)
    if expressions:
        selector["selectors"] = [{"cel": {"expression": expression}} for expression in expressions]
    return selector


def _path(text: str) -> Document:
    if not text or text == "*":
        return {}
    parts = text.split("/")
    if len(parts) < 3:
        raise NotationError(
            f"{text!r} is no device: write DRIVER/POOL/DEVICE with * for any, or driver=…,pool=…,device=…,class=…"
        )
    named = {"driver": parts[0], "pool": "/".join(parts[1:-1]), "device": parts[-1]}
    if "" in named.values():
        raise NotationError(f"{text!r} has an empty part: write * for any")
    return {name: part for name, part in named.items() if part != "*"}


def _parts(text: str) -> Document:
    selector: Document = {}
    for item in text.split(","):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals or name not in _PARTS or not value:
            raise NotationError(f"{item!r} is no part of a selector: write {', '.join(_PARTS)} = a name")
        if _PARTS[name] in selector:
            raise NotationError(f"{name} is given twice")
        selector[_PARTS[name]] = value
    return selector
