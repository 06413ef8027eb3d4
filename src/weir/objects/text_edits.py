"""Edits the text of a document for a changed value, keeping comments and layout.

`changed_text` walks the old value, the new value and the old positions together, and edits only where they differ.
The result is parsed again and must equal the new value; where an edit cannot achieve that (a value that an alias
repeats, say) it returns nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any, Final

import yaml

from weir.objects.manifest import Document, ManifestError, read_manifest
from weir.objects.yaml_reader import key_of

#: A longer document is read again too slowly for every fix in it.
_LONGEST: Final = 1_000_000
_STEP: Final = 2


@dataclass(frozen=True, slots=True, order=True)
class TextEdit:
    """What to write instead of the characters from *start* to before *end*."""

    start: int
    end: int
    new: str


class EditError(ValueError):
    """Edits that cannot all be made, or a change that no edit makes."""


def apply_edits(text: str, edits: Iterable[TextEdit]) -> str:
    """Return *text* with all of *edits* made; two that overlap raise EditError.

    >>> apply_edits("cpu: 4", [TextEdit(5, 6, "2")])
    'cpu: 2'
    """
    parts, at = [], 0
    for edit in sorted(set(edits)):  # the same edit twice: what an alias repeats
        if edit.start < at:
            raise EditError("edits overlap")
        parts += [text[at : edit.start], edit.new]
        at = edit.end
    return "".join([*parts, text[at:]])


@dataclass(frozen=True)
class Change:
    """One document of a text before and after, alone, and how many lines of the text come before it."""

    before: Document
    after: Document
    lines_before: int


def changed_text(document: Document, after: Any) -> Change | None:
    """Return *document* and the same with its value changed to *after*; None when no edit of its text does that."""
    root = document.node_of((), whole=True)
    if root is None:
        return None
    text = document.text
    start = text.rfind("\n", 0, root.start_mark.index) + 1
    end = root.end_mark.index
    if text[end - 1 : end] != "\n":  # brackets end in a line, blocks with one
        end = text.find("\n", end) + 1 or len(text)
    own = text[start:end]
    if len(own) > _LONGEST:
        return None
    try:
        (alone,) = read_manifest(own, document.file)
        before = replace(alone, value=document.value, _root=document.root)
        changed = apply_edits(own, _Editor(own, alone).edits(before.node_of(()), document.value, after))
        (again,) = read_manifest(changed, document.file)
    except (EditError, ManifestError, ValueError):
        return None
    if _canonical(again.value) != _canonical(_wanted(alone.value, document, after)):
        return None
    return Change(before, replace(again, value=after, _root=document.root), text.count("\n", 0, start))


def _canonical(value: Any) -> str:
    """Return *value* so that 1, true and 1.0 differ, and the order of keys does not matter."""
    return json.dumps(value, sort_keys=True)


def _wanted(whole: Any, document: Document, after: Any) -> Any:
    """Return the value of the whole document once the one at its root (a List's member, say) is *after*."""
    if not document.root:
        return after
    whole = json.loads(json.dumps(whole))
    *path, last = document.root
    parent = whole
    for part in path:
        parent = parent[part]
    # The kind of a member may be said by its list alone.
    parent[last] = {k: v for k, v in after.items() if k in parent[last] or k not in document.value}
    return whole


# ── where to edit ────────────────────────────────────────────────────────────────────────────────


class _Editor:
    """Finds the edits of one document's text."""

    def __init__(self, text: str, document: Document) -> None:
        self.text = text
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self.json = text.lstrip()[:1] in ("{", "[")
        root = document.node_of((), whole=True)
        nodes = [*_nodes(root)] if root is not None else []
        self.dash_step = _dash_step(nodes)
        self.flows = [
            (n.start_mark.index, n.end_mark.index) for n in nodes if getattr(n, "flow_style", False)
        ]

    def edits(self, node: yaml.Node | None, before: Any, after: Any) -> list[TextEdit]:
        if node is None:
            raise EditError("the document has no text")
        found = self._value(node, before, after, None)
        return [replace(each, new=each.new.replace("\n", self.newline)) for each in found]

    def _value(self, node: yaml.Node, before: Any, after: Any, key: yaml.Node | None) -> Iterator[TextEdit]:
        if _canonical(before) == _canonical(after):
            return
        if isinstance(node, yaml.MappingNode) and isinstance(after, dict) and set(after) & set(before):
            yield from self._mapping(node, before, after)
        elif isinstance(node, yaml.SequenceNode) and isinstance(after, list) and before and after:
            yield from self._sequence(node, before, after)
        else:
            yield from self._whole(node, after, key)

    # ── mappings ──

    def _mapping(
        self, node: yaml.MappingNode, before: dict[str, Any], after: dict[str, Any]
    ) -> Iterator[TextEdit]:
        entries = {key_of(key): (key, value) for key, value in node.value}
        removed = [name for name in before if name not in after]
        if not all(name in entries for name in removed):
            raise EditError("a merge key brings what is to be removed")
        for name, value in after.items():
            if name in before and name in entries:
                yield from self._value(entries[name][1], before[name], value, entries[name][0])
        added = {name: value for name, value in after.items() if name not in before or name not in entries}
        added = {name: value for name, value in added.items() if name not in before or before[name] != value}
        spans = [(key.start_mark.index, self._end_of(key, value)) for key, value in node.value]
        gone = [key_of(key) in removed for key, _ in node.value]
        if node.flow_style:
            yield from self._flow(
                spans, gone, [f"{self._inline(k)}: {self._inline(v)}" for k, v in added.items()]
            )
            return
        yield from self._removed_lines(spans, gone)
        if added:
            column = node.value[0][0].start_mark.column
            yield self._lines_after(spans[-1][1], column, self._block(added, column))

    # ── sequences ──

    def _sequence(self, node: yaml.SequenceNode, before: list[Any], after: list[Any]) -> Iterator[TextEdit]:
        same = SequenceMatcher(None, [*map(_canonical, before)], [*map(_canonical, after)], autojunk=False)
        gone, added = [False] * len(before), dict[int, list[Any]]()  # added: before which item
        for _, old, old_end, new, new_end in same.get_opcodes():
            paired = min(old_end - old, new_end - new)
            for offset in range(paired):
                item = node.value[old + offset]
                yield from self._value(item, before[old + offset], after[new + offset], None)
            gone[old + paired : old_end] = [True] * (old_end - old - paired)
            if new_end - new > paired:
                added[old_end] = after[new + paired : new_end]
        spans = [(item.start_mark.index, self._end_of(None, item)) for item in node.value]
        if not any(gone) and not added:
            return
        if any(not node.start_mark.index <= start <= node.end_mark.index for start, _ in spans):
            raise EditError("an alias stands for an item")
        if node.flow_style:
            if added and set(added) != {len(before)}:
                raise EditError("items are added in the middle of a list on one line")
            new_items = [self._inline(value) for values in added.values() for value in values]
            yield from self._flow(spans, gone, new_items)
            return
        dashes = [self.text.rindex("-", 0, start) for start, _ in spans]
        yield from self._removed_lines(
            [(dash, end) for dash, (_, end) in zip(dashes, spans, strict=True)], gone
        )
        column = self._column(dashes[0])
        for index, values in added.items():
            lines = self._block(values, column)
            if all(getattr(item, "flow_style", False) for item in node.value):
                lines = [f"{' ' * column}- {self._inline(value)}" for value in values]
            if index == 0:
                start = self._line_start(dashes[0])
                yield TextEdit(start, start, "".join(f"{line}\n" for line in lines))
            else:
                yield self._lines_after(spans[index - 1][1], column, lines)

    # ── lines and spans ──

    def _removed_lines(self, spans: list[tuple[int, int]], gone: list[bool]) -> Iterator[TextEdit]:
        """Yield the removal of entries with their lines; one that follows a dash hands it to the next that stays."""
        first = 0
        if gone[0] and self.text[self._line_start(spans[0][0]) : spans[0][0]].strip():
            first = gone.index(False)
            yield TextEdit(spans[0][0], spans[first][0], "")
        for (start, end), removed in [*zip(spans, gone, strict=True)][first:]:
            if removed:
                yield TextEdit(self._line_start(start), self._next_line(end), "")

    def _lines_after(self, end: int, column: int, lines: list[str]) -> TextEdit:
        """Return the insertion of *lines* below what ends at *end*, and below the comments that belong to it."""
        at = self._next_line(end)
        while at < len(self.text):
            line = self.text[at : self._next_line(at)]
            if not (line.lstrip().startswith("#") and len(line) - len(line.lstrip()) > column):
                break
            at = self._next_line(at)
        if at == len(self.text) and not self.text.endswith("\n"):
            return TextEdit(at, at, "".join(f"\n{line}" for line in lines))
        return TextEdit(at, at, "".join(f"{line}\n" for line in lines))

    def _flow(self, spans: list[tuple[int, int]], gone: list[bool], added: list[str]) -> Iterator[TextEdit]:
        """Yield the edits of a collection in brackets: entries go with the comma before or after them."""
        kept = [index for index, removed in enumerate(gone) if not removed]
        if not kept:
            raise EditError("nothing stays")
        for index, removed in enumerate(gone):
            if removed and index < kept[-1]:
                yield TextEdit(spans[index][0], spans[index + 1][0], "")
        if gone[-1]:
            yield TextEdit(spans[kept[-1]][1], spans[-1][1], "")
        if added:
            yield TextEdit(spans[-1][1], spans[-1][1], "".join(f", {each}" for each in added))

    def _end_of(self, key: yaml.Node | None, node: yaml.Node) -> int:
        """Return where the text of a value ends, without the blank lines and comments that follow it."""
        if key is not None and node.start_mark.index < key.end_mark.index:  # an alias: its text is elsewhere
            return self._next_line(key.end_mark.index) - 1
        if isinstance(node, yaml.MappingNode) and not node.flow_style:
            return self._end_of(*node.value[-1])
        if isinstance(node, yaml.SequenceNode) and not node.flow_style:
            return self._end_of(None, node.value[-1])
        end: int = node.end_mark.index
        return len(self.text[:end].rstrip("\r\n")) if getattr(node, "style", None) in ("|", ">") else end

    def _line_start(self, at: int) -> int:
        return self.text.rfind("\n", 0, at) + 1

    def _next_line(self, at: int) -> int:
        found = self.text.find("\n", at)
        return len(self.text) if found < 0 else found + 1

    def _column(self, at: int) -> int:
        return at - self._line_start(at)

    # ── values ──

    def _whole(self, node: yaml.Node, value: Any, key: yaml.Node | None) -> Iterator[TextEdit]:
        """Yield the exchange of a whole value for another."""
        start, end = node.start_mark.index, self._end_of(None, node)
        flow = self.json or self._in_flow(node)
        if flow or not (isinstance(value, dict | list) and value):
            new = self._inline(value, node) if flow else _scalar_text(value, node)
            if key is None or node.start_mark.line == key.end_mark.line:
                yield TextEdit(start, end, new if end > start else f" {new}")
            else:
                colon = self.text.index(":", key.end_mark.index) + 1
                yield TextEdit(colon, colon, f" {new}")
                yield TextEdit(self._line_start(start), self._next_line(end), "")
        elif key is None:  # an item of a list, or the document: its first line follows the dash
            lines = self._block(value, self._column(start))
            yield TextEdit(start, end, "\n".join(lines).lstrip(" "))
        else:
            column = key.start_mark.column
            lines = self._block(value, column + (self.dash_step if isinstance(value, list) else _STEP))
            if node.start_mark.line == key.end_mark.line:
                colon = self.text.index(":", key.end_mark.index) + 1
                yield TextEdit(colon, end, "")
            else:
                yield TextEdit(self._line_start(start), self._next_line(end), "")
            yield self._lines_after(end, column, lines)

    def _in_flow(self, node: yaml.Node) -> bool:
        """Return whether *node* stands inside brackets, where no block may begin."""
        return any(start < node.start_mark.index < end for start, end in self.flows)

    def _inline(self, value: Any, like: yaml.Node | None = None) -> str:
        if self.json:
            return json.dumps(value, ensure_ascii=False)
        if isinstance(value, dict):
            return "{" + ", ".join(f"{self._inline(k)}: {self._inline(v)}" for k, v in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(self._inline(each) for each in value) + "]"
        return _scalar_text(value, like)

    def _block(self, value: Any, column: int) -> list[str]:
        """Return the lines of a collection that is not empty, indented by *column*."""
        pad, lines = " " * column, []
        if isinstance(value, dict):
            for name, each in value.items():
                lines.append(f"{pad}{_scalar_text(name)}:")
                if isinstance(each, dict | list) and each:
                    step = self.dash_step if isinstance(each, list) else _STEP
                    lines += self._block(each, column + step)
                else:
                    lines[-1] += f" {_scalar_text(each)}"
        else:
            for each in value:
                if isinstance(each, dict | list) and each:
                    first, *rest = self._block(each, column + _STEP)
                    lines += [f"{pad}- {first.lstrip(' ')}", *rest]
                else:
                    lines.append(f"{pad}- {_scalar_text(each)}")
        return lines


def _scalar_text(value: Any, like: yaml.Node | None = None) -> str:
    """Return *value* on one line as it is read back the same, quoted as *like* is if that is quoted."""
    if isinstance(value, dict | list):
        return "{}" if isinstance(value, dict) else "[]"
    quoted = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str):
        return quoted
    style = getattr(like, "style", None)
    candidates = {'"': [quoted], "'": ["'" + value.replace("'", "''") + "'", quoted]}
    for text in candidates.get(style or "", [value, quoted]):
        try:
            (found,) = read_manifest(f"[{text}]")  # inside brackets: what is plain there is plain everywhere
        except ValueError:
            continue
        if found.value == [value] and type(found.value[0]) is str and not value.startswith("#"):
            return text
    return json.dumps(value)


def _nodes(node: yaml.Node) -> Iterator[yaml.Node]:
    yield node
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key
            yield from _nodes(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _nodes(item)


def _dash_step(nodes: Iterable[yaml.Node]) -> int:
    """Return how far the document indents lists below their key; none says it: as kubectl writes them."""
    for node in nodes:
        for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
            below = value.start_mark.line > key.start_mark.line
            if isinstance(value, yaml.SequenceNode) and not value.flow_style and below:
                return max(0, int(value.start_mark.column) - int(key.start_mark.column))
    return 0
