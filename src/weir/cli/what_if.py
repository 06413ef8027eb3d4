"""`weir what-if`: the effect of a change before it is made: evictions, their times, and where pods are rescheduled.

Reads a live cluster or a dump and changes neither: the change is simulated on a copy under virtual time. Exit 0 when
every evicted pod is rescheduled, 1 when one is not, is evicted in a loop, or a budget blocks, 2 for unreadable input,
3 for a cluster that is unreachable or may not be read.
"""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from weir.cli._options import Group, asked_cluster, asked_gates_option, output_option, read_seconds, together
from weir.cli._what_if_changes import CHANGES, read_changes
from weir.cli._what_if_text import text
from weir.exit_codes import CANNOT_SAY, FINDINGS, FINE
from weir.gates import Gates
from weir.inputs.certainty import distinct, doubt, known_gates
from weir.inputs.cluster import ClusterObjects, read_cluster
from weir.inputs.files import read_documents
from weir.inputs.forecasts import (
    check_kinds,
    flat,
    not_considered,
    objects_but_pods,
    places_unmeasured,
    readable,
    run_copy,
    unmeasured_nodes,
    used_gates,
)
from weir.inputs.live import ClusterSource
from weir.observe.interpreter import collect_rarely
from weir.output import BAD, GOOD, NOTE, emit, paint, say, terminal_width, wants_colour

if TYPE_CHECKING:
    from weir.plan.document import BudgetState, Made, Plan
    from weir.whatif.changes import Change
    from weir.whatif.changes.change import ChangedCluster
    from weir.whatif.forecast import Forecast

Document = dict[str, Any]

_EPILOG: Final = (
    "Exit codes: 0 every evicted pod is rescheduled, 1 one is not (or a workload is evicted in a loop, a budget "
    "blocks, or something must be done first), 2 unreadable input, 3 cannot say (the cluster is out of reach, rights "
    "are missing, or gates that decide are not known)."
)
_answer_options: Final = together(
    output_option(
        "text",
        "json",
        "yaml",
        "plan",
        help="plan: a plan of one wave, to be held against the cluster with `verify`.",
    ),
    click.option("--all", "show_all", is_flag=True, help="Show every pod, not only workloads."),
    click.option(
        "--until", default="1h", show_default=True, metavar="TIME", help="How far to look: 90s, 10m, 2h."
    ),
    click.option(
        "--seed", type=int, default=0, show_default=True, help="Another one breaks ties differently."
    ),
    click.option("--baseline", is_flag=True, help="Also show what happens without the change."),
    click.option("--explain", default="", metavar="POD", help="Tell what happens to this pod, step by step."),
    asked_gates_option(),
)


@click.group(cls=Group)
def what_if() -> None:
    """Say what a change to the cluster would do before making it. Nothing is written."""


def _offer(name: str) -> None:
    """Make a command of a change: its own words, and those of every question."""
    reader = CHANGES[name]

    @what_if.command(name, help=reader.help, epilog=_EPILOG)
    @asked_cluster
    @_answer_options
    def command(where: ClusterSource, **given: Any) -> int:
        own = {
            parameter.name: given.pop(parameter.name)
            for parameter in reader.params
            if parameter.name in given
        }
        assert reader.callback is not None
        return _ask([reader.callback(**own)], where, **given)

    command.params[:0] = reader.params


for _name in CHANGES:
    if _name != "wait":
        _offer(_name)


@what_if.command("changes", epilog=_EPILOG)
@click.argument("file", metavar="FILE|-")
@asked_cluster
@_answer_options
def changes(file: str, where: ClusterSource, **given: Any) -> int:
    """Make several changes, one on each line of a file: the same words as here, and `wait 5m` between them.

    \b
    Example:
      printf 'cordon spot-1\\nwait 1m\\ndrain spot-1\\n' | weir what-if changes - --cluster snapshot.yaml
    """
    return _ask(read_changes(file), where, **given)


@what_if.command(epilog="Exit codes: 0 as foreseen, 1 not, 2 unreadable input, 3 cluster unreachable.")
@click.argument("plan", metavar="PLAN")
@asked_cluster
@output_option("text", "json", "yaml")
def verify(plan: str, where: ClusterSource, output: str) -> int:
    """Hold a plan (`-o plan`, or of `weir plan`) against the cluster after it was carried out.

    \b
    Example:
      weir what-if drain node-7 -o plan > plan.yaml
      kubectl drain node-7 --ignore-daemonsets
      weir what-if verify plan.yaml
    """
    from weir.plan.verify import verify as hold

    document = read_plan(plan)
    held = readable(read_cluster(where, ("Node", "Pod", "ReplicaSet")))
    checks = hold(document, (each for _, each in held.documents))
    wrong = [each for each in checks if not each.held]
    if output == "text":
        for each in wrong:
            say(f"{each.about}: foreseen: {each.foreseen}; found: {each.found}")
        colored = f"{len(checks) - len(wrong)} of {len(checks)} things are as foreseen."
        say(paint(colored, BAD if wrong else GOOD, bold=True, on=wants_colour()))
    else:
        found = [
            {"about": each.about, "foreseen": each.foreseen, "found": each.found, "held": each.held}
            for each in checks
        ]
        emit({"schema": "weir.what-if-verify/v1", "held": not wrong, "checks": found}, output)
    return FINDINGS if wrong else FINE


