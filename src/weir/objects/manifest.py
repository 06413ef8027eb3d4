"""Reads YAML and JSON texts: manifests with the position of every field, dumps and request bodies as plain values.

Like Kubernetes' tools: YAML 1.1 words (`yes`, `on`, `0o17`), timestamps as text, keys as strings, merge keys applied.
Positions let a message point at line and column. Text is read within bounds (weir.objects.yaml_reader); what is too
much raises ManifestError.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import yaml

from weir.objects.jsontext import MOST_VALUES, has_more_values_than
from weir.objects.yaml_reader import (
    Bound,
    ManifestError,
    NotParsed,
    PathPart,
    Place,
    Start,
    TooManyValues,
    YamlDocument,
    decode_text,
    key_of,
    name_cause,
    place_of_mark,
    read_events,
)

__all__ = [
    "Document",
    "ManifestError",
    "PathPart",
    "Place",
    "TooManyValues",
    "YamlDocument",
    "read_document",
    "read_manifest",
    "read_values",
    "read_yaml",
    "refuse_enormous",
]

_SPACES: Final = re.compile(r"[ \t\r\n]*")
#: Values of one object, or of one item of a List; 1.5 MiB, the largest that is stored, has some tens of thousands.
_OF_OBJECTS: Final = Bound(100_000, each_object=True)


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
    weir.objects.yaml_reader.NotParsed: p:1:4: did not find expected ',' or ']' (while parsing a flow sequence)
    """
    decoded = decode_text(text, file)
    lines = decoded.split("\n")
    try:
        return _documents(decoded, file, lines)
    except NotParsed as error:
        values = _json_values(decoded, file)
        if not values:
            raise name_cause(error, decoded) from None
    except ManifestError as error:
        raise name_cause(error, decoded) from None
    return list(_of_json(decoded, values, file, lines))


def _documents(text: str, file: str, lines: Sequence[str], start: Start | None = None) -> list[Document]:
    return [
        Document(value, file, lines, duplicates, node)
        for value, duplicates, node in read_events(text, file, _OF_OBJECTS, nodes=True, start=start)
    ]


def _of_json(
    text: str, values: Iterable[tuple[slice, Any]], file: str, lines: Sequence[str]
) -> Iterator[Document]:
    """Yield the documents of JSON *values* with their places; one whose escapes YAML does not have has no places."""
    passed, line, line_start = 0, 0, 0

    def pass_to(offset: int) -> None:
        nonlocal passed, line, line_start
        line += text.count("\n", passed, offset)
        line_start = max(line_start, text.rfind("\n", passed, offset) + 1)
        passed = offset

    for span, value in values:
        pass_to(span.start)
        start = Start(span.start, line, span.start - line_start)
        pass_to(span.stop)
        try:  # JSON has tabs between values only, YAML takes none
            yield from _documents(text[span].replace("\t", " "), file, lines, start)
        except NotParsed:
            yield Document(value, file, lines)


def _json_values(text: str, file: str) -> list[tuple[slice, Any]]:
    """Return the objects and lists of *text* if it is JSON: one, or several in a row as `kubectl get` run twice writes.

    Raises ManifestError for one that no API server takes.

    >>> _json_values('{"a": 1}\\n\\t[2]', "")
    [(slice(0, 8, None), {'a': 1}), (slice(10, 13, None), [2])]
    >>> _json_values('{"a": 1} b', ""), _json_values("a: 1", ""), _json_values('[NaN]', "")
    ([], [], [])
    """
    end_of = json.JSONDecoder().raw_decode
    values: list[tuple[slice, Any]] = []
    end = 0
    while (start := _SPACES.match(text, end).end()) < len(text):  # type: ignore[union-attr]
        if text[start] not in "{[":
            return []
        try:
            _, end = end_of(text, start)
            raw = text[start:end].encode()
            refuse_enormous(raw, file)
            values.append((slice(start, end), msgspec.json.decode(raw)))
        except ManifestError:
            raise
        except (ValueError, RecursionError):  # msgspec takes no NaN, and no half of a character
            return []
    return values


def read_values(text: str | bytes, file: str = "<stdin>") -> list[Any]:
    """Return the documents of *text* as plain values, without places."""
    raw = text.encode() if isinstance(text, str) else text
    if raw.lstrip()[:1] in (b"{", b"["):
        try:
            refuse_enormous(raw, file)
            return [msgspec.json.decode(raw)]
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            pass  # YAML, or wrong: its reader says what and where
    decoded = decode_text(text, file)
    if values := _json_values(decoded, file):
        return [value for _, value in values]
    try:
        return [document.value for document in read_events(decoded, file, _OF_OBJECTS)]
    except ManifestError as error:
        raise name_cause(error, decoded) from None


def read_yaml(body: str | bytes, file: str = "body", most: int = MOST_VALUES) -> list[YamlDocument]:
    """Return the documents of *body*, empty ones left out; raises ManifestError.

    >>> [document.value for document in read_yaml("a: &x [1, on]\\nb: *x\\n")]
    [{'a': [1, True], 'b': [1, True]}]
    """
    return list(read_events(decode_text(body, file), file, Bound(most)))


def read_document(text: str | bytes, file: str) -> Any:
    """Return the value of the one document of *text*, a configuration file; None when it is empty.

    Raises ManifestError, also for a second document.

    >>> read_document("a: [1, on]", "config.yaml"), read_document("", "config.yaml")
    ({'a': [1, True]}, None)
    """
    documents = read_yaml(text, file)
    if len(documents) > 1:
        raise ManifestError(Place(file, 1, 1), f"one document is expected, here are {len(documents)}")
    return documents[0].value if documents else None


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
