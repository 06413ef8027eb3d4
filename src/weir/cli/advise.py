"""`weir advise`: better toleration values for workloads, and workloads that depend on one value.

Reads manifests and a live cluster or a dump; writes nothing. Exit 0 when every workload has its nodes and depends on
more than one value, 1 when not, 2 for unreadable input, 3 when unknown.
"""

from __future__ import annotations

from typing import Any

import click

from weir.cli._options import asked_cluster, asked_gates_option, output_option


@click.command(
    epilog="Exit codes: 0 all have the nodes they want, 1 some do not or rest on one value, 2 unreadable input, "
    "3 cannot say (the cluster is out of reach, rights are missing, or gates that decide are not known).",
)
@click.option(
    "-f", "--filename", "files", multiple=True, metavar="FILE|DIR|-", help="Manifests of workloads."
)
@click.option("--all", "everything", is_flag=True, help="Every workload of the cluster, fragile ones first.")
@asked_cluster
@click.option(
    "--keep",
    type=click.IntRange(1),
    default=None,
    metavar="N",
    help="Nodes each should have.  [default: one, or its replicas where something keeps them apart]",
)
@output_option("text", "json", "yaml")
@asked_gates_option()
def advise(**options: Any) -> int:
    """Say which toleration values keep how many nodes, what is one value from nowhere, and what nothing uses.

    \b
    Examples:
      weir advise -f deployment.yaml --context production
      weir advise --all --cluster snapshot.yaml
      weir advise --all --keep 3 -o json
    """
    from weir.cli._advise_run import answer

    return answer(**options)
