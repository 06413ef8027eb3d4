"""Strategic merge patch.

Spec: apiserver.md 7 "Patch" (merge keys, `$patch`, `$deleteFromPrimitiveList`, new items go before the existing
ones). Directives: `$patch: replace|delete` in a map or list item, `$deleteFromPrimitiveList/<field>`,
`$setElementOrder/<field>` (the requested order; items only the server has keep their relative place) and
`$retainKeys` (fields of a union that may stay). An item without its merge key is a 500; patched items keep the
patch's order.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from typing import Any, Final, NamedTuple

import msgspec

from weir.errors import ApiError, BadRequest, InternalError, Invalid
from weir.objects import schema
from weir.objects.document import KindRow, copied, root_of
from weir.objects.jsontext import TOO_DEEP, JsonError, may_be_too_deep, parse_json, plain, too_deep
from weir.values.quoting import quote

DIRECTIVE: Final = "$patch"
RETAIN_KEYS: Final = "$retainKeys"
DELETE_FROM: Final = "$deleteFromPrimitiveList"
SET_ORDER: Final = "$setElementOrder"
BAD_PRIMITIVES: Final = "invalid patch format of primitive list"
BAD_RETAIN_KEYS: Final = "invalid patch format of retainKeys"
BAD_ORDER: Final = "invalid patch format of setElementOrder list"
_REJECTED: Final = "the server rejected our request due to an error in our request"


_NONE: Final = object()


class SchemaNode(NamedTuple):
    """Where in the schema a value stands, and how its field asks to be merged."""

    shape: schema.Shape | None
    merges: bool = False
    replaces: bool = False
    key: str = ""

    def field(self, name: str) -> SchemaNode:
        """Return the place of a field or map key below."""
        shape = self.shape
        if shape is not None and shape.kind == "struct":
            field = schema.struct(shape.struct_name).fields.get(name)
            if field is None:
                struct = shape.go.rpartition(".")[2]
                raise InternalError(
                    f"unable to find api field in struct {struct} for the json field {quote(name)}"
                )
            return SchemaNode(
                field.shape, "merge" in field.strategies, "replace" in field.strategies, field.merge_key
            )
        return SchemaNode(shape.item if shape is not None else None)

    @property
    def item(self) -> SchemaNode:
        """Return the place of a list's items."""
        return SchemaNode(self.shape.item if self.shape is not None else None)


def patch(document: dict[str, Any], body: bytes, kind: KindRow) -> dict[str, Any]:
    """Return *document* with the strategic merge patch of *body* applied; the argument stays as it is.

    >>> from weir.objects.kinds import by_kind
    >>> pod = {"spec": {"containers": [{"name": "a", "image": "x"}]}}
    >>> patch(pod, b'{"spec": {"containers": [{"name": "a", "image": "y"}, {"name": "b"}]}}', by_kind("v1", "Pod"))
    {'spec': {'containers': [{'name': 'a', 'image': 'y'}, {'name': 'b'}]}}
    """
    return merge_map(copied(document), parse(body), schema_node(kind))


def parse(body: bytes) -> dict[str, Any]:
    """Return the patch *body* holds."""
    try:
        overlay = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        try:
            overlay = plain(parse_json(body))
        except JsonError:
            raise BadRequest("invalid JSON patch") from None
    if overlay is None:
        return {}
    if may_be_too_deep(body) and too_deep(overlay):
        raise BadRequest(TOO_DEEP)
    if not isinstance(overlay, dict):
        word = {list: "array", str: "string", bool: "bool"}.get(type(overlay), "number")
        raise BadRequest(f"json: cannot unmarshal {word} into Go value of type map[string]interface {{}}")
    return overlay


def schema_node(kind: KindRow) -> SchemaNode:
    """Return the place of a whole object."""
    root = root_of(kind)
    return SchemaNode(schema.Shape("struct", root.go, False, None, root.name))


def merge_map(original: dict[str, Any], overlay: dict[str, Any], node: SchemaNode) -> dict[str, Any]:
    """Return *overlay* merged into *original*; both may be changed."""
    if DIRECTIVE in overlay:
        return _directed_map(overlay)
    _retain_keys(original, overlay)
    _apply_orders(original, overlay, node)
    for key, value in overlay.items():
        deleting = key.startswith(DELETE_FROM)
        name = _directive_field(key, DELETE_FROM, BAD_PRIMITIVES) if deleting else key
        if deleting and not isinstance(value, list):
            raise BadRequest(BAD_PRIMITIVES)
        if value is None:
            original.pop(name, None)
        elif name not in original or type(original[name]) is not type(value):
            if not deleting:
                _take(original, name, value)
        elif isinstance(value, dict):
            inner = node.field(name)
            original[name] = value if inner.replaces else merge_map(original[name], value, inner)
        elif isinstance(value, list):
            inner = node.field(name)
            original[name] = _merge_list(original[name], value, inner, deleting)
        else:
            _take(original, name, value)
    return original


