"""Random well-typed expressions, grown from the declarations of an environment.

Every declared overload can be chosen, so a new function is fuzzed the day it is declared. Texts are chosen from
a pool that means something to the libraries (versions, quantities, addresses), so that evaluation goes past
the first parser. Same seed, same expression.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from weir.cel import ast, types
from weir.cel.env import Env, Function, Overload
from weir.cel.types import Kind, Type, list_of, map_of, optional_of

TEXTS = [
    "", "a", "b", "example", "example.com/a", "NoSchedule", "1.2.3", "1.2", "6.1.0-rc.1", "10.0.0.1", "10.0.0.0/8",
    "::1", "fe80::/10", "1Gi", "500m", "5", "-7", "true", "https://a.example:80/x?y=1", "12h", "é😀", "a.b.c",
    "2020-01-01T00:00:00Z", "UTC", "dns1123Label", "aaaaaaaaaaaaaaaaaaaaaaaaa",
]  # fmt: skip
PATTERNS = ["a+", "^[a-z.]+$", "[0-9]+[.][0-9]+", "(a|b)*c?", "", "x{2,3}", "^a*b$", "."]
LITERALS: dict[Kind, list[str]] = {
    Kind.BOOL: ["true", "false"],
    Kind.INT: ["0", "1", "2", "-1", "7", "100", "9223372036854775807", "-9223372036854775808"],
    Kind.UINT: ["0u", "1u", "3u", "18446744073709551615u"],
    Kind.DOUBLE: ["0.0", "1.5", "-2.25", "1e10", "1e300"],
    Kind.STRING: [repr(text) for text in TEXTS],
    Kind.BYTES: ["b''", "b'a'", "b'abc'", "b'\\xff'"],
    Kind.NULL: ["null"],
    Kind.DURATION: ["duration('1h')", "duration('-5s')", "duration('1.5s')"],
    Kind.TIMESTAMP: ["timestamp('2020-01-31T23:59:59Z')", "timestamp(0)"],
    Kind.TYPE: ["int", "string", "type(1)"],
}
#: Arguments that must be literals of a certain kind to compile, by function.
SPECIAL = {
    "duration": ["'1h'", "'5s'", "'0'"],
    "timestamp": ["'2020-01-01T00:00:00Z'", "'1999-12-31T23:59:59.5Z'"],
}
SIMPLE = [types.INT, types.STRING, types.BOOL]
RESULTS = [
    types.BOOL, types.INT, types.STRING, types.DOUBLE, types.UINT, types.BYTES, list_of(types.STRING),
    list_of(types.INT), map_of(types.STRING, types.INT), optional_of(types.STRING), types.DURATION, types.TIMESTAMP,
]  # fmt: skip
_INFIX = {
    ast.OR: "||", ast.AND: "&&", ast.LESS: "<", ast.LESS_EQUALS: "<=", ast.GREATER: ">", ast.GREATER_EQUALS: ">=",
    ast.EQUALS: "==", ast.NOT_EQUALS: "!=", ast.IN: "in", ast.ADD: "+", ast.SUBTRACT: "-", ast.MULTIPLY: "*",
    ast.DIVIDE: "/", ast.MODULO: "%",
}  # fmt: skip
_LEFT_OUT = frozenset({"format", "dyn", ast.OPT_SELECT})
Scope = dict[str, Type]


class Grower:
    """Grows one expression after another from a seed."""

    def __init__(self, env: Env, seed: int, paths: dict[str, Type]) -> None:
        self.env, self.random, self.paths = env, Random(seed), paths
        self.calls: list[tuple[Function, Overload]] = [
            (function, overload)
            for library in env.libraries
            if library.name != "authz"
            for function in library.functions
            if function.name not in _LEFT_OUT and ("@" not in function.name or function.name == ast.IN)
            for overload in function.overloads
        ]
        self.names = 0

    def expression(self, depth: int = 4, of: Type | None = None) -> str:
        """Return an expression of the given type (any when None)."""
        return self.grow(of or self.random.choice(RESULTS), depth, {})

    def grow(self, of: Type, depth: int, scope: Scope) -> str:
        if depth <= 0:
            return self.leaf(of, scope)
        chance = self.random.random()
        if chance < 0.12:
            return self.leaf(of, scope)
        if chance < 0.2 and of.kind in (Kind.LIST, Kind.MAP):
            return self.container(of, depth, scope)
        if chance < 0.35 and (macro := self.macro(of, depth, scope)):
            return macro
        if chance < 0.4 and of.kind is not Kind.NULL:
            return f"({self.grow(types.BOOL, depth - 1, scope)} ? {self.grow(of, depth - 1, scope)} : " + (
                f"{self.grow(of, depth - 1, scope)})"
            )
        return self.call(of, depth, scope) or self.leaf(of, scope)

    def leaf(self, of: Type, scope: Scope) -> str:
        candidates = [name for name, known in (self.paths | scope).items() if known == of]
        if candidates and self.random.random() < 0.6:
            return self.random.choice(candidates)
        if of.kind in LITERALS:
            return self.random.choice(LITERALS[of.kind])
        if of.kind in (Kind.LIST, Kind.MAP):
            return self.container(of, 0, scope)
        if of.kind is Kind.OPTIONAL:
            inner = self.leaf(of.params[0], scope)
            return self.random.choice([f"optional.of({inner})", f"optional.ofNonZeroValue({inner})"])
        return {
            "kubernetes.Semver": "semver('1.2.3')",
            "kubernetes.Quantity": "quantity('1500m')",
            "net.IP": "ip('10.0.0.1')",
            "net.CIDR": "cidr('10.0.0.0/8')",
            "kubernetes.URL": "url('https://a.example/x?y=1')",
            "kubernetes.NamedFormat": "format.dns1123Label()",
        }[of.name]

    def container(self, of: Type, depth: int, scope: Scope) -> str:
        count = self.random.randrange(1, 4)  # an empty one has no element type to go on with
        if of.kind is Kind.LIST:
            inner = [self.grow(of.params[0], depth - 2, scope) for _ in range(count)]
            return f"[{', '.join(inner)}]"
        entries = [
            f"{self.leaf(of.params[0], {})}: {self.grow(of.params[1], depth - 2, scope)}"
            for _ in range(count)
        ]
        return "{" + ", ".join(entries) + "}"

    def macro(self, of: Type, depth: int, scope: Scope) -> str | None:
        element = self.random.choice(SIMPLE)
        source = self.grow(list_of(element), depth - 1, scope)
        self.names += 1
        name, second = f"v{self.names}", f"w{self.names}"
        inner = scope | {name: element}
        pair = scope | {name: types.INT, second: element}
        if of == types.BOOL:
            kind = self.random.choice(["all", "exists", "exists_one"])
            if kind != "exists_one" and self.random.random() < 0.3:
                return f"{source}.{kind}({name}, {second}, {self.grow(types.BOOL, depth - 1, pair)})"
            return f"{source}.{kind}({name}, {self.grow(types.BOOL, depth - 1, inner)})"
        if of.kind is Kind.LIST and of.params[0] in SIMPLE:
            if of.params[0] == element and self.random.random() < 0.3:
                return f"{source}.filter({name}, {self.grow(types.BOOL, depth - 1, inner)})"
            if self.random.random() < 0.3:
                return f"{source}.transformList({name}, {second}, {self.grow(of.params[0], depth - 1, pair)})"
            return f"{source}.map({name}, {self.grow(of.params[0], depth - 1, inner)})"
        return None

    def call(self, of: Type, depth: int, scope: Scope) -> str | None:
        for _ in range(40):
            function, overload = self.random.choice(self.calls)
            bound: dict[str, Type] = {}
            if not _unify(overload.result, of, bound):
                continue
            params = [self.concrete(param, bound) for param in overload.params]
            if any(param.kind is Kind.OBJECT for param in params):
                continue
            args = [
                self.argument(function.name, index, param, depth, scope) for index, param in enumerate(params)
            ]
            return _write(function.name, overload.member, args)
        return None

    def argument(self, function: str, index: int, of: Type, depth: int, scope: Scope) -> str:
        if function in SPECIAL and of == types.STRING:
            return self.random.choice(SPECIAL[function])
        if function == "timestamp" and of == types.INT:
            return self.random.choice(["0", "1577836800", "size(taint.key)"])
        if function in ("matches", "find", "findAll") and index == 1:
            return repr(self.random.choice(PATTERNS))
        text = self.grow(of, depth - 1, scope)
        if self.random.random() < 0.04 and not text.startswith(("[", "{")):
            return f"dyn({text})"
        return text

    def concrete(self, of: Type, bound: dict[str, Type]) -> Type:
        """Return *of* with its parameters bound, to something random where nothing binds them."""
        if of.kind is Kind.PARAM:
            return bound.setdefault(of.name, self.random.choice(SIMPLE))
        if of.kind in (Kind.DYN, Kind.ANY):
            return self.random.choice(SIMPLE)
        if of.kind is Kind.TYPE:
            return types.TYPE
        if of.params:
            return Type(of.kind, of.name, tuple(self.concrete(param, bound) for param in of.params))
        return of


def _unify(pattern: Type, of: Type, bound: dict[str, Type]) -> bool:
    if pattern.kind is Kind.PARAM:
        return bound.setdefault(pattern.name, of) == of
    if pattern.kind is not of.kind or pattern.name != of.name or len(pattern.params) != len(of.params):
        return False
    return all(_unify(a, b, bound) for a, b in zip(pattern.params, of.params, strict=True))


def _write(name: str, member: bool, args: list[str]) -> str:
    if name in _INFIX:
        return f"({args[0]} {_INFIX[name]} {args[1]})"
    forms: dict[str, Callable[[], str]] = {
        ast.NOT: lambda: f"!({args[0]})",
        ast.NEGATE: lambda: f"-({args[0]})",
        ast.CONDITIONAL: lambda: f"({args[0]} ? {args[1]} : {args[2]})",
        ast.INDEX: lambda: f"{args[0]}[{args[1]}]",
        ast.OPT_INDEX: lambda: f"{args[0]}[?{args[1]}]",
    }
    if name in forms:
        return forms[name]()
    if member:
        return f"{args[0]}.{name}({', '.join(args[1:])})"
    return f"{name}({', '.join(args)})"
