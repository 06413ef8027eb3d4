"""`weir check`: readiness of a cluster for weir's operator, and health of an installation."""

from __future__ import annotations

from collections.abc import Iterable

import click

from weir.cli._options import live_options, output_option
from weir.client.api import Client
from weir.clock import RealClock
from weir.exit_codes import CANNOT_SAY, FINDINGS, FINE
from weir.inputs.live import Live
from weir.install.checks import Check, Verdict, report
from weir.install.health import Health
from weir.install.readiness import Readiness
from weir.lowering.names import NAMESPACE
from weir.output import BAD, DIM, GOOD, NOTE, paint, say, to_json, wants_colour, write_document


@click.command(
    epilog="Exit codes: 0 all is well, 1 something is to be done, 2 wrong use, 3 cannot say (the cluster is out of "
    "reach, or rights are missing)."
)
@click.option(
    "-n", "--namespace", default=NAMESPACE, show_default=True, help="The namespace of the installation."
)
@live_options
@output_option("text", "json")
def check(namespace: str, live: Live, output: str) -> int:
    """Ask whether a cluster is ready for `weir install`, or whether what was installed works.

    Nothing is written, but for one count of the sentinel that the operator itself raises all day.

    \b
    weir check
    weir check --context production -o json
    """

    async def ask(client: Client) -> tuple[bool, list[Check]]:
        health = Health(client, RealClock(), namespace)
        installed = await health.installed()
        decided = await health.grace_seconds() if installed else None
        ready = await Readiness(client, namespace, decided).checks()
        return installed, [*ready, *(await health.checks() if installed else ())]

    installed, found = live.run("weir-check", ask)
    if output == "json":
        write_document(to_json(report(live.cluster_name(), installed, found)))
    else:
        show(found)
        if not installed:
            say("weir's operator is not installed: weir install --help")
    return verdict(found)


def verdict(found: Iterable[Check]) -> int:
    """Return the exit code that the checks come to."""
    verdicts = {each.verdict for each in found}
    if Verdict.TO_DO in verdicts:
        return FINDINGS
    return CANNOT_SAY if Verdict.UNKNOWN in verdicts else FINE


def show(found: Iterable[Check], *, err: bool = False) -> None:
    """Say each check in one line, and below it what to do."""
    marks = {
        Verdict.FINE: ("✓", GOOD),
        Verdict.NOTE: ("·", DIM),
        Verdict.TO_DO: ("✗", BAD),
        Verdict.UNKNOWN: ("?", NOTE),
    }
    colour = wants_colour()
    for each in found:
        mark, style = marks[each.verdict]
        says = f"{each.says}: {each.do}" if each.do else each.says
        say(f"{paint(mark, style, on=colour)} {each.name}: {says}", err=err)
