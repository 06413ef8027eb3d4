"""`weir node`: adds, fails, recovers and removes simulated nodes.

Only nodes with the label weir.dev/simulated=true are changed: any other node is an error, and then nothing is
changed.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from weir import errors
from weir.cli._confirm import agreed, yes_option
from weir.cli._options import Group, live_options, together
from weir.client.api import Client
from weir.exit_codes import FINDINGS, FINE
from weir.explain.phrases import counted
from weir.inputs.live import Live
from weir.objects.kinds import NODES
from weir.objects.manifest import read_values
from weir.objects.times import format_time
from weir.output import progress, say
from weir.simulation.kubelet.node_classes import (
    CLASSES,
    FAILED,
    SIMULATED,
    ClassError,
    NodeClass,
    node_document,
)
from weir.taints.notation import parse_taint

_AGENT: Final = "weir-node"
_AT_ONCE: Final = 50
_MOST_NAMES: Final = 5


@click.group(cls=Group)
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
    chosen = _class(class_name) if devices is None else _class(class_name).with_devices(devices)
    wanted = tuple(parse_taint(text) for text in taints)
    marked = dict(_label(text) for text in labels)
    prefix = name or chosen.name

    async def act(client: Client) -> None:
        nodes = NODES
        taken = {each["metadata"]["name"] for each in (await client.list(nodes)).documents()}
        now = format_time(datetime.now(UTC))
        if name and count == 1:
            if name in taken:
                raise errors.AlreadyExists(f'nodes "{name}" already exists')
            wanted_names = [name]
        else:
            free = (each for number in itertools.count() if (each := f"{prefix}-{number}") not in taken)
            wanted_names = list(itertools.islice(free, count))
        with progress("nodes added:") as tick:
            for done in range(0, count, _AT_ONCE):
                batch = wanted_names[done : done + _AT_ONCE]
                documents = [node_document(each, chosen, wanted, marked, now) for each in batch]
                await asyncio.gather(*(client.create(nodes, document) for document in documents))
                tick(done + len(batch), count)
        shown = wanted_names[0] if count == 1 else f"{wanted_names[0]} … {wanted_names[-1]}"
        say(f"{counted(count, 'node')} added: {shown}")

    live.run(_AGENT, act)


_selected: Final = together(
    click.argument("names", nargs=-1, metavar="NAME…"),
    click.option(
        "-l", "--selector", default="", metavar="KEY=VALUE,…", help="All simulated nodes with these labels."
    ),
)


@node.command()
@_selected
@live_options
def fail(names: Sequence[str], selector: str, live: Live) -> int:
    """Switch simulated nodes off, as if their plug had been pulled: no heartbeats."""
    return _change(_off("true"), "is off", names, selector, live)


@node.command()
@_selected
@live_options
def recover(names: Sequence[str], selector: str, live: Live) -> int:
    """Switch simulated nodes on again."""
    return _change(_off(None), "is on again", names, selector, live)


@node.command()
@_selected
@yes_option
@live_options
def remove(names: Sequence[str], selector: str, yes: bool, live: Live) -> int:
    """Take simulated nodes away; their pods go with them after a while."""

    async def delete(client: Client, name: str) -> None:
        await client.delete(NODES, name)

    return _change(delete, "removed", names, selector, live, ask=("remove", yes))


# ── doing it ─────────────────────────────────────────────────────────────────────────────────────

Act = Callable[["Client", str], Awaitable[None]]


def _change(
    act: Act,
    done: str,
    names: Sequence[str],
    selector: str,
    live: Live,
    ask: tuple[str, bool] | None = None,
) -> int:
    """Do *act* to the nodes that are meant, all of them simulated; *ask* is the verb to ask with, and --yes."""
    if bool(names) == bool(selector):
        raise click.UsageError("write which nodes: their names, or -l KEY=VALUE")

    async def work(client: Client) -> int:
        chosen = await _simulated(client, live, names, selector)
        shown = ", ".join(chosen[:_MOST_NAMES]) + (" …" if len(chosen) > _MOST_NAMES else "")
        if ask is not None and not agreed(f"{ask[0]} {counted(len(chosen), 'node')} ({shown})", live, ask[1]):
            say("nothing was changed", err=True)
            return FINDINGS
        for name in chosen:
            await act(client, name)
            say(f"node {name} {done}")
        return FINE

    return live.run(_AGENT, work)


async def _simulated(client: Client, live: Live, names: Sequence[str], selector: str) -> list[str]:
    """Return the nodes that are meant; a single one among them that is not simulated ends it all."""
    nodes = NODES
    if selector:
        found = (await client.list(nodes, label_selector=f"{SIMULATED}=true,{selector}")).documents()
        if not found:
            raise click.ClickException(f"no simulated node has the labels {selector}")
    else:
        found = [await client.get(nodes, name) for name in dict.fromkeys(names)]
    real = [
        each["metadata"]["name"]
        for each in found
        if (each["metadata"].get("labels") or {}).get(SIMULATED) != "true"
    ]
    if real:
        raise click.ClickException(
            f"node {', '.join(real)} is not simulated (no label {SIMULATED}=true in {live.cluster_name()}): "
            "nothing was changed"
        )
    return [each["metadata"]["name"] for each in found]


def _off(value: str | None) -> Act:
    async def act(client: Client, name: str) -> None:
        await client.patch(NODES, name, {"metadata": {"annotations": {FAILED: value}}})

    return act


def _class(text: str) -> NodeClass:
    if text in CLASSES:
        return CLASSES[text]
    path = Path(text)
    if not path.suffix and not path.exists():
        raise ClassError(f"no node class is called {text!r}: there are {', '.join(CLASSES)}, or give a file")

    documents = read_values(path.read_text(), str(path))
    if len(documents) != 1:
        raise ClassError(f"{path}: one node class is expected, not {len(documents)}")
    return NodeClass.read(documents[0], path.stem)


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z0-9._/-]+", key):
        raise click.BadParameter(f"{text!r}: write key=value", param_hint="--label")
    return key, value
