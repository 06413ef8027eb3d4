"""Reads YAML and JSON manifests with the position of every field.

Like Kubernetes' tools: YAML 1.1 words (`yes`, `on`, `0o17`), timestamps as text, keys as strings, merge keys applied.
Positions let a message point at line and column. Hostile text (deep nesting, alias bombs, binary) raises one
ManifestError.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import yaml

from weir.objects.block_yaml import Unusual, read_dump
from weir.objects.yaml_scalars import key_of, plain_scalar, scalar_of

#: Kubernetes objects are a few dozen levels deep; text beyond this is refused before it is walked.
DEEPEST: Final = 200
#: How many values aliases may add to one text; a bomb passes this within its first lines.
MOST_ALIASED: Final = 200_000

PathPart = str | int


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where something stands, counted from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class ManifestError(ValueError):
    """Text that holds no readable document; says where and what is wrong."""

    def __init__(self, place: Place, problem: str, in_go_words: str = "") -> None:
        super().__init__(f"{place}: {problem}")
        self.place, self.problem = place, problem
        #: what the API server's reader says about it
        self.in_go_words = in_go_words or f"line {place.line}: {problem}"


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
        return _place(self.file, mark_node.start_mark)

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
    >>> read_manifest("\\ta: 1", "pod.yaml")
    Traceback (most recent call last):
    weir.objects.manifest.ManifestError: pod.yaml:1:1: found character that cannot start any token
    """
    decoded = decode_text(text, file)
    lines = decoded.split("\n")
    _refuse_deep_nesting(decoded, file)
    documents: list[Document] = []
    builder = _Builder(file)
    for node in _compose(decoded, file):
        builder.duplicates = []
        value = builder.build(node, (), 0)
        if value is not None:
            documents.append(Document(value, file, lines, tuple(builder.duplicates), node))
    return documents


def read_values(text: str | bytes, file: str = "<stdin>") -> list[Any]:
    """Return the documents of *text* as plain values: fast for JSON and what kubectl writes, without places."""
    raw = text.encode() if isinstance(text, str) else text
    if raw.lstrip()[:1] in (b"{", b"["):
        try:
            return [msgspec.json.decode(raw)]
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            pass  # the slow way says what is wrong, and where
    decoded = decode_text(text, file)
    values = read_dump(decoded, plain_scalar, _read_item)
    return [document.value for document in read_manifest(decoded, file)] if values is None else values


def _read_item(text: str) -> Any:
    """Return the one value of *text*, cut out of a dump; if it cannot be read alone, the dump is read whole."""
    try:
        (document,) = read_manifest(text)
    except ValueError:  # unreadable, or nothing in it
        raise Unusual from None
    return document.value


