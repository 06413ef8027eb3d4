"""Type checker: the type of every node and the overloads that each call may run.

Spec: cel.md 4 "Type checking". Types are written on the nodes (`Node.type`), overloads on calls (`Call.candidates`). A
mistake gives its node the error type, which fits everything, so that one mistake is reported once.
Dotted names are tried as one name first, longest first; calls keep every overload that could run,
because dyn operands decide only at run time; literals with unrelated element types are `dyn` here and refused later.
"""

from __future__ import annotations

from collections.abc import Iterator

from weir.cel import ast, messages, types
from weir.cel.ast import Call, Comprehension, Entry, Ident, ListExpr, Literal, MapExpr, Select, StructExpr
from weir.cel.env import Env, Function, Overload
from weir.cel.errors import Issue, Source
from weir.cel.types import (
    BOOL,
    DYN,
    ERROR,
    INT,
    Kind,
    Node,
    Type,
    list_of,
    map_of,
    object_named,
    optional_of,
    type_of_type,
)
from weir.cel.unify import (
    Substitution,
    assign,
    instantiate,
    is_dyn,
    most_general,
    substitute,
)
from weir.cel.values import type_of


def check(source: Source, root: Node, env: Env) -> Node:
    """The expression with types and overloads; raises CompileError listing every mistake."""
    checker = _Checker(source, env)
    try:
        checked = checker.check(root)
        checker.finish(checked)
    except types.TypeTooLarge as error:
        raise source.error([source.issue(root.pos, str(error))]) from None
    if checker.issues:
        raise source.error(checker.issues)
    return checked


def candidate_names(container: str, name: str) -> Iterator[str]:
    """The full names *name* may mean inside *container*, innermost first.

    >>> list(candidate_names("a.b", "x")), list(candidate_names("a", ".x"))
    (['a.b.x', 'a.x', 'x'], ['x'])
    """
    if name.startswith("."):
        yield name[1:]
        return
    while container:
        yield f"{container}.{name}"
        container = container.rpartition(".")[0]
    yield name


def qualified_name(node: Node) -> str | None:
    """`a.b.c` when *node* is nothing but dotted names."""
    parts: list[str] = []
    while isinstance(node, Select) and not node.test_only:
        parts.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    return ".".join([node.name, *reversed(parts)])


