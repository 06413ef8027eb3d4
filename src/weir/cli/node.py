"""`weir node`: add simulated nodes to a cluster, switch them off and on, take them away."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from weir.cli._options import Live, live_options
from weir.objects.times import format_time

if TYPE_CHECKING:
    from weir.client.api import Client
    from weir.simulation.kubelet.node_classes import NodeClass

_AGENT: Final = "weir-node"


@click.group()
def node() -> None:
    """Simulated nodes: `weir up` or `weir kubelet` plays them."""


@node.command()
@click.option("--count", type=click.IntRange(1, 100_000), default=1, show_default=True, help="How many.")
@click.option("--name", default="", help="The name, or its beginning when there are several.")
@click.option(
    "--class", "class_name", default="default", show_default=True, help="A built-in class or a YAML file."
)
@click.option(
    "--taint", "taints", multiple=True, metavar="KEY=VALUE:EFFECT", help="A taint; may be repeated."
)
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label; may be repeated.")
@click.option(
    "--devices",
    type=click.IntRange(0, 1024),
    help="Devices of each node: of the class's own kind, or GPUs.  [default: as the class says]",
)
@live_options
def add(
    count: int,
    name: str,
    class_name: str,
    taints: Sequence[str],
    labels: Sequence[str],
    devices: int | None,
    live: Live,
) -> None:
    """Add nodes to a cluster.

    \b
    weir node add --count 50 --class spot --taint failure-probability=15:NoExecute
    weir node add --count 4 --class gpu --devices 2
    """
    from weir.taints.notation import parse_taint

    chosen = _class(class_name) if devices is None else _class(class_name).with_devices(devices)
    wanted = tuple(parse_taint(text) for text in taints)
    marked = dict(_label(text) for text in labels)
    prefix = name or chosen.name

    async def act(client: Client) -> None:
        from datetime import UTC, datetime

        from weir import errors
        from weir.objects.kinds import by_kind
        from weir.simulation.kubelet.node_classes import node_document

        nodes = by_kind("v1", "Node")
        taken = {each["metadata"]["name"] for each in (await client.list(nodes)).documents()}
        now = format_time(datetime.now(UTC))
        made: list[str] = []
        number = 0
        while len(made) < count:
            candidate = name if name and count == 1 else f"{prefix}-{number}"
            number += 1
            if candidate in taken:
                if name and count == 1:
                    raise errors.AlreadyExists(f'nodes "{candidate}" already exists')
                continue
            document = node_document(candidate, chosen, wanted, marked, now)
            await client.create(nodes, document)
            made.append(candidate)
        shown = made[0] if len(made) == 1 else f"{made[0]} … {made[-1]}"
        click.echo(f"{len(made)} node{'s' if len(made) > 1 else ''} added: {shown}")

    live.run(_AGENT, act)


def _change(annotation: str | None, word: str) -> Callable[..., None]:
    def command(names: Sequence[str], live: Live) -> None:
        async def act(client: Client) -> None:
            from weir.objects.kinds import by_kind
            from weir.simulation.kubelet.node_classes import FAILED

            for name in names:
                patch = {"metadata": {"annotations": {FAILED: annotation}}}
                await client.patch(by_kind("v1", "Node"), name, patch)
                click.echo(f"node {name} {word}")

        live.run(_AGENT, act)

    return command


def _on_names(function: Callable[..., None], name: str, help: str) -> None:
    decorated = click.argument("names", nargs=-1, required=True, metavar="NAME…")(live_options(function))
    node.command(name=name, help=help)(decorated)


_on_names(
    _change("true", "is off"), "fail", "Switch nodes off, as if somebody had pulled the plug: no heartbeats."
)
_on_names(_change(None, "is on again"), "recover", "Switch nodes on again.")


@node.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@live_options
def remove(names: Sequence[str], live: Live) -> None:
    """Take nodes away; their pods go with them after a while."""

    async def act(client: Client) -> None:
        from weir.objects.kinds import by_kind

        for name in names:
            await client.delete(by_kind("v1", "Node"), name)
            click.echo(f"node {name} removed")

    live.run(_AGENT, act)


def _class(text: str) -> NodeClass:
    from weir.simulation.kubelet.node_classes import CLASSES, ClassError, NodeClass

    if text in CLASSES:
        return CLASSES[text]
    path = Path(text)
    if not path.suffix and not path.exists():
        raise ClassError(f"no node class is called {text!r}: there are {', '.join(CLASSES)}, or give a file")
    from weir.objects.manifest import read_values

    documents = read_values(path.read_text(), str(path))
    if len(documents) != 1:
        raise ClassError(f"{path}: one node class is expected, not {len(documents)}")
    return NodeClass.read(documents[0], path.stem)


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z0-9._/-]+", key):
        raise click.BadParameter(f"{text!r}: write key=value", param_hint="--label")
    return key, value
