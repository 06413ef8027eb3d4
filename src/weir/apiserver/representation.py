"""In which form does the client want the answer?

Spec: apiserver.md 3 "Representations". JSON is what there is; YAML, Table and PartialObjectMetadata are made of
it. Protobuf is not spoken: a client that accepts JSON as well gets JSON, one that does not gets 406.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec
import yaml

from weir import errors

__all__ = ["Representation", "negotiate", "pretty", "to_yaml"]

ONLY_WHOLE = (
    "only the following media types are accepted: application/json, application/yaml, "
    "application/vnd.kubernetes.protobuf"
)
SHAPES = frozenset({"Table", "PartialObjectMetadata", "PartialObjectMetadataList"})


@dataclass(frozen=True, slots=True)
class Representation:
    """The form of an answer: `json` or `yaml`, and what the object is turned into first."""

    yaml: bool = False
    shape: str = ""


JSON = Representation()


@lru_cache(maxsize=512)
def negotiate(accept: str) -> Representation:
    """Return the first form in an Accept header that is offered; raises 406.

    >>> negotiate("application/json;as=Table;v=v1;g=meta.k8s.io,application/json").shape
    'Table'
    >>> negotiate("application/vnd.kubernetes.protobuf, application/json") == JSON
    True
    """
    if not accept.strip():
        return JSON
    odd_shape = False
    for clause in accept.split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        media = media.lower()
        values = dict(part.split("=", 1) for part in parameters if "=" in part)
        shape = values.get("as", "")
        if shape and not (
            shape in SHAPES and values.get("g") == "meta.k8s.io" and values.get("v") in ("v1", "v1beta1")
        ):
            odd_shape = odd_shape or media == "application/json"
            continue
        if media in ("application/json", "*/*", "application/*"):
            return Representation(False, shape) if shape else JSON
        if media in ("application/yaml", "application/x-yaml"):
            return Representation(True, shape)
    if odd_shape:
        raise errors.NotAcceptable(ONLY_WHOLE, details=None)
    raise errors.NotAcceptable()


class _Dumper(yaml.SafeDumper):
    """Block style, lists not indented, as the server prints YAML."""


#: words that older readers take for booleans
_OLD_BOOLEANS = frozenset(
    word for each in ("y", "n", "yes", "no", "on", "off") for word in (each, each.capitalize(), each.upper())
)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Return a string as the server prints it: in double quotes where it would be read as something else."""
    style = "|" if "\n" in text else None
    if style is None and (
        text in _OLD_BOOLEANS or dumper.resolve(yaml.ScalarNode, text, (True, False)) != _STRING  # type: ignore[no-untyped-call]
    ):
        style = '"'
    return dumper.represent_scalar(_STRING, text, style=style)


_STRING = "tag:yaml.org,2002:str"
_Dumper.add_representer(str, _text)


def to_yaml(document: Any) -> bytes:
    """Return a document as YAML with sorted keys."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=True, default_flow_style=False, width=2**31)
    return text.encode()


def pretty(body: bytes) -> bytes:
    """Return JSON indented for people."""
    return msgspec.json.format(body, indent=2) + b"\n"
