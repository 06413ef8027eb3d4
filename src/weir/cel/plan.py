from __future__ import annotations

from collections.abc import Callable, Mapping

from weir.cel import reference
from weir.cel.env import Env
from weir.cel.steps import Step
from weir.cel.values import Value

Runner = Callable[[Mapping[str, Value]], tuple[Value, int]]


def plan(root: Step, env: Env) -> Runner:
    return lambda variables: reference.run(root, env, variables)