def _directed_map(overlay: dict[str, Any]) -> dict[str, Any]:
    directive = overlay[DIRECTIVE]
    if directive == "replace":
        return {key: value for key, value in overlay.items() if key != DIRECTIVE}
    if directive == "delete":
        return {}
    raise InternalError(f"unknown patch type: {go_text(directive)} in map: {go_text(overlay)}")


def _take(original: dict[str, Any], name: str, value: Any) -> None:
    """Take a value that has nothing to merge with, without nulls and directives."""
    kept, keep = _without_directives(_without_nulls(value))
    if keep:
        original[name] = kept
    else:
        original.pop(name, None)


def _without_nulls(value: Any) -> Any:
    """Return *value* without null fields; lists are looked into, their nulls stay."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _without_directives(value: Any) -> tuple[Any, bool]:
    """Return *value* without the maps that hold a `$patch`, and whether anything is left of it."""
    if isinstance(value, dict):
        if DIRECTIVE in value:
            return None, False
        kept_fields = ((key, *_without_directives(item)) for key, item in value.items())
        return {key: kept for key, kept, keep in kept_fields if keep}, True
    if isinstance(value, list):
        return [kept for kept, keep in map(_without_directives, value) if keep], True
    return value, True


def _directive_field(key: str, prefix: str, problem: str) -> str:
    head, slash, name = key.partition("/")
    if not slash or head != prefix:
        raise BadRequest(problem)
    return name


def _retain_keys(original: dict[str, Any], overlay: dict[str, Any]) -> None:
    if RETAIN_KEYS not in overlay:
        return
    keep = overlay.pop(RETAIN_KEYS)
    if not isinstance(keep, list):
        raise BadRequest(BAD_RETAIN_KEYS)
    for key, value in overlay.items():
        if value is not None and not key.startswith((DELETE_FROM, SET_ORDER)) and key not in keep:
            raise BadRequest(BAD_RETAIN_KEYS)
    for key in [key for key in original if key not in keep]:
        del original[key]


# ── lists ────────────────────────────────────────────────────────────────────────────────────────


def _apply_orders(original: dict[str, Any], overlay: dict[str, Any], node: SchemaNode) -> None:
    """Merge every list that comes with an order, and take it and its order out of *overlay*."""
    for key in [key for key in overlay if key.startswith(SET_ORDER)]:
        order = overlay.pop(key)
        if not isinstance(order, list):
            raise InternalError(f"expected a []interface {{}}, but received a {go_type(order)}")
        name = _directive_field(key, SET_ORDER, BAD_ORDER)
        before, changes = original.get(name), overlay.get(name)
        for found in (before, changes):
            if found is not None and not isinstance(found, list):
                raise InternalError(f"expected a []interface {{}}, but received a {go_type(found)}")
        inner = node.field(name)
        _check_order(changes or [], order, inner.key)
        if name not in original and name not in overlay:
            continue
        if name not in overlay:
            merged = before or []
        elif name not in original:
            merged, _ = _without_directives(changes or [])
        else:
            merged = _merge_list(copied(before or []), changes or [], inner, False)
        _element_type(before or [], changes or [])
        original[name] = _ordered(merged, order, before or [], inner.key)
        overlay.pop(name, None)


def _check_order(changes: list[Any], order: list[Any], key: str) -> None:
    """The changed items must appear in the order list, in its order."""
    if not changes or not order:
        return
    left = deque(item for item in changes if not (key and _directive(item) == "delete"))
    wanted = deque(order)
    while left and wanted:
        if _directive(left[0]) is not _NONE or _same_item(left[0], wanted.popleft(), key):
            left.popleft()
    if left:
        raise InternalError(
            f"The order in patch list:\n{go_text(changes)}\n doesn't match {SET_ORDER} list:\n{go_text(order)}\n"
        )


def _directive(item: Any) -> Any:
    return item.get(DIRECTIVE, _NONE) if isinstance(item, dict) else _NONE


def _same_item(one: Any, other: Any, key: str) -> bool:
    if not key:
        return bool(one == other)
    return bool(_key_of(one, key) == _key_of(other, key))


def _key_of(item: Any, key: str) -> Any:
    if not isinstance(item, dict):
        raise InternalError(f"expected a map[string]interface {{}}, but received a {go_type(item)}")
    if key not in item:
        raise InternalError(f"map: {go_text(item)} does not contain declared merge key: {key}")
    return item[key]


def _merge_list(original: list[Any], changes: list[Any], node: SchemaNode, deleting: bool) -> list[Any]:
    if not node.merges and not deleting:
        return changes
    if not original and not changes:
        return original
    if _element_type(original, changes) is not dict:
        if deleting:
            gone = {_hashable(item) for item in changes}
            return [item for item in original if _hashable(item) not in gone]
        merged = list(dict.fromkeys([*original, *changes]))
        return _ordered(merged, changes, original, "")
    if not node.key:
        raise InternalError(f"cannot merge lists without merge key for {_go_kind(node.item)}")
    original, changes = _directed_items(original, changes, node.key)
    before = list(original)
    merged = _merge_items(original, changes, node)
    return _ordered(merged, changes, before, node.key)


def _directed_items(original: list[Any], changes: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Carry out `$patch` in list items; return what is left of both lists."""
    plain, replace = [], False
    gone: set[Any] = set()
    for item in changes:
        directive = _directive(item)
        if directive is _NONE:
            plain.append(item)
        elif directive == "delete":
            gone.add(_hashable(_key_of(item, key)))
        elif directive == "replace":
            replace = True
        elif directive == "merge":
            raise InternalError("merging lists cannot yet be specified in the patch")
        else:
            raise InternalError(f"unknown patch type: {go_text(directive)} in map: {go_text(item)}")
    if gone:
        original = [old for old in original if not (key in old and _hashable(old[key]) in gone)]
    return (plain, []) if replace else (original, plain)


