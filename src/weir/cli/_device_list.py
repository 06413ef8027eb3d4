"""`weir device list`: devices of a cluster with their taints, origins and claims.

Writes nothing. Exit 0, 2 for unreadable input, 3 for an unreachable cluster.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from weir.cli._options import cluster_options, feature_gates_option, output_option
from weir.device_rules.document import SCHEMA, device_document, distinguishing_attributes
from weir.exit_codes import FINE
from weir.inputs.live import ClusterSource
from weir.output import BAD, DIM, NOTE, emit, paint, say, table, wants_colour

if TYPE_CHECKING:
    from weir.client.api import Client
    from weir.devices.inventory import HeldTaint, Inventory, Row
    from weir.gates import Gates


def read_inventory(where: ClusterSource, gates: Gates) -> Inventory:
    """Return what a dump, or a live cluster, says about devices; raises CannotSay when slices could not be read."""
    from weir.client.snapshot import DEVICES
    from weir.devices.inventory import Inventory
    from weir.inputs.certainty import because
    from weir.inputs.cluster import read_cluster
    from weir.inputs.files import CannotSay
    from weir.objects.core import ViewError

    held = read_cluster(where, (*DEVICES, "Pod"))
    missing = held.lacks({"ResourceSlice", "ResourceClaim", "DeviceTaintRule", "Pod"})
    if held.dumped and held.holds(DEVICES):
        missing = []  # slices may well be missing where claims are not
    if missing:
        raise CannotSay(f"{_UNKNOWN}: {because(missing)}")
    try:
        return Inventory.of((document for _, document in held.documents), gates)
    except ViewError as error:
        if held.dumped:
            raise CannotSay(f"the cluster's dump cannot be read: {error}") from None
        raise


async def fetch(client: Client) -> list[Any]:
    """Return every object of a cluster that concerns devices; raises CannotSay when some could not be read."""
    from weir.client.snapshot import DEVICES, NOT_SERVED, snapshot
    from weir.inputs.certainty import because
    from weir.inputs.files import CannotSay

    held = await snapshot(client, (*DEVICES, "Pod"))
    if missing := [each for each in held.missing if each.why != NOT_SERVED]:
        raise CannotSay(f"{_UNKNOWN}: {because(missing)}")
    return held.documents


_UNKNOWN = "cannot say which devices there are, and who has them"
_SHORT = 44
_COLUMNS = ("NODE", "DEVICE", "ATTRIBUTES", "CLAIM", "PODS", "TAINTS", "TOLERATED")
#: What a narrow terminal does without, in this order: the names of a device say where it is.
_DISPENSABLE = ("ATTRIBUTES", "CLAIM", "NODE")


@click.command(
    name="list",
    short_help="Show devices, taints, claims and pods.",
    epilog="Exit codes: 0 fine, 2 unreadable input, 3 cannot say (the cluster is out of reach, or rights are missing).",
)
@cluster_options("A file of `weir snapshot`, a dump of kubectl or manifests instead of a live cluster.")
@click.option("-n", "--namespace", default="", help="Only devices that claims of this namespace have.")
@click.option("--driver", default="", help="Only devices of this driver.")
@click.option("--node", default="", help="Only devices of this node.")
@click.option("--tainted", is_flag=True, help="Only devices with taints.")
@output_option(
    *("text", "wide", "json", "yaml", "name"),
    help="text fits the terminal; wide shows every column and attribute; name only which devices there are, for use "
    "as selectors.",
)
@feature_gates_option()
def list_devices(
    where: ClusterSource,
    namespace: str,
    driver: str,
    node: str,
    tainted: bool,
    output: str,
    gates: Gates,
) -> int:
    """Show every device with its taints, where they come from, and the claims and pods that have it.

    \b
    Examples:
      weir device list
      weir device list --tainted -o wide
      weir snapshot && weir device list -c snapshot.json.gz
    """
    inventory = read_inventory(where, gates)
    now = datetime.now(UTC)
    everything = inventory.rows(now)
    rows = [
        row
        for row in everything
        if (not namespace or any(one.claim.startswith(f"{namespace}/") for one in row.holders))
        and (not driver or row.id.driver == driver)
        and (not node or row.node == node)
        and (not tainted or row.taints)
    ]
    if output == "name":
        for row in rows:
            say(str(row.id))
        return FINE
    if output in ("json", "yaml"):
        emit(
            {
                "schema": SCHEMA,
                "devices": [device_document(row) for row in rows],
                "problems": inventory.problems,
            },
            output,
        )
        return FINE
    colour = wants_colour()
    shown = None if output == "wide" else distinguishing_attributes(everything)
    width = None if output == "wide" or not sys.stdout.isatty() else shutil.get_terminal_size().columns
    lines, left_out = text(rows, now, shown, colour=colour, width=width)
    for line in lines:
        say(line)
    if left_out:
        say(f"left out to fit {width} columns: {', '.join(left_out)} (-o wide shows all)", err=True)
    for problem in inventory.problems:
        say(paint(problem, BAD, on=colour), err=True)
    return FINE


# ── text ─────────────────────────────────────────────────────────────────────────────────────────


def text(
    rows: Sequence[Row],
    now: datetime,
    shown: set[str] | None = None,
    *,
    colour: bool = False,
    width: int | None = None,
) -> tuple[list[str], list[str]]:
    """Return the table and the columns that *width* has no room for.

    One line a device, and one more for each further taint; only attributes *shown*, or all.
    """
    if not rows:
        return ["No devices."], []
    lines = [list(_COLUMNS)]
    bad: list[bool] = [False]
    for row in rows:
        claims = ", ".join(holder.claim for holder in row.holders) or "-"
        pods = ", ".join(pod for holder in row.holders for pod in holder.pods) or "-"
        facts = ", ".join(_facts(row, shown)) or "-"
        if shown is not None and len(facts) > _SHORT:
            facts = f"{facts[: _SHORT - 1]}…"
        cells = [row.node or "-", str(row.id), facts, claims, pods]
        notes = [(taint_text(held, now), tolerated_text(held, now)) for held in row.taints]
        if row.pool_problem:
            notes.append((f"({row.pool_problem})", ""))
        for number, note in enumerate(notes or [("-", "-")]):
            lines.append([*(cells if not number else [""] * len(cells)), *note])
            bad.append(note[1].startswith("no"))
    if width is not None and not _fits(lines, width):
        return stacked(rows, now, width), ["ATTRIBUTES"]
    left_out: list[str] = []
    printed = table(lines, indent=0)
    for name in _DISPENSABLE if width is not None else ():
        if max(map(len, printed)) <= (width or 0):
            break
        left_out.append(name)
        kept = [column for column, title in enumerate(_COLUMNS) if title not in left_out]
        printed = table([[line[column] for column in kept] for line in lines], indent=0)
    return [
        paint(printed[0], DIM, on=colour),
        *(
            paint(line, BAD if worse else NOTE, on=colour and (worse or ":No" in line))
            for line, worse in zip(printed[1:], bad[1:], strict=True)
        ),
    ], left_out


def _fits(lines: Sequence[Sequence[str]], width: int) -> bool:
    """Return whether a table of *lines* fits once every column that can be missed is left out."""
    kept = [column for column, title in enumerate(_COLUMNS) if title not in _DISPENSABLE]
    return max(map(len, table([[line[column] for column in kept] for line in lines], indent=0))) <= width


def stacked(rows: Sequence[Row], now: datetime, width: int) -> list[str]:
    """Return the devices one below the other, for a terminal too narrow for a table; no word is broken."""
    lines: list[str] = []
    for row in rows:
        facts = [("node", row.node or "-")]
        facts += [("claim", f"{one.claim} ({', '.join(one.pods) or 'no pod'})") for one in row.holders]
        for held in row.taints:
            meaning = tolerated_text(held, now)
            tolerated = "" if meaning == "-" else f", tolerated: {meaning}"
            facts.append(("taint", f"{taint_text(held, now)}{tolerated}"))
        if row.pool_problem:
            facts.append(("problem", row.pool_problem))
        lines.append(str(row.id))
        for name, fact in facts:
            lines += textwrap.wrap(
                fact,
                width,
                initial_indent=f"  {name}: ",
                subsequent_indent="    ",
                break_long_words=False,
                break_on_hyphens=False,
            )
    return lines


def taint_text(held: HeldTaint, now: datetime) -> str:
    """Return a taint with its age and its origin."""
    from weir.apiserver.printers import human_duration
    from weir.devices.eviction import moment

    taint = held.tracked.taint
    added = moment(taint.time_added)
    age = f"{human_duration(max(0.0, (now - added).total_seconds()))}, " if added else ""
    return f"{taint} ({age}{_origin(held)})"


def tolerated_text(held: HeldTaint, now: datetime) -> str:
    """Return the effect of a taint on the device's claims."""
    from weir.apiserver.printers import human_duration

    if held.tolerated is None or held.tracked.taint.effect not in ("NoSchedule", "NoExecute"):
        return "-"
    if held.leave_at is not None:
        left = (held.leave_at - now).total_seconds()
        if held.tolerated:
            return f"for {human_duration(left)} more" if left > 0 else "no longer, pods leave now"
        return "no, pods leave now"
    return "yes" if held.tolerated else "no, kept until it is free"


def _origin(held: HeldTaint) -> str:
    from weir.devices.origin import RuleOrigin

    origin = held.tracked.origin
    return f"rule {origin.name}" if isinstance(origin, RuleOrigin) else f"driver, slice {origin.slice}"


def _facts(row: Row, shown: set[str] | None) -> Iterator[str]:
    for name, value in (row.device.attributes or {}).items() if row.device else ():
        if shown is None or name in shown:
            yield f"{name}={next(iter(value.values()), '')}"
    for name, value in (row.device.capacity or {}).items() if row.device else ():
        yield f"{name}={value.get('value', '')}"
