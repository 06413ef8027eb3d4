"""`weir device drain`: previews, confirms, evicts, and reports progress.

Spec: KEP-5055 "Safe Pod Eviction". A rule with effect None shows what the selector matches; after confirmation its
effect becomes NoExecute. Progress comes from the rule's status (EvictionInProgress), written at most every ten
seconds; then terminating pods are waited for, as by `kubectl drain`. Pods that tolerate the taint for ever are named.
Interrupted, the command leaves the rule and prints how to remove it.
"""

from __future__ import annotations

import enum
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from weir.cli._confirm import agreed, check_askable, yes_option
from weir.cli._device_rules import (
    Ask,
    description_option,
    rate_option,
    read_selector,
    rule_options,
    with_cluster,
)
from weir.cli._options import read_seconds
from weir.device_rules.rule import counted, make_rule, rule_effect
from weir.device_rules.write import condition, served_version, settle, write
from weir.exit_codes import FINDINGS, FINE, INTERRUPTED
from weir.inputs.live import ClusterSource
from weir.objects.kinds import PODS
from weir.output import redraw, say, to_yaml, write_document

if TYPE_CHECKING:
    from weir.client.api import Client
    from weir.clock import Clock
    from weir.devices.inventory import Inventory, Preview
    from weir.objects.kind import Kind

Document = dict[str, Any]

KEY: Final = "weir.dev/drain"
IN_PROGRESS: Final = "EvictionInProgress"
_ANSWER_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.5
#: A status this old says all there is to say: the cluster writes one at least this often while something happens.
_QUIET_SECONDS: Final = 15.0
#: After this time without a status, no controller will evict for the rule.
_SILENT_SECONDS: Final = 60.0
_BURST, _RATE = 10, 10
_WIDTH: Final = 30
_PENDING: Final = re.compile(r"(\d+) pods? needs? to be evicted")
_EVICTED: Final = re.compile(r"(\d+) pods? evicted since")


@click.command(short_help="Look, ask, then make pods leave devices.")
@click.argument("selector", default="")
@click.option("--key", default=KEY, show_default=True, metavar="KEY[=VALUE]", help="The taint.")
@rate_option
@yes_option
@click.option("--timeout", default="", metavar="10m", help="Stop waiting after this time (default: never).")
@description_option
@rule_options
def drain(
    selector: str,
    key: str,
    rate: int | None,
    yes: bool,
    timeout: str,
    description: str,
    where: ClusterSource,
    cel: Sequence[str],
    all_devices: bool,
    name: str,
    dry_run: bool,
) -> int:
    """Make every pod leave the devices SELECTOR names, and keep others from coming.

    Shows who would go and in how long, asks, then evicts; the taint stays until it is removed (untaint).

    \b
    Examples:
      weir device drain gpu.example.com/node-1/gpu-0
      weir device drain driver=gpu.example.com,pool=node-1 --rate 2 --yes
      weir device drain pool=node-1 --dry-run
    """
    from weir.clock import RealClock
    from weir.taints.notation import DEVICE_EFFECTS, parse_taint, taint_document

    wanted = read_selector(selector, cel, all_devices)
    rule = make_rule(
        wanted, taint_document(parse_taint(f"{key}:None", DEVICE_EFFECTS)), name, rate, description
    )
    limit = read_seconds(timeout, "--timeout") if timeout else None
    check_askable(yes or dry_run or bool(where.dump))
    back = shlex.join(
        ["weir", "device", "untaint", *([selector] if selector else []), *(f"--cel={e}" for e in cel)]
        + (["--all-devices"] if all_devices else [])
        + (["--name", name] if name else [])
        + [rule["spec"]["taint"]["key"]]
    )
    work = Drain(RealClock(), back, partial(agreed, live=where.live, yes=yes), terminal_bar(), limit)

    async def act(held: Inventory, client: Client | None) -> int:
        return await work.run(rule, held, None if dry_run else client)

    try:
        return with_cluster(where, act)
    except KeyboardInterrupt:
        work.interrupted()
        return INTERRUPTED


# ── how far is it? ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Progress:
    """What a rule's status says about its eviction."""

    left: int
    evicted: int
    over: bool

    @classmethod
    def of(cls, rule: Document) -> Progress | None:
        """Return how far the eviction is; None when the cluster has not said anything about this rule yet.

        >>> status = {"type": "EvictionInProgress", "status": "True", "reason": "PodsPendingEviction",
        ...     "message": "3 pods need to be evicted in 1 namespace. 2 pods evicted since starting the controller."}
        >>> Progress.of({"metadata": {}, "status": {"conditions": [status]}})
        Progress(left=3, evicted=2, over=False)
        """
        found = condition(rule, IN_PROGRESS)
        if found is None:
            return None
        message = found.get("message", "")
        left, evicted = _PENDING.search(message), _EVICTED.search(message)
        return cls(
            int(left[1]) if left else 0,
            int(evicted[1]) if evicted else 0,
            found["status"] != "True",
        )


