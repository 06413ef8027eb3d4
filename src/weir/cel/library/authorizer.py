"""Authorization checks: declared, because messages differ for unknown names, but never callable here.

Spec: cel.md 9.1: the functions exist in every Kubernetes environment; the variable they start from does not.
"""

from __future__ import annotations

from typing import Final

from weir.cel import costs, types
from weir.cel.cost_model import Rule
from weir.cel.env import Function, Library
from weir.cel.errors import NO_SUCH_OVERLOAD, EvaluationError
from weir.cel.library.declare import function, method
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


def _declare(
    name: str, *signatures: tuple[str, tuple[Type, ...], Type], price: Rule = costs.NAMED_FLAT
) -> Function:
    return function(
        name,
        *(method(id, params, result, _unreachable, price, fails=True) for id, params, result in signatures),
    )


LIBRARY: Final = Library(
    "authz",
    (
        _declare("path", ("authorizer_path", (_AUTHORIZER, STRING), _PATH)),
        _declare("group", ("authorizer_group", (_AUTHORIZER, STRING), _GROUP)),
        _declare("serviceAccount", ("authorizer_serviceaccount", (_AUTHORIZER, STRING, STRING), _AUTHORIZER)),
        _declare("resource", ("groupcheck_resource", (_GROUP, STRING), _RESOURCE)),
        _declare("subresource", ("resourcecheck_subresource", (_RESOURCE, STRING), _RESOURCE)),
        _declare("namespace", ("resourcecheck_namespace", (_RESOURCE, STRING), _RESOURCE)),
        _declare("name", ("resourcecheck_name", (_RESOURCE, STRING), _RESOURCE)),
        _declare("fieldSelector", ("authorizer_fieldselector", (_RESOURCE, STRING), _RESOURCE)),
        _declare("labelSelector", ("authorizer_labelselector", (_RESOURCE, STRING), _RESOURCE)),
        _declare(
            "check",
            ("pathcheck_check", (_PATH, STRING), _DECISION),
            ("resourcecheck_check", (_RESOURCE, STRING), _DECISION),
            price=_CHECK,
        ),
        _declare("errored", ("decision_errored", (_DECISION,), BOOL)),
        _declare("error", ("decision_error", (_DECISION,), STRING)),
        _declare("allowed", ("decision_allowed", (_DECISION,), BOOL)),
        _declare("reason", ("decision_reason", (_DECISION,), STRING)),
    ),
)
