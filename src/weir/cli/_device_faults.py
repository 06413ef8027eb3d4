"""`weir device degrade`, `unplug`, `break`, `repair`, `republish`: faults of simulated devices.

The commands write node annotations; the simulated driver (`weir up`, `weir kubelet`) publishes the result. Real nodes
are left alone.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import click

from weir.cli._options import live_options, read_seconds
from weir.client.api import Client
from weir.errors import Conflict
from weir.exit_codes import FINE
from weir.explain.phrases import counted
from weir.inputs.live import Live
from weir.objects.kinds import NODES, RESOURCE_SLICES
from weir.output import say
from weir.simulation.drivers.device_models import DEVICES, DevicesError, read_all
from weir.simulation.drivers.faults import POOL, with_fault
from weir.simulation.drivers.publisher import SIMULATED as SIMULATED_DEVICES
from weir.simulation.drivers.publisher import check_publishable
from weir.simulation.kubelet.node_classes import SIMULATED

Document = dict[str, Any]

_TRIES = 10
_AGENT: Final = "weir-device"


@click.command(short_help="Simulated: let a driver taint its device.")
@click.argument("where", metavar="NODE[/DEVICE]")
@click.argument("taint", metavar="[KEY[=VALUE]:EFFECT]", default="")
@click.option("--for", "lasts", default="", metavar="10m", help="Until it is well again by itself.")
@click.option("--every", default="", metavar="1h", help="Count the value by --step this often, down to 0.")
@click.option("--step", type=int, default=-1, show_default=True, help="What --every adds to the value.")
@click.option("--rate", type=click.IntRange(min=1), help="Pods evicted a second (evictionsPerSecond).")
@click.option("--description", default="", help="The reason, stored with the taint.")
@click.option("--data", default="", metavar="JSON", help="What the driver knows, as a JSON object.")
@live_options
def degrade(
    where: str,
    taint: str,
    lasts: str,
    every: str,
    step: int,
    rate: int | None,
    description: str,
    data: str,
    live: Live,
) -> int:
    """Let the simulated driver of a node taint a device, or all devices of the node.

    Without a taint the device is overheated: DRIVER/overheated:NoSchedule.

    \b
    Examples:
      weir device degrade node-1/gpu-0
      weir device degrade node-1/gpu-0 gpu.example.com/error-budget-in-hours=24:NoSchedule --every 1h
      weir device degrade node-1 gpu.example.com/power=low:NoExecute --for 10m
    """
    entry: Document = {"taint": taint}
    if lasts:
        entry["forSeconds"] = read_seconds(lasts, "--for")
    if every:
        entry |= {"everySeconds": read_seconds(every, "--every"), "step": step}
    if rate is not None:
        entry["evictionsPerSecond"] = rate
    if description:
        entry["description"] = description
    if data:
        entry["data"] = _object(data)
    return _change(where, entry, live)


@click.command(short_help="Simulated: pull a device out.")
@click.argument("where", metavar="NODE/DEVICE")
@live_options
def unplug(where: str, live: Live) -> int:
    """Pull a device out of a simulated node; `repair` puts it back."""
    if "/" not in where:
        raise click.UsageError(f"{where!r}: which device? write NODE/DEVICE")
    return _change(where, {"unplugged": True}, live)


@click.command(name="break", short_help="Simulated: let a driver publish nonsense.")
@click.argument("node")
@click.option(
    "--how",
    type=click.Choice(["wrong-count", "duplicate-devices"]),
    default="wrong-count",
    show_default=True,
    help="An incomplete pool, or an invalid one.",
)
@live_options
def break_pool(node: str, how: str, live: Live) -> int:
    """Let the simulated driver of a node publish nonsense, to see what becomes of it."""
    if "/" in node:
        raise click.UsageError(f"{node!r}: a pool is broken as a whole: write NODE")
    return _change(node, {"broken": how}, live)


@click.command(short_help="Simulated: make devices well again.")
@click.argument("where", metavar="NODE[/DEVICE]")
@click.argument("key", metavar="[KEY]", default="")
@live_options
def repair(where: str, key: str, live: Live) -> int:
    """Make the devices of a simulated node well again, or take back one taint of its driver.

    \b
    Examples:
      weir device repair node-1
      weir device repair node-1/gpu-0 gpu.example.com/overheated
    """
    return _change(where, {"repaired": key}, live)


@click.command(short_help="Simulated: restart a driver.")
@click.argument("node")
@live_options
def republish(node: str, live: Live) -> int:
    """Restart the simulated driver of a node: its slices go and come again."""

    async def act(client: Client) -> None:
        await _simulated(client, node)
        slices = RESOURCE_SLICES
        published = await client.list(
            slices, label_selector=f"{SIMULATED_DEVICES}=true", field_selector=f"spec.nodeName={node}"
        )
        for document in published.documents():
            await client.delete(slices, document["metadata"]["name"], uid=document["metadata"]["uid"])
        say(f"node {node}: {counted(len(published.items), 'slice')} taken away, its driver publishes again")

    live.run(_AGENT, act)
    return FINE


# ── doing it ─────────────────────────────────────────────────────────────────────────────────────


def _change(where: str, entry: Document, live: Live) -> int:
    """Let *entry* begin now for a device, or for all of a node."""
    node_name, slash, device = where.partition("/")
    if not node_name or (slash and not device) or "/" in device:
        raise click.UsageError(f"{where!r}: write NODE or NODE/DEVICE")

    async def act(client: Client) -> None:
        for attempt in range(1, _TRIES + 1):
            try:
                await _write(client, node_name, device, entry)
                break
            except Conflict:  # the node reported meanwhile
                if attempt == _TRIES:
                    raise
        say(f"{where}: {_describe_fault(entry)}")

    live.run(_AGENT, act)
    return FINE


async def _write(client: Client, node_name: str, device: str, entry: Document) -> None:
    node = await _simulated(client, node_name)
    drivers = _devices(node)
    mine = [each for each in drivers if not device or device in _names(each, node_name)]
    if not mine:
        names = ", ".join(name for each in drivers for name in _names(each, node_name)) or "none"
        raise click.ClickException(f"node {node_name} has no device {device}: there are {names}")
    if entry.get("taint") == "":
        entry["taint"] = f"{mine[0].driver}/overheated:NoSchedule"
    _check(entry, mine[0])
    metadata = node["metadata"]
    changed = with_fault(metadata.get("annotations") or {}, device or POOL, entry, datetime.now(UTC))
    patch = {"metadata": {"annotations": changed, "resourceVersion": metadata["resourceVersion"]}}
    await client.patch(NODES, node_name, patch)


def _check(entry: Document, devices: Any) -> None:
    """Raise what is wrong with a fault before it is written."""
    sample = {**entry, "device": "pool"}
    try:
        tried = replace(devices, count=1, schedule=(sample,))
        tried.check()
        check_publishable(tried)
    except DevicesError as error:
        raise click.UsageError(str(error).removeprefix("schedule: ")) from None


def _describe_fault(entry: Document) -> str:
    if "taint" in entry:
        lasts = f" for {entry['forSeconds']:g} s" if "forSeconds" in entry else ""
        counts = f", {entry['step']:+d} every {entry['everySeconds']:g} s" if "everySeconds" in entry else ""
        return f"tainted {entry['taint']}{lasts}{counts}"
    if "repaired" in entry:
        return f"free of {entry['repaired']}" if entry["repaired"] else "well again"
    return "unplugged" if "unplugged" in entry else f"broken ({entry['broken']})"


async def _simulated(client: Client, name: str) -> Document:
    """Return a node that is simulated and has devices; anything else is a finding."""
    node = await client.get(NODES, name)
    if (node["metadata"].get("labels") or {}).get(SIMULATED) != "true":
        raise click.ClickException(f"node {name} is not simulated: its driver does what it does")
    if not _devices(node):
        raise click.ClickException(f"node {name} has no simulated devices (weir node add --class gpu)")
    return node


def _devices(node: Document) -> tuple[Any, ...]:
    text = (node["metadata"].get("annotations") or {}).get(DEVICES)
    return read_all(json.loads(text)) if text else ()


def _names(devices: Any, node: str) -> list[str]:
    return [device["name"] for device in devices.devices(node)]


def _object(text: str) -> Document:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: {error}", param_hint="--data") from None
    if not isinstance(value, dict):
        raise click.BadParameter(f"{text!r} is no JSON object", param_hint="--data")
    return value
