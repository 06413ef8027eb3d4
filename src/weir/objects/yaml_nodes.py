"""YAML text composed into nodes with their positions, within bounds that hold at every event.

Depth, values of one object and values that aliases repeat are counted as the parser's events come, so that hostile text
(deep nesting, alias bombs, binary) raises ManifestError before anything large is built. The C composer is not used: it
recurses on the C stack, and brackets behind quotes or comments would end the process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import yaml

__all__ = [
    "DEEPEST",
    "ManifestError",
    "Place",
    "as_manifest_error",
    "compose",
    "decode_text",
    "name_cause",
    "new_loader",
    "place_of_mark",
]

#: Kubernetes objects are a few dozen levels deep.
DEEPEST: Final = 200
#: Values that aliases may add to one text.
MOST_ALIASED: Final = 50_000
#: Values of one object, or of one item of a List; 1.5 MiB, the largest that is stored, has some tens of thousands.
MOST_OF_ONE_OBJECT: Final = 100_000
#: Where items of a List lie: the document, its `items`, the item.
_ITEM_DEPTH: Final = 2
#: What Helm and its kin replace; `{{` alone is YAML (a flow mapping in a flow mapping), though nobody writes it.
_TEMPLATE: Final = re.compile(
    r"\{\{-?\s*(?:[.$]|(?:if|else|end|range|with|include|template|define|toYaml|tpl)\b|/\*)"
)
_TAB: Final = re.compile(r"^ *\t", re.MULTILINE)


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

    def __init__(self, place: Place, problem: str, in_go_words: str = "", fix: str = "") -> None:
        super().__init__(f"{place}: {problem}")
        self.place, self.problem, self.fix = place, problem, fix
        #: what the API server's reader says about it
        self.in_go_words = in_go_words or f"line {place.line}: {problem}"


# ── composing ────────────────────────────────────────────────────────────────────────────────────


def compose(text: str, file: str) -> Iterator[yaml.Node]:
    """Yield the root node of each document that is not empty; raises ManifestError at the first value too many."""
    loader = new_loader(text)
    try:
        yield from _Composer(loader, file).documents()
    except yaml.YAMLError as error:
        raise as_manifest_error(error, file, text) from None
    finally:
        loader.dispose()


class _Open:
    """A list or mapping that is being filled, and what it is the value of."""

    __slots__ = ("anchor", "before", "height", "is_items", "key", "node")

    def __init__(self, node: yaml.CollectionNode, anchor: str | None, before: int, is_items: bool) -> None:
        self.node, self.anchor, self.before, self.is_items = node, anchor, before, is_items
        self.height = 0  # levels of the deepest member so far
        self.key: yaml.Node | None = None


class _Anchored(NamedTuple):
    """What an alias repeats: a node (None while it is open), how many values it holds, and how many levels."""

    node: yaml.Node | None
    size: int
    height: int


class _Composer:
    """Makes nodes of events, and counts values, depth and what aliases repeat as they come."""

    def __init__(self, loader: Any, file: str) -> None:
        self._loader, self._file = loader, file
        self._open: list[_Open] = []
        self._anchors: dict[str, _Anchored] = {}
        self._count = 0  # values of the document
        self._object_start = 0  # the count when the object began
        self._aliased = 0  # values that aliases added, of the whole text
        self._root: yaml.Node | None = None

    def documents(self) -> Iterator[yaml.Node]:
        next_event = self._loader.get_event
        while True:
            event = next_event()
            kind = event.__class__
            if kind is yaml.ScalarEvent:
                self._count += 1
                node = yaml.ScalarNode(
                    event.tag, event.value, event.start_mark, event.end_mark, style=event.style
                )
                if event.anchor is not None:
                    self._anchors[event.anchor] = _Anchored(node, 1, 0)
                self._put(node, event)
            elif kind is yaml.MappingStartEvent:
                self._begin(yaml.MappingNode, event)
            elif kind is yaml.SequenceStartEvent:
                self._begin(yaml.SequenceNode, event)
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                self._end(event)
            elif kind is yaml.AliasEvent:
                self._alias(event)
            elif kind is yaml.DocumentStartEvent:
                self._anchors, self._root = {}, None
                self._count = self._object_start = 0
            elif kind is yaml.DocumentEndEvent:
                if self._root is not None:
                    yield self._root
            elif kind is yaml.StreamEndEvent:
                return

    def _begin(self, kind: type[yaml.CollectionNode], event: Any) -> None:
        depth = len(self._open)
        if depth >= DEEPEST:
            raise self._error(event, f"nested more than {DEEPEST} levels deep")
        parent = self._open[-1] if depth else None
        if depth == _ITEM_DEPTH and parent is not None and parent.is_items:
            self._object_start = self._count
        before = self._count
        self._count += 1
        key = parent.key if depth == 1 and parent is not None else None
        is_items = kind is yaml.SequenceNode and isinstance(key, yaml.ScalarNode) and key.value == "items"
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(None, 0, 0)
        node = kind(event.tag, [], event.start_mark, None, event.flow_style)
        self._open.append(_Open(node, event.anchor, before, is_items))

    def _end(self, event: Any) -> None:
        closed = self._open.pop()
        node = closed.node
        node.end_mark = event.end_mark
        height = closed.height + 1
        if closed.anchor is not None:
            self._anchors[closed.anchor] = _Anchored(node, self._count - closed.before, height)
        if self._open:
            self._open[-1].height = max(self._open[-1].height, height)
        self._put(node, event)

    def _alias(self, event: Any) -> None:
        try:
            node, size, height = self._anchors[event.anchor]
        except KeyError:
            raise self._error(event, "found undefined alias") from None
        if node is None:
            raise self._error(event, "an alias refers to a value that contains it")
        self._count += size
        self._aliased += size
        if self._aliased > MOST_ALIASED:
            raise self._error(event, "aliases repeat too much: this text expands beyond reason")
        if len(self._open) + height > DEEPEST:
            raise self._error(event, f"nested more than {DEEPEST} levels deep")
        if self._open:
            self._open[-1].height = max(self._open[-1].height, height)
        self._put(node, event)

    def _put(self, node: yaml.Node, event: Any) -> None:
        """Give *node* its place in what is open."""
        if self._count - self._object_start > MOST_OF_ONE_OBJECT:
            raise self._error(
                event, f"one object holds more than {MOST_OF_ONE_OBJECT} values: no API server takes it"
            )
        if not self._open:
            self._root = node
            return
        parent = self._open[-1]
        if parent.node.__class__ is yaml.SequenceNode:
            parent.node.value.append(node)
        elif parent.key is None:
            parent.key = node
        else:
            parent.node.value.append((parent.key, node))
            parent.key = None

    def _error(self, event: Any, problem: str) -> ManifestError:
        return ManifestError(place_of_mark(self._file, event.start_mark), problem)


# ── text and loader ──────────────────────────────────────────────────────────────────────────────


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


def as_manifest_error(error: yaml.YAMLError, file: str, text: str) -> ManifestError:
    """Return what the parser complains of as an error with its place in *text*."""
    problem = str(getattr(error, "problem", None) or str(error).split("\n", 1)[0])
    mark = getattr(error, "problem_mark", None)
    context = getattr(error, "context", None)
    in_go_words = _in_go_words(error, problem)
    if context and "did not find" in problem:
        # Something was opened and never closed: where it was opened is the place to look at.
        problem, mark = f"{problem} ({context})", getattr(error, "context_mark", None) or mark
    place = place_of_mark(file, mark)
    last = max(1, text.count("\n") + (not text.endswith("\n")))
    if place.line > last:  # the parser counts a line behind the end
        place = Place(file, last, len(text) - text.rfind("\n", 0, -1))
    return ManifestError(place, problem, in_go_words)


def name_cause(error: ManifestError, text: str) -> ManifestError:
    """Return *error* with the cause in *text* where it is a common one."""
    cause, fix = _common_cause(text)
    return (
        ManifestError(error.place, f"{cause} ({error.problem})", error.in_go_words, fix) if cause else error
    )


def _common_cause(text: str) -> tuple[str, str]:
    """Return why *text* cannot be read, where the parser's own words do not lead to it, and what to do; or ""."""
    if template := _TEMPLATE.search(text):
        line = text.count("\n", 0, template.start()) + 1
        cause = f"an unrendered template stands on line {line}, so this is no manifest yet"
        return cause, "render it first: helm template . | weir lint -"
    if tab := _TAB.search(text):
        line = text.count("\n", 0, tab.start()) + 1
        return f"line {line} is indented with a tab, which YAML does not allow", "indent with spaces"
    return "", ""


def _in_go_words(error: yaml.YAMLError, problem: str) -> str:
    """Return an error as Go's YAML reader words it, whose lines start from 0 unless the scanner stumbled."""
    problem_mark, context_mark = getattr(error, "problem_mark", None), getattr(error, "context_mark", None)
    line = problem_mark.line if problem_mark else 0
    if line and isinstance(error, yaml.scanner.ScannerError):
        line += 1
    line = line or (context_mark.line if context_mark else 0)
    return f"line {line}: {problem}" if line else problem


def place_of_mark(file: str, mark: Any) -> Place:
    """Return the place of a mark, the beginning of the file for none."""
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