def read_plan(name: str) -> Plan:
    """Return the plan of a file; raises UsageError with the place of what is wrong."""
    from weir.plan.document import PlanError, read

    documents = read_documents([name])
    try:
        return read(documents[0].value if len(documents) == 1 else None)
    except PlanError as error:
        raise click.UsageError(f"{documents[0].file if documents else name}: {error}") from None


# ── asking ───────────────────────────────────────────────────────────────────────────────────────


@collect_rarely(then=False)
def _ask(
    asked_changes: Sequence[Change],
    where: ClusterSource,
    output: str,
    show_all: bool,
    until: str,
    seed: int,
    explain: str,
    baseline: bool,
    given: Mapping[str, bool],
) -> int:
    from weir.client.cluster_gates import API_SERVER, CONTROLLERS, SCHEDULER
    from weir.client.snapshot import WHAT_IF
    from weir.plan.document import write as write_plan
    from weir.plan.waves import budgets_at_the_end, one_wave
    from weir.whatif.report import report
    from weir.whatif.run import WhatIfOptions

    horizon = read_seconds(until, "--until")
    held = readable(read_cluster(where, WHAT_IF, stream=True, keep_gate=False))
    applied = [document for change in asked_changes for document in getattr(change, "documents", ())]
    check_kinds(held, applied)
    known = known_gates(where, given, (API_SERVER, SCHEDULER, CONTROLLERS), record=held.record)
    used = used_gates(held, applied)
    now = datetime.now(UTC)
    unread = [each.plural for each in held.missing]
    unmeasured = unmeasured_nodes(held)

    budgets: dict[Gates, tuple[BudgetState, ...]] = {}

    def answer(gates: Gates) -> Forecast:
        def keep_budgets(copy: ChangedCluster) -> None:
            budgets[gates] = budgets_at_the_end(copy)

        return run_copy(
            held,
            asked_changes,
            WhatIfOptions(gates, now, horizon, seed, explain),
            at_the_end=keep_budgets,
        )

    def machine(found: Forecast, gates: Gates) -> Document:
        return report(found, gates, known.report(), list(not_considered(found, unread)))

    def same(one: Forecast, other: Forecast) -> bool:
        return machine(one, Gates()) == machine(other, Gates())

    answers = distinct(known, used, answer, same)
    if output == "text":
        colour, width = wants_colour(), terminal_width()
        for gates, found in answers:
            if len(answers) > 1:
                say(paint(doubt(known, used, gates), NOTE, bold=True, on=colour))
            unseen = list(not_considered(found, unread))
            if places := places_unmeasured(found, unmeasured):
                say(paint(places, NOTE, bold=True, on=colour))
                say("")
            for line in text(found, known.line(), unseen, show_all=show_all, colour=colour, width=width):
                say(line)
            if baseline and found.baseline is not None:
                say("")
                shown = replace(found.baseline, said=("change nothing",))
                for line in text(shown, known.line(), unseen, show_all=show_all, colour=colour, width=width):
                    say(line)
    else:
        (gates, found), *others = answers
        places = places_unmeasured(found, unmeasured)
        if output == "plan":
            doubts = [doubt(known, used, other) for other, _ in others]
            emit(
                write_plan(
                    one_wave(
                        asked_changes,
                        found,
                        objects_but_pods(held),
                        made_now(where, held, now, seed, gates),
                        [*doubts, *filter(None, [places]), *not_considered(found, unread)],
                        budgets.get(gates, ()),
                    )
                ),
                "yaml",
            )
        else:
            document = machine(found, gates)
            for gates, other in others:
                document["otherwise"] = machine(other, gates)
            if places:
                document["uncertain"] = places
            emit(document, output)
    forecast = answers[0][1]
    if len(answers) > 1 or forecast.ended_early:
        return CANNOT_SAY
    if not forecast.bad and places_unmeasured(forecast, unmeasured):
        return CANNOT_SAY
    return FINDINGS if forecast.bad else FINE


def made_now(where: ClusterSource, held: ClusterObjects, now: datetime, seed: int, gates: Gates) -> Made:
    """Return when and from what the plan of this command is made."""
    from weir.objects.times import format_time
    from weir.plan.document import Made

    objects = Counter(str(each.get("kind")) for each in flat(held))
    return Made(
        at=format_time(now),
        command=shlex.join(["weir", *sys.argv[1:]]),
        cluster=", ".join(where.dump) or where.live.cluster_name(),
        nodes=objects["Node"],
        pods=objects["Pod"] + len(held.pods),
        seed=seed,
        feature_gates=str(gates),
    )
