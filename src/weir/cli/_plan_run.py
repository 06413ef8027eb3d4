"""`weir plan run`: carries a plan out, wave by wave, with a comparison before and after each.

Before a wave the cluster is read and the wave forecast anew: what would do more harm than the plan foresees stops it.
After the changes the state that the plan waits for is waited for. Ctrl-C stops after the wave, a second one at once.
"""

from __future__ import annotations

import itertools
import shlex
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from weir.cli._confirm import agreed, check_askable, yes_option
from weir.cli._device_drain import terminal_bar
from weir.cli._options import live_options, read_seconds
from weir.cli._what_if_changes import read_line
from weir.cli.what_if import read_plan
from weir.exit_codes import FINDINGS, FINE, INTERRUPTED
from weir.explain.phrases import counted
from weir.inputs.cluster import read_cluster
from weir.inputs.forecasts import readable
from weir.inputs.live import ClusterSource, Live
from weir.output import progress, say, terminal_width, to_yaml, wants_colour

if TYPE_CHECKING:
    from weir.client.api import Client
    from weir.clock import Clock
    from weir.plan.document import Plan, Wave
    from weir.plan.journal import Journal
    from weir.plan.state import ClusterState
    from weir.plan.verify import Check
    from weir.whatif.changes import Change

_SHOWN: Final = 10


@click.command(
    "run",
    epilog="Exit codes: 0 carried out, 1 stopped (what differed is said), 2 unreadable input, 3 cluster unreachable, "
    "130 interrupted.",
)
@click.argument("file", metavar="PLAN")
@live_options
@click.option("--resume", is_flag=True, help="Go on behind the last wave that the journal says was reached.")
@click.option("--undo", is_flag=True, help="Take back the waves that were made, the last one first.")
@click.option(
    "--timeout",
    default="",
    metavar="10m",
    help="Give up a wave after this time.  [default: twice the foreseen time and 10m]",
)
@click.option(
    "--journal",
    "journal_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="What was done when.  [default: PLAN.journal]",
)
@yes_option
def run(
    file: str, live: Live, resume: bool, undo: bool, timeout: str, journal_file: Path | None, yes: bool
) -> int:
    """Carry a plan out on the live cluster, wave by wave.

    Before each wave it is forecast anew on the cluster as it is, after it the foreseen state is waited for; a
    difference stops the plan. Ctrl-C stops after the wave. Everything done stands in the journal beside the plan.

    \b
    Examples:
      weir plan taint -l pool=spot sla=650:NoExecute -o yaml > plan.yaml
      weir plan run plan.yaml
      weir plan run plan.yaml --resume --yes
      weir plan run plan.yaml --undo
    """
    from weir.clock import RealClock
    from weir.plan.document import PlanError
    from weir.plan.journal import Journal

    if resume and undo:
        raise click.UsageError("--resume or --undo: one of them")
    plan = read_plan(file)
    if journal_file is None and file == "-":
        raise click.UsageError(
            "a plan from standard input has no place for its journal: name one with --journal"
        )
    path = journal_file or Path(f"{file}.journal")
    changes = {
        wave.number: _changes(wave.changes, wave.manifests, f"{file}: waves[{at}].changes")
        for at, wave in enumerate(plan.waves)
    }
    check_askable(yes)
    try:
        journal = Journal.open(path, plan, live.cluster_name())
    except PlanError as error:
        raise click.UsageError(str(error)) from None
    limit = read_seconds(timeout, "--timeout") if timeout else None
    work = Run(
        file,
        plan,
        live,
        journal,
        RealClock(),
        limit,
        shlex.join(["weir", "plan", "run", file, *live.words()]),
    )
    begun = journal.to_undo()
    if undo:
        return work.undo(begun, yes)
    if begun and not resume:
        raise click.UsageError(
            f"{path}: wave {max(begun)} of this plan was made already: --resume goes on, --undo takes it back"
        )
    left = [wave for wave in plan.waves if wave.number not in journal.reached()]
    if not left:
        say("every wave of this plan was made", err=True)
        return FINE
    evicted, nodes = (
        sum(len(wave.evictions) for wave in left),
        len({name for wave in left for name in wave.nodes}),
    )
    what = (
        f"make {counted(len(left), 'wave')} on {counted(nodes, 'node')}, evicting {counted(evicted, 'pod')},"
    )
    if not agreed(what, live, yes):
        say("nothing was changed", err=True)
        return FINDINGS
    return work.carry_out(left, changes)


