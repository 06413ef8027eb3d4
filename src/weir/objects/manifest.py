"""Reads YAML and JSON manifests with the position of every field.

Like Kubernetes' tools: YAML 1.1 words (`yes`, `on`, `0o17`), timestamps as text, keys as strings, merge keys applied.
Positions let a message point at line and column. Text is composed within bounds (weir.objects.yaml_nodes); what is too
much raises ManifestError.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import msgspec
import yaml

from weir.objects.block_yaml import Unusual, read_dump
from weir.objects.jsontext import MOST_VALUES, has_more_values_than
from weir.objects.yaml_nodes import ManifestError, Place, compose, decode_text, name_cause, place_of_mark
from weir.objects.yaml_scalars import key_of, plain_scalar, scalar_of

__all__ = ["Document", "ManifestError", "PathPart", "Place", "read_manifest", "read_values"]

PathPart = str | int


@dataclass(frozen=True)
class Document:
    """One document of a text: its value, and the places of its fields."""

    value: Any
    file: str
    lines: Sequence[str] = field(repr=False)
    duplicates: tuple[tuple[tuple[PathPart, ...], Place], ...] = ()
    _node: yaml.Node | None = field(default=None, repr=False)
    _root: tuple[PathPart, ...] = ()

    @property
    def place(self) -> Place:
        """Where the document begins."""
        return self.place_of(())

    def place_of(self, path: Sequence[PathPart], *, key: bool = False) -> Place:
        """Return where the value at *path* (with *key*: its key) stands, or its nearest parent there is."""
        node, mark_node = self._node, self._node
        for part in (*self._root, *path):
            found = _child(node, part)
            if found is None:
                break
            key_node, node = found
            mark_node = key_node if key and key_node is not None else node
        if mark_node is None:
            return Place(self.file, 1, 1)
        return place_of_mark(self.file, mark_node.start_mark)

    @property
    def text(self) -> str:
        """The whole text the document stands in."""
        return "\n".join(self.lines)

    @property
    def root(self) -> tuple[PathPart, ...]:
        """Where in the text's document this one stands: () unless it is a member of a List."""
        return self._root

    def node_of(self, path: Sequence[PathPart], *, whole: bool = False) -> yaml.Node | None:
        """Return the node at *path* (with *whole*: counted from the List it is a member of), or None."""
        node = self._node
        for part in (*(() if whole else self._root), *path):
            found = _child(node, part)
            if found is None:
                return None
            node = found[1]
        return node

    def width_of(self, path: Sequence[PathPart]) -> int:
        """Return how many columns the scalar at *path* takes on its line; 1 for anything else."""
        node = self.node_of(path)
        if isinstance(node, yaml.ScalarNode) and node.start_mark.line == node.end_mark.line:
            return max(1, node.end_mark.column - node.start_mark.column)
        return 1

    def items(self) -> Iterator[Document]:
        """Yield the document itself, or the members of a List, each with its own places."""
        kind = self.value.get("kind") if isinstance(self.value, dict) else None
        members = self.value.get("items") if isinstance(self.value, dict) else None
        if not (isinstance(kind, str) and kind.endswith("List") and isinstance(members, list)):
            yield self
            return
        for index, member in enumerate(members):
            if isinstance(member, dict) and "kind" not in member and kind != "List":
                api_version = self.value.get("apiVersion", "v1")
                member = {"apiVersion": api_version, "kind": kind.removesuffix("List"), **member}
            inner = Document(member, self.file, self.lines, (), self._node, (*self._root, "items", index))
            yield from inner.items()


