"""Generated code: the steps of an expression become one Python function.

Spec: cel.md 6 "Evaluation", 12 "Runtime cost". The generated source contains names of our own making and numbers
only: every constant of the user, even a field name, is handed over as an object, so no text can escape into code.
Values need no wrapping, errors are values too (an `EvaluationError` where a value would be), and only steps that can
fail are checked. Costs known beforehand are summed per branch and added at once; the budget is checked in loops, after
results that can grow, and at the end.
Functions of the same shape share their code, because constants are not part of it; what Python's
compiler would refuse (very deep nesting) runs in weir.cel.reference instead, which also says the exact
cost of an evaluation that was cut off.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, Final

from weir.cel import operations
from weir.cel.codegen.loops import LoopWriter
from weir.cel.codegen.writer import Atom, Unsupported
from weir.cel.env import Env
from weir.cel.steps import (
    Const,
    Equal,
    Fold,
    InSet,
    Invoke,
    Logic,
    NewList,
    NewMap,
    NewStruct,
    OrElse,
    Path,
    Step,
)
from weir.cel.work import begin, roomy, search, spend

#: Takes the variables, returns the value, or, asked for the cost too, (value, cost); raises with `.cost` set.
Runner = Callable[..., Any]

#: Characters of an expression that gets a name of its own: Python allows 200 nested parentheses.
_LONGEST: Final = 160
#: Loops and bindings that can make a value dear to walk into: one alone shows no more than its text.
_MANY_FOLDS: Final = 2
#: Characters of source whose code is kept for expressions of the same shape; larger ones hardly ever repeat.
_WORTH_KEEPING: Final = 4_000


def plan(root: Step, env: Env, plainly: Runner) -> Runner:
    """The function that runs *root*; raises Unsupported when it must be run by the plain evaluator.

    *plainly* takes over when a variable is not bound.
    """
    emitter = _Emitter(root, env)
    source = emitter.function(root)
    try:
        codes = _codes(source)
    except (SyntaxError, RecursionError, MemoryError):  # a limit of Python's compiler
        raise Unsupported from None
    namespace: dict[str, Any] = emitter.constants
    namespace["__builtins__"] = _BUILTINS
    namespace["plainly"] = plainly
    for code in codes[1:]:
        namespace[code.co_name] = FunctionType(code, namespace)
    main = roomy(codes[0]) if emitter.walks and emitter.folds >= _MANY_FOLDS else codes[0]
    return FunctionType(main, namespace, None, (False,))


def generated_source(root: Step, env: Env) -> str:
    """The source *plan* would compile, for people and tests."""
    return _Emitter(root, env).function(root)


_BUILTINS: Final[dict[str, Any]] = {
    "len": len, "min": min, "max": max, "str": str, "int": int, "bool": bool, "list": list, "dict": dict, "iter": iter,
    "next": next, "spend": spend, "search": search, "KeyError": KeyError, "True": True, "False": False, "None": None,
}  # fmt: skip


@lru_cache(maxsize=1024)
def _compiled(source: str) -> tuple[CodeType, ...]:
    """The code of the functions in *source*, the main one first."""
    module = compile(source, "<cel>", "exec", dont_inherit=True, optimize=2)
    return tuple(c for c in module.co_consts if isinstance(c, CodeType))


def _codes(source: str) -> tuple[CodeType, ...]:
    """Return `_compiled` code; that of a long source is not kept."""
    return _compiled(source) if len(source) < _WORTH_KEEPING else _compiled.__wrapped__(source)


class _Emitter(LoopWriter):
    """Writes the function for one expression."""

    def function(self, root: Step) -> str:
        result = self.gen(root)
        limit, over = self.env.cost_limit, self.constant(operations.over)
        if result.error or self.counts:
            self.name(result)
        if self.counts:
            self.flush()
            self.emit(f"if c > {limit}: raise {over}(c)")
        elif self.pending[0] > limit:
            self.emit(f"raise {over}({self.pending[0]})")
        total = "c" if self.counts else str(self.pending[0])
        if result.error:
            failed = self.constant(operations.failed)
            self.emit(f"if {result.text}.__class__ is E: raise {failed}({result.text}, {total})")
        self.emit(f"return ({result.text}, {total}) if priced else {result.text}")
        head = ["def run(V, priced):"]
        for variable, local in self.variables.items():
            head += [
                " try:",
                f"  {local} = V[{self.constant(variable)}]",
                " except KeyError: return plainly(V, priced)",
            ]
        if self.walks:
            head.append(f" m = {self.constant(begin)}()")
        if self.counts:
            head.append(" c = 0")
        return "\n".join([*head, *self.lines, *self.functions])

    def gen(self, step: Step) -> Atom:
        """Write the code of *step*; what comes back is its value."""
        self.effort(_EFFORTS[step.__class__])
        atom = _GENERATORS[step.__class__](self, step)
        if len(atom.text) > _LONGEST:
            self.name(atom)
        return atom


#: Efforts of steps; calls say theirs, and helpers are added where they are called.
_EFFORTS: Final[dict[type, int]] = {
    Const: 0, Path: 2, Logic: 3, Equal: 4, InSet: 5, OrElse: 10, Invoke: 0, NewList: 10, NewMap: 20, NewStruct: 600,
    Fold: 20,
}  # fmt: skip

_Generator = Callable[[_Emitter, Any], Atom]
_GENERATORS: Final[dict[type, _Generator]] = {
    Const: _Emitter.gen_const,
    Path: _Emitter.gen_path,
    Logic: _Emitter.gen_logic,
    Equal: _Emitter.gen_equal,
    InSet: _Emitter.gen_in_set,
    OrElse: _Emitter.gen_or_else,
    Invoke: _Emitter.gen_invoke,
    NewList: _Emitter.gen_list,
    NewMap: _Emitter.gen_map,
    NewStruct: _Emitter.gen_struct,
    Fold: _Emitter.gen_fold,
}


__all__ = ["Runner", "Unsupported", "generated_source", "plan"]