@dataclass
class Run:
    """A plan that is carried out, and what it works with."""

    file: str
    plan: Plan
    live: Live
    journal: Journal
    clock: Clock
    limit_seconds: float | None
    command: str  #: without its options
    stopping: bool = field(default=False, init=False)
    comparing: bool = field(default=False, init=False)  #: nothing of the wave is made yet

    def carry_out(self, waves: Sequence[Wave], changes: Mapping[int, Sequence[Change]]) -> int:
        """Make *waves*, one after the other."""
        with self._interrupts():
            for place, wave in enumerate(waves):
                try:
                    answer = self._wave(wave, changes[wave.number])
                except KeyboardInterrupt:
                    return self._stopped(wave, "interrupted", INTERRUPTED)
                except Exception as error:  # the cluster is out of reach, or refuses what the wave changes
                    self._stopped(wave, str(error), FINDINGS)
                    raise
                if answer == INTERRUPTED:
                    return self._stopped(wave, "interrupted", INTERRUPTED)
                if answer != FINE:
                    left = waves[place:]
                    break
                if self.stopping and wave is not waves[-1]:
                    say(f"stopped after wave {wave.number}. Go on: {self.command} --resume", err=True)
                    return INTERRUPTED
            else:
                made = counted(len(self.plan.waves), "wave")
                say(f"carried out: {made}. What was done when: {self.journal.path}", err=True)
                return FINE
        self._offer_new_plan([change for wave in left for change in changes[wave.number]])
        return answer

    def _offer_new_plan(self, changes: Sequence[Change]) -> None:
        """Search for a plan of *changes*, which are left, from the cluster as it is, and write it beside this one."""
        from weir.cli._plan_text import none_text, waves_text
        from weir.objects.times import format_time
        from weir.plan.document import write
        from weir.plan.relax import find
        from weir.plan.search import NoPlan, plan_of
        from weir.plan.task import remaining

        made, goals = self.plan.made, self.plan.goals
        if goals is None:  # made by `weir what-if`, which searches for nothing
            say(f"make a new plan: {made.command}", err=True)
            return
        state = self._state()
        try:
            change, task = remaining(changes, state.objects)
        except ValueError as error:
            say(f"no new plan for what is left, {error}: make one: {made.command}", err=True)
            return
        with progress("a new plan for what is left:") as shown:
            search, outcome = find([change], state, goals, lambda what, *done: shown(*done, what), task)
        colour, width = wants_colour(), terminal_width()
        if isinstance(outcome, NoPlan):
            for line in none_text(outcome, "", colour=colour, width=width):
                say(line, err=True)
            return
        again = msgspec.structs.replace(
            made,
            at=format_time(self.clock.now()),
            command=self.command,
            cluster=self.live.cluster_name(),
            nodes=len(state.node_names),
            pods=len(state.pods),
        )
        plan = plan_of(outcome, search, goals, again)
        path = _next_file(self.journal.path if self.file == "-" else Path(self.file))
        path.write_text(f"{to_yaml(write(plan))}\n")
        say(f"a new plan for what is left: {path}", err=True)
        for line in waves_text(plan, show_all=False, colour=colour, width=width):
            say(line, err=True)
        say(f"carry it out: {shlex.join(['weir', 'plan', 'run', str(path), *self.live.words()])}", err=True)

    def _wave(self, wave: Wave, changes: Sequence[Change]) -> int:
        from weir.plan.carry_out import carry_out

        self.comparing = True
        differences = self._compare(wave, changes)
        self.comparing = False
        if self.stopping:
            return INTERRUPTED
        if differences:
            say(f"wave {wave.number} was not made; the cluster is not as foreseen:", err=True)
            _say_checks(differences)
            if self.journal.to_undo():
                say(f"take back what was made: {self.command} --undo", err=True)
            return FINDINGS
        title = f"wave {wave.number} of {len(self.plan.waves)}: {'; '.join(wave.changes)}"
        say(title, err=True)
        limit = self.limit_seconds or wave.limit_seconds
        show = terminal_bar()

        def made(notes: list[str]) -> None:
            for note in notes:
                say(note, err=True)
            self.journal.note(self.clock.now(), wave.number, "made", "; ".join(wave.changes))

        def tick(done: int, total: int) -> None:
            show(f"wave {wave.number}: {done} of {total} as foreseen", done, total)

        async def act(client: Client) -> list[Check]:
            return await carry_out(client, self.clock, wave, changes, limit, made, tick)

        self.journal.note(self.clock.now(), wave.number, "begun", "; ".join(wave.changes))
        missing = self.live.run(_AGENT, act)
        show("", 0, 0)
        if missing:
            say(f"after {limit:g} s wave {wave.number} is not as foreseen:", err=True)
            _say_checks(missing)
            return self._stopped(wave, "not as foreseen: " + "; ".join(map(_check_words, missing)), FINDINGS)
        self.journal.note(self.clock.now(), wave.number, "reached")
        return FINE

    def _compare(self, wave: Wave, changes: Sequence[Change]) -> list[Check]:
        """Return what the wave would do to the cluster as it is, beyond what the plan foresees."""
        from weir.plan.verify import differences

        state = self._state()
        with progress(f"comparing wave {wave.number} with the cluster:") as tick:
            return differences(self.plan, wave, changes, state, tick)

    def _state(self) -> ClusterState:
        """Return the state of the live cluster."""
        from weir.client.snapshot import WHAT_IF
        from weir.gates import Gates
        from weir.plan.state import ClusterState
        from weir.whatif.run import HOUR, WhatIfOptions

        held = readable(read_cluster(ClusterSource((), self.live), WHAT_IF, stream=True, keep_gate=False))
        until = self.plan.goals.within_seconds if self.plan.goals else None
        options = WhatIfOptions(
            Gates.parse(self.plan.made.feature_gates), self.clock.now(), until or HOUR, self.plan.made.seed
        )
        return ClusterState.of(*held.sources(), options)

    def undo(self, waves: Sequence[int], yes: bool) -> int:
        """Take *waves* back, in this order."""
        from weir.plan.carry_out import take_back

        if not waves:
            say("no wave of this plan was made: nothing to take back", err=True)
            return FINE
        by_number = {wave.number: wave for wave in self.plan.waves}
        if not agreed(f"take back {counted(len(waves), 'wave')}", self.live, yes):
            say("nothing was changed", err=True)
            return FINDINGS
        for number in waves:
            wave = by_number[number]
            lines = _changes(wave.undo, wave.undo_manifests, f"{self.file}: waves[{number - 1}].undo")
            say(f"wave {number}: {'; '.join(wave.undo) or 'nothing can be taken back'}", err=True)
            self.live.run(_AGENT, partial(take_back, clock=self.clock, changes=lines))
            self.journal.note(self.clock.now(), number, "undone", "; ".join(wave.undo))
        say("taken back; pods stay where they were moved to", err=True)
        return FINE

    def _stopped(self, wave: Wave, why: str, code: int) -> int:
        begun = self.journal.to_undo()
        if wave.number in begun:
            self.journal.note(self.clock.now(), wave.number, "stopped", why)
            say(f"stopped in wave {wave.number}: what it changed stays", err=True)
        else:
            say(f"stopped before wave {wave.number}: nothing of it was made", err=True)
        if begun:
            say(f"go on: {self.command} --resume; take back: {self.command} --undo", err=True)
        return code

    @contextmanager
    def _interrupts(self) -> Iterator[None]:
        """Let the first Ctrl-C stop after the wave, the second one at once."""

        def interrupted(*_: Any) -> None:
            if self.stopping:
                raise KeyboardInterrupt
            self.stopping = True
            when = "before" if self.comparing else "after"
            say(f"\nstopping {when} this wave (Ctrl-C again: at once)", err=True)

        before = signal.signal(signal.SIGINT, interrupted)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