def _child(node: yaml.Node | None, part: PathPart) -> tuple[yaml.Node | None, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for key_node, value_node in reversed(node.value):  # the last of two equal keys is the one that counts
            if isinstance(key_node, yaml.ScalarNode) and key_of(key_node) == part:
                return key_node, value_node
    elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return None, node.value[part]
    return None


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def read_manifest(text: str | bytes, file: str = "<stdin>") -> list[Document]:
    """Return the documents of *text*; empty ones are left out.

    >>> [d.value["kind"] for d in read_manifest("kind: Pod\\n---\\nkind: Node\\n")]
    ['Pod', 'Node']
    >>> read_manifest("a: [1", "p")
    Traceback (most recent call last):
    weir.objects.yaml_nodes.ManifestError: p:1:4: did not find expected ',' or ']' (while parsing a flow sequence)
    """
    decoded = decode_text(text, file)
    lines = decoded.split("\n")
    documents: list[Document] = []
    builder = _Builder(file)
    try:
        for node in compose(decoded, file):
            builder.duplicates = []
            value = builder.build(node, ())
            if value is not None:
                documents.append(Document(value, file, lines, tuple(builder.duplicates), node))
    except ManifestError as error:
        raise name_cause(error, decoded) from None
    return documents


def read_values(text: str | bytes, file: str = "<stdin>") -> list[Any]:
    """Return the documents of *text* as plain values: fast for JSON and what kubectl writes, without places."""
    raw = text.encode() if isinstance(text, str) else text
    if raw.lstrip()[:1] in (b"{", b"["):
        try:
            refuse_enormous(raw, file)
            return [msgspec.json.decode(raw)]
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            pass  # the slow way says what is wrong, and where
    decoded = decode_text(text, file)
    values = read_dump(decoded, plain_scalar, _read_item)
    return [document.value for document in read_manifest(decoded, file)] if values is None else values


class _Items(msgspec.Struct):
    """A List whose items are not decoded."""

    items: list[msgspec.Raw]


def refuse_enormous(raw: bytes, file: str) -> None:
    """Raise ManifestError for JSON of one object, or of a List with an item, that no API server takes."""
    if not has_more_values_than(raw, MOST_VALUES):
        return
    try:
        items = [bytes(item) for item in msgspec.json.decode(raw, type=_Items).items]
    except (msgspec.ValidationError, RecursionError):
        items = [raw]
    if any(has_more_values_than(item, MOST_VALUES) for item in items):
        raise ManifestError(
            Place(file, 1, 1), f"one object holds more than {MOST_VALUES} values: no API server takes it"
        )


def _read_item(text: str) -> Any:
    """Return the one value of *text*, cut out of a dump; if it cannot be read alone, the dump is read whole."""
    try:
        (document,) = read_manifest(text)
    except ValueError:  # unreadable, or nothing in it
        raise Unusual from None
    return document.value


# ── values ───────────────────────────────────────────────────────────────────────────────────────


class _Builder:
    """Turns composed nodes into plain values; what an alias repeats is built once."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.duplicates: list[tuple[tuple[PathPart, ...], Place]] = []
        self._built: dict[int, Any] = {}

    def build(self, node: yaml.Node, path: tuple[PathPart, ...]) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        identity = id(node)
        if identity in self._built:
            return self._built[identity]
        if isinstance(node, yaml.SequenceNode):
            value: Any = [self.build(item, (*path, index)) for index, item in enumerate(node.value)]
        else:
            value = self._mapping(node, path)
        self._built[identity] = value
        return value

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        value = scalar_of(node)
        if value.__class__ is float and not isfinite(value):
            raise self._error(
                node, f"{node.value} is no number of JSON", f"json: unsupported value: {node.value}"
            )
        return value

    def _mapping(self, node: yaml.Node, path: tuple[PathPart, ...]) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._error(key_node, "a mapping key must be a plain word, not a list or mapping")
            if key_node.value == "<<" and not key_node.style:
                self._merge(merged, self.build(value_node, path), value_node)
                continue
            key = key_of(key_node)
            if key in own:
                self.duplicates.append(((*path, key), place_of_mark(self.file, key_node.start_mark)))
            if value_node.__class__ is yaml.ScalarNode:  # most values: without the cost of a path
                own[key] = self._scalar(value_node)
            else:
                own[key] = self.build(value_node, (*path, key))
        return {**merged, **own} if merged else own

    def _merge(self, merged: dict[str, Any], value: Any, node: yaml.Node) -> None:
        for source in value if isinstance(value, list) else [value]:
            if not isinstance(source, dict):
                raise self._error(node, "map merge requires map or sequence of maps as the value")
            for key, inherited in source.items():
                merged.setdefault(key, inherited)

    def _error(self, node: yaml.Node, problem: str, in_go_words: str = "") -> ManifestError:
        return ManifestError(place_of_mark(self.file, node.start_mark), problem, in_go_words)
