"""YAML reader: values of parser events, with the positions of every field where they are wanted.

Words, numbers and keys are resolved as Go's YAML library reads them.
Depth, the number of values and what aliases repeat are counted as the events come, so that hostile text (deep nesting,
alias bombs, binary) raises ManifestError before anything large is built. The C composer is not used: it recurses on the
C stack, and brackets behind quotes or comments would end the process. Positions cost two marks per scalar, three
megabytes become hundreds, so request bodies and dumps are read without them. An anchor may be redefined, as in Go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite, isinf
from typing import Any, Final, NamedTuple

import yaml

_WORDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
}
_INTEGER: Final = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|0|[1-9][0-9]*)\Z", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][-+]?[0-9]+)?\Z", re.ASCII)
_LONGEST_NUMBER: Final = 400
_NUMERIC: Final = frozenset("0123456789+-.")


def scalar_of(node: yaml.ScalarNode | yaml.ScalarEvent) -> Any:
    """Return the value of a scalar by Kubernetes' YAML rules; quoted text is always text."""
    text: str = node.value
    if node.style:
        return text
    tag: str | None = node.tag
    if tag and (tag == "tag:yaml.org,2002:str" or not tag.startswith("tag:yaml.org,2002:")):
        return text
    if text[:1] in _NUMERIC or text in _WORDS:
        return plain_scalar(text)
    return text


