"""Fields of a device that a selector reads; devices equal in them share one evaluation.

A rule about a model is evaluated once per model, not per device. Only literal access counts (`device.driver`,
`device.attributes["d"].id`, also by index, optional or in `has()`); a selector that reads a device in any other way
is evaluated for each. Fields are compared as written, not as values: `1.0.0+a` and `1.0.0+b` are equal versions and
still two evaluations.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from weir.cel import ast
from weir.cel.env import Env
from weir.cel.errors import CompileError, Source
from weir.cel.macros import Macros
from weir.cel.parser import parse
from weir.cel.types import Node
from weir.objects.resource import Device, DeviceID

_ROOT: Final = "device"
_PLAIN: Final = ("driver", "allowMultipleAllocations")
_NAMED: Final = ("attributes", "capacity")
_ACCESS: Final = (ast.INDEX, ast.OPT_INDEX, ast.OPT_SELECT)


class Read(NamedTuple):
    """One part of a device: `driver`, or `attributes` (or `capacity`) of a domain by id."""

    part: str
    domain: str = ""
    id: str = ""


#: Says whether a selector is true for a device that has this text where the selector looks.
TextTest = Callable[[str], bool]


#: Returns a device's values of the fields read; None when it must be evaluated itself.
EqualityKey = Callable[[DeviceID, Device], Hashable | None]


def find_reads(expressions: Sequence[str], env: Env) -> frozenset[Read] | None:
    """Return everything *expressions* look at, or None when that is not plain to see.

    >>> from weir.devices.expression import environment
    >>> sorted(find_reads(["device.driver == 'd' && device.attributes['d'].model == 'a'"], environment()))
    [Read(part='attributes', domain='d', id='model'), Read(part='driver', domain='', id='')]
    >>> find_reads(["device.attributes.exists(d, true)"], environment())
    """
    found: set[Read] = set()
    for expression in expressions:
        try:
            root = parse(Source(expression), Macros(env.macro_groups, env.macros_enabled))
        except CompileError:
            return None
        for read in _reads(root):
            if read is None:
                return None
            found.add(read)
    return frozenset(found)


def find_text_test(expressions: Sequence[str], env: Env) -> TextTest | None:
    """Return the test that a single selector applies to the one text field it reads, if it does nothing else.

    Devices with a text in that field then need no evaluation each, however different their texts are.

    >>> from weir.devices.expression import environment
    >>> test = find_text_test(["device.attributes['d'].uuid == 'gpu-1'"], environment())
    >>> test("gpu-1"), test("gpu-2")
    (True, False)
    """
    if len(expressions) != 1:
        return None
    try:
        root = parse(Source(expressions[0]), Macros(env.macro_groups, env.macros_enabled))
    except CompileError:
        return None
    if not isinstance(root, ast.Call) or len(root.operands) != 2:
        return None
    one, other = root.operands
    if root.function in (ast.EQUALS, ast.NOT_EQUALS) and isinstance(one, ast.Literal):
        one, other = other, one
    read = _read(one)
    if read is None or not _is_value(one) or read.part not in ("driver", "attributes"):
        return None
    if root.function == ast.IN:
        texts = _texts(other)
        return texts.__contains__ if texts is not None else None
    text = _text(other)
    return _TESTS[root.function](text) if text is not None and root.function in _TESTS else None


#: By the operator or function, given what it compares with: a text is the same, or begins with the same, characters.
_TESTS: Final[dict[str, Callable[[str], TextTest]]] = {
    ast.EQUALS: lambda text: text.__eq__,
    ast.NOT_EQUALS: lambda text: text.__ne__,
    "startsWith": lambda text: lambda value: value.startswith(text),
    "endsWith": lambda text: lambda value: value.endswith(text),
}


def _text(node: Node) -> str | None:
    return node.value if isinstance(node, ast.Literal) and node.value.__class__ is str else None


def _texts(node: Node) -> frozenset[str] | None:
    if not isinstance(node, ast.ListExpr) or node.optional:
        return None
    found = [_text(element) for element in node.elements]
    return frozenset(text for text in found if text is not None) if None not in found else None


def _is_value(node: Node) -> bool:
    """Whether what *node* reads is the value itself, not whether there is one, nor one that may be missing."""
    if isinstance(node, ast.Select):
        return not node.test_only
    return isinstance(node, ast.Call) and node.function == ast.INDEX


def _reads(root: Node) -> Iterator[Read | None]:
    """Yield what is read, and None for every use of the device that is not plain."""
    stack = [root]
    while stack:
        node = stack.pop()
        read = _read(node)
        if read is not None:
            yield read
        elif isinstance(node, ast.Ident):
            if _ROOT in node.name:
                yield None
        else:
            stack.extend(ast.children(node))


def _read(node: Node) -> Read | None:
    """Return the part that *node* names, if it names one."""
    operand, name = _access(node)
    if operand is None:
        return None
    if _is_device(operand):
        return Read(name) if name in _PLAIN and isinstance(node, ast.Select) else None
    container, domain = _access(operand)
    if container is None or (isinstance(operand, ast.Call) and operand.function != ast.INDEX):
        return None
    if isinstance(operand, ast.Select) and operand.test_only:
        return None
    if isinstance(container, ast.Select) and not container.test_only and _is_device(container.operand):
        return Read(container.field, domain, name) if container.field in _NAMED else None
    return None


def _access(node: Node) -> tuple[Node | None, str]:
    """Return what is looked into and under which constant name; (None, "") for anything else."""
    if isinstance(node, ast.Select):
        return node.operand, node.field
    if isinstance(node, ast.Call) and node.function in _ACCESS and len(node.operands) == 2:
        operand, key = node.operands
        if isinstance(key, ast.Literal) and key.value.__class__ is str:
            return operand, key.value
    return None, ""


def _is_device(node: Node) -> bool:
    return isinstance(node, ast.Ident) and node.name == _ROOT


def equality_key(reads: frozenset[Read]) -> EqualityKey:
    """Return what distinguishes devices as far as *reads* see them."""
    parts = [_part(read) for read in sorted(reads)]
    if len(parts) == 1:
        return parts[0]

    def all_parts(name: DeviceID, device: Device) -> Hashable | None:
        found = []
        for part in parts:
            value = part(name, device)
            if value is None:
                return None
            found.append(value)
        return tuple(found)

    return all_parts


_ABSENT: Final = ("absent",)


def _part(read: Read) -> EqualityKey:
    if read.part == "driver":
        return lambda name, device: name.driver
    if read.part == "allowMultipleAllocations":
        return lambda name, device: str(bool(device.allow_multiple_allocations))
    domain, bare, qualified = read.domain, read.id, f"{read.domain}/{read.id}"
    find = operator.attrgetter(read.part)
    attributes = read.part == "attributes"

    def look(name: DeviceID, device: Device) -> Hashable | None:
        named = find(device)
        if not named:
            return _ABSENT
        entry = named.get(bare) if name.driver == domain else None
        if qualified in named:
            if entry is not None:
                return None  # set twice: left to the reader
            entry = named[qualified]
        if entry is None:
            return _ABSENT
        if not attributes:
            return _amount(entry)
        if len(entry) == 1:  # as it should be
            text = entry.get("string")
            if text.__class__ is str:
                return text  # nothing else is a bare text
            version = entry.get("version")
            if version.__class__ is str:
                return "version", version
        return _attribute(entry)

    return look


def _attribute(entry: Mapping[str, Any]) -> Hashable | None:
    found = tuple(entry.items())
    try:
        hash(found)
    except TypeError:  # a list
        return None
    return found


def _amount(entry: Any) -> Hashable | None:
    return str(entry.get("value", "0") if isinstance(entry, Mapping) else entry)
