"""The single changes that can be made to a module, and the module's code with one of them made.

One change at a time: a comparison is flipped, `and` becomes `or`, a condition is negated, a number is one more or
one less, True becomes False, a returned value becomes None, an addition a subtraction, a statement is dropped.
What surprises: a change is named by its function, the text of its line and its ordinal among equal ones there, so that
its name survives edits elsewhere in the file.
Not here: which tests are run against it (tests.mutants.reach), how (tests.mutants.run).
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
}
_SIGN = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.In: "in",
    ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not", ast.Add: "+", ast.Sub: "-", ast.Mult: "*",
    ast.FloorDiv: "//", ast.Mod: "%", ast.And: "and", ast.Or: "or",
}  # fmt: skip
#: Calls that are not behaviour: what a type checker reads, and how a class is laid out in memory.
_DECLARATIONS = {"cast", "TypeVar", "NewType", "dataclass", "runtime_checkable", "overload"}

#: Makes the change in a copy of the tree, given the copies of the node and of the node that holds it.
Edit = Callable[[ast.AST, ast.AST], None]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change to one module."""

    module: str
    function: str  # qualified as in a traceback; "" at module level
    line: int
    text: str  # the line, stripped
    change: str
    ordinal: int  # among equal changes to equal lines of one function
    at_import: bool  # whether the line runs when the module is imported, not when something is called

    @property
    def name(self) -> str:
        again = f" (#{self.ordinal + 1})" if self.ordinal else ""
        return f"{self.module} {self.function or 'module'}: {self.change}{again} in `{self.text}`"


@dataclass(frozen=True, slots=True)
class _Site:
    """A place where a change can be made."""

    function: str
    node: int  # ordinals in walking order
    holder: int
    line: int
    change: str
    at_import: bool
    edit: Edit


