"""Writes every page of the documentation that is made from the code: `make docs`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from docs import conformance, coverage, kinds, lint
from weir.apiserver.compat.flowcontrol.metrics import FlowControlMetrics
from weir.apiserver.metrics import Metrics
from weir.cli.main import weir
from weir.controllers.runtime.metrics import ControllerMetrics
from weir.observe.metrics import Registry
from weir.operator.metrics import OperatorMetrics
from weir.scheduler.metrics import SchedulerMetrics
from weir.simulation.kubelet.pod_worker import KubeletMetrics

REFERENCE = Path(__file__).parent / "reference"
PICTURES = Path(__file__).parent / "pictures"


def main() -> None:
    (REFERENCE / "lint").mkdir(parents=True, exist_ok=True)
    for name, content in lint.pages().items():
        (REFERENCE / "lint" / name).write_text(content)
    drawing = [sys.executable, "-m", "weir.cli.main", "demo", "failure-probability", "-o", "svg"]
    (PICTURES / "demo.svg").write_bytes(subprocess.run(drawing, check=True, capture_output=True).stdout)
    functions = [sys.executable, "-m", "weir.cli.main", "cel", "functions", "-o", "markdown"]
    (REFERENCE / "cel.md").write_bytes(subprocess.run(functions, check=True, capture_output=True).stdout)
    (REFERENCE / "cli.md").write_text(cli_page())
    (REFERENCE / "kep-coverage.md").write_text(coverage.page())
    (REFERENCE / "conformance.md").write_text(conformance.page())
    (REFERENCE / "kinds.md").write_text(kinds.page())
    for page, registry in metric_registries().items():
        path = REFERENCE / f"metrics-{page}.md"
        head, _, _ = path.read_text().partition("| Metric |")
        path.write_text(head + registry.reference())


def metric_registries() -> dict[str, Registry]:
    """Return the declared metrics of every component that has a page of them."""
    apiserver = Metrics()
    FlowControlMetrics(apiserver.registry)
    declared = {
        "apiserver": apiserver,
        "controllers": ControllerMetrics(),
        "kubelet": KubeletMetrics(),
        "operator": OperatorMetrics(),
        "scheduler": SchedulerMetrics(),
    }
    return {page: metrics.registry for page, metrics in declared.items()}


def cli_page() -> str:
    """Return the page with the help of every command."""
    parts = ["# Commands\n\nWhat `--help` says, all of it. Written by `make docs`.\n"]
    for path, command in commands(weir, "weir"):
        context = click.Context(command, info_name=path, terminal_width=100, **(weir.context_settings or {}))
        parts.append(
            f"\n{'##' if ' ' not in path else '###'} {path}\n\n```text\n{command.get_help(context)}\n```\n"
        )
    return "".join(parts)


def commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    """Yield a command and all below it, each with the words that call it."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None, name
            yield from commands(child, f"{path} {name}")


if __name__ == "__main__":
    main()
