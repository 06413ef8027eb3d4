"""Plays stories in a live cluster, several at once, and always cleans up.

One client, one set of kubelets for all nodes, one thread per story. Features and permissions are checked first. Steps
wait a little longer until their outcomes hold, and times may be later by up to `late`; never earlier.

Order and concurrency of stories. The longest start first. A story that compares scheduler messages about all nodes runs
with few others, since a scheduler reports a limited number of reasons.
"""

from __future__ import annotations

import asyncio
import secrets
import string
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final

import msgspec

from weir import errors
from weir.client.api import Client, Unreachable
from weir.clock import RealClock
from weir.conformance.cleaning import clean, empty
from weir.conformance.features import offers, served_versions
from weir.conformance.isolation import documents_of, isolation_problem
from weir.conformance.live import Bridge, LiveCluster, RightsMissing, Stopped, wait_for_account
from weir.conformance.renaming import LABEL, Names, names_of, namespaces_of
from weir.conformance.results import Difference, Offer, Report, Result, Verdict
from weir.gates import ALL_FEATURES
from weir.install.checks import SELF_REVIEWS, listed, may
from weir.lowering.webhooks import MUTATING_CONFIGURATION
from weir.objects.kinds import NAMESPACES, NODES, by_kind, find_kind
from weir.observe.logs import Log
from weir.simulation.demo.play import Began, Ended, Pace, Passing, perform
from weir.simulation.demo.story import Story
from weir.simulation.kubelet.run import Hosts, Kubelets

Document = dict[str, Any]
MUTATING: Final = by_kind("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration")
AT_ONCE: Final = 12
#: Label of what the run's drivers publish, beside what stories publish themselves.
PUBLISHED: Final = "weir.dev/conformance-driver"
PACE: Final = Pace(
    tick=timedelta(seconds=1), live=True, late=timedelta(seconds=4), patience=timedelta(seconds=12)
)
#: Permissions needed to play stories: verb, group, resource.
_RIGHTS: Final = (
    ("create", "", "namespaces"), ("delete", "", "namespaces"), ("create", "", "nodes"), ("delete", "", "nodes"),
    ("patch", "", "nodes"), ("patch", "", "nodes/status"), ("create", "", "pods"), ("delete", "", "pods"),
    ("list", "", "pods"), ("watch", "", "pods"), ("patch", "", "pods/status"), ("list", "", "events"),
    ("create", "coordination.k8s.io", "leases"), ("update", "coordination.k8s.io", "leases"),
)  # fmt: skip


#: So many reasons fit into a message of weir's scheduler, beside those of the story itself.
FEW: Final = 6
LONG: Final = timedelta(minutes=4)


def compares_messages(story: Story) -> bool:
    """Return whether a story says what the scheduler must say of a pod that fits nowhere."""
    return any(
        isinstance(outcome.message, str)
        or any(event.startswith("FailedScheduling") for event in outcome.events)
        for step in story.steps
        for outcome in step.outcomes
    )


class Turns:
    """The order of a run."""

    def __init__(self, stories: Sequence[Story], at_once: int) -> None:
        self._at_once = at_once
        self._quiet = {number for number, story in enumerate(stories) if compares_messages(story)}
        self._waiting = sorted(
            range(len(stories)),
            key=lambda number: (
                stories[number].lasts_live < LONG,
                number not in self._quiet,
                -stories[number].lasts_live,
                number,
            ),
        )
        self._begun: list[int] = []

    def next(self, over: Collection[int]) -> list[int]:
        """Return the numbers of the stories that begin now, when those of *over* have ended."""
        begin: list[int] = []
        while self._waiting:
            playing = [number for number in self._begun if number not in over]
            quiet = self._waiting[0] in self._quiet or any(number in self._quiet for number in playing)
            if len(playing) >= (min(FEW, self._at_once) if quiet else self._at_once):
                break
            begin.append(self._waiting.pop(0))
            self._begun.append(begin[-1])
        return begin


@dataclass(frozen=True)
class Progress:
    """Where a run is, for an onlooker."""

    done: Sequence[Result]
    playing: Sequence[str]
    total: int


Onlooker = Callable[[Progress], None]


