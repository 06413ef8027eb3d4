"""`weir status`: whether a cluster runs on a data folder, and its health."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import click

from weir.cli._data_folder import find_holder, find_pid, running_data_dir_option
from weir.cli._options import output_option
from weir.client.http import connect
from weir.client.kubeconfig import load
from weir.exit_codes import FINDINGS, FINE
from weir.objects.kinds import NODES, PODS
from weir.output import emit, say

SCHEMA = "weir.status/v1"


@click.command()
@running_data_dir_option
@output_option("text", "json", "yaml")
def status(data_dir: Path, output: str) -> int:
    """Say what runs on a data folder and how its nodes and pods are; exit 1 when nothing does."""
    holder = find_holder(data_dir)
    report: dict[str, Any] = {
        "schema": SCHEMA,
        "running": holder is not None,
        "dataDir": str(data_dir.resolve()),
    }
    if holder is not None:
        kubeconfig = data_dir / "kubeconfig"
        report |= {"process": find_pid(holder), "kubeconfig": str(kubeconfig.resolve())}
        report |= asyncio.run(_look(kubeconfig))
    if output != "text":
        emit(report, output)
    elif holder is None:
        say(f"nothing runs on {data_dir}")
    else:
        say(f"running: {holder}")
        for line in _lines(report):
            say(line)
    return FINDINGS if holder is None else FINE


async def _look(kubeconfig: Path) -> dict[str, Any]:
    """Return where the cluster is and how its nodes and pods are."""
    client = connect(kubeconfig, user_agent="weir-status")
    try:
        nodes = (await client.list(NODES)).documents()
        pods = (await client.list(PODS)).documents()
    finally:
        await client.close()
    phases = Counter(pod["status"].get("phase", "Unknown") for pod in pods)
    return {
        "server": load(kubeconfig).server,
        "nodes": {"total": len(nodes), "ready": sum(map(_is_ready, nodes))},
        "pods": dict(sorted(phases.items())),
    }


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _lines(report: dict[str, Any]) -> list[str]:
    pods = ", ".join(f"{count} {phase}" for phase, count in report["pods"].items())
    return [
        f"nodes: {report['nodes']['ready']} of {report['nodes']['total']} ready",
        f"pods: {pods or 'none'}",
        f"export KUBECONFIG={report['kubeconfig']}",
    ]
