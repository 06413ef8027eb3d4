"""Answer of `weir skew`: a workload under every mix of old and new components."""

from __future__ import annotations

from typing import Any, Final

import click

from weir.exit_codes import FINDINGS, FINE
from weir.fields.documents import find_kind_problem
from weir.inputs.cluster import read_cluster
from weir.inputs.files import read_documents, refuse_long_tolerations
from weir.inputs.live import ClusterSource
from weir.objects.envelope import envelope_problem
from weir.objects.templates import TEMPLATE_PATHS, find_template
from weir.output import BAD, DIM, GOOD, NOTE, emit, paint, say, wants_colour, write_document
from weir.taints.notation import TaintNotationError
from weir.whatif.skew import COLUMNS, Matrix, SkewError, check_taints, node_shapes
from weir.whatif.skew import skew as judge
from weir.whatif.skew_picture import mark, mood, picture, report
from weir.world import flatten

#: Of the workload: a node is made up for each, and judged by every mix of components.
MOST_TOLERATIONS: Final = 100


def answer(
    filename: str,
    taints: tuple[str, ...],
    every: bool,
    output: str,
    where: ClusterSource,
) -> int:
    """Return the exit code of `weir skew`, after writing its result."""
    for document in (manifests := read_documents([filename])):
        if problem := envelope_problem(document.value):
            raise click.UsageError(f"{document.place}: {problem}")
    documents = list(flatten(document.value for document in manifests))
    chosen = [each for each in documents if each.get("kind") in TEMPLATE_PATHS]
    if len(chosen) != 1:
        raise click.UsageError(f"{filename}: one Pod or workload is judged, here are {len(chosen)}")
    if wrong := find_kind_problem(str(chosen[0].get("apiVersion")), chosen[0]["kind"]):
        raise click.UsageError(f"{filename}: {wrong}")
    refuse_long_tolerations(
        (find_template(chosen[0]) or {}).get("spec"), f"{filename}: {chosen[0]['kind']}", MOST_TOLERATIONS
    )
    try:
        nodes = [check_taints(taints)] if taints else []
        if where.dump or where.live.kubeconfig is not None or where.live.context:
            held = read_cluster(where, ("Node",))
            nodes += node_shapes(flatten(document for _, document in held.documents))
        matrix = judge(chosen[0], nodes, every=every)
    except (SkewError, TaintNotationError) as error:
        raise click.UsageError(f"{filename}: {error}") from None
    if output == "svg":
        write_document(picture(matrix), nl=False)
    elif output == "text":
        _show(matrix)
    else:
        emit(report(matrix), output)
    return FINDINGS if matrix.dangerous else FINE


def _show(matrix: Matrix) -> None:
    colour = wants_colour()
    say(f"{matrix.subject} needs {', '.join(matrix.gates)}")
    width = max(len(row.name) for row in matrix.rows)
    say(f"{'':{width}}  {'  '.join(f'{name:9}' for name in COLUMNS)}".rstrip())
    hues: dict[str, Any] = {"fine": GOOD, "no": NOTE, "danger": BAD, "none": DIM}
    reasons: dict[str, list[str]] = {}
    for row in matrix.rows:
        cells = [row.cells[name] for name in COLUMNS]
        shown = [paint(f"{mark(cell):9}", hues[mood(cell)], on=colour) for cell in cells]
        say(f"{row.name:{width}}  {'  '.join(shown)}".rstrip())
        for name, cell in row.cells.items():
            if cell.danger:
                reasons.setdefault(f"{name}: {cell.danger}", []).append(row.name)
    for reason, rows in reasons.items():
        say(f"⚠ {reason}")
        say(f"    {'; '.join(rows)}")
