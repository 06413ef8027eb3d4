"""`weir explain`: where a pod fits, why not elsewhere, and the smallest fix.

Reads a live cluster, manifests, snapshots, dumps of kubectl, directories, stdin. Writes nothing. Exit 0
when everything fits somewhere, 1 when something fits nowhere, 2 for unreadable input, 3 when unknown: the cluster is
unreachable, a permission or gate that decides is missing, or what the snapshot lacks could change the result.
"""

from __future__ import annotations

from typing import Any

import click

from weir.cli._options import asked_cluster, asked_gates_option, output_option


@click.command(
    epilog="Exit codes: 0 everything fits somewhere (or runs after preempting others), 1 something fits nowhere, "
    "2 unreadable input, 3 cannot say (the cluster is out of reach; rights, gates or parts of the snapshot that "
    "decide are missing).",
)
@click.argument("names", nargs=-1, metavar="[POD | KIND NAME | KIND/NAME | KIND]")
@click.option(
    "-f", "--filename", "files", multiple=True, metavar="FILE|DIR|-", help="Manifests of what to explain."
)
@asked_cluster
@click.option("-n", "--namespace", default=None, help="Namespace of POD.  [default: default]")
@click.option(
    "-A",
    "--all-namespaces",
    is_flag=True,
    help="Every pod that waits for a node, one of each workload; with KIND every workload of it.",
)
@click.option(
    "-l", "--selector", default=None, metavar="KEY=VALUE,…", help="As -A, of those with these labels."
)
@output_option("text", "json", "yaml", "markdown")
@click.option("--all", "show_all", is_flag=True, help="Show every group and every node name.")
@click.option("-w", "--watch", is_flag=True, help="Ask again every two seconds until everything fits.")
@click.option("--patch", "as_patch", is_flag=True, help="Show the change as a merge patch, not as a diff.")
@click.option(
    "--fail-on-preemption",
    is_flag=True,
    help="Exit with 1 also for a pod that runs only after preempting others.",
)
@asked_gates_option()
def explain(**options: Any) -> int:
    """Say where a pod fits, why not elsewhere, and the smallest change that would help.

    \b
    Examples:
      weir explain web -n shop
      weir explain deployment web -n shop
      weir explain -A
      weir explain deployments -l app=web -n shop
      weir explain -f deployment.yaml --context production
      weir explain -f pod.yaml --cluster snapshot.yaml
      weir snapshot && weir explain -f deployment.yaml --cluster snapshot.json.gz
    """
    from weir.cli._explain_run import answer

    return answer(**options)