@dataclass
class _State:
    total: int
    look: Onlooker
    done: list[Result] = field(default_factory=list)
    playing: dict[str, str] = field(default_factory=dict)  # story → where it is

    def show(self) -> None:
        playing = [f"{name}: {where}" for name, where in list(self.playing.items())]
        self.look(Progress(tuple(self.done), playing, self.total))


class ConformanceRun:
    """One run of stories in one cluster."""

    def __init__(
        self,
        client: Client,
        cluster: str,
        *,
        at_once: int = AT_ONCE,
        pace: Pace = PACE,
        look: Onlooker = lambda progress: None,
    ) -> None:
        letters = string.ascii_lowercase + string.digits
        self.id = "".join(secrets.choice(letters) for _ in range(5))
        self._client, self._cluster, self._at_once, self._pace, self._look = (
            client,
            cluster,
            at_once,
            pace,
            look,
        )
        self._foreign_taints: tuple[str, ...] = ()
        self._versions: dict[str, str] = {}
        self._stock = False
        self._log = Log("weir.conformance")

    async def play(self, stories: Sequence[Story]) -> Report:
        """Return what each of *stories* comes to. What was made is gone then, also when this is cancelled."""
        began = time.monotonic()
        chosen = [story for story in stories if not isolation_problem(story)]
        version = str(msgspec.json.decode(await self._client.call("GET", "/version")).get("gitVersion"))
        missing = await self._missing_rights()
        if missing:
            results = [
                Result(s, Verdict.CANNOT_SAY, because=f"you may not {listed(missing)}") for s in chosen
            ]
            offered: dict[str, Offer] = {}
        else:
            try:
                offered = await self._detect(chosen, weir="+weir" in version)
                results = await self._play_all(chosen, offered)
            finally:
                await asyncio.shield(clean(self._client, self.id))
        not_played = tuple((story, why) for story in stories if (why := isolation_problem(story)))
        return Report(self._cluster, version, tuple(results), offered, not_played, time.monotonic() - began)

    async def _missing_rights(self) -> list[str]:
        missing = []
        for verb, group, resource in _RIGHTS:
            if not await may(self._client, SELF_REVIEWS, verb, group, resource, ""):
                missing.append(f"{verb} {resource}")
        return missing

    async def _detect(self, stories: Iterable[Story], *, weir: bool) -> dict[str, Offer]:
        """Return what the cluster offers; remember what its nodes and versions are like."""
        kinds = {
            (document["apiVersion"], document["kind"])
            for story in stories
            for document in documents_of(story)
        } | {("resource.k8s.io/v1", "DeviceTaintRule")}
        rows = [
            row for version, kind in kinds if (row := find_kind(version, kind)) and row.version != "v1alpha4"
        ]
        self._versions = await served_versions(self._client, rows)
        self._stock = await self._has_operator()
        self._foreign_taints = tuple(
            f"{taint['key']}: {taint.get('value', '')}"
            for node in (await self._client.list(NODES, label_selector=f"!{LABEL}")).documents()
            for taint in node["spec"].get("taints") or ()
        )
        probe = f"wc-{self.id}-probe"
        await self._client.create(NAMESPACES, {"metadata": {"name": probe, "labels": {LABEL: self.id}}})
        await wait_for_account(self._client, probe)
        needs = {need for story in stories for need in story.needs}
        return await offers(self._client, probe, needs, self._versions, stock=self._stock, weir=weir)

    async def _has_operator(self) -> bool:
        with suppress(errors.ApiError):
            return await self._client.find(MUTATING, MUTATING_CONFIGURATION) is not None
        return False

    async def _play_all(self, stories: Sequence[Story], offered: dict[str, Offer]) -> list[Result]:
        state = _State(len(stories), self._look)
        bridge = Bridge(self._client, asyncio.get_running_loop())
        hosts = Hosts(selector=f"{LABEL}={self.id}", marks={LABEL: self.id, PUBLISHED: "true"})
        kubelets = Kubelets(self._client, ALL_FEATURES, RealClock(), log=self._log, hosts=hosts)
        playing = asyncio.ensure_future(kubelets.run())
        tasks: dict[int, asyncio.Future[Result]] = {}
        with ThreadPoolExecutor(self._at_once, thread_name_prefix="story") as threads:
            try:
                turns = Turns(stories, self._at_once)
                while len(tasks) < len(stories) or not all(task.done() for task in tasks.values()):
                    over = {number for number, task in tasks.items() if task.done()}
                    for number in turns.next(over):
                        tasks[number] = bridge.loop.run_in_executor(
                            threads, self._play, bridge, stories[number], number, offered, state
                        )
                    state.show()
                    waiting: list[asyncio.Future[Any]] = [
                        playing,
                        *(task for task in tasks.values() if not task.done()),
                    ]
                    await asyncio.wait(waiting, timeout=0.5, return_when=asyncio.FIRST_COMPLETED)
                    if playing.done():
                        playing.result()
                state.show()
                return [await tasks[number] for number in range(len(stories))]
            finally:
                bridge.stop.set()
                await asyncio.gather(*tasks.values(), return_exceptions=True)
                playing.cancel()
                await asyncio.gather(playing, return_exceptions=True)

    def _play(
        self, bridge: Bridge, story: Story, number: int, offered: dict[str, Offer], state: _State
    ) -> Result:
        began = time.monotonic()
        if bridge.stop.is_set():
            raise Stopped
        result = _not_offered(story, offered) or self._play_one(bridge, story, number, state)
        state.playing.pop(story.name, None)
        done = replace(result, seconds=time.monotonic() - began)
        state.done.append(done)
        return done

    def _play_one(self, bridge: Bridge, story: Story, number: int, state: _State) -> Result:
        names = names_of(story, self.id, number, self._versions, stock=self._stock)
        live = LiveCluster(bridge, names, self._foreign_taints)
        outcomes, instead = 0, []
        try:
            live.open(namespaces_of(story))
            for moment in perform(story, live, self._pace, ready=live.wait_ready):
                where = story.steps.index(moment.step) + 1
                if isinstance(moment, Began | Passing):
                    left = round(story.lasts_live.total_seconds() - moment.at.total_seconds())
                    state.playing[story.name] = (
                        f"step {where} of {len(story.steps)}, about {max(left, 0)} s left"
                    )
                if isinstance(moment, Ended):
                    outcomes += len(moment.judged)
                    instead += _instead(moment)
        except RightsMissing as error:
            return Result(story, Verdict.CANNOT_SAY, outcomes, because=str(error))
        except Unreachable as error:
            return Result(story, Verdict.CANNOT_SAY, outcomes, because=f"the cluster did not answer: {error}")
        except errors.ApiError as error:
            instead.append(Difference("", "", f"refused: {error.message}"))
        except Stopped:
            raise
        except Exception as error:  # a fault of ours: the other stories are worth their minutes
            self._log.exception("a story could not be played", story=story.name)
            because = f"internal error: {type(error).__name__}: {error}"
            return Result(story, Verdict.CANNOT_SAY, outcomes, because=because)
        finally:
            live.close()
            self._leave(bridge, names)
        return Result(story, Verdict.FAILS if instead else Verdict.PASSES, outcomes, tuple(instead))

    def _leave(self, bridge: Bridge, names: Names) -> None:
        """Make room for the stories that follow; what is left of it goes at the end of the run."""
        with suppress(errors.ApiError, Unreachable, Stopped):
            bridge.do(leave(self._client, names))


