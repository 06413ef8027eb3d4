"""`weir uninstall`: removes weir's operator from a cluster in the safe order, and reports what stays and is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from weir.cli._confirm import agreed, check_askable, yes_option
from weir.cli._options import live_options
from weir.exit_codes import FINDINGS, FINE
from weir.inputs.live import Live
from weir.lowering.names import NAMESPACE
from weir.output import say

if TYPE_CHECKING:
    from weir.client.api import Client
    from weir.install.removal import Plan

_MOST_WORKLOADS: Final = 20
_STAYS: Final = (
    "What stays is harmless: markers and annotations (lowered.weir.dev/…) say nothing to Kubernetes, entries "
    "tolerate the taints their author meant, and labels on nodes are only labels."
)


@click.command(
    epilog="Exit codes: 0 done, or nothing was there; 1 not done; 2 wrong use; 3 the cluster is out of reach."
)
@click.option(
    "-n", "--namespace", default=NAMESPACE, show_default=True, help="The namespace of the installation."
)
@click.option("--dry-run", is_flag=True, help="Only say what would be done, and what depends on it.")
@live_options
@yes_option
def uninstall(namespace: str, dry_run: bool, live: Live, yes: bool) -> int:
    """Take weir's operator out of a cluster: the barrier first, then the hooks, then the rest.

    Running pods stay. Pods that workloads make afterwards are tolerated only by what Kubernetes itself knows.

    \b
    weir uninstall --dry-run
    weir uninstall --context staging --yes
    """
    from weir.install.removal import plan, remove

    if not dry_run:
        check_askable(yes)

    async def work(client: Client) -> int:
        found = await plan(client, namespace)
        if not found.objects:
            say(f"there is no installation of weir's operator in {namespace} of {live.cluster_name()}")
            return FINE
        _describe(found)
        if dry_run:
            for document in found.objects:
                say(f"would delete {document['kind'].lower()}/{document['metadata']['name']}")
            say("nothing was changed")
            return FINE
        if not agreed(f"take weir's operator out of {namespace}", live, yes):
            say("nothing was changed", err=True)
            return FINDINGS
        async for line in remove(client, found):
            say(line)
        say(_STAYS)
        return FINE

    return live.run("weir-uninstall", work)


def _describe(found: Plan) -> None:
    """Say what depends on the operator."""
    if found.workloads:
        say("New pods of these will no longer be tolerated; rewrite them with Equal or Exists first:")
        for line in found.workloads[:_MOST_WORKLOADS]:
            say(f"  {line}")
        if len(found.workloads) > _MOST_WORKLOADS:
            say(f"  … and {len(found.workloads) - _MOST_WORKLOADS} more")
    if found.lowered_pods:
        say(
            f"{found.lowered_pods} lowered pods keep the entries they have; a taint value that is new evicts them."
        )
    if found.held_pods:
        say(f"{len(found.held_pods)} pods that are still held are let go.")