def plain_scalar(text: str) -> Any:
    """Return what the unquoted *text* means in YAML 1.1 as Kubernetes reads it.

    >>> [plain_scalar(word) for word in ("on", "0o17", "1_000", "1.50", "2024-01-15", "5m")]
    [True, 15, 1000, 1.5, '2024-01-15', '5m']
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "0123456789+-." or len(text) > _LONGEST_NUMBER:
        return text
    digits = text.replace("_", "")
    if _INTEGER.match(digits):
        number = _integer(digits)
        if -(2**63) <= number < 2**64:
            return number
        return _float(digits, text) if _FLOAT.match(digits) else text
    return _float(digits, text) if _FLOAT.match(digits) else text


def _float(digits: str, text: str) -> float | str:
    """Return the number, or *text* itself when it is beyond what a float holds."""
    number = float(digits)
    return text if isinf(number) else number


def _integer(digits: str) -> int:
    sign, digits = (-1, digits[1:]) if digits[0] == "-" else (1, digits.lstrip("+"))
    if len(digits) > 1 and digits[0] == "0" and digits[1] in "01234567":
        return sign * int(digits, 8)
    return sign * int(digits, 0)


def key_of(node: yaml.ScalarNode | yaml.ScalarEvent) -> str:
    """Return a mapping key as JSON needs it: text."""
    value = scalar_of(node)
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


PathPart = str | int

#: Kubernetes objects are a few dozen levels deep.
DEEPEST: Final = 200
#: Values that aliases may add to one text that is bounded by its objects.
MOST_ALIASED: Final = 50_000
#: Where items of a List lie: the document, its `items`, the item.
_ITEM_DEPTH: Final = 2
#: What Helm and its kin replace; `{{` alone is YAML (a flow mapping in a flow mapping), though nobody writes it.
_TEMPLATE: Final = re.compile(
    r"\{\{-?\s*(?:[.$]|(?:if|else|end|range|with|include|template|define|toYaml|tpl)\b|/\*)"
)
#: What else stands in files that are no manifests yet, and what to do.
_NO_MANIFESTS: Final = (
    (re.compile(r"^(?:<{7}|>{7}) ", re.MULTILINE), "a merge conflict stands", "resolve it first"),
    (re.compile(r"\{%[^%\n]*%\}"), "an unrendered template stands", "render it first"),
    (re.compile(r"^\s*<(?:!DOCTYPE|html)\b", re.IGNORECASE), "a page of HTML stands", "fetch the raw file"),
)
#: Plain text to YAML, except between braces and brackets.
_VARIABLE: Final = re.compile(r"\$\{\w+\}")
_TAB: Final = re.compile(r"^ *\t", re.MULTILINE)
#: Words this short recur in objects and are resolved once.
_SHORT: Final = 80
_NO_KEY: Final = object()
_MERGE: Final = object()


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


class NotParsed(ManifestError):
    """A text that is no YAML: the parser does not take it."""


class TooManyValues(ManifestError):
    """The text holds more values than its bound."""


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


class Bound(NamedTuple):
    """The number of values that a text may hold, in all or (*each_object*) in each document and item of a List."""

    most: int
    each_object: bool = False


class YamlDocument(NamedTuple):
    """One document: its value, the keys it gives twice with their places, and its root node if nodes are kept."""

    value: Any
    duplicates: tuple[tuple[tuple[PathPart, ...], Place], ...]
    node: yaml.Node | None


class Start(NamedTuple):
    """Where a text begins in the file that it is part of."""

    offset: int
    line: int
    column: int


def read_events(
    text: str, file: str, bound: Bound, *, nodes: bool = False, start: Start | None = None
) -> Iterator[YamlDocument]:
    """Yield the documents of *text*, empty ones left out; raises ManifestError at the first thing wrong."""
    loader = _LOADER(text)
    try:
        events = _Part(loader, start) if start else loader
        yield from _Reader(events, file, bound, nodes).documents()
    except yaml.YAMLError as error:
        raise _as_manifest_error(error, file, text) from None
    finally:
        loader.dispose()


class _Anchored(NamedTuple):
    """What an alias repeats: a value, its number of values and levels, its event if it is a word, its node."""

    value: Any
    size: int
    height: int
    word: yaml.ScalarEvent | None
    node: yaml.Node | None


class _Part:
    """Events of a text that is part of a file; their marks count from the beginning of the file."""

    def __init__(self, loader: Any, start: Start) -> None:
        self._loader, self._start = loader, start

    def get_event(self) -> Any:
        event = self._loader.get_event()
        event.start_mark, event.end_mark = self._moved(event.start_mark), self._moved(event.end_mark)
        return event

    def _moved(self, mark: Any) -> yaml.Mark:
        column = mark.column if mark.line else mark.column + self._start.column
        offset, line = mark.index + self._start.offset, mark.line + self._start.line
        return yaml.Mark(mark.name, offset, line, column, None, 0)


class _Open:
    """A list or mapping that is being filled."""

    __slots__ = ("anchor", "before", "height", "is_items", "key", "key_node", "merged", "node", "value")

    def __init__(self, value: Any, node: Any, anchor: str | None, before: int, is_items: bool) -> None:
        self.value, self.node, self.anchor, self.before, self.is_items = value, node, anchor, before, is_items
        self.height = 0  # levels of the deepest member so far
        self.key: Any = _NO_KEY
        self.key_node: yaml.Node | None = None
        self.merged: dict[str, Any] | None = None


class _Reader:
    """Makes values (and nodes) of events, and counts values, depth and what aliases repeat as they come."""

    def __init__(self, loader: Any, file: str, bound: Bound, nodes: bool) -> None:
        self._loader, self._file, self._bound, self._nodes = loader, file, bound, nodes
        self._open: list[_Open] = []
        self._anchors: dict[str, _Anchored | None] = {}  # None: still open
        self._words: dict[str, Any] = {}
        self._duplicates: list[tuple[tuple[PathPart, ...], Place]] = []
        self._count = 0  # values of the text
        self._start = 0  # the count from which the bound counts
        self._aliased = 0  # values that aliases added, of the whole text
        self._root: Any = None
        self._root_node: yaml.Node | None = None

    def documents(self) -> Iterator[YamlDocument]:
        next_event = self._loader.get_event
        while True:
            event = next_event()
            kind = event.__class__
            if kind is yaml.ScalarEvent:
                self._scalar(event)
            elif kind is yaml.MappingStartEvent:
                self._begin({}, yaml.MappingNode, event)
            elif kind is yaml.SequenceStartEvent:
                self._begin([], yaml.SequenceNode, event)
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                self._end(event)
            elif kind is yaml.AliasEvent:
                self._alias(event)
            elif kind is yaml.DocumentStartEvent:
                self._anchors, self._duplicates, self._root, self._root_node = {}, [], None, None
                self._begin_object()
            elif kind is yaml.DocumentEndEvent:
                if self._root is not None:
                    yield YamlDocument(self._root, tuple(self._duplicates), self._root_node)
            elif kind is yaml.StreamEndEvent:
                return

    def _scalar(self, event: Any) -> None:
        self._add(1, event)
        text = event.value
        if event.style or event.tag or len(text) > _SHORT:
            value = scalar_of(event)
        elif (value := self._words.get(text, self)) is self:
            value = self._words[text] = scalar_of(event)
        if value.__class__ is float and not isfinite(value):
            problem = f"{text} is no number of JSON"
            raise ManifestError(self._place(event), problem, f"json: unsupported value: {text}")
        node = None
        if self._nodes:
            node = yaml.ScalarNode(event.tag, text, event.start_mark, event.end_mark, style=event.style)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, 1, 0, event, node)
        self._put(value, event, node, event)

    def _begin(self, value: Any, kind: type[yaml.CollectionNode], event: Any) -> None:
        depth = len(self._open)
        parent = self._open[-1] if depth else None
        if depth >= DEEPEST:
            raise self._error(event, f"nested more than {DEEPEST} levels deep")
        if parent is not None and parent.key is _NO_KEY and type(parent.value) is dict:
            raise self._error(event, "a mapping key must be a plain word, not a list or mapping")
        if depth == _ITEM_DEPTH and parent is not None and parent.is_items:
            self._begin_object()
        is_items = depth == 1 and parent is not None and parent.key == "items" and type(value) is list
        before = self._count
        self._add(1, event)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        node = kind(event.tag, [], event.start_mark, None, event.flow_style) if self._nodes else None
        self._open.append(_Open(value, node, event.anchor, before, is_items))

    def _end(self, event: Any) -> None:
        closed = self._open.pop()
        value, node = closed.value, closed.node
        if closed.merged:
            value = {**closed.merged, **value}
        if node is not None:
            node.end_mark = event.end_mark
        height = closed.height + 1
        if closed.anchor is not None:
            self._anchors[closed.anchor] = _Anchored(value, self._count - closed.before, height, None, node)
        if self._open and height > self._open[-1].height:
            self._open[-1].height = height
        self._put(value, None, node, event)

    def _alias(self, event: Any) -> None:
        try:
            anchored = self._anchors[event.anchor]
        except KeyError:
            problem = f"unknown anchor '{event.anchor}' referenced"
            raise ManifestError(self._place(event), problem, problem) from None
        if anchored is None:
            problem = f"anchor '{event.anchor}' value contains itself"
            raise ManifestError(self._place(event), problem, problem)
        self._aliased += anchored.size
        if self._bound.each_object and self._aliased > MOST_ALIASED:
            raise self._error(event, "aliases repeat too much: this text expands beyond reason")
        self._add(anchored.size, event)
        if len(self._open) + anchored.height > DEEPEST:
            raise self._error(event, f"nested more than {DEEPEST} levels deep")
        if self._open:
            self._open[-1].height = max(self._open[-1].height, anchored.height)
        self._put(anchored.value, anchored.word, anchored.node, event)

    def _put(self, value: Any, word: yaml.ScalarEvent | None, node: yaml.Node | None, event: Any) -> None:
        """Give *value* its place in what is open; *word* is its event if it is a scalar and may be a key."""
        if not self._open:
            self._root, self._root_node = value, node
            return
        parent = self._open[-1]
        holder = parent.value
        if type(holder) is list:
            holder.append(value)
            if node is not None:
                parent.node.value.append(node)
        elif parent.key is _NO_KEY:
            if word is None:
                raise self._error(event, "a mapping key must be a plain word, not a list or mapping")
            parent.key_node = node
            if word.value == "<<" and not word.style:
                parent.key = _MERGE
                return
            parent.key = key = value if value.__class__ is str else key_of(word)
            if key in holder:
                path = tuple(len(each.value) if each.key is _NO_KEY else each.key for each in self._open)
                self._duplicates.append(
                    (tuple(part for part in path if part is not _MERGE), self._place(event))
                )
        else:
            if parent.key is _MERGE:
                parent.merged = {} if parent.merged is None else parent.merged
                self._merge(parent.merged, value, event)
            else:
                holder[parent.key] = value
            parent.key = _NO_KEY
            if node is not None:
                parent.node.value.append((parent.key_node, node))

    def _merge(self, merged: dict[str, Any], value: Any, event: Any) -> None:
        for source in value if isinstance(value, list) else [value]:
            if not isinstance(source, dict):
                raise self._error(event, "map merge requires map or sequence of maps as the value")
            self._add(len(source), event)
            for key, inherited in source.items():
                merged.setdefault(key, inherited)

    def _begin_object(self) -> None:
        if self._bound.each_object:
            self._start = self._count

    def _add(self, size: int, event: Any) -> None:
        self._count += size
        most, each_object = self._bound
        if self._count - self._start > most:
            raise TooManyValues(
                self._place(event),
                f"one object holds more than {most} values: no API server takes it"
                if each_object
                else f"the text holds more than {most} values",
            )

    def _place(self, event: Any) -> Place:
        return place_of_mark(self._file, event.start_mark)

    def _error(self, event: Any, problem: str) -> ManifestError:
        return ManifestError(self._place(event), problem)


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
            raise ManifestError(Place(file, line, 1), f"this is not text ({_format_of(text)})") from None
    if bad := _UNPRINTABLE.search(decoded):
        line = decoded.count("\n", 0, bad.start()) + 1
        column = bad.start() - decoded.rfind("\n", 0, bad.start())
        character = f"character {ord(bad.group()):#04x}"
        reason = f"{character}; {_format_of(text)}" if isinstance(text, bytes) else character
        raise ManifestError(Place(file, line, column), f"this is not text ({reason})")
    return decoded


#: Formats that are not read, by their first bytes; files of gzip were unpacked before.
_PACKED: Final = {
    "gzip": b"\x1f\x8b",
    "zip": b"PK\x03\x04",
    "zstd": b"\x28\xb5\x2f\xfd",
    "bzip2": b"BZh",
    "xz": b"\xfd7zXZ\x00",
}


def _format_of(text: bytes) -> str:
    """Return what bytes that are not UTF-8 text probably are, and what to do."""
    packed = next((name for name, opening in _PACKED.items() if text.startswith(opening)), "")
    return f"{packed}: unpack it first" if packed else "binary, or not in UTF-8: save it in that encoding"


_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff\ud800-\udfff]")


def _as_manifest_error(error: yaml.YAMLError, file: str, text: str) -> NotParsed:
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
    return NotParsed(place, problem, in_go_words)


def name_cause(error: ManifestError, text: str) -> ManifestError:
    """Return *error* with the cause in *text* where it is a common one."""
    cause, fix = _common_cause(text, error.place.line)
    return (
        ManifestError(error.place, f"{cause} ({error.problem})", error.in_go_words, fix) if cause else error
    )


def _has_variable(line: str) -> bool:
    """Whether a variable stands behind a brace, a bracket or a comma of *line*."""
    last = max((match.start() for match in _VARIABLE.finditer(line)), default=0)
    return not {"{", "[", ","}.isdisjoint(line[:last])


def _common_cause(text: str, wrong: int) -> tuple[str, str]:
    """Return why *text* cannot be read, where the parser's own words do not lead to it, and what to do; or "".

    *wrong* is the line that the parser does not take.
    """
    if template := _TEMPLATE.search(text):
        line = text.count("\n", 0, template.start()) + 1
        cause = f"an unrendered template stands on line {line}, so this is no manifest yet"
        return cause, "render it first: helm template . | weir lint -"
    for pattern, cause, fix in _NO_MANIFESTS:
        if match := pattern.search(text):
            return f"{cause} on line {text.count(chr(10), 0, match.start()) + 1}", fix
    if any(map(_has_variable, text.split("\n")[wrong - 1 : wrong])):
        cause = f"a variable that is to be replaced stands on line {wrong}"
        return cause, "replace it first, as envsubst does"
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


if yaml.__with_libyaml__:
    from yaml._yaml import CParser

    _LOADER: Any = CParser
else:  # pragma: no cover - wheels carry the C parser

    class _PyLoader(yaml.reader.Reader, yaml.scanner.Scanner, yaml.parser.Parser):
        def __init__(self, stream: str) -> None:
            yaml.reader.Reader.__init__(self, stream)
            yaml.scanner.Scanner.__init__(self)
            yaml.parser.Parser.__init__(self)

    _LOADER = _PyLoader
