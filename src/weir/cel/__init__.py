"""CEL, the Common Expression Language: compile an expression once, evaluate it often, know what it costs.

Spec: cel.md. This package knows no Kubernetes objects and imports nothing of weir's but `weir.values`; which
variables and libraries exist is an `Env`, given by the caller.
"""

from weir.cel.cache import CacheInfo, ProgramCache
from weir.cel.env import Env, ObjectType
from weir.cel.errors import CelError, CompileError, CostLimitExceeded, EvaluationError
from weir.cel.lowering import ProgramError
from weir.cel.program import Program, check_expression, compile

__all__ = [
    "CacheInfo",
    "CelError",
    "CompileError",
    "CostLimitExceeded",
    "Env",
    "EvaluationError",
    "ObjectType",
    "Program",
    "ProgramCache",
    "ProgramError",
    "check_expression",
    "compile",
]
