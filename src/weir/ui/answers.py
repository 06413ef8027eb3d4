"""One workload in detail: where it fits, why not elsewhere, the smallest fix as a diff, and trying it.

The explanation is the document of `weir explain -o json`. A change is tried on a copy: on the workload, on nodes, on
gates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from weir.explain.diff import diff
from weir.explain.engine import Engines
from weir.explain.explanation import Explanation
from weir.explain.explanation import document as report
from weir.explain.fix import Case, Edits, Fix, apply, changed_node, find_fix
from weir.explain.pod import explain
from weir.explain.verdict import Group
from weir.gates import Gates
from weir.inputs.certainty import deciding, distinct, needed_kinds, through_operator
from weir.output import to_yaml
from weir.taints.features import needed_gates
from weir.ui.matrix import Cell, Matrix, Row, make_matrix
from weir.ui.matrix_cache import MatrixCache
from weir.ui.source import ClusterView, lacking
from weir.ui.workloads import Workload
from weir.world import World

Document = dict[str, Any]
Change = tuple[Edits, list[str]]  #: and what it looks like


@dataclass(frozen=True)
class Try:
    """One change that is tried: of which workload, and which of the changes that were proposed for it."""

    workload: str
    choice: int = 0  #: 0: the smallest; others: its alternatives
    node: str = ""  #: the node that the change is to help on; "": any


class NotThere(LookupError):
    """The requested object is not in the cluster."""


def gates_of(seen: ClusterView, used: frozenset[str]) -> list[Gates]:
    """Return the gates that the cluster may have, as far as they decide: one, or two."""
    return seen.known.possible(used)


def used_gates(seen: ClusterView) -> frozenset[str]:
    """Return the gates that what the cluster holds depends on."""
    subjects = [each.subject.document for each in seen.workloads]
    return frozenset(needed_gates([*subjects, *(each for _, each in deciding(seen.held))]))


@dataclass
class _ForNode(Case):
    """The question whether edits help on one node, wherever else the pod fits already."""

    target: str = ""

    def helps(self, edits: Edits) -> bool:
        return self.target in self.after(edits)


def fix_for(answer: Explanation, world: World, node: str) -> Fix | None:
    """Return the smallest change after which *node* takes the pod; None: it does already, or nothing helps."""
    verdict = next((each for each in answer.nodes if each.node == node), None)
    if verdict is None or (verdict.fits and not answer.blockers):
        return None
    subject = answer.subject
    own = answer.pod.key if subject.kind == "Pod" and answer.pod.key in world.pods else ""
    engines = Engines(world, without=own, templates=subject.claim_templates(0))
    group = Group(verdict, (node,))
    return find_fix(
        _ForNode(subject, answer.pod, world, answer.gates, [group], answer.blockers, engines, target=node)
    )


def explain_workload(seen: ClusterView, name: str, node: str = "") -> tuple[Document, list[Change]]:
    """Return the document of `weir explain -o json` for one workload, and the changes that would help.

    With *node* they are those that help there; else those that let the workload run at all.
    """
    workload = seen.workload(name)
    if workload is None:
        raise NotThere(f"no {name} in the cluster")
    subject = workload.subject
    used = frozenset(needed_gates([subject.document, *(each for _, each in deciding(seen.held))]))
    found = distinct(
        seen.known,
        used,
        lambda gates: [explain(subject, seen.world, gates)],
        lambda a, b: [each.data() for each in a] == [each.data() for each in b],
    )
    answer = found[0][1][0]
    lowered = [through_operator(subject, seen.known, seen.held)]
    fix = fix_for(answer, seen.world, node) if node else answer.fix
    proposed = changes(answer, fix)
    return {
        "schema": "weir.ui.explain/v1",
        "workload": workload.id,
        "node": node if fix is not None else "",
        "pods": [_pod(pod) for pod in workload.pods[:200]],
        "explain": report(found, seen.known.report(), lowered),
        "changes": [
            {"choice": number, "edits": [edit.say() for edit in edits], "diff": lines}
            for number, (edits, lines) in enumerate(proposed)
        ],
    }, proposed


def changes(answer: Explanation, fix: Fix | None) -> list[Change]:
    """Return the smallest change and its alternatives, each with what it looks like in the document."""
    if fix is None:
        return []
    return [(edits, list(_lines(answer, fix, edits))) for edits in (fix.edits, *fix.alternatives)]


def _lines(answer: Explanation, fix: Fix, edits: Edits) -> Sequence[str]:
    after = fix.after if edits is fix.edits else apply(answer.subject, edits).document
    before, then = (
        {key: value for key, value in each.items() if key != "status"}
        for each in (answer.subject.document, after)
    )
    commands = [edit.command for edit in edits if edit.command]
    return [*diff(before, then, answer.subject.title, to_yaml), *(f"$ {command}" for command in commands)]


def _pod(pod: Document) -> Document:
    metadata, spec, status = (pod.get(name) or {} for name in ("metadata", "spec", "status"))
    return {
        "name": metadata.get("name"),
        "namespace": metadata.get("namespace") or "default",
        "node": spec.get("nodeName"),
        "phase": status.get("phase"),
    }


# ── the matrix ───────────────────────────────────────────────────────────────────────────────────


def matrix_of(
    seen: ClusterView,
    tries: Sequence[Try] = (),
    base: Matrix | None = None,
    remembered: MatrixCache | None = None,
) -> tuple[Matrix, list[str]]:
    """Return the matrix, with *tries* made, and what they are in words; *base* is the matrix without them.

    *remembered* is what an earlier version of the cluster left to be used again.
    """
    cannot = _cannot(seen)
    workloads, said = list(seen.workloads), []
    world, gates = seen.world, gates_of(seen, used_gates(seen))
    whole = base is None
    for each in tries:
        _, proposed = explain_workload(seen, each.workload, each.node)
        if not 0 <= each.choice < len(proposed):
            raise NotThere(f"no change number {each.choice} is proposed for {each.workload}")
        edits, _ = proposed[each.choice]
        said += [f"{each.workload}: {edit.say()}" for edit in edits]
        workloads = [_edited(one, edits) if one.id == each.workload else one for one in workloads]
        changed = _changed_world(world, edits)
        whole = whole or changed is not world
        world = changed
        for edit in edits:
            before, gates = gates, [edit.on_gates(one) for one in gates]
            whole = whole or before != gates
    names = frozenset(each.workload for each in tries)
    if whole or base is None:
        found = [make_matrix(workloads, world, each, cannot, before=remembered) for each in gates]
        made = found[0] if len(found) == 1 else _doubtful(found[0], found[1], seen)
    else:
        fresh = make_matrix([each for each in workloads if each.id in names], world, gates[0], cannot)
        same = [group.nodes for group in fresh.groups] == [group.nodes for group in base.groups]
        if not same or len(gates) > 1:
            return matrix_of_all(workloads, world, gates, cannot, seen, names), said
        made = Matrix(workloads, base.groups, {**base.rows, **fresh.rows})
    made.changed = names
    return made, said


def matrix_of_all(
    workloads: Sequence[Workload],
    world: World,
    gates: Sequence[Gates],
    cannot: dict[str, str],
    seen: ClusterView,
    names: frozenset[str],
) -> Matrix:
    """Return the matrix of everything anew, for each of the gates that the cluster may have."""
    found = [make_matrix(workloads, world, each, cannot) for each in gates]
    made = found[0] if len(found) == 1 else _doubtful(found[0], found[1], seen)
    made.changed = names
    return made


def _edited(workload: Workload, edits: Edits) -> Workload:
    return replace(workload, subject=apply(workload.subject, edits))


def _changed_world(world: World, edits: Edits) -> World:
    named = {edit.node for edit in edits if edit.node} & world.nodes.keys()
    if named:
        world = world.overlay(*(changed_node(world.nodes[name], edits) for name in sorted(named)))
    for edit in edits:
        world = edit.on_world(world)
    return world


def _cannot(seen: ClusterView) -> dict[str, str]:
    """Return the workloads of which nothing can be said, with the reason."""
    found = {}
    for each in seen.workloads:
        if why := lacking(seen, sorted(needed_kinds(each.subject.pod_spec))):
            found[each.id] = f"cannot say: {why}"
    return found


def _doubtful(off: Matrix, on: Matrix, seen: ClusterView) -> Matrix:
    """Return one matrix of two that hold for gates off and on: where they differ, it cannot be said."""
    names = " and ".join(seen.known.unknown)
    rows = {}
    for name, row in off.rows.items():
        other = on.rows[name]
        cells = tuple(
            one if one == two else Cell("unknown", 0, _either(names, one, two))
            for one, two in zip(row.cells, other.cells, strict=True)
        )
        same = row.fits == other.fits
        rows[name] = Row(cells, row.fits and other.fits, row.verdict if same else "unknown", row.text)
    return Matrix(off.workloads, off.groups, rows)


def _either(names: str, off: Cell, on: Cell) -> str:
    said = [cell.text or cell.verdict for cell in (off, on)]
    return f"cannot say: it is not known whether {names} is on; off: {said[0]}; on: {said[1]}"
