"""`weir skew`: effect of version skew on one workload.

Exit 0 when no row is dangerous, 1 when one is, 2 for unusable input, 3 for an unreachable cluster. The simulation is
in weir.whatif.skew.
"""

from __future__ import annotations

from typing import Any, Final

import click

from weir.cli._options import cluster_options, output_option

_EPILOG: Final = "Exit codes: 0 nothing dangerous, 1 something is, 2 unreadable input, 3 cluster unreachable."
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
def skew(**options: Any) -> int:
    """Judge one workload by every mix of old and new components.

    \b
    Examples:
      weir skew -f pod.yaml
      weir skew -f deployment.yaml --cluster snapshot.yaml -o svg > skew.svg
      weir skew -f cel.yaml --taint example.com/rack=7:NoExecute
    """
    from weir.cli._skew_run import answer

    return answer(**options)