_AGENT: Final = "weir-plan"


def _changes(lines: Sequence[str], manifests: Sequence[dict[str, Any]], place: str) -> list[Change]:
    """Return what *lines* of a plan say; raises UsageError with the place of what cannot be carried out."""
    from weir.plan.live import Delete, check_makeable
    from weir.whatif.changes import Apply, ChangeError

    changes: list[Change] = []
    for number, line in enumerate(lines):
        where = f"{place}[{number}]"
        words = shlex.split(line)
        if words[:1] == ["apply"]:
            changes.append(Apply(tuple(manifests)))
        elif words[:1] == ["delete"] and len(words) in (2, 4) and "/" in words[1]:
            kind, _, name = words[1].partition("/")
            changes.append(Delete(kind, name, *words[3:]))
        else:
            changes.append(read_line(line, where))
        try:
            check_makeable(changes[-1])
        except ChangeError as error:
            raise click.UsageError(f"{where}: {error}") from None
    return changes


def _say_checks(checks: Sequence[Check]) -> None:
    for each in checks[:_SHOWN]:
        say(f"  {_check_words(each)}", err=True)
    if len(checks) > _SHOWN:
        say(f"  and {len(checks) - _SHOWN} more", err=True)


def _check_words(check: Check) -> str:
    return f"{check.about}: foreseen: {check.foreseen}; found: {check.found}"


def _next_file(path: Path) -> Path:
    """Return where the plan after the one in *path* is written: plan-2.yaml behind plan.yaml."""
    stem, _, number = path.stem.rpartition("-")
    if not stem or not number.isdecimal():
        stem, number = path.stem, "1"
    numbers = itertools.count(int(number) + 1)
    names = (path.with_name(f"{stem}-{each}.yaml") for each in numbers)
    return next(each for each in names if not each.exists())
