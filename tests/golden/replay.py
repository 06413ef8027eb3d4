"""Replay a folder of recorded exchanges, each area on a fresh server, and report what differs."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path

from tests.golden import eviction, kubectl
from tests.golden.arrange import Replay, times_of
from tests.golden.cluster import GATES_OFF, GATES_ON, START, Cluster
from tests.golden.recording import Evidence, read_area
from tests.golden.report import Report
from tests.golden.scheduling import SchedulingReplay


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
    for exchanges in areas.values():
        evidence.learn(exchanges)
    if context is not None and context.is_dir() and context.resolve() != folder.resolve():
        for file in sorted(context.glob("*.json")):
            if file.name != "index.json":
                evidence.learn(read_area(file))
    for area, exchanges in areas.items():
        if not exchanges or (only and area != only):
            continue
        if area == "taint_eviction":
            await eviction.replay(exchanges, report)
            continue
        recorded = [moment for exchange in exchanges for moment in times_of(exchange)]
        start = min(recorded) - timedelta(seconds=10) if recorded else START
        if area == "scheduling":
            await SchedulingReplay(evidence, exchanges, start).run(report)
            continue
        cluster = Cluster(GATES_OFF if area == "gate_off" else GATES_ON, start)
        await cluster.start()
        await Replay(cluster, evidence, exchanges).run(report)
    for file in files if commands else ():
        if (not only or file.stem == only) and kubectl.read_commands(file):
            with tempfile.TemporaryDirectory() as own:
                await kubectl.replay(file, Path(own), report)
    return report
