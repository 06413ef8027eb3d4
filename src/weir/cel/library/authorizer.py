"""Authorization checks: declared, because messages differ for unknown names, but never callable here.

Spec: cel.md 9.1: the functions exist in every Kubernetes environment; the variable they start from does not.
"""

from __future__ import annotations

from typing import Final

from weir.cel import costs, types
from weir.cel.cost_model import Rule
from weir.cel.env import Library
from weir.cel.errors import NO_SUCH_OVERLOAD, EvaluationError
from weir.cel.library.declare import Row, functions, method
from weir.cel.types import BOOL, STRING, Type
from weir.cel.values import Value

_AUTHORIZER: Final = types.opaque("kubernetes.authorization.Authorizer")
_PATH: Final = types.opaque("kubernetes.authorization.PathCheck")
_GROUP: Final = types.opaque("kubernetes.authorization.GroupCheck")
_RESOURCE: Final = types.opaque("kubernetes.authorization.ResourceCheck")
_DECISION: Final = types.opaque("kubernetes.authorization.Decision")
_CHECK: Final = costs.flat(350_000, by_name=True)


def _unreachable(*args: Value) -> Value:
    raise EvaluationError(NO_SUCH_OVERLOAD)


def _row(name: str, id: str, params: tuple[Type, ...], result: Type, price: Rule = costs.NAMED_FLAT) -> Row:
    return method(name, id, params, result, _unreachable, price, fails=True)


LIBRARY: Final = Library(
    "authz",
    functions(
        _row("path", "authorizer_path", (_AUTHORIZER, STRING), _PATH),
        _row("group", "authorizer_group", (_AUTHORIZER, STRING), _GROUP),
        _row("serviceAccount", "authorizer_serviceaccount", (_AUTHORIZER, STRING, STRING), _AUTHORIZER),
        _row("resource", "groupcheck_resource", (_GROUP, STRING), _RESOURCE),
        _row("subresource", "resourcecheck_subresource", (_RESOURCE, STRING), _RESOURCE),
        _row("namespace", "resourcecheck_namespace", (_RESOURCE, STRING), _RESOURCE),
        _row("name", "resourcecheck_name", (_RESOURCE, STRING), _RESOURCE),
        _row("fieldSelector", "authorizer_fieldselector", (_RESOURCE, STRING), _RESOURCE),
        _row("labelSelector", "authorizer_labelselector", (_RESOURCE, STRING), _RESOURCE),
        _row("check", "pathcheck_check", (_PATH, STRING), _DECISION, _CHECK),
        _row("check", "resourcecheck_check", (_RESOURCE, STRING), _DECISION, _CHECK),
        _row("errored", "decision_errored", (_DECISION,), BOOL),
        _row("error", "decision_error", (_DECISION,), STRING),
        _row("allowed", "decision_allowed", (_DECISION,), BOOL),
        _row("reason", "decision_reason", (_DECISION,), STRING),
    ),
)
