"""JSONPath as client-go implements it, for printer columns.

Spec: the JSONPath of client-go, as far as printer columns use it: fields, quoted keys, positions, slices, `*`, `..`
and filters that compare. A missing field gives no result; an invalid path raises JsonPathError.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

__all__ = ["JsonPath", "JsonPathError"]

Step = Callable[[Any], Iterator[Any]]

_NAME: Final = re.compile(r"(?:\\.|[^.\[\]\\])+")
_FILTER: Final = re.compile(r"\?\(\s*(.+?)\s*(?:(==|!=|<=|>=|<|>)\s*(.+?)\s*)?\)", re.DOTALL)
_SLICE: Final = re.compile(r"(-?\d+)?(:)?(-?\d+)?(?::(-?\d+))?")
_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class JsonPathError(ValueError):
    """A path that cannot be read."""


class JsonPath:
    """A path that was read once.

    >>> path = JsonPath('.conditions[?(@.type=="Ready")].status')
    >>> path.find({"conditions": [{"type": "Other", "status": "x"}, {"type": "Ready", "status": "True"}]})
    ['True']
    >>> JsonPath(".a['b.c'][-1]").find({"a": {"b.c": [1, 2]}}), JsonPath(".a..n").find({"a": [{"n": 1}, {"n": 2}]})
    ([2], [1, 2])
    """

    def __init__(self, text: str) -> None:
        self._steps = _read(text)

    def find(self, document: Any) -> list[Any]:
        """Return what lies at the path, in order."""
        found = [document]
        for step in self._steps:
            found = [item for value in found for item in step(value)]
        return found


def _read(text: str) -> list[Step]:
    steps: list[Step] = []
    at = 0
    if text.startswith(("$", "@")):
        at = 1
    while at < len(text):
        if text.startswith("..", at):
            steps.append(_everything)
            at += 1 if text[at + 2 : at + 3] != "[" else 2
        elif text[at] == ".":
            at += 1
            found = _NAME.match(text, at)
            if found is None:
                if text[at : at + 1] == "[" or at == len(text):
                    continue
                raise JsonPathError(f"unrecognized character in path: {text[at:]!r}")
            name = re.sub(r"\\(.)", r"\1", found[0])
            steps.append(_each if name == "*" else _field(name))
            at = found.end()
        elif text[at] == "[":
            end = _closing(text, at)
            steps.append(_brackets(text[at + 1 : end].strip()))
            at = end + 1
        else:
            found = _NAME.match(text, at)
            if found is None or at:
                raise JsonPathError(f"unrecognized character in path: {text[at:]!r}")
            steps.append(_field(found[0]))
            at = found.end()
    return steps


def _closing(text: str, at: int) -> int:
    """Return where the bracket that opens at *at* closes."""
    depth, quoted = 0, ""
    for i in range(at, len(text)):
        char = text[i]
        if quoted:
            if char == quoted and text[i - 1] != "\\":
                quoted = ""
        elif char in "'\"":
            quoted = char
        elif char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
            if not depth:
                return i
    raise JsonPathError("unterminated array")


def _brackets(inside: str) -> Step:
    if inside == "*":
        return _each
    if inside[:1] in ("'", '"'):
        names = [
            re.sub(r"\\(.)", r"\1", one[1] or one[2])
            for one in re.finditer(r"'((?:\\.|[^'])*)'|\"((?:\\.|[^\"])*)\"", inside)
        ]
        return lambda value: (item for name in names for item in _field(name)(value))
    if inside.startswith("?"):
        return _filter(inside)
    if "," in inside:
        several = [_brackets(part.strip()) for part in inside.split(",")]
        return lambda value: (item for step in several for item in step(value))
    found = _SLICE.fullmatch(inside)
    if found is None or not inside:
        raise JsonPathError(f"invalid array index {inside}")
    if not found[2]:
        return _position(int(found[1]))
    first, last, step = (int(found[i]) if found[i] else None for i in (1, 3, 4))
    return lambda value: iter(value[first:last:step]) if isinstance(value, list) else iter(())


def _filter(text: str) -> Step:
    found = _FILTER.fullmatch(text)
    if found is None:
        raise JsonPathError(f"invalid filter {text}")
    left, compare = _operand(found[1]), _COMPARE.get(found[2] or "")
    right = _operand(found[3]) if found[3] else None

    def chosen(value: Any) -> Iterator[Any]:
        for item in value if isinstance(value, list) else (value,):
            one = left(item)
            if compare is None or right is None:
                if one:
                    yield item
                continue
            other = right(item)
            if one and other and _holds(compare, one[0], other[0]):
                yield item

    return chosen


def _holds(compare: Callable[[Any, Any], bool], one: Any, other: Any) -> bool:
    try:
        return compare(one, other)
    except TypeError:
        return False


def _operand(text: str) -> Callable[[Any], list[Any]]:
    if text[:1] in ("'", '"') and text[-1:] == text[:1] and len(text) > 1:
        constant: Any = text[1:-1]
    elif text in ("true", "false"):
        constant = text == "true"
    elif re.fullmatch(r"-?\d+", text):
        constant = int(text)
    elif re.fullmatch(r"-?\d*\.\d+", text):
        constant = float(text)
    else:
        return JsonPath(text).find
    return lambda item: [constant]


def _field(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _position(index: int) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return step


def _each(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _everything(value: Any) -> Iterator[Any]:
    yield value
    for item in _each(value):
        yield from _everything(item)