def decode_text(text: str | bytes, file: str) -> str:
    """Return *text* as characters; raises when it is no text."""
    if isinstance(text, str):
        decoded = text
    else:
        try:
            decoded = text.decode("utf-16" if text[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
        except UnicodeDecodeError as error:
            line = text.count(b"\n", 0, error.start) + 1
            raise ManifestError(Place(file, line, 1), "this is not text (not UTF-8)") from None
    if bad := _UNPRINTABLE.search(decoded):
        line = decoded.count("\n", 0, bad.start()) + 1
        column = bad.start() - decoded.rfind("\n", 0, bad.start())
        raise ManifestError(
            Place(file, line, column), f"this is not text (character {ord(bad.group()):#04x})"
        )
    return decoded


_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff\ud800-\udfff]")
_BRACKETS: Final = re.compile(r"[\[\]{}]")
_DEEP_BLOCK: Final = re.compile(rf"^(?: {{{DEEPEST}}}|(?:[-?][ \t]*){{{DEEPEST // 2}}})", re.MULTILINE)


def _refuse_deep_nesting(text: str, file: str) -> None:
    """Raise for text nested deeper than DEEPEST, before any recursive reader sees it."""
    depth = deepest = 0
    for bracket in _BRACKETS.findall(text):
        depth = depth + 1 if bracket in "[{" else max(depth - 1, 0)
        deepest = max(deepest, depth)
    if deepest < DEEPEST // 2 and not _DEEP_BLOCK.search(text):
        return  # an upper bound already says it is shallow
    depth = 0
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > DEEPEST:
                    place = _place(file, event.start_mark)
                    raise ManifestError(place, f"nested more than {DEEPEST} levels deep")
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
    except yaml.YAMLError as error:
        raise as_manifest_error(error, file) from None


def _compose(text: str, file: str) -> Iterator[yaml.Node]:
    loader = new_loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is not None:
                yield node
    except yaml.YAMLError as error:
        raise as_manifest_error(error, file) from None
    finally:
        loader.dispose()


def as_manifest_error(error: yaml.YAMLError, file: str) -> ManifestError:
    """Return what the parser complains of as an error with its place."""
    problem = str(getattr(error, "problem", None) or str(error).split("\n", 1)[0])
    mark = getattr(error, "problem_mark", None)
    context = getattr(error, "context", None)
    in_go_words = _in_go_words(error, problem)
    if context and "did not find" in problem:
        # Something was opened and never closed: where it was opened is the place to look at.
        problem, mark = f"{problem} ({context})", getattr(error, "context_mark", None) or mark
    return ManifestError(_place(file, mark), problem, in_go_words)


def _in_go_words(error: yaml.YAMLError, problem: str) -> str:
    """Return an error as Go's YAML reader words it, whose lines start from 0 unless the scanner stumbled."""
    problem_mark, context_mark = getattr(error, "problem_mark", None), getattr(error, "context_mark", None)
    line = problem_mark.line if problem_mark else 0
    if line and isinstance(error, yaml.scanner.ScannerError):
        line += 1
    line = line or (context_mark.line if context_mark else 0)
    return f"line {line}: {problem}" if line else problem


def _place(file: str, mark: Any) -> Place:
    return Place(file, mark.line + 1, mark.column + 1) if mark else Place(file, 1, 1)


def new_loader(text: str) -> Any:
    """Return a loader of *text* that composes nodes without resolving their tags, which is ours; `dispose` ends it."""
    return _LOADER(text)


class _Unresolved:
    """Leaves every node with its explicit tag or none."""

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        return ""

    def descend_resolver(self, current_node: Any, current_index: Any) -> None: ...

    def ascend_resolver(self) -> None: ...


if yaml.__with_libyaml__:
    from yaml._yaml import CParser

    class _CLoader(_Unresolved, CParser):
        def __init__(self, stream: str) -> None:
            CParser.__init__(self, stream)

        def dispose(self) -> None: ...

    _LOADER: Any = _CLoader
else:  # pragma: no cover - wheels carry the C parser

    class _PyLoader(
        _Unresolved, yaml.reader.Reader, yaml.scanner.Scanner, yaml.parser.Parser, yaml.composer.Composer
    ):
        def __init__(self, stream: str) -> None:
            yaml.reader.Reader.__init__(self, stream)
            yaml.scanner.Scanner.__init__(self)
            yaml.parser.Parser.__init__(self)
            yaml.composer.Composer.__init__(self)

    _LOADER = _PyLoader


# ── values ───────────────────────────────────────────────────────────────────────────────────────


class _Builder:
    """Turns composed nodes into plain values, counting what aliases repeat."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.duplicates: list[tuple[tuple[PathPart, ...], Place]] = []
        self._sizes: dict[int, int] = {}
        self._built: dict[int, Any] = {}
        self._open: set[int] = set()
        self._aliased = 0
        self._count = 0

    def build(self, node: yaml.Node, path: tuple[PathPart, ...], depth: int) -> Any:
        if isinstance(node, yaml.ScalarNode):
            self._count += 1
            return scalar_of(node)
        if depth > DEEPEST:
            raise self._error(node, f"nested more than {DEEPEST} levels deep")
        identity = id(node)
        if identity in self._built:
            self._aliased += self._sizes[identity]
            self._count += self._sizes[identity]
            if self._aliased > MOST_ALIASED:
                raise self._error(node, "aliases repeat too much: this text expands beyond reason")
            return self._built[identity]
        if identity in self._open:
            raise self._error(node, "an alias refers to a value that contains it")
        self._open.add(identity)
        before = self._count
        self._count += 1
        if isinstance(node, yaml.SequenceNode):
            value: Any = [
                self.build(item, (*path, index), depth + 1) for index, item in enumerate(node.value)
            ]
        else:
            value = self._mapping(node, path, depth)
        self._open.discard(identity)
        self._built[identity] = value
        self._sizes[identity] = self._count - before
        return value

    def _mapping(self, node: yaml.Node, path: tuple[PathPart, ...], depth: int) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._error(key_node, "a mapping key must be a plain word, not a list or mapping")
            if key_node.value == "<<" and not key_node.style:
                self._merge(merged, self.build(value_node, path, depth + 1), value_node)
                continue
            key = key_of(key_node)
            if key in own:
                self.duplicates.append(((*path, key), _place(self.file, key_node.start_mark)))
            if value_node.__class__ is yaml.ScalarNode:  # most values: without the cost of a call and a path
                self._count += 1
                own[key] = scalar_of(value_node)
            else:
                own[key] = self.build(value_node, (*path, key), depth + 1)
        return {**merged, **own} if merged else own

    def _merge(self, merged: dict[str, Any], value: Any, node: yaml.Node) -> None:
        for source in value if isinstance(value, list) else [value]:
            if not isinstance(source, dict):
                raise self._error(node, "map merge requires map or sequence of maps as the value")
            for key, inherited in source.items():
                merged.setdefault(key, inherited)

    def _error(self, node: yaml.Node, problem: str) -> ManifestError:
        return ManifestError(_place(self.file, node.start_mark), problem)
