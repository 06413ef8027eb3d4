"""The public functions of `weir.__all__`: dicts or views in, results with reasons out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

import msgspec

from weir.cel.env import Env
from weir.cel.program import Program
from weir.cel.program import compile as compile_cel
from weir.explain.explanation import Explanation
from weir.explain.pod import explain as _explain
from weir.explain.subject import Subject
from weir.fields.documents import find_kind_problem, validate_fields
from weir.fields.field import FieldError
from weir.gates import Gates, GatesLike
from weir.lowering.originals import evaluated, with_expression, with_expressions
from weir.objects.core import Taint, Toleration, View, ViewError, read
from weir.observe.interpreter import collect_rarely
from weir.taints.expression import ENV
from weir.taints.toleration import BLOCKING, Outcome
from weir.taints.toleration import tolerates as _tolerates
from weir.taints.toleration import untolerated as _untolerated
from weir.validate import validate as _validate
from weir.whatif.changes import Change
from weir.whatif.forecast import Forecast
from weir.world import World

if TYPE_CHECKING:
    from weir.inputs.cluster import ClusterObjects

Document = Mapping[str, Any]


def tolerates(toleration: Toleration | Document, taint: Taint | Document, gates: GatesLike = None) -> Outcome:
    """Return how *toleration* meets *taint*; truthy only when it tolerates it, and always with the reason.

    An expression stands in the field `expression`, or, as stock clusters need it, in `value` with operator `CEL`.

    >>> bool(tolerates({"key": "gpu", "operator": "Exists"}, {"key": "gpu", "effect": "NoSchedule"}))
    True
    """
    return _tolerates(_read(Toleration, with_expression(toleration)), _read(Taint, taint), Gates.of(gates))


def untolerated(
    taints: Iterable[Taint | Document],
    tolerations: Iterable[Toleration | Document],
    gates: GatesLike = None,
    effects: Iterable[str] = BLOCKING,
) -> list[Taint]:
    """Return the taints with one of *effects* that no toleration tolerates, in their own order.

    >>> [str(taint) for taint in untolerated([{"key": "gpu", "effect": "NoSchedule"}], [])]
    ['gpu:NoSchedule']
    """
    return _untolerated(
        [_read(Taint, taint) for taint in taints],
        [_read(Toleration, with_expression(toleration)) for toleration in tolerations],
        Gates.of(gates),
        frozenset(effects),
    )


def validate(obj: Any, old: Any = None, gates: GatesLike = None) -> list[FieldError]:
    """Return everything the API server would say against *obj* (replacing *old*), in its words and order.

    Fields that the kind does not have come first, as its strict decoding refuses them.

    >>> pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
    ...        "spec": {"containers": [{"name": "c", "image": "i"}], "tolerations": [{"operator": "Gt"}]}}
    >>> [error.field for error in validate(pod)][0]
    'spec.tolerations[0].operator'
    """
    document, former = _stock_document(obj), None if old is None else _stock_document(old)
    misspelt = _misspelt_kind(document)
    if misspelt is not None:
        return [misspelt]
    return [*validate_fields(document), *_validate(document, former, Gates.of(gates))]


class Snapshot:
    """A cluster that was read once, for many questions."""

    def __init__(self, held: ClusterObjects) -> None:
        self.world = held.world()
        self.held = held


def load(*files: str | PathLike[str]) -> Snapshot:
    """Return the cluster that dumps, manifests or directories hold, read once for any number of questions.

    Raises ValueError for what cannot be read, with its place.
    """
    import click

    from weir.inputs.cluster import read_cluster
    from weir.inputs.live import ClusterSource

    if not files:
        raise ValueError("which files hold the cluster?")
    names = tuple(fspath(each) for each in files)
    try:
        with collect_rarely():
            return Snapshot(read_cluster(ClusterSource(names), (), stream=True))
    except click.ClickException as error:
        raise ValueError(error.message) from None


def what_if(
    changes: Sequence[Change],
    cluster: Snapshot | Document | Iterable[Any],
    gates: GatesLike = None,
    *,
    now: datetime | None = None,
    until: float = 3600.0,
    seed: int = 0,
) -> Forecast:
    """Return what *changes* (see weir.whatif.changes), made one after the other, do to *cluster* in *until* seconds.

    *cluster* is what `load` returned, documents, or one List document. Raises ValueError for a change that cannot be
    made, TypeError for what is no change.
    """
    wrong = [changes] if isinstance(changes, str) else [each for each in changes if not hasattr(each, "make")]
    if wrong:
        raise TypeError(
            f"{wrong[0]!r} is no change: give a list of changes of weir.whatif.changes, such as"
            ' [Cordon(Nodes(("n1",)))]'
        )
    from weir.whatif.run import WhatIfOptions
    from weir.whatif.run import what_if as run

    asked = WhatIfOptions(Gates.of(gates), now or datetime.now(UTC), until, seed)
    if isinstance(cluster, Snapshot):
        return cluster.held.loaded.what_if(changes, asked)
    documents: list[Any] = [dict(cluster)] if isinstance(cluster, Mapping) else list(cluster)
    return run(map(evaluated, documents), changes, asked)


def explain(
    pod: Any,
    cluster: Snapshot | World | Document | Iterable[Any],
    gates: GatesLike = None,
    *,
    stored: bool = False,
) -> Explanation:
    """Return where *pod* fits in *cluster*, why not elsewhere, and the smallest change that would help.

    *pod* is a Pod or a workload (its template is explained). *cluster* is what `load` returned, a World, documents
    (nodes, pods, volumes, claims), or one List document. With *stored* the pod is taken as it is in the cluster:
    nothing is added that creating it would add, and nothing is said about whether it would be accepted.

    >>> node = {"kind": "Node", "metadata": {"name": "n1"}, "spec": {"unschedulable": True}}
    >>> answer = explain({"kind": "Pod", "metadata": {"name": "web"}, "spec": {}}, [node])
    >>> answer.fits, answer.fix.commands
    (False, ('kubectl uncordon n1',))
    """
    if isinstance(cluster, Snapshot):
        world = cluster.world
    elif isinstance(cluster, World):
        world = cluster
    elif isinstance(cluster, Mapping):
        world = World.of([dict(cluster)])
    else:
        views = list(cluster)
        documents = World.of(view for view in views if not isinstance(view, View))
        world = documents.overlay(*(view for view in views if isinstance(view, View)))
    return _explain(Subject.of(_document(pod), stored=stored), world, Gates.of(gates))


def compile(expression: str, env: Env | None = None) -> Program:
    """Return *expression* compiled, about a taint (the variable `taint`) or about the variables of *env*.

    Raises CompileError with the compiler's own text; `evaluate(variables)` of the result raises CelError.

    >>> from weir.objects.core import Taint
    >>> program = compile("taint.key.startsWith('env.example.com/')")
    >>> program.evaluate({"taint": Taint("env.example.com/dev", "", "NoSchedule")})
    True
    """
    return compile_cel(expression, ENV if env is None else env)


def _misspelt_kind(document: Any) -> FieldError | None:
    kind = document.get("kind") if isinstance(document, dict) else None
    version = document.get("apiVersion") if isinstance(document, dict) else None
    return find_kind_problem(version, kind) if isinstance(kind, str) and isinstance(version, str) else None


def _read(view: type[Any], document: Any) -> Any:
    if not isinstance(document, Mapping):
        return read(view, document)
    known = [field.encode_name for field in msgspec.structs.fields(view)]
    for key in document:
        if key not in known:
            close = get_close_matches(str(key), known, n=1)
            hint = f": did you mean {close[0]!r}?" if close else ""
            raise ViewError(f"{view.__name__} has no field {key!r}{hint}")
    return read(view, dict(document))


def _stock_document(obj: Any) -> Any:
    """Return *obj* as a plain document, expressions in their own field however they are spelt."""
    return with_expressions(_document(obj))


def _document(obj: Any) -> Any:
    """Return *obj* as a plain document; a view becomes the part of a document it holds."""
    if isinstance(obj, View):
        return {
            "apiVersion": "v1",
            "kind": type(obj).__name__,
            **msgspec.json.decode(msgspec.json.encode(obj)),
        }
    return dict(obj) if isinstance(obj, Mapping) else obj
