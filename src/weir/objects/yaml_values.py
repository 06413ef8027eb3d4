"""Memory-bounded YAML reader for request bodies.

Composing nodes (weir.objects.manifest) keeps two marks per scalar: three megabytes become hundreds. This reads parser
events, keeps only values, and rejects text with more than *most* values, counting what aliases repeat. Messages are
those of the API server's reader: an anchor may be redefined, and an undefined alias is named.

Same values as weir.objects.manifest.read_manifest; tests/unit/objects/test_yaml_values.py compares them.
"""

from __future__ import annotations

from math import isfinite
from typing import Any, Final, NamedTuple

import yaml

from weir.objects.jsontext import MOST_VALUES
from weir.objects.yaml_nodes import DEEPEST, ManifestError, Place, as_manifest_error, decode_text, new_loader
from weir.objects.yaml_scalars import key_of, scalar_of

__all__ = ["TooManyValues", "YamlValue", "read_document", "read_yaml"]

_NO_KEY: Final = object()
_MERGE: Final = object()


class TooManyValues(ManifestError):
    """The text holds more values than a server reads."""


class YamlValue(NamedTuple):
    """One document: its value, and the keys it gives twice, each with its line."""

    value: Any
    duplicates: list[tuple[str, int]]


class _Anchored(NamedTuple):
    """What an alias repeats: a value, its number of values and levels; a scalar's event, since it may be a key."""

    value: Any
    size: int
    height: int
    event: Any = None


class _Frame:
    """A list or mapping that is being filled."""

    __slots__ = ("anchor", "before", "height", "key", "merged", "value")

    def __init__(self, value: Any, anchor: str | None, before: int) -> None:
        self.value, self.anchor, self.before = value, anchor, before
        self.height = 0  # levels of the deepest member so far
        self.key: Any = _NO_KEY
        self.merged: dict[str, Any] | None = None


def read_yaml(body: str | bytes, file: str = "body", most: int = MOST_VALUES) -> list[YamlValue]:
    """Return the documents of *body*, empty ones left out; raises ManifestError.

    >>> read_yaml("a: &x [1, on]\\nb: *x\\n")
    [YamlValue(value={'a': [1, True], 'b': [1, True]}, duplicates=[])]
    """
    return _Reader(decode_text(body, file), file, most).documents()


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


class _Reader:
    def __init__(self, text: str, file: str, most: int) -> None:
        self._loader = new_loader(text)
        self._text, self._file, self._most = text, file, most
        self._count = 0
        self._stack: list[_Frame] = []
        self._anchors: dict[str, _Anchored | None] = {}  # None: still open
        self._duplicates: list[tuple[str, int]] = []
        self._root: Any = None

    def documents(self) -> list[YamlValue]:
        found: list[YamlValue] = []
        try:
            while True:
                event = self._loader.get_event()
                match event:
                    case yaml.ScalarEvent():
                        self._scalar(event)
                    case yaml.MappingStartEvent():
                        self._open(event, {})
                    case yaml.SequenceStartEvent():
                        self._open(event, [])
                    case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                        self._close(event)
                    case yaml.AliasEvent():
                        self._alias(event)
                    case yaml.DocumentStartEvent():
                        self._anchors, self._duplicates, self._root = {}, [], None
                    case yaml.DocumentEndEvent():
                        if self._root is not None:
                            found.append(YamlValue(self._root, self._duplicates))
                    case yaml.StreamEndEvent():
                        return found
                    case _:
                        pass
        except yaml.YAMLError as error:
            raise as_manifest_error(error, self._file, self._text) from None
        finally:
            self._loader.dispose()

    def _scalar(self, event: Any) -> None:
        self._add(1, event)
        value = scalar_of(event)
        if value.__class__ is float and not isfinite(value):
            problem = f"{event.value} is no number of JSON"
            raise ManifestError(self._place(event), problem, f"json: unsupported value: {event.value}")
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, 1, 0, event)
        self._put(value, event, event)

    def _open(self, event: Any, value: Any) -> None:
        if len(self._stack) >= DEEPEST:
            raise self._error(event, f"nested more than {DEEPEST} levels deep")
        if self._stack and type(self._stack[-1].value) is dict and self._stack[-1].key is _NO_KEY:
            raise self._error(event, "a mapping key must be a plain word, not a list or mapping")
        before = self._count
        self._add(1, event)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._stack.append(_Frame(value, event.anchor, before))

    def _close(self, event: Any) -> None:
        frame = self._stack.pop()
        value = frame.value
        if frame.merged:
            value = {**frame.merged, **value}
        height = frame.height + 1
        if frame.anchor is not None:
            self._anchors[frame.anchor] = _Anchored(value, self._count - frame.before, height)
        if self._stack:
            self._stack[-1].height = max(self._stack[-1].height, height)
        self._put(value, None, event)

    def _alias(self, event: Any) -> None:
        try:
            anchored = self._anchors[event.anchor]
        except KeyError:
            problem = f"unknown anchor '{event.anchor}' referenced"
            raise ManifestError(self._place(event), problem, problem) from None
        if anchored is None:
            problem = f"anchor '{event.anchor}' value contains itself"
            raise ManifestError(self._place(event), problem, problem)
        self._add(anchored.size, event)
        if len(self._stack) + anchored.height > DEEPEST:
            raise self._error(event, f"nested more than {DEEPEST} levels deep")
        if self._stack:
            self._stack[-1].height = max(self._stack[-1].height, anchored.height)
        self._put(anchored.value, anchored.event, event)

    def _put(self, value: Any, scalar: Any, event: Any) -> None:
        """Give *value* its place; *scalar* is its event if it is a word and may be a key."""
        if not self._stack:
            self._root = value
            return
        frame = self._stack[-1]
        holder = frame.value
        if type(holder) is list:
            holder.append(value)
        elif frame.key is _NO_KEY:
            if scalar is None:
                raise self._error(event, "a mapping key must be a plain word, not a list or mapping")
            if scalar.value == "<<" and not scalar.style:
                frame.key = _MERGE
                return
            frame.key = key = key_of(scalar)
            if key in holder:
                self._duplicates.append((key, event.start_mark.line + 1))
        elif frame.key is _MERGE:
            frame.key = _NO_KEY
            if frame.merged is None:
                frame.merged = {}
            self._merge(frame.merged, value, event)
        else:
            holder[frame.key] = value
            frame.key = _NO_KEY

    def _merge(self, merged: dict[str, Any], value: Any, event: Any) -> None:
        for source in value if isinstance(value, list) else [value]:
            if not isinstance(source, dict):
                raise self._error(event, "map merge requires map or sequence of maps as the value")
            self._add(len(source), event)
            for key, inherited in source.items():
                merged.setdefault(key, inherited)

    def _add(self, size: int, event: Any) -> None:
        self._count += size
        if self._count > self._most:
            raise TooManyValues(self._place(event), f"the text holds more than {self._most} values")

    def _place(self, event: Any) -> Place:
        return Place(self._file, event.start_mark.line + 1, event.start_mark.column + 1)

    def _error(self, event: Any, problem: str) -> ManifestError:
        return ManifestError(self._place(event), problem)