class Mutations:
    """All single changes to one module's source."""

    def __init__(self, module: str, source: str) -> None:
        self._source = source
        self._tree = ast.parse(source)
        self._sites: list[_Site] = []
        self._ordinals = {id(node): ordinal for ordinal, node in enumerate(ast.walk(self._tree))}
        self._visit_fields(self._tree, "", at_import=True)
        lines = source.splitlines()
        seen: Counter[tuple[str, str, str]] = Counter()
        self.mutants: list[Mutant] = []
        for site in self._sites:
            text = lines[site.line - 1].strip()
            key = (site.function, text, site.change)
            self.mutants.append(
                Mutant(module, site.function, site.line, text, site.change, seen[key], site.at_import)
            )
            seen[key] += 1

    def compiled(self, mutant: int, filename: str) -> CodeType:
        """Return the module's code with the change of that ordinal made."""
        site = self._sites[mutant]
        tree = ast.parse(self._source)  # much sooner done than a copy of the tree
        nodes = list(ast.walk(tree))
        site.edit(nodes[site.node], nodes[site.holder])
        return compile(ast.fix_missing_locations(tree), filename, "exec")

    def _visit_fields(self, holder: ast.AST, function: str, *, at_import: bool) -> None:
        for field, value in ast.iter_fields(holder):
            if field in ("annotation", "returns", "type_comment"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    self._visit(child, holder, function, at_import=at_import)

    def _visit(self, node: ast.AST, holder: ast.AST, function: str, *, at_import: bool) -> None:
        if _is_declaration(node):
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self._visit_definition(node, holder, function, at_import=at_import)
            return
        for change, edit in _changes(node):
            line = getattr(node, "lineno", None) or getattr(holder, "lineno", 0)
            place = (self._ordinals[id(node)], self._ordinals[id(holder)])
            self._sites.append(_Site(function, *place, line, change, at_import, edit))
        self._visit_fields(node, function, at_import=at_import)

    def _visit_definition(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef,
        holder: ast.AST,
        function: str,
        *,
        at_import: bool,
    ) -> None:
        for decorator in node.decorator_list:
            self._visit(decorator, node, function, at_import=at_import)
        outer = f"{function}.<locals>" if function and not isinstance(holder, ast.ClassDef) else function
        qualified = f"{outer}.{node.name}" if outer else node.name
        if isinstance(node, ast.ClassDef):
            for statement in node.body:
                self._visit(statement, node, qualified, at_import=at_import)
            return
        self._visit_fields(
            node.args, function, at_import=at_import
        )  # defaults are computed where it is defined
        for statement in node.body:
            self._visit(statement, node, qualified, at_import=False)


def _is_declaration(node: ast.AST) -> bool:
    """Whether a node says something to the reader or the type checker only."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True  # a docstring
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return True
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        return name in _DECLARATIONS
    if isinstance(node, ast.Assign):
        return any(
            isinstance(target, ast.Name) and target.id in ("__slots__", "__all__") for target in node.targets
        )
    return False


def _changes(node: ast.AST) -> Iterator[tuple[str, Edit]]:
    match node:
        case ast.Compare():
            yield from _flips(node)
        case ast.BoolOp():
            other = ast.Or if isinstance(node.op, ast.And) else ast.And
            yield f"{_SIGN[type(node.op)]} → {_SIGN[other]}", _set("op", other)
        case ast.UnaryOp(op=ast.Not()):
            yield "not x → x", _replace(lambda copy: copy.operand)  # type: ignore[attr-defined]
        case ast.BinOp() if type(node.op) in _ARITHMETIC:
            other_sign = _ARITHMETIC[type(node.op)]
            yield f"{_SIGN[type(node.op)]} → {_SIGN[other_sign]}", _set("op", other_sign)
        case ast.AugAssign() if type(node.op) in _ARITHMETIC:
            other_sign = _ARITHMETIC[type(node.op)]
            yield f"{_SIGN[type(node.op)]}= → {_SIGN[other_sign]}=", _set("op", other_sign)
            yield "statement dropped", _drop
        case ast.Constant(value=bool() as value):
            yield f"{value} → {not value}", _value(not value)
        case ast.Constant(value=int() as number):
            yield f"{number} → {number + 1}", _value(number + 1)
            yield f"{number} → {number - 1}", _value(number - 1)
        case ast.Return(value=ast.expr() as answer) if not _is_none(answer):
            yield "return … → return None", _return_none
        case ast.Raise() | ast.Continue() | ast.Break() | ast.Delete() | ast.Expr():
            yield "statement dropped", _drop
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "statement dropped", _drop
    if isinstance(node, ast.If | ast.IfExp | ast.While) and _is_plain(node.test):
        yield "condition negated", _negate_test
    if isinstance(node, ast.comprehension):
        for position, condition in enumerate(node.ifs):
            if _is_plain(condition):
                yield "condition negated", _negate_filter(position)


def _flips(node: ast.Compare) -> Iterator[tuple[str, Edit]]:
    for position, sign in enumerate(node.ops):
        flipped = _COMPARISONS[type(sign)]
        yield f"{_SIGN[type(sign)]} → {_SIGN[flipped]}", _flip(position, flipped)
        if isinstance(sign, ast.Lt | ast.LtE | ast.Gt | ast.GtE):
            turned = ast.GtE if isinstance(sign, ast.Lt | ast.LtE) else ast.LtE
            if isinstance(sign, ast.LtE | ast.GtE):
                turned = ast.Gt if isinstance(sign, ast.LtE) else ast.Lt
            yield f"{_SIGN[type(sign)]} → {_SIGN[turned]}", _flip(position, turned)


def _is_plain(test: ast.expr) -> bool:
    """Whether a condition is neither compared nor negated, which are changed by themselves."""
    return not isinstance(test, ast.Compare) and not (
        isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    )


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _flip(position: int, sign: type[ast.cmpop]) -> Edit:
    def edit(node: ast.AST, _: ast.AST) -> None:
        assert isinstance(node, ast.Compare)
        node.ops[position] = sign()

    return edit


def _set(field: str, make: Callable[[], ast.AST]) -> Edit:
    return lambda node, _: setattr(node, field, make())


def _value(value: int) -> Edit:
    return lambda node, _: setattr(node, "value", value)


def _return_none(node: ast.AST, _: ast.AST) -> None:
    # What is left out stays in the code unused: a closure keeps the variables it is made with.
    node.value = ast.IfExp(ast.Constant(False), node.value, ast.Constant(None))  # type: ignore[attr-defined]


def _negate_test(node: ast.AST, _: ast.AST) -> None:
    node.test = ast.UnaryOp(ast.Not(), node.test)  # type: ignore[attr-defined]


def _negate_filter(position: int) -> Edit:
    def edit(node: ast.AST, _: ast.AST) -> None:
        assert isinstance(node, ast.comprehension)
        node.ifs[position] = ast.UnaryOp(ast.Not(), node.ifs[position])

    return edit


def _drop(node: ast.AST, holder: ast.AST) -> None:
    assert isinstance(node, ast.stmt)
    _substitute(node, holder, ast.copy_location(ast.If(ast.Constant(False), [node], []), node))


def _replace(choose: Callable[[ast.AST], ast.AST]) -> Edit:
    return lambda node, holder: _substitute(node, holder, choose(node))


def _substitute(node: ast.AST, holder: ast.AST, other: ast.AST) -> None:
    for field, value in ast.iter_fields(holder):
        if value is node:
            setattr(holder, field, other)
        elif isinstance(value, list):
            for position, entry in enumerate(value):
                if entry is node:
                    value[position] = other
