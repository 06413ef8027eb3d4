"""`weir skew`: effect of version skew on one workload.

Exit 0 when no row is dangerous, 1 when one is, 2 for unusable input, 3 for an unreachable cluster. The simulation is
in weir.whatif.skew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from weir.cli._options import ClusterSource, cluster_options, output_option
from weir.cli.inputs import read_cluster, read_documents, refuse_long_tolerations
from weir.cli.main import FINDINGS, FINE
from weir.cli.render import BAD, DIM, GOOD, NOTE, emit, paint, say, wants_colour, write_document
from weir.objects.envelope import envelope_problem

if TYPE_CHECKING:
    from weir.whatif.skew import Matrix

_EPILOG: Final = "Exit codes: 0 nothing dangerous, 1 something is, 2 unreadable input, 3 cluster unreachable."
#: Of the workload: a node is made up for each, and judged by every mix of components.
MOST_TOLERATIONS: Final = 100
_asked: Final = cluster_options(
    "The cluster whose nodes count: a dump or manifests. Without it, and without --kubeconfig or --context, a node is "
    "made up that the pod's tolerations are about."
)


@click.command(epilog=_EPILOG)
@click.option(
    "-f", "--filename", required=True, metavar="FILE|-", help="A Pod, or a workload with a template."
)
@click.option(
    "--taint",
    "taints",
    multiple=True,
    metavar="KEY=VALUE:EFFECT",
    help="A taint of the made-up node; may be repeated.",
)
@click.option("--all", "every", is_flag=True, help="Every combination, not only the ones an upgrade meets.")
@output_option("text", "json", "yaml", "svg")
@_asked
def skew(filename: str, taints: tuple[str, ...], every: bool, output: str, where: ClusterSource) -> int:
    """Judge one workload by every mix of old and new components.

    \b
    Examples:
      weir skew -f pod.yaml
      weir skew -f deployment.yaml --cluster snapshot.yaml -o svg > skew.svg
      weir skew -f cel.yaml --taint example.com/rack=7:NoExecute
    """
    from weir.objects.templates import TEMPLATE_PATHS, find_template
    from weir.taints.notation import TaintNotationError
    from weir.validate.unknown_fields import find_kind_problem
    from weir.whatif.skew import SkewError, check_taints, node_shapes
    from weir.whatif.skew import skew as judge
    from weir.whatif.skew_picture import picture, report
    from weir.world import flatten

    for document in (found := read_documents([filename])):
        if problem := envelope_problem(document.value):
            raise click.UsageError(f"{document.place}: {problem}")
    documents = list(flatten(document.value for document in found))
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
    from weir.whatif.skew import COLUMNS
    from weir.whatif.skew_picture import mark, mood

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
