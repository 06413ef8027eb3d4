"""JSONPath as client-go implements it, for printer columns.

Spec: the JSONPath of client-go, as far as printer columns use it: fields, quoted keys, positions, slices, `*`, `..`
and filters that compare. A missing field gives no result; an invalid path raises JsonPathError.
Paths and documents are clients': values are found one at a time, each value looked at is taken from a `Visits`, and
nothing recurses into the document.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

LONGEST_PATH: Final = 4096  #: and so no number has more digits than `int` reads
DEEPEST_FILTER: Final = 8  #: filters within filters

_NAME: Final = re.compile(r"(?:\\.|[^.\[\]\\])+")
_OPERATOR: Final = re.compile(r"==|!=|<=|>=|<|>")
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


class TooManyVisits(Exception):
    """A path looked at more values than it may."""


class Visits:
    """How many more values may be looked at, by all paths that share this."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    def take(self, count: int = 1) -> None:
        """Count values that were looked at. Raises TooManyVisits."""
        self.left -= count
        if self.left < 0:
            raise TooManyVisits


Step = Callable[[Any, Visits], Iterator[Any]]
_END: Final = object()


class JsonPath:
    """A path that was read once.

    >>> path = JsonPath('.conditions[?(@.type=="Ready")].status')
    >>> conditions = [{"type": "Other", "status": "x"}, {"type": "Ready", "status": "True"}]
    >>> list(path.find({"conditions": conditions}, Visits(100)))
    ['True']
    >>> list(JsonPath(".a['b.c'][-1]").find({"a": {"b.c": [1, 2]}}, Visits(100)))
    [2]
    >>> list(JsonPath(".a..n").find({"a": [{"n": 1}, {"n": 2}]}, Visits(100)))
    [1, 2]
    """

    def __init__(self, text: str, depth: int = 0) -> None:
        if len(text) > LONGEST_PATH or depth > DEEPEST_FILTER:
            raise JsonPathError("the path is too long or too deep")
        self._steps = _read(text, depth)

    def find(self, document: Any, visits: Visits) -> Iterator[Any]:
        """Yield what lies at the path, in order. Raises TooManyVisits."""
        steps = self._steps
        pending: list[Iterator[Any]] = [iter((document,))]  # one per step that was taken
        while pending:
            visits.take()
            value = next(pending[-1], _END)
            if value is _END:
                pending.pop()
            elif len(pending) > len(steps):
                yield value
            else:
                pending.append(steps[len(pending) - 1](value, visits))


def _read(text: str, depth: int) -> list[Step]:
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
            steps.append(_brackets(text[at + 1 : end].strip(), depth))
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


def _brackets(inside: str, depth: int) -> Step:
    if inside == "*":
        return _each
    if inside[:1] in ("'", '"'):
        names = [
            re.sub(r"\\(.)", r"\1", one[1] or one[2])
            for one in re.finditer(r"'((?:\\.|[^'])*)'|\"((?:\\.|[^\"])*)\"", inside)
        ]
        return _several([_field(name) for name in names])
    if inside.startswith("?"):
        return _filter(inside, depth)
    if "," in inside:
        return _several([_brackets(part.strip(), depth) for part in inside.split(",")])
    found = _SLICE.fullmatch(inside)
    if found is None or not inside:
        raise JsonPathError(f"invalid array index {inside}")
    if not found[2]:
        return _position(int(found[1]))
    first, last, step = (int(found[i]) if found[i] else None for i in (1, 3, 4))
    if step is not None and step <= 0:
        raise JsonPathError("step must be > 0")
    part = slice(first, last, step)

    def slice_of(value: Any, visits: Visits) -> Iterator[Any]:
        if isinstance(value, list):
            for index in range(*part.indices(len(value))):
                yield value[index]

    return slice_of


def _several(steps: list[Step]) -> Step:
    def each_of(value: Any, visits: Visits) -> Iterator[Any]:
        for step in steps:
            visits.take()
            yield from step(value, visits)

    return each_of


def _filter(text: str, depth: int) -> Step:
    if not (text.startswith("?(") and text.endswith(")")):
        raise JsonPathError(f"invalid filter {text}")
    inside = text[2:-1].strip()
    found = _OPERATOR.search(inside, 1)
    sides = [inside] if found is None else [inside[: found.start()].strip(), inside[found.end() :].strip()]
    if not all(sides):
        raise JsonPathError(f"invalid filter {text}")
    operands = [_operand(side, depth) for side in sides]
    compare = None if found is None else _COMPARE[found[0]]

    def chosen(value: Any, visits: Visits) -> Iterator[Any]:
        for item in value if isinstance(value, list) else (value,):
            visits.take()
            values = [next(operand(item, visits), _END) for operand in operands]
            if _END not in values and (compare is None or _holds(compare, values[0], values[1], visits)):
                yield item

    return chosen


def _holds(compare: Callable[[Any, Any], bool], one: Any, other: Any, visits: Visits) -> bool:
    """Return whether two scalars compare so; lists and objects, which may be large, do not."""
    if isinstance(one, dict | list) or isinstance(other, dict | list):
        return False
    if isinstance(one, str) and isinstance(other, str):
        visits.take(min(len(one), len(other)) >> 10)
    try:
        return compare(one, other)
    except TypeError:
        return False


def _operand(text: str, depth: int) -> Callable[[Any, Visits], Iterator[Any]]:
    if text[:1] in ("'", '"') and text[-1:] == text[:1] and len(text) > 1:
        constant: Any = text[1:-1]
    elif text in ("true", "false"):
        constant = text == "true"
    elif re.fullmatch(r"-?\d{1,100}", text):
        constant = int(text)
    elif re.fullmatch(r"-?\d*\.\d+", text):
        constant = float(text)
    else:
        return JsonPath(text, depth + 1).find
    return lambda item, visits: iter((constant,))


def _field(name: str) -> Step:
    def step(value: Any, visits: Visits) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _position(index: int) -> Step:
    def step(value: Any, visits: Visits) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return step


def _each(value: Any, visits: Visits) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _everything(value: Any, visits: Visits) -> Iterator[Any]:
    pending: list[Iterator[Any]] = [iter((value,))]
    while pending:
        visits.take()
        each = next(pending[-1], _END)
        if each is _END:
            pending.pop()
            continue
        yield each
        pending.append(_each(each, visits))
