"""`weir plan`: the safe way to a change: waves that keep goals, found by forecasts. Nothing is written.

Exit 0 with a plan, 1 when there is none, 2 for unreadable input, 3 for a cluster that is out of reach or not readable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from weir.cli._options import Group, asked_cluster, asked_gates_option, output_option, together
from weir.cli._plan_run import run
from weir.cli._what_if_changes import CHANGES
from weir.cli.what_if import made_now
from weir.exit_codes import FINDINGS, FINE
from weir.inputs.certainty import known_gates
from weir.inputs.cluster import read_cluster
from weir.inputs.forecasts import check_plannable, objects_but_pods, readable
from weir.inputs.live import ClusterSource
from weir.observe.interpreter import collect_rarely
from weir.output import emit, progress, say, terminal_width, to_yaml, wants_colour, write_document

if TYPE_CHECKING:
    from weir.gates import Gates
    from weir.plan.document import Goals
    from weir.whatif.changes import Change

Document = dict[str, Any]
#: Makes the changes that are planned from what the cluster holds and the gates it has.
Ask = Callable[[list[Document], "Gates"], "Sequence[Change]"]

_EPILOG: Final = (
    "Exit codes: 0 there is a plan, 1 there is none, or none was found, 2 unreadable input, 3 cannot say (the cluster "
    "is out of reach, rights are missing, or gates that decide are not known)."
)
_goal_options: Final = together(
    click.option(
        "--max-pending",
        default="0s",
        show_default=True,
        metavar="TIME",
        help="No pod waits longer for a node.",
    ),
    click.option(
        "--max-unavailable",
        default="25%",
        show_default=True,
        metavar="N|N%",
        help="At most so many pods of a workload are unavailable at once; a share is rounded up.",
    ),
    click.option(
        "--spare",
        default="6h",
        show_default=True,
        metavar="TIME",
        help="No job that has devices and has run longer is evicted.",
    ),
    click.option(
        "--within",
        default="2h",
        show_default=True,
        metavar="TIME",
        help="The whole plan is done in this time.",
    ),
    click.option(
        "--ignore-budgets",
        is_flag=True,
        help="Taints may violate disruption budgets, which they do not ask; a drain cannot.",
    ),
    output_option("table", "yaml", "json", "script", "svg"),
    click.option("--all", "show_all", is_flag=True, help="Show every wave, node and workload."),
    click.option("--seed", type=int, default=0, show_default=True, help="Another one tries other orders."),
    asked_gates_option(),
)


@click.group(cls=Group)
def plan() -> None:
    """Find the safe way to a change: in which waves to make it, and what to wait for. Nothing is written."""


def _offer(name: str, help: str, *, force: bool = False) -> None:
    """Make a command of a change of `weir what-if`: its own words and the goals."""
    reader = CHANGES[name]

    @plan.command(name, help=help, epilog=_EPILOG)
    @asked_cluster
    @_goal_options
    def command(where: ClusterSource, **given: Any) -> int:
        lost = bool(given["force"])
        own = {one.name: given.pop(one.name) for one in reader.params if one.name in given}
        if "force" not in own:
            del given["force"]
        assert reader.callback is not None
        change: Change = reader.callback(**own)
        return _find(lambda objects, gates: [change], where, allow_lost=lost, **given)

    command.params[:0] = reader.params
    if not any(each.name == "force" for each in command.params):
        command.params.append(
            click.Option(["--force"], is_flag=True, help="Pods without a controller may be evicted, too.")
        )


_offer(
    "taint",
    """Taint nodes in waves, as `kubectl taint nodes --overwrite` would.

    Nodes that are still to come are cordoned first, so that no pod moves twice.

    \b
    Examples:
      weir plan taint -l pool=spot sla=650:NoExecute
      weir plan taint -l pool=spot sla=650:NoExecute --max-unavailable 1 -o yaml > plan.yaml
      weir plan taint spot-1 spot-2 sla=650:NoExecute --cluster snapshot.yaml -o script
    """,
)
_offer(
    "drain",
    """Drain nodes in waves, as `kubectl drain --ignore-daemonsets --delete-emptydir-data` would: budgets are asked.

    All nodes are cordoned first, so that no pod moves twice.

    \b
    Examples:
      weir plan drain -l pool=spot
      weir plan drain node-5 node-7 --max-unavailable 1 -o script > drain.sh
    """,
)
_offer(
    "apply",
    """Apply manifests in waves, in the order they have: as many together as the goals allow.

    \b
    Example:
      weir plan apply -f manifests/ --cluster snapshot.yaml
    """,
)


@plan.command("device-taint", epilog=_EPILOG)
@click.argument("words", nargs=-1, metavar="[SELECTOR] KEY[=VALUE]:EFFECT")
@click.option("--cel", multiple=True, metavar="EXPRESSION", help="A CEL selector; all must be true.")
@click.option("--all-devices", is_flag=True, help="Yes, every device of the cluster.")
@click.option("--rate", type=click.IntRange(min=1), help="Pods evicted a second (default: 10).")
@asked_cluster
@_goal_options
@click.option("--force", is_flag=True, help="Pods without a controller may be evicted, too.")
def device_taint(
    words: Sequence[str],
    cel: Sequence[str],
    all_devices: bool,
    rate: int | None,
    where: ClusterSource,
    force: bool,
    **given: Any,
) -> int:
    """Taint devices in waves, pool by pool, with a DeviceTaintRule for each pool.

    \b
    Examples:
      weir plan device-taint driver=gpu.example.com recall:NoExecute
      weir plan device-taint driver=gpu.example.com,pool=node-1 recall:NoExecute --cluster snapshot.yaml
    """
    from weir.cli._device_rules import read_selector, selector_and_taint
    from weir.device_rules.rule import by_pool, make_rule
    from weir.taints.notation import DEVICE_EFFECTS, parse_taint, taint_document
    from weir.whatif.changes import Apply

    text, taint_text = selector_and_taint(words, "KEY[=VALUE]:EFFECT")
    taint = taint_document(parse_taint(taint_text, DEVICE_EFFECTS))
    selector = read_selector(text, cel, all_devices)

    rule = make_rule(selector, taint, "", rate, "")

    def ask(objects: list[Document], gates: Gates) -> list[Change]:
        return [Apply(tuple(by_pool(rule, objects)))]

    return _find(ask, where, allow_lost=force, **given)


@plan.command("upgrade", epilog=_EPILOG)
@click.option(
    "--to",
    type=click.Choice(("1.34", "1.35", "1.37")),
    required=True,
    help="1.37: what Kubernetes has on there; an older one: components that never heard of the KEPs' fields.",
)
@click.option(
    "--gates", "settings", default="", metavar="A=true,B=true", help="What is switched on or off besides."
)
@asked_cluster
@_goal_options
@click.option("--force", is_flag=True, help="Pods without a controller may be evicted, too.")
def upgrade(to: str, settings: str, where: ClusterSource, force: bool, **given: Any) -> int:
    """Restart components with the gates of a release, one after the other, in the order that evicts no pod.

    Says what to rewrite first, where stored objects use what goes.

    \b
    Examples:
      weir plan upgrade --to 1.37 --gates TaintTolerationCEL=true --feature-gates TaintTolerationCEL=false
      weir plan upgrade --to 1.35 --cluster snapshot.yaml
    """
    from weir.gates import FEATURES, KNOWN, GateError, parse_settings
    from weir.plan.task import upgrade as restarts

    try:
        wanted = dict(parse_settings(settings))
    except GateError as error:
        raise click.UsageError(str(error)) from None

    def ask(objects: list[Document], gates: Gates) -> Sequence[Change]:
        if to != "1.37":
            return restarts(gates, wanted, to)
        defaults = {name: True for name in FEATURES if KNOWN[name].kubernetes_default}
        found = restarts(gates, {**defaults, **wanted})
        if not found:
            raise click.UsageError("no component changes: these gates are so already (--gates says others)")
        return found

    return _find(ask, where, allow_lost=force, **given)


plan.add_command(run)


@collect_rarely(then=False)
def _find(
    ask: Ask,
    where: ClusterSource,
    *,
    allow_lost: bool,
    output: str,
    show_all: bool,
    seed: int,
    given: Any,
    **goals: Any,
) -> int:
    """Find the plan that makes the changes which *ask* returns, and print it."""
    from weir.cli._plan_text import none_text, plan_text
    from weir.client.cluster_gates import API_SERVER, CONTROLLERS, SCHEDULER
    from weir.client.snapshot import WHAT_IF
    from weir.plan.document import write
    from weir.plan.picture import picture
    from weir.plan.relax import find
    from weir.plan.script import script
    from weir.plan.search import NoPlan, plan_of
    from weir.plan.state import ClusterState
    from weir.whatif.changes import ChangeError
    from weir.whatif.run import WhatIfOptions

    kept = _goals(allow_lost=allow_lost, **goals)
    held = readable(read_cluster(where, WHAT_IF, stream=True, keep_gate=False))
    known = known_gates(where, given, (API_SERVER, SCHEDULER, CONTROLLERS), record=held.record)
    objects = objects_but_pods(held)
    gates = known.possible(())[0]
    changes = ask(objects, gates)
    applied = [document for change in changes for document in getattr(change, "documents", ())]
    check_plannable(held, applied, known)
    now = datetime.now(UTC)
    state = ClusterState.of(*held.sources(), WhatIfOptions(gates, now, kept.within_seconds or 0.0, seed))
    with progress("") as shown:

        def tick(what: str, done: int, total: int) -> None:
            shown(done, total, what)

        try:
            search, outcome = find(changes, state, kept, tick)
        except ChangeError as error:
            raise click.UsageError(str(error)) from None
    colour, width = wants_colour(), terminal_width()
    if isinstance(outcome, NoPlan):
        if output in ("yaml", "json"):
            emit(outcome.document(), output)
        else:
            for line in none_text(outcome, known.line(), colour=colour, width=width):
                say(line, err=output != "table")
        return FINDINGS
    found = plan_of(outcome, search, kept, made_now(where, held, now, seed, gates))
    if output == "table":
        for line in plan_text(found, known.line(), show_all=show_all, colour=colour, width=width):
            say(line)
    elif output == "script":
        write_document(script(found, to_yaml))
    elif output == "svg":
        write_document(picture(found))
    else:
        emit(write(found), output)
    return FINE


def _goals(**given: Any) -> Goals:
    from weir.plan.goals import GoalError, read_goals

    try:
        return read_goals(**given)
    except GoalError as error:
        raise click.BadParameter(str(error), param_hint=error.goal) from None
