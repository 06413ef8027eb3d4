"""`weir status`: does a cluster run on this data folder, and how is it?"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import click

from weir.cli._options import data_dir_option


@click.command()
@data_dir_option("The folder given to weir up.")
def status(data_dir: Path) -> int:
    """Say who runs on a data folder and how its nodes and pods are; exit 1 when nobody does."""
    from weir.cli._holder import find_holder

    holder = find_holder(data_dir)
    if holder is None:
        click.echo(f"nothing runs on {data_dir}")
        return 1
    click.echo(f"running: {holder}")
    asyncio.run(_look(data_dir / "kubeconfig"))
    return 0


async def _look(kubeconfig: Path) -> None:
    from weir.client.http import connect
    from weir.objects.kinds import by_kind

    client = connect(kubeconfig, user_agent="weir-status")
    try:
        nodes = (await client.list(by_kind("v1", "Node"))).documents()
        pods = (await client.list(by_kind("v1", "Pod"))).documents()
    finally:
        await client.close()
    ready = sum(
        any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions") or ())
        for node in nodes
    )
    phases = Counter(pod["status"].get("phase", "Unknown") for pod in pods)
    click.echo(f"nodes: {ready} of {len(nodes)} ready")
    told = ", ".join(f"{count} {phase}" for phase, count in sorted(phases.items()))
    click.echo(f"pods: {told or 'none'}")
    click.echo(f"export KUBECONFIG={kubeconfig.resolve()}")