def _hashable(value: Any) -> Any:
    """Return what stands for *value* in a set: equal ones for equal values."""
    if type(value) is str or isinstance(value, int | float | None):
        return value
    return "", msgspec.json.encode(value, order="sorted")


def _merge_items(original: list[Any], changes: list[Any], node: SchemaNode) -> list[Any]:
    places: dict[Any, int] = {}
    for index, old in enumerate(original):
        if node.key in old:
            places.setdefault(_hashable(old[node.key]), index)
    for item in changes:
        value = _hashable(_key_of(item, node.key))
        index = places.setdefault(value, len(original))
        if index < len(original):
            original[index] = merge_map(original[index], item, node.item)
        else:
            original.append(item)
    return original


def _ordered(merged: list[Any], order: list[Any], before: list[Any], key: str) -> list[Any]:
    """Return *merged* with the items named in *order* in that order, the others where the old list had them."""
    in_order, in_before = _places(_names(order, key)), _places(_names(before, key))
    names = _names(merged, key)
    places = [in_order.get(name, -1) for name in names]
    if -1 not in places:
        return [merged[place] for place in sorted(range(len(merged)), key=places.__getitem__)]
    places_before = [in_before.get(name, -1) for name in names]
    named = deque(_sorted([place for place, at in enumerate(places) if at >= 0], places))
    others = deque(_sorted([place for place, at in enumerate(places) if at < 0], places_before))
    out: list[int] = []
    while named and others:
        first_other = 0 <= places_before[others[0]] < places_before[named[0]]
        out.append(others.popleft() if first_other else named.popleft())
    return [merged[place] for place in (*out, *named, *others)]


def _names(items: list[Any], key: str) -> list[Any]:
    """Return what the items of a list are known by: their merge key, or themselves where there is none."""
    try:
        values = [item[key] for item in items] if key else items
    except (KeyError, TypeError):  # an item without it; this finds the words
        values = [_key_of(item, key) for item in items]
    return [value if type(value) is str else _hashable(value) for value in values]


def _places(names: list[Any]) -> dict[Any, int]:
    """Return where each name comes first."""
    return dict(zip(reversed(names), range(len(names) - 1, -1, -1), strict=True))


def _sorted(items: list[int], ranks: list[int]) -> list[int]:
    """Return the items as upstream's insertion sort by their ranks leaves them, without its many steps.

    There an item without a rank goes before all that precede it, and one with a rank behind the last that is not above
    it. So those with a rank are in order, and each of the others stays right before what was first when it came.
    The plain definition: tests/unit/apiserver/patches/test_hostile.py.
    """
    if min([ranks[item] for item in items], default=0) >= 0:
        return sorted(items, key=ranks.__getitem__)
    ordered: list[tuple[int, int]] = []  # rank and item of those that have one
    before: dict[int, list[int]] = {}  # by item: its predecessors, the nearest first
    last: list[int] = []  # items before the first ranked one, the last first
    for item in items:
        if ranks[item] >= 0:
            insort(ordered, (ranks[item], item))
        elif ordered:
            before.setdefault(ordered[0][1], []).append(item)
        else:
            last.append(item)
    out: list[int] = []
    for _, item in ordered:
        out += reversed(before.get(item, ()))
        out.append(item)
    return [*out, *reversed(last)]


def _element_type(*lists: list[Any]) -> type:
    found: type | None = None
    for items in lists:
        for item in items:
            if found is None:
                found = type(item)
                if found is list:
                    raise Invalid(_REJECTED, details=ApiError.EMPTY)
            elif found is not type(item):
                raise InternalError(f"list element types are not identical: {go_text(list(lists))}")
    if found is None:
        raise InternalError("no elements in any of the given slices")
    return found


# ── Go's way of printing ─────────────────────────────────────────────────────────────────────────


def go_text(value: Any) -> str:
    """Return *value* as Go's `%v` prints decoded JSON.

    >>> go_text({"b": [1, "x"], "a": None})
    'map[a:<nil> b:[1 x]]'
    """
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{go_text(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(go_text, value)) + "]"
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def go_type(value: Any) -> str:
    """Return the Go type decoded JSON has."""
    if isinstance(value, bool):
        return "bool"
    names = {
        dict: "map[string]interface {}",
        list: "[]interface {}",
        str: "string",
        int: "int64",
        float: "float64",
    }
    return names.get(type(value), "<nil>")


def _go_kind(node: SchemaNode) -> str:
    kind = node.shape.kind if node.shape is not None else "interface"
    return kind if kind in ("struct", "map") else "interface"
