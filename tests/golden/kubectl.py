"""Run recorded kubectl commands against a fresh control plane, and compare what each asks for and what it prints.

A recording of this kind is an object with `commands`: arguments, stdin, the requests kubectl made (method, path,
status), what it printed, its exit code. The server, the scheduler and the controllers run in this process, on a real
clock and a real port; kubectl is the real program with a cold cache. What happened between two commands is not
recorded: an object the next command finds is put in place first, one it misses is taken away.
A command that only reads is asked again until the controllers are done, for a while.
Not here: what counts as the same (tests.golden.kubectl_compare).
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.e2e.kubectl import find_kubectls
from tests.golden.kubectl_compare import Command, Request, differences
from tests.golden.kubectl_state import Missing, Named, arrange, wanted_before
from tests.golden.report import Report
from weir.apiserver.build import Running, build
from weir.apiserver.options import Options, open_store
from weir.apiserver.run import serve
from weir.apiserver.transport import http
from weir.clock import RealClock
from weir.controllers.catalog import choose
from weir.controllers.nodes.lifecycle import NodeLifecycle
from weir.controllers.runtime.runner import Controllers
from weir.gates import KUBERNETES_DEFAULTS
from weir.scheduler.config import SchedulerConfig
from weir.scheduler.run import Scheduler
from weir.simulation.control_plane import local_client

GATES = KUBERNETES_DEFAULTS.replace({"TaintTolerationComparisonOperators": True})
RECORDED_WITH = (1, 37)
NO_KUBECTL = "a current kubectl (make kubernetes builds one, KUBERNETES_BIN names a folder with one)"
GRACE = timedelta(hours=1000)  #: nodes without a kubelet stay ready, as they did in the recording
QUIET_SECONDS = 0.3
PATIENCE_SECONDS = 60.0
COMMAND_SECONDS = 60.0
TAIL = 3  #: lines of stderr a recording keeps
VERBOSE = "-v=7"  #: as recorded: `drain` tells more, and a refusal is printed twice
LOGGED = re.compile(r"[IWEF]\d{4} |\s")  #: lines of kubectl's log and what belongs to them


def read_commands(file: Path) -> list[Command]:
    """Return the commands of a recording, none when the file is something else."""
    found = json.loads(file.read_text())
    if not isinstance(found, dict) or not isinstance(found.get("commands"), list):
        return []
    return [Command.of(each) for each in found["commands"]]


@dataclass
class Trace:
    """What a kubectl asked for, in the order in which it did."""

    requests: list[Request] = field(default_factory=list)
    accepted: set[str] = field(default_factory=set)

    def listen(self, running: Running) -> None:
        """Note every request of a kubectl, with the status it gets."""
        handle = running.server.handle

        async def noting(request: http.Request) -> http.Response | http.Stream:
            if not request.header(b"user-agent").startswith("kubectl"):
                return await handle(request)
            query = f"?{request.query}" if request.query else ""
            noted = Request(request.method, request.path + query, 0)
            self.requests.append(noted)
            self.accepted.add(request.header(b"accept"))
            answer = await handle(request)
            noted.status = 200 if answer.code == 304 else answer.code  # kubectl's own cache turns it into one
            return answer

        running.server.handle = noting  # type: ignore[method-assign]

    def take(self) -> tuple[list[Request], list[str]]:
        """Return what was noted, and begin anew."""
        found = self.requests, sorted(self.accepted)
        self.requests, self.accepted = [], set()
        return found


@asynccontextmanager
async def control_plane(folder: Path, trace: Trace) -> AsyncIterator[Running]:
    """Give a server that listens, with a scheduler and controllers beside it; no kubelets, as recorded."""
    clock = RealClock()
    options = Options(
        data_dir=folder,
        store="memory",
        secure_port=0,
        gates=GATES,
        authorization_modes=("AlwaysAllow",),
        kubeconfig=folder / "kubeconfig",
    )
    running = await build(options, await open_store(options, clock), clock)
    trace.listen(running)
    await serve(running, clock)
    config = SchedulerConfig(leader_elect=False)
    controllers = [*choose(["*", "-node-lifecycle"], GATES), NodeLifecycle(GATES, grace=GRACE)]
    parts = [
        Scheduler(local_client(running, clock, "kube-scheduler"), GATES, clock, config=config),
        Controllers(local_client(running, clock, "kube-controller-manager"), clock, controllers),
    ]
    tasks = [asyncio.ensure_future(part.run()) for part in parts]
    try:
        yield running
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await running.stop()


class KubectlReplay:
    """One recording on one control plane."""

    def __init__(self, program: str, folder: Path, running: Running, trace: Trace) -> None:
        self._program, self._folder, self._running, self._trace = program, folder, running, trace
        self._client = local_client(running, RealClock(), "arranging")
        self._manifests: dict[Named, dict[str, Any]] = {}
        (folder / "home").mkdir(exist_ok=True)

    def know(self, commands: list[Command]) -> None:
        """Learn the objects that commands which are not run were given."""
        for command in commands:
            if command.exit_code == 0:
                self._manifests.update(command.manifests())

    async def run(self, commands: list[Command]) -> dict[str, list[str]]:
        """Return what is wrong with each command, nothing where all is as recorded."""
        found = {}
        if not starts_cold(commands):
            await self._run(WARMING)
        for number, command in enumerate(commands):
            name = f"{number:02d} kubectl {' '.join(command.arguments)}"
            found[name] = await self._command(command)
        return found

    async def _command(self, command: Command) -> list[str]:
        before = wanted_before(command)
        if command.exit_code == 0:
            self._manifests.update(command.manifests())
        try:
            await arrange(self._client, before, self._manifests, command)
        except Missing as error:
            return [str(error)]
        await self._quiet()
        cache, kept = self._folder / "home", self._folder / "home-before"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(cache, kept)
        deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while True:
            wrong = differences(command, await self._run(command))
            late = asyncio.get_running_loop().time() > deadline
            if not wrong or not command.reads_only or late:
                return wrong
            await asyncio.sleep(QUIET_SECONDS)
            shutil.rmtree(cache)
            shutil.copytree(kept, cache)

    async def _run(self, command: Command) -> Command:
        """Return what this kubectl does now with the recorded arguments."""
        self._trace.take()
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._folder / "home"),
            "KUBECONFIG": str(self._folder / "kubeconfig"),
        }
        process = await asyncio.create_subprocess_exec(
            self._program,
            *command.arguments,
            VERBOSE,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(command.stdin.encode()), COMMAND_SECONDS)
        except TimeoutError:
            process.kill()
            out, err = b"", f"kubectl did not end within {COMMAND_SECONDS:.0f} s".encode()
        requests, accepted = self._trace.take()
        lines = [line for line in err.decode().splitlines() if not LOGGED.match(line)]
        return Command(
            command.arguments,
            command.stdin,
            requests,
            accepted,
            process.returncode or 0,
            out.decode(),
            lines[-TAIL:],
        )

    async def _quiet(self) -> None:
        """Return once nobody has written anything for a moment."""
        store, loop = self._running.store, asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_SECONDS
        seen, since = store.revision, loop.time()
        while loop.time() - since < QUIET_SECONDS and loop.time() < deadline:
            await asyncio.sleep(0.02)
            if store.revision != seen:
                seen, since = store.revision, loop.time()


WARMING = Command(["api-resources"], "", [], [], 0, "", [])


def starts_cold(commands: list[Command]) -> bool:
    """Return whether the first command that asks for objects had to learn first what the server has."""
    for command in commands:
        paths = [request.path for request in command.requests]
        if any(path.startswith(("/api/", "/apis/")) for path in paths):
            return any(path.startswith("/api?") for path in paths)
    return True


def current_kubectl() -> str | None:
    """Return the kubectl that recordings are compared with: one of the version they were made with."""
    return next((program.path for program in find_kubectls() if program.version == RECORDED_WITH), None)


async def replay(file: Path, folder: Path, report: Report, context: Path | None = None) -> None:
    """Run the commands of *file* and tell *report*; *folder* is for what kubectl and the server keep.

    *context* may be another part of the same recording, which knows manifests this one does not show.
    """
    commands = read_commands(file)
    program = current_kubectl()
    if program is None:
        names = [f"{file.stem}/{' '.join(command.arguments)}" for command in commands]
        report.waiting.setdefault(NO_KUBECTL, []).extend(names)
        return
    trace = Trace()
    async with control_plane(folder, trace) as running:
        replaying = KubectlReplay(program, folder, running, trace)
        if context is not None and context.exists():
            replaying.know(read_commands(context))
        found = await replaying.run(commands)
    for name, wrong in found.items():
        if wrong:
            report.failed[f"{file.stem}/{name}"] = wrong
        else:
            report.passed.append(f"{file.stem}/{name}")
