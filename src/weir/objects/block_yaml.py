"""Fast reader for plain block YAML as `kubectl get -o yaml` writes it, without positions.

Reads line by line, many times faster than composing nodes. Anything else (multi-line quotes, flow collections,
aliases, tags, trailing comments) is *unusual*: inside a list only that item is given to the full reader, elsewhere
the whole text is. Must read exactly what weir.objects.manifest reads; a test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

#: One entry of a mapping: a key of letters that mean nothing to YAML, and what follows it on the line.
_ENTRY: Final = re.compile(r"([A-Za-z0-9_./][A-Za-z0-9_./:@=+~-]*?):(?: +(.*))?\Z", re.ASCII)
#: A plain scalar on one line: no comment, no second key, nothing that YAML would take as more than text.
_PLAIN: Final = re.compile(
    r"(?:[^\s\-?:,\[\]{}#&*!|>'\"%@`]|[-:](?=[^\s,\[\]{}]))(?:[^#:]|(?<! )#|:(?! |\Z))*\Z"
)
_DOUBLE: Final = re.compile(r'"([^"\\]*)"\Z')
_SINGLE: Final = re.compile(r"'((?:[^']|'')*)'\Z")
#: Nested deeper than this, a text is not a dump of Kubernetes objects.
_DEEPEST: Final = 60
_LONGEST_KNOWN: Final = 80
#: Lines of one object, and flow items of a text: the full reader refuses what is too much, and reads it at once.
_MOST_LINES: Final = 100_000
_MOST_UNUSUAL: Final = 5_000
_END: Final = -1


class Unusual(Exception):
    """The text is not plain block YAML here."""


def read_dump(text: str, resolve: Callable[[str], Any], read_item: Callable[[str], Any]) -> list[Any] | None:
    """Return the documents of *text*, or None when it is not plain enough and the full reader should read it.

    *resolve* gives the value of an unquoted scalar; *read_item* reads one unusual item of a list in full.

    >>> read_dump("a:\\n- b: c\\n  d: 'e'\\n- {f: g}\\n", str, lambda item: item.strip())
    [{'a': [{'b': 'c', 'd': 'e'}, '{f: g}']}]
    """
    if (
        "\t" in text
        or "\r" in text
        or "\ufeff" in text
        or "\x85" in text
        or "\u2028" in text
        or "\u2029" in text
    ):
        return None
    reader = _Reader(text.split("\n"), resolve, read_item)
    try:
        return reader.documents()
    except Unusual:
        return None


class _Reader:
    def __init__(
        self, lines: list[str], resolve: Callable[[str], Any], read_item: Callable[[str], Any]
    ) -> None:
        self._lines = lines
        self._resolve = resolve
        self._read_item = read_item
        self._at = 0  # the current line: the first not read yet
        self._indent = _END  # how far it is indented; _END past the last line of the document
        self._content = ""  # the line without its indentation
        self._known: dict[str, Any] = {}
        self._object_at = 0  # the line where the document, or the item of a List, begins
        self._unusual = 0

    def documents(self) -> list[Any]:
        values = []
        self._advance(0)
        while True:
            if self._indent != _END:
                self._object_at = self._at
                values.append(self._block(self._indent, 0))
                if self._indent != _END:
                    raise Unusual
            if self._at >= len(self._lines):
                return [document for document in values if document is not None]
            self._advance(self._at + 1)  # past the separator

    def _advance(self, at: int) -> None:
        """Go to the next line that says something."""
        lines = self._lines
        while at < len(lines):
            line = lines[at]
            content = line.lstrip(" ")
            if content and content[0] != "#":
                indent = len(line) - len(content)
                if indent == 0 and content.startswith(("---", "...", "%")):
                    if content.rstrip() != "---":
                        raise Unusual
                    break
                self._at, self._indent, self._content = at, indent, content.rstrip(" ")
                return
            at += 1
        self._at, self._indent, self._content = at, _END, ""

    def _block(self, indent: int, depth: int) -> Any:
        if depth > _DEEPEST:
            raise Unusual
        if self._content.startswith("- "):
            return self._sequence(indent, depth)
        return self._mapping(indent, self._content, depth)

    def _mapping(self, indent: int, content: str, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        while True:
            if self._at - self._object_at > _MOST_LINES:
                raise Unusual
            entry = _ENTRY.match(content)
            if entry is None:
                raise Unusual
            key, value = entry.groups()
            if key[0] in "0123456789.nNyYtTfFoO~":
                key = self._key(key)
            if value:
                result[key] = self._value(value, indent)
            else:
                self._advance(self._at + 1)
                if self._indent > indent or (self._indent == indent and self._content.startswith("- ")):
                    if depth == 0 and key == "items" and self._content.startswith("- "):
                        result[key] = self._sequence(self._indent, depth + 1, objects=True)
                    else:
                        result[key] = self._block(self._indent, depth + 1)
                else:
                    result[key] = None
            if self._indent < indent:
                return result
            if self._indent > indent:
                raise Unusual
            content = self._content
            if content.startswith("- "):
                # Inside an item of a list at this very indentation the next item ends the mapping.
                raise Unusual

    def _sequence(self, indent: int, depth: int, *, objects: bool = False) -> list[Any]:
        """Return the list that begins here; *objects*: its items are objects of their own."""
        result: list[Any] = []
        while self._indent == indent and self._content.startswith("- "):
            start = self._at
            if objects:
                self._object_at = start
            elif start - self._object_at > _MOST_LINES:
                raise Unusual
            try:
                result.append(self._item(indent, depth))
            except Unusual:
                result.append(self._unusual_item(start, indent))
        if self._indent > indent:
            raise Unusual
        return result

    def _item(self, indent: int, depth: int) -> Any:
        rest = self._content[2:].lstrip(" ")
        if _ENTRY.match(rest):
            return self._mapping(indent + len(self._content) - len(rest), rest, depth + 1)
        value = self._value(rest, indent)
        if self._indent > indent:
            raise Unusual
        return value

    def _unusual_item(self, start: int, indent: int) -> Any:
        """Hand the lines of one item, up to the next or the end of the list, to the full reader."""
        self._unusual += 1
        if self._unusual > _MOST_UNUSUAL:
            raise Unusual
        end = start + 1
        while end < len(self._lines):
            line = self._lines[end]
            content = line.lstrip(" ")
            if content and len(line) - len(content) <= indent:
                break
            end += 1
        # The dash becomes a blank: what stood behind it keeps its column, and so do the lines below.
        item = self._lines[start][:indent] + " " + self._lines[start][indent + 1 :]
        value = self._read_item("\n".join((item, *self._lines[start + 1 : end])))
        self._advance(end)
        return value

    # ── scalars ──

    def _value(self, text: str, indent: int) -> Any:
        """Return the value that begins with *text* on the current line and go behind it."""
        first = text[0]
        if first == "|":
            return self._literal(text, indent)
        below = self._at + 1
        self._advance(below)
        if self._indent > indent:
            text = self._folded(text, indent, below)
        try:
            return self._known[text]
        except KeyError:
            value = self._scalar(text)
            if len(text) < _LONGEST_KNOWN and type(value) is not dict and type(value) is not list:
                self._known[text] = value
            return value

    def _folded(self, text: str, indent: int, at: int) -> str:
        """Return an unquoted or single-quoted scalar that goes on in the deeper lines from *at*, as one line."""
        quoted = text[0] == "'"
        if not quoted and _PLAIN.match(text) is None:
            raise Unusual
        parts = [text]
        while self._indent > indent:
            if self._at != at:  # a blank line or a comment in between means more than a blank
                raise Unusual
            if not quoted and _PLAIN.match(self._content) is None:
                raise Unusual
            parts.append(self._content)
            at += 1
            self._advance(at)
        return " ".join(parts)

    def _scalar(self, text: str) -> Any:
        match text[0]:
            case '"':
                if found := _DOUBLE.match(text):
                    return found[1]
            case "'":
                if found := _SINGLE.match(text):
                    return found[1].replace("''", "'")
            case "{":
                if text == "{}":
                    return {}
            case "[":
                if text == "[]":
                    return []
            case _:
                if _PLAIN.match(text):
                    return self._resolve(text)
        raise Unusual

    def _literal(self, text: str, indent: int) -> str:
        """Return a literal block (`|`, `|-`): the deeper lines below as they are."""
        if text not in ("|", "|-"):
            raise Unusual
        lines, at = self._lines, self._at + 1
        first = lines[at] if at < len(lines) else ""
        depth = len(first) - len(first.lstrip(" "))
        if depth <= indent or not first.strip(" "):
            raise Unusual
        taken: list[str] = []
        while at < len(lines):
            line = lines[at]
            content = line.lstrip(" ")
            if content and len(line) - len(content) < depth:
                if len(line) - len(content) > indent:
                    raise Unusual
                break
            taken.append(line[depth:])
            at += 1
        self._advance(at)
        body = "\n".join(taken).rstrip("\n")
        return body if text == "|-" else body + "\n"

    def _key(self, key: str) -> str:
        """Return a key that may be a number or a word with a meaning, as JSON needs it."""
        value = self._resolve(key)
        if isinstance(value, str):
            return value
        raise Unusual
