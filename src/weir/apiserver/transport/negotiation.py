"""Content negotiation: the response's media type and representation.

Spec: apiserver.md 3 "Representations". JSON is native; protobuf, YAML, Table and PartialObjectMetadata are derived.
Protobuf is for kinds that have messages, and for no table: of others a client that also accepts JSON gets JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import yaml

from weir import errors
from weir.apiserver.transport.protobuf import MEDIA_TYPE as PROTOBUF
from weir.caches import bounded

ONLY = "only the following media types are accepted: "
ONLY_WHOLE = ONLY + errors.REPRESENTATIONS
WITH_STREAMS = f"{errors.REPRESENTATIONS}, {errors.STREAMS}"
_YAML_TYPES = ("application/yaml", "application/x-yaml")
SHAPES = frozenset({"Table", "PartialObjectMetadata", "PartialObjectMetadataList"})
#: Reviews, bindings and what else is answered without being stored have no columns.
NO_TABLES = SHAPES - {"Table"}


@dataclass(frozen=True, slots=True)
class MediaTypeOptions:
    """The form of an answer: JSON, YAML or protobuf, and what the object is turned into first."""

    yaml: bool = False
    shape: str = ""
    #: of `meta.k8s.io`, for a shape
    version: str = "v1"
    protobuf: bool = False

    @property
    def meta(self) -> str:
        """The apiVersion of a shape."""
        return f"meta.k8s.io/{self.version}"


JSON = MediaTypeOptions()


def accepts(accept: str, offered: str) -> bool:
    """Return whether an Accept header names one of the media types a route offers; parameters do not count.

    >>> accepts("text/html, application/json;q=0.1", "application/json"), accepts("application/*", "application/json")
    (True, False)
    """
    if not accept.strip():
        return True
    named = {clause.partition(";")[0].strip().lower() for clause in accept.split(",")}
    return "*/*" in named or not named.isdisjoint(offered.split(", "))


@bounded(512)
def negotiate(
    accept: str,
    offered: str = errors.REPRESENTATIONS,
    shapes: frozenset[str] = SHAPES,
    protobuf: bool = False,
) -> MediaTypeOptions:
    """Return the first form in an Accept header that is offered; raises 406.

    *protobuf* says that what is answered has a message; of anything its metadata has one.

    >>> negotiate("application/json;as=Table;v=v1;g=meta.k8s.io,application/json").shape
    'Table'
    >>> both = "application/vnd.kubernetes.protobuf, application/json"
    >>> negotiate(both) == JSON, negotiate(both, protobuf=True).protobuf
    (True, True)
    >>> negotiate("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", shapes=NO_TABLES) == JSON
    True
    """
    if not accept.strip():
        return JSON
    if offered and not accepts(accept, offered):
        raise errors.NotAcceptable(offered=offered)
    odd_shape = False
    for clause in accept.split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        media = media.lower()
        values = dict(part.split("=", 1) for part in parameters if "=" in part)
        shape = values.get("as", "")
        if shape and not (
            shape in shapes and values.get("g") == "meta.k8s.io" and values.get("v") in ("v1", "v1beta1")
        ):
            odd_shape = odd_shape or media == "application/json"
            continue
        if media == PROTOBUF and shape != "Table" and (protobuf or shape):
            return MediaTypeOptions(False, shape, values.get("v", "v1"), protobuf=True)
        if media in ("application/json", "*/*", "application/*"):
            return MediaTypeOptions(False, shape, values["v"]) if shape else JSON
        if media in _YAML_TYPES:
            return MediaTypeOptions(True, shape, values["v"]) if shape else MediaTypeOptions(True)
    if odd_shape or not offered:
        raise errors.NotAcceptable(ONLY_WHOLE, details=None)
    raise errors.NotAcceptable(offered=offered)


def go_type(group: str, kind: str) -> str:
    """Return the name of a kind's type inside a real server, which some refusals print.

    >>> go_type("rbac.authorization.k8s.io", "RoleList"), go_type("events.k8s.io", "EventList")
    ('*rbac.RoleList', '*core.EventList')
    """
    package = "core" if group in ("", "events.k8s.io") else group.partition(".")[0]
    return f"*{package}.{kind}"


def check_shape(form: MediaTypeOptions, group: str, kind: str, *, listed: bool) -> None:
    """Refuse to show a list as the metadata of one object, and one object as a list; raises 406."""
    if form.shape == "PartialObjectMetadata" and listed:
        what = f"the requested object is a list ({go_type(group, f'{kind}List')})"
    elif form.shape == "PartialObjectMetadataList" and not listed:
        what = f"the requested object is not a list ({go_type(group, kind)})"
    else:
        return
    raise errors.NotAcceptable(f"you requested {form.shape}, but {what}", details=None)


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
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=True, default_flow_style=False, width=80)
    return text.encode()


def wants_pretty(value: str | None) -> bool:
    """Return whether the parameter `pretty` asks for indented JSON; unlike other flags it has to be spelled right."""
    return value in ("1", "t", "T", "true", "TRUE", "True")


def pretty(body: bytes) -> bytes:
    """Return indented JSON."""
    return msgspec.json.format(body, indent=2) + b"\n"