Bar = Callable[[str, int, int], None]


def bar(done: int, total: int) -> str:
    """Return a bar that is as full as *done* is of *total*.

    >>> bar(1, 4)
    '[#######-----------------------]'
    """
    full = _WIDTH * min(done, total) // total if total else _WIDTH
    return f"[{'#' * full}{'-' * (_WIDTH - full)}]"


def terminal_bar() -> Bar:
    """Return what shows progress: on a terminal one line that changes, elsewhere a line for every change."""
    visible = sys.stderr.isatty()
    last = ""

    def show(text: str, done: int, total: int) -> None:
        nonlocal last
        if text == last:
            return
        if visible and text:
            redraw(f"{bar(done, total)} {text}")
        elif visible:
            say(err=True)
        elif text:
            say(text, err=True)
        last = text

    return show


# ── doing it ─────────────────────────────────────────────────────────────────────────────────────


class State(enum.Enum):
    """How far a drain has come, which decides what is true after Ctrl-C."""

    NOTHING = "nothing is written"
    WRITING = "a rule without effect is on its way"
    LOOKING = "a rule without effect is there"
    ARMING = "the effect NoExecute is on its way"
    EVICTING = "the cluster evicts"
    GONE = "it is over"


@dataclass
class Drain:
    """One drain: what it works with, and how far it has come."""

    clock: Clock
    back: str  #: the command that takes it back
    ask: Ask
    show: Bar
    limit_seconds: float | None = None
    state: State = State.NOTHING
    left: int = 0
    total: int = 0
    name: str = field(default="", init=False)

    async def run(self, rule: Document, held: Inventory, client: Client | None) -> int:
        """Drain; without a client only say what would happen."""
        from weir.objects.core import read
        from weir.objects.resource import DeviceTaintRule

        self.name = rule["metadata"]["name"]
        view = read(DeviceTaintRule, rule)
        now = self.clock.now()
        preview = held.preview(view, now)
        self.left = self.total = len(preview.pods)
        served = await served_version(client) if client is not None else None
        ignored: list[str] = []
        if client is not None and served is not None:
            rule, ignored = await settle(client, served, rule)
        write_document(to_yaml(rule))
        for line in (*rule_effect(rule, preview, now), *self._expected(rule, preview, now, ignored)):
            say(line, err=True)
        for pod in held.unaffected_pods(view, now):
            say(f"{pod} tolerates it and stays", err=True)
        if client is None or served is None or preview.selects_nothing:
            say("nothing was written", err=True)
            return FINDINGS if preview.selects_nothing else FINE
        before = await client.find(served, self.name)
        if before is not None and before["spec"]["taint"]["effect"] == "NoExecute":
            say(f"devicetaintrule.resource.k8s.io/{self.name} evicts already", err=True)
        elif (answer := await self._look_and_ask(client, served, rule, preview, before is None)) != FINE:
            return answer
        else:
            self.state = State.ARMING
            taint = {**rule["spec"]["taint"], "effect": "NoExecute"}
            armed = {**rule, "spec": {**rule["spec"], "taint": taint}}
            await write(client, served, armed)
            say(f"devicetaintrule.resource.k8s.io/{self.name} now has the effect NoExecute", err=True)
        self.state = State.EVICTING
        return await self._follow(client, served, {pod for pod, _ in preview.pods})

    def _expected(
        self, rule: Document, preview: Preview, now: datetime, ignored: Sequence[str]
    ) -> Sequence[str]:
        """Say how long it takes: the last one's time, and the rate."""
        from weir.apiserver.printers import human_duration

        if "--rate" in ignored:
            return (
                "this cluster does not bound evictions: --rate is left out, all who must go at once, go at once",
            )
        rate = rule["spec"]["taint"].get("evictionsPerSecond") or _RATE
        if len(preview.pods) < 2:
            return ()
        waits = [max(0.0, (at - now).total_seconds()) for _, at in preview.pods]
        queue = max(0.0, (len(waits) - _BURST) / rate)
        longest = max(max(waits), queue)
        return (f"all gone in about {human_duration(longest)} at {rate} a second",) if longest >= 1 else ()

    async def _look_and_ask(
        self, client: Client, served: Kind, rule: Document, preview: Preview, created: bool
    ) -> int:
        """Write the rule without effect, show what the cluster makes of it, and ask; FINE is a yes."""
        self.state = State.WRITING
        stored = await write(client, served, rule)
        self.state = State.LOOKING
        heard = await self._answer(client, served)
        if heard:
            say(f"the cluster says: {heard}", err=True)
        else:
            silent = f"no controller has looked at the rule within {_ANSWER_SECONDS:g} seconds"
            say(f"{silent}: is there one that would evict?", err=True)
        try:
            unused = counted(max(preview.published, preview.allocated), "unused")
            action = f"evict {counted(self.total, 'pod')}" if self.total else f"keep pods off {unused}"
            answer = FINE if self.ask(action) else FINDINGS
        except click.Abort:
            answer = INTERRUPTED
            say(err=True)
        if answer == FINE:
            return FINE
        if created:
            await client.delete(served, self.name, uid=stored["metadata"]["uid"])
            say("no pod was evicted; the rule is removed again", err=True)
        else:
            say(f"no pod was evicted; the rule {self.name} stays, without effect", err=True)
        self.state = State.NOTHING
        return answer

    async def _answer(self, client: Client, served: Kind) -> str:
        """Return what the cluster's controller says about the rule; "" when it has said nothing."""
        until = self.clock.monotonic() + _ANSWER_SECONDS
        while self.clock.monotonic() < until:
            rule = await client.find(served, self.name)
            progress = condition(rule, IN_PROGRESS) if rule is not None else None
            if progress is not None:
                text: str = progress.get("message") or progress.get("reason", "")
                return text.split(" This information")[0]
            await self.clock.sleep(_LOOK_SECONDS)
        return ""

    async def _follow(self, client: Client, served: Kind, pods: set[str]) -> int:
        """Show progress until no pod is left, the rule is gone or the time is up."""
        started = self.clock.monotonic()
        while not self._late(started):
            rule = await client.find(served, self.name)
            if rule is None or rule["spec"]["taint"]["effect"] != "NoExecute":
                self.state = State.GONE
                self.show("", 0, 0)
                say(f"the rule {self.name} was removed or changed meanwhile: stopped", err=True)
                return FINDINGS
            progress = Progress.of(rule)
            if progress is not None:
                self.total = max(self.total, progress.left + progress.evicted)
                self.left = progress.left
                self.show(
                    f"{progress.evicted} of {counted(self.total, 'pod')} evicted, {progress.left} to go",
                    self.total - progress.left,
                    self.total,
                )
                waited = self.clock.monotonic() - started
                if progress.over and (progress.evicted or not pods or waited > _QUIET_SECONDS):
                    return await self._ending(client, pods, started)
            elif self.clock.monotonic() - started > _SILENT_SECONDS:
                say(f"no controller says anything about the rule: {self._remaining()}", err=True)
                return FINDINGS
            await self.clock.sleep(_LOOK_SECONDS)
        return self._out_of_time()

    async def _ending(self, client: Client, pods: set[str], started: float) -> int:
        """Wait for terminating pods."""

        kind = PODS
        uids: dict[str, str] = {}
        while not self._late(started):
            ending = 0
            for pod in sorted(pods):
                namespace, _, name = pod.partition("/")
                current = await client.find(kind, name, namespace)
                if current is None or current["metadata"]["uid"] != uids.setdefault(
                    pod, current["metadata"]["uid"]
                ):
                    pods.discard(pod)
                elif current["metadata"].get("deletionTimestamp"):
                    ending += 1
            if not ending:
                self.show("", 0, 0)
                self.state = State.GONE
                say(f"drained; the taint stays: {self.back}", err=True)
                return FINE
            self.left = ending
            self.show(f"{counted(ending, 'pod')} still ending", self.total - ending, self.total)
            await self.clock.sleep(_LOOK_SECONDS)
        return self._out_of_time()

    def _late(self, started: float) -> bool:
        return self.limit_seconds is not None and self.clock.monotonic() - started > self.limit_seconds

    def _out_of_time(self) -> int:
        self.show("", 0, 0)
        say(f"time is up: {self._remaining()}", err=True)
        return FINDINGS

    def _remaining(self) -> str:
        return (
            f"{counted(self.left, 'pod')} of {self.total} not gone yet by the rule's last report (one every 10 s); the "
            f"rule {self.name} stays and the cluster goes on evicting. Stop it: {self.back}"
        )

    def interrupted(self) -> None:
        """Say what is left after Ctrl-C, and how to take it back."""
        match self.state:
            case State.NOTHING:
                left = "nothing was written"
            case State.WRITING:
                left = f"the rule {self.name} may have been written, without effect. Remove it: {self.back}"
            case State.LOOKING:
                left = f"the rule {self.name} stays, without effect. Remove it: {self.back}"
            case State.ARMING:
                left = f"the rule {self.name} stays and may evict already. Stop it: {self.back}"
            case State.EVICTING:
                left = self._remaining()
            case State.GONE:
                left = "the rule was removed, or everything has happened"
        say(err=True)
        say(f"interrupted: {left}", err=True)
