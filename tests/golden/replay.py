"""Replay a folder of recorded exchanges, each area on a fresh server, and report what differs."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path

from tests.golden import eviction, kubectl, live
from tests.golden.arrange import Replay, times_of
from tests.golden.cluster import GATES_OFF, GATES_ON, START, Cluster
from tests.golden.recording import Evidence, Exchange, merged, read_area
from tests.golden.report import Report
from tests.golden.scheduling import SHOWS as SHOWN_BY_SCHEDULER
from tests.golden.scheduling import SchedulingReplay

SHOW_WORK = ("scheduling", "taint_eviction", "device_taint")  #: areas that are about what components do


async def replay_folder(
    folder: Path, context: Path | None = None, only: str = "", *, commands: bool = True
) -> Report:
    """Replay every area file of *folder*; *context* may hold more recordings of the same cluster.

    Recorded kubectl commands take a minute and a built kubectl; without *commands* they are left to
    tests/kubernetes/test_kubectl_recording.py.
    """
    report = Report()
    evidence = Evidence()
    files = sorted(file for file in folder.glob("*.json") if file.name != "index.json")
    areas = {file.stem: read_area(file) for file in files}
    more: dict[str, list[Exchange]] = {}
    if context is not None and context.is_dir() and context.resolve() != folder.resolve():
        more = {file.stem: read_area(file) for file in context.glob("*.json") if file.name != "index.json"}
    for exchanges in (*areas.values(), *more.values()):
        evidence.learn(exchanges)
    for area, exchanges in areas.items():
        if exchanges and (not only or area == only):
            report.add(await _area(area, exchanges, more.get(area, []), evidence))
    for file in files if commands else ():
        if (not only or file.stem == only) and kubectl.read_commands(file):
            with tempfile.TemporaryDirectory() as own:
                await kubectl.replay(file, Path(own), report, context / file.name if context else None)
    return report


async def _area(area: str, exchanges: list[Exchange], more: list[Exchange], evidence: Evidence) -> Report:
    """Replay one area; *more* are exchanges of the same recording that are not asked about."""
    recorded = [moment for exchange in exchanges for moment in times_of(exchange)]
    start = min(recorded) - timedelta(seconds=10) if recorded else START
    whole = merged(exchanges, more)
    lived: dict[str, list[str]] = {}
    shows: frozenset[str] = frozenset()
    if area == "taint_eviction" and eviction.NODE in {exchange.name for exchange in whole}:
        lived, shows = await eviction.answers(whole), eviction.SHOWS
    elif area == "scheduling":
        lived = await SchedulingReplay(evidence, whole, start).answers(exchanges)
        shows = SHOWN_BY_SCHEDULER
    elif area in live.STORIES:
        shows = live.STORIES[area].shows
        try:
            lived = await live.answers(area, whole, start)
        except Exception as error:  # a folder with other exchanges may tell another story
            lived = {
                name: [f"the story cannot be lived through: {type(error).__name__}: {error}"]
                for name in shows
            }
    if not shows <= {exchange.name for exchange in exchanges}:
        shows = frozenset()  # of a part of a recording nobody knows the order of the whole
    left = [exchange for exchange in exchanges if exchange.name not in shows or exchange.name not in lived]
    by_state = Report()
    if left:
        cluster = Cluster(GATES_OFF if area == "gate_off" else GATES_ON, start)
        await cluster.start()
        await Replay(cluster, evidence, exchanges).run(by_state)
    return settled(exchanges, by_state, lived, shows)


def settled(
    exchanges: list[Exchange], by_state: Report, lived: dict[str, list[str]], shows: frozenset[str]
) -> Report:
    """Return what counts: the living cluster's answer where a component's work is known to be shown, else either."""
    found = Report()
    for exchange in exchanges:
        name, wrong = f"{exchange.area}/{exchange.name}", lived.get(exchange.name)
        if wrong is None:
            found.tell(name, by_state.failed.get(name, []))
        elif exchange.name in shows or not wrong:
            found.tell(name, wrong)
        else:
            found.tell(name, by_state.failed.get(name, []))
            if (
                name not in by_state.failed
                and exchange.area in SHOW_WORK
                and exchange.request["method"] == "GET"
            ):
                found.kept[name] = wrong
    return found