async def leave(client: Client, names: Names) -> None:
    """Delete a story's namespaces with their pods, and its nodes, without waiting until they are gone."""
    for kind in (NAMESPACES, NODES):
        for each in (await client.list(kind, label_selector=f"{LABEL}={names.run}")).documents():
            name = each["metadata"]["name"]
            if not name.startswith(names.prefix):
                continue
            with suppress(errors.NotFound, errors.Conflict):
                await client.delete(kind, name, read=False)
            if kind is NAMESPACES:
                await empty(client, name)


def _not_offered(story: Story, offered: dict[str, Offer]) -> Result | None:
    lacking = [offered[need] for need in story.needs if need in offered and not offered[need].offered]
    if not lacking:
        return None
    unknown = [offer for offer in lacking if offer.offered is None]
    verdict = Verdict.CANNOT_SAY if unknown else Verdict.NOT_OFFERED
    return Result(story, verdict, because="; ".join(offer.says for offer in unknown or lacking))


def _instead(moment: Ended) -> list[Difference]:
    event = moment.step.event
    differences = [
        Difference(event, judged.outcome.about, difference)
        for judged in moment.judged
        for difference in judged.differences
    ]
    return [*differences, *(Difference(event, "", f"{event}: refused: {text}") for text in moment.unexpected)]
