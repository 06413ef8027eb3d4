"""List of the functions of an environment, with signatures and prices.

The declarations are the only source: `weir cel functions` and docs/reference/cel.md are printed from here, and a
test holds the page against them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from weir.cel import ast
from weir.cel.env import Env, Function, Library, Overload
from weir.cel.types import Type

_INFIX: Final = {
    ast.OR: "||", ast.AND: "&&", ast.LESS: "<", ast.LESS_EQUALS: "<=", ast.GREATER: ">", ast.GREATER_EQUALS: ">=",
    ast.EQUALS: "==", ast.NOT_EQUALS: "!=", ast.IN: "in", ast.ADD: "+", ast.SUBTRACT: "-", ast.MULTIPLY: "*",
    ast.DIVIDE: "/", ast.MODULO: "%",
}  # fmt: skip
_PREFIX: Final = {ast.NOT: "!", ast.NEGATE: "-"}
#: One sentence for each library, for the page.
_ABOUT: Final = {
    "standard": "Operators, conversions, times and `matches`: every environment has them.",
    "strings": "Positions are code points.",
    "formatting": "`'%s: %d'.format([a, b])`; clauses `%s %d %f %e %b %x %X %o %%`.",
    "optionals": "`m.?k`, `l[?i]`, `optional.of(x)`; with the macros `optMap` and `optFlatMap`.",
    "sets": "Lists taken as sets.",
    "url": "Absolute URLs and absolute paths.",
    "lists": "With the macro `sortBy`.",
    "regex": "RE2 syntax, linear time.",
    "quantity": "Kubernetes quantities; there are no ordering operators, use the methods.",
    "ip": "No zones, no IPv4-mapped IPv6.",
    "cidr": "Host bits are kept and count in `==`.",
    "format": "`validate` returns none for a valid text, else the messages.",
    "semver": "Strict unless the second argument is true; there are no ordering operators, use the methods.",
    "two_variable": "Macros with two variables: `all`, `exists`, `existsOne`, `transformList`, `transformMap`, "
    "`transformMapEntry`.",
    "bind": "The macro `cel.bind(v, init, expression)`; only in the device environment.",
}
_HIDDEN_LIBRARIES: Final = frozenset({"authz"})


def rows(env: Env) -> list[dict[str, str]]:
    """Return one row for each signature: function, overload id, signature and price."""
    return [row for library in env.libraries for row in _library_rows(library)]


def _library_rows(library: Library) -> Iterator[dict[str, str]]:
    if library.name in _HIDDEN_LIBRARIES:
        return
    for function in library.functions:
        for overload in function.overloads:
            signature = _signature(function, overload)
            if signature:
                yield {
                    "library": library.name,
                    "function": function.name,
                    "overload": overload.id,
                    "signature": signature,
                    "cost": _price(function, overload),
                }


def _price(function: Function, overload: Overload) -> str:
    if function.name in (ast.AND, ast.OR):
        return "0; the right side only when needed"
    if function.name == ast.CONDITIONAL:
        return "0; only the chosen side"
    return overload.static.words if overload.static else "1"


def _signature(function: Function, overload: Overload) -> str:
    """Return how the call is written, "" for what users cannot write."""
    name, params = function.name, [str(param) for param in overload.params]
    if name in _INFIX:
        call = f"{params[0]} {_INFIX[name]} {params[1]}"
    elif name in _PREFIX:
        call = f"{_PREFIX[name]}{params[0]}"
    elif name == ast.CONDITIONAL:
        call = f"{params[0]} ? {params[1]} : {params[2]}"
    elif name == ast.INDEX:
        call = f"{params[0]}[{params[1]}]"
    elif name == ast.OPT_INDEX:
        call = f"{params[0]}[?{params[1]}]"
    elif name == ast.OPT_SELECT:
        call = f"{params[0]}.?name"
    elif "@" in name:
        return ""
    elif overload.member:
        call = f"{params[0]}.{name}({', '.join(params[1:])})"
    else:
        call = f"{name}({', '.join(params)})"
    return f"{call} → {overload.result}"


def markdown(environments: Mapping[str, Env]) -> str:
    """Return the reference page of all *environments*."""
    return "\n".join(_page(environments)) + "\n"


def _page(environments: Mapping[str, Env]) -> Iterator[str]:
    yield from (
        "# CEL: environments, functions and costs",
        "",
        "<!-- Printed by `weir cel functions -o markdown`; a test compares. Do not edit. -->",
        "",
        "Expressions of tolerations and of device selectors. Try one with `weir cel check`, `eval` and `cost`.",
        "",
        "## Environments",
        "",
        "| environment | variable | field | type | longest |",
        "|---|---|---|---|---|",
    )
    for name, env in environments.items():
        yield from _environment(name, env)
    yield from (
        "",
        "The result must be `bool`; in the device environment it may also be an attribute that turns out to be one.",
        "The estimated worst case and the cost of each evaluation are limited to 1,000,000, the text to 10,240 bytes.",
        "",
        "## Costs",
        "",
        "`0.1·x` is rounded up unless it says otherwise; `len` is the size of the string or list: (least, most) in the "
        "estimate, actual when evaluating. Arguments are added. A name or a field costs 1, a list literal 10, a map "
        "literal 30; constant lists, maps and conversions are free when evaluating.",
    )
    listed: set[str] = set()
    for env in environments.values():
        for library in env.libraries:
            if library.name in listed or library.name in _HIDDEN_LIBRARIES:
                continue
            listed.add(library.name)
            yield from _section(library)


def _environment(name: str, env: Env) -> Iterator[str]:
    for variable, kind in env.variables.items():
        fields: Mapping[str, Type] = (
            env.object_types[kind.name].fields if kind.name in env.object_types else {}
        )
        for field, of in fields.items():
            size = env.sizes.get((variable, field))
            yield f"| {name} | `{variable}` | `{field}` | `{of}` | {'' if size is None else size} |"


def _section(library: Library) -> Iterator[str]:
    yield from ("", f"## {library.name}", "", _ABOUT.get(library.name, ""))
    found = list(_library_rows(library))
    if not found:
        return
    yield from ("", "| signature | overload | cost |", "|---|---|---|")
    for row in found:
        signature = row["signature"].replace("|", "\\|")
        yield f"| `{signature}` | `{row['overload']}` | {row['cost']} |"