class _Checker:
    def __init__(self, source: Source, env: Env) -> None:
        self.source = source
        self.env = env
        self.issues: list[Issue] = []
        self.known: Substitution = {}
        self.fresh = 0
        self.scopes: list[dict[str, Type]] = []

    def finish(self, root: Node) -> None:
        """Replace variables in the types by what they stand for, the rest by dyn."""
        known = self.known
        for node in ast.walk(root):
            if not node.type.closed:
                node.type = substitute(known, node.type, free_to_dyn=True)

    def issue(self, pos: int, message: str) -> None:
        self.issues.append(self.source.issue(pos, message))

    def undeclared(self, pos: int, name: str) -> Type:
        self.issue(pos, f"undeclared reference to '{name}' (in container '{self.env.container}')")
        return ERROR

    def variable(self) -> Type:
        self.fresh += 1
        return types.param(f"_var{self.fresh - 1}")

    def fits(self, *pairs: tuple[Type, Type]) -> bool:
        return assign(self.known, pairs)

    def shown(self, t: Type) -> Type:
        return substitute(self.known, t, free_to_dyn=True)

    # --- names ---------------------------------------------------------------------------------------

    def lookup(self, name: str) -> tuple[str, Type, object] | None:
        """Full name, type and constant value (or NO_CONSTANT) of an identifier."""
        if not name.startswith("."):
            for scope in reversed(self.scopes):
                if name in scope:
                    return name, scope[name], ast.NO_CONSTANT
        env = self.env
        for full in candidate_names(env.container, name):
            declared = env.variables.get(full)
            if declared is not None:
                return full, declared, ast.NO_CONSTANT
            constant = env.constants.get(full) or messages.CONSTANTS.get(full)
            if constant is not None:
                return full, constant[0], constant[1]
            if full in env.object_types:
                return full, type_of_type(env.object_types[full].type), ast.NO_CONSTANT
            if full in env.undefined:
                return full, type_of_type(env.undefined[full]), ast.NO_CONSTANT
            if env.patch_types and messages.is_patch_type(full):
                return full, type_of_type(object_named(full)), ast.NO_CONSTANT
            message = messages.MESSAGES.get(full)
            if message is not None:
                return full, type_of_type(message[0]), ast.NO_CONSTANT
        return None

    def is_local(self, name: str) -> bool:
        """Whether a comprehension binds *name* here; its parts are then never a longer name."""
        return any(name in scope for scope in self.scopes)

    def function(self, name: str) -> Function | None:
        for full in candidate_names(self.env.container, name):
            found = self.env.functions.get(full)
            if found is not None:
                return found
        return None

    # --- nodes ---------------------------------------------------------------------------------------

    def check(self, node: Node) -> Node:
        """*node*, typed; a different node where a dotted name turned out to be one name."""
        if isinstance(node, Call):
            return self.check_call(node)
        if isinstance(node, Literal):
            node.type = type_of(node.value)
        elif isinstance(node, Ident):
            found = self.lookup(node.name)
            if found is None:
                node.type = self.undeclared(node.pos, node.name)
            else:
                node.name, node.type, node.constant = found
        elif isinstance(node, Select):
            return self.check_select(node)
        elif isinstance(node, ListExpr):
            self.check_list(node)
        elif isinstance(node, MapExpr):
            self.check_map(node)
        elif isinstance(node, StructExpr):
            self.check_struct(node)
        elif isinstance(node, Comprehension):
            self.check_comprehension(node)
        return node

    def check_select(self, node: Select) -> Node:
        name = qualified_name(node)
        if name is not None and not self.is_local(name.partition(".")[0]):
            found = self.lookup(name)
            if found is not None:
                ident = Ident(node.id, node.pos, found[0])
                ident.absolute = name.startswith(".")
                ident.type, ident.constant = found[1], found[2]
                return ident
        node.operand = self.check(node.operand)
        result = self.field(node.pos, node.operand, node.field, optional=False)
        node.type = BOOL if node.test_only else substitute(self.known, result)
        return node

    def field(self, pos: int, operand: Node, field: str, optional: bool) -> Type:
        """The type of `operand.field`."""
        target = substitute(self.known, operand.type)
        if target.kind is Kind.OPTIONAL:
            target, optional = target.params[0], True
        if target.kind is Kind.MAP:
            result = target.params[1]
        elif target.kind is Kind.OBJECT:
            declared = self.field_type(target.name, field)
            if declared is None:
                self.issue(pos, f"undefined field '{field}'")
                declared = ERROR
            result = declared
        elif target.kind is Kind.PARAM:
            self.fits((DYN, target))
            result = DYN
        elif target.kind is Kind.OPAQUE and target.name.startswith("kubernetes."):
            # Upstream declares these as objects, and then finds no fields.
            self.issue(pos, f"unexpected failed resolution of '{target.name}'")
            result = ERROR
        else:
            if not is_dyn(target) and target.kind is not Kind.ERROR:
                self.issue(pos, f"type '{self.shown(target)}' does not support field selection")
            result = DYN
        return optional_of(result) if optional else result

    def field_type(self, message: str, field: str) -> Type | None:
        declared = self.env.object_types.get(message)
        if declared is not None:
            return declared.fields.get(field)
        if self.env.patch_types and messages.is_patch_type(message):
            return messages.patch_field_type(message, field)
        return messages.field_type(message, field)

    def check_call(self, node: Call) -> Node:
        if node.function == ast.OPT_SELECT:
            operand, name = node.args
            node.args[0] = operand = self.check(operand)
            field = name.value if isinstance(name, Literal) else ""
            name.type = types.STRING
            node.type = substitute(self.known, self.field(node.pos, operand, str(field), optional=True))
            declared = self.function(ast.OPT_SELECT)
            node.candidates = declared.overloads if declared else ()
            return node
        for index, arg in enumerate(node.args):
            node.args[index] = self.check(arg)
        if node.target is not None:
            prefix = qualified_name(node.target)
            if prefix is not None:
                namespaced = self.function(f"{prefix}.{node.function}")
                if namespaced is not None:
                    call = Call(node.id, node.pos, namespaced.name, None, node.args)
                    self.resolve(call, namespaced)
                    return call
            node.target = self.check(node.target)
        function = self.function(node.function)
        if function is None:
            node.type = self.undeclared(node.pos, node.function)
            return node
        node.function = function.name
        self.resolve(node, function)
        return node

    def resolve(self, node: Call, function: Function) -> None:
        """Find the overloads that accept the arguments."""
        if function.name in (ast.AND, ast.OR):
            node.type = BOOL
            for arg in node.args:
                if not self.fits((arg.type, BOOL)):
                    found = self.shown(arg.type)
                    self.issue(arg.pos, f"expected type 'bool' but found '{found}'")
                    node.type = ERROR
            node.candidates = function.overloads
            return
        actual = [operand.type for operand in node.operands]
        member = node.target is not None
        candidates: list[Overload] = []
        result: Type | None = None
        for overload in function.overloads:
            if overload.member is not member or len(overload.params) != len(actual):
                continue
            formal, produced = self.instance(overload)
            if not self.fits(*zip(actual, formal, strict=True)):
                continue
            candidates.append(overload)
            produced = substitute(self.known, produced)
            if result is None:
                result = produced
            elif not is_dyn(result) and produced != result:
                result = DYN
        if result is None:
            shown = [str(self.shown(t)) for t in actual]
            target = f"{shown.pop(0)}." if member else ""
            signature = f"{target}({', '.join(shown)})"
            self.issue(node.pos, f"found no matching overload for '{function.name}' applied to '{signature}'")
            result = ERROR
        node.type = result
        node.candidates = tuple(candidates)

    def instance(self, overload: Overload) -> tuple[list[Type], Type]:
        """Parameter and result types with fresh variables for the overload's type parameters."""
        if not overload.parameters:
            return list(overload.params), overload.result
        fresh = {name: self.variable() for name in overload.parameters}
        return [instantiate(p, fresh) for p in overload.params], instantiate(overload.result, fresh)

    def join(self, before: Type | None, now: Type) -> Type:
        if before is None:
            return now
        if not self.fits((before, now)):
            return DYN
        return before if now.kind is Kind.NULL else most_general(before, now)

    def unwrapped(self, node: Node) -> Type:
        """The type inside an element or entry marked `?`."""
        inner = substitute(self.known, node.type)
        if inner.kind is Kind.OPTIONAL:
            return inner.params[0]
        if not is_dyn(inner):  # unlike elsewhere, what is not known yet keeps its name
            self.issue(node.pos, f"expected type '{optional_of(inner)}' but found '{inner}'")
        return inner

    def check_list(self, node: ListExpr) -> None:
        joined: Type | None = None
        for index, element in enumerate(node.elements):
            element = node.elements[index] = self.check(element)
            joined = self.join(joined, self.unwrapped(element) if index in node.optional else element.type)
        node.type = list_of(joined or self.variable())

    def check_map(self, node: MapExpr) -> None:
        keys: Type | None = None
        values: Type | None = None
        for entry in node.entries:
            assert entry.key is not None
            entry.key = self.check(entry.key)
            keys = self.join(keys, entry.key.type)
            entry.value = self.check(entry.value)
            values = self.join(values, self.unwrapped(entry.value) if entry.optional else entry.value.type)
        node.type = map_of(keys or self.variable(), values or self.variable())

    def check_struct(self, node: StructExpr) -> None:
        found = self.lookup(node.name)
        if found is None:
            node.type = self.undeclared(node.pos, node.name)
            return
        name, declared, _ = found
        node.name = name
        node.type = ERROR
        if declared.kind is not Kind.TYPE:
            self.issue(node.pos, f"'{declared}' is not a type")
        elif name in messages.MESSAGES or declared.params[0].kind is Kind.OBJECT:
            node.type = declared.params[0]
        else:
            self.issue(node.pos, f"'{declared.params[0]}' is not a message type")
        for entry in node.entries:
            self.check_struct_field(name, entry)

    def check_struct_field(self, message: str, entry: Entry) -> None:
        entry.value = self.check(entry.value)
        given = self.unwrapped(entry.value) if entry.optional else entry.value.type
        wanted = self.field_type(message, entry.field)
        if wanted is None:
            self.issue(entry.pos, f"undefined field '{entry.field}'")
        elif not self.fits((wanted, given)):
            self.issue(
                entry.pos,
                f"expected type of field '{entry.field}' is '{wanted}' but provided type is '{self.shown(given)}'",
            )

    def check_comprehension(self, node: Comprehension) -> None:
        node.range = self.check(node.range)
        node.init = self.check(node.init)
        over = substitute(self.known, node.range.type)
        accumulated = node.init.type
        first, second = self.iteration_types(node, over)
        self.scopes.append({node.accu: accumulated})
        scope = {node.var: first}
        if node.var2 is not None:
            scope[node.var2] = second
        self.scopes.append(scope)
        node.condition = self.check(node.condition)
        self.expect(node.condition, BOOL)
        node.step = self.check(node.step)
        self.expect(node.step, accumulated)
        self.scopes.pop()
        node.result = self.check(node.result)
        self.scopes.pop()
        node.type = substitute(self.known, node.result.type)

    def iteration_types(self, node: Comprehension, over: Type) -> tuple[Type, Type]:
        two = node.var2 is not None
        if over.kind is Kind.LIST:
            return (INT, over.params[0]) if two else (over.params[0], DYN)
        if over.kind is Kind.MAP:
            return over.params[0], over.params[1]
        if is_dyn(over) or over.kind in (Kind.ERROR, Kind.PARAM):
            self.fits((DYN, over))
            return DYN, DYN
        self.issue(
            node.range.pos,
            f"expression of type '{self.shown(over)}' cannot be range of a comprehension "
            "(must be list, map, or dynamic)",
        )
        return ERROR, ERROR

    def expect(self, node: Node, wanted: Type) -> None:
        if not self.fits((wanted, node.type)):
            self.issue(node.pos, f"expected type '{self.shown(wanted)}' but found '{self.shown(node.type)}'")
