"""`weir what-if`: the effect of a change before it is made: evictions, their times, and where pods are rescheduled.

Reads a live cluster or a dump and changes neither: the change is simulated on a copy under virtual time. Exit 0 when
every evicted pod is rescheduled, 1 when one is not, is evicted in a loop, or a budget blocks, 2 for unreadable input,
3 for a cluster that is unreachable or may not be read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from weir.cli._certainty import asked_gates_option, because, distinct, doubt, known_gates, needed_kinds
from weir.cli._options import ClusterSource, Group, output_option, together
from weir.cli._what_if_changes import CHANGES, read_changes
from weir.cli._what_if_text import text
from weir.cli.inputs import CannotSay, ClusterObjects, asked_cluster, read_cluster, read_files, read_seconds
from weir.cli.main import CANNOT_SAY, FINDINGS, FINE
from weir.cli.render import BAD, GOOD, NOTE, emit, paint, progress, say, terminal_width, wants_colour
from weir.gates import Gates
from weir.observe.interpreter import collect_rarely

if TYPE_CHECKING:
    from weir.whatif.changes import Change
    from weir.whatif.forecast import Forecast
    from weir.whatif.horizon import Tick
    from weir.whatif.run import WhatIfOptions

Document = dict[str, Any]

_EPILOG: Final = (
    "Exit codes: 0 every evicted pod is rescheduled, 1 one is not (or a workload is evicted in a loop, a budget "
    "blocks, or something must be done first), 2 unreadable input, 3 cannot say (the cluster is out of reach, rights "
    "are missing, or gates that decide are not known)."
)
_answer_options: Final = together(
    output_option(
        "text", "json", "yaml", "plan", help="plan: JSON to be held against the cluster with `verify`."
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
        own = {parameter.name: given.pop(parameter.name) for parameter in reader.params if parameter.name}
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
    """Hold a plan (`-o plan`) against the cluster after the change was made.

    \b
    Example:
      weir what-if drain node-7 -o plan > plan.json
      kubectl drain node-7 --ignore-daemonsets
      weir what-if verify plan.json
    """
    from weir.whatif.plan import PlanError
    from weir.whatif.plan import check as check_plan
    from weir.whatif.plan import verify as hold

    ((name, content),) = read_files([plan])
    try:
        document = check_plan(msgspec.json.decode(content))
    except (msgspec.DecodeError, PlanError) as error:
        raise click.UsageError(f"{name}: {error}") from None
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


# ── asking ───────────────────────────────────────────────────────────────────────────────────────


def readable(held: ClusterObjects) -> ClusterObjects:
    """Return *held* unless what every answer needs could not be read."""
    if missing := held.lacks({"Node", "Pod"}):
        raise CannotSay(f"cannot say what would change: {because(missing)}")
    return held


@collect_rarely()
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

    def answer(gates: Gates) -> Forecast:
        return run_copy(held, asked_changes, WhatIfOptions(gates, now, horizon, seed, explain))

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
        document = machine(found, gates)
        for gates, other in others:
            document["otherwise"] = machine(other, gates)
        if output == "plan":
            from weir.whatif.plan import plan

            document = plan(document, found.uids, now)
        if places := places_unmeasured(found, unmeasured):
            document["uncertain"] = places
        emit(document, "json" if output == "plan" else output)
    forecast = answers[0][1]
    if len(answers) > 1 or forecast.ended_early:
        return CANNOT_SAY
    if not forecast.bad and places_unmeasured(forecast, unmeasured):
        return CANNOT_SAY
    return FINDINGS if forecast.bad else FINE


def unmeasured_nodes(held: ClusterObjects) -> frozenset[str]:
    """Return the nodes that do not say what they have, if any pod asks for something."""
    silent = frozenset(
        str((each.get("metadata") or {}).get("name"))
        for each in _flat(held)
        if each.get("kind") == "Node"
        and not ((each.get("status") or {}).get("allocatable") or (each.get("status") or {}).get("capacity"))
    )
    if not silent:
        return silent
    asks = any(b'"requests"' in bytes(pod) for pod in held.pods) or any(
        b'"requests"' in msgspec.json.encode(each) for each in _flat(held)
    )
    return silent if asks else frozenset()


def places_unmeasured(found: Forecast, unmeasured: Collection[str]) -> str:
    """Return the sentence on pods that are rescheduled only where it is not known how much room there is, or ""."""
    from weir.explain.phrases import counted, listed

    nodes = {one.ends_on for one in found.leaving} | {turn.node for turn in found.helped}
    nodes |= {end for each in found.workloads for _, end, _ in each.moves}
    if not (unknown := sorted(nodes & set(unmeasured))):
        return ""
    return (
        f"Not certain: it is not known how much room {counted(len(unknown), 'node')} that take pods "
        f"{'has' if len(unknown) == 1 else 'have'} (no allocatable in the dump): {listed(unknown, 3)}."
    )


def check_kinds(held: ClusterObjects, applied: Sequence[Document]) -> None:
    """Raise unless everything was read that decides where the pods of the cluster may run."""
    pods = (document for document in (*_flat(held), *_pod_shapes(held)) if document.get("kind") == "Pod")
    specs = [document.get("spec") for document in pods]
    needed = frozenset(kind for spec in specs for kind in needed_kinds(spec))
    named = {str(document.get("kind")) for document in applied} - {"Node"}
    missing = held.lacks(needed | {kind for kind in named if kind in {each.kind for each in held.missing}})
    if missing:
        raise CannotSay(f"cannot say where pods would go that need them: {because(missing)}")


def used_gates(held: ClusterObjects, applied: Sequence[Document]) -> frozenset[str]:
    """Return the gates that an answer depends on."""
    from weir.taints.features import needed_gates

    return frozenset(needed_gates([*_flat(held), *_pod_shapes(held), *applied]))


def _flat(held: ClusterObjects) -> Iterator[Document]:
    from weir.world import flatten

    return flatten(document for _, document in held.documents)


def _pod_shapes(held: ClusterObjects) -> Iterator[Document]:
    """Yield a pod for every distinct way in which pods that were left unread ask for kinds and gates."""
    for template in held.snapshot_pods.templates:
        yield {"kind": "Pod", "spec": msgspec.to_builtins(template.spec)}


def run_copy(
    held: ClusterObjects, asked_changes: Sequence[Change], asked: WhatIfOptions, tick: Tick | None = None
) -> Forecast:
    """Return what the changes come to in a copy; what cannot be done or read is an error with its place.

    *tick* receives how far it is, instead of the terminal.
    """
    from weir.objects.core import ViewError
    from weir.whatif.changes import ChangeError, SetGates
    from weir.whatif.snapshot import read_object
    from weir.world import flatten

    made = [
        replace(each, before=asked.gates) if isinstance(each, SetGates) else each for each in asked_changes
    ]
    with progress("running a copy with the change and without, seconds:") as shown:
        try:
            return held.loaded.what_if(made, asked, tick or shown)
        except ChangeError as error:
            raise click.UsageError(str(error)) from None
        except ViewError as error:
            for file, document in held.documents:
                try:
                    for each in flatten([document]):
                        read_object(each)
                except ViewError:
                    if held.dumped:
                        raise CannotSay(f"the cluster's dump cannot be read: {file}: {error}") from None
                    raise ViewError(f"{file}: {error}") from None
            if held.dumped:
                raise CannotSay(f"the cluster's dump cannot be read: {error}") from None
            raise


def not_considered(found: Forecast, unread: Sequence[str]) -> Iterator[str]:
    """Yield what the answer did not look at."""
    from weir.whatif.run import NOT_CONSIDERED

    if unread:
        yield f"{', '.join(unread)} (not read, and no pod here needs them)"
    yield from found.not_considered
    yield NOT_CONSIDERED
